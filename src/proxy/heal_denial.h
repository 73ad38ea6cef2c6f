/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Legacy discovery of one group, or one version of it, that a server says it does not have (404): whether that is true
 * of all servers, row 11 of the routing table (docs/internals/route.md), for documents.
 */
#ifndef MVPROXY_PROXY_HEAL_DENIAL_H
#define MVPROXY_PROXY_HEAL_DENIAL_H

#include "cluster/served.h"
#include "kube/surface.h"

struct disco_doc;
struct job;

/* What a document is about. */
struct heal_subject {
    struct surface path;
    const struct disco_doc *merged; /* of all servers; NULL: nothing was read yet */
};

enum served_half heal_half(const struct heal_subject *of);
/* Of a group or a version: only these are denied. */
bool heal_is_about_one(const struct heal_subject *of);
/* The local server is back, but its discovery could not be read; and others may have what it had. */
bool heal_is_unsettled(const struct job *j, const struct heal_subject *of);
/* A 404 has come. True: it is not passed on, and what happens instead has begun. False: it is true, or (`completed`: it
 * could be) others have what makes a 200 of it. */
bool heal_denied(struct job *j, const struct heal_subject *of, bool completed);
/* For explain: the message with which a GET of that path would be refused (503) now; NULL: it would be answered.
 * `away`: the local server is away, and a live peer is asked instead. */
const char *heal_outlook(const struct served *s, struct slice path, bool away);

#endif
