/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the merged documents: merges each half of all servers' discovery (kube/disco_merge.h) and prepares the response
 * bodies (documents.h), step by step. Its input is immutable.
 */
#ifndef MVPROXY_CLUSTER_BUILD_H
#define MVPROXY_CLUSTER_BUILD_H

#include "base/err.h"
#include "base/step.h"
#include "cluster/served.h"

struct build;

/* Of `in` only its documents are kept, by reference. `protobuf`: also makes the protobuf form. NULL when out of
 * memory. */
MEM_CHECK struct build *build_new(const struct served_input *in, bool protobuf);
void build_free(struct build *b); /* NULL is fine */
/* To be called until it does not return STEP_MORE. STEP_FAILED: *err says why; it is empty when out of memory. */
enum step build_step(struct build *b, struct err *err);
/* After STEP_DONE, once per half: the caller gets the reference; NULL if no server has that half. */
struct served_documents *build_take(struct build *b, enum served_half half);
bool build_has_protobuf(const struct build *b);

#endif
