/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Discovery of a server that has no aggregated form (before 1.26): its group/versions asked for one by one, some at a
 * time, and what they say given to a parser as one document (kube/disco_legacy.h).
 *
 * Its list names what stored APIServices name, and not what an older server's start has deleted: what the server's
 * index of schemas names, which comes from what it has itself, and what it had before are asked for as well.
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
    bool mvproxy;          /* the root came through one */
    enum disco_walk_kind kind;
    struct disco_parser *parser;  /* gets the document; outlives the walk */
    const struct disco_doc *last; /* DISCO_WALK_APIS: what the server had before, outlives the walk; NULL: not known */
    uint64_t timeout_ms;          /* of each request */
    /* Called once, maybe from inside legacy_walk_start, and nothing is under way any more. `failure` NULL: the parser
     * has it all. Valid during the call. */
    void (*done)(void *arg, const char *failure);
    void *arg;
};

/* `root` is the legacy /api or /apis. NULL with a reason, and no call. */
MEM_CHECK struct legacy_walk *legacy_walk_start(const struct legacy_walk_opts *o, struct slice root, struct err *err);
size_t legacy_walk_asked(const struct legacy_walk *w); /* requests so far */
void legacy_walk_free(struct legacy_walk *w);          /* NULL is fine. Not from inside `done` */

#endif
