/* SPDX-License-Identifier: Apache-2.0
 * The client side: requests to origins over pooled connections, by HTTP/1.1, or HTTP/2 where owner and server want it.
 *
 * Life of a request: back_start() → on_interim* → on_head → on_body* → on_end, or on_upgraded instead of on_head, or
 * on_failed at any point before on_end. on_end, on_failed and on_upgraded are the last call; the handle is dead after
 * it. No callback comes from inside a back_* call of the owner. back_cancel() ends it silently: what is left of a short
 * answer is read and dropped, so that the HTTP/1.1 connection can be kept.
 *
 * Retries here are the ones that nobody can notice: a connection lost before any byte of a response, and the method is
 * safe or the server cannot have read any of the request, or says on HTTP/2 that it has not (back/retry.h). At most
 * twice, the second time on a fresh connection, over HTTP/1.1. A response before the request's end ends both.
 */
#ifndef MVPROXY_BACK_BACK_H
#define MVPROXY_BACK_BACK_H

#include "http/head.h"

struct back; /* all origins and their pools */
struct back_request;
struct loop;
struct metrics;
struct origin;
struct quota;
struct sockaddr;
struct stream;
struct tls_ctx;
struct egress_proxy;

enum back_failure {
    BACK_FAIL_CONNECT, /* no connection: refused, unreachable, TLS, certificate, resolve, deadline. Nothing was sent */
    BACK_FAIL_BUSY,    /* pool and its queue are full, or no connection became free in time. Nothing was sent */
    BACK_FAIL_UNANSWERED, /* connection lost before any byte of a response */
    BACK_FAIL_HEAD,       /* garbage, lost, or over a limit in the middle of a head */
    BACK_FAIL_BODY,     /* after on_head: truncated or broken framing; any time: the request's body, not as announced */
    BACK_FAIL_TIMEOUT,  /* head_timeout_ms passed, or the server did not take the body */
    BACK_FAIL_IDENTITY, /* who asks, and the connection, do not fit: withheld. Nothing was sent */
    BACK_FAIL_MEMORY,
    BACK_FAIL_CLIENT,   /* it has or has wasted too many connections (base/churn.h), or no room. Nothing was sent */
    BACK_FAIL_LOOP,     /* an mvproxy is where the origin is to be an API server itself. Nothing was sent */
    BACK_FAIL_GIVEN_UP, /* origin_fail_unanswered(): nothing else speaks against the server */
};
const char *back_failure_name(enum back_failure why); /* "connect", …: as in metrics and logs. Static */

struct back_failure_info {
    enum back_failure why;
    const char *text;  /* for the log, valid during the call */
    bool reused;       /* the connection had served a request before (the keep-alive race) */
    bool request_sent; /* the server may have read some of the request; false is certain (stream_unread) */
    bool body_sent;    /* at least one byte of its body was taken from the owner */
};

struct back_handler {
    void (*on_interim)(void *arg, const struct http_head *head); /* 1xx except 101; NULL: dropped */
    /* Heads and their text are valid until the request ends. `body` is NONE for HEAD, 204, 304. */
    void (*on_head)(void *arg, const struct http_head *head, struct http_body body);
    void (*on_body)(void *arg, struct slice data); /* valid during the call; all of it is taken */
    void (*on_end)(void *arg, const struct http_head *trailers);
    void (*on_writable)(void *arg); /* no more congested, or the first time the body can be written. Cancels nothing */
    void (*on_failed)(void *arg, const struct back_failure_info *info);
    /* 101: the stream is the owner's (stream_set_owner at once), unread bytes wait in it. NULL: 101 is a failure. */
    void (*on_upgraded)(void *arg, const struct http_head *head, struct stream *s);
};

/* Who may share an HTTP/2 connection. */
enum back_http2 {
    BACK_HTTP1,             /* HTTP/1.1 it is */
    BACK_HTTP2_SHARED,      /* with_cert, and the identity travels in the request: everybody's */
    BACK_HTTP2_SAME_BEARER, /* requests with the very same token; without one: HTTP/1.1 */
};

struct origin_opts {
    const char *name;   /* "local" or a server ID */
    const char *server; /* for logs and metrics: the server's host name, its ID where that is not known; NULL: name */
    const char *host;   /* literal, name or unix:/path */
    unsigned port;
    struct tls_ctx *tls_cert;    /* with the front-proxy certificate; NULL if there is none */
    struct tls_ctx *tls_no_cert; /* without client certificate */
    bool tls_required;           /* without a context nothing is sent; else two missing ones mean plain text (tests) */
    bool sole;                   /* nobody can take its place: never ejected */
    bool last;                   /* an API server itself, no mvproxy: that is a loop. Contexts: hop */
    size_t max_connections;      /* per pool, 0 = LIMIT_POOL_CONNECTIONS */
    uint64_t connect_timeout_ms; /* 0 = TIMEOUT_CONNECT_MS; a request waits twice that for a connection */
    uint64_t idle_timeout_ms;    /* 0 = TIMEOUT_BACK_IDLE_MS */
    uint64_t ping_after_ms, ping_timeout_ms;               /* 0 = TIMEOUT_H2_PING_MS, TIMEOUT_H2_PONG_MS */
    uint64_t stall_timeout_ms;                             /* of a request's body; 0 = TIMEOUT_BODY_STALL_MS */
    bool (*allow)(const struct sockaddr *addr, void *arg); /* see net/dial.h */
    void *allow_arg;
    struct egress_proxy *egress; /* the proxy on the way there (net/egress_proxy.h); NULL: none. Referenced */
};

struct back_opts {
    struct origin *origin;
    bool with_cert; /* over a connection with the front-proxy certificate: the head asserts exactly one user */
    bool hop;       /* over one that proves an mvproxy at its other end, or without certificate: asserts nobody */
    enum back_http2 http2;        /* a wish (docs/internals/back-http2.md) */
    bool http2_if_busy;           /* the wish is for busy times only (back/h2_load.h) */
    bool lasting, watch;          /* it mostly waits; its client goes on elsewhere where it ends */
    const struct http_head *head; /* end-to-end fields, Host included; must live until the request ends */
    unsigned impersonations;      /* Impersonate-* of the client's: without one of them the head does not go out */
    struct http_body body;        /* NONE, LENGTH or CHUNKED; the connection adds the framing fields */
    bool upgrade; /* Connection: Upgrade goes out (the Upgrade field is in head), own connection, never pooled */
    bool expect_continue;     /* Expect is in head: on_writable comes with 100 or any final head, or after 1 s */
    uint64_t head_timeout_ms; /* from now to the response head, an upload included; 0 = none */
    bool others, movable;     /* the owner can ask another origin: one repetition here; asks it if this one is silent */
    bool own, proves_nothing; /* own: not for a client, no limit on clients counts it; proves_nothing: of health */
    bool once;           /* what was sent is not sent again, whatever its method: a program behind the server has it */
    const char *client;  /* address whose budget counts (base/churn.h); NULL: none. Until back_cancel() */
    struct quota *quota; /* is charged with what waits, and an HTTP/1.1 connection, until the last call; NULL: none */
    const struct back_handler *handler;
    void *arg;
};
struct back *back_new(struct loop *l, struct metrics *m); /* ends the process when out of memory */
void back_free(struct back *b);
/* A reference-counted origin; the opts' text is copied, TLS contexts are referenced. NULL when out of memory. */
MEM_CHECK struct origin *origin_new(struct back *b, const struct origin_opts *o);
struct origin *origin_ref(struct origin *o);
void origin_unref(struct origin *o);  /* the last one closes idle connections; requests under way finish */
void origin_retire(struct origin *o); /* the same, by its owner: another is in its place. Shown as ejected no more */
bool origin_same(const struct origin *a, const struct origin *b); /* place, way there, and the very TLS contexts */
const char *origin_name(const struct origin *o);                  /* opts.server, as in logs and metrics */
const char *origin_address(const struct origin *o); /* host:port, brackets for IPv6: also the Host field to send */
bool origin_healthy(const struct origin *o);        /* back/health.h: false for a while after failures; then a trial */
bool origin_has_cert(const struct origin *o);       /* tls_cert was given */
size_t origin_in_flight(const struct origin *o);
size_t origin_clients_in_flight(const struct origin *o);               /* without what is our own */
bool origin_unreachable(const struct origin *o);                       /* the last attempt to connect failed */
bool origin_hangs(const struct origin *o);                             /* left our question unanswered; no byte since */
bool origin_loops(const struct origin *o);                             /* opts.last, and an mvproxy answers there */
const char *origin_ejection(const struct origin *o, uint64_t *for_ms); /* why, how long (or NULL); NULL: it is not */
/* A question of ours was not answered in time: not healthy until a byte comes, and connections prove that they live. */
void origin_suspect(struct origin *o);
/* No answer will come from there: of what has none, is movable, may be sent again, some is given up. True: not all. */
bool origin_fail_unanswered(struct origin *o, const char *text);
/* The retry budget (back/health.h), and that of strangers: asked before what failed here goes elsewhere, and told. */
bool origin_may_repeat(const struct origin *o, bool stranger);
void origin_note_repeat(struct origin *o, bool stranger);
bool back_is_stranger(const struct back *b, const struct http_head *request); /* bearers.h; he has no certificate */
void origin_note_refused_repeat(struct origin *o);
MEM_CHECK struct back_request *back_start(struct back *b, const struct back_opts *o);
void back_cancel(struct back_request *r);
/* Body bytes, on their way from the first on_writable on; before, they are kept, bounded, and rule retries out. False
 * when it is over (on_failed follows). LENGTH: the body is complete with its last byte. */
bool back_write(struct back_request *r, struct slice data);
bool back_congested(const struct back_request *r); /* true as well without a connection yet: on_writable comes */
/* The body is complete (CHUNKED: with trailers or NULL). Too short for its LENGTH: on_failed follows. */
void back_finish(struct back_request *r, const struct http_head *trailers);
void back_pause(struct back_request *r); /* stops on_body */
void back_resume(struct back_request *r);

#endif
