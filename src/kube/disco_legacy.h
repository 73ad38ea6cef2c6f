/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts the discovery of servers before 1.26 to the aggregated form: it is spread over /api, /apis, /apis/<g>/<v>.
 * Usage:
 *
 *   w = disco_walk_new(DISCO_WALK_APIS); disco_walk_root(w, body of GET /apis, &err);
 *   disco_walk_also() for other group/versions that the server may serve
 *   for each i < disco_walk_count(w): GET disco_walk_path(w, i), then exactly one of resources / absent / unavailable
 *   disco_walk_finish(w, parser, &err) feeds a disco_parser, which is then stepped as usual.
 */
#ifndef MVPROXY_KUBE_DISCO_LEGACY_H
#define MVPROXY_KUBE_DISCO_LEGACY_H

#include "kube/disco_parse.h"

enum disco_walk_kind { DISCO_WALK_API, DISCO_WALK_APIS }; /* APIVersions or APIGroupList */

struct disco_walk;

MEM_CHECK struct disco_walk *disco_walk_new(enum disco_walk_kind kind);
void disco_walk_free(struct disco_walk *w);
/* Takes the root document. False, with *err set: wrong kind, not JSON, names that are no path segments, or too many
 * group/versions. */
bool disco_walk_root(struct disco_walk *w, struct slice body, struct err *err);
/*
 * Adds a group/version that the root document did not name. Names that cannot be one are skipped, and so are the
 * hundredth and later ones. They are needed since legacy /apis lists the stored APIServices: an older server deletes
 * those that it does not serve when it starts, although another one still serves them. False when out of memory.
 */
bool disco_walk_also(struct disco_walk *w, struct slice group, struct slice version, struct err *err);
size_t disco_walk_count(const struct disco_walk *w);
/* "/api/v1", "/apis/apps/v1". Lives as long as the walk. */
struct slice disco_walk_path(const struct disco_walk *w, size_t i);
/* Takes the APIResourceList of group/version i. False, with *err set: then mark it as unavailable, or give up. */
bool disco_walk_resources(struct disco_walk *w, size_t i, struct slice body, struct err *err);
/* Answered 404: this server does not serve it (legacy /apis lists what other servers registered). It is left out. */
void disco_walk_absent(struct disco_walk *w, size_t i);
/* Answered 503, timed out, or not readable: kept without resources and with freshness Stale. So is one for which none
 * of the three is called. */
void disco_walk_unavailable(struct disco_walk *w, size_t i);
bool disco_walk_is_unavailable(const struct disco_walk *w, size_t i);
/* Feeds the converted document to the parser. False, with *err set: too big, or out of memory. */
bool disco_walk_finish(struct disco_walk *w, struct disco_parser *p, struct err *err);

#endif
