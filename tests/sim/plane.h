/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The whole data plane in one simulated process: the real front, proxy and back, between clients and servers that are
 * driven step by step (plane_client.c, plane_server.c). Each request carries its number in its target, and its number
 * is what its body and its answer's body consist of, so that both ends see what is not theirs:
 *
 *   - a request reaches a server with the identity that its client proved, over a connection of the right kind
 *   - nobody gets a byte of another's request or answer
 *   - an answer that a server has broken off does not look whole, nor does a request
 *   - a write that a server may have carried out is not sent again
 *
 * What does not hold ends the process with a message, after the story so far.
 */
#ifndef MVPROXY_TESTS_SIM_PLANE_H
#define MVPROXY_TESTS_SIM_PLANE_H

#include "sim/plane_ends.h"
#include "sim/sim_event.h"

struct plane_opts {
    bool server_http2, peer_hop;
    size_t room; /* of each direction of a connection */
    bool say;    /* print the story */
    /* Of the proxy's configuration: */
    uint64_t request_timeout_ms;
    bool legacy_discovery, newest, goaways;
    bool asks_always; /* nobody's permission to read discovery is remembered */
    bool forgetful;   /* whoever holds what was replaced twice is ended (proxy/snapshots.h) */
};

struct plane {
    struct plane_opts opts;
    struct loop *loop;
    struct sim_net *net;
    struct metrics *metrics;
    struct back *back;
    struct front *front;
    struct proxy *proxy; /* NULL: killed */
    bool draining;       /* nobody listens any more */
    bool ends_watches;   /* it has ended some: what those have of their answers is all they get */
    struct cluster *cluster;
    struct sim_source refreshes; /* that somebody waits for */
    struct tls_ctx *tls[3];
    struct origin *origins[2];
    struct sim_host hosts[2]; /* local, peer */
    struct ask asks[PLANE_ASKS];
    size_t n_asks;
    struct client clients[PLANE_CLIENTS];
    size_t n_clients;
    struct connection connections[PLANE_CONNECTIONS];
    size_t n_connections;
};

/* Once in a process; what the servers serve is the same for all. */
void plane_prepare(void);
void plane_unprepare(void);
/* `p` is all zero, or one that was closed. */
void plane_open(struct plane *p, const struct plane_opts *o);
/* With another configuration, that of p->opts as it is now; not if there is no memory for it. */
void plane_reload(struct plane *p);
/* Some of its oldest watches and tunnels. */
void plane_end_watches(struct plane *p, size_t n);
/* It is to stop: what is under way gets its answer. */
void plane_drain(struct plane *p);
/* It stops now: nothing of it is left, and only plane_close() may follow. */
void plane_kill(struct plane *p);
/* Ends all, and checks that nothing is left. */
void plane_close(struct plane *p);
/*
 * The peaceful end of a story: servers answer all they have, clients read all they get, time passes. Then every client
 * that kept to the rules has all its answers or has been told that there are none (its connection has ended).
 */
void plane_wind_down(struct plane *p);
/* Everybody sends, reads and answers all there is, once; whether anything happened. */
bool plane_round(struct plane *p);

void plane_say(const struct plane *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void plane_fail(const struct plane *p, const char *fmt, ...) __attribute__((format(printf, 2, 3), noreturn));
struct ask *plane_ask_by_number(struct plane *p, struct slice text);
const char *plane_user(const struct ask *a); /* whom the servers must see; NULL: nobody (token or anonymous) */
unsigned plane_token(const struct ask *a);   /* which one it shows, if any */
const struct tls_peer *plane_shows(enum plane_cert cert); /* NULL: no certificate */
bool plane_refused_here(const struct ask *a);             /* never reaches a server */

#endif
