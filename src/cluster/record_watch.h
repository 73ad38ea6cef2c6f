/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows the peer endpoint records in etcd, for ever: reads all of them, watches from that revision on, and reads them
 * again whenever the watch ends, is silent (records are rewritten every ten seconds), or was asked for what has been
 * compacted. What it holds is what etcd had when it was seen last.
 */
#ifndef MVPROXY_CLUSTER_RECORD_WATCH_H
#define MVPROXY_CLUSTER_RECORD_WATCH_H

#include "base/mem.h"
#include "kube/peer_record.h"

struct buf;
struct changes;
struct cluster_metrics;
struct etcd;
struct record_watch;

struct record_watch_handler {
    /* New, or written again, changed or not. `lease` is etcd's, under which it stands. */
    void (*on_record)(void *arg, const struct peer_record *r, uint64_t lease);
    /* Deleted, expired, or no longer readable. */
    void (*on_gone)(void *arg, struct slice id);
};

struct record_watch_opts {
    struct etcd *etcd;
    const char *prefix; /* copied */
    struct cluster_metrics *metrics;
    struct changes *changes; /* gets what is not believed; NULL: nobody wants to know */
    const struct record_watch_handler *handler;
    void *arg;
};

/* NULL when out of memory. */
MEM_CHECK struct record_watch *record_watch_new(const struct record_watch_opts *o);
void record_watch_free(struct record_watch *w); /* NULL is fine; calls nothing */
/* The endpoints are others now: begin anew. What is known stays until then. */
void record_watch_restart(struct record_watch *w);

/* NULL: none, or none that can be read. Lives until the loop goes on. */
const struct peer_record *record_watch_find(const struct record_watch *w, struct slice id);
size_t record_watch_count(const struct record_watch *w);
/* Every ID with a usable record: *cursor starts at 0; p is NULL at the end. */
struct slice record_watch_next(const struct record_watch *w, size_t *cursor);
/* All records have been read at least once. */
bool record_watch_synced(const struct record_watch *w);
/* Appends JSON members for the status page, the last without comma. */
void record_watch_describe(const struct record_watch *w, struct buf *out);

#endif
