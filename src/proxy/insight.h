/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an upgrade takes away and brings: which resources only older or only newer servers serve, and who asked for them
 * in the last hours, so that an operator sees what would break before the last old server goes. Bounded:
 * LIMIT_INSIGHT_ASKERS combinations of resource, user agent and user; the one that has been silent for longest is
 * forgotten for a new one.
 */
#ifndef MVPROXY_PROXY_INSIGHT_H
#define MVPROXY_PROXY_INSIGHT_H

#include "cluster/served.h"

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

enum { INSIGHT_HOURS = 24 };

struct insight_asker {
    struct gvr gvr;
    struct slice user_agent, user;      /* user "": not known here (a token) */
    uint64_t last_ms;                   /* clock_ms() of the last request */
    uint64_t requests, requests_lately; /* in all INSIGHT_HOURS; in this hour and the one before */
};

struct insight *insight_new(struct metrics *m); /* ends the process when out of memory */
void insight_free(struct insight *i);
/* As insight_kind(), remembered for as long as the snapshot is the same: for each request. */
enum insight_kind insight_look(struct insight *i, const struct served *s, const struct gvr *gvr);
/* A request that was let through (not 401, 403). The user agent counts to its first space. */
void insight_note(struct insight *i, enum insight_kind kind, const struct gvr *gvr, struct slice user_agent,
                  struct slice user);
/* All, the one that asked last first; texts live until the next insight_note(). */
void insight_each(const struct insight *i, void (*fn)(const struct insight_asker *a, void *arg), void *arg);
/* How many were forgotten for others. */
uint64_t insight_forgotten(const struct insight *i);

#endif
