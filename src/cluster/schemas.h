/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One server's schemas: its `/openapi/v3` index, read whenever its discovery was (a conditional request), and its
 * `/version` when the index is another. What was read last stays through failures; a server without the index (before
 * 1.24) has none.
 */
#ifndef MVPROXY_CLUSTER_SCHEMAS_H
#define MVPROXY_CLUSTER_SCHEMAS_H

#include "base/mem.h"
#include "kube/schema_index.h"

struct api;
struct origin;
struct schemas;

/* `changed` is called when index or release are others, never from inside. NULL when out of memory. */
MEM_CHECK struct schemas *schemas_new(struct api *a, bool peer, void (*changed)(void *arg), void *arg);
void schemas_free(struct schemas *s); /* NULL is fine, here and below */
/* Asks, unless it does already. */
void schemas_poll(struct schemas *s, struct origin *o);
/* Another process may be there: its index is not known. */
void schemas_invalidate(struct schemas *s);
struct schema_index *schemas_index(const struct schemas *s); /* borrowed; NULL: not known */
uint64_t schemas_release(const struct schemas *s);           /* see kube/version.h */

#endif
