/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Enters the names of a document that has been read into its table, and leaves out what may not stay. Private to the
 * parser.
 */
#ifndef MVPROXY_KUBE_DISCO_INDEX_H
#define MVPROXY_KUBE_DISCO_INDEX_H

#include "base/fiber.h"
#include "kube/disco.h"

struct disco_index {
    bool judges, core; /* see disco_parser_judge() */
    struct fiber *fiber;
    struct disco_doc *doc;
};

/* Sets `doc`. False: out of memory, or given up. */
MEM_CHECK bool disco_index_fill(struct disco_index *x, struct disco_doc *d);

#endif
