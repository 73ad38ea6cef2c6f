/* SPDX-License-Identifier: Apache-2.0 */
/* A connection's whole life, again and again, each time with another allocation failing: no crash, no leak, no hang. */
#include <unistd.h>

#include "lib/tap.h"
#include "unit/net/fixture.h"

enum { BYTES = 40000 };

struct scene {
    struct loop *l;
    struct tls_ctx *sctx, *cctx;
    struct listener *listener;
    struct end client, server;
    bool dialled, over;
};

static bool ended(const struct end *e)
{
    return e->s == NULL || e->seen[STREAM_FAILED] > 0 || e->seen[STREAM_EOF] > 0;
}

static void on_accept(int fd, void *arg)
{
    struct scene *sc = arg;
    struct stream_opts o = {.fn = end_fn, .arg = &sc->server, .tls = sc->sctx};

    if (sc->server.s != NULL) {
        close(fd);
        return;
    }
    sc->server.s = stream_accept(sc->l, fd, &o);
    sc->over |= sc->server.s == NULL;
}

static void on_dialled(struct stream *s, const char *failure, void *arg)
{
    struct scene *sc = arg;

    sc->dialled = true;
    sc->over |= s == NULL;
    if (s == NULL) {
        ok(failure != NULL && failure[0] != '\0', "a failed dial has a reason");
        return;
    }
    sc->client.s = s;
    stream_set_owner(s, end_fn, &sc->client);
    pump(&sc->client);
}

/* True if everything went well. */
static bool play(struct scene *sc)
{
    struct dial_opts o = {
        .host = "127.0.0.1", .port = listener_port(sc->listener), .tls = sc->cctx, .timeout_ms = 5000};
    uint64_t give_up = deadline();
    struct dial *d;
    bool whole;

    sc->dialled = sc->over = false;
    sc->client = (struct end){.loop = sc->l, .discard = true, .check = true, .send_left = BYTES, .finish_after = true};
    sc->server = (struct end){.loop = sc->l, .discard = true, .echo = true};
    d = dial_start(sc->l, &o, on_dialled, sc);
    if (d == NULL)
        return false;
    while (!sc->over && sc->client.got_bytes < BYTES && !passed(give_up)) {
        loop_run_once(sc->l, 10);
        if (sc->dialled && (ended(&sc->client) || sc->server.seen[STREAM_FAILED] > 0))
            break;
    }
    whole = sc->client.got_bytes == BYTES && !sc->client.mismatch;
    if (!sc->dialled)
        dial_cancel(d);
    if (sc->client.s != NULL)
        stream_close(sc->client.s, STREAM_CLOSE_FLUSH);
    if (sc->server.s != NULL)
        stream_close(sc->server.s, STREAM_CLOSE_FLUSH);
    sc->client.s = sc->server.s = NULL;
    ok(!passed(give_up), "it ended");
    end_release(&sc->client);
    end_release(&sc->server);
    settle(sc->l);
    return whole;
}

int main(void)
{
    struct scene sc = {.l = loop_new(NULL), .sctx = server_ctx(false)};
    struct err err = {""};
    uint64_t before, calls;
    unsigned whole = 0;

    sc.cctx = client_ctx("alice", false);
    sc.listener = listener_open(sc.l, "127.0.0.1", 0, on_accept, &sc, &err);
    before = mem_calls();
    ok(play(&sc), "with memory enough everything works");
    calls = mem_calls() - before;
    ok(calls > 10, "and takes %llu allocations", (unsigned long long)calls);
    for (uint64_t n = 1; n <= calls; n++) {
        mem_fail_nth(n);
        whole += play(&sc);
        mem_fail_nth(0);
        ok(play(&sc), "after the failure of allocation %llu things work again", (unsigned long long)n);
    }
    ok(whole < calls, "failures had consequences (%u of %llu went through)", whole, (unsigned long long)calls);
    listener_close(sc.listener);
    loop_free(sc.l);
    tls_ctx_unref(sc.sctx);
    tls_ctx_unref(sc.cctx);
    return tap_end();
}
