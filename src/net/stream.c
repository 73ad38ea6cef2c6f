/* SPDX-License-Identifier: Apache-2.0 */
#include "net/stream_internal.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/state.h"
#include "net/sockopt.h"
#include "net/stream_bulk.h"
#include "net/stream_out.h"

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

static void move(struct stream *s, enum stream_state to)
{
    state_move(&states, &s->state, to);
}

/* ---------------------------------------------------------------------------------------------------- delivery */

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

static void deliver_work(void *arg)
{
    stream_deliver(arg);
}

void stream_deliver_later(struct stream *s)
{
    if (s->fn == NULL)
        return;
    if (s->bulk)
        stream_deliver_in_turn(s);
    else
        lifetime_queue(&s->deliver_work);
}

void stream_opened(struct stream *s)
{
    loop_timer_free(s->timer);
    s->timer = NULL;
    move(s, STREAM_OPEN);
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
    move(s, STREAM_BROKEN);
    stream_update_reading(s);
    stream_forget_writable(s);
    mark(s, STREAM_FAILED);
    stream_deliver_later(s);
}

void stream_break(struct stream *s, const char *why)
{
    stream_broke(s, "%s", why);
}

/* ------------------------------------------------------------------------------------------------------- input */

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

/* -------------------------------------------------------------------------------------------------------- life */

static void on_linger_timeout(void *arg)
{
    stream_destroy(arg, false);
}

static void on_open_timeout(void *arg)
{
    struct stream *s = arg;

    stream_broke(s, s->state == STREAM_CONNECTING ? "timed out while connecting" : "timed out in the TLS handshake");
    stream_deliver(s);
}

static struct stream *stream_new(struct loop *l, int fd, const struct stream_opts *o)
{
    struct stream *s = mem_zalloc(sizeof(*s));

    if (s == NULL) {
        close(fd);
        return NULL;
    }
    s->loop = l;
    s->fd = fd;
    s->fn = o->fn;
    s->arg = o->arg;
    s->ops = o->tls == NULL ? stream_plain_transport() : stream_tls_transport();
    lifetime_init(&s->life, l, "stream");
    lifetime_work_init(&s->life, &s->deliver_work, LOOP_DEFERRED, deliver_work, s);
    lifetime_work_init(&s->life, &s->exit_work, LOOP_AT_EXIT, on_linger_timeout, s);
    stream_out_init(s);
    stream_bulk_init(s);
    event_assign(&s->readable, loop_base(l), fd, 0, NULL, NULL);
    s->timer = lifetime_timer(&s->life, on_open_timeout, s);
    if (s->timer == NULL || (o->tls != NULL && !stream_tls_init(s, o)))
        goto fail;
    loop_timer_set(s->timer, o->open_timeout_ms == 0 ? TIMEOUT_HANDSHAKE_MS : o->open_timeout_ms);
    return s;

fail:
    s->fn = NULL;
    stream_destroy(s, false);
    return NULL;
}

static void start(struct stream *s)
{
    move(s, STREAM_HANDSHAKING);
    s->ops->start(s);
}

struct stream *stream_accept(struct loop *l, int fd, const struct stream_opts *o)
{
    struct sockaddr_storage addr = {.ss_family = AF_UNIX};
    socklen_t len = sizeof(addr);
    struct stream *s = stream_new(l, fd, o);

    if (s == NULL)
        return NULL;
    if (o->client == NULL && getpeername(fd, (struct sockaddr *)&addr, &len) != 0)
        addr.ss_family = AF_UNIX; /* gone already: reading will tell */
    stream_describe(s, o->client != NULL ? o->client : (const struct sockaddr *)&addr);
    start(s);
    return s;
}

struct stream *stream_adopt(struct loop *l, int fd, const struct sockaddr *addr, const char *name,
                            const struct stream_opts *o)
{
    struct stream *s = stream_new(l, fd, o);

    if (s == NULL)
        return NULL;
    s->tunnelled = true;
    if (addr != NULL)
        stream_describe(s, addr);
    else
        (void)snprintf(s->remote, sizeof(s->remote), "%s", name);
    start(s);
    return s;
}

static void on_connected(evutil_socket_t fd, short what, void *arg)
{
    struct stream *s = arg;
    struct loop *l = s->loop;
    int error = 0;
    socklen_t len = sizeof(error);

    (void)what;
    loop_enter(l);
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
        error = errno;
    stream_forget_writable(s); /* from now on "writable" has its usual meaning */
    if (error != 0)
        stream_broke(s, "connect: %s", strerror(error));
    else
        start(s);
    stream_deliver(s);
    loop_leave(l);
}

struct stream *stream_connect(struct loop *l, const struct sockaddr *addr, socklen_t len, const struct stream_opts *o)
{
    int fd = socket(addr->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct stream *s;

    if (fd < 0)
        return NULL;
    if (addr->sa_family != AF_UNIX)
        sockopt_tune(fd);
    s = stream_new(l, fd, o);
    if (s == NULL)
        return NULL;
    stream_describe(s, addr);
    if (connect(fd, addr, len) == 0) {
        start(s);
    } else if (errno == EINPROGRESS) {
        if (!stream_await_writable(s, on_connected))
            stream_broke(s, "out of memory");
    } else {
        stream_broke(s, "connect: %s", strerror(errno));
    }
    return s;
}

void stream_set_owner(struct stream *s, stream_fn *fn, void *arg)
{
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

void stream_charge(struct stream *s, struct quota *q)
{
    buf_charge(&s->gather, q);
    buf_charge(&s->out, q);
    if (s->tls != NULL)
        tls_conn_charge(s->tls, q);
    stream_charge_input(s, q);
}

void stream_charge_input(struct stream *s, struct quota *q)
{
    quota_add(q, s->in_known);
    quota_give(s->quota, s->in_known);
    s->quota = q;
}

static void free_stream(void *arg)
{
    struct stream *s = arg;

    if (s->ops->release != NULL)
        s->ops->release(s);
    if (s->in != NULL)
        evbuffer_free(s->in);
    quota_give(s->quota, s->in_known);
    stream_out_release(s);
    mem_free(s->failure);
    mem_free(s->carrier_failure);
    mem_free(s);
}

void stream_destroy(struct stream *s, bool reset)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 0};

    move(s, STREAM_CLOSED);
    s->fn = NULL;
    s->ops->detach(s);
    stream_forget_writable(s);
    event_del(&s->readable);
    if (reset && s->fd >= 0)
        setsockopt(s->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
    lifetime_retire(&s->life, free_stream, s);
    if (s->carrier_fn != NULL)
        s->carrier_fn(s->carrier_arg, reset);
    if (s->on_closed != NULL)
        s->on_closed(s->on_closed_arg);
}

int stream_surrender(struct stream *s)
{
    int fd = s->fd;

    s->ops->detach(s);
    stream_forget_writable(s);
    event_del(&s->readable);
    s->fd = -1;
    stream_destroy(s, false);
    return fd;
}

void stream_carried(struct stream *s, void (*fn)(void *arg, bool reset), void *arg)
{
    s->carrier_fn = fn;
    s->carrier_arg = arg;
}

void stream_carrier_lost(struct stream *s, const char *failure)
{
    s->carrier_fn = NULL;
    if (failure != NULL && s->carrier_failure == NULL)
        s->carrier_failure = mem_strdup(failure);
}

void stream_on_closed(struct stream *s, void (*fn)(void *arg), void *arg)
{
    s->on_closed = fn;
    s->on_closed_arg = arg;
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
    move(s, STREAM_LINGERING);
    s->ops->detach(s);
    event_del(&s->readable);
    event_assign(&s->readable, loop_base(s->loop), s->fd, EV_READ | EV_PERSIST, on_linger_readable, s);
    if (event_add(&s->readable, NULL) != 0)
        stream_destroy(s, false);
}

void stream_close(struct stream *s, enum stream_close_how how)
{
    bool was_open = s->state == STREAM_OPEN;

    s->fn = NULL;
    lifetime_cancel(&s->deliver_work);
    if (!was_open || s->send_broken || how == STREAM_CLOSE_ABORT) {
        stream_destroy(s, how == STREAM_CLOSE_ABORT);
        return;
    }
    s->finish = true;
    if (how == STREAM_CLOSE_NOW) {
        stream_flush(s);
        if (s->state != STREAM_CLOSED)
            stream_destroy(s, false);
        return;
    }
    move(s, STREAM_FLUSHING);
    stream_update_reading(s);
    s->timer = lifetime_timer(&s->life, on_linger_timeout, s);
    if (s->timer == NULL) {
        stream_destroy(s, false);
        return;
    }
    loop_timer_set(s->timer, TIMEOUT_LINGER_MS);
    lifetime_queue(&s->exit_work);
    stream_flush_later(s);
}
