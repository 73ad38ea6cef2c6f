/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prepares the response bodies from the merged documents: entity tags, compressed and protobuf forms, in steps that do
 * not hold up the loop.
 */
#ifndef MVPROXY_CLUSTER_DOCUMENTS_H
#define MVPROXY_CLUSTER_DOCUMENTS_H

#include "cluster/served_documents.h"
#include "kube/disco_parse.h"

struct documents;

enum { DOCUMENTS_GZIP_ABOVE = 128 << 10 }; /* kube-apiserver compresses only what is over 128 KiB */

struct documents_input {
    struct slice text[SERVED_JSON_SHAPES]; /* must live until the last step */
    bool protobuf;                         /* make the protobuf forms as well */
    const struct disco_doc *parsed;        /* the document of `text`, referenced; NULL: parsed here */
};

/* NULL when out of memory. */
MEM_CHECK struct documents *documents_new(const struct documents_input *in);
void documents_free(struct documents *d); /* NULL is fine */
/*
 * To be called until it does not return STEP_MORE; one call takes about 2 ms. STEP_DONE gives the result, of which the
 * caller has the reference.
 *
 * Entity tags are made as in kube-apiserver: the quoted upper-case hex SHA-512 of the JSON form without kind and
 * apiVersion, the same for all forms. So equal documents have the same tag on every instance, and an unmerged document
 * has its server's own tag. A document too big for protobuf form is made in JSON only; that is logged.
 */
enum step documents_step(struct documents *d, struct served_documents **out);

#endif
