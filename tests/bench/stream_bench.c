/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much CPU an exchange costs on net/stream alone: clients and server in one process, so every figure holds both
 * sides, two crossings of the kernel included.
 *
 *   stream_bench [SECONDS [CONNECTIONS [plain|tls]]]
 *
 * It needs top_srcdir and top_builddir as the tests do
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "lib/tap.h"
#include "unit/net/fixture.h"

enum { REQUEST_BYTES = 200, MAX_CONNECTIONS = 1000 };

struct side {
    struct stream *s;
    size_t want; /* bytes until the message is complete */
    size_t got;
    struct slice reply; /* what answers a complete message */
    uint64_t *done;     /* counts complete messages; NULL on the server */
};

static char payload[1 << 20];

/* Head and body apart, as a proxy has them. */
static void answer(struct side *e)
{
    struct slice head = slice_of(e->reply.p, 150);

    stream_write(e->s, head);
    stream_write(e->s, slice_from(e->reply, head.n));
}

static void on_side(struct stream *s, enum stream_event ev, void *arg)
{
    struct side *e = arg;
    struct slice in;

    if (ev == STREAM_FAILED || ev == STREAM_EOF)
        tap_bail("a stream ended: %s", stream_failure(s));
    if (ev == STREAM_OPENED && e->done != NULL)
        answer(e);
    while (ev == STREAM_READABLE && (in = stream_peek(s)).n > 0) {
        size_t n = in.n < e->want - e->got ? in.n : e->want - e->got;

        stream_consume(s, n);
        e->got += n;
        if (e->got < e->want)
            continue;
        e->got = 0;
        if (e->done != NULL)
            ++*e->done;
        answer(e);
    }
}

static double cpu_us(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e6 + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static void run(const char *name, bool tls, size_t body, uint64_t seconds, size_t connections)
{
    static struct side clients[MAX_CONNECTIONS], servers[MAX_CONNECTIONS];
    struct loop *l = loop_new(NULL);
    struct tls_ctx *sctx = tls ? server_ctx(false) : NULL;
    struct tls_ctx *cctx = tls ? client_ctx(NULL, false) : NULL;
    uint64_t done = 0;
    uint64_t start, end;
    double cpu;

    for (size_t i = 0; i < connections; i++) {
        struct end client = {.discard = true};
        struct end server = {.discard = true};

        pair_open(l, &client, &server, cctx, sctx);
        clients[i] = (struct side){client.s, body, 0, slice_of(payload, REQUEST_BYTES), &done};
        servers[i] = (struct side){server.s, REQUEST_BYTES, 0, slice_of(payload, body), NULL};
        stream_set_owner(client.s, on_side, &clients[i]);
        stream_set_owner(server.s, on_side, &servers[i]);
    }
    for (size_t i = 0; i < connections; i++)
        answer(&clients[i]);
    start = clock_us();
    cpu = cpu_us();
    end = start + seconds * 1000000;
    done = 0;
    while (clock_us() < end)
        loop_run_once(l, 10);
    cpu = cpu_us() - cpu;
    printf("%-6s %7zu bytes: %6.2f us of CPU per exchange, %.0f per second\n", name, body, cpu / (double)done,
           (double)done * 1e6 / (double)(clock_us() - start));
    for (size_t i = 0; i < connections; i++) {
        stream_close(clients[i].s, STREAM_CLOSE_ABORT);
        stream_close(servers[i].s, STREAM_CLOSE_ABORT);
    }
    loop_free(l);
    tls_ctx_unref(sctx);
    tls_ctx_unref(cctx);
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {1 << 10, 100 << 10};
    uint64_t seconds = argc > 1 ? strtoull(argv[1], NULL, 10) : 3;
    size_t connections = argc > 2 ? strtoull(argv[2], NULL, 10) : 32;

    if (connections == 0 || connections > MAX_CONNECTIONS)
        tap_bail("1 to %d connections", MAX_CONNECTIONS);
    for (int tls = 0; tls < 2; tls++)
        for (size_t i = 0; i < ROWS(sizes); i++)
            if (argc <= 3 || strcmp(argv[3], tls ? "tls" : "plain") == 0)
                run(tls ? "tls" : "plain", tls, sizes[i], seconds, connections);
    return 0;
}
