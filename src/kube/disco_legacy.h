/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Discovery of servers before 1.26: the walk over /api, /apis, /apis/<g>/<v>, converted to the aggregated form.
 *
 *   w = disco_walk_new(DISCO_WALK_APIS); disco_walk_root(w, body of GET /apis, &err);
 *   disco_walk_also() for what the server may serve besides
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
/* The root document; false with a reason (wrong kind, not JSON, names that are no path segments, too many
 * group/versions). */
bool disco_walk_root(struct disco_walk *w, struct slice body, struct err *err);
/*
 * A group/version that is asked for as well, if the root document did not name it; some that cannot be one, and the
 * hundredth and later ones, are passed over. Legacy /apis lists the stored APIServices, and an older server deletes
 * those of what it does not have when it starts, though another one goes on serving it. False: out of memory.
 */
bool disco_walk_also(struct disco_walk *w, struct slice group, struct slice version, struct err *err);
size_t disco_walk_count(const struct disco_walk *w);
/* "/api/v1", "/apis/apps/v1": lives as long as the walk. */
struct slice disco_walk_path(const struct disco_walk *w, size_t i);
/* The APIResourceList of group/version i. False with a reason; then count it as unavailable or give up. */
bool disco_walk_resources(struct disco_walk *w, size_t i, struct slice body, struct err *err);
/* 404: this server does not serve it (legacy /apis names what other servers registered): left out. */
void disco_walk_absent(struct disco_walk *w, size_t i);
/* 503, timeout, garbage: kept without resources as freshness Stale. Also the state of those never answered. */
void disco_walk_unavailable(struct disco_walk *w, size_t i);
bool disco_walk_is_unavailable(const struct disco_walk *w, size_t i);
/* Gives the converted document to the parser. False: too big or out of memory. */
bool disco_walk_finish(struct disco_walk *w, struct disco_parser *p, struct err *err);

#endif
