/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts who asked for which resource in the last hours, and how often, in pools with separate limits. A pool holds
 * LIMIT_ASKERS_RESOURCES resources; beyond that the one whose last request is oldest is forgotten. It holds
 * LIMIT_ASKERS askers (combinations of resource, user agent and user); beyond that one is forgotten, while the
 * resource's count of requests stays: one who has been silent for ASKERS_HOURS, else, of the user with most of them,
 * the one whose last request is oldest. Where mvproxy does not know the user, all from one address count as one.
 */
#ifndef MVPROXY_PROXY_ASKERS_H
#define MVPROXY_PROXY_ASKERS_H

#include "base/mem.h"
#include "kube/gvr.h"

enum { ASKERS_HOURS = 24, ASKERS_POOLS = 4 };

struct askers;

/* Counts are kept by hours; the time of the first request is not. */
struct asked {
    uint64_t requests, requests_lately; /* in the last ASKERS_HOURS; in this hour and the one before */
    uint64_t last_ms;                   /* clock_ms() of the last request */
};

struct asker_who {
    struct slice user_agent, user; /* user "": not known to mvproxy (a token) */
    struct slice address;          /* of the last request; not part of who it is. "": a Unix socket */
};

struct asker {
    struct asker_who who;
    struct asked asked;
};

struct askers *askers_new(void); /* ends the process when out of memory */
void askers_free(struct askers *a);
/* Counts a request. Of the user agent only the text up to the first space counts. A resource that is noted in another
 * pool than before moves there with its askers. */
void askers_note(struct askers *a, unsigned pool, const struct gvr *gvr, const struct asker_who *who);
/* The requests for a resource; zeros if there were none, or they were forgotten. */
void askers_count(const struct askers *a, const struct gvr *gvr, struct asked *out);
/* Calls fn for each asker of the resource that was not forgotten, the latest first. Texts live until the next
 * askers_note(). */
void askers_each(const struct askers *a, const struct gvr *gvr, void (*fn)(const struct asker *asker, void *arg),
                 void *arg);
/* The number of askers that were forgotten to make room. */
uint64_t askers_forgotten(const struct askers *a);
/* Whether a resource of this pool that was asked for in the last ASKERS_HOURS has been forgotten. */
bool askers_forget_resources(const struct askers *a, unsigned pool);
/* Milliseconds since counting began, ASKERS_HOURS at most. */
uint64_t askers_since_ms(const struct askers *a);

#endif
