/* SPDX-License-Identifier: Apache-2.0 */
/* Streams that are closed with bytes still to send: whatever ends them, nothing of them is left. */
#include <fcntl.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "lib/tap.h"
#include "net/stream_internal.h"
#include "net/tls_internal.h"
#include "unit/net/fixture.h"

struct story {
    struct loop *l;
    struct end client, server;
    struct tls_ctx *cctx, *sctx; /* NULL: plain */
    unsigned refs;               /* of sctx, before */
    unsigned closed;
};

static void on_closed(void *arg)
{
    ((struct story *)arg)->closed++;
}

/* So that little is enough. */
static void shrink(const struct stream *s, int option)
{
    int bytes = 128 << 10; /* less than two segments of the loopback takes its time */

    if (setsockopt(s->fd, SOL_SOCKET, option, &bytes, sizeof(bytes)) != 0)
        tap_bail("setsockopt");
}

/* The server has written more than the kernel takes, and the client reads none of it. */
static void begin(struct story *s, struct loop *l, bool tls)
{
    static char zeroes[64 << 10];

    *s = (struct story){.l = l, .client.discard = true, .server.discard = true};
    if (tls) {
        s->cctx = client_ctx(NULL, false);
        s->sctx = server_ctx(false);
        s->refs = s->sctx->refs;
    }
    pair_open(l, &s->client, &s->server, s->cctx, s->sctx);
    stream_pause(s->client.s, STREAM_PAUSE_BODY);
    shrink(s->client.s, SO_RCVBUF);
    shrink(s->server.s, SO_SNDBUF);
    stream_on_closed(s->server.s, on_closed, s);
    while (stream_unsent(s->server.s) == 0 && stream_write(s->server.s, slice_of(zeroes, sizeof(zeroes))))
        settle(l);
    ok(stream_unsent(s->server.s) > 0, "%s: the kernel takes no more", tls ? "TLS" : "plain");
}

/* Without TLS it is the leak checker of the sanitizers that would see what is left. */
static void end(struct story *s, const char *what)
{
    ok(run_until(s->l, s->closed == 1), "%s: the descriptor is closed", what);
    settle(s->l);
    if (s->sctx != NULL)
        is_u64(s->sctx->refs, s->refs, "%s: and the stream is freed", what);
    end_release(&s->client);
    end_release(&s->server);
    settle(s->l);
    tls_ctx_unref(s->cctx);
    tls_ctx_unref(s->sctx);
}

static void test_reset(struct loop *l, bool tls)
{
    struct story s;

    begin(&s, l, tls);
    stream_close(s.server.s, STREAM_CLOSE_FLUSH);
    s.server.s = NULL;
    settle(l);
    stream_close(s.client.s, STREAM_CLOSE_ABORT);
    s.client.s = NULL;
    end(&s, "the other side resets");
}

static void test_ended_before(struct loop *l, bool tls)
{
    struct story s;
    uint64_t all;

    begin(&s, l, tls);
    stream_finish_writing(s.client.s);
    ok(run_until(l, s.server.seen[STREAM_EOF] == 1), "the other side says no more");
    all = stream_bytes_out(s.server.s);
    stream_close(s.server.s, STREAM_CLOSE_FLUSH);
    s.server.s = NULL;
    settle(l);
    stream_resume(s.client.s, STREAM_PAUSE_BODY);
    ok(run_until(l, s.client.seen[STREAM_EOF] + s.client.seen[STREAM_FAILED] == 1), "but reads until the end");
    /* On a machine that stood still for TIMEOUT_LINGER_MS the rest was not waited for. */
    ok(s.client.got_bytes == all || s.client.seen[STREAM_FAILED] == 1, "all that was written");
    end(&s, "all is sent, and the other side had ended");
}

/* Takes all that ends have of a turn. */
static void take_part(void *arg)
{
    uint64_t end = clock_us() + BULK_TURN_US;

    (void)arg;
    while (clock_us() < end)
        ;
}

/* A thousand that end at once are not all closed in one turn. */
static void test_part_of_a_turn(struct loop *l, bool tls)
{
    struct loop_deferred dear = {.fn = NULL};
    struct story s;
    int fd;

    begin(&s, l, tls);
    fd = s.server.s->fd;
    stream_close(s.server.s, STREAM_CLOSE_ABORT);
    s.server.s = NULL;
    loop_queue(l, LOOP_CLOSING, &dear, take_part, NULL);
    loop_run_once(l, 0); /* the stream waits behind it from the end of this turn on */
    ok(fcntl(fd, F_GETFD) >= 0 && s.closed == 0, "a stream that has ended waits while others have their part");
    loop_run_once(l, 10000);
    ok(fcntl(fd, F_GETFD) < 0 && s.closed == 1, "and is closed when they have had it");
    end(&s, "in its turn");
}

int main(void)
{
    struct loop *l = loop_new(NULL);

    for (int tls = 0; tls <= 1; tls++) {
        test_reset(l, tls);
        test_ended_before(l, tls);
        test_part_of_a_turn(l, tls);
    }
    loop_free(l);
    return tap_end();
}
