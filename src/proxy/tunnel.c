#include "proxy/tunnel.h"

#include "net/loop.h"
#include "net/stream.h"

/* One direction; `from` is read, the other side's `from` is written. */
struct half {
    struct tunnel *tunnel;
    struct stream *from;
    struct half *other;
    uint64_t bytes; /* moved from here */
    bool ended;     /* `from` sent its end, and all before it was handed on */
};

/* Nobody tells when the last byte has left: looked at so often once both sides have ended. */
enum { TUNNEL_FLUSH_LOOK_MS = 100 };

struct tunnel {
    struct loop *loop;
    struct loop_timer *flush_look;
    struct half client, server;
    tunnel_done_fn *done;
    void *arg;
    struct loop_deferred release;
    bool over;
};

static void release(void *arg)
{
    struct tunnel *t = arg;

    loop_timer_free(t->flush_look);
    mem_free(t);
}

static void finish(struct tunnel *t, enum stream_close_how how, const char *reason)
{
    if (t->over)
        return;
    t->over = true;
    loop_timer_cancel(t->flush_look);
    stream_close(t->client.from, how);
    stream_close(t->server.from, how);
    loop_defer(t->loop, &t->release, release, t);
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

/*
 * Both sides have ended. stream_close() gives what is unsent two seconds, which would cut the end of an output whose
 * reader is slow or has paused, so the streams stay until all is sent. A reader that is gone fails them.
 */
static void end_when_sent(void *arg)
{
    struct tunnel *t = arg;

    if (stream_unsent(t->client.from) > 0 || stream_unsent(t->server.from) > 0)
        loop_timer_set(t->flush_look, TUNNEL_FLUSH_LOOK_MS);
    else
        finish(t, STREAM_CLOSE_FLUSH, "both sides ended");
}

static void on_end(struct half *h)
{
    h->ended = true;
    if (!pump(h))
        return;
    if (h->other->ended && stream_input_len(h->from) == 0 && stream_input_len(h->other->from) == 0)
        end_when_sent(h->tunnel);
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
        if (pump(h->other) && h->other->ended && h->ended)
            on_end(h->other);
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
    struct loop_timer *timer = t == NULL ? NULL : loop_timer_new(l, end_when_sent, t);

    if (timer == NULL) {
        mem_free(t);
        stream_close(client, STREAM_CLOSE_ABORT);
        stream_close(server, STREAM_CLOSE_ABORT);
        return NULL;
    }
    t->loop = l;
    t->flush_look = timer;
    t->done = done;
    t->arg = arg;
    t->client = (struct half){.tunnel = t, .from = client, .other = &t->server};
    t->server = (struct half){.tunnel = t, .from = server, .other = &t->client};
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
