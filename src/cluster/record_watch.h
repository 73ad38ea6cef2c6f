/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows the peer endpoint records in etcd: reads all of them, watches from that revision on, and reads all again
 * whenever the watch ends, is silent (records are rewritten every ten seconds), or its revision was compacted. It keeps
 * the records as last seen in etcd.
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
    /* Added or written again, changed or not. `lease` is the etcd lease of the key. */
    void (*on_record)(void *arg, const struct peer_record *r, uint64_t lease);
    /* Deleted, expired, or no longer readable. */
    void (*on_gone)(void *arg, struct slice id);
};

struct record_watch_opts {
    struct etcd *etcd;
    const char *prefix; /* borrowed; may be another one whenever it is stopped */
    struct cluster_metrics *metrics;
    struct changes *changes; /* list of changes for people, for refused records; NULL: not kept */
    const struct record_watch_handler *handler;
    void *arg;
};

/* Stopped. Ends the process when out of memory. */
struct record_watch *record_watch_new(const struct record_watch_opts *o);
void record_watch_free(struct record_watch *w); /* calls nothing */
/* Starts; or the endpoints changed, and it starts again. The known records are kept until all are read. */
void record_watch_restart(struct record_watch *w);
/* Forgets all records, and calls nothing. */
void record_watch_stop(struct record_watch *w);

/* NULL: there is none, or it is not valid. Valid until the loop goes on. */
const struct peer_record *record_watch_find(const struct record_watch *w, struct slice id);
size_t record_watch_count(const struct record_watch *w);
/* Iterates over the IDs with a valid record: *cursor starts at 0; p is NULL at the end. */
struct slice record_watch_next(const struct record_watch *w, size_t *cursor);
/* All records have been read at least once. */
bool record_watch_synced(const struct record_watch *w);
/* Appends JSON members for the status page, the last without comma. */
void record_watch_describe(const struct record_watch *w, struct buf *out);

#endif
