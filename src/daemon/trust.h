/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes every TLS context and egress proxy of a configuration together: the part of a start or reload that can fail.
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
    int64_t front_until_s;                    /* end of proxy-client-cert-file, in seconds since 1970; 0 without */
    struct tls_ctx *etcd[ETCD_SERVERS_MAX];   /* one per etcd-servers, each has its own name; NULL for http:// */
    struct tls_ctx *peer_cert, *peer_no_cert; /* NULL without peer-ca-file or proxy-client-cert-file */
    bool front_signed;                        /* requestheader-client-ca-file has signed proxy-client-cert-file */
    bool front_named;                         /* requestheader-allowed-names has its name, or is empty */
    char *front_cert;                         /* its PEM text, to tell whether it is another; "" without */
    unsigned serving_fits;                    /* who believes tls-cert-file, see serving_pair.h */
    int64_t serving_until_s;                  /* its end */
    char *serving_cert;                       /* its PEM text, as front_cert */
    char *requestheader_ca, *client_ca; /* PEM text, for comparison with the API servers'; "" without such a file */
    struct egress_proxy *peer_egress, *etcd_egress; /* of the egress selector; NULL: dialled directly */
};

/* Loads all. False, with a line in *errors for each failure and nothing in *out, on failure. */
bool trust_load(const struct config *c, struct trust *out, struct buf *errors);
/* Puts before each of these lines the place and the name of the option that names the file. */
void trust_name_options(const struct config *c, struct buf *errors);
enum { TRUST_CHANGED_FILES = 1, TRUST_CHANGED_EGRESS = 2 };
/* Replaces what is the same in `old` by that of `old`, so that nothing has to be connected anew. Which of these are
 * different. */
unsigned trust_keep_same(struct trust *t, const struct trust *old);
/*
 * Makes the contexts for the local server, or for peers, anew with the CAs of `old`, but with the client certificate of
 * *t. One that cannot be made is taken from `old`.
 */
void trust_hold_local(const struct config *c, struct trust *t, const struct trust *old);
void trust_hold_peers(const struct config *c, struct trust *t, const struct trust *old);
/* Of the bundles by which clients and front proxies are believed. */
enum { TRUST_CLIENT_CA = 1, TRUST_FRONT_CA = 2 };
/*
 * Makes the contexts for clients anew with these bundles of `old`, with all else as in *t. False, with an error added
 * and *t to be freed, when out of memory or if the rest of the files has changed meanwhile.
 */
bool trust_hold_clients(const struct config *c, struct trust *t, const struct trust *old, unsigned which,
                        struct buf *errors);
/* Whether requestheader-client-ca-file has not signed the front-proxy certificate, which is valid, and that of `old`
 * has: nobody would believe it any more who is configured likewise. */
bool trust_disowns_front(const struct config *c, const struct trust *t, const struct trust *old);
/*
 * Whether one of the two pairs that others know us by is another than in `old`, where it is still valid, and has lost
 * what it had there: the front-proxy certificate fits what it was loaded with, the serving one is believed by peers or
 * by those who use an address. They would not believe the new one. Adds an error that says so. What only the CAs of
 * `old` have signed is noted as signed in *t.
 */
bool trust_stray(const struct config *c, struct trust *t, const struct trust *old, struct buf *errors);
void trust_free(struct trust *t);
/* Warns of configured cipher suites that are insecure (as kube-apiserver does) or not available. */
void trust_say_suites(const struct config *c);

enum trust_file_kind { TRUST_CERTIFICATE, TRUST_KEY, TRUST_BUNDLE };
typedef void trust_file_fn(const char *option, const char *path, enum trust_file_kind kind, void *arg);
/*
 * Calls fn for every file that trust_load() reads, with the option that names it: all are watched for changes, and all
 * but keys for expiry. A new file that is loaded must be added to this list. Texts are valid during the call.
 */
void trust_each_file(const struct config *c, trust_file_fn *fn, void *arg);
/* Logs what cannot be done because files are not configured. `before`: what a reload replaces; what was missing there
 * as well is not logged again. NULL at the start. */
void trust_say_missing(const struct trust *t, const struct trust *before);
/* Whether peers can be used with these. */
bool trust_has_peers(const struct trust *t);

#endif
