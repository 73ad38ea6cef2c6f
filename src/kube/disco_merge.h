/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many servers' /apis documents → one: peer-aggregated discovery. The same set of inputs gives the same bytes, whoever
 * merges and in whatever order they were added. The rules stand at the top of disco_merge.c.
 */
#ifndef MVPROXY_KUBE_DISCO_MERGE_H
#define MVPROXY_KUBE_DISCO_MERGE_H

#include "base/err.h"
#include "kube/disco.h"
#include "kube/disco_parse.h"

struct disco_merge;

/* NULL when out of memory. */
MEM_CHECK struct disco_merge *disco_merge_new(void);
void disco_merge_free(struct disco_merge *m);

enum {
    DISCO_SERVER_LOCAL = 1,  /* ours: exclusions do not apply; at most one */
    DISCO_SERVER_LAPSED = 2, /* group/versions that only lapsed servers have become freshness Stale */
};
/* Takes a reference to the document and copies the ID. False when out of memory or if the ID is there already. */
MEM_CHECK bool disco_merge_add(struct disco_merge *m, struct slice server_id, const struct disco_doc *apis,
                               unsigned flags);
/* This group/version never comes from peers (CRDs, service-backed APIServices). Copied. False when out of memory. */
MEM_CHECK bool disco_merge_exclude(struct disco_merge *m, struct slice group, struct slice version);

/*
 * After the last add: call until it is not MORE. `budget` is in resources looked at, roughly (20,000 is some 5 ms).
 * FAILED: no memory or too big (err).
 */
enum step disco_merge_step(struct disco_merge *m, size_t budget, struct err *err);

/*
 * After DONE. Compact JSON in kube-apiserver's form, newline at the end. The bytes live as long as the merge, which has
 * given back everything else by then: keep it.
 */
struct disco_merged {
    struct slice v2;                /* apiVersion apidiscovery.k8s.io/v2 */
    struct slice v2beta1;           /* the same document with the other apiVersion */
    bool is_local;                  /* v2 is the local server's body byte for byte: nothing differs */
    const struct disco_doc *parsed; /* the document, if it is the local one in whatever form; else NULL */
};
void disco_merge_result(const struct disco_merge *m, struct disco_merged *out);

#endif
