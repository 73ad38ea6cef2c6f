/* SPDX-License-Identifier: Apache-2.0 */
#include "front/h2_conn.h"

#include "base/clock.h"
#include "base/contract.h"
#include "base/log.h"
#include "front/h2_request.h"
#include "front/h2_session.h"
#include "front/h2_stream.h"

/*
 * So that what one connection makes us do between two looks at its output, and in one turn, stays small. Header
 * compression can make of 16 KB fields of 64 MB that are to be looked at, so pieces shrink when they take long.
 */
enum { PIECE_BYTES = 16 << 10, SMALLEST_PIECE = 512, INPUT_TURN_US = 1000 };

/* Nobody tells when the client has got the last byte: looked at so often. */
enum { PARTED_LOOK_MS = 100 };

static uint64_t now_of(const struct h2_conn *c)
{
    return loop_now_ms(c->fc->host->loop);
}

/* ---- the end ---- */

static void free_conn(void *arg)
{
    struct h2_conn *c = arg;

    must_hold(!c->in_session && c->streams.count + c->woken.count + c->n_bodies + c->n_waiting == 0);
    nghttp2_session_del(c->session);
    mem_free(c);
}

/* The proxy is told first, while all facts still live. */
static void end_streams(struct h2_conn *c, const char *why)
{
    struct list_node *n;

    while ((n = list_first(&c->streams)) != NULL) {
        struct h2_stream *st = list_entry(n, struct h2_stream, node);

        h2_stream_free_later(st);
        exchange_give_gone(&st->x, why);
    }
}

static void close_conn(struct h2_conn *c, const char *why, enum front_close reason, enum stream_close_how how)
{
    if (c->state == H2_CLOSED)
        return;
    h2_conn_move(c, H2_CLOSED);
    end_streams(c, why);
    lifetime_retire(&c->life, free_conn, c); /* behind those of the streams */
    front_conn_close(c->fc, reason, how);
}

/* RFC 9113 6.8: first a GOAWAY that promises to take everything, so that no request under way is lost; the last one
 * when the client must have seen that. */
static void announce(struct h2_conn *c, enum front_close reason)
{
    if (c->state != H2_SERVING)
        return;
    h2_conn_move(c, H2_ANNOUNCED);
    c->close_reason = reason;
    c->announced_ms = now_of(c);
    if (nghttp2_submit_shutdown_notice(c->session) != 0 ||
        nghttp2_submit_ping(c->session, NGHTTP2_FLAG_NONE, NULL) != 0)
        c->no_memory = true;
    h2_conn_wake(c);
}

/*
 * What the last GOAWAY does not name was not looked at, so that the client may send it again elsewhere; nghttp2 ends
 * such streams when it is sent. Hence it names all that was read by then: it is made when no input is half looked at,
 * and nothing more is read until it is out.
 */
static void leave_if_heard(struct h2_conn *c)
{
    if (!c->heard || c->state != H2_ANNOUNCED)
        return;
    h2_conn_move(c, H2_LEAVING);
    c->parting = true;
    if (nghttp2_submit_goaway(c->session, NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(c->session),
                              NGHTTP2_NO_ERROR, NULL, 0) != 0)
        c->no_memory = true;
}

/* ---- what there is to do outside of all calls ---- */

static void attend(struct h2_stream *st)
{
    if (st->x.phase == EXCHANGE_DOOMED) {
        exchange_give_gone(&st->x, st->x.doom_reason);
        h2_stream_reset(st, NGHTTP2_INTERNAL_ERROR);
        return;
    }
    if (st->was_full) {
        st->was_full = false;
        exchange_give_writable(&st->x);
    }
    h2_request_deliver(st);
}

/* Only those that are there now: what they wake up again comes in the next turn. */
static void attend_woken(struct h2_conn *c)
{
    for (size_t n = c->woken.count; n > 0 && c->woken.count > 0; n--)
        attend(list_entry(list_pop_front(&c->woken), struct h2_stream, woken));
}

static void close_broken(struct h2_conn *c)
{
    if (c->unwritable)
        close_conn(c, "client cannot be written to", FRONT_CLOSE_STREAM_FAILED, STREAM_CLOSE_NOW);
    else
        close_conn(c, "out of memory", FRONT_CLOSE_NO_MEMORY, STREAM_CLOSE_NOW);
}

/* False: stream or session are broken beyond use. */
static bool send_output(struct h2_conn *c)
{
    const uint8_t *p;
    ssize_t n = 1;

    must_hold(!c->in_session);
    while (n > 0 && !stream_congested(c->stream)) {
        c->in_session = true;
        n = nghttp2_session_mem_send(c->session, &p);
        c->in_session = false;
        if (n > 0 && !h2_conn_write(c, slice_of((const char *)p, (size_t)n)))
            return false;
    }
    return n >= 0;
}

static enum front_close reason_of(ssize_t error)
{
    switch (error) {
    case NGHTTP2_ERR_NOMEM:
        return FRONT_CLOSE_NO_MEMORY;
    case NGHTTP2_ERR_FLOODED:
        return FRONT_CLOSE_FLOOD;
    default:
        return FRONT_CLOSE_BAD_REQUEST;
    }
}

static ssize_t feed(struct h2_conn *c, struct slice in)
{
    ssize_t used;

    if (c->state == H2_FAILING || c->state == H2_PARTED)
        return (ssize_t)in.n;
    must_hold(!c->in_session);
    c->in_session = true;
    used = nghttp2_session_mem_recv(c->session, (const uint8_t *)(in.n > 0 ? in.p : ""), in.n);
    c->in_session = false;
    return used;
}

/* Bytes, or the rest of a head that nghttp2 has already. */
static bool has_input(const struct h2_conn *c)
{
    return c->stopped || stream_input_len(c->stream) > 0;
}

/* False: closed. */
static bool take_input(struct h2_conn *c)
{
    c->look_end_us = clock_us() + INPUT_TURN_US;
    c->late = false;
    if (c->dear && !c->has_turn) {
        if (has_input(c))
            lifetime_queue(&c->turn);
        leave_if_heard(c);
        return true;
    }
    c->head_bytes = 0;
    /* While answers of ours wait for the client there is no reason to make more of them. */
    while (!c->parting && !stream_congested(c->stream) && has_input(c)) {
        struct slice in = stream_peek(c->stream);
        ssize_t used;

        if (in.n > c->piece_bytes)
            in.n = c->piece_bytes;
        c->stopped = false;
        used = feed(c, in);
        if (used < 0) {
            close_conn(c, nghttp2_strerror((int)used), reason_of(used), STREAM_CLOSE_FLUSH);
            return false;
        }
        stream_consume(c->stream, (size_t)used);
        front_stats_received(c->fc->host->stats, (size_t)used);
        if (!send_output(c)) {
            close_broken(c);
            return false;
        }
        if (c->stopped) {
            lifetime_queue(&c->turn);
            break;
        }
        if (clock_us() >= c->look_end_us) {
            c->piece_bytes = c->piece_bytes / 4 > SMALLEST_PIECE ? c->piece_bytes / 4 : SMALLEST_PIECE;
            h2_conn_wake(c);
            break;
        }
        c->piece_bytes = c->piece_bytes * 2 < PIECE_BYTES ? c->piece_bytes * 2 : PIECE_BYTES;
    }
    c->dear = c->stopped || c->head_bytes >= H2_HEADS_DEAR;
    leave_if_heard(c);
    return true;
}

static uint64_t idle_limit(const struct h2_conn *c)
{
    return c->fc->requests > 0 ? c->fc->limits.idle_timeout_ms : c->fc->limits.header_timeout_ms;
}

static bool may_stall(const struct h2_stream *st)
{
    /* Not the client's turn: the proxy wants nothing now, or owes it a 100 (Continue), or it is busy reading. */
    return st->receiving == H2_BODY && !st->body_paused && !st->continue_pending && buf_len(&st->out) == 0 &&
           !stream_congested(st->c->stream);
}

/*
 * What HTTP/2 has said is in nobody's buffer but the socket's: the end of an answer (END_STREAM), the last event of a
 * watch, GOAWAY. Without requests the idle time looks after it.
 */
static void expect_reading(struct h2_conn *c, uint64_t now)
{
    uint64_t wire = stream_wire_bytes(c->stream);

    if (stream_unsent(c->stream) == 0 || (c->streams.count == 0 && c->state == H2_SERVING)) {
        c->unread_due_ms = 0;
    } else if (c->unread_due_ms == 0 || wire != c->unread_mark) {
        c->unread_due_ms = now + c->fc->limits.body_timeout_ms;
        c->unread_mark = wire;
    }
}

/* The timer looks after everything at once, whatever else goes on: it is never later than the first of them is due. */
static void arm(struct h2_conn *c)
{
    uint64_t now = now_of(c), at = UINT64_MAX;

    if (c->streams.count == 0)
        at = c->idle_since_ms + idle_limit(c);
    if (c->n_bodies + c->n_waiting > 0 && c->stall_due_ms < at)
        at = c->stall_due_ms;
    if (c->head_since_ms != 0 && c->head_since_ms + c->fc->limits.header_timeout_ms < at)
        at = c->head_since_ms + c->fc->limits.header_timeout_ms;
    if (c->state == H2_ANNOUNCED && c->announced_ms + TIMEOUT_H2_GOAWAY_MS < at)
        at = c->announced_ms + TIMEOUT_H2_GOAWAY_MS;
    expect_reading(c, now);
    if (c->unread_due_ms != 0 && c->unread_due_ms < at)
        at = c->unread_due_ms;
    if (c->state == H2_FAILING)
        at = c->failed_ms + c->fc->limits.linger_timeout_ms;
    if (at == UINT64_MAX)
        loop_timer_cancel(c->timer);
    else
        loop_timer_set(c->timer, at > now ? at - now : 0);
}

/*
 * The session has nothing more to say. What is on its way is the end of an answer: stream_close() would give it two
 * seconds, who waits for the front to drain would not wait for it at all, and a window update that comes when the
 * socket is closed makes the kernel drop what it holds. So the connection stays until the client's kernel has all of
 * it, or has taken nothing for as long as a body may stall.
 */
static void end_when_taken(struct h2_conn *c)
{
    size_t untaken = stream_unacknowledged(c->stream);
    uint64_t now = now_of(c);

    if (untaken == 0 || c->state == H2_FAILING) {
        close_conn(c, "HTTP/2 connection ended", c->close_reason, STREAM_CLOSE_FLUSH);
    } else if (c->state != H2_PARTED) {
        h2_conn_move(c, H2_PARTED);
        c->progress_ms = now;
        h2_conn_wake(c); /* it leaves at the end of this callback, if the client reads */
    } else if (untaken >= c->untaken_seen && now - c->progress_ms >= c->fc->limits.body_timeout_ms) {
        close_conn(c, "client does not read", c->close_reason, STREAM_CLOSE_ABORT);
    } else {
        if (untaken < c->untaken_seen)
            c->progress_ms = now;
        c->untaken_seen = untaken;
        loop_timer_set(c->timer, PARTED_LOOK_MS);
    }
}

/* The one place where bytes go in and out. */
static void settle(struct h2_conn *c)
{
    if (c->shut_reason != NULL) { /* its end, whether the GOAWAY can be sent or not */
        (void)send_output(c);
        close_conn(c, c->shut_reason, c->close_reason, STREAM_CLOSE_NOW);
        return;
    }
    must_hold(c->state != H2_CLOSED); /* what is below asks streams and session that a close has ended */
    attend_woken(c);
    if (c->parting && !send_output(c)) {
        close_broken(c);
        return;
    }
    if (!take_input(c))
        return;
    if (c->no_memory || !send_output(c)) {
        close_broken(c);
        return;
    }
    if (!nghttp2_session_want_read(c->session) && !nghttp2_session_want_write(c->session)) {
        end_when_taken(c);
        return;
    }
    if (c->fc->limits.max_requests != 0 && c->fc->requests >= c->fc->limits.max_requests)
        announce(c, FRONT_CLOSE_REQUEST_LIMIT);
    else if (c->send_away)
        announce(c, FRONT_CLOSE_SENT_AWAY);
    if (c->woken.count > 0)
        h2_conn_wake(c);
    arm(c);
}

static void on_work(void *arg)
{
    settle(arg);
}

static void on_turn(void *arg)
{
    struct h2_conn *c = arg;

    c->has_turn = true;
    settle(c);
    c->has_turn = false;
}

/* ---- events ---- */

static void on_eof(struct h2_conn *c)
{
    enum front_close reason = c->streams.count > 0   ? FRONT_CLOSE_CLIENT_GONE
                              : c->fc->requests == 0 ? FRONT_CLOSE_NO_REQUEST
                                                     : FRONT_CLOSE_CLIENT;

    if (c->state != H2_SERVING)
        reason = c->close_reason;
    close_conn(c, "client closed the connection", reason, STREAM_CLOSE_FLUSH);
}

/* Without a stream nothing can have been cut off by a client that leaves without close_notify. */
static void on_failed(struct h2_conn *c)
{
    if (c->state == H2_SERVING && c->streams.count == 0 && stream_was_left(c->stream) && stream_unsent(c->stream) == 0)
        on_eof(c);
    else
        close_conn(c, stream_failure(c->stream), c->state == H2_SERVING ? FRONT_CLOSE_STREAM_FAILED : c->close_reason,
                   STREAM_CLOSE_NOW);
}

static void on_event(struct stream *s, enum stream_event ev, void *arg)
{
    struct h2_conn *c = arg;

    (void)s;
    switch (ev) {
    case STREAM_OPENED:
        break;
    case STREAM_READABLE:
    case STREAM_WRITABLE:
        settle(c);
        break;
    case STREAM_EOF:
        on_eof(c);
        break;
    case STREAM_FAILED:
        on_failed(c);
        break;
    }
}

static void note_due(struct h2_conn *c, uint64_t due)
{
    if (due < c->stall_due_ms)
        c->stall_due_ms = due;
}

static void look_for_stall(struct h2_stream *st, uint64_t now)
{
    uint64_t timeout = st->c->fc->limits.body_timeout_ms;

    if (st->sending == H2_ANSWERED) {
        if (now - st->taken_ms >= H2_ANSWERED_MS)
            h2_stream_reset(st, NGHTTP2_NO_ERROR);
        else
            note_due(st->c, st->taken_ms + H2_ANSWERED_MS);
        return;
    }
    if (!may_stall(st))
        st->progress_ms = now;
    else if (now - st->progress_ms >= timeout)
        h2_request_stalled(st);
    else
        note_due(st->c, st->progress_ms + timeout);
    if (!st->waiting || st->sending == H2_RESET)
        return;
    if (now - st->taken_ms >= timeout)
        h2_stream_not_taken(st);
    else
        note_due(st->c, st->taken_ms + timeout);
}

static void end_unread(struct h2_conn *c)
{
    if (c->streams.count > 0)
        front_stats_not_taken(c->fc->host->stats);
    close_conn(c, "client does not read", c->streams.count > 0 ? FRONT_CLOSE_READ_TIMEOUT : c->close_reason,
               STREAM_CLOSE_ABORT);
}

static bool is_unread(const struct h2_conn *c, uint64_t now)
{
    return c->unread_due_ms != 0 && now >= c->unread_due_ms && stream_unsent(c->stream) > 0 &&
           stream_wire_bytes(c->stream) == c->unread_mark;
}

/* False: closed. The socket has taken nothing either: the client would not get a reset. */
static bool end_stalled(struct h2_conn *c, uint64_t now)
{
    uint64_t timeout = c->fc->limits.body_timeout_ms;
    struct list_node *n;

    if (c->n_waiting > 0 && stream_congested(c->stream) && now - c->written_ms >= timeout) {
        end_unread(c);
        return false;
    }
    c->stall_due_ms = now + timeout;
    /* Nothing leaves the list here: streams are closed by the session. */
    for (n = list_first(&c->streams); n != NULL; n = list_next(&c->streams, n))
        look_for_stall(list_entry(n, struct h2_stream, node), now);
    return true;
}

/* What an idle connection was answered is still on its way, and its client has taken some since the last look. */
static bool is_reading(struct h2_conn *c)
{
    size_t unsent = stream_unsent(c->stream);
    bool reading = unsent > 0 && unsent < c->untaken_seen;

    c->untaken_seen = unsent;
    return reading;
}

static void on_timer(void *arg)
{
    struct h2_conn *c = arg;
    uint64_t now = now_of(c);

    if (c->state == H2_FAILING && now - c->failed_ms >= c->fc->limits.linger_timeout_ms) {
        close_conn(c, "client does not read", c->close_reason, STREAM_CLOSE_ABORT);
        return;
    }
    if (c->state == H2_PARTED) {
        settle(c);
        return;
    }
    if (is_unread(c, now)) {
        end_unread(c);
        return;
    }
    if (c->streams.count == 0 && now - c->idle_since_ms >= idle_limit(c) && is_reading(c))
        c->idle_since_ms = now;
    if (c->head_since_ms != 0 && now - c->head_since_ms >= c->fc->limits.header_timeout_ms)
        h2_conn_fail(c, NGHTTP2_ENHANCE_YOUR_CALM, FRONT_CLOSE_HEADER_TIMEOUT);
    else if (c->streams.count == 0 && now - c->idle_since_ms >= idle_limit(c))
        h2_conn_fail(c, NGHTTP2_NO_ERROR, c->fc->requests > 0 ? FRONT_CLOSE_IDLE_TIMEOUT : FRONT_CLOSE_NO_REQUEST);
    if (c->state == H2_ANNOUNCED && now - c->announced_ms >= TIMEOUT_H2_GOAWAY_MS)
        c->heard = true;
    if (c->n_bodies + c->n_waiting > 0 && now >= c->stall_due_ms && !end_stalled(c, now))
        return;
    settle(c);
}

/* ---- the front's side ---- */

static void drain(void *protocol)
{
    announce(protocol, FRONT_CLOSE_DRAIN);
}

/* Without requests it is until it has heard that we leave; a request counts once its head is there. */
static bool busy(const void *protocol)
{
    const struct h2_conn *c = protocol;

    if (c->fc->requests == 0 || c->state == H2_CLOSED)
        return false;
    for (const struct list_node *n = list_first(&c->streams); n != NULL; n = list_next(&c->streams, n))
        if (list_entry(n, const struct h2_stream, node)->receiving != H2_HEAD)
            return true;
    return c->state == H2_ANNOUNCED || c->state == H2_PARTED;
}

static bool head_drips(const struct h2_conn *c)
{
    return c->head_since_ms != 0 && loop_now_ms(c->fc->host->loop) - c->head_since_ms >= FRONT_HEAD_SLOW_MS;
}

/* Of the one that is in its head the connection knows since when. */
static bool stream_drips(const struct h2_stream *st, uint64_t for_ms, bool indulged)
{
    if (st->receiving == H2_HEAD)
        return head_drips(st->c);
    return may_stall(st) && st->sending == H2_NOTHING && exchange_is_slow(&st->x, for_ms, indulged);
}

static bool drips(const void *protocol, uint64_t for_ms, bool indulged)
{
    const struct h2_conn *c = protocol;

    for (const struct list_node *n = list_first(&c->streams); n != NULL; n = list_next(&c->streams, n))
        if (!stream_drips(list_entry(n, const struct h2_stream, node), for_ms, indulged))
            return false;
    return (c->streams.count > 0 || head_drips(c)) && c->state != H2_CLOSED;
}

static bool answered(const void *protocol, uint64_t for_ms, bool indulged)
{
    const struct h2_conn *c = protocol;

    for (const struct list_node *n = list_first(&c->streams); n != NULL; n = list_next(&c->streams, n)) {
        const struct h2_stream *st = list_entry(n, const struct h2_stream, node);

        if (buf_len(&st->out) == 0 && st->sending < H2_ENDING && !stream_drips(st, for_ms, indulged))
            return false;
    }
    return true;
}

static size_t waiting(const void *protocol)
{
    const struct h2_conn *c = protocol;
    size_t bytes = 0;

    for (const struct list_node *n = list_first(&c->streams); n != NULL; n = list_next(&c->streams, n))
        bytes += buf_len(&list_entry(n, const struct h2_stream, node)->out);
    return bytes;
}

/* The front calls this from events of its own, never from inside of nghttp2: send_output() holds that. */
static void shut(void *protocol, const char *why, enum front_close reason)
{
    struct h2_conn *c = protocol;

    (void)nghttp2_session_terminate_session(c->session, NGHTTP2_NO_ERROR); /* without memory, without a word */
    c->shut_reason = why;
    c->close_reason = reason;
    settle(c);
}

static size_t open_requests(const void *protocol)
{
    const struct h2_conn *c = protocol;

    return c->streams.count;
}

static const struct front_conn_ops conn_ops = {.drain = drain,
                                               .busy = busy,
                                               .drips = drips,
                                               .answered = answered,
                                               .waiting = waiting,
                                               .open = open_requests,
                                               .shut = shut};

bool h2_conn_start(struct front_conn *fc)
{
    struct h2_conn *c = mem_zalloc(sizeof(*c));

    if (c == NULL)
        return false;
    c->fc = fc;
    c->stream = fc->stream;
    c->close_reason = FRONT_CLOSE_CLIENT;
    c->last_id = -1;
    c->piece_bytes = PIECE_BYTES;
    c->idle_since_ms = now_of(c);
    list_init(&c->streams);
    list_init(&c->woken);
    lifetime_init(&c->life, fc->host->loop, "HTTP/2 connection");
    lifetime_work_init(&c->life, &c->work, LOOP_DEFERRED, on_work, c);
    lifetime_work_init(&c->life, &c->turn, LOOP_BULK, on_turn, c);
    lifetime_work_share(&c->turn, fc->turns);
    c->timer = lifetime_timer(&c->life, on_timer, c);
    c->session = c->timer == NULL ? NULL : h2_session_new(c);
    if (c->session == NULL) {
        lifetime_retire(&c->life, free_conn, c);
        return false;
    }
    fc->ops = &conn_ops;
    fc->protocol = c;
    stream_set_owner(fc->stream, on_event, c);
    if (fc->host->draining)
        announce(c, FRONT_CLOSE_DRAIN);
    h2_conn_wake(c);
    return true;
}
