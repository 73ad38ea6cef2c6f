/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From what servers have said to what is served: merges each half of their discovery (kube/disco_merge.h) and prepares
 * the result (documents.h), in steps, on documents that never change.
 */
#ifndef MVPROXY_CLUSTER_BUILD_H
#define MVPROXY_CLUSTER_BUILD_H

#include "base/err.h"
#include "base/step.h"
#include "cluster/served.h"

struct build;

/* Keeps nothing of `in` but references to its documents. `protobuf`: that form as well. NULL when out of memory. */
MEM_CHECK struct build *build_new(const struct served_input *in, bool protobuf);
void build_free(struct build *b); /* NULL is fine */
/* Call until it is not MORE. FAILED: why is in err; empty: out of memory. */
enum step build_step(struct build *b, struct err *err);
/* After DONE: the caller's reference, NULL where no server has that half. Once. */
struct served_documents *build_take(struct build *b, enum served_half half);
bool build_has_protobuf(const struct build *b);

#endif
