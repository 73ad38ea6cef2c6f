/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A front on a loopback port, its clients, and a proxy that does nothing by itself: the tests play its part. Everything
 * runs in one loop and one thread, so each step of a scenario happens when the test says so.
 */
#ifndef MVPROXY_TESTS_UNIT_FRONT_KIT_H
#define MVPROXY_TESTS_UNIT_FRONT_KIT_H

#include "base/buf.h"
#include "base/metric.h"
#include "front/front.h"
#include "net/loop.h"
#include "net/stream.h"
#include "net/tls_peer.h"

struct tls_ctx;

struct front_kit {
    struct loop *loop;
    struct metrics *metrics;
    struct front *front;
    struct front_opts opts;
    struct tls_ctx *server_tls, *client_tls;
    struct exchange *x; /* the last exchange the handler was given, until it ended */
    unsigned handled;   /* times the handler was called */
    struct buf sink;    /* what the sink was told: "body(abc) end writable gone(...)" */
    unsigned gone;      /* times on_gone was called */
    bool started;
    bool keep_quiet;     /* the handler neither attaches nor answers */
    bool finish_in_body; /* the sink answers /in-body in the middle of on_body */
};

enum client_end { CLIENT_OPEN, CLIENT_EOF, CLIENT_BROKEN };

struct front_client {
    struct front_kit *k;
    struct stream *s;
    bool opened;
    enum client_end end;
    struct buf in;
};

/* Opts are made with short names for "no limit" and plain text; change k->opts before front_kit_start(). */
void front_kit_init(struct front_kit *k, bool tls);
/* With TLS, and HTTP/2 offered on both sides. */
void front_kit_init_http2(struct front_kit *k);
void front_kit_start(struct front_kit *k);
/* Frees all and checks that no request and no connection is left over. */
void front_kit_end(struct front_kit *k);

/* Runs the loop until `done` or five seconds have passed; false then. */
bool front_kit_until(struct front_kit *k, bool (*done)(void *arg), void *arg);
/* A few turns, for what must not happen. */
void front_kit_settle(struct front_kit *k);
/* Answers until the exchange is congested. */
void front_kit_fill(struct front_kit *k);
/* Timers fire in real time, and what they find is judged by a clock that this turns. */
void front_kit_pass(struct front_kit *k, uint64_t ms);
/* Until the handler has been called n times in all. */
bool front_kit_handled(struct front_kit *k, unsigned n);
/* Until the sink's record contains the text. */
bool front_kit_sink_has(struct front_kit *k, const char *text);
/* Until no connection is left. */
bool front_kit_empty(struct front_kit *k);
double front_kit_metric(struct front_kit *k, const char *name, const char *label_value);
/* How many connections were closed for this reason. */
double front_kit_closed(struct front_kit *k, const char *reason);
/* What the sink was told since the last call; valid until the next. */
const char *front_kit_sunk(struct front_kit *k);

/* Connects and waits until open. */
void client_open(struct front_kit *k, struct front_client *c);
/* Connects without waiting. */
void client_start(struct front_kit *k, struct front_client *c);
/* Connects without waiting, as a descriptor. */
int client_raw(struct front_kit *k);
int client_raw_from(struct front_kit *k, unsigned char n); /* the same from 127.0.0.n */
/* A GET of /sync that is answered, of which the client's kernel tells at once that it has the answer. */
void client_raw_asks(struct front_kit *k, int fd);
void client_send(struct front_client *c, const char *text);
void client_send_bytes(struct front_client *c, struct slice bytes);
/* A GET without fields but Host. */
void client_ask(struct front_client *c, const char *target);
/* Until what was received contains the text / ends in it. */
bool client_has(struct front_client *c, const char *text);
bool client_ends_in(struct front_client *c, const char *text);
enum client_end client_ended(struct front_client *c);
/* What was received so far, NUL-terminated, and forgets it. Valid until the next call. */
const char *client_take(struct front_client *c);
/* The same without Date lines: they differ every second. */
const char *client_take_undated(struct front_client *c);
void client_close(struct front_client *c, enum stream_close_how how);

/* The proxy's part, of any exchange: a head with status and optionally one field (NULL when out of memory), a whole
 * answer (or its end, then). */
struct http_head *front_kit_head(struct exchange *x, unsigned status, const char *name, const char *value);
void front_kit_reply(struct exchange *x, unsigned status, const char *body);
/* Of k->x, which must be there. */
struct http_head *head_of(struct front_kit *k, unsigned status, const char *name, const char *value);
void respond_whole(struct front_kit *k, unsigned status, const char *body);
/* A piece of the body, after exchange_respond(); the end of it. */
bool respond_more(struct front_kit *k, const char *text);
void respond_end(struct front_kit *k);

struct front_kit_story {
    const char *name;
    void (*run)(struct front_kit *k); /* the kit is made and not started; it is ended and checked afterwards */
};

/* Each with a kit of its own, once in plain text and once over TLS. */
void front_kit_run(const struct front_kit_story *stories, size_t n);

#endif
