/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Custom resources and aggregated APIs of a fleet (fleet.h): they come and go in the store, and each server serves
 * them, or no longer does, a moment later. A server that starts serves none of them, and is not ready, until it has
 * read what there is.
 */
#ifndef MVPROXY_TESTS_SIM_FLEET_CUSTOMS_H
#define MVPROXY_TESTS_SIM_FLEET_CUSTOMS_H

#include "sim/sim_kube.h"

enum { CUSTOMS = 3 };

struct customs;
struct custom_server;

struct custom {
    const char *group, *version, *resource;
    bool service; /* of another API server, behind an APIService */
};
const struct custom *customs_known(size_t which);

struct customs *customs_new(struct loop *l, struct kube_store *s);
void customs_free(struct customs *c); /* its servers first */
/* It is there from now on, or no more. */
void customs_set(struct customs *c, size_t which, bool exists);
bool customs_exists(const struct customs *c, size_t which);
/* Milliseconds of virtual time since it came or went; 0: never did. */
uint64_t customs_changed(const struct customs *c, size_t which);
/* Whether one of them, existing or not, is of this group. */
bool customs_owns(struct slice group);

/* `serve` is called when it serves others than before: customs_print() says which. `loading`: none yet. */
struct custom_server *customs_server_new(struct customs *c, void (*serve)(void *arg, bool loading), void *arg);
void customs_server_free(struct custom_server *s);
/* So long what has changed is not served yet, and so long it takes after a start to read what there is. */
void customs_server_pace(struct custom_server *s, uint64_t lag_ms, uint64_t load_ms);
void customs_server_start(struct custom_server *s);
/* It is stopped, or suspended: nothing changes; or goes on. */
void customs_server_pause(struct custom_server *s, bool paused);
bool customs_server_loading(const struct custom_server *s);
/* Since when it is not; 0: it is. */
uint64_t customs_server_loaded(const struct custom_server *s);
/* Appends what it serves to a text as kube_server_new() takes it. */
void customs_print(const struct custom_server *s, char *apis, size_t n);

#endif
