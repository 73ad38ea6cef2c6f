/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is asking, and how that goes to the target (design: "Who is asking"; k8s.io/apiserver authentication union,
 * request-header before x509 before tokens before anonymous).
 */
#ifndef MVPROXY_PROXY_AUTHN_H
#define MVPROXY_PROXY_AUTHN_H

#include "http/head.h"
#include "kube/user.h"

struct tls_peer;

struct authn_opts {
    struct user_headers headers;
    const struct slice *allowed_names; /* CNs of front proxies; none listed: any */
    size_t n_allowed_names;
    bool can_assert; /* we hold a front-proxy certificate for the local server */
};

enum authn_kind {
    AUTHN_ASSERT,  /* `user` is known: certificate connection, X-Remote-*; Authorization dropped */
    AUTHN_PASS,    /* the target finds out: connection without certificate, Authorization as it is */
    AUTHN_REFUSED, /* 401 */
};

struct authn {
    enum authn_kind kind;
    struct user user;    /* ASSERT only */
    bool front_proxy;    /* the connection proved to be a front proxy's: its markers count */
    bool by_certificate; /* a certificate was looked at for who the client is, whatever came of it */
    bool rerouted;       /* front_proxy and a loop mark is set */
    const char *why;     /* REFUSED: for the log, no secrets */
};

enum { AUTHN_OK, AUTHN_NO_MEMORY };

/* Text in *out lives as long as the arena, the head and the tls peer. `now_s`: wall seconds, for expiry since the
 * handshake. */
int authn_decide(const struct authn_opts *o, const struct http_head *head, const struct tls_peer *tls, int64_t now_s,
                 struct arena *a, struct authn *out);

/*
 * A fixed-size name for the credential and what it asks for, so that verdicts can be kept without keeping the
 * credential: SHA-256 over kind, method (outside of resources RBAC's verb: get and head are two) and identity or
 * Authorization. False if the digest fails.
 */
enum { AUTHN_KEY_BYTES = 32 };
bool authn_credential_key(const struct authn *au, const struct http_head *head, unsigned char out[AUTHN_KEY_BYTES]);

#endif
