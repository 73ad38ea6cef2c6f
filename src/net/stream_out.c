/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The writing half: gather (plain, while a callback runs) -> encode -> out (ready for the wire) -> kernel.
 */
#include "net/stream_out.h"

#include "base/contract.h"

#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <unistd.h>

enum {
    RECORD_BYTES = 16384, /* the largest TLS record */
    /* From here on a copy costs more than the record that it might save. */
    DIRECT_MIN = 4096,
    /* What records and an alert add to LIMIT_STREAM_OUTPUT_HARD plain bytes. */
    ENCODING_SPARE = 256 << 10,
};

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
    struct stream *s = arg;
    struct loop *l = s->loop;

    (void)fd;
    (void)what;
    loop_enter(l);
    stream_in_turn(s, STREAM_DUE_SEND);
    loop_leave(l);
}

static void flush_work(void *arg)
{
    stream_flush(arg);
}

void stream_out_init(struct stream *s)
{
    lifetime_work_init(&s->life, &s->flush_work, LOOP_AT_LEAVE, flush_work, s);
    buf_init(&s->gather, LIMIT_STREAM_OUTPUT_HARD);
    buf_init(&s->out, LIMIT_STREAM_OUTPUT_HARD + ENCODING_SPARE);
}

bool stream_await_writable(struct stream *s, void (*fn)(evutil_socket_t fd, short what, void *arg))
{
    if (s->writable == NULL)
        s->writable = event_new(loop_base(s->loop), s->fd, EV_WRITE, fn, s);
    return s->writable != NULL && event_add(s->writable, NULL) == 0;
}

size_t stream_unsent(const struct stream *s)
{
    return buf_len(&s->gather) + buf_len(&s->out);
}

bool stream_congested(const struct stream *s)
{
    return s->congested;
}

void stream_send_failed(struct stream *s, int error)
{
    if (s->send_broken)
        return;
    s->send_broken = true;
    s->send_error = error;
    s->bulk = false;
    stream_out_release(s);
    if (s->state == STREAM_OPEN && s->reading)
        s->ops->look_again(s); /* an answer may have come before the reset: it is told first */
    else
        stream_broke(s, "write: %s", strerror(error));
}

static void all_sent(struct stream *s)
{
    /* Proxies take a FIN for the end of both directions; under TLS close_notify has said it, and the FIN can wait. */
    bool fin_waits = s->tunnelled && s->tls != NULL && s->state == STREAM_OPEN;

    must_hold(buf_len(&s->out) == 0); /* a FIN before the rest would cut it off */
    buf_free_list_return(loop_free_list(s->loop), &s->out);
    if (s->state != STREAM_CONNECTING) /* then it says when we are connected */
        stream_forget_writable(s);
    if (s->finish_encoded && !s->fin_sent && !fin_waits) {
        s->fin_sent = true;
        shutdown(s->fd, SHUT_WR);
    }
    if (s->finish_encoded && s->state == STREAM_FLUSHING)
        stream_linger(s);
}

void stream_send_out(struct stream *s)
{
    while (buf_len(&s->out) > 0 && !s->send_blocked) {
        struct slice rest = buf_slice(&s->out);
        ssize_t n = send(s->fd, rest.p, rest.n, MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno != EAGAIN) {
            stream_send_failed(s, errno);
            return;
        }
        if (n > 0) {
            s->wire_out += (uint64_t)n;
            buf_consume(&s->out, (size_t)n);
        }
        s->send_blocked = buf_len(&s->out) > 0;
    }
    if (s->send_blocked) {
        if (!stream_await_writable(s, on_writable))
            stream_send_failed(s, ENOMEM);
    } else {
        all_sent(s);
    }
}

static void note_relief(struct stream *s)
{
    if (!s->congested || stream_unsent(s) > LIMIT_STREAM_OUTPUT_LOW || s->state != STREAM_OPEN)
        return;
    s->congested = false;
    s->pending |= 1U << STREAM_WRITABLE;
    stream_deliver_later(s);
}

static bool encode_gathered(struct stream *s)
{
    bool done = s->ops->encode(s, buf_slice(&s->gather));

    buf_free_list_return(loop_free_list(s->loop), &s->gather);
    if (!done)
        stream_broke_for_memory(s);
    return done;
}

void stream_flush(struct stream *s)
{
    bool may_encode = s->state == STREAM_OPEN || s->state == STREAM_FLUSHING;

    if (s->state == STREAM_CLOSED || s->state == STREAM_BROKEN || s->send_broken)
        return;
    if (may_encode && buf_len(&s->gather) > 0 && !encode_gathered(s))
        return;
    if (may_encode && s->finish && !s->finish_encoded) {
        s->finish_encoded = true;
        s->ops->encode_end(s);
    }
    if (!s->send_blocked)
        stream_send_out(s);
    s->written = 0;
    note_relief(s);
}

static bool gather(struct stream *s, struct slice data)
{
    buf_free_list_lend(loop_free_list(s->loop), &s->gather, data.n);
    return buf_append(&s->gather, data);
}

/* Full records as soon as they are full; what is left waits for more, or for the end of the callback. */
static bool take_in(struct stream *s, struct slice data)
{
    size_t gathered = buf_len(&s->gather);
    size_t room;

    if (s->state != STREAM_OPEN)
        return gather(s, data);
    if (gathered == 0 && data.n >= DIRECT_MIN)
        return s->ops->encode(s, data);
    if (gathered + data.n <= RECORD_BYTES)
        return gather(s, data);
    room = gathered < RECORD_BYTES ? RECORD_BYTES - gathered : 0;
    if (!gather(s, slice_of(data.p, room)) || !s->ops->encode(s, buf_slice(&s->gather)))
        return false;
    buf_reset(&s->gather);
    data = slice_from(data, room);
    return data.n >= DIRECT_MIN ? s->ops->encode(s, data) : gather(s, data);
}

bool stream_write(struct stream *s, struct slice data)
{
    if (s->state > STREAM_OPEN || s->finish || s->send_broken)
        return false;
    if (data.n == 0)
        return true;
    if (stream_unsent(s) + data.n > LIMIT_STREAM_OUTPUT_HARD) {
        stream_broke(s, "more than %d bytes unsent", LIMIT_STREAM_OUTPUT_HARD);
        return false;
    }
    if (!take_in(s, data)) {
        stream_broke_for_memory(s);
        return false;
    }
    s->bytes_out += data.n;
    s->written += data.n;
    stream_flush_later(s);
    if (!s->send_blocked && buf_len(&s->out) > LIMIT_STREAM_OUTPUT_HIGH)
        stream_send_out(s);
    if (stream_unsent(s) > LIMIT_STREAM_OUTPUT_HIGH || s->written >= LIMIT_STREAM_WRITE_TURN)
        s->congested = true;
    return !s->send_broken;
}

void stream_finish_writing(struct stream *s)
{
    if (s->state > STREAM_OPEN || s->finish)
        return;
    s->finish = true;
    stream_flush_later(s);
}
