/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The group/versions that must never be taken from a peer: those of custom resources and of APIServices with a service,
 * existing now or within the last five minutes (as in kube-apiserver's GV exclusion manager). They are stored in the
 * shared etcd, so the local server serves them itself, and what a peer says about them can only be outdated.
 *
 * Until both collections have been read, nothing is excluded: excluding everything would cause false 404s. But the
 * first snapshot that counts as synced is held back until they are settled: read, refused, or not answered within a few
 * seconds.
 */
#ifndef MVPROXY_CLUSTER_EXCLUSIONS_H
#define MVPROXY_CLUSTER_EXCLUSIONS_H

#include "base/mem.h"

struct api;
struct buf;
struct exclusions;

enum { EXCLUSIONS_GRACE_MS = 5 * 60 * 1000, EXCLUSIONS_PATIENCE_MS = 5000 };

struct exclusions_handler {
    /* They are settled now, or the excluded, the aggregated or the registered group/versions changed. */
    void (*on_change)(void *arg);
    /* A CRD or an APIService was added, changed or removed, maybe just before they were first listed: local discovery
     * will change soon. */
    void (*on_event)(void *arg);
};

/* NULL when out of memory. */
MEM_CHECK struct exclusions *exclusions_new(struct api *api, const struct exclusions_handler *h, void *arg);
void exclusions_free(struct exclusions *x);    /* NULL is fine */
void exclusions_restart(struct exclusions *x); /* informer_restart() */
void exclusions_retry(struct exclusions *x);   /* informer_retry() */

bool exclusions_settled(const struct exclusions *x);
/* Both collections have been read. */
bool exclusions_synced(const struct exclusions *x);
size_t exclusions_count(const struct exclusions *x);
/* Iterates over the excluded "group/version"s in no particular order; *cursor starts at 0. False at the end. Valid
 * until the loop goes on. `aggregated`: an APIService with a service names it now. */
bool exclusions_next(const struct exclusions *x, size_t *cursor, struct slice *gv, bool *aggregated);
struct exclusions_cursor {
    size_t stored, deleted;
};
/* The same for the group/versions that APIServices without a service name, or named until they were deleted. These may
 * come from peers, as some server of the cluster has or had them built in. The core group is "". */
bool exclusions_registered(const struct exclusions *x, struct exclusions_cursor *at, struct slice *group,
                           struct slice *version);
size_t exclusions_n_services(const struct exclusions *x); /* upper bound for the number of exclusions_registered() */
/* The discovery of every server is known: forgets the deleted APIServices (exclusions_registered()). */
void exclusions_all_read(struct exclusions *x);
void exclusions_describe(const struct exclusions *x, struct buf *out);

#endif
