/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Simulated streams, listeners, dials and TLS: the contracts of net/stream.h, net/listeners.h, net/dial.h and
 * net/tls_ctx.h over byte queues in memory. What crosses the wire is plain; what TLS would have proved is data. The
 * other end of each connection is a sim_sock, which the test drives call by call: nothing happens at it by itself, and
 * what it sends is seen in the next turn. Link it with sim_event.c and src/net's loop instead of libnet.
 *
 * The test's ends use the C library's memory, so that mem_fail_nth() meets only what is tested.
 */
#ifndef MVPROXY_TESTS_SIM_SIM_NET_H
#define MVPROXY_TESTS_SIM_SIM_NET_H

#include "net/stream.h"
#include "net/tls_peer.h"

struct sim_net;
struct sim_sock;

/* One for each loop. `room`: bytes that one direction of a connection holds, as the kernel does. */
struct sim_net *sim_net_new(struct loop *l, size_t room);
void sim_net_free(struct sim_net *n);            /* no stream may be left */
size_t sim_net_streams(const struct sim_net *n); /* with a descriptor */

/* What TLS proves. `peer` is not copied. A client's context says what it shows, a server's whether h2 is offered. */
struct tls_ctx *sim_tls_new(bool http2, const struct tls_peer *peer);

/* A client connects to the one listening socket, and has shown this (NULL: no certificate); `ip` is not copied. */
struct sim_sock *sim_connect(struct sim_net *n, const char *ip, const struct tls_peer *shows, bool http2);
/* So many of the client's connections have not been accepted yet. */
size_t sim_backlog(const struct sim_net *n);

enum sim_reach {
    SIM_REACHED, /* connects */
    SIM_REFUSED,
    SIM_SILENT, /* until the deadline */
};
struct sim_host {
    struct sim_net *net;
    const char *host;
    unsigned port;
    bool http2; /* speaks it */
    bool hop;   /* an mvproxy, which says so to whoever shows a certificate */
    enum sim_reach reach;
    /* Somebody has connected; `shows` is his context's certificate. */
    void (*on_connection)(struct sim_host *h, struct sim_sock *s, const struct tls_peer *shows, bool http2);
    void *arg;
    struct sim_host *next;
};
/* There is a server at host:port; the struct stays the caller's. */
void sim_host_add(struct sim_net *n, struct sim_host *h);

/* ---- the test's end of a connection ---- */

size_t sim_room(const struct sim_sock *s); /* that can be sent now */
/* As much as there is room for. */
size_t sim_send(struct sim_sock *s, struct slice data);
/* What has arrived and was not taken: all in one piece, valid until the next call. */
struct slice sim_arrived(const struct sim_sock *s);
void sim_take(struct sim_sock *s, size_t n);
void sim_finish(struct sim_sock *s); /* the orderly end of what is sent */
void sim_reset(struct sim_sock *s);
bool sim_was_reset(const struct sim_sock *s);
bool sim_at_end(const struct sim_sock *s); /* an orderly end has come, and every byte before it was taken */
/* The other side has closed its descriptor, whatever of it has arrived. */
bool sim_abandoned(const struct sim_sock *s);
/* Closes (a reset if something waits unread) and frees it. */
void sim_close(struct sim_sock *s);

#endif
