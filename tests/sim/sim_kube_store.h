/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of the simulated cluster: the store, shared by sim_kube_store.c and sim_kube.c. */
#ifndef MVPROXY_TESTS_SIM_SIM_KUBE_STORE_H
#define MVPROXY_TESTS_SIM_SIM_KUBE_STORE_H

#include "base/buf.h"
#include "sim/sim_kube.h"

struct kube_object {
    struct list_node node;
    char *name, *meta, *members;
    uint64_t version, since_ms;
};

struct kube_event {
    struct list_node node;
    enum kube_kind kind;
    uint64_t version;
    char *line; /* with its newline */
};

struct kube_watch {
    bool label_126; /* of the Leases labelled as 1.26 does it, and of no others */
    struct list_node node;
    enum kube_kind kind;
    struct sim_request *request;
    uint64_t from; /* nothing older is sent */
    struct loop_timer *bookmark, *end;
    struct kube_store *store;
};

struct kube_store {
    struct loop *loop;
    uint64_t version, compacted;
    struct list objects[KUBE_KINDS], events, watches, servers;
    uint64_t lists[KUBE_KINDS];
    uint64_t posts, patches, tags, deletes; /* of Leases, that succeeded */
    uint64_t reads;                         /* of one Lease */
};

void kube_server_break(struct list_node *n); /* of store->servers */
void kube_servers_free(struct kube_store *s);
/* Serves a list or watch of that kind. */
void kube_store_serve(struct kube_store *s, enum kube_kind k, struct sim_request *q);
/* One Lease: create (POST to the collection: name SLICE_NONE), get, merge patch, delete, with preconditions. */
void kube_store_serve_lease(struct kube_store *s, struct slice name, struct sim_request *q);
/* Of a Lease, "" and false: it has none. */
bool kube_store_annotation(struct kube_store *s, const char *lease, const char *name, char *out, size_t n);
/* The request is over: its watch, if it is one, ends. */
void kube_store_gone(struct sim_request *q);

#endif
