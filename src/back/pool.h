/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connections to one origin of one kind, and the requests that wait for one.
 */
#ifndef MVPROXY_BACK_POOL_H
#define MVPROXY_BACK_POOL_H

#include "back/h1_client.h"
#include "net/dial.h"

/*
 * Requests that wait for an HTTP/2 connection that they may share, and for nothing else: for whichever of those that
 * are being made for them opens first. It goes with the last of both.
 */
struct h2_line {
    struct list_node node; /* of pool->h2_lines */
    struct line waiting;
    size_t coming;  /* connections */
    size_t failing; /* so many requests, the oldest, are about to fail, since connections did */
    char failure[160];
};

struct pool {
    struct lifetime life;
    struct origin *origin;
    enum pool_kind kind;
    struct h1_conns h1;
    size_t dialling_shared; /* dials that are for whoever waits first */
    struct line waiting;
    struct line crowd; /* of clients that have many already: in turns with those */
    bool crowd_is_next;
    struct line held; /* after both: no dial is made for them (churn.h) */
    struct loop_timer *idle_timer, *wait_timer, *held_timer;
    struct lifetime_work silent, serve, end, leave;
    size_t ending; /* so many idle connections, those at the end of the list, are for nobody any more */
    enum close_reason ending_why;

    struct list h2_clients; /* HTTP/2 connections; those that are being made or were made last come first */
    size_t h2_dials;        /* of them in DIALLING or OPENING */
    struct list h2_lines;   /* who waits for those */
    size_t h2_waiting;      /* requests in all these lines */
    struct lifetime_work h2_place;
    uint64_t http1_until_ms; /* the server does not speak HTTP/2; asked again then */
    struct h2_load load;     /* of what everybody may share */
    uint64_t bare_until_ms;  /* POOL_HOP: no mvproxy was there; asked again then */
};

MEM_CHECK struct pool *pool_new(struct origin *o, enum pool_kind kind);
/* It must be empty. */
void pool_free(struct pool *p);
/* Gives the request a connection: an idle one at once, else it waits. fresh: a dial of its own. Failures come later. */
void pool_take(struct pool *p, struct back_request *r, bool fresh);
/* NULL when out of memory. */
MEM_CHECK struct dial *pool_dial(struct pool *p, bool http2, dial_fn *fn, void *arg);
/* Takes an open stream that speaks HTTP/1.1 as one of its idle connections. */
void pool_adopt(struct pool *p, struct stream *s);
/* Nobody is given one of them any more; hundreds are closed in several turns. */
void pool_close_idle(struct pool *p, enum close_reason why);
/* The server is silent: calls back->give_up() in the next turn. */
void pool_is_silent(struct pool *p);
/* As request_give_up(), of those over HTTP/1.1 or that wait for it. */
void pool_give_up(struct pool *p, struct giving_up *g);
/* The server is as good as dead: ends whatever it has not answered, or has answered by half, over HTTP/1.1. */
void pool_end_busy(struct pool *p, struct giving_up *g);
/* Ends all requests, closes all connections. */
void pool_drop_all(struct pool *p);
size_t pool_max(const struct pool *p);
/* The context of its connections; NULL: none. */
struct tls_ctx *pool_tls(const struct pool *p);
/*
 * A new connection of a pool with certificate, of whose end nothing is known yet: remembers what it proved. False: it
 * must not be the pool's, because no mvproxy is there. What waits has to be placed anew then.
 */
bool pool_admits(const struct pool *p, const struct stream *s);
/* The last such connection was not: what waits goes elsewhere. */
bool pool_is_bare(const struct pool *p);

#endif
