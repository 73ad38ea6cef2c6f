/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The prepared response bodies of one half of discovery (/apis or /api), in each form. Immutable, reference-counted,
 * and shared by all snapshots with the same discovery (snapshots also differ by addresses and the like).
 */
#ifndef MVPROXY_CLUSTER_SERVED_DOCUMENTS_H
#define MVPROXY_CLUSTER_SERVED_DOCUMENTS_H

#include "base/mem.h"
#include "kube/disco.h"

struct served_documents;

/* One body. All text lives as long as the documents. */
struct served_document {
    struct slice body;
    struct slice gzip;  /* level 1; empty when the body is not over 128 KiB */
    bool long_indented; /* JSON: over 128 KiB when it is laid out for people (`pretty`) */
    struct slice etag;  /* quoted; a document's protobuf form has that of its JSON form, as with kube-apiserver */
};

enum served_shape {
    SERVED_V2,
    SERVED_V2BETA1,
    SERVED_JSON_SHAPES,
    /* Made only after cluster_want_protobuf(). */
    SERVED_V2_PROTOBUF = SERVED_JSON_SHAPES,
    SERVED_V2BETA1_PROTOBUF,
    SERVED_SHAPES
};

/* Takes over `storage`, which the slices point into, even when it fails. `parsed`: the content that all bodies have in
 * common, or NULL. NULL when out of memory. */
MEM_CHECK struct served_documents *served_documents_new(const struct served_document documents[SERVED_SHAPES],
                                                        char *const storage[SERVED_SHAPES * 3],
                                                        const struct disco_doc *parsed);
struct served_documents *served_documents_ref(struct served_documents *d); /* NULL is fine, here and below */
void served_documents_unref(struct served_documents *d);
const struct served_document *served_documents_at(const struct served_documents *d, enum served_shape shape);
/* The parsed content that all bodies have in common; may be NULL. Borrowed. */
const struct disco_doc *served_documents_parsed(const struct served_documents *d);

#endif
