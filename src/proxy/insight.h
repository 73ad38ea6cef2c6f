/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which resources only older or only newer servers serve, and who asked for them in the last hours (askers.h, one pool
 * for each kind), so that an operator sees what would break before the last old server is upgraded.
 */
#ifndef MVPROXY_PROXY_INSIGHT_H
#define MVPROXY_PROXY_INSIGHT_H

#include "cluster/served.h"

struct asker_who;
struct askers;
struct insight;
struct metrics;

enum insight_kind {
    INSIGHT_EVEN, /* served by all known servers, by none, or not by kube-apiserver itself (CRDs, aggregated APIs) */
    INSIGHT_OLD,  /* not by any server of the newest release: gone after the upgrade */
    INSIGHT_NEW,  /* not by any server of the oldest release */
    INSIGHT_SOME, /* by some, but not by release (enabled on some servers only), or a release is not known */
};

/* A pure function of the local server and the peers whose discovery is known. */
enum insight_kind insight_kind(const struct served *s, const struct gvr *gvr);
/* "old", "new", "some"; "even". Static. */
const char *insight_kind_name(enum insight_kind kind);

struct insight *insight_new(struct metrics *m); /* ends the process when out of memory */
void insight_free(struct insight *i);
/* As insight_kind(), cached while the snapshot stays the same; cheap enough for every request. */
enum insight_kind insight_look(struct insight *i, const struct served *s, const struct gvr *gvr);
/* Counts a request that a server let through (not 401 or 403). */
void insight_note(struct insight *i, enum insight_kind kind, const struct gvr *gvr, const struct asker_who *who);
/* Borrowed. */
const struct askers *insight_askers(const struct insight *i);

#endif
