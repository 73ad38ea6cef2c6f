/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps one server's discovery document fresh. It is polled at every interval (with jitter), at once when a trigger
 * says so, and with growing waits after failures. The last document is kept through all failures.
 */
#ifndef MVPROXY_CLUSTER_REFRESH_H
#define MVPROXY_CLUSTER_REFRESH_H

#include "base/mem.h"
#include "cluster/api.h"
#include "kube/disco.h"
#include "kube/lease.h"

struct api;
struct changes;
struct buf;
struct cluster_metrics;
struct disco_news;
struct origin;
struct refresh;

enum refresh_trigger {
    REFRESH_START,
    REFRESH_INTERVAL,
    REFRESH_RETRY,     /* the wait after a failed poll is over */
    REFRESH_LEASE,     /* the peer's Lease appeared, changed holder or was renewed out of turn; its address changed */
    REFRESH_RECOVERED, /* the local server's watch broke or works again; a peer whose polls failed renewed its Lease */
    REFRESH_OPERATOR,
    REFRESH_LIMITED,                 /* from here on: at most one poll a second, or fewer (REFRESH_COST_MS) */
    REFRESH_EVENT = REFRESH_LIMITED, /* a CRD or an APIService changed. Polled several more times in the following two
                                        seconds, as the server takes a while to serve it; polls are at least
                                        REFRESH_EVENT_LIMIT_MS apart, or twice what the last one took: 20 times without
                                        aggregated discovery */
    REFRESH_MISS,     /* a client asked for what it does not serve, or it answered 404 or 503 to a rerouted request */
    REFRESH_SUSPECT,  /* it answered that it does not serve what its document lists; a peer could not be reached */
    REFRESH_ETAG,     /* another ETag was seen in an answer */
    REFRESH_TAG,      /* the tag in its Lease differs from the document; at most ten polls a second */
    REFRESH_ANSWERED, /* a peer whose polls failed answered a rerouted request */
    REFRESH_PULSE,    /* it stopped or started to answer probes (cluster/pulse.h) */
    REFRESH_TRIGGERS
};

/* After the first failed poll nothing is marked: the retry comes 0.2 s later. REFRESH_FAILING: so many failures in a
 * row make the document stale. The others: the least time between the starts of two polls, by trigger. */
enum { REFRESH_FAILING = 2, REFRESH_LIMIT_MS = 1000, REFRESH_TAG_LIMIT_MS = 100, REFRESH_EVENT_LIMIT_MS = 25 };
/*
 * Clients can cause REFRESH_MISS and REFRESH_ANSWERED at will, and for a server without aggregated discovery a poll is
 * one request per group/version. So after a poll of n requests these triggers wait n * REFRESH_COST_MS (four requests a
 * second), but at least REFRESH_LIMIT_MS and at most REFRESH_COST_MAX_MS.
 */
enum { REFRESH_COST_MS = 250, REFRESH_COST_MAX_MS = 30000 };
/*
 * Whoever may write Leases can cause the triggers that come from them. After REFRESH_FRUITLESS such polls that found
 * nothing new the wait before the next one doubles each time, up to REFRESH_FRUITLESS_MAX_MS, until one finds something
 * or a regular poll (REFRESH_INTERVAL) has been made.
 */
enum { REFRESH_FRUITLESS = 4, REFRESH_FRUITLESS_MAX_MS = 1000 };

struct refresh_opts {
    struct api *api;
    const char *name; /* copied: for the log */
    bool peer;
    uint64_t interval_ms;
    struct cluster_metrics *metrics;
    struct changes *changes; /* list of changes for people, for what is left out; NULL: not kept */
    /* A poll has ended; `ok`: the server answered. `changed`: the document, whether it is known, failing or refused has
     * changed. Must not free the refresh. */
    void (*on_end)(void *arg, bool ok, bool changed);
    /* The document was replaced by a different one; called before on_end. May be NULL. */
    void (*on_news)(void *arg, const struct disco_news *news);
    /* As disco_fetch_opts.another. */
    const char *(*another)(void *arg, const char *id);
    void *arg;
};

/* NULL when out of memory. Nothing is polled before refresh_set_origin(). */
MEM_CHECK struct refresh *refresh_new(const struct refresh_opts *o);
void refresh_free(struct refresh *r); /* NULL is fine */
/* The server's origin, referenced; another one is polled at once, and the document is kept. NULL: polling stops. */
void refresh_set_origin(struct refresh *r, struct origin *o);
void refresh_set_interval(struct refresh *r, uint64_t interval_ms);
/*
 * Polls as soon as the trigger's rate limit allows; without an origin nothing is polled. A poll that is under way began
 * before the event, so another one follows it; all triggers during a poll lead to one.
 */
void refresh_trigger(struct refresh *r, enum refresh_trigger t);
/* Another process may answer for the server: the document is kept, but it is not `known` until the next
 * successful poll. A poll under way is started anew. */
void refresh_invalidate(struct refresh *r);

/* What is known of the server; valid and up to date as long as the refresh. */
struct refresh_view {
    struct origin *origin;       /* where it is polled; NULL: nowhere */
    struct disco *disco;         /* NULL until the first success */
    bool known;                  /* the last poll that succeeded was after the last invalidation */
    bool failing;                /* REFRESH_FAILING or more failures in a row */
    bool odd;                    /* it answered the last poll, with a document that we cannot read */
    bool mvproxy;                /* an mvproxy answers for it */
    unsigned refused;            /* 401 or 403, which the last poll was answered; 0: it was not */
    const char *failure;         /* why the last poll failed; NULL: it did not */
    char *apis_etag, *core_etag; /* empty or NULL if unknown */
    uint64_t connection; /* the one over which /api was answered last (fetch_result); another process answers over one
                          * with a greater number. 0: unknown. */
    uint64_t polls;      /* number of polls that ended, well or not */
    uint64_t started_ms; /* when the last poll began, or the one under way, by the loop's clock; 0 before the first */
    uint64_t read_ms;    /* when the poll began that read or confirmed the document last; 0 without one */
    enum api_word word;  /* what its mvproxy said of it in that poll; NONE since it was invalidated */
};
const struct refresh_view *refresh_look(const struct refresh *r);
/* For how long, in milliseconds, the server could be asked and its document was not known; 0 if it is known, UINT64_MAX
 * without an origin. */
uint64_t refresh_unknown_ms(const struct refresh *r);
/* The last failure, however long ago; NULL if there was none. *age_ms: how long ago. */
const char *refresh_last_failure(const struct refresh *r, uint64_t *age_ms);
/*
 * A digest of both documents, the same on every instance that reads the same server: of the ETags that the server sent,
 * or of the contents where it sends none. "" while not known.
 */
void refresh_tag(const struct refresh *r, char out[LEASE_TAG_BYTES]);
/* Milliseconds since the document was last confirmed; UINT64_MAX without one. */
uint64_t refresh_age_ms(const struct refresh *r);

#endif
