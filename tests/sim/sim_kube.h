/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A simulated cluster: one store, several kube-apiservers before it, each with its own version of discovery. As far as
 * the cluster layer of mvproxy looks: discovery in three forms with entity tags, Leases, CRDs and APIServices with list
 * (in pages) and watch (bookmarks, timeouts, 410), renewal of its own Lease.
 */
#ifndef MVPROXY_TESTS_SIM_SIM_KUBE_H
#define MVPROXY_TESTS_SIM_SIM_KUBE_H

#include "kube/gvr.h"
#include "kube/lease.h"
#include "sim/sim_back.h"
#include "sim/sim_loop.h"

struct kube_store;
struct kube_server;

enum kube_kind { KUBE_LEASE, KUBE_CRD, KUBE_APISERVICE, KUBE_KINDS };
enum kube_form { KUBE_V2, KUBE_V2BETA1, KUBE_LEGACY };

struct kube_store *kube_store_new(struct loop *l);
void kube_store_free(struct kube_store *s); /* with its servers */
/* Creates or replaces an object: `members` are JSON members after metadata, `meta` further members inside it (each with
 * its comma in front). */
void kube_put(struct kube_store *s, enum kube_kind k, const char *name, const char *meta, const char *members);
void kube_delete(struct kube_store *s, enum kube_kind k, const char *name);
/* Watches from before now get 410. */
void kube_compact(struct kube_store *s);
/* As when etcd is restored from a backup: versions start again so many below, objects stay, servers start anew. */
void kube_restore(struct kube_store *s, uint64_t versions);
/* Sends every open watch of that kind these bytes. */
void kube_inject(struct kube_store *s, enum kube_kind k, const char *bytes);
/* Every watch that is open says nothing any more, not even that it is over: as behind a firewall that forgot it. */
void kube_deafen(struct kube_store *s);
size_t kube_watches(const struct kube_store *s, enum kube_kind k);
uint64_t kube_lists(const struct kube_store *s, enum kube_kind k);

struct kube_lease {
    const char *name;
    const char *hostname, *holder, *address; /* NULL: none */
    const char *written;                     /* LEASE_WRITTEN_ANNOTATION; goes with an address only */
    const char *tag;                         /* LEASE_DISCOVERY_ANNOTATION; NULL: as it is */
    const char *ns;                          /* NULL: kube-system */
    int64_t renew_us;                        /* wall clock */
    unsigned duration_s;                     /* 0: none */
    bool no_label;
    bool label_126; /* that of 1.26 instead */
};
void kube_put_lease(struct kube_store *s, const struct kube_lease *l);
/* For the simulation's own work: also where a test has the next allocation fail, once. */
struct arena *kube_arena(void);
/* The Lease as it is; text lives in the arena. False: there is none. */
bool kube_get_lease(struct kube_store *s, const char *name, struct arena *a, struct lease *out);
bool kube_has_lease(struct kube_store *s, const char *name);
bool kube_lease_has_address(struct kube_store *s, const char *name); /* an annotation says it */
/* Counts of writes that succeeded; of "TAG": patches of LEASE_DISCOVERY_ANNOTATION, which are not among the PATCHes. */
uint64_t kube_lease_writes(const struct kube_store *s, const char *method);
uint64_t kube_lease_reads(const struct kube_store *s); /* of one, not of the collection */
/* `versions`: space-separated. */
void kube_put_crd(struct kube_store *s, const char *name, const char *group, const char *versions);
/* The group/versions that APIServices name, as kube_server_new() takes them, without resources; mem_free() it. */
char *kube_store_registered(struct kube_store *s);
/* loop_now_ms() when that APIService was created; 0: there is none. */
uint64_t kube_registered_ms(struct kube_store *s, struct slice group, struct slice version);
void kube_put_apiservice(struct kube_store *s, const char *group, const char *version, bool service);

/* An API server on a node of this name, at this address. `apis`: "apps/v1:deployments,replicasets; batch/v1:jobs"; the
 * core group always has pods. */
struct kube_server *kube_server_new(struct kube_store *s, struct back *b, const char *hostname, const char *address,
                                    const char *apis);
struct sim_server *kube_sim(struct kube_server *k); /* for faults, delay, counters */
const char *kube_id(const struct kube_server *k);
/* Serves other APIs from now on. */
void kube_set_apis(struct kube_server *k, const char *apis);
/* The same of the core group, aggregated forms: "v1:pods,services". */
void kube_set_core(struct kube_server *k, const char *resources);
void kube_set_form(struct kube_server *k, enum kube_form f);
/* Its legacy /apis lists the stored APIServices, as real servers' does, and its index of schemas all that it has. */
void kube_list_registered(struct kube_server *k);
/* An mvproxy stands in front of it from now on: its answers to marked requests say so. NULL: no more. */
void kube_set_hop(struct kube_server *k, const char *value);
void kube_set_hop_version(struct kube_server *k, const char *value); /* and its version */
/* What that mvproxy says of the server's readiness (USER_HOP_READY; a literal); NULL, as at first: nothing. */
void kube_set_hop_ready(struct kube_server *k, const char *value);
/* The index at /openapi/v3: apps/v1 with this hash (a literal); NULL, as at first: there is none. */
void kube_set_schemas(struct kube_server *k, const char *hash);
void kube_add_schemas(struct kube_server *k, size_t n); /* so many of CRDs as well, of 214 bytes each */
void kube_untag_schemas(struct kube_server *k);         /* without an entity tag from now on, as real servers */
uint64_t kube_version_requests(const struct kube_server *k);
uint64_t kube_schemas_unchanged(const struct kube_server *k); /* answers 304 */
/* What /apis answers instead of a document, as it stands; NULL: the document again. */
void kube_set_garbage(struct kube_server *k, const char *body);
/* The ConfigMap that says which front proxies are believed (kube/request_header.h), as it stands; borrowed. */
void kube_set_map(struct kube_server *k, const char *body);
uint64_t kube_map_requests(const struct kube_server *k);
/* Whether it serves that, by what it was told. */
bool kube_serves(const struct kube_server *k, const struct gvr *gvr);
bool kube_serves_sub(const struct kube_server *k, const struct gvr *gvr, struct slice subresource); /* empty: none */
/* A whole group, or (version not empty) a version of it. */
bool kube_knows(const struct kube_server *k, struct slice group, struct slice version);
/* Asked for every path that the model does not know; false: not answered. */
void kube_set_extra(struct kube_server *k, bool (*serve)(void *arg, struct sim_request *q), void *arg);
/* Its Lease names no address: whether somebody adds one is not for the server to say (without the feature gate). */
void kube_set_unadvertised(struct kube_server *k);
/* Answers this status to whatever begins so, with 0 nothing at all; NULL: answers as ever. */
void kube_forbid(struct kube_server *k, const char *path_prefix, unsigned status);
/* Its /readyz is 500 and names this check, as kube-apiserver's does; NULL: answers as ever. */
void kube_fail_check(struct kube_server *k, const char *check);
/* Answers this status to whatever would change something, while all can be read; 0: no more. */
void kube_forbid_writes(struct kube_server *k, unsigned status);
/* Answers this status to every watch; 0: to none. */
void kube_forbid_watches(struct kube_server *k, unsigned status);
/* What /version says; 34 at first. 26 names and labels its Lease as that version does. */
void kube_set_minor(struct kube_server *k, unsigned minor);
/* Publishes and renews its Lease every 10 s, with a clock that is off by so much; a new process has a new holder. */
void kube_start(struct kube_server *k, int64_t skew_us);
/* A new process with the holder of before, as kube-apiserver's is until 1.34. */
void kube_start_again(struct kube_server *k, int64_t skew_us);
/* Stops renewing. `graceful`: the Lease is deleted first. Connections are refused and broken. */
void kube_stop(struct kube_server *k, bool graceful);
/* Its clock is off by so much from the next renewal on. */
void kube_set_skew(struct kube_server *k, int64_t skew_us);
/* Stops (or goes on) renewing, nothing else. */
void kube_pause_renewal(struct kube_server *k, bool pause);
uint64_t kube_discovery_requests(const struct kube_server *k); /* for /api and /apis */
uint64_t kube_not_modified(const struct kube_server *k);
/* The /apis document it serves. */
struct slice kube_document(const struct kube_server *k);
const char *kube_etag(const struct kube_server *k);
/* Requests without identity headers over a connection without certificate, or to a peer without the marks, are counted.
 */
uint64_t kube_unmarked(const struct kube_server *k);

#endif
