/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/sim_net.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/limits.h"
#include "net/loop_internal.h"
#include "sim/sim_event.h"
#include "sim/sim_pipe.h"

enum stream_state { OPENING, OPEN, BROKEN, FLUSHING, LINGERING, CLOSED };

struct stream {
    struct loop *loop;
    struct sim_net *net;
    struct pipe *pipe;
    enum pipe_side side;
    struct loop_turns turns;
    stream_fn *fn;
    void *arg;
    void (*on_closed)(void *arg);
    void *on_closed_arg;
    enum stream_state state;
    unsigned pauses, pending;
    bool delivering, in_eof, congested, finish, fin_sent, tls, peer_ended, lacks_memory;
    size_t written;
    struct buf in, out;
    struct stream *along, *leader;
    struct sim_source io;
    struct loop_timer *timer;
    struct loop_deferred deliver_work, flush_work, free_work, exit_work;
    const char *failure;
    uint64_t bytes_in, bytes_out, wire_out;
    char remote[64], remote_ip[48];
};

static struct way *inward(const struct stream *s)
{
    return &s->pipe->to[s->side];
}

static struct way *outward(const struct stream *s)
{
    return &s->pipe->to[!s->side];
}

/* ---- delivery, as stream.h promises it ---- */

static bool take(struct stream *s, enum stream_event ev)
{
    bool was = (s->pending & 1U << ev) != 0;

    s->pending &= ~(1U << ev);
    return was;
}

static bool next_event(struct stream *s, enum stream_event *ev)
{
    if (take(s, STREAM_OPENED))
        return *ev = STREAM_OPENED, true;
    if (s->pauses == 0 && take(s, STREAM_READABLE) && buf_len(&s->in) > 0)
        return *ev = STREAM_READABLE, true;
    if (take(s, STREAM_FAILED)) {
        s->pending = 0;
        return *ev = STREAM_FAILED, true;
    }
    if (take(s, STREAM_WRITABLE))
        return *ev = STREAM_WRITABLE, true;
    if (s->pauses == 0 && take(s, STREAM_EOF))
        return *ev = STREAM_EOF, true;
    return false;
}

static void deliver(struct stream *s)
{
    enum stream_event ev;

    if (s->delivering || s->state == CLOSED)
        return;
    loop_defer_cancel(s->loop, &s->deliver_work);
    s->delivering = true;
    while (s->fn != NULL && next_event(s, &ev))
        s->fn(s, ev, s->arg);
    s->delivering = false;
}

static void deliver_work(void *arg)
{
    deliver(arg);
}

static void mark(struct stream *s, enum stream_event ev)
{
    s->pending |= 1U << ev;
    if (s->fn != NULL && s->state != CLOSED)
        loop_defer(s->loop, &s->deliver_work, deliver_work, s);
}

/* ---- what is charged ---- */

static void charge(struct stream *s, struct quota *q)
{
    buf_charge(&s->in, q);
    buf_charge(&s->out, q);
}

void stream_charge(struct stream *s, struct quota *q)
{
    charge(s, q);
    if (s->along != NULL)
        charge(s->along, q);
}

void stream_charge_along(struct stream *s, struct stream *other)
{
    s->along = other;
    other->leader = s;
    charge(other, s->out.quota);
}

static void charge_apart(struct stream *s)
{
    struct stream *leader = s->leader != NULL ? s->leader : s, *other = leader->along;

    if (other == NULL)
        return;
    charge(other, NULL);
    leader->along = other->leader = NULL;
}

/* ---- the end ---- */

static void free_work(void *arg)
{
    struct stream *s = arg;

    buf_free(&s->in);
    buf_free(&s->out);
    pipe_unref(s->pipe);
    mem_free(s);
}

static void destroy(struct stream *s, bool reset)
{
    s->state = CLOSED;
    s->fn = NULL;
    charge_apart(s);
    sim_source_remove(&s->io);
    loop_timer_free(s->timer);
    s->timer = NULL;
    loop_defer_cancel(s->loop, &s->deliver_work);
    loop_at_leave_cancel(s->loop, &s->flush_work);
    loop_at_exit_cancel(s->loop, &s->exit_work);
    pipe_close(s->pipe, s->side, reset);
    s->net->streams--;
    loop_defer(s->loop, &s->free_work, free_work, s);
    if (s->on_closed != NULL)
        s->on_closed(s->on_closed_arg);
}

static void broke(struct stream *s, const char *why)
{
    if (s->state > BROKEN) {
        if (s->state != CLOSED)
            destroy(s, false);
        return;
    }
    s->failure = why;
    s->state = BROKEN;
    buf_reset(&s->out);
    mark(s, STREAM_FAILED);
}

void stream_break(struct stream *s, const char *why)
{
    broke(s, why);
}

static void linger_over(void *arg)
{
    destroy(arg, false);
}

/* ---- what was written ---- */

static bool wants_input(const struct stream *s)
{
    return s->state == OPEN && !s->in_eof && s->pauses == 0 && buf_len(&s->in) < LIMIT_STREAM_INPUT;
}

static void flush(struct stream *s)
{
    struct way *w = outward(s);
    size_t n;

    if (s->state == BROKEN || s->state == CLOSED || s->state == OPENING)
        return;
    s->written = 0;
    if (inward(s)->reset && buf_len(&s->out) > 0) {
        buf_reset(&s->out);
        if (!wants_input(s) || inward(s)->n == 0) /* an answer may have come before the reset: it is told first */
            broke(s, "write: connection reset");
        return;
    }
    if (w->gone) { /* what is written now is answered with a reset */
        inward(s)->reset |= buf_len(&s->out) > 0;
        s->wire_out += buf_len(&s->out);
        buf_reset(&s->out);
    }
    n = pipe_put(w, buf_slice(&s->out));
    s->wire_out += n;
    buf_consume(&s->out, n);
    if (s->finish && buf_len(&s->out) == 0 && !s->fin_sent) {
        s->fin_sent = true;
        w->fin = true;
    }
    if (s->congested && buf_len(&s->out) <= s->net->low && s->state == OPEN) {
        s->congested = false;
        mark(s, STREAM_WRITABLE);
    }
    if (s->state == FLUSHING && s->fin_sent)
        s->state = LINGERING;
}

static void flush_work(void *arg)
{
    flush(arg);
}

static void flush_later(struct stream *s)
{
    if (s->state != CLOSED)
        loop_at_leave(s->loop, &s->flush_work, flush_work, s);
}

bool stream_write(struct stream *s, struct slice data)
{
    if (s->state > OPEN || s->finish)
        return false;
    if (data.n == 0)
        return true;
    if (buf_len(&s->out) + data.n > LIMIT_STREAM_OUTPUT_HARD) {
        broke(s, "too much unsent");
        return false;
    }
    if (!buf_append(&s->out, data)) {
        s->lacks_memory = true;
        broke(s, "out of memory");
        return false;
    }
    s->bytes_out += data.n;
    s->written += data.n;
    flush_later(s);
    if (buf_len(&s->out) > s->net->high || s->written >= LIMIT_STREAM_WRITE_TURN)
        s->congested = true;
    return true;
}

bool stream_congested(const struct stream *s)
{
    return s->congested;
}

size_t stream_unsent(const struct stream *s)
{
    return buf_len(&s->out);
}

size_t stream_unacknowledged(const struct stream *s)
{
    return buf_len(&s->out) + outward(s)->n;
}

void stream_finish_writing(struct stream *s)
{
    if (s->state > OPEN || s->finish)
        return;
    s->finish = true;
    flush_later(s);
}

/* ---- what comes in ---- */

static void discard(struct stream *s)
{
    struct way *w = inward(s);

    pipe_drop(w, w->n);
    if (w->fin || w->reset)
        destroy(s, false);
}

static void receive(struct stream *s)
{
    struct way *w = inward(s);
    size_t n = w->n < LIMIT_STREAM_READ_TURN ? w->n : LIMIT_STREAM_READ_TURN;

    if (n > 0) {
        if (!buf_append(&s->in, slice_of(w->p, n))) {
            broke(s, "out of memory");
            return;
        }
        pipe_drop(w, n);
        s->bytes_in += n;
        mark(s, STREAM_READABLE);
    } else if (w->fin) {
        s->in_eof = s->peer_ended = true;
        mark(s, STREAM_EOF);
    } else if (w->reset) {
        broke(s, "read: connection reset");
    }
}

static bool io_ready(void *arg)
{
    const struct stream *s = arg;
    const struct way *in = inward(s), *out = outward(s);

    switch (s->state) {
    case OPENING:
        return true;
    case OPEN:
        if (wants_input(s) && (in->n > 0 || in->fin || in->reset))
            return true;
        return buf_len(&s->out) > 0 && pipe_may_put(out);
    case FLUSHING:
        return buf_len(&s->out) > 0 && pipe_may_put(out);
    case LINGERING:
        return in->n > 0 || in->fin || in->reset;
    case BROKEN:
    case CLOSED:
        break;
    }
    return false;
}

static void io_run(void *arg)
{
    struct stream *s = arg;
    struct loop *l = s->loop;

    loop_enter(l);
    if (s->state == OPENING) {
        s->state = OPEN;
        mark(s, STREAM_OPENED);
        flush_later(s);
    }
    if (s->state == LINGERING)
        discard(s);
    else if (wants_input(s))
        receive(s);
    if (s->state != CLOSED && buf_len(&s->out) > 0)
        flush(s);
    deliver(s);
    loop_leave(l);
}

struct slice stream_peek(struct stream *s)
{
    return buf_len(&s->in) == 0 ? SLICE_NONE : buf_slice(&s->in);
}

void stream_consume(struct stream *s, size_t n)
{
    buf_consume(&s->in, n);
    if (buf_len(&s->in) == 0)
        buf_release(&s->in);
}

size_t stream_input_len(const struct stream *s)
{
    return buf_len(&s->in);
}

void stream_pause(struct stream *s, unsigned reasons)
{
    s->pauses |= reasons;
}

void stream_resume(struct stream *s, unsigned reasons)
{
    if ((s->pauses & reasons) == 0)
        return;
    s->pauses &= ~reasons;
    if (s->pauses == 0 && buf_len(&s->in) > 0)
        mark(s, STREAM_READABLE);
    if (s->pauses == 0 && s->pending != 0 && s->fn != NULL && s->state != CLOSED)
        loop_defer(s->loop, &s->deliver_work, deliver_work, s);
}

void stream_begin_message(struct stream *s)
{
    (void)s;
}

void stream_mark_known(struct stream *s)
{
    (void)s;
}

void stream_take_turns_of(struct stream *s, uint64_t whom, bool known)
{
    (void)s;
    (void)whom;
    (void)known;
}

struct loop_turns *stream_share_turns(struct stream *s)
{
    s->turns.of = slice_str(stream_remote_ip(s));
    return &s->turns;
}

/* ---- life ---- */

struct stream *sim_stream_new(struct sim_net *net, struct pipe *p, enum pipe_side side, const char *ip)
{
    struct stream *s = mem_zalloc(sizeof(*s));

    if (s == NULL)
        return NULL;
    s->loop = net->loop;
    s->net = net;
    s->pipe = pipe_ref(p);
    s->side = side;
    s->tls = p->tls;
    buf_init(&s->in, LIMIT_STREAM_INPUT + LIMIT_STREAM_READ_TURN);
    buf_init(&s->out, LIMIT_STREAM_OUTPUT_HARD);
    (void)snprintf(s->remote, sizeof(s->remote), "%s:%u", ip, 1024 + p->number % 60000);
    (void)snprintf(s->remote_ip, sizeof(s->remote_ip), "%s", ip);
    sim_source_add(s->loop, &s->io, io_ready, io_run, s);
    net->streams++;
    return s;
}

void sim_stream_opened(struct stream *s)
{
    s->state = OPEN;
}

struct stream *stream_accept(struct loop *l, int fd, const struct stream_opts *o)
{
    struct sim_net *net = sim_net_of(l);
    struct pipe *p = sim_net_take(net, fd);
    struct stream *s = sim_stream_new(net, p, PIPE_OURS, p->ip);

    if (s == NULL)
        pipe_close(p, PIPE_OURS, true);
    pipe_unref(p);
    if (s == NULL)
        return NULL;
    s->fn = o->fn;
    s->arg = o->arg;
    return s;
}

void stream_set_owner(struct stream *s, stream_fn *fn, void *arg)
{
    s->fn = fn;
    s->arg = arg;
    if (buf_len(&s->in) > 0)
        mark(s, STREAM_READABLE);
    if (s->in_eof)
        mark(s, STREAM_EOF);
    if (s->state == BROKEN)
        mark(s, STREAM_FAILED);
}

void stream_close(struct stream *s, enum stream_close_how how)
{
    if (s->state >= FLUSHING) {
        fprintf(stderr, "sim: a stream was closed twice\n");
        abort();
    }
    s->fn = NULL;
    loop_defer_cancel(s->loop, &s->deliver_work);
    if (s->state != OPEN || how == STREAM_CLOSE_ABORT) {
        destroy(s, how == STREAM_CLOSE_ABORT);
        return;
    }
    s->finish = true;
    if (how == STREAM_CLOSE_NOW) {
        flush(s);
        if (s->state != CLOSED)
            destroy(s, false);
        return;
    }
    s->state = FLUSHING;
    s->timer = loop_timer_new(s->loop, linger_over, s);
    if (s->timer == NULL) {
        destroy(s, false);
        return;
    }
    loop_timer_set(s->timer, TIMEOUT_LINGER_MS);
    loop_at_exit(s->loop, &s->exit_work, linger_over, s);
    flush_later(s);
}

void stream_on_closed(struct stream *s, void (*fn)(void *arg), void *arg)
{
    s->on_closed = fn;
    s->on_closed_arg = arg;
}

/* ---- facts ---- */

const char *stream_remote_text(const struct stream *s)
{
    return s->remote;
}

const char *stream_remote_ip(const struct stream *s)
{
    return s->remote_ip;
}

bool stream_lacks_memory(const struct stream *s)
{
    return s->lacks_memory;
}

bool stream_was_left(const struct stream *s)
{
    (void)s;
    return false;
}

const char *stream_failure(const struct stream *s)
{
    return s->failure != NULL ? s->failure : "";
}

const char *stream_alpn(const struct stream *s)
{
    return !s->tls ? "" : s->pipe->http2 ? "h2" : "http/1.1";
}

bool stream_is_hop(const struct stream *s)
{
    return s->pipe->hop;
}

bool stream_is_tls(const struct stream *s)
{
    return s->tls;
}

bool stream_tls_resumed(const struct stream *s)
{
    (void)s;
    return false;
}

bool stream_is_open(const struct stream *s)
{
    return s->state == OPEN;
}

bool stream_is_quiet(const struct stream *s)
{
    const struct way *w = inward(s);

    return s->state == OPEN && !s->in_eof && buf_len(&s->in) == 0 && w->n == 0 && !w->fin && !w->reset;
}

uint64_t stream_wire_bytes(const struct stream *s)
{
    return s->wire_out;
}

/* What came to a descriptor that was open is acknowledged. */
bool stream_unread(const struct stream *s, uint64_t from)
{
    return s->wire_out == from || (s->peer_ended && outward(s)->gone && outward(s)->total <= from);
}

const struct tls_peer *stream_tls_peer(const struct stream *s)
{
    static const struct tls_peer nobody;

    return s->tls && s->pipe->shows[!s->side] != NULL ? s->pipe->shows[!s->side] : &nobody;
}

void stream_judge_again(struct stream *s, const struct tls_ctx *c)
{
    (void)s;
    (void)c;
}

uint64_t stream_bytes_in(const struct stream *s)
{
    return s->bytes_in;
}

uint64_t stream_bytes_out(const struct stream *s)
{
    return s->bytes_out;
}
