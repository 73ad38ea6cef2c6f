/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tls_bufferevent.h"

#include <arpa/inet.h>
#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <event2/bufferevent_struct.h>
#include <event2/event.h>
#include <openssl/err.h>
#include <sys/socket.h>

#include "base/contract.h"
#include "net/lifetime.h"
#include "net/loop_internal.h"
#include "net/sockopt.h"
#include "net/tls_hello.h"
#include "net/tls_internal.h"
#include "net/tls_messages.h"

struct tls_acceptor {
    struct loop *loop;
    uint64_t timeout_ms;
    void (*crowded)(void *arg);
    void *arg;
    struct list under_way; /* of struct handshake, the oldest first */
};

/*
 * A handshake. Until it is over the bufferevent has no event of its own: it would shake hands whenever something
 * comes. Then it is woken, finds the handshake done, or failed, and goes on as if it had done that itself.
 */
struct handshake {
    struct list_node node;
    struct tls_acceptor *acceptor;
    struct bufferevent *bev; /* one reference is ours */
    SSL *ssl;                /* the bufferevent's */
    struct lifetime life;
    struct lifetime_work begin;
    struct lifetime_guest event_guest, step_guest;
    struct loop_timer *timer;
    struct event ready;
    struct loop_deferred step;
    struct tls_hello hello;
    bool begun;
    size_t alike;              /* of this address, itself with them */
    char ip[INET6_ADDRSTRLEN]; /* "": not known yet */
};

/* `by`: 1 when it has an address, -1 when it goes. */
static void count(struct handshake *h, int by)
{
    for (struct list_node *n = list_first(&h->acceptor->under_way); n != NULL;
         n = list_next(&h->acceptor->under_way, n)) {
        struct handshake *other = list_entry(n, struct handshake, node);

        if (strcmp(other->ip, h->ip) != 0)
            continue;
        must_hold(by > 0 || other->alike > 0);
        other->alike += (size_t)by;
        if (other != h && by > 0)
            h->alike++;
    }
}

static void end(struct handshake *h)
{
    if (h->ip[0] != '\0')
        count(h, -1);
    list_remove(&h->acceptor->under_way, &h->node);
    tls_hello_unwatch(&h->hello);
    lifetime_retire(&h->life, mem_free, h);
    bufferevent_decref(h->bev);
}

/* The bufferevent acts on `what`, EV_READ or EV_TIMEOUT, in the next turn. */
static void wake(struct handshake *h, short what)
{
    event_active(&h->bev->ev_read, what, 1);
    end(h);
}

static void on_timeout(void *arg)
{
    wake(arg, EV_TIMEOUT);
}

static void on_ready(evutil_socket_t fd, short what, void *arg)
{
    struct handshake *h = arg;
    struct loop *l = h->acceptor->loop;

    (void)fd;
    (void)what;
    loop_enter(l);
    /* Apart from those who come for the API: there are few, and a probe is not to wait for a flood elsewhere. */
    fair_queue_add(loop_handshakes(l), &h->step, FAIR_OWN, slice_str(h->ip),
                   h->begun ? FAIR_NEXT_OF_ADDRESS : FAIR_LAST);
    loop_leave(l);
}

static void stop_waiting(void *arg)
{
    event_del(arg);
}

static void leave_queue(void *arg)
{
    struct handshake *h = arg;

    fair_queue_cancel(loop_handshakes(h->acceptor->loop), &h->step);
}

static void await(struct handshake *h, short what)
{
    event_assign(&h->ready, loop_base(h->acceptor->loop), bufferevent_getfd(h->bev), what, on_ready, h);
    lifetime_guest(&h->life, &h->event_guest, stop_waiting, &h->ready);
    if (event_add(&h->ready, NULL) != 0)
        wake(h, EV_TIMEOUT);
}

/* ---- after the handshake ---- */

/* What belongs to an SSL whose handshake is over. */
struct watched {
    SSL *ssl;
    const struct loop *loop;
    struct tls_messages messages;
};

static void on_ssl_freed(void *parent, void *watched, CRYPTO_EX_DATA *data, int index, long n, void *arg)
{
    (void)parent;
    (void)data;
    (void)index;
    (void)n;
    (void)arg;
    mem_free(watched);
}

static int field(void)
{
    static int number = -1;

    if (number < 0)
        number = SSL_get_ex_new_index(0, NULL, NULL, NULL, on_ssl_freed);
    return number;
}

/* From then on OpenSSL drops what it reads, and the bufferevent finds the end instead of data. */
static void on_message(const SSL *ssl, int where, int ret)
{
    struct watched *w = SSL_get_ex_data(ssl, field());

    (void)ret;
    if (!tls_messages_count(&w->messages, where, loop_now_ms(w->loop)))
        SSL_set_shutdown(w->ssl, SSL_get_shutdown(ssl) | SSL_RECEIVED_SHUTDOWN);
}

/* The bufferevent's SSL reads the socket itself, for as long as there is no data in what comes. */
static bool watch_messages(SSL *ssl, const struct loop *l)
{
    struct watched *w = mem_zalloc(sizeof(*w));

    if (w == NULL || field() < 0 || SSL_set_ex_data(ssl, field(), w) != 1) {
        mem_free(w);
        return false;
    }
    w->ssl = ssl;
    w->loop = l;
    SSL_set_info_callback(ssl, on_message);
    return true;
}

static void take_step(void *arg)
{
    struct handshake *h = arg;
    int n, error;

    must_hold(!lifetime_over(&h->life)); /* the SSL goes with it */
    h->begun = true;
    ERR_clear_error();
    n = SSL_do_handshake(h->ssl);
    error = n == 1 ? SSL_ERROR_NONE : SSL_get_error(h->ssl, n);
    ERR_clear_error();
    if (error == SSL_ERROR_WANT_READ)
        await(h, EV_READ);
    else if (error == SSL_ERROR_WANT_WRITE)
        await(h, EV_WRITE);
    else if (h->hello.refused || (error == SSL_ERROR_NONE && !watch_messages(h->ssl, h->acceptor->loop)))
        wake(h, EV_TIMEOUT);
    else
        wake(h, EV_READ);
}

/* Of the address that has most the oldest goes. */
static void make_room(struct tls_acceptor *a)
{
    struct handshake *first = NULL;

    if (a->under_way.count <= LIMIT_ADMIN_HANDSHAKES)
        return;
    for (struct list_node *n = list_first(&a->under_way); n != NULL; n = list_next(&a->under_way, n)) {
        struct handshake *h = list_entry(n, struct handshake, node);

        if (first == NULL || h->alike > first->alike)
            first = h;
    }
    must_hold(first != NULL);
    wake(first, EV_TIMEOUT);
    a->crowded(a->arg);
}

/* The bufferevent has its descriptor now, and waits for events. */
static void begin(void *arg)
{
    struct handshake *h = arg;
    struct tls_acceptor *a = h->acceptor;
    struct sockaddr_storage addr = {.ss_family = AF_UNSPEC};
    socklen_t len = sizeof(addr);

    event_del(&h->bev->ev_read);
    event_del(&h->bev->ev_write);
    tls_hello_watch(&h->hello, h->ssl);
    (void)getpeername(bufferevent_getfd(h->bev), (struct sockaddr *)&addr, &len);
    sockopt_ip((const struct sockaddr *)&addr, h->ip);
    count(h, 1);
    loop_timer_set(h->timer, h->acceptor->timeout_ms);
    await(h, EV_READ);
    make_room(a);
}

struct tls_acceptor *tls_acceptor_new(struct loop *l, uint64_t timeout_ms, void (*crowded)(void *arg), void *arg)
{
    struct tls_acceptor *a = must_zalloc(sizeof(*a));

    a->loop = l;
    a->timeout_ms = timeout_ms == 0 ? TIMEOUT_HANDSHAKE_MS : timeout_ms;
    a->crowded = crowded;
    a->arg = arg;
    list_init(&a->under_way);
    return a;
}

void tls_acceptor_free(struct tls_acceptor *a)
{
    struct list_node *n;

    if (a == NULL)
        return;
    while ((n = list_first(&a->under_way)) != NULL)
        end(list_entry(n, struct handshake, node));
    mem_free(a);
}

static bool begin_later(struct tls_acceptor *a, struct bufferevent *bev, SSL *ssl)
{
    struct handshake *h = mem_zalloc(sizeof(*h));

    if (h == NULL)
        return false;
    h->acceptor = a;
    h->bev = bev;
    h->ssl = ssl;
    h->step = (struct loop_deferred){.fn = take_step, .arg = h};
    lifetime_init(&h->life, a->loop, "handshake with the admin listener");
    h->timer = lifetime_timer(&h->life, on_timeout, h);
    if (h->timer == NULL) {
        lifetime_retire(&h->life, mem_free, h);
        return false;
    }
    lifetime_work_init(&h->life, &h->begin, LOOP_DEFERRED, begin, h);
    lifetime_guest(&h->life, &h->step_guest, leave_queue, h);
    lifetime_queue(&h->begin);
    bufferevent_incref(bev);
    list_push_back(&a->under_way, &h->node);
    return true;
}

struct bufferevent *tls_bufferevent_new(struct tls_acceptor *a, struct tls_ctx *c)
{
    SSL *ssl = tls_ctx_new_ssl(c, NULL);
    struct bufferevent *bev;

    if (ssl == NULL)
        return NULL;
    bev = bufferevent_openssl_socket_new(loop_base(a->loop), -1, ssl, BUFFEREVENT_SSL_ACCEPTING, BEV_OPT_CLOSE_ON_FREE);
    if (bev == NULL) {
        SSL_free(ssl);
        return NULL;
    }
    bufferevent_openssl_set_allow_dirty_shutdown(bev, 1); /* requests and answers have their own lengths */
    SSL_set_accept_state(ssl);
    if (!begin_later(a, bev, ssl)) {
        bufferevent_free(bev);
        return NULL;
    }
    return bev;
}

bool tls_bufferevent_peer(const struct tls_ctx *c, struct bufferevent *bev,
                          void (*fn)(const struct tls_peer *peer, void *arg), void *arg)
{
    SSL *ssl = bufferevent_openssl_get_ssl(bev);
    struct tls_identity *id = NULL;

    if (ssl == NULL || !tls_identity_new(c, ssl, &id))
        return false;
    fn(tls_identity_peer(id), arg);
    tls_identity_free(id);
    return true;
}
