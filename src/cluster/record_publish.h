/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Publishes the peer endpoint record of this server in etcd: under an etcd lease of 15 s, written again every 10 s as
 * kube-apiserver does (pkg/reconcilers/peer_endpoint_lease.go), but only while the local kube-apiserver answers.
 *
 * It is written only if there is none, or if the present one is ours. A kube-apiserver with the feature on writes the
 * same key without looking; then its record is kept and ours not written, since two writers with different addresses
 * would send peers back and forth. Its address can be set with --advertise-address.
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
    const char *prefix;     /* borrowed; where it becomes another one, record_publish_moved() follows */
    const char *id;         /* copied */
    bool (*may)(void *arg); /* whether peers should use this server now; asked before each write */
    void *arg;
    struct cluster_metrics *metrics;
};

/* Nothing is written before record_publish_start(). Ends the process when out of memory. */
struct record_publish *record_publish_new(const struct record_publish_opts *o);
void record_publish_free(struct record_publish *p); /* the record is left to expire */
/* The local kube-apiserver answers: if `may` said no, it is asked again. */
void record_publish_local_answers(struct record_publish *p);
/* Another etcd cluster or prefix is in use: writes the record there. */
void record_publish_moved(struct record_publish *p);
/* "IP:port"; NULL or "": nothing is published. A record with the previous address is replaced at once. */
void record_publish_set_address(struct record_publish *p, const char *address);
void record_publish_start(struct record_publish *p);
/*
 * Removes the record, if it is ours, in 2 s at most; then `done` (may be NULL) is called once, maybe from inside. May
 * be started again, with a `done` only afterwards.
 */
void record_publish_stop(struct record_publish *p, void (*done)(void *arg), void *arg);

/* The record of our ID as it was seen in etcd; NULL: it is gone. */
void record_publish_seen(struct record_publish *p, const struct peer_record *r, uint64_t lease);
/* Stopping is complete. */
bool record_publish_stopped(const struct record_publish *p);
/* "stopped", "published", "written by another process", ...: for people. */
const char *record_publish_state_name(const struct record_publish *p);

#endif
