/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps one server's discovery document fresh: at every interval (± jitter), at once when something happens, and after
 * failures with growing waits, for ever. The last known document survives every failure.
 */
#ifndef MVPROXY_CLUSTER_REFRESH_H
#define MVPROXY_CLUSTER_REFRESH_H

#include "base/mem.h"
#include "kube/disco.h"
#include "kube/lease.h"

struct api;
struct buf;
struct cluster_metrics;
struct disco_news;
struct origin;
struct refresh;

enum refresh_trigger {
    REFRESH_START,
    REFRESH_INTERVAL,
    REFRESH_RETRY,     /* after a failure */
    REFRESH_LEASE,     /* the Lease appeared, changed holder or was renewed out of turn; another address */
    REFRESH_RECOVERED, /* the local server broke off or answers again; a peer whose polls failed renewed its Lease */
    REFRESH_OPERATOR,
    REFRESH_LIMITED,                 /* from here on: at most one poll a second, or fewer (REFRESH_COST_MS) */
    REFRESH_EVENT = REFRESH_LIMITED, /* a custom resource or an APIService; polled again for a second, at growing
                                        distances, for the server takes its time; REFRESH_EVENT_LIMIT_MS apart or
                                        20 times what a poll takes */
    REFRESH_MISS,                    /* a request for what it does not serve, or that a peer answered with 404 or 503 */
    REFRESH_SUSPECT,                 /* it denied what its document lists; a peer could not be reached */
    REFRESH_ETAG,                    /* somebody saw another ETag */
    REFRESH_TAG,                     /* it says that it serves something else now; at most ten polls a second */
    REFRESH_ANSWERED,                /* a peer whose polls failed answered a rerouted request */
    REFRESH_PULSE,                   /* it does not answer any more, or does again (cluster/pulse.h) */
    REFRESH_TRIGGERS
};

/* A failed poll marks nothing yet: the first retry comes 0.2 s later. From so many in a row on, the document counts as
 * stale. */
enum { REFRESH_FAILING = 2, REFRESH_LIMIT_MS = 1000, REFRESH_TAG_LIMIT_MS = 100, REFRESH_EVENT_LIMIT_MS = 25 };
/*
 * Anybody who may ask at all can ask for what is not there. A poll of a server without aggregated discovery is a
 * request for each of its group/versions: for a miss, or an answer, one begins only so long after the one before that
 * clients cost such a server four requests a second, or a poll each half minute.
 */
enum { REFRESH_COST_MS = 250, REFRESH_COST_MAX_MS = 30000 };
/*
 * What stands in a Lease may be anybody's who may write Leases. After so many polls for its sake that found nothing
 * new the next ones wait, each twice as long as the one before, until one finds something or the interval has passed.
 */
enum { REFRESH_FRUITLESS = 4, REFRESH_FRUITLESS_MAX_MS = 1000 };

struct refresh_opts {
    struct api *api;
    const char *name; /* copied: "local" or a server ID */
    bool peer;
    uint64_t interval_ms;
    struct cluster_metrics *metrics;
    /* A poll has ended. `changed`: document, knowledge of it, or whether it is failing is not what it was. May not free
     * the refresh. */
    void (*on_end)(void *arg, bool ok, bool changed);
    /* What it serves is another: said before on_end. NULL: nobody cares. */
    void (*on_news)(void *arg, const struct disco_news *news);
    void *arg;
};

/* NULL when out of memory. Polls for the first time when it has an origin. */
MEM_CHECK struct refresh *refresh_new(const struct refresh_opts *o);
void refresh_free(struct refresh *r); /* NULL is fine */
/* NULL: nothing to ask; it waits. Another origin is asked at once; the document stays. */
void refresh_set_origin(struct refresh *r, struct origin *o);
bool refresh_has_origin(const struct refresh *r);
void refresh_set_interval(struct refresh *r, uint64_t interval_ms);
/*
 * Polls as soon as the trigger's rule allows. A poll under way counts only if it began after the event, so another one
 * follows; many triggers make one poll. Without an origin nothing is polled.
 */
void refresh_trigger(struct refresh *r, enum refresh_trigger t);
/* The server was replaced: the document is kept, but is not knowledge until the next success. */
void refresh_invalidate(struct refresh *r);

const struct disco *refresh_disco(const struct refresh *r); /* NULL until the first success */
bool refresh_known(const struct refresh *r);                /* a success since the start or the last invalidation */
/* Milliseconds since there was something to ask that is not known yet; 0 while it is known, UINT64_MAX without an
 * origin. */
uint64_t refresh_unknown_ms(const struct refresh *r);
bool refresh_failing(const struct refresh *r); /* REFRESH_FAILING or more failures in a row */
/* The last poll was answered with "you may not know" (401, 403): waiting brings nothing. */
bool refresh_refused(const struct refresh *r);
const char *refresh_failure(const struct refresh *r); /* of the last poll; NULL if it was good or there was none */
/* Of the last poll that was not good; NULL if there was none. *age_ms: how long ago. */
const char *refresh_last_failure(const struct refresh *r, uint64_t *age_ms);
struct slice refresh_apis_etag(const struct refresh *r); /* empty if unknown, here and below */
struct slice refresh_core_etag(const struct refresh *r);
/*
 * Tells one state of both documents from any other: the same on every instance that reads the same server, by the tags
 * that it gave them, or by what it described where it gives none. "" while nothing was read.
 */
void refresh_tag(const struct refresh *r, char out[LEASE_TAG_BYTES]);
/* Over which /api was answered last (fetch_result): another process answers over a newer one. 0: unknown. */
uint64_t refresh_connection(const struct refresh *r);
uint64_t refresh_polls(const struct refresh *r); /* ended, whatever came of them */
/* Milliseconds since the document was last confirmed; UINT64_MAX without one. */
uint64_t refresh_age_ms(const struct refresh *r);
bool refresh_mvproxy(const struct refresh *r); /* an mvproxy answers for this server */

#endif
