/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A front on a loopback port, its clients, and a proxy that does nothing by itself: the tests play its part. Everything
 * runs in one loop and one thread, so each step of a scenario happens when the test says so.
 */
#ifndef MVPROXY_TESTS_UNIT_FRONT_WORLD_H
#define MVPROXY_TESTS_UNIT_FRONT_WORLD_H

#include "base/buf.h"
#include "base/metric.h"
#include "front/front.h"
#include "net/loop.h"
#include "net/stream.h"
#include "net/tls_peer.h"

struct tls_ctx;

struct world {
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

struct client {
    struct world *w;
    struct stream *s;
    bool opened;
    enum client_end end;
    struct buf in;
};

/* Opts are made with short names for "no limit" and plain text; change w->opts before world_start(). */
void world_init(struct world *w, bool tls);
/* With TLS, and HTTP/2 offered on both sides. */
void world_init_http2(struct world *w);
void world_start(struct world *w);
/* Frees all and checks that no request and no connection is left over. */
void world_end(struct world *w);

/* Runs the loop until `done` or five seconds have passed; false then. */
bool world_until(struct world *w, bool (*done)(void *arg), void *arg);
/* A few turns, for what must not happen. */
void world_settle(struct world *w);
/* Answers until the exchange is congested. */
void world_fill(struct world *w);
/* Timers fire in real time, and what they find is judged by a clock that this turns. */
void world_pass(struct world *w, uint64_t ms);
/* Until the handler has been called n times in all. */
bool world_handled(struct world *w, unsigned n);
/* Until the sink's record contains the text. */
bool world_sink_has(struct world *w, const char *text);
/* Until no connection is left. */
bool world_empty(struct world *w);
double world_metric(struct world *w, const char *name, const char *label_value);
/* How many connections were closed for this reason. */
double world_closed(struct world *w, const char *reason);
/* What the sink was told since the last call; valid until the next. */
const char *world_sunk(struct world *w);

/* Connects and waits until open. */
void client_open(struct world *w, struct client *c);
/* Connects without waiting. */
void client_start(struct world *w, struct client *c);
/* Connects without waiting, as a descriptor. */
int client_raw(struct world *w);
int client_raw_from(struct world *w, unsigned char n); /* the same from 127.0.0.n */
/* A GET of /sync that is answered, of which the client's kernel tells at once that it has the answer. */
void client_raw_asks(struct world *w, int fd);
void client_send(struct client *c, const char *text);
void client_send_bytes(struct client *c, struct slice bytes);
/* A GET without fields but Host. */
void client_ask(struct client *c, const char *target);
/* Until what was received contains the text / ends in it. */
bool client_has(struct client *c, const char *text);
bool client_ends_in(struct client *c, const char *text);
enum client_end client_ended(struct client *c);
/* What was received so far, NUL-terminated, and forgets it. Valid until the next call. */
const char *client_take(struct client *c);
/* The same without Date lines: they differ every second. */
const char *client_take_undated(struct client *c);
void client_close(struct client *c, enum stream_close_how how);

/* The proxy's part: a head with status and optionally one field more. */
struct http_head *head_of(struct world *w, unsigned status, const char *name, const char *value);
void respond_whole(struct world *w, unsigned status, const char *body);
/* A piece of the body, after exchange_respond(); the end of it. */
bool respond_more(struct world *w, const char *text);
void respond_end(struct world *w);

struct world_story {
    const char *name;
    void (*run)(struct world *w); /* the world is made and not started; it is ended and checked afterwards */
};

/* Each in a world of its own, once in plain text and once over TLS. */
void world_run(const struct world_story *stories, size_t n);

#endif
