/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The identity Lease of this server as we write it: what stands in it, and by what we know it for ours when we see it
 * again. Asks nobody.
 */
#ifndef MVPROXY_CLUSTER_OWN_LEASE_H
#define MVPROXY_CLUSTER_OWN_LEASE_H

#include "base/buf.h"
#include "kube/lease.h"

struct own_lease;

/* Texts are copied. Ends the process when out of memory. */
struct own_lease *own_lease_new(const char *id, const char *hostname);
void own_lease_free(struct own_lease *o); /* NULL is fine */
/* "IP:port", "": none. False: that is what it is already. */
bool own_lease_set_address(struct own_lease *o, const char *advertise);
const char *own_lease_address(const struct own_lease *o);
const char *own_lease_holder(const struct own_lease *o);
/*
 * Another holder than any before. False: the present one has not been confirmed yet, the Lease may still have the one
 * before, and nothing changes.
 */
bool own_lease_take_holder(struct own_lease *o);

/* What creates, or renews it, now. False: the buffer failed. */
bool own_lease_print(struct own_lease *o, struct buf *out);
bool own_lease_print_renewal(struct own_lease *o, struct buf *out);
/* This one is ours, as we wrote it last or before. */
bool own_lease_is(const struct own_lease *o, const struct lease *l);
/* Ours, with these uid and resourceVersion. False when out of memory. */
MEM_CHECK bool own_lease_keep(struct own_lease *o, const struct lease *l);
/* It was written as we asked: nobody will see another holder of ours. */
void own_lease_confirm(struct own_lease *o);
/* Somebody (ourselves) has written into it: the next renewal is by that version, and not in vain. */
void own_lease_moved(struct own_lease *o, struct slice uid, struct slice version);

#endif
