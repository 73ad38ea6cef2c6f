/* SPDX-License-Identifier: Apache-2.0 */
#include "net/relay.h"

#include <sys/socket.h>
#include <unistd.h>

#include "base/state.h"
#include "net/lifetime.h"
#include "net/loop_internal.h"
#include "net/stream_internal.h"

/* One direction: what `from` says goes to the other side's `from`. */
struct side {
    struct relay *relay;
    struct stream *from;
    struct side *other;
    bool ended;
};

enum relay_state {
    RELAY_CARRYING,
    RELAY_FLUSHING, /* the inner stream is closed: what it left behind goes out, at most for TIMEOUT_LINGER_MS */
    RELAY_OVER,
};

struct relay {
    struct loop *loop;
    struct lifetime life;
    enum relay_state state;
    struct side near, far;
    struct stream *user; /* the inner stream, until it is closed */
    struct loop_timer *timer;
    struct lifetime_work exit_work;
};

static const char *const state_names[] = {
    [RELAY_CARRYING] = "carrying", [RELAY_FLUSHING] = "flushing", [RELAY_OVER] = "over"};
static const uint32_t next_states[] = {
    [RELAY_CARRYING] = STATE(RELAY_FLUSHING) | STATE(RELAY_OVER),
    [RELAY_FLUSHING] = STATE(RELAY_OVER),
    [RELAY_OVER] = 0,
};
static const struct state_table states = STATE_TABLE("relay", state_names, next_states);

static void move(struct relay *r, enum relay_state to)
{
    state_move(&states, &r->state, to);
}

static void free_relay(void *arg)
{
    mem_free(arg);
}

static void finish(struct relay *r, enum stream_close_how far, enum stream_close_how near)
{
    if (r->state == RELAY_OVER)
        return;
    move(r, RELAY_OVER);
    if (r->user != NULL)
        stream_carrier_lost(r->user, NULL);
    stream_close(r->far.from, far);
    stream_close(r->near.from, near);
    lifetime_retire(&r->life, free_relay, r);
}

static void abort_work(void *arg)
{
    finish(arg, STREAM_CLOSE_ABORT, STREAM_CLOSE_ABORT);
}

/* False when the relay has ended. */
static bool pump(struct side *h)
{
    struct stream *to = h->other->from;
    struct slice data;

    while ((data = stream_peek(h->from)).n > 0) {
        if (h == &h->relay->far && h->relay->state == RELAY_FLUSHING) {
            stream_consume(h->from, data.n); /* nobody is left to read it */
            continue;
        }
        if (stream_congested(to)) {
            stream_pause(h->from, STREAM_PAUSE_BODY);
            return true;
        }
        if (!stream_write(to, data))
            return true; /* FAILED follows, and says why */
        stream_consume(h->from, data.n);
    }
    if (!h->ended)
        return true;
    if (h == &h->relay->near && h->relay->state == RELAY_FLUSHING) {
        finish(h->relay, STREAM_CLOSE_FLUSH, STREAM_CLOSE_NOW);
        return false;
    }
    stream_finish_writing(to);
    return true;
}

static void on_failed(struct side *h)
{
    struct relay *r = h->relay;

    if (h == &r->far) {
        /* What had come before is still told, as if it waited in a socket. */
        if (r->user != NULL)
            stream_carrier_lost(r->user, stream_failure(h->from));
        r->user = NULL;
        finish(r, STREAM_CLOSE_ABORT, STREAM_CLOSE_FLUSH);
    } else if (r->user != NULL) {
        /* The inner stream is alive, so this is ours. */
        stream_carrier_lost(r->user, stream_failure(h->from));
        r->user = NULL;
        finish(r, STREAM_CLOSE_ABORT, STREAM_CLOSE_ABORT);
    } else {
        h->ended = true; /* closed with something unread: for us an end like any other */
        (void)pump(h);
    }
}

static void on_event(struct stream *s, enum stream_event ev, void *arg)
{
    struct side *h = arg;

    (void)s;
    switch (ev) {
    case STREAM_OPENED:
        break;
    case STREAM_READABLE:
        (void)pump(h);
        break;
    case STREAM_WRITABLE:
        stream_resume(h->other->from, STREAM_PAUSE_BODY);
        (void)pump(h->other);
        break;
    case STREAM_EOF:
        h->ended = true;
        (void)pump(h);
        break;
    case STREAM_FAILED:
        on_failed(h);
        break;
    }
}

static void on_user_closed(void *arg, bool reset)
{
    struct relay *r = arg;

    r->user = NULL;
    if (r->state == RELAY_OVER)
        return;
    if (reset) {
        finish(r, STREAM_CLOSE_ABORT, STREAM_CLOSE_NOW);
        return;
    }
    move(r, RELAY_FLUSHING);
    loop_timer_set(r->timer, TIMEOUT_LINGER_MS);
    stream_resume(r->far.from, STREAM_PAUSE_BODY); /* what it sends is dropped, but its end is noticed */
    /* If near has ended already, there is nothing to wait for but what far has queued. */
    if (r->near.ended && stream_input_len(r->near.from) == 0)
        finish(r, STREAM_CLOSE_FLUSH, STREAM_CLOSE_NOW);
}

struct relay *relay_new(struct loop *l, struct stream *far, int *fd)
{
    struct relay *r = mem_zalloc(sizeof(*r));
    struct stream_opts o = {.fn = on_event, .arg = r == NULL ? NULL : &r->near};
    int pair[2];

    *fd = -1;
    if (r == NULL || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0)
        goto fail;
    r->loop = l;
    lifetime_init(&r->life, l, "relay");
    lifetime_work_init(&r->life, &r->exit_work, LOOP_AT_EXIT, abort_work, r);
    r->timer = lifetime_timer(&r->life, abort_work, r);
    r->near.from = stream_accept(l, pair[0], &o); /* closes it if it fails */
    if (r->timer == NULL || r->near.from == NULL) {
        close(pair[1]);
        if (r->near.from != NULL)
            stream_close(r->near.from, STREAM_CLOSE_ABORT);
        lifetime_retire(&r->life, free_relay, r);
        stream_close(far, STREAM_CLOSE_ABORT);
        return NULL;
    }
    r->near.relay = r->far.relay = r;
    r->near.other = &r->far;
    r->far.other = &r->near;
    r->far.from = far;
    stream_set_owner(far, on_event, &r->far);
    lifetime_queue(&r->exit_work);
    *fd = pair[1];
    return r;

fail:
    mem_free(r);
    stream_close(far, STREAM_CLOSE_ABORT);
    return NULL;
}

void relay_bind(struct relay *r, struct stream *user)
{
    r->user = user;
    stream_carried(user, on_user_closed, r);
}

void relay_drop(struct relay *r)
{
    finish(r, STREAM_CLOSE_ABORT, STREAM_CLOSE_ABORT);
}
