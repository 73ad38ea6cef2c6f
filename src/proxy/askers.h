/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who has asked for which resource in the last hours, and how often, in pools that do not take room from each other.
 * Bounded: of each pool LIMIT_ASKERS_RESOURCES resources, of which those are forgotten that nobody has asked for for
 * longest, and LIMIT_ASKERS combinations of resource, user agent and user; for a new one the resource that has most of
 * them loses who was silent for longest. How often a resource was asked for stays known.
 */
#ifndef MVPROXY_PROXY_ASKERS_H
#define MVPROXY_PROXY_ASKERS_H

#include "base/mem.h"
#include "kube/gvr.h"

enum { ASKERS_HOURS = 24, ASKERS_POOLS = 4 };

struct askers;

/* Since when somebody has asked is not kept: only how often, by hours. */
struct asked {
    uint64_t requests, requests_lately; /* in all ASKERS_HOURS; in this hour and the one before */
    uint64_t last_ms;                   /* clock_ms() of the last request */
};

struct asker_who {
    struct slice user_agent, user; /* user "": not known here (a token) */
    struct slice address;          /* of the last request; not part of who it is. "": a Unix socket */
};

struct asker {
    struct asker_who who;
    struct asked asked;
};

struct askers *askers_new(void); /* ends the process when out of memory */
void askers_free(struct askers *a);
/* A request. The user agent counts to its first space. A resource that comes to another pool takes its askers along. */
void askers_note(struct askers *a, unsigned pool, const struct gvr *gvr, const struct asker_who *who);
/* How often it was asked for: zeros if nobody did, or that was forgotten. */
void askers_count(const struct askers *a, const struct gvr *gvr, struct asked *out);
/* Who asked for it, the last one first; texts live until the next askers_note(). Those that were forgotten are missing.
 */
void askers_each(const struct askers *a, const struct gvr *gvr, void (*fn)(const struct asker *asker, void *arg),
                 void *arg);
/* How many askers were forgotten for others. */
uint64_t askers_forgotten(const struct askers *a);
/* Some resource of this pool was asked for in the last hours, and it is not known which. */
bool askers_forget_resources(const struct askers *a, unsigned pool);
/* For how long it has been noted, at most ASKERS_HOURS. */
uint64_t askers_since_ms(const struct askers *a);

#endif
