/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The API server identity Lease of this node: published where the local kube-apiserver does not do it (before 1.26, or
 * told so), else only observed. The object is the one that kube-apiserver >= 1.26 keeps: kube-system, named by the
 * server ID, holder "<id>_<uuid>", 3600 s, renewed every 10 s ± 4 % (pkg/controlplane/apiserver, lease/controller.go).
 *
 * Unlike kube-apiserver, nothing is deleted without preconditions, and of two processes with the same host name the one
 * that finds the other's Lease being renewed gives way: nobody deletes what is alive.
 */
#ifndef MVPROXY_CLUSTER_IDENTITY_H
#define MVPROXY_CLUSTER_IDENTITY_H

#include "base/mem.h"
#include "kube/lease.h"

struct api;
struct cluster_metrics;
struct identity;

enum identity_mode {
    IDENTITY_OFF,
    IDENTITY_AUTO,    /* publish if the local server is older than 1.26, and nobody renews a Lease of our name */
    IDENTITY_OBSERVE, /* leave it to the server; at most add the address that peers need */
    IDENTITY_PUBLISH,
};

struct identity_opts {
    struct api *api;
    const char *id, *hostname; /* copied */
    enum identity_mode mode;
    const char *advertise; /* "ip:port" for LEASE_ADVERTISE_ANNOTATION; copied; NULL or "": none */
    bool annotate;         /* write it into the Lease of a server that publishes its own, too */
    struct cluster_metrics *metrics;
    /* Whether this instance is the one that collects expired Leases; asked once an hour. */
    bool (*collects)(void *arg);
    bool (*renewed)(void *arg, struct slice id); /* see lease_gc.h */
    void *arg;
};

/* Starts as stopped. Ends the process when out of memory. */
struct identity *identity_new(const struct identity_opts *o);
void identity_free(struct identity *i); /* NULL is fine; leaves the Lease as it is */
void identity_start(struct identity *i);
/*
 * Removes our Lease, if it is still ours, in 2 s at most; then `done` (may be NULL) is called once, never from inside.
 * May be started again at any time, which ends the wait. No other `done` before the last was called.
 */
void identity_stop(struct identity *i, void (*done)(void *arg), void *arg);
/*
 * A reload. Another address is written at once, into a Lease of the server's own as well. Another mode is followed:
 * what was published and is not to be published any more is removed first. Does not start what is stopped.
 */
void identity_update(struct identity *i, enum identity_mode mode, const char *advertise, bool annotate);
/* The local server was away and is back, or is another one, maybe of another version: decides again if it is for us to
 * decide. */
void identity_recheck(struct identity *i);
/*
 * The local server's process is another one: the Lease that stands for it gets another holder, as that of
 * kube-apiserver would, if it is still for us to publish. By that all others know that what they know of it may be old.
 */
void identity_restarted(struct identity *i);
/* What the local server serves now, by its tag, is said in the Lease, whoever keeps it. */
void identity_serves(struct identity *i, struct slice tag);
/* The Lease of our name, as the watch shows it. */
void identity_seen(struct identity *i, const struct lease *l);
/* "deciding", "publishing", ... : for people. */
const char *identity_state_name(const struct identity *i);

#endif
