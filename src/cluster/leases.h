/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows the API server identity Leases through the local server and hands the valid ones to the peer table, under the
 * ID that a server has in every version (1.26 uses other labels and names).
 */
#ifndef MVPROXY_CLUSTER_LEASES_H
#define MVPROXY_CLUSTER_LEASES_H

#include "base/mem.h"

struct api;
struct buf;
struct lease;
struct leases;
struct peers;

struct leases_handler {
    void (*on_synced)(void *arg);                     /* after each complete list */
    void (*on_own)(void *arg, const struct lease *l); /* the Lease of our own name was seen */
    void (*on_health)(void *arg, const char *why);    /* as informer_handler's */
    /* It is not a valid identity Lease; called once per Lease. */
    void (*on_refused)(void *arg, struct slice key, const char *why);
};

/* NULL when out of memory. */
MEM_CHECK struct leases *leases_new(struct api *api, struct peers *peers, const char *own_id,
                                    const struct leases_handler *h, void *arg);
void leases_free(struct leases *l);    /* NULL is fine */
void leases_restart(struct leases *l); /* informer_restart() */
void leases_retry(struct leases *l);   /* informer_retry() */
/* As informer_synced(), informer_refused() and informer_failure(), for all informers together. */
bool leases_synced(const struct leases *l);
unsigned leases_refused(const struct leases *l);
const char *leases_failure(const struct leases *l);
/* Appends a JSON object for the status page. */
void leases_describe(const struct leases *l, struct buf *out);
/* The local server's own Lease exists. */
bool leases_own_seen(const struct leases *l);

#endif
