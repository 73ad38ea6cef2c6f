/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The peer endpoint record of this server in etcd: under a lease of 15 s, written again every 10 s, as kube-apiserver
 * does (pkg/reconcilers/peer_endpoint_lease.go), but only while the local kube-apiserver answers.
 *
 * It is written only where there is none, or where it is ours. A kube-apiserver with the feature on writes the same key
 * without looking; then its record stands and ours is not written: two writers with different addresses would send
 * peers to and fro, and its own can be set with --advertise-address.
 */
#ifndef MVPROXY_CLUSTER_RECORD_PUBLISH_H
#define MVPROXY_CLUSTER_RECORD_PUBLISH_H

#include "base/mem.h"
#include "kube/peer_record.h"

struct cluster_metrics;
struct etcd;
struct record_publish;

struct record_publish_opts {
    struct etcd *etcd;
    const char *prefix, *id; /* copied */
    bool (*may)(void *arg);  /* whether peers should come here now; asked before each writing */
    void *arg;
    struct cluster_metrics *metrics;
};

/* Stopped at first. NULL when out of memory. */
MEM_CHECK struct record_publish *record_publish_new(const struct record_publish_opts *o);
void record_publish_free(struct record_publish *p); /* NULL is fine; leaves the record to expire */
/* The local kube-apiserver answers: `may` is asked again if it said no. */
void record_publish_local_answers(struct record_publish *p);
/* Another etcd: nothing of ours is there. */
void record_publish_moved(struct record_publish *p);
/* "IP:port"; NULL or "": there is nothing to say. A record with the address before is replaced at once. */
void record_publish_set_address(struct record_publish *p, const char *address);
void record_publish_start(struct record_publish *p);
/*
 * Removes the record, if it is ours, in 2 s at most; then `done` (may be NULL) is called once, never from inside. May
 * be started again afterwards.
 */
void record_publish_stop(struct record_publish *p, void (*done)(void *arg), void *arg);

/* The record of our ID as it was seen in etcd; NULL: it is gone. */
void record_publish_seen(struct record_publish *p, const struct peer_record *r, uint64_t lease);
/* "stopped", "published", "left to another": for people. */
/* It has been stopped, and that is over. */
bool record_publish_stopped(const struct record_publish *p);
const char *record_publish_state_name(const struct record_publish *p);

#endif
