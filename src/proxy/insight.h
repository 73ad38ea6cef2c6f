/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an upgrade takes away and brings: which resources only older or only newer servers serve, and who asked for them
 * in the last hours (askers.h, a pool for each kind), so that an operator sees what would break before the last old
 * server goes.
 */
#ifndef MVPROXY_PROXY_INSIGHT_H
#define MVPROXY_PROXY_INSIGHT_H

#include "cluster/served.h"

struct asker_who;
struct askers;
struct insight;
struct metrics;

enum insight_kind {
    INSIGHT_EVEN, /* served by all servers that are known, by none, or kube-apiserver's in no version (CRDs) */
    INSIGHT_OLD,  /* by no server of the newest release: gone after the upgrade */
    INSIGHT_NEW,  /* by no server of the oldest release */
    INSIGHT_SOME, /* by some, but not by release: switched on or off, or a release is not known */
};

/* Pure. Live servers whose discovery is known have a say. */
enum insight_kind insight_kind(const struct served *s, const struct gvr *gvr);
/* "old", "new", "some"; "even". Static. */
const char *insight_kind_name(enum insight_kind kind);

struct insight *insight_new(struct metrics *m); /* ends the process when out of memory */
void insight_free(struct insight *i);
/* As insight_kind(), remembered for as long as the snapshot is the same: for each request. */
enum insight_kind insight_look(struct insight *i, const struct served *s, const struct gvr *gvr);
/* A request that was let through (not 401, 403). */
void insight_note(struct insight *i, enum insight_kind kind, const struct gvr *gvr, const struct asker_who *who);
/* Who asked. */
const struct askers *insight_askers(const struct insight *i);

#endif
