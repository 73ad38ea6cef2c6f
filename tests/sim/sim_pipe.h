/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wire of the simulation, shared by sim_net.c (streams), sim_dial.c (listeners, dials, TLS) and sim_pipe.c (the
 * test's ends). Nobody else includes this.
 */
#ifndef MVPROXY_TESTS_SIM_SIM_PIPE_H
#define MVPROXY_TESTS_SIM_SIM_PIPE_H

#include "base/list.h"
#include "sim/sim_net.h"

enum pipe_side { PIPE_OURS, PIPE_THEIRS };

/* What flows towards one side. */
struct way {
    char *p;
    size_t n, room;
    uint64_t total; /* bytes that came while somebody could read them */
    bool fin, reset;
    bool gone; /* nobody reads here any more */
};

struct pipe {
    unsigned refs, number;
    struct way to[2];
    const struct tls_peer *shows[2]; /* the certificate of each side */
    const char *ip;
    bool tls, http2;
    bool hop; /* an mvproxy at its other end has said so */
};

struct sim_net {
    struct loop *loop;
    size_t room, high, low;
    size_t streams, listening;
    unsigned numbers;
    struct pipe **backlog; /* those not accepted come first */
    size_t n_backlog, n_accepted, cap_backlog;
    struct sim_host *hosts;
};

struct sim_net *sim_net_of(struct loop *l);
/* The pipe of a connection that was accepted as this descriptor; the caller's reference. */
struct pipe *sim_net_take(struct sim_net *n, int fd);

struct pipe *pipe_new(struct sim_net *n, const char *ip, bool tls, bool http2); /* one reference */
struct pipe *pipe_ref(struct pipe *p);
void pipe_unref(struct pipe *p);
struct sim_sock *pipe_sock(struct pipe *p); /* their end */
void pipe_close(struct pipe *p, enum pipe_side side, bool reset);

bool pipe_may_put(const struct way *w); /* or must notice that nobody reads */
size_t pipe_put(struct way *w, struct slice data);
void pipe_drop(struct way *w, size_t n);

/* Opening, with nobody to call; NULL when out of memory. */
struct stream *sim_stream_new(struct sim_net *net, struct pipe *p, enum pipe_side side, const char *ip);
void sim_stream_opened(struct stream *s);

#endif
