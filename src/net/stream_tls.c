/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transport with TLS, over tls_bio. The handshake is ours, step by step, since it waits for its part of a turn
 * (fair_queue.h), and of clients costs next to nothing before a byte has come. Towards servers a bufferevent reads
 * what comes then; of clients that is ours, too, which spares each of thousands a kilobyte. Writing goes straight
 * through SSL_write, which never blocks on this BIO, so the writing half of the bufferevent stays idle.
 * docs/internals/stream.md tells why each of the less obvious calls is there.
 */
#include "net/stream_tls.h"

#include "base/contract.h"
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <event2/bufferevent_struct.h>
#include <event2/event.h>
#include <openssl/err.h>

#include "net/stream_bulk.h"
#include "net/stream_out.h"
#include "net/tls_bio.h"
#include "net/tls_hello.h"
#include "net/tls_internal.h"
#include "net/tls_messages.h"
#include "net/tls_words.h"

enum {
    RECORD_BYTES = 16384,
    RECORD_OVERHEAD = 64,
    TLS_STATE_BYTES = 12 << 10,   /* roughly: of the 15 KB of an idle connection (docs/performance.md) */
    BUFFEREVENT_BYTES = 10 << 10, /* 1.3 KB, and the 8 KB that its first look leaves in its empty input */
    RECORDS_AT_ONCE = 64,         /* ordinary ones are of 1.4 KB and more: 64 KB of ciphertext, one look, are 47 */
    SMALL_READ = 2048,            /* room for what a small message takes; libevent makes 32 KB of a whole record's */
};

struct tls_conn {
    struct tls_ctx *ctx;
    SSL *ssl;                /* server: NULL before the first byte */
    BIO *bio_object;         /* belongs to ssl */
    struct bufferevent *bev; /* towards servers, after the handshake: reads */
    struct tls_bio bio;
    struct tls_hello hello;    /* server: until the handshake is over */
    struct loop_deferred step; /* of the handshake */
    bool hastened;             /* place_of() */
    struct quota *quota;       /* is charged with `held`; NULL: none */
    size_t held; /* TLS_STATE_BYTES while there is an SSL, for the certificates in it, and for the bufferevent */
    struct tls_identity *identity;
    char *server_name;
    char *session_key;
    char alpn[16]; /* without TLS_HOP_ALPN */
    bool hop;      /* it had that */
    bool resumed;
    struct tls_messages messages;
};

const char *tls_conn_alpn(const struct tls_conn *t)
{
    return t->alpn;
}

bool tls_conn_is_hop(const struct tls_conn *t)
{
    return t->hop;
}

bool tls_conn_resumed(const struct tls_conn *t)
{
    return t->resumed;
}

const struct tls_peer *tls_conn_peer(const struct tls_conn *t)
{
    return tls_identity_peer(t->identity);
}

void tls_conn_judge_again(struct tls_conn *t, const struct tls_ctx *c)
{
    tls_identity_judge_again(t->identity, c, t->ssl);
}

static void tls_charge(struct stream *s, struct quota *q)
{
    struct tls_conn *t = s->tls;

    buf_charge(&t->bio.kept, q);
    quota_add(q, t->held);
    quota_give(t->quota, t->held);
    t->quota = q;
}

static void hold(struct tls_conn *t, size_t bytes)
{
    quota_add(t->quota, bytes);
    t->held += bytes;
}

/* ---- failures ---- */

static const char *phase(const struct stream *s)
{
    return s->state == STREAM_HANDSHAKING ? "TLS handshake" : "TLS";
}

/* The other side's, in which it says why it gives up. */
static bool is_alert(unsigned long error)
{
    return ERR_GET_LIB(error) == ERR_LIB_SSL && ERR_GET_REASON(error) > SSL_AD_REASON_OFFSET;
}

/* `error` is OpenSSL's, taken from its queue, or 0. */
static void report(struct stream *s, unsigned long error)
{
    struct tls_conn *t = s->tls;
    long verdict = t->ssl == NULL ? X509_V_OK : SSL_get_verify_result(t->ssl);
    bool server = t->ssl != NULL && SSL_is_server(t->ssl);
    char refusal[TLS_WORDS_BYTES];

    stream_send_out(s);                    /* the alert, if one was written */
    if (s->send_broken && is_alert(error)) /* it says why there was a reset as well */
        stream_broke(s, "%s: %s", phase(s), tls_words_error(error, server));
    else if (s->send_broken)
        stream_read_idle(s);
    s->lacks_memory = s->lacks_memory || t->bio.recv_error == ENOMEM;
    if (tls_messages_too_many(&t->messages))
        stream_broke(s, "%s: too many handshake messages", phase(s));
    else if (t->bio.recv_error != 0)
        stream_broke(s, "%s: read: %s", phase(s), strerror(t->bio.recv_error));
    else if (t->bio.eof && s->carrier_failure != NULL)
        stream_broke(s, "%s: the egress proxy's connection ended: %s", phase(s), s->carrier_failure);
    else if (t->bio.eof) {
        s->left = true;
        if (s->state == STREAM_HANDSHAKING)
            stream_broke(s, "%s: the %s closed the connection", phase(s), server ? "client" : "server");
        else
            stream_broke(s, "%s: the connection ended without close_notify", phase(s)); /* it may be a cut */
    } else if (verdict != X509_V_OK && !server) {
        tls_words_refusal(t->ssl, t->ctx->bundle_option, refusal);
        stream_broke(s, "%s: certificate refused: %s", phase(s), refusal);
    } else
        stream_broke(s, "%s: %s", phase(s), tls_words_error(error, server));
}

static unsigned long queued_error(void)
{
    unsigned long first = ERR_get_error();

    ERR_clear_error();
    return first;
}

/* ---- reading ---- */

/* Something is inside that epoll does not know of. */
static bool has_hidden_input(const struct tls_conn *t)
{
    return tls_bio_has_input(&t->bio) || SSL_pending(t->ssl) > 0;
}

/* False when there is no more for now. */
static bool read_record(struct stream *s)
{
    struct tls_conn *t = s->tls;
    size_t expected = tls_bio_input_len(&t->bio) + (size_t)SSL_pending(t->ssl);
    int most = expected <= SMALL_READ ? SMALL_READ : RECORD_BYTES;
    struct evbuffer *in = stream_input(s);
    struct evbuffer_iovec room;
    int n;

    if (in == NULL || evbuffer_reserve_space(in, most, &room, 1) != 1) {
        stream_broke_for_memory(s);
        return false;
    }
    must_hold(room.iov_len >= (size_t)most);
    ERR_clear_error();
    n = SSL_read(t->ssl, room.iov_base, most);
    if (n > 0) {
        room.iov_len = (size_t)n;
        evbuffer_commit_space(in, &room, 1);
        return true;
    }
    stream_drop_empty_input(s);
    switch (SSL_get_error(t->ssl, n)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        return false;
    case SSL_ERROR_ZERO_RETURN:
        s->peer_ended = true;
        stream_got_eof(s);
        return false;
    default:
        report(s, queued_error());
        return false;
    }
}

/*
 * A record costs as much with a byte in it as with a hundred, and one look brings 2,800 of a byte. Whoever sends such
 * moves much, and until he has been read to the end his reading waits for its part of a turn.
 */
static void read_records(struct stream *s, bool more)
{
    unsigned left = RECORDS_AT_ONCE;

    for (; more && left > 0 && stream_wants_input(s); left--)
        more = read_record(s) && has_hidden_input(s->tls);
    stream_got_input(s);
    s->crumbs = (s->crumbs || left == 0) && has_hidden_input(s->tls);
    s->bulk = s->bulk || s->crumbs;
    if (s->crumbs && stream_wants_input(s))
        (void)stream_read_later(s);
}

/* The bufferevent stops after a record; epoll will not call again for what the BIO already took from the kernel. */
static void read_the_rest(struct stream *s)
{
    read_records(s, has_hidden_input(s->tls));
}

/*
 * Who reads: towards servers the bufferevent, but for a stream that moves much. That one waits for its part of a turn
 * when bytes come, which a bufferevent does not: it would be told in vain each time.
 */
static bool start_reading(struct stream *s)
{
    struct tls_conn *t = s->tls;

    if (t->bev == NULL || s->bulk)
        return event_add(&s->readable, NULL) == 0;
    return bufferevent_enable(t->bev, EV_READ) == 0;
}

static void stop_reading(struct stream *s)
{
    event_del(&s->readable);
    if (s->tls->bev != NULL)
        bufferevent_disable(s->tls->bev, EV_READ);
}

/* After what has come has shown which it is. */
static void choose_reader(struct stream *s)
{
    if (s->state != STREAM_OPEN || !s->reading || s->held)
        return;
    stop_reading(s);
    if (!start_reading(s))
        stream_broke_for_memory(s);
}

static void on_bufferevent_read(struct bufferevent *bev, void *arg)
{
    struct stream *s = arg;
    struct loop *l = s->loop;

    (void)bev;
    loop_enter(l);
    if (s->state == STREAM_OPEN)
        read_the_rest(s);
    else
        stream_got_input(s);
    stream_deliver(s);
    if (s->bulk)
        choose_reader(s);
    loop_leave(l);
}

/*
 * Events of a bufferevent come before the bytes of the same read: their delivery waits for on_bufferevent_read() or,
 * without bytes, for the end of the turn.
 */
static void on_bufferevent_event(struct bufferevent *bev, short what, void *arg)
{
    struct stream *s = arg;
    struct loop *l = s->loop;

    loop_enter(l);
    if (what & BEV_EVENT_EOF && s->state == STREAM_OPEN) {
        s->peer_ended = true; /* close_notify: a FIN alone is an error */
        stream_got_eof(s);
    } else {
        report(s, bufferevent_get_openssl_error(bev));
    }
    loop_leave(l);
}

static bool make_bufferevent(struct stream *s)
{
    struct tls_conn *t = s->tls;

    t->bev = bufferevent_openssl_socket_new(loop_base(s->loop), s->fd, t->ssl, BUFFEREVENT_SSL_OPEN, 0);
    if (t->bev == NULL)
        return false;
    hold(t, BUFFEREVENT_BYTES);
    bufferevent_disable(t->bev, EV_WRITE); /* a wake-up for nothing */
    s->in = bufferevent_get_input(t->bev);
    s->in_is_lent = true;
    bufferevent_setcb(t->bev, on_bufferevent_read, NULL, on_bufferevent_event, s);
    return true;
}

static void silence_bufferevent(struct bufferevent *bev)
{
    bufferevent_setcb(bev, NULL, NULL, NULL, NULL);
    bufferevent_disable(bev, EV_READ | EV_WRITE);
}

static struct event *read_event(struct stream *s)
{
    return s->tls->bev != NULL && !s->bulk ? &s->tls->bev->ev_read : &s->readable;
}

/* All that one look into the kernel brings, as far as there is room for it. */
static void tls_read_now(struct stream *s)
{
    struct tls_conn *t = s->tls;
    bool more = tls_bio_look(&t->bio) || has_hidden_input(t) || t->bio.eof || t->bio.recv_error != 0;

    read_records(s, more);
}

static void on_input(evutil_socket_t fd, short what, void *arg)
{
    struct stream *s = arg;
    struct loop *l = s->loop;

    (void)fd;
    (void)what;
    loop_enter(l);
    if ((has_hidden_input(s->tls) && !s->crumbs) || !stream_read_later(s)) {
        tls_read_now(s);
        stream_deliver(s);
        if (s->tls->bev != NULL && !s->bulk)
            choose_reader(s);
    }
    loop_leave(l);
}

static void tls_set_reading(struct stream *s, bool on)
{
    if (!on)
        stop_reading(s);
    else if (!start_reading(s))
        stream_broke_for_memory(s);
    else if (has_hidden_input(s->tls) || s->tls->bio.recv_error != 0) /* of which epoll knows nothing */
        event_active(read_event(s), EV_READ, 1);
}

/* Only of an open stream. */
static void tls_look_again(struct stream *s)
{
    tls_bio_recv_again(&s->tls->bio);
    event_active(read_event(s), EV_READ, 1);
}

/* ---- writing ---- */

static bool tls_encode(struct stream *s, struct slice data)
{
    size_t wire = data.n + (data.n / RECORD_BYTES + 1) * RECORD_OVERHEAD;

    buf_free_list_lend(loop_free_list(s->loop), &s->out, wire);
    if (buf_reserve(&s->out, wire) == NULL)
        return false;
    if (SSL_write(s->tls->ssl, data.p, (int)data.n) == (int)data.n)
        return true;
    ERR_clear_error(); /* here, and not each time before: it costs as much as a tenth of a record */
    return false;
}

static void tls_encode_end(struct stream *s)
{
    ERR_clear_error();
    SSL_shutdown(s->tls->ssl);
    ERR_clear_error();
}

/* ---- handshake ---- */

static void on_message(const SSL *ssl, int where, int ret)
{
    struct tls_bio *b = BIO_get_data(SSL_get_rbio(ssl));

    (void)ret;
    if (b == NULL || b->stream->state < STREAM_OPEN)
        return;
    if (!tls_messages_count(&b->stream->tls->messages, where, loop_now_ms(b->stream->loop)))
        tls_bio_refuse(b);
}

static bool make_ssl(struct stream *s)
{
    struct tls_conn *t = s->tls;

    t->ssl = tls_ctx_new_ssl(t->ctx, t->server_name);
    if (t->ssl == NULL)
        return false;
    hold(t, TLS_STATE_BYTES);
    t->bio_object = tls_bio_attach(&t->bio, t->ctx->bio_method);
    if (t->bio_object == NULL)
        return false;
    SSL_set_bio(t->ssl, t->bio_object, t->bio_object);
    SSL_set_info_callback(t->ssl, on_message);
    if (t->ctx->server) {
        tls_hello_watch(&t->hello, t->ssl);
        SSL_set_accept_state(t->ssl);
    } else {
        SSL_set_connect_state(t->ssl);
    }
    return true;
}

/* What this handshake agreed on: a resumed session negotiates anew (RFC 7301, 3.1; RFC 8446, 4.2.11). */
static void note_protocol(struct tls_conn *t)
{
    static const struct slice prefix = SLICE_LIT(TLS_HOP_ALPN);
    const unsigned char *alpn;
    struct slice name;
    unsigned n;

    SSL_get0_alpn_selected(t->ssl, &alpn, &n);
    name = slice_of((const char *)alpn, n);
    t->hop = slice_has_prefix(name, prefix);
    if (t->hop)
        name = slice_of(name.p + prefix.n, name.n - prefix.n);
    if (name.n > 0 && name.n < sizeof(t->alpn))
        memcpy(t->alpn, name.p, name.n);
}

static void finish_handshake(struct stream *s)
{
    struct tls_conn *t = s->tls;

    tls_hello_unwatch(&t->hello);
    t->resumed = SSL_session_reused(t->ssl) == 1; /* TLS 1.3 forgets it with the next ticket */
    note_protocol(t);
    hold(t, tls_chain_bytes(t->ssl));
    if (!tls_identity_new(t->ctx, t->ssl, &t->identity)) {
        stream_broke_for_memory(s);
        return;
    }
    if (!t->ctx->server && !make_bufferevent(s)) {
        stream_broke_for_memory(s);
        return;
    }
    event_assign(&s->readable, loop_base(s->loop), s->fd, EV_READ | EV_PERSIST, on_input, s);
    stream_opened(s);
}

static void await_more(struct stream *s)
{
    if (event_add(&s->readable, NULL) != 0)
        stream_broke_for_memory(s);
}

static void shake_hands(struct stream *s)
{
    int n;

    ERR_clear_error();
    n = SSL_do_handshake(s->tls->ssl);
    if (s->state != STREAM_HANDSHAKING) /* sending failed */
        return;
    if (n == 1)
        finish_handshake(s);
    else if (SSL_get_error(s->tls->ssl, n) == SSL_ERROR_WANT_READ)
        await_more(s);
    else
        report(s, queued_error());
}

/* Whoever connects and says nothing has cost no SSL. */
static void begin_or_go_on(struct stream *s)
{
    struct tls_conn *t = s->tls;

    if (t->ssl == NULL && !tls_bio_look(&t->bio)) {
        if (t->bio.eof || t->bio.recv_error != 0)
            report(s, 0);
        else
            await_more(s);
    } else if (t->ssl == NULL && !make_ssl(s)) {
        stream_broke_for_memory(s);
    } else {
        shake_hands(s);
    }
}

/* In the part of the turn that handshakes have. */
static void take_step(void *arg)
{
    struct stream *s = arg;

    if (s->state == STREAM_HANDSHAKING)
        begin_or_go_on(s);
    stream_deliver(s);
}

static struct fair_queue *queue_of(const struct stream *s)
{
    return s->tls->ctx->server ? loop_handshakes(s->loop) : loop_server_handshakes(s->loop);
}

static enum fair_share share_of(const struct stream *s)
{
    return s->turns.known ? FAIR_KNOWN : FAIR_STRANGERS;
}

/* Once: who sends his part byte by byte is not to be before all others again and again. */
static enum fair_place place_of(struct tls_conn *t)
{
    bool hastened = t->hastened;

    if (t->ssl == NULL)
        return FAIR_LAST;
    t->hastened = true;
    return hastened ? FAIR_NEXT_OF_ADDRESS : FAIR_NEXT;
}

static void on_handshake_input(evutil_socket_t fd, short what, void *arg)
{
    struct stream *s = arg;
    struct loop *l = s->loop;

    (void)fd;
    (void)what;
    loop_enter(l);
    if (s->state == STREAM_HANDSHAKING)
        fair_queue_add(queue_of(s), &s->tls->step, share_of(s), slice_str(s->remote_ip), place_of(s->tls));
    loop_leave(l);
}

/* ---- life ---- */

bool stream_tls_init(struct stream *s, const struct stream_opts *o)
{
    struct tls_conn *t = mem_zalloc(sizeof(*t));

    if (t == NULL)
        return false;
    s->tls = t;
    t->ctx = tls_ctx_ref(o->tls);
    if (o->server_name != NULL && (t->server_name = mem_strdup(o->server_name)) == NULL)
        return false;
    t->step = (struct loop_deferred){.fn = take_step, .arg = s};
    tls_bio_init(&t->bio, s);
    return t->ctx->server || (make_ssl(s) && (!o->http2 || tls_offer_http2(t->ctx, t->ssl)));
}

static char *session_key(const struct stream *s, const struct tls_conn *t)
{
    struct buf b;
    char *key = NULL;

    buf_init(&b, LIMIT_TARGET_BYTES);
    if (buf_printf(&b, "%s %s", s->remote, t->server_name == NULL ? "" : t->server_name))
        key = mem_slicedup(buf_slice(&b));
    buf_free(&b);
    return key;
}

static void tls_start(struct stream *s)
{
    struct tls_conn *t = s->tls;

    event_assign(&s->readable, loop_base(s->loop), s->fd, EV_READ, on_handshake_input, s);
    if (t->ctx->server) {
        await_more(s);
        return;
    }
    t->session_key = session_key(s, t);
    if (t->session_key != NULL)
        tls_sessions_offer(t->ctx->sessions, t->ssl, t->session_key);
    fair_queue_add(queue_of(s), &t->step, share_of(s), slice_str(s->remote_ip), FAIR_LAST);
}

static void tls_detach(struct stream *s)
{
    struct tls_conn *t = s->tls;

    if (t == NULL)
        return;
    fair_queue_cancel(queue_of(s), &t->step);
    tls_bio_detach(&t->bio, t->bio_object);
    event_del(&s->readable);
    if (t->bev != NULL)
        silence_bufferevent(t->bev);
}

static void tls_release(struct stream *s)
{
    struct tls_conn *t = s->tls;

    if (t == NULL)
        return;
    if (t->bev != NULL) {
        s->in = NULL; /* goes with it */
        bufferevent_free(t->bev);
    }
    if (t->ssl != NULL) {
        /* Otherwise a connection that was cut off takes its session with it. */
        SSL_set_shutdown(t->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
        SSL_free(t->ssl);
        quota_give(t->quota, t->held);
    }
    tls_identity_free(t->identity);
    tls_ctx_unref(t->ctx);
    mem_free(t->session_key);
    mem_free(t->server_name);
    mem_free(t);
}

const struct stream_ops *stream_tls_transport(void)
{
    static const struct stream_ops ops = {
        .start = tls_start,
        .set_reading = tls_set_reading,
        .look_again = tls_look_again,
        .read_now = tls_read_now,
        .encode = tls_encode,
        .encode_end = tls_encode_end,
        .charge = tls_charge,
        .detach = tls_detach,
        .release = tls_release,
    };

    return &ops;
}
