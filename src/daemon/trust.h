/*
 * Every TLS context that a configuration names, made in one go: the part of a (re)load that can fail.
 */
#ifndef MVPROXY_DAEMON_TRUST_H
#define MVPROXY_DAEMON_TRUST_H

#include "base/buf.h"
#include "daemon/config.h"

struct tls_ctx;

struct trust {
    struct tls_ctx *serving;    /* HTTP/2 and HTTP/1.1 */
    struct tls_ctx *admin;      /* the same for the admin listener, which speaks HTTP/1.1 only */
    struct tls_ctx *local_cert; /* NULL without proxy-client-cert-file */
    struct tls_ctx *local_no_cert;
    struct tls_ctx *peer_cert, *peer_no_cert; /* NULL without peer-ca-file or proxy-client-cert-file */
};

/* All or nothing; every failure is a line in *errors. */
bool trust_load(const struct config *c, struct trust *out, struct buf *errors);
/* Puts the contexts of `old` in the place of those that are the same, so that nobody has to connect anew. */
void trust_keep_same(struct trust *t, const struct trust *old);
void trust_free(struct trust *t);
/* Are peers possible at all? */
bool trust_has_peers(const struct trust *t);

#endif
