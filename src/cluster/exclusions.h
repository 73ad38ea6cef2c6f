/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Group/versions that must never be taken from a peer: those of custom resources and of service-backed APIServices, now
 * or until five minutes ago (kube-apiserver's GV exclusion manager). Their objects live in the shared etcd, so the
 * local server can serve them itself; a peer's word about them can only be stale.
 *
 * Until both collections have been read nothing is known of them. Then nothing is excluded (excluding everything would
 * make false 404s), but the cluster module holds back the first snapshot until they are settled: read, refused, or not
 * answered within a few seconds.
 */
#ifndef MVPROXY_CLUSTER_EXCLUSIONS_H
#define MVPROXY_CLUSTER_EXCLUSIONS_H

#include "base/mem.h"

struct api;
struct buf;
struct exclusions;

enum { EXCLUSIONS_GRACE_MS = 5 * 60 * 1000, EXCLUSIONS_PATIENCE_MS = 5000 };

struct exclusions_handler {
    /* They are settled, or either set is another one: of those excluded, of those registered. */
    void (*on_change)(void *arg);
    /* A custom resource or an APIService came, changed or went: local discovery will follow. */
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
/* The i-th "group/version" in no order, through a cursor that starts at 0. False at the end. Valid until the loop goes
 * on. */
bool exclusions_next(const struct exclusions *x, size_t *cursor, struct slice *gv);
struct exclusions_cursor {
    size_t stored, deleted;
};
/* The same for those that an APIService without a service names, or named, and that may come from peers: some server of
 * the cluster has, or had, them itself. The core group is "". */
bool exclusions_registered(const struct exclusions *x, struct exclusions_cursor *at, struct slice *group,
                           struct slice *version);
size_t exclusions_n_services(const struct exclusions *x); /* at most so many are registered */
/* What every server has is known: the names of APIServices that were deleted until now need not be kept. */
void exclusions_all_read(struct exclusions *x);
void exclusions_describe(const struct exclusions *x, struct buf *out);

#endif
