/* A request's life, again and again, each time with another allocation failing: no crash, no leak, no hang. */
#include "net/loop.h"
#include "unit/proxy/world.h"

#include <stdio.h>

#define V2 "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

struct story {
    const char *name, *request, *answer, *done;
    bool peer, refuses, leaves;
};

static const struct story stories[] = {
    {.name = "forwarded",
     .request = "POST " PODS " HTTP/1.1\r\nHost: k\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
     .answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-T: 1\r\n\r\n",
     .done = "ok"},
    {.name = "rerouted",
     .request = "GET " JOBS " HTTP/1.1\r\nHost: k\r\nX-Forwarded-For: 10.1.1.1\r\n\r\n",
     .answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
     .done = "ok",
     .peer = true},
    {.name = "no peer left", .request = "GET " JOBS " HTTP/1.1\r\nHost: k\r\n\r\n", .done = "503", .refuses = true},
    {.name = "discovery",
     .request = "GET /apis?pretty=1 HTTP/1.1\r\nHost: k\r\nAccept: " V2 "\r\n\r\n",
     .answer = "HTTP/1.1 304 Not Modified\r\n\r\n",
     .done = "jobs"},
    {.name = "upgraded",
     .request = "GET " PODS "/x/exec HTTP/1.1\r\nHost: k\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n",
     .answer = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\nok",
     .done = "ok"},
};

/* A request that failed may come again, on another connection. */
static size_t answer_all(struct server *server, size_t answered, const char *answer)
{
    for (; answer != NULL && answered < server->n_conns; answered++) {
        struct side *s = &server->conns[answered];

        if (!s->failed && !s->eof && !got(s, "\r\n\r\n"))
            break;
        say(s, answer);
    }
    return answered;
}

/* True if all went as without failures. */
static bool play(struct world *w, const struct story *st, uint64_t fail_at, uint64_t *calls)
{
    struct server *server = st->peer ? &w->peers[0] : &w->local;
    struct side *c;
    bool over = false, whole;
    size_t answered = 0;
    uint64_t before;

    c = client(w);
    before = mem_calls();
    mem_fail_nth(fail_at);
    say(c, st->request);
    for (unsigned i = 0; i < 1000 && !over; i++) {
        loop_run_once(w->loop, 2);
        answered = answer_all(server, answered, st->answer);
        over = c->eof || c->failed || got(c, st->done) || got(c, "503 ");
    }
    mem_fail_nth(0);
    *calls = mem_calls() - before;
    ok(over, "%s, %llu: it ended", st->name, (unsigned long long)fail_at);
    whole = got(c, st->done);
    hang_up(c, STREAM_CLOSE_ABORT);
    return whole;
}

static void torture(const struct story *st)
{
    uint64_t calls = 1, ignored;
    unsigned failed = 0;

    for (uint64_t n = 0; n <= calls; n++) {
        struct world w;
        bool whole;

        world_init(&w, 1);
        w.short_of_memory = true;
        w.peers[0].refuse = st->refuses;
        world_start(&w);
        whole = play(&w, st, n, n == 0 ? &calls : &ignored);
        if (n == 0)
            ok(whole, "%s: with all memory it works", st->name);
        failed += !whole;
        world_close(&w);
    }
    diag("%s: %llu allocations, %u failures seen by the client", st->name, (unsigned long long)calls, failed);
}

int main(void)
{
    for (size_t i = 0; i < ROWS(stories); i++)
        torture(&stories[i]);
    return tap_end();
}
