/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names that any server of a snapshot serves, each once and in order: of group/versions, or of their resources.
 * Gathered in steps that each take little time, for any number of servers.
 */
#ifndef MVPROXY_ADMIN_NAMES_H
#define MVPROXY_ADMIN_NAMES_H

#include "cluster/served.h"

struct names;

/* `resources`: theirs, else of group/versions, with an empty resource. The snapshot must live as long. NULL: no memory.
 */
MEM_CHECK struct names *names_new(const struct served *s, bool resources);
void names_free(struct names *n); /* NULL is fine */
/* A step. True: there are no more. *failed when out of memory. */
bool names_step(struct names *n, bool *failed);
/* Once that was true; in order of group, version and resource. Texts are the snapshot's. */
size_t names_count(const struct names *n);
const struct gvr *names_at(const struct names *n, size_t i);
/* What a server has said: 0 is the local one, i peer i - 1. NULL: nothing is known. */
const struct disco *names_disco(const struct served *s, size_t server);
/* The first server that says the very same as this one. */
size_t names_alike(const struct names *n, size_t server);

#endif
