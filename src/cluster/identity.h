/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The API server identity Lease of this node, by which peers know that it exists. It is published here if the local
 * kube-apiserver does not do so (before 1.26, with its feature gate off, or if configured), else only observed. The
 * object is the one that kube-apiserver >= 1.26 writes: in kube-system, named by the server ID, holder "<id>_<uuid>",
 * 3600 s, renewed every 10 s ± 4 % (pkg/controlplane/apiserver, lease/controller.go).
 *
 * Unlike in kube-apiserver, every deletion has preconditions, and of two processes with the same host name the one that
 * sees the other renew the Lease gives way, so that no Lease in use is deleted.
 */
#ifndef MVPROXY_CLUSTER_IDENTITY_H
#define MVPROXY_CLUSTER_IDENTITY_H

#include "cluster/cluster_opts.h"
#include "kube/lease.h"

struct api;
struct cluster_metrics;
struct identity;
struct peers;

struct identity_opts {
    struct api *api;
    const char *id, *hostname; /* copied */
    enum identity_mode mode;
    const char *advertise; /* "ip:port" for LEASE_ADVERTISE_ANNOTATION; copied; NULL or "": none */
    bool annotate;         /* write `advertise` into a Lease that the server publishes itself, too */
    struct cluster_metrics *metrics;
    const struct peers *(*peers)(void *arg); /* see lease_gc.h */
    void *arg;
};

/* Nothing happens before identity_start(). Ends the process when out of memory. */
struct identity *identity_new(const struct identity_opts *o);
void identity_free(struct identity *i); /* NULL is fine; leaves the Lease as it is */
void identity_start(struct identity *i);
/*
 * Removes the Lease if we publish it, in 2 s at most; then `done` (may be NULL) is called once, maybe from inside. May
 * be started again, with a `done` only afterwards.
 */
void identity_stop(struct identity *i, void (*done)(void *arg), void *arg);
/*
 * A reload. A changed address is written at once. A changed mode takes effect: a Lease that is not to be published any
 * more is removed first. Does not start an identity that is stopped.
 */
void identity_update(struct identity *i, enum identity_mode mode, const char *advertise, bool annotate);
/* The local server was away and is back, or is another one, maybe of another version: in mode AUTO it is decided again
 * whether to publish. */
void identity_recheck(struct identity *i);
/*
 * The local server's process was replaced. If we publish the Lease, it gets a new holder, as a restarted
 * kube-apiserver's own Lease would: that tells the peers that what they know of this server may be outdated.
 */
void identity_restarted(struct identity *i);
/* The tag of the local server's discovery (refresh_tag()), to be written into the Lease, whoever publishes that
 * (lease_news.h). */
void identity_serves(struct identity *i, struct slice tag);
/* The Lease of this server was seen by the informer. */
void identity_seen(struct identity *i, const struct lease *l);
/* "deciding", "publishing", ... : for people. */
const char *identity_state_name(const struct identity *i);

#endif
