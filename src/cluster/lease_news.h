/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a tag of the local server's discovery into its Lease, as an annotation. All other mvproxies watch the Leases
 * and read a server's discovery again when its tag changes, so new APIs are known everywhere at once, even if nothing
 * else shows that the server's process was replaced. The tag ends with an ID of the mvproxy process: a peer that could
 * not reach this server learns at once that there is a new one.
 *
 * Written by a merge patch without precondition that touches nothing else, so it never conflicts with a renewal;
 * kube-apiserver, whose next renewal conflicts with it, reads the Lease again and keeps the annotation. At most
 * LEASE_NEWS_WRITES in LEASE_NEWS_WINDOW_MS.
 */
#ifndef MVPROXY_CLUSTER_LEASE_NEWS_H
#define MVPROXY_CLUSTER_LEASE_NEWS_H

#include "base/mem.h"

struct api;
struct lease_news;
struct metric_family;

enum { LEASE_NEWS_WRITES = 10, LEASE_NEWS_WINDOW_MS = 10000 };

struct lease_news_opts {
    struct api *api;
    struct metric_family *writes; /* by result: ok, failed */
    /* It was written; the Lease has this resourceVersion now. */
    void (*written)(void *arg, struct slice uid, struct slice version);
    void *arg;
};

/* Ends the process when out of memory. */
struct lease_news *lease_news_new(const struct lease_news_opts *o);
void lease_news_free(struct lease_news *n); /* NULL is fine */
/* The path of the Lease; NULL: there is none for us to write to. */
void lease_news_at(struct lease_news *n, const char *path);
/* The tag of what this server serves now; empty: unknown, nothing is written. */
void lease_news_set(struct lease_news *n, struct slice tag);
/* The tag in the Lease as the informer saw it. If it stays another one, ours is written again. */
void lease_news_seen(struct lease_news *n, struct slice tag);

#endif
