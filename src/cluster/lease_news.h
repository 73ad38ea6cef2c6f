/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Says in the Lease of this server what it serves now: the tag of its discovery, as an annotation. All other mvproxies
 * watch the Leases, and read a server again when its tag is another one; so what a server has gained is known
 * everywhere at once, also where nothing else tells that its process was replaced. Behind the tag stands which process
 * of mvproxy says so: that there is one again is known at once, too, to whoever could not reach the one before.
 *
 * Written by a merge patch without precondition, which touches nothing else: it never fails for a renewal that comes
 * between, and kube-apiserver, whose renewal it overtakes, reads the Lease again and keeps the annotation. At most
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
    /* It has been written, and the Lease has this resourceVersion now. */
    void (*written)(void *arg, struct slice uid, struct slice version);
    void *arg;
};

/* Ends the process when out of memory. */
struct lease_news *lease_news_new(const struct lease_news_opts *o);
void lease_news_free(struct lease_news *n); /* NULL is fine */
/* The path of the Lease; NULL: there is none for us to write to. */
void lease_news_at(struct lease_news *n, const char *path);
/* What this server serves now; empty: unknown, nothing is written. */
void lease_news_set(struct lease_news *n, struct slice tag);
/* The Lease as it is: said again if something else stands there for long. */
void lease_news_seen(struct lease_news *n, struct slice tag);

#endif
