/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A simulated etcd: one store with leases and watches behind the JSON gateways of its members. As far as the cluster
 * layer looks: range over a prefix, the transaction that puts or reads, grant, keepalive, revoke, watch.
 */
#ifndef MVPROXY_TESTS_SIM_SIM_ETCD_H
#define MVPROXY_TESTS_SIM_SIM_ETCD_H

#include "sim/sim_back.h"
#include "sim/sim_loop.h"

struct sim_etcd;

struct sim_etcd *sim_etcd_new(struct loop *l, uint64_t cluster);
void sim_etcd_free(struct sim_etcd *e);
/* A member at this address (of the back's servers: for faults and delay). */
struct sim_server *sim_etcd_member(struct sim_etcd *e, struct back *b, const char *address);

/* As another client does it; ttl_s 0: without a lease. Values may have any bytes. */
void sim_etcd_put(struct sim_etcd *e, const char *key, struct slice value, uint64_t ttl_s);
void sim_etcd_delete(struct sim_etcd *e, const char *key);
/* NULL: there is none. With a NUL behind it. */
const char *sim_etcd_get(const struct sim_etcd *e, const char *key);
uint64_t sim_etcd_lease_of(const struct sim_etcd *e, const char *key);

/* What was before now cannot be watched any more, and open watches end with that. */
void sim_etcd_compact(struct sim_etcd *e);
/* Without one nothing is answered but errors, and watches end. */
void sim_etcd_set_leader(struct sim_etcd *e, bool there);
/* Watches see nothing, although they are open. */
void sim_etcd_set_deaf(struct sim_etcd *e, bool deaf);
/* Every open watch gets these bytes. */
void sim_etcd_say(struct sim_etcd *e, const char *bytes);
/* Every open watch is over, whole and without a word of why, as through a proxy that is restarted. */
void sim_etcd_drop_watches(struct sim_etcd *e);
/* Everything is answered with this; body NULL: no more. */
void sim_etcd_answer(struct sim_etcd *e, unsigned status, const char *body);
/* Requests to this path are refused, all others are not; NULL: none. */
void sim_etcd_refuse(struct sim_etcd *e, const char *path);
/* Each watch that is opened is ended by the answer that opens it. */
void sim_etcd_end_watches(struct sim_etcd *e, bool at_once);
/* Nor does any say that it is there, as behind a proxy that collects answers. */
void sim_etcd_hold_watches(struct sim_etcd *e, bool hold);
/* The cluster is another one from now on: empty, with revisions from the beginning. */
void sim_etcd_reset(struct sim_etcd *e, uint64_t cluster);

size_t sim_etcd_watches(const struct sim_etcd *e);
size_t sim_etcd_leases(const struct sim_etcd *e);
uint64_t sim_etcd_ranges(const struct sim_etcd *e);
uint64_t sim_etcd_writes(const struct sim_etcd *e); /* of the clients over the gateway, that were done */

#endif
