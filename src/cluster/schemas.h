/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One server's schema index (`/openapi/v3`) and release. The index is requested after each poll of its discovery
 * (conditionally), and `/version` when the index changed. The last ones are kept through failures; a server before 1.24
 * has no index.
 */
#ifndef MVPROXY_CLUSTER_SCHEMAS_H
#define MVPROXY_CLUSTER_SCHEMAS_H

#include "base/mem.h"
#include "kube/schema_index.h"

struct api;
struct origin;
struct schemas;

/* `changed` is called when the index or the release changed, never from inside. NULL when out of memory. */
MEM_CHECK struct schemas *schemas_new(struct api *a, bool peer, void (*changed)(void *arg), void *arg);
void schemas_free(struct schemas *s); /* NULL is fine, here and below */
/* Requests the index from this origin, unless a request is under way. */
void schemas_poll(struct schemas *s, struct origin *o);
/* Another process may answer for the server: its index is not known. */
void schemas_invalidate(struct schemas *s);
struct schema_index *schemas_index(const struct schemas *s); /* borrowed; NULL: not known */
/* The same, or of an earlier process: which paths there are is still more likely than none. */
struct schema_index *schemas_last_index(const struct schemas *s);
/* Whether the first index may come any moment: no poll has had its end, and the first began less than this ago.
 * *for_ms: since then. */
enum { SCHEMAS_EXPECTED_MS = 2000 };
bool schemas_expected(const struct schemas *s, uint64_t *for_ms);
/* Why the last index that the server gave cannot be used (the one before is kept); NULL: it can, or there is none. */
const char *schemas_unusable(const struct schemas *s);
uint64_t schemas_release(const struct schemas *s); /* see kube/version.h */

#endif
