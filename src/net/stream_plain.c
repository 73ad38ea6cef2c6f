/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transport without TLS: for Unix sockets, tunnels' proxies, and tests.
 */
#include <errno.h>
#include <event2/buffer.h>
#include <event2/event.h>

#include "net/stream_bulk.h"
#include "net/stream_out.h"

static void plain_read_now(struct stream *s)
{
    struct recv_area *area = loop_recv_area(s->loop);
    ssize_t n = recv(s->fd, area->bytes, sizeof(area->bytes), 0);

    if (n > 0) {
        stream_received(s, (size_t)n);
        if (stream_input(s) != NULL && evbuffer_add(s->in, area->bytes, (size_t)n) == 0)
            stream_got_input(s);
        else
            stream_broke_for_memory(s);
    } else if (n == 0) {
        stream_read_fin(s);
        stream_got_eof(s);
    } else if (errno == EAGAIN || errno == EINTR) {
        stream_read_idle(s);
    } else {
        stream_broke(s, "read: %s", strerror(errno));
    }
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    struct stream *s = arg;
    struct loop *l = s->loop;

    (void)fd;
    (void)what;
    loop_enter(l);
    if (!stream_read_later(s)) {
        plain_read_now(s);
        stream_deliver(s);
    }
    loop_leave(l);
}

static void plain_start(struct stream *s)
{
    event_assign(&s->readable, loop_base(s->loop), s->fd, EV_READ | EV_PERSIST, on_readable, s);
    stream_opened(s);
}

static void plain_set_reading(struct stream *s, bool on)
{
    if (!on)
        event_del(&s->readable);
    else if (event_add(&s->readable, NULL) != 0)
        stream_broke_for_memory(s);
}

static void plain_look_again(struct stream *s)
{
    event_active(&s->readable, EV_READ, 1);
}

static bool plain_encode(struct stream *s, struct slice data)
{
    buf_free_list_lend(loop_free_list(s->loop), &s->out, data.n);
    return buf_append(&s->out, data);
}

static void plain_encode_end(struct stream *s)
{
    (void)s; /* the FIN that follows says it */
}

static void plain_detach(struct stream *s)
{
    event_del(&s->readable);
}

const struct stream_ops *stream_plain_transport(void)
{
    static const struct stream_ops ops = {
        .start = plain_start,
        .set_reading = plain_set_reading,
        .look_again = plain_look_again,
        .read_now = plain_read_now,
        .encode = plain_encode,
        .encode_end = plain_encode_end,
        .detach = plain_detach,
    };

    return &ops;
}
