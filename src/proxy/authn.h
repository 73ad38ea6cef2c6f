/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Authenticates the client as far as mvproxy can, and decides how its identity is passed to the server (design: "Who is
 * asking"). The order is that of k8s.io/apiserver's authentication union: request-header, x509, tokens, anonymous.
 */
#ifndef MVPROXY_PROXY_AUTHN_H
#define MVPROXY_PROXY_AUTHN_H

#include "http/head.h"
#include "kube/user.h"

struct tls_peer;

struct authn_opts {
    struct user_headers headers;
    const struct slice *allowed_names; /* common names of front proxies; none listed: any */
    size_t n_allowed_names;
    bool can_assert; /* we hold a front-proxy certificate for the local server */
};

enum authn_kind {
    AUTHN_ASSERT, /* `user` is known: sent as X-Remote-* over a connection with certificate; Authorization is dropped */
    AUTHN_PASS,   /* the server authenticates: connection without certificate, Authorization unchanged */
    AUTHN_REFUSED, /* 401 */
};

struct authn {
    enum authn_kind kind;
    struct user user;    /* ASSERT only */
    bool front_proxy;    /* the client proved to be a front proxy: its loop marks count */
    bool by_certificate; /* a client certificate was used to authenticate, with success or not */
    bool anonymous;      /* neither certificate nor token, as the server reads it (http/credential.h) */
    bool rerouted;       /* front_proxy and a loop mark is set */
    const char *why;     /* REFUSED: for the log, no secrets */
};

enum { AUTHN_OK, AUTHN_NO_MEMORY };

/* Returns AUTHN_OK or AUTHN_NO_MEMORY. Text in *out lives as long as the arena, the head and the TLS peer. `now_s`:
 * wall clock in seconds, for certificates that expired since the handshake. */
int authn_decide(const struct authn_opts *o, const struct http_head *head, const struct tls_peer *tls, int64_t now_s,
                 struct arena *a, struct authn *out);

/*
 * A digest of the credential and the method, under which verdicts are cached without keeping the credential: SHA-256
 * over kind, method (for non-resource paths RBAC's verb is the method, so GET and HEAD differ) and identity or
 * Authorization. False if the digest cannot be computed.
 */
enum { AUTHN_KEY_BYTES = 32 };
bool authn_credential_key(const struct authn *au, const struct http_head *head, unsigned char out[AUTHN_KEY_BYTES]);

#endif
