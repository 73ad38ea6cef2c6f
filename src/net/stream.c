/* SPDX-License-Identifier: Apache-2.0 */
#include "net/stream_internal.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/contract.h"
#include "base/state.h"

static const char *const state_names[] = {
    [STREAM_CONNECTING] = "connecting", [STREAM_HANDSHAKING] = "handshaking", [STREAM_OPEN] = "open",
    [STREAM_BROKEN] = "broken",         [STREAM_FLUSHING] = "flushing",       [STREAM_LINGERING] = "lingering",
    [STREAM_CLOSED] = "closed",
};
static const uint32_t next_states[] = {
    [STREAM_CONNECTING] = STATE(STREAM_HANDSHAKING) | STATE(STREAM_BROKEN) | STATE(STREAM_CLOSED),
    [STREAM_HANDSHAKING] = STATE(STREAM_OPEN) | STATE(STREAM_BROKEN) | STATE(STREAM_CLOSED),
    [STREAM_OPEN] = STATE(STREAM_BROKEN) | STATE(STREAM_FLUSHING) | STATE(STREAM_CLOSED),
    [STREAM_BROKEN] = STATE(STREAM_CLOSED),
    [STREAM_FLUSHING] = STATE(STREAM_LINGERING) | STATE(STREAM_CLOSED),
    [STREAM_LINGERING] = STATE(STREAM_CLOSED),
    [STREAM_CLOSED] = 0,
};
static const struct state_table states = STATE_TABLE("stream", state_names, next_states);

void stream_move(struct stream *s, enum stream_state to)
{
    state_move(&states, &s->state, to);
}

/* ---- delivery ---- */

static void mark(struct stream *s, enum stream_event ev)
{
    s->pending |= 1U << ev;
}

static bool take(struct stream *s, enum stream_event ev)
{
    bool was = (s->pending & 1U << ev) != 0;

    s->pending &= ~(1U << ev);
    return was;
}

static bool paused(const struct stream *s)
{
    return s->pauses != 0;
}

/* The next event that may be told now, in the order of the contract. */
static bool next_event(struct stream *s, enum stream_event *ev)
{
    if (take(s, STREAM_OPENED))
        return *ev = STREAM_OPENED, true;
    if (!paused(s) && take(s, STREAM_READABLE) && stream_input_len(s) > 0)
        return *ev = STREAM_READABLE, true;
    if (take(s, STREAM_FAILED)) {
        s->pending = 0;
        return *ev = STREAM_FAILED, true;
    }
    if (take(s, STREAM_WRITABLE))
        return *ev = STREAM_WRITABLE, true;
    if (!paused(s) && take(s, STREAM_EOF))
        return *ev = STREAM_EOF, true;
    return false;
}

void stream_deliver(struct stream *s)
{
    enum stream_event ev;

    if (s->delivering || s->state == STREAM_CLOSED)
        return;
    lifetime_cancel(&s->deliver_work);
    s->delivering = true;
    while (s->fn != NULL && next_event(s, &ev))
        s->fn(s, ev, s->arg);
    s->delivering = false;
}

void stream_in_turn(struct stream *s, unsigned due)
{
    s->due |= due;
    lifetime_queue(&s->bulk_work);
}

void stream_deliver_later(struct stream *s)
{
    if (s->fn == NULL)
        return;
    if (s->bulk)
        stream_in_turn(s, 0);
    else
        lifetime_queue(&s->deliver_work);
}

void stream_opened(struct stream *s)
{
    loop_timer_free(s->timer);
    s->timer = NULL;
    stream_move(s, STREAM_OPEN);
    mark(s, STREAM_OPENED);
    stream_deliver_later(s);
    if (buf_len(&s->gather) > 0 || s->finish)
        stream_flush_later(s);
    stream_update_reading(s);
}

/* After a reset that send has told of, recv says 0. EPIPE means that a FIN had come first (Linux, tcp_reset()). */
void stream_read_fin(struct stream *s)
{
    s->peer_ended = !s->send_broken || s->send_error == EPIPE;
}

void stream_read_idle(struct stream *s)
{
    if (s->send_broken && s->state == STREAM_OPEN)
        stream_broke(s, "write: %s", strerror(s->send_error));
}

void stream_got_eof(struct stream *s)
{
    if (s->in_eof || s->state != STREAM_OPEN)
        return;
    if (s->tls == NULL && s->carrier_failure != NULL) {
        stream_broke(s, "%s", s->carrier_failure);
        return;
    }
    if (s->send_broken) { /* the other side is gone, however orderly it left */
        stream_read_idle(s);
        return;
    }
    s->in_eof = true;
    mark(s, STREAM_EOF);
    stream_deliver_later(s);
    stream_update_reading(s);
}

void stream_broke(struct stream *s, const char *fmt, ...)
{
    char text[256];
    va_list ap;

    if (s->state > STREAM_OPEN) {
        if (s->state == STREAM_FLUSHING || s->state == STREAM_LINGERING)
            stream_destroy(s, false);
        return;
    }
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    s->failure = mem_strdup(text);
    stream_move(s, STREAM_BROKEN);
    stream_update_reading(s);
    stream_forget_writable(s);
    mark(s, STREAM_FAILED);
    stream_deliver_later(s);
}

void stream_broke_for_memory(struct stream *s)
{
    s->lacks_memory = true;
    stream_broke(s, "out of memory");
}

void stream_break(struct stream *s, const char *why)
{
    stream_broke(s, "%s", why);
}

/* ---- input ---- */

struct evbuffer *stream_input(struct stream *s)
{
    if (s->in == NULL)
        s->in = evbuffer_new();
    return s->in;
}

/* Most streams are idle at most times. */
void stream_drop_empty_input(struct stream *s)
{
    if (s->in == NULL || s->in_is_lent || evbuffer_get_length(s->in) > 0)
        return;
    evbuffer_free(s->in);
    s->in = NULL;
}

static void account(struct stream *s)
{
    size_t len = stream_input_len(s);

    if (len > s->in_known)
        quota_add(s->quota, len - s->in_known);
    else
        quota_give(s->quota, s->in_known - len);
    s->in_known = len;
}

void stream_got_input(struct stream *s)
{
    size_t len = stream_input_len(s);

    if (len == s->in_known)
        return;
    must_hold(len > s->in_known); /* only stream_consume() takes, and says so */
    s->bytes_in += len - s->in_known;
    account(s);
    mark(s, STREAM_READABLE);
    if (len >= LIMIT_STREAM_INPUT) {
        s->full = true;
        stream_update_reading(s);
    }
}

bool stream_wants_input(const struct stream *s)
{
    return s->state == STREAM_OPEN && !s->in_eof && s->pauses == 0 && stream_input_len(s) < LIMIT_STREAM_INPUT;
}

void stream_update_reading(struct stream *s)
{
    bool want = s->state == STREAM_OPEN && !s->in_eof && s->pauses == 0 && !s->full;

    if (want == s->reading)
        return;
    s->reading = want;
    if (!s->held)
        s->ops->set_reading(s, want);
}

struct slice stream_peek(struct stream *s)
{
    struct evbuffer_iovec piece;

    if (stream_input_len(s) == 0 || evbuffer_peek(s->in, -1, NULL, &piece, 1) < 1)
        return SLICE_NONE;
    return slice_of(piece.iov_base, piece.iov_len);
}

void stream_consume(struct stream *s, size_t n)
{
    if (n == 0)
        return;
    must_hold(n <= stream_input_len(s)); /* what was not there was somebody else's */
    evbuffer_drain(s->in, n);
    account(s);
    stream_drop_empty_input(s);
    if (s->full && s->in_known <= LIMIT_STREAM_INPUT / 2) {
        s->full = false;
        stream_update_reading(s);
    }
}

size_t stream_input_len(const struct stream *s)
{
    return s->in == NULL ? 0 : evbuffer_get_length(s->in);
}

void stream_pause(struct stream *s, unsigned reasons)
{
    s->pauses |= reasons;
    stream_update_reading(s);
}

void stream_resume(struct stream *s, unsigned reasons)
{
    if ((s->pauses & reasons) == 0)
        return;
    s->pauses &= ~reasons;
    if (paused(s))
        return;
    if (stream_input_len(s) > 0)
        mark(s, STREAM_READABLE);
    if (s->pending != 0)
        stream_deliver_later(s);
    stream_update_reading(s);
}

void stream_set_owner(struct stream *s, stream_fn *fn, void *arg)
{
    must_hold(!lifetime_over(&s->life));
    s->fn = fn;
    s->arg = arg;
    if (stream_input_len(s) > 0)
        mark(s, STREAM_READABLE);
    if (s->in_eof)
        mark(s, STREAM_EOF);
    if (s->state == STREAM_BROKEN)
        mark(s, STREAM_FAILED);
    if (s->pending != 0)
        stream_deliver_later(s);
}

/* ---- what is charged ---- */

static void charge(struct stream *s, struct quota *q)
{
    buf_charge(&s->gather, q);
    buf_charge(&s->out, q);
    if (s->ops->charge != NULL)
        s->ops->charge(s, q);
    quota_add(q, s->in_known);
    quota_give(s->quota, s->in_known);
    s->quota = q;
}

void stream_charge(struct stream *s, struct quota *q)
{
    charge(s, q);
    if (s->along != NULL)
        charge(s->along, q);
}

void stream_charge_along(struct stream *s, struct stream *other)
{
    must_hold(s->along == NULL && other->leader == NULL);
    s->along = other;
    other->leader = s;
    charge(other, s->quota);
}

/* Whoever goes first: the quota may go with the leader's owner. */
static void charge_apart(struct stream *s)
{
    struct stream *leader = s->leader != NULL ? s->leader : s, *other = leader->along;

    if (other == NULL)
        return;
    charge(other, NULL);
    leader->along = NULL;
    other->leader = NULL;
}

/* ---- output ---- */

void stream_forget_writable(struct stream *s)
{
    if (s->writable != NULL)
        event_free(s->writable);
    s->writable = NULL;
}

void stream_out_release(struct stream *s)
{
    buf_free_list_return(loop_free_list(s->loop), &s->gather);
    buf_free_list_return(loop_free_list(s->loop), &s->out);
}

void stream_flush_later(struct stream *s)
{
    if (s->state != STREAM_CLOSED)
        lifetime_queue(&s->flush_work);
}

/* ---- end ---- */

static void close_descriptor(struct stream *s)
{
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
}

static void free_stream(void *arg)
{
    struct stream *s = arg;
    loop_fn *on_closed = s->on_closed;
    void *on_closed_arg = s->on_closed_arg;

    must_hold(!s->delivering);
    close_descriptor(s);
    if (s->ops->release != NULL)
        s->ops->release(s);
    if (s->in != NULL)
        evbuffer_free(s->in);
    quota_give(s->quota, s->in_known);
    stream_out_release(s);
    mem_free(s->failure);
    mem_free(s->carrier_failure);
    mem_free(s);
    if (on_closed != NULL)
        on_closed(on_closed_arg); /* who may be whom it was charged to */
}

/* A client that leaves ends all that it has under way, and what each costs the kernel (what was received and not read)
 * and TLS (keys are wiped) is more than all that has led to it. */
static void free_in_turn(void *arg)
{
    struct stream *s = arg;

    loop_queue(s->loop, LOOP_CLOSING, &s->closing, free_stream, s);
}

void stream_destroy(struct stream *s, bool reset)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 0};

    must_hold(!lifetime_over(&s->life));
    stream_move(s, STREAM_CLOSED);
    s->fn = NULL;
    charge_apart(s);
    s->ops->detach(s);
    stream_forget_writable(s);
    event_del(&s->readable);
    if (reset && s->fd >= 0)
        setsockopt(s->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    if (s->carrier_fn != NULL)
        close_descriptor(s); /* it waits for the end */
    lifetime_retire(&s->life, free_in_turn, s);
    if (s->carrier_fn != NULL)
        s->carrier_fn(s->carrier_arg, reset);
}

static void on_linger_readable(evutil_socket_t fd, short what, void *arg)
{
    struct stream *s = arg;
    struct loop *l = s->loop;
    struct recv_area *area;
    ssize_t n;

    (void)what;
    loop_enter(l);
    area = loop_recv_area(l);
    n = recv(fd, area->bytes, sizeof(area->bytes), 0);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        stream_destroy(s, false);
    loop_leave(l);
}

/* Everything is sent: closing now, with bytes of the other side unread, would be a reset that destroys it on the way.
 */
void stream_linger(struct stream *s)
{
    if (s->in_eof) {
        stream_destroy(s, false);
        return;
    }
    stream_move(s, STREAM_LINGERING);
    s->ops->detach(s);
    event_del(&s->readable);
    event_assign(&s->readable, loop_base(s->loop), s->fd, EV_READ | EV_PERSIST, on_linger_readable, s);
    if (event_add(&s->readable, NULL) != 0)
        stream_destroy(s, false);
}
