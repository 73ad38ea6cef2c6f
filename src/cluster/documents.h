/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prepares the response bodies from the merged documents: entity tags, compressed and protobuf forms.
 */
#ifndef MVPROXY_CLUSTER_DOCUMENTS_H
#define MVPROXY_CLUSTER_DOCUMENTS_H

#include "cluster/served_documents.h"
#include "kube/disco_parse.h"

enum {
    DOCUMENTS_GZIP_ABOVE = 128 << 10, /* kube-apiserver compresses only what is over 128 KiB */
    DOCUMENTS_BUDGET = 256 << 10      /* of a step: some 2 ms */
};

struct documents_input {
    struct slice text[SERVED_JSON_SHAPES];
    bool protobuf;                  /* make the protobuf forms as well */
    const struct disco_doc *parsed; /* the document of `text`, referenced; NULL: parsed here */
};

/*
 * The caller has the reference. What is spent of `f` are bytes that are compressed or parsed, or what takes as long.
 * NULL when out of memory, or given up.
 *
 * Entity tags are made as in kube-apiserver: the quoted upper-case hex SHA-512 of the JSON form without kind and
 * apiVersion, the same for all forms. So equal documents have the same tag on every instance, and an unmerged document
 * has its server's own tag. A document too big for protobuf form is made in JSON only; that is logged.
 */
MEM_CHECK struct served_documents *documents_make(const struct documents_input *in, struct fiber *f);

#endif
