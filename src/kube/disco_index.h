/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Enters the names of a document that has been read into its table, and leaves out what may not stay. Private to the
 * parser.
 */
#ifndef MVPROXY_KUBE_DISCO_INDEX_H
#define MVPROXY_KUBE_DISCO_INDEX_H

#include "kube/disco.h"

struct disco_index {
    bool judges, core; /* see disco_parser_judge() */
    struct disco_doc *doc;
    struct disco_group *group;                /* whose versions are being entered; NULL: none's */
    struct disco_version *version;            /* whose resources are */
    size_t n_groups, n_versions, n_resources; /* that stay: of all, of the group, of the version */
    /* Where the next one is linked. */
    const struct disco_group **next_group;
    const struct disco_version **next_version;
    const struct disco_resource **next_resource;
};

/* False when out of memory. */
MEM_CHECK bool disco_index_start(struct disco_index *x, struct disco_doc *d);
/* Enters one group, version or resource. False: there are no more. */
bool disco_index_step(struct disco_index *x);

#endif
