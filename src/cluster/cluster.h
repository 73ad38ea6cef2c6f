/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of the cluster, kept up to date: identity Leases give the peers, the discovery of every server is read
 * and merged, and the result is published as an immutable snapshot (served.h). The cluster never sees a client's
 * request: the proxy takes the current snapshot and reports what contradicts it (cluster_local_miss(),
 * cluster_peer_suspect(), ...).
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

/* Ends the process when out of memory. The first requests are sent once the loop runs. Texts and arrays of `o` are
 * copied unless cluster_opts.h says how long they must live. */
struct cluster *cluster_new(struct loop *l, struct back *b, struct metrics *m, const struct cluster_opts *o);
void cluster_free(struct cluster *c); /* NULL is fine */
/*
 * A reload: takes the new options except for the host name, which cannot change. Parts whose options are the same
 * (informers, caches) go on undisturbed. False, with nothing changed, when out of memory or when the user cannot be put
 * into headers.
 */
bool cluster_update(struct cluster *c, const struct cluster_opts *o);

/*
 * Before the process ends: removes what was published for this server (its identity Lease and its etcd record), in 2 s
 * at most. `done` is called once, never from inside.
 */
void cluster_stop(struct cluster *c, void (*done)(void *arg), void *arg);

/* The current snapshot, never NULL; borrowed: served_ref it to keep it. */
struct served *cluster_served(struct cluster *c);

/*
 * A client asked for a resource that the local server does not serve according to its discovery: reads that again now.
 * Requests are coalesced into at most one poll a second, or fewer if `done` is NULL and a poll is expensive for the
 * server (REFRESH_COST_MS in refresh.h).
 *
 * `done` is for a caller that waits because a peer, or the local server itself, contradicts the known discovery. It is
 * called once, never from inside, when a poll that began after this call, or the one under way, has ended, well or not,
 * and its result is in the snapshot. Returns a handle for cluster_forget_waiter(); NULL without `done`, or when out of
 * memory (then `done` is not called).
 */
struct cluster_waiter;
struct cluster_waiter *cluster_local_miss(struct cluster *c, void (*done)(void *arg), void *arg);
/*
 * Asks for the merged documents in protobuf form, which are only made once they are wanted. `done` is called once,
 * never from inside, when they have been made or cannot be made. NULL, and no call of `done`, if that is so already or
 * when out of memory.
 */
struct cluster_waiter *cluster_want_protobuf(struct cluster *c, void (*done)(void *arg), void *arg);
void cluster_forget_waiter(struct cluster *c, struct cluster_waiter *w);
/* The last attempt to read the local server's discovery failed: what is known of it is older. */
bool cluster_local_unread(const struct cluster *c);
/* A peer answered a rerouted request with 404 or 503. That need not mean anything (a missing object is 404 as well), so
 * its discovery is polled at the rate of REFRESH_MISS. */
void cluster_peer_missed(struct cluster *c, const char *peer_id);
/* A peer answered that it does not serve what its discovery lists, or could not be reached: polls its discovery again
 * (coalesced, at most once a second). */
void cluster_peer_suspect(struct cluster *c, const char *peer_id);
/* The same for the local server, for callers that do not wait for the result. */
void cluster_local_suspect(struct cluster *c);
/* Records in the list of changes that a server answered 404 for a collection that its discovery lists. `server` is its
 * host name. */
void cluster_disbelieved(struct cluster *c, const char *server, const struct gvr *gvr);
/* Whether that was so in the last ten minutes, and how long ago. For operators: what the server answers now is not
 * known. */
bool cluster_disbelieved_lately(const struct cluster *c, const char *server, const struct gvr *gvr, uint64_t *ago_ms);
/* A peer answered a rerouted request: if its last polls failed, its discovery is polled again now (at the rate of
 * REFRESH_ANSWERED). */
void cluster_peer_answered(struct cluster *c, const char *peer_id);
/* A server (`peer_id` NULL: the local one) answered a client's request with less than 500; `sent_ms`: when that was
 * sent, by the loop's clock. If it was shown not to answer, that is over (pulse.h). */
void cluster_server_answered(struct cluster *c, const char *peer_id, uint64_t sent_ms);
/* Polls the discovery of all servers now (mvproxyctl refresh). */
void cluster_refresh(struct cluster *c);
/* The same for one server, given by server ID or host name. Returns its ID; NULL if there is none of that name, or,
 * with *err set, if several have it (peer_named.h). */
const char *cluster_refresh_server(struct cluster *c, const char *name, struct err *err);
/* The host name or server ID of a peer that somebody meant who mistyped it; NULL: none is near. Until the loop goes
 * on. */
const char *cluster_nearest_peer(const struct cluster *c, const char *name);
/* Whether it is the local server's host name or ID. */
bool cluster_is_own_name(const struct cluster *c, const char *name);
/*
 * A drained peer gets no new requests of clients while another server can take them; those in flight there go on. The
 * mark is kept in memory only: it survives reloads and new addresses or Leases, and ends when this process restarts or
 * the peer is forgotten. False if there is no peer of that name, or, with *err set, if several have it (peer_named.h).
 */
struct cluster_drained {
    const char *id, *host; /* valid until the loop goes on */
    size_t in_flight;
};
bool cluster_drain_peer(struct cluster *c, const char *name, bool drained, struct cluster_drained *out,
                        struct err *err);
/* The local server's answer to a client that may read `/apis` carried this ETag: if it is not that of the document
 * known here, discovery is polled again. */
void cluster_local_etag_seen(struct cluster *c, struct slice etag);

/*
 * Whether peers may take over while the local server is not ready (local-failover). If not, its readiness is not probed
 * and cluster_local_state() is always READINESS_READY.
 */
bool cluster_fails_over(const struct cluster *c);
enum readiness_state cluster_local_state(const struct cluster *c);
/* Whether the local server may have refused a client (401, 403) whom it will allow, because it has only just started:
 * readiness_was_loading(). `sent_ms`: when the request was sent, by the loop's clock. */
bool cluster_local_was_loading(const struct cluster *c, uint64_t sent_ms);
enum api_word cluster_local_word(const struct cluster *c, uint64_t sent_ms); /* readiness_word(): what peers are told */
/* The same of a peer without an mvproxy: pulse_was_loading(). */
bool cluster_peer_was_loading(struct cluster *c, const char *peer_id, uint64_t sent_ms);
/* Whether requests for resources can be answered without the local server: local-failover is on, and some live peer,
 * not an outlier, has told its discovery. */
bool cluster_peers_answer(const struct cluster *c);
/* A request to the local server failed (`unreachable`: no connection could be made). Its readiness is checked. */
void cluster_local_failed(struct cluster *c, bool unreachable);
/* One line for people on the state of local failover. Truncated. */
void cluster_local_describe(struct cluster *c, char *text, size_t n);

/* Health checks. `reason` (at least 128 bytes) says why when the result is false. */
bool cluster_local_synced(struct cluster *c, char *reason, size_t n);
bool cluster_leases_synced(struct cluster *c, char *reason, size_t n);
/* Each live peer's discovery has been read once, or 5 s have passed since it became known. Once true, it stays so. */
bool cluster_peers_synced(struct cluster *c, char *reason, size_t n);
bool cluster_local_reachable(struct cluster *c, char *reason, size_t n);
/* False if the API servers were found to accept other front proxies or headers than this configuration, or no CA of
 * clients that it has (front_trust.h). */
bool cluster_front_trusted(struct cluster *c, char *reason, size_t n);
/* front_trust_more(). Valid until the loop goes on. */
const char *cluster_front_more(const struct cluster *c);
/* Of a new configuration, before they have been asked: front_trust_expected(). */
bool cluster_front_expected(const struct cluster *c, char *reason, size_t n);
/* front_trust_clients(), front_trust_ask(). */
enum request_header_verdict cluster_front_clients(const struct cluster *c, struct slice client_ca);
void cluster_front_ask(struct cluster *c);
/* The headers by which the API servers accept front proxies, as far as is known. Valid until the loop goes on. */
const struct user_headers *cluster_front_named(const struct cluster *c);
/* One line for people on the state of etcd's endpoint records. */
void cluster_etcd_state(struct cluster *c, char *text, size_t n);
/* Appends the internal state of all parts as JSON, for debugging; cluster_view.h has what operators need. */
void cluster_describe(struct cluster *c, struct buf *out);

#endif
