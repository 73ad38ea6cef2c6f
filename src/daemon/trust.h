/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every TLS context and every proxy that a configuration names, made in one go: the part of a (re)load that can fail.
 */
#ifndef MVPROXY_DAEMON_TRUST_H
#define MVPROXY_DAEMON_TRUST_H

#include "base/buf.h"
#include "cluster/etcd.h"
#include "daemon/config.h"

struct tls_ctx;
struct egress_proxy;

struct trust {
    struct tls_ctx *serving;    /* HTTP/2 and HTTP/1.1 */
    struct tls_ctx *admin;      /* the same for the admin listener, which speaks HTTP/1.1 only */
    struct tls_ctx *local_cert; /* NULL without proxy-client-cert-file */
    struct tls_ctx *local_no_cert;
    struct tls_ctx *etcd[ETCD_SERVERS_MAX];         /* one per etcd-servers, for each has its name; NULL for http:// */
    struct tls_ctx *peer_cert, *peer_no_cert;       /* NULL without peer-ca-file or proxy-client-cert-file */
    char *requestheader_ca, *client_ca;             /* PEM text, to be compared; "" without such a file */
    struct egress_proxy *peer_egress, *etcd_egress; /* the egress selector's; NULL: dialled directly */
};

/* All or nothing; every failure is a line in *errors. */
bool trust_load(const struct config *c, struct trust *out, struct buf *errors);
/* Puts before each of these lines where the option stands that names the file, and the option. */
void trust_name_options(const struct config *c, struct buf *errors);
/* Puts what `old` has in the place of those that are the same, so that nobody has to connect anew. True if any
 * is not. */
bool trust_keep_same(struct trust *t, const struct trust *old);
/*
 * The local server's, or peers', by the CAs of `old` in place of those of *t, but with the client certificate of now.
 * What cannot be made is that of `old`.
 */
void trust_hold_local(const struct config *c, struct trust *t, const struct trust *old);
void trust_hold_peers(const struct config *c, struct trust *t, const struct trust *old);
void trust_free(struct trust *t);
/* Warns of cipher suites that are configured and insecure (as kube-apiserver does) or not to be had. */
void trust_say_suites(const struct config *c);

enum trust_file_kind { TRUST_CERTIFICATE, TRUST_KEY, TRUST_BUNDLE };
typedef void trust_file_fn(const char *option, const char *path, enum trust_file_kind kind, void *arg);
/*
 * Every file that trust_load() reads, with the option that names it: they are watched for changes, and what is no key
 * for its end. What is loaded from a file must be in this list: one line each. Text is valid during the call.
 */
void trust_each_file(const struct config *c, trust_file_fn *fn, void *arg);
/* Says what cannot be done because files are not configured. `before`: what a reload replaces, of which nothing is said
 * again; NULL at the start. */
void trust_say_missing(const struct trust *t, const struct trust *before);
/* Are peers possible at all? */
bool trust_has_peers(const struct trust *t);

#endif
