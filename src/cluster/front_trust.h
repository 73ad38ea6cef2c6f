/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks whether the API servers accept the front proxies that mvproxy accepts, by the same headers, and a CA of
 * clients that mvproxy has. Their configuration (kube/request_header.h) is read once a minute, after a reload that
 * changes ours or the local server, and after any reload while there is a difference.
 *
 * If they differ (request_header_compare()), users with certificates are somebody else there than they are taken for
 * here, so that is logged and makes mvproxy unready.
 * If we may not read it, that is logged once.
 */
#ifndef MVPROXY_CLUSTER_FRONT_TRUST_H
#define MVPROXY_CLUSTER_FRONT_TRUST_H

#include "kube/request_header.h"

struct api;
struct changes;
struct front_trust;
struct metric;

enum { FRONT_TRUST_INTERVAL_MS = 60000 };

struct front_trust_opts {
    struct api *api;
    struct metric *differs;  /* gauge */
    struct changes *changes; /* list of changes for people; NULL: not kept */
};

/* Ends the process when out of memory. Asks nothing before front_trust_configure. */
struct front_trust *front_trust_new(const struct front_trust_opts *o);
void front_trust_free(struct front_trust *t); /* NULL is fine */
/*
 * Also a reload. The lists and texts of `ours` must live until the next call; headers NULL: nothing is asked. `moved`:
 * the local server is another one.
 */
void front_trust_configure(struct front_trust *t, const struct request_header *ours, bool moved);
/* False, with the difference in `reason`, if the servers were found to be configured differently. */
bool front_trust_agrees(const struct front_trust *t, char *reason, size_t n);
/* The headers that they name, to be removed from requests besides those that are configured. Valid until the loop goes
 * on. */
const struct user_headers *front_trust_named(const struct front_trust *t);

#endif
