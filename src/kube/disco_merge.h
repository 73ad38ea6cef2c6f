/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Merges the /apis documents of several servers into one: peer-aggregated discovery. The same set of inputs gives the
 * same bytes, on every server and in whatever order they are added. The rules are at the top of disco_merge.c.
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
    DISCO_SERVER_LOCAL = 1,   /* the local server: exclusions do not apply unless others vouch; at most one */
    DISCO_SERVER_LAPSED = 2,  /* group/versions of lapsed servers only get freshness Stale */
    DISCO_SERVER_VOUCHES = 4, /* in the local server's place: exclusions do not apply to this one, but to that */
};
/* Takes a reference to the document and copies the ID. False when out of memory or if the ID is there already. */
MEM_CHECK bool disco_merge_add(struct disco_merge *m, struct slice server_id, const struct disco_doc *apis,
                               unsigned flags);
/* This group/version is never taken from peers (CRDs, APIServices with a service). Copied. False when out of memory. */
MEM_CHECK bool disco_merge_exclude(struct disco_merge *m, struct slice group, struct slice version);

/* Nobody knows what there is of what is excluded: it comes from every server, but nothing of it is Current. */
void disco_merge_doubt(struct disco_merge *m);

/*
 * After the last add, once. What is spent of `f` is the approximate number of resources (20,000 take about 5 ms).
 * False, with *err set: out of memory, too big, or given up.
 */
MEM_CHECK bool disco_merge_run(struct disco_merge *m, struct fiber *f, struct err *err);

/*
 * After that: compact JSON in kube-apiserver's form, with a newline at the end. The bytes live as long as the
 * merge, which has freed everything else by then.
 */
struct disco_merged {
    struct slice v2;                /* apiVersion apidiscovery.k8s.io/v2 */
    struct slice v2beta1;           /* the same document with the other apiVersion */
    bool is_local;                  /* v2 is the local server's body byte for byte */
    const struct disco_doc *parsed; /* the local document, if the result is equal to it, in either form; else NULL */
};
void disco_merge_result(const struct disco_merge *m, struct disco_merged *out);

#endif
