/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The content of this server's identity Lease as we write it, how it is recognised when it is read again, and whether
 * the owner of another one in its place is alive. Sends no requests.
 */
#ifndef MVPROXY_CLUSTER_OWN_LEASE_H
#define MVPROXY_CLUSTER_OWN_LEASE_H

#include "base/buf.h"
#include "kube/lease.h"

struct own_lease;

/* Texts are copied. Ends the process when out of memory. */
struct own_lease *own_lease_new(const char *id, const char *hostname);
void own_lease_free(struct own_lease *o); /* NULL is fine */
/* "IP:port"; "": none. False: unchanged. */
bool own_lease_set_address(struct own_lease *o, const char *advertise);
const char *own_lease_address(const struct own_lease *o);
const char *own_lease_holder(const struct own_lease *o);
/*
 * Makes up a new holder. False, with nothing changed, while the Lease may still have the previous one, since the
 * present holder has not been confirmed yet.
 */
bool own_lease_take_holder(struct own_lease *o);

/* Prints the body of the request that creates, or renews, the Lease now. False: the buffer failed. */
bool own_lease_print(struct own_lease *o, struct buf *out);
bool own_lease_print_renewal(struct own_lease *o, struct buf *out);
/* Whether this Lease is as our last or last confirmed write left it. */
bool own_lease_is(const struct own_lease *o, const struct lease *l);
/* Keeps uid and resourceVersion of our Lease for the next renewal. False when out of memory. */
MEM_CHECK bool own_lease_keep(struct own_lease *o, const struct lease *l);
/* The last write succeeded: the previous holder is in no Lease any more. */
void own_lease_confirm(struct own_lease *o);
/* The Lease was written to by another part of this program (lease_news.h): the next renewal uses this version. */
void own_lease_moved(struct own_lease *o, struct slice uid, struct slice version);

/*
 * Judges whether the owner of a Lease in place of ours is alive, that is, whether it was seen to change between two
 * looks. Clocks of nodes may differ, so the Lease's age counts only if it is great.
 */
enum lease_rival {
    LEASE_RIVAL_NEW,   /* not seen before: look again in *wait_ms */
    LEASE_RIVAL_WAITS, /* the same */
    LEASE_RIVAL_ALIVE,
    LEASE_RIVAL_DEAD,
    LEASE_RIVAL_NO_MEMORY,
};
enum lease_rival own_lease_judge(struct own_lease *o, const struct lease *l, uint64_t now_ms, uint64_t *wait_ms);
/* What was seen of such an owner does not count any more. */
void own_lease_forget_rival(struct own_lease *o);

#endif
