/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tls_bio.h"

#include <errno.h>
#include <sys/socket.h>

#include "base/contract.h"
#include "net/stream_bulk.h"
#include "net/stream_out.h"

static void evict(void *holder)
{
    struct tls_bio *b = holder;
    struct recv_area *area = loop_recv_area_peek(b->stream->loop);
    size_t n = b->end - b->start;

    must_hold(b->kept.p == NULL && b->start <= b->end && b->end <= sizeof(area->bytes));
    if (!buf_append(&b->kept, slice_of(area->bytes + b->start, n))) {
        b->recv_error = ENOMEM;
        n = 0;
    }
    b->start = 0;
    b->end = n;
}

bool tls_bio_has_input(const struct tls_bio *b)
{
    return b->start < b->end;
}

size_t tls_bio_input_len(const struct tls_bio *b)
{
    return b->end - b->start;
}

static int take(struct tls_bio *b, char *out, size_t want)
{
    struct recv_area *area = loop_recv_area_peek(b->stream->loop);
    const char *from = b->kept.p != NULL ? b->kept.p : area->bytes;
    size_t n = b->end - b->start < want ? b->end - b->start : want;

    must_hold(b->start <= b->end && (b->kept.p != NULL || area->holder == b)); /* not another's bytes */
    must_hold(b->end <= (b->kept.p != NULL ? buf_len(&b->kept) : sizeof(area->bytes)));
    memcpy(out, from + b->start, n);
    b->start += n;
    if (b->start == b->end) {
        b->start = b->end = 0;
        buf_release(&b->kept);
        if (area->holder == b)
            area->holder = NULL;
    }
    return (int)n;
}

/* True when something new waits. */
static bool receive(struct tls_bio *b)
{
    struct stream *s = b->stream;
    struct recv_area *area;
    ssize_t n;

    loop_touch(s->loop);
    area = loop_recv_area(s->loop);
    b->recv_turn = loop_turn(s->loop);
    n = recv(s->fd, area->bytes, sizeof(area->bytes), 0);
    if (n > 0) {
        stream_received(s, (size_t)n);
        must_hold(area->holder == NULL && b->kept.p == NULL);
        area->holder = b;
        area->evict = evict;
        b->end = (size_t)n;
        return true;
    }
    if (n == 0) {
        b->eof = true;
        stream_read_fin(s);
    } else if (errno != EAGAIN && errno != EINTR) {
        b->recv_error = errno;
    } else {
        stream_read_idle(s);
    }
    return false;
}

bool tls_bio_look(struct tls_bio *b)
{
    bool may_receive = !b->eof && b->recv_error == 0 && b->recv_turn != loop_turn(b->stream->loop);

    return tls_bio_has_input(b) || (may_receive && receive(b));
}

static int bio_read(BIO *bio, char *out, int want)
{
    struct tls_bio *b = BIO_get_data(bio);

    BIO_clear_retry_flags(bio);
    if (b == NULL || out == NULL || want <= 0)
        return -1;
    if (!tls_bio_look(b)) {
        if (b->eof)
            return 0;
        if (b->recv_error == 0)
            BIO_set_retry_read(bio);
        return -1;
    }
    return take(b, out, (size_t)want);
}

static int bio_write(BIO *bio, const char *in, int n)
{
    struct tls_bio *b = BIO_get_data(bio);

    BIO_clear_retry_flags(bio);
    if (b == NULL || n < 0 || !buf_append(&b->stream->out, slice_of(in, (size_t)n)))
        return -1;
    stream_flush_later(b->stream);
    return n;
}

static long bio_ctrl(BIO *bio, int cmd, long num, void *ptr)
{
    struct tls_bio *b = BIO_get_data(bio);

    (void)num;
    switch (cmd) {
    case BIO_C_GET_FD: /* for tls_sni.c, and for bufferevent_openssl_socket_new() */
        if (b == NULL)
            return -1;
        if (ptr != NULL)
            *(int *)ptr = b->stream->fd;
        return b->stream->fd;
    case BIO_CTRL_EOF:
        return b != NULL && b->eof && !tls_bio_has_input(b);
    case BIO_CTRL_PENDING:
        return b == NULL ? 0 : (long)(b->end - b->start);
    case BIO_CTRL_WPENDING:
        return b == NULL ? 0 : (long)buf_len(&b->stream->out);
    case BIO_CTRL_FLUSH: /* stream_flush_later() is under way */
    case BIO_CTRL_DUP:
    case BIO_CTRL_SET_CLOSE:
        return 1;
    default:
        return 0;
    }
}

static int bio_create(BIO *bio)
{
    BIO_set_init(bio, 1);
    return 1;
}

BIO_METHOD *tls_bio_method(void)
{
    BIO_METHOD *m = BIO_meth_new(BIO_TYPE_SOURCE_SINK | BIO_TYPE_DESCRIPTOR, "mvproxy stream");

    if (m == NULL)
        return NULL;
    BIO_meth_set_read(m, bio_read);
    BIO_meth_set_write(m, bio_write);
    BIO_meth_set_ctrl(m, bio_ctrl);
    BIO_meth_set_create(m, bio_create);
    return m;
}

void tls_bio_init(struct tls_bio *b, struct stream *s)
{
    b->stream = s;
    buf_init(&b->kept, sizeof(loop_recv_area_peek(s->loop)->bytes));
}

BIO *tls_bio_attach(struct tls_bio *b, const BIO_METHOD *method)
{
    BIO *bio = BIO_new(method);

    if (bio != NULL)
        BIO_set_data(bio, b);
    return bio;
}

static void forget(struct tls_bio *b)
{
    struct recv_area *area = loop_recv_area_peek(b->stream->loop);

    if (area->holder == b)
        area->holder = NULL;
    buf_release(&b->kept);
    b->start = b->end = 0;
}

void tls_bio_detach(struct tls_bio *b, BIO *bio)
{
    if (b->stream == NULL)
        return;
    forget(b);
    if (bio != NULL)
        BIO_set_data(bio, NULL);
}

void tls_bio_refuse(struct tls_bio *b)
{
    forget(b);
    b->recv_error = EPROTO;
}

void tls_bio_recv_again(struct tls_bio *b)
{
    b->recv_turn = 0;
}
