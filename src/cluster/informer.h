/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists and watches one collection of objects for as long as it exists, like client-go's reflector. It lists (in pages
 * if told to), watches from the list's resourceVersion, lists again on 410, resumes from the last seen version after
 * any other end, and backs off with jitter while it fails. The objects go to the handler; only their keys are kept, to
 * tell which ones are gone when it lists again.
 */
#ifndef MVPROXY_CLUSTER_INFORMER_H
#define MVPROXY_CLUSTER_INFORMER_H

#include "base/mem.h"

struct api;
struct buf;
struct informer;

struct informer_opts {
    struct api *api;
    const char *name;    /* for logs; literal */
    const char *path;    /* of the collection; literal */
    const char *query;   /* added to every list and watch, escaped, without '&' at the ends; NULL: none; literal */
    bool unscoped;       /* its objects have no namespace */
    unsigned page;       /* objects per list request; 0: all in one */
    size_t list_ceiling; /* bytes: limit for all objects of one list answer together, without the skipped ones */
    size_t object_limit; /* bytes: larger objects are skipped (on_too_large) */
    /*
     * Milliseconds of silence after which a watch counts as dead, for a collection in which something happens all the
     * time; only while it is not empty. 0: only the server's own timeout counts.
     */
    uint64_t silence_ms;
};

struct informer_handler {
    /*
     * An object is new, changed, or was listed again. The key is "namespace/name" or "name"; key and JSON are valid
     * during the call. False: the handler is out of memory, and the collection is listed again.
     */
    bool (*on_object)(void *arg, struct slice key, struct slice json);
    void (*on_gone)(void *arg, struct slice key);
    /* An object over object_limit was added, changed or listed. May be NULL: what was known of it stays valid. */
    void (*on_too_large)(void *arg, struct slice key);
    /* All objects of a list have been handed out. */
    void (*on_synced)(void *arg);
    /* It begins to fail (`why` says why), or works again (NULL). Called on changes only. */
    void (*on_health)(void *arg, const char *why);
    /* Whether silence_ms counts at present. May be NULL: always. */
    bool (*silence_tells)(void *arg);
};

/* Starts when the loop runs. NULL when out of memory. Handlers must not free the informer. `h` must outlive it. */
MEM_CHECK struct informer *informer_new(const struct informer_opts *o, const struct informer_handler *h, void *arg);
void informer_free(struct informer *i); /* not from its own handler; NULL is fine */
/* Ends what is under way and lists from the start: the local server is another one. */
void informer_restart(struct informer *i);
/* The server is back: an attempt that is waiting after a failure is made now. */
void informer_retry(struct informer *i);

/* Whether the whole collection has been listed at least once. */
bool informer_synced(const struct informer *i);
/* Whether a watch is open now. */
bool informer_watching(const struct informer *i);
/* The status, if the last failure was an answer that we may not read the collection, or that it does not exist (401,
 * 403, 404, 405); else 0. */
unsigned informer_refused(const struct informer *i);
/* Why it fails now; NULL while it works. Valid until the loop goes on. */
const char *informer_failure(const struct informer *i);
/* Appends a JSON object for the status page. */
void informer_describe(const struct informer *i, struct buf *out);

#endif
