/* SPDX-License-Identifier: Apache-2.0 */
/*
 * List and watch of one collection, for ever: what client-go calls a reflector. Lists (in pages if told to), watches
 * from the list's resourceVersion, lists again on 410, goes on from the last version after anything else; backs off
 * with jitter while it fails. It keeps only the objects' keys (to tell which vanished between two lists), never the
 * objects.
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
    unsigned page;       /* objects per list request; 0: all in one */
    size_t list_ceiling; /* bytes of the objects of one list answer that are not too large */
    size_t object_limit; /* bytes; a larger one is skipped, and costs nothing but itself */
    /*
     * A watch on a collection that is not empty and in which something happens all the time is taken for dead after so
     * long a silence; 0: only the server's own timeout counts.
     */
    uint64_t silence_ms;
};

struct informer_handler {
    /*
     * New, changed, or merely listed again. The key is "namespace/name" or "name". Both live during the call. False:
     * for want of memory it could not be kept, and is to be listed again.
     */
    bool (*on_object)(void *arg, struct slice key, struct slice json);
    void (*on_gone)(void *arg, struct slice key);
    /* One that was skipped: new, changed, or listed. NULL: what was known of it holds. */
    void (*on_too_large)(void *arg, struct slice key);
    /* A whole list has been given out. */
    void (*on_synced)(void *arg);
    /* It starts to fail (`why`), or works again (NULL). Only on changes. */
    void (*on_health)(void *arg, const char *why);
    /* Whether anything has to happen there at present (silence_ms). NULL: always. */
    bool (*silence_tells)(void *arg);
};

/* Starts when the loop runs. NULL when out of memory. The handler's functions may free nothing of the informer. */
MEM_CHECK struct informer *informer_new(const struct informer_opts *o, const struct informer_handler *h, void *arg);
void informer_free(struct informer *i); /* not from its own handler; NULL is fine */
/* Ends what is under way and lists anew: the local server is another one. */
void informer_restart(struct informer *i);
/* The server is there again: what waits for its next attempt makes it now. */
void informer_retry(struct informer *i);

/* A list has been complete at least once. */
bool informer_synced(const struct informer *i);
/* A watch is open: what happens is seen as it happens. */
bool informer_watching(const struct informer *i);
/* The server answered that we may not read this or that it does not exist (401, 403, 404, 405). */
bool informer_refused(const struct informer *i);
/* Why it does not work now; NULL while it does. Valid until the loop goes on. */
const char *informer_failure(const struct informer *i);
/* Appends a JSON object for the status page. */
void informer_describe(const struct informer *i, struct buf *out);

#endif
