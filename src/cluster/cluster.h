/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What we know of the cluster, kept fresh: Leases → peers → discovery of everybody → merged → served snapshot.
 * Never sees an inbound request; the proxy asks it for the snapshot and tells it of surprises.
 */
#ifndef MVPROXY_CLUSTER_CLUSTER_H
#define MVPROXY_CLUSTER_CLUSTER_H

#include "cluster/cluster_opts.h"
#include "cluster/readiness.h"
#include "cluster/served.h"

struct back;
struct buf;
struct cluster;
struct loop;
struct metrics;

/* Ends the process only when out of memory. Starts to work when the loop runs. Text and arrays are copied. */
struct cluster *cluster_new(struct loop *l, struct back *b, struct metrics *m, const struct cluster_opts *o);
void cluster_free(struct cluster *c);
/*
 * A reload: takes the new options, but not another host name; what did not change (informers, caches) goes on
 * undisturbed. False, and all is as it was: out of memory, or the user cannot be put into headers.
 */
bool cluster_update(struct cluster *c, const struct cluster_opts *o);

/*
 * The process is going to end: withdraws what it has published (2 s at most). `done` is called once, never from inside.
 */
void cluster_stop(struct cluster *c, void (*done)(void *arg), void *arg);

/* The current snapshot, never NULL; borrowed: served_ref it to keep it. */
struct served *cluster_served(struct cluster *c);

/*
 * A resource was asked for that the local server does not serve as far as we know: refresh local discovery now
 * (coalesced, at most once a second, and less often if nobody waits and it costs the server much: refresh.h). `done`
 * (may be NULL), for who has it otherwise from a peer or that server itself, is called once when a refresh that began
 * after this call, or the one under way, has ended either way; never from inside this call. Returns a handle for
 * cluster_forget_waiter, or NULL without `done`, or if out of memory (then done is not called).
 */
struct cluster_waiter;
struct cluster_waiter *cluster_local_miss(struct cluster *c, void (*done)(void *arg), void *arg);
/*
 * Somebody wants the merged documents in protobuf form, which are not made before that. `done` is called once when they
 * are there or cannot be made; never from inside this call. NULL if out of memory or they are already made or cannot
 * be (then done is not called).
 */
struct cluster_waiter *cluster_want_protobuf(struct cluster *c, void (*done)(void *arg), void *arg);
void cluster_forget_waiter(struct cluster *c, struct cluster_waiter *w);
/* A peer answered a rerouted request with 404 or 503, which may say no more than that an object is not there. */
void cluster_peer_missed(struct cluster *c, const char *peer_id);
/* A peer denied what its discovery lists, or could not be reached: poll that again (coalesced, at most once a second).
 */
void cluster_peer_suspect(struct cluster *c, const char *peer_id);
/* The same of the local server, for who does not wait. */
void cluster_local_suspect(struct cluster *c);
/* For people: a server answered 404 for a collection that its discovery lists. `server`: by host name. */
void cluster_disbelieved(struct cluster *c, const char *server, const struct gvr *gvr);
/* A peer answered a rerouted request: if its discovery could not be read lately, poll it again now (at most once a
 * second). */
void cluster_peer_answered(struct cluster *c, const char *peer_id);
/* Everything, now (mvproxyctl refresh). */
void cluster_refresh(struct cluster *c);
/* One server, by server ID or host name: its ID. NULL: there is none of that name, or, with *err, it is not clear which
 * (peer_named.h). */
const char *cluster_refresh_server(struct cluster *c, const char *name, struct err *err);
/* Of the local server, as cluster_view.h has it. */
bool cluster_is_own_name(const struct cluster *c, const char *name);
/*
 * A drained peer gets no new requests of clients while another server can have them; what is under way there goes on,
 * and so many that is. Kept in memory: a reload, a new address or Lease change nothing, a restart of this process, and
 * being forgotten, end it. False: there is none of that name, or, with *err, it is not clear which (peer_named.h).
 */
struct cluster_drained {
    const char *id, *host; /* until the next event */
    size_t in_flight;
};
bool cluster_drain_peer(struct cluster *c, const char *name, bool drained, struct cluster_drained *out,
                        struct err *err);
/* An authorized answer of the local server to a reader's own /apis request carried this ETag: if it is not the one we
 * have, refresh. */
void cluster_local_etag_seen(struct cluster *c, struct slice etag);

/*
 * May peers take over what the local server cannot do now (local-failover)? If not, its state is not looked after and
 * is READINESS_READY.
 */
bool cluster_fails_over(const struct cluster *c);
enum readiness_state cluster_local_state(const struct cluster *c);
/* Requests for resources have somebody who answers whatever the local server's state: it may be failed over, and a live
 * peer that is no outlier has said what it serves. */
bool cluster_peers_answer(const struct cluster *c);
/* A request to the local server failed. `unreachable`: no connection could be made. */
void cluster_local_failed(struct cluster *c, bool unreachable);
/* One line on the local server's state, for people. */
void cluster_local_describe(struct cluster *c, char *text, size_t n);

/* For health checks; `reason` (>= 128 bytes) is filled when false. */
bool cluster_local_synced(struct cluster *c, char *reason, size_t n);
bool cluster_leases_synced(struct cluster *c, char *reason, size_t n);
/* Each live peer answered once, or 5 s have passed since they became known. */
bool cluster_peers_synced(struct cluster *c, char *reason, size_t n);
bool cluster_local_reachable(struct cluster *c, char *reason, size_t n);
/* As far as is known the API servers believe the same front proxies as we, by the same headers, and a CA of clients. */
bool cluster_front_trusted(struct cluster *c, char *reason, size_t n);
/* The headers by which the API servers say that they do, as far as is known. Until the loop goes on. */
const struct user_headers *cluster_front_named(const struct cluster *c);
/* One line on how it stands with etcd's endpoint records, for people. */
void cluster_etcd_state(struct cluster *c, char *text, size_t n);
/* What the parts say of themselves, as JSON: for who looks for an error of ours. All else is in cluster_view.h. */
void cluster_describe(struct cluster *c, struct buf *out);

#endif
