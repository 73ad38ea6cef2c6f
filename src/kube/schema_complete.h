/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server's schema index (`/openapi/v3`) as it has answered, completed with those of others, in steps: reading,
 * merging, and the digest of what was written.
 */
#ifndef MVPROXY_KUBE_SCHEMA_COMPLETE_H
#define MVPROXY_KUBE_SCHEMA_COMPLETE_H

#include "base/hash.h"
#include "base/step.h"
#include "kube/schema_merge.h"

struct schema_completion;

/* `document` and what `others` points to must stay until it is done; its base does not count. What is held meanwhile,
 * and the result, are charged to `quota`. NULL when out of memory. */
MEM_CHECK struct schema_completion *schema_completion_new(struct slice document, const struct schema_merge *others,
                                                          size_t ceiling, struct quota *quota);
/* FAILED: it is no schema index, out of memory, or over the ceiling. */
enum step schema_completion_step(struct schema_completion *c);
/* When it is done: lives as long as the completion. */
struct slice schema_completion_text(const struct schema_completion *c);
/* Of these bytes. */
void schema_completion_sha512(const struct schema_completion *c, unsigned char out[HASH_SHA512_BYTES]);
void schema_completion_free(struct schema_completion *c); /* NULL is fine */

#endif
