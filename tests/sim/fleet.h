/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A simulated control plane: nodes with a model API server and mvproxy's whole knowledge and routing (cluster/, kube/,
 * proxy/) before it, in one process, on one virtual clock and one network, before one store. Whatever happens is told
 * by the test, everything random comes from a seed.
 *
 * What is not here: connections (sim_back.h, sim_front.h), bodies of requests.
 */
#ifndef MVPROXY_TESTS_SIM_FLEET_H
#define MVPROXY_TESTS_SIM_FLEET_H

#include "kube/gvr.h"
#include "sim/sim_etcd.h"
#include "sim/sim_kube.h"

enum { FLEET_MAX = 4, FLEET_ETCD_MEMBERS = 2, FLEET_DOCUMENT_BYTES = 16 << 10 };

struct customs;
struct disco_doc;
struct fleet;
struct metrics;

struct fleet *fleet_new(unsigned nodes); /* nothing is started */
/* Ends everything. How often the model saw what may not be (said as diagnostics): somebody else's identity, a write
 * carried out twice, requests that never end. */
unsigned fleet_free(struct fleet *f);
struct loop *fleet_loop(struct fleet *f);
struct kube_store *fleet_store(struct fleet *f);
unsigned fleet_nodes(const struct fleet *f);

/*
 * An etcd of two members, in which the mvproxies that start from now on find each other's addresses and say their own:
 * in addition to those in the Leases, or instead.
 */
void fleet_use_etcd(struct fleet *f, bool annotations);
struct sim_etcd *fleet_etcd(struct fleet *f);
struct sim_server *fleet_etcd_member(struct fleet *f, unsigned member);
/* Whether packets pass from a node's mvproxy to etcd. */
void fleet_cut_etcd(struct fleet *f, unsigned node, bool cut);

/* A node's API server: `apis` as in kube_server_new(). */
void fleet_start_server(struct fleet *f, unsigned node, const char *apis, int64_t skew_us);
/* From now on a server that starts deletes the APIServices of what it lacks, as kube-apiserver does. */
void fleet_delete_lacking(struct fleet *f);
/* Custom resources and aggregated APIs, none of which are there at first (fleet_customs.h): before the first server
 * starts. Until told otherwise each server has what changes at once. */
struct customs *fleet_use_customs(struct fleet *f);
void fleet_pace_customs(struct fleet *f, unsigned node, uint64_t lag_ms, uint64_t load_ms);
/* Since when a server that is up has read them, in milliseconds; 0: it has not. */
uint64_t fleet_loaded(const struct fleet *f, unsigned node);
/* Whoever starts from now on has skewed-resources: newest. */
void fleet_use_newest(struct fleet *f);
/* Discovery in its legacy form, with the list of stored APIServices, or aggregated. */
void fleet_set_legacy(struct fleet *f, unsigned node, bool legacy);
/* The minor version that it is of from its next start on: before 26 it has no Lease, before 35 it neither deletes it
 * when it stops nor changes its holder when it starts. */
void fleet_set_minor(struct fleet *f, unsigned node, unsigned minor);
/* Requests of a node's mvproxy that are under way. */
size_t fleet_open(const struct fleet *f, unsigned node);
void fleet_stop_server(struct fleet *f, unsigned node, bool graceful);
/* It takes what comes and does nothing, as when it is stopped by SIGSTOP or waits for a disk. When it runs again, what
 * it had in its hands is lost. */
void fleet_hang_server(struct fleet *f, unsigned node, bool hangs);
/* And its mvproxy, which dies without a word. */
void fleet_start_proxy(struct fleet *f, unsigned node);
void fleet_kill_proxy(struct fleet *f, unsigned node);
/* As by SIGTERM: it takes nothing new, withdraws what it has written, and is gone then. Time passes. */
void fleet_stop_proxy(struct fleet *f, unsigned node);
/* Takes its configuration again, as by SIGHUP. */
void fleet_reload(struct fleet *f, unsigned node);
/* The same with peers switched off, or on again; off it counts as not up, though it goes on passing requests on. */
void fleet_set_peers(struct fleet *f, unsigned node, bool enabled);
/* Whether packets pass from one node's mvproxy to another node. */
void fleet_cut(struct fleet *f, unsigned from, unsigned to, bool cut);
struct kube_server *fleet_server(struct fleet *f, unsigned node);
/* Whoever starts from now on asks each server once a second whether it is there (cluster/pulse.h), as the daemon does.
 */
void fleet_probe(struct fleet *f);
/* Of a node's mvproxy; NULL while it is dead. */
struct metrics *fleet_metrics(struct fleet *f, unsigned node);
/* Its mvproxy knows of all peers: it follows the Leases now, which it does not for a moment after their watch broke. */
bool fleet_knows_all(const struct fleet *f, unsigned node);

/* Milliseconds of virtual time since that is so without a break; 0: it is not so. */
uint64_t fleet_server_up(const struct fleet *f, unsigned node);
uint64_t fleet_server_away(const struct fleet *f, unsigned node);
uint64_t fleet_proxy_up(const struct fleet *f, unsigned node);
uint64_t fleet_path_up(const struct fleet *f, unsigned from, unsigned to);
/* Likewise: its mvproxy has ended, or never ran; packets do not pass. Whether it runs, with or without peers. */
uint64_t fleet_proxy_dead(const struct fleet *f, unsigned node);
uint64_t fleet_path_cut(const struct fleet *f, unsigned from, unsigned to);
bool fleet_proxy_runs(const struct fleet *f, unsigned node);
/* Since when nothing of the above has changed on any node. */
uint64_t fleet_quiet(const struct fleet *f);
/* As a server is, or was when it was stopped. */
bool fleet_has(const struct fleet *f, unsigned node, const struct gvr *g);
bool fleet_has_version(const struct fleet *f, unsigned node, const struct gvr *g); /* its group/version */

/* Whether there is a Lease of its server, and (NULL: never mind) one that says where its mvproxy is. */
bool fleet_leased(const struct fleet *f, unsigned node, bool *addressed);

/* Since when an APIService names its group/version, likewise. */
uint64_t fleet_registered(const struct fleet *f, const struct gvr *g);

struct fleet_answer {
    size_t number; /* of the request: its object is called "w" and this */
    unsigned node; /* that was asked */
    struct gvr gvr;
    bool write;
    bool ended; /* with an answer */
    unsigned status;
    int server;        /* the node whose server answered by its own word; -1: none did */
    uint64_t asked_ms; /* loop_now_ms() */
    struct slice body;
};

/* A client of a node asks for a thing of this kind; `answered` is called once, when that is over. A write has a name of
 * its own. gvr's text must be static. */
void fleet_ask(struct fleet *f, unsigned node, const struct gvr *g, bool write,
               void (*answered)(void *arg, const struct fleet_answer *a), void *arg);
size_t fleet_asking(const struct fleet *f);
/* Appends what a node's mvproxy explains of such a request now (proxy/explain.h). False: it is dead. */
bool fleet_explain(struct fleet *f, unsigned node, const struct gvr *g, bool write, struct buf *out);
/* Whether that is named in it, if there is one. */
bool fleet_lists(struct fleet *f, unsigned node, const struct gvr *g);
/* The merged document that a node's mvproxy has now, "" without; valid until time passes. The same, parsed; NULL. */
struct slice fleet_document(struct fleet *f, unsigned node);
const struct disco_doc *fleet_parsed(struct fleet *f, unsigned node);

#endif
