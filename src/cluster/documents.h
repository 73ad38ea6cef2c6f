/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From merged text to what is served: copies, entity tags and compressed forms, made in steps that never hold up the
 * loop.
 */
#ifndef MVPROXY_CLUSTER_DOCUMENTS_H
#define MVPROXY_CLUSTER_DOCUMENTS_H

#include "cluster/served_documents.h"
#include "kube/disco_parse.h"

struct documents;

enum { DOCUMENTS_GZIP_ABOVE = 128 << 10 }; /* kube-apiserver compresses only what is over 128 KiB */

struct documents_input {
    struct slice text[SERVED_JSON_SHAPES]; /* lives until the last step */
    bool protobuf;                         /* make the protobuf forms as well */
    const struct disco_doc *parsed;        /* the document of `text`, referenced; NULL: parsed here */
};

/* NULL when out of memory. */
MEM_CHECK struct documents *documents_new(const struct documents_input *in);
void documents_free(struct documents *d); /* NULL is fine */
/*
 * Call until it is not MORE; one call is some 2 ms. DONE gives the result, the caller's reference. Tags are
 * kube-apiserver's: the quoted upper-case hex SHA-512 of the JSON form without kind and apiVersion, of all forms alike.
 * So a document has the same tag wherever it was merged, and a server's own document that server's tag. A document
 * that cannot be put into protobuf form (too big) is there in JSON only; that is logged.
 */
enum step documents_step(struct documents *d, struct served_documents **out);

#endif
