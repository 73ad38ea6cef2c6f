/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the discovery of a server without aggregated form (before 1.26): requests its group/versions one by one, a few
 * at a time, and feeds the answers to a parser as one document (kube/disco_legacy.h).
 *
 * The server's list has the group/versions of stored APIServices, so it lacks those whose APIService another, older
 * server deleted when it started. Therefore the group/versions in the server's schema index, which lists what it has
 * built in, and those that it had before are requested as well.
 */
#ifndef MVPROXY_CLUSTER_LEGACY_WALK_H
#define MVPROXY_CLUSTER_LEGACY_WALK_H

#include "kube/disco_legacy.h"

struct api;
struct legacy_walk;
struct origin;

struct legacy_walk_opts {
    struct api *api;
    struct origin *origin; /* outlives the walk */
    bool peer;             /* ask with the loop marks */
    bool mvproxy;          /* `root` came through an mvproxy */
    enum disco_walk_kind kind;
    struct disco_parser *parser;  /* gets the document; outlives the walk */
    const struct disco_doc *last; /* DISCO_WALK_APIS: what the server had before, outlives the walk; NULL: not known */
    uint64_t timeout_ms;          /* of each request */
    /* Called once, maybe from inside legacy_walk_start, when all requests are over. `failure` NULL: the parser has the
     * whole document; else valid during the call. */
    void (*done)(void *arg, const char *failure);
    void *arg;
};

/* `root`: the body of the legacy /api or /apis. NULL, with *err set and no call of `done`, on failure. */
MEM_CHECK struct legacy_walk *legacy_walk_start(const struct legacy_walk_opts *o, struct slice root, struct err *err);
size_t legacy_walk_asked(const struct legacy_walk *w); /* requests so far */
void legacy_walk_free(struct legacy_walk *w);          /* NULL is fine. Not from inside `done` */

#endif
