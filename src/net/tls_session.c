/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resumption. Servers give tickets, whose keys belong to the context and die with it; clients keep the last session
 * per address and name.
 */
#include "base/strmap.h"
#include "net/tls_internal.h"

enum { MAX_SESSIONS = 1024, TICKETS_PER_HANDSHAKE = 1 };

struct tls_sessions {
    struct strmap *by_key; /* -> SSL_SESSION */
};

struct tls_sessions *tls_sessions_new(void)
{
    struct tls_sessions *s = mem_zalloc(sizeof(*s));

    if (s == NULL)
        return NULL;
    s->by_key = strmap_new();
    if (s->by_key == NULL) {
        mem_free(s);
        return NULL;
    }
    return s;
}

static void forget_all(struct tls_sessions *s)
{
    struct slice key;
    size_t cursor = 0;
    void *session;

    while (strmap_next(s->by_key, &cursor, &key, &session)) {
        SSL_SESSION_free(session);
        strmap_remove(s->by_key, key);
    }
}

void tls_sessions_free(struct tls_sessions *s)
{
    if (s == NULL)
        return;
    forget_all(s);
    strmap_free(s->by_key);
    mem_free(s);
}

/* Called by OpenSSL with every ticket. 1 takes the reference. */
static int on_new_session(SSL *ssl, SSL_SESSION *session)
{
    struct tls_sessions *s = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
    const char *key = SSL_get_app_data(ssl);
    void *old = NULL;

    if (key == NULL || SSL_SESSION_is_resumable(session) != 1)
        return 0;
    /* Addresses come and go; instead of an order of age, a clean slate costs some handshakes, rarely. */
    if (strmap_count(s->by_key) >= MAX_SESSIONS)
        forget_all(s);
    if (!strmap_put(s->by_key, slice_str(key), session, &old))
        return 0;
    SSL_SESSION_free(old);
    return 1;
}

bool tls_sessions_watch(struct tls_sessions *s, SSL_CTX *ctx)
{
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(ctx, on_new_session);
    return SSL_CTX_set_app_data(ctx, s) == 1;
}

void tls_sessions_offer(struct tls_sessions *s, SSL *ssl, char *key)
{
    SSL_SESSION *session = strmap_get(s->by_key, slice_str(key));

    SSL_set_app_data(ssl, key);
    if (session != NULL && SSL_SESSION_is_resumable(session) == 1)
        SSL_set_session(ssl, session);
}

/*
 * A session remembers the client's own certificate but not the intermediates it came with, so that a resumed
 * connection could not be verified again. Such tickets are marked, and a marked ticket means a full handshake.
 */
static int on_ticket_made(SSL *ssl, void *arg)
{
    static const char mark[] = "chain";

    if (!tls_identity_stands_alone(arg, ssl))
        return SSL_SESSION_set1_ticket_appdata(SSL_get_session(ssl), mark, sizeof(mark));
    return 1;
}

static SSL_TICKET_RETURN on_ticket_seen(SSL *ssl, SSL_SESSION *session, const unsigned char *name, size_t n,
                                        SSL_TICKET_STATUS status, void *arg)
{
    void *mark = NULL;
    size_t mark_len = 0;

    (void)ssl;
    (void)name;
    (void)n;
    (void)arg;
    if (status != SSL_TICKET_SUCCESS && status != SSL_TICKET_SUCCESS_RENEW)
        return SSL_TICKET_RETURN_IGNORE_RENEW;
    SSL_SESSION_get0_ticket_appdata(session, &mark, &mark_len);
    if (mark_len > 0)
        return SSL_TICKET_RETURN_IGNORE_RENEW;
    return status == SSL_TICKET_SUCCESS ? SSL_TICKET_RETURN_USE : SSL_TICKET_RETURN_USE_RENEW;
}

void tls_tickets_enable(struct tls_ctx *c)
{
    static const unsigned char id[] = "mvproxy";
    SSL_CTX *ctx = c->ssl_ctx;

    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_session_id_context(ctx, id, sizeof(id) - 1);
    SSL_CTX_set_num_tickets(ctx, TICKETS_PER_HANDSHAKE);
    SSL_CTX_set_session_ticket_cb(ctx, on_ticket_made, on_ticket_seen, c);
}
