/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server that says exactly what the test tells it to, on loopback in the same loop, and requests that write down
 * what happens to them.
 */
#ifndef MVPROXY_TESTS_UNIT_BACK_KIT_H
#define MVPROXY_TESTS_UNIT_BACK_KIT_H

#include "back/back.h"
#include "back/fetch.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/metric.h"
#include "lib/tap.h"
#include "net/loop.h"
#include "net/stream.h"
#include "net/tls_ctx.h"
#include "unit/net/fixture.h"

enum { KIT_CONNS = 1200, KIT_BODY = 32 << 20 };

struct back_kit;

struct server_conn {
    struct back_kit *kit;
    struct stream *s; /* NULL once closed */
    struct buf got;
    bool eof, failed;
    size_t answered; /* by kit->auto_reply */
};

struct back_kit {
    struct loop *loop;
    struct metrics *metrics;
    struct back *back;
    struct origin *origin;
    struct listener *listener;
    struct tls_ctx *server_tls, *client_tls, *client_cert_tls;
    unsigned port;
    struct server_conn conns[KIT_CONNS];
    size_t n_conns;
    const char *auto_reply;                        /* said after each head without body */
    void (*on_accept)(struct back_kit *k, int fd); /* another server in the place of this one */
    bool close_at_once;                            /* accepted connections are closed */
    bool short_of_memory;                          /* the server's own troubles are no failure of the test */
};

/* One request. Zero it, change opts through call_start()'s arguments or before call_send(). */
struct call {
    struct back_kit *kit;
    struct back_request *r; /* NULL once over */
    struct arena *arena;
    struct http_head head;
    struct back_opts opts;
    struct buf log;  /* "interim(100) head(200) end", "failed(unanswered)" … */
    struct buf body; /* all of on_body */
    size_t n_fields; /* of the answer */
    struct http_body answer_body;
    size_t charged_at_end; /* in opts.quota, which may go with the owner from on_end on */
    size_t body_events;
    unsigned writable;
    struct back_failure_info failure;
    char failure_text[256];
    struct stream *upgraded;
    const char *cancel_at; /* the event ("head", "body", "interim", "writable") in which the request is cancelled */
    const char *pause_at;  /* likewise */
    struct call *follow;   /* sent from inside on_end */
};

void back_kit_open(struct back_kit *k, bool tls, size_t max_connections);
/* Another origin in the place of the first, at the same server. */
void back_kit_origin(struct back_kit *k, const struct origin_opts *o);
void back_kit_close(struct back_kit *k); /* checks that nothing is left in flight */
/* The nth accepted connection, waits for it. */
struct server_conn *back_kit_conn(struct back_kit *k, size_t n);
/* Waits until the connection has received the text. */
bool conn_has(struct server_conn *c, const char *text);
/* Received text so far, forgotten by the call. */
const char *conn_take(struct server_conn *c);
void conn_say(struct server_conn *c, const char *text);
void conn_close(struct server_conn *c, enum stream_close_how how);
bool conn_closed(struct server_conn *c); /* waits until the client side has ended it */
double back_kit_metric(struct back_kit *k, const char *name, const char *label);

/* What has become of a fetch: its body, or why it failed. */
struct back_kit_fetched {
    unsigned calls;
    bool ok;
    char said[256];
};
void back_kit_fetched(void *arg, const struct fetch_result *r); /* for fetch_start(); `arg` is one of these */

void call_init(struct call *c, struct back_kit *k, const char *method, const char *target);
void call_send(struct call *c);
/* Shorthand for both. */
void call_start(struct call *c, struct back_kit *k, const char *method, const char *target);
/* Waits until the log is exactly / contains the text. */
bool call_is(struct call *c, const char *log);
bool call_over(struct call *c);
void call_free(struct call *c);
bool buf_has(const struct buf *b, const char *text);

#endif
