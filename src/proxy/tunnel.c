/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/tunnel.h"

#include "base/limits.h"
#include "net/lifetime.h"
#include "net/stream.h"

/* One direction; `from` is read, the other side's `from` is written. */
struct half {
    struct tunnel *tunnel;
    struct stream *from;
    struct half *other;
    uint64_t bytes; /* moved from here */
    bool ended;     /* `from` sent its end, and all before it was handed on */
};

/* Nobody tells when the last byte has left: looked at so often once a side has ended, and less often later. */
enum { LOOK_FIRST_MS = 50, LOOK_LAST_MS = 1600 };

struct tunnel {
    struct lifetime life;
    struct loop *loop;
    struct loop_timer *look_timer;
    struct half client, server;
    size_t left;       /* when it was looked at last */
    uint64_t moved;    /* likewise, in both directions */
    uint64_t still_ms; /* since when both are so much */
    uint64_t look_ms;  /* 0: no side has ended, or one more now */
    tunnel_done_fn *done;
    void *arg;
};

static void release(void *arg)
{
    mem_free(arg);
}

static void finish(struct tunnel *t, enum stream_close_how how, const char *reason)
{
    if (lifetime_over(&t->life))
        return;
    stream_close(t->client.from, how);
    stream_close(t->server.from, how);
    lifetime_retire(&t->life, release, t);
    if (t->done != NULL)
        t->done(t->arg, t->client.bytes, t->server.bytes, reason);
}

/* Moves what waits, until the other side is congested. False when the tunnel has ended. */
static bool pump(struct half *h)
{
    struct slice data = stream_peek(h->from);

    while (data.n > 0) {
        if (stream_congested(h->other->from)) {
            stream_pause(h->from, STREAM_PAUSE_BODY);
            return true;
        }
        if (!stream_write(h->other->from, data)) {
            finish(h->tunnel, STREAM_CLOSE_ABORT, "write failed");
            return false;
        }
        h->bytes += data.n;
        stream_consume(h->from, data.n);
        data = stream_peek(h->from);
    }
    if (h->ended)
        stream_finish_writing(h->other->from);
    return true;
}

static bool all_sent(const struct half *h)
{
    return stream_input_len(h->from) == 0 && stream_unsent(h->from) == 0;
}

/* What the other side's machine has not taken yet, wherever it waits. */
static size_t left_of(const struct half *h)
{
    return stream_input_len(h->from) + stream_unacknowledged(h->from);
}

/*
 * stream_close() gives what is unsent two seconds, which would cut the end of an output whose reader is slow or has
 * paused, so the streams stay until all is sent. A reader that is gone fails them. Of a tunnel that is still open in
 * one direction, as of one that waits for a reader alone, something must move within TIMEOUT_BODY_STALL_MS:
 * kube-apiserver would end it with the first end.
 */
static void look(void *arg)
{
    struct tunnel *t = arg;
    uint64_t now = loop_now_ms(t->loop), moved = t->client.bytes + t->server.bytes;
    size_t left = left_of(&t->client) + left_of(&t->server);
    bool both = t->client.ended && t->server.ended;

    if (both && all_sent(&t->client) && all_sent(&t->server)) {
        finish(t, STREAM_CLOSE_FLUSH, "both sides ended");
        return;
    }
    if (t->look_ms == 0 || left != t->left || moved != t->moved) {
        t->left = left;
        t->moved = moved;
        t->still_ms = now;
    }
    if (now - t->still_ms >= TIMEOUT_BODY_STALL_MS) {
        finish(t, STREAM_CLOSE_ABORT, left > 0 ? "reader takes nothing" : "nothing moves after one side's end");
        return;
    }
    t->look_ms = t->look_ms == 0 ? LOOK_FIRST_MS : t->look_ms < LOOK_LAST_MS ? 2 * t->look_ms : LOOK_LAST_MS;
    loop_timer_set(t->look_timer, t->look_ms);
}

static void on_end(struct half *h)
{
    h->ended = true;
    h->tunnel->look_ms = 0;
    if (pump(h))
        look(h->tunnel);
}

static void on_event(struct stream *s, enum stream_event ev, void *arg)
{
    struct half *h = arg;

    switch (ev) {
    case STREAM_OPENED:
        break;
    case STREAM_READABLE:
        (void)pump(h);
        break;
    case STREAM_WRITABLE: /* this side takes bytes again: the other may be read */
        stream_resume(h->other->from, STREAM_PAUSE_BODY);
        if (pump(h->other) && h->other->ended && h->ended && all_sent(h) && all_sent(h->other))
            look(h->tunnel);
        break;
    case STREAM_EOF:
        on_end(h);
        break;
    case STREAM_FAILED:
        (void)s;
        finish(h->tunnel, STREAM_CLOSE_ABORT, h == &h->tunnel->client ? "client failed" : "server failed");
        break;
    }
}

struct tunnel *tunnel_start(struct loop *l, struct stream *client, struct stream *server, tunnel_done_fn *done,
                            void *arg)
{
    struct tunnel *t = mem_zalloc(sizeof(*t));

    if (t != NULL) {
        lifetime_init(&t->life, l, "tunnel");
        t->look_timer = lifetime_timer(&t->life, look, t);
    }
    if (t == NULL || t->look_timer == NULL) {
        if (t != NULL)
            lifetime_retire(&t->life, release, t);
        stream_close(client, STREAM_CLOSE_ABORT);
        stream_close(server, STREAM_CLOSE_ABORT);
        return NULL;
    }
    t->loop = l;
    t->done = done;
    t->arg = arg;
    t->client = (struct half){.tunnel = t, .from = client, .other = &t->server};
    t->server = (struct half){.tunnel = t, .from = server, .other = &t->client};
    /* Whoever made the server's side necessary holds both. */
    stream_charge_along(client, server);
    stream_set_owner(client, on_event, &t->client);
    stream_set_owner(server, on_event, &t->server);
    /* Whoever held them may have paused them for reasons that are over. */
    stream_resume(client, ~0U);
    stream_resume(server, ~0U);
    return t;
}

void tunnel_cancel(struct tunnel *t)
{
    t->done = NULL;
    finish(t, STREAM_CLOSE_ABORT, "cancelled");
}
