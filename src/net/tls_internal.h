/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS inside net/: what the contexts, the sessions and the identity check offer to stream_tls.c.
 */
#ifndef MVPROXY_NET_TLS_INTERNAL_H
#define MVPROXY_NET_TLS_INTERNAL_H

#include <openssl/ssl.h>

#include "net/tls_ctx.h"
#include "net/tls_peer.h"
#include "net/tls_pem.h"

struct tls_sessions;
struct tls_identity;
struct tls_sni;

struct tls_ctx {
    unsigned refs;
    bool server;
    SSL_CTX *ssl_ctx;
    BIO_METHOD *bio_method;
    struct tls_certs *own;              /* what it shows; NULL: nothing */
    struct tls_certs *client_ca;        /* server: NULL if not configured */
    struct tls_certs *requestheader_ca; /* server: likewise */
    struct tls_certs *server_ca;        /* client: NULL for the system's roots */
    char *server_name;                  /* client */
    const char *bundle_option;          /* client: tls_client_opts.bundle_option */
    struct tls_sessions *sessions;      /* client */
    struct tls_sni *sni;                /* server: NULL if there is only one certificate */
    bool http2, hop;
    struct tls_digest digest; /* of all that it was made of */
    struct tls_digest cas;    /* of a client's: as it was after the CAs */
};

/* A connection's SSL, ready for the handshake but for its BIO. `name` (client; NULL: the context's) is SNI and what
 * must be verified. */
MEM_CHECK SSL *tls_ctx_new_ssl(struct tls_ctx *c, const char *name);
/* Offers h2 before http/1.1 on this connection of the context, also if that does not. False when out of memory. */
MEM_CHECK bool tls_offer_http2(const struct tls_ctx *c, SSL *ssl);

/* tls_sni.c: certificates by name. `specs` is NULL-terminated, in the option's notation; NULL with *err. */
struct tls_sni *tls_sni_new(const char *const *specs, struct tls_digest *d, struct err *err);
void tls_sni_free(struct tls_sni *s);
/* Server: certificates are chosen by name, and sessions are bound to the name. */
void tls_sni_enable(struct tls_ctx *c);

/* tls_session.c: resumption. */
MEM_CHECK struct tls_sessions *tls_sessions_new(void);
void tls_sessions_free(struct tls_sessions *s);
/* Client: keeps what the server gives under the key that the SSL carries, and offers it the next time. The sessions
 * must outlive ctx, `key` ssl. False when out of memory. */
MEM_CHECK bool tls_sessions_watch(struct tls_sessions *s, SSL_CTX *ctx);
void tls_sessions_offer(struct tls_sessions *s, SSL *ssl, char *key);
/* Server: tickets, except for clients whose chain would be lost with them. */
void tls_tickets_enable(struct tls_ctx *c);

/*
 * tls_identity.c: after the handshake. *id stays NULL when no certificate was shown (or on the client side). False when
 * out of memory.
 */
MEM_CHECK bool tls_identity_new(const struct tls_ctx *c, SSL *ssl, struct tls_identity **id);
/* The same of a certificate and what came along with it (may be NULL). */
MEM_CHECK bool tls_identity_of(const struct tls_ctx *c, X509 *cert, STACK_OF(X509) * others, struct tls_identity **id);
/* By the bundles of another context than the one that the connection began with. Only the verdict changes: slices that
 * were taken of the rest stay good. */
void tls_identity_judge_again(struct tls_identity *id, const struct tls_ctx *c, SSL *ssl);
/* What the certificates that were shown make us hold, roughly; of a server: the client's. */
size_t tls_chain_bytes(const SSL *ssl);
/* Server: whether the client's certificate is judged the same without the intermediates that came along. */
bool tls_identity_stands_alone(const struct tls_ctx *c, SSL *ssl);
void tls_identity_free(struct tls_identity *id);
/* Of NULL: nobody. */
const struct tls_peer *tls_identity_peer(const struct tls_identity *id);

#endif
