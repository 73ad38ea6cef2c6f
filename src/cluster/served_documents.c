/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/served_documents.h"

#include "base/contract.h"

struct served_documents {
    unsigned refs;
    struct served_document at[SERVED_SHAPES];
    char *storage[SERVED_SHAPES * 3];
    struct disco_doc *parsed;
};

struct served_documents *served_documents_new(const struct served_document documents[SERVED_SHAPES],
                                              char *const storage[SERVED_SHAPES * 3], const struct disco_doc *parsed)
{
    struct served_documents *d = mem_zalloc(sizeof(*d));

    if (d == NULL) {
        for (size_t i = 0; i < SERVED_SHAPES * 3; i++)
            mem_free(storage[i]);
        return NULL;
    }
    d->refs = 1;
    memcpy(d->at, documents, sizeof(d->at));
    memcpy(d->storage, storage, sizeof(d->storage));
    d->parsed = parsed == NULL ? NULL : disco_doc_ref(parsed);
    return d;
}

struct served_documents *served_documents_ref(struct served_documents *d)
{
    must_hold(d == NULL || d->refs > 0);
    if (d != NULL)
        d->refs++;
    return d;
}

void served_documents_unref(struct served_documents *d)
{
    must_hold(d == NULL || d->refs > 0);
    if (d == NULL || --d->refs > 0)
        return;
    for (size_t i = 0; i < SERVED_SHAPES * 3; i++)
        mem_free(d->storage[i]);
    disco_doc_unref(d->parsed);
    mem_free(d);
}

const struct served_document *served_documents_at(const struct served_documents *d, enum served_shape shape)
{
    return d == NULL || d->at[shape].body.p == NULL ? NULL : &d->at[shape];
}

const struct disco_doc *served_documents_parsed(const struct served_documents *d)
{
    return d == NULL ? NULL : d->parsed;
}
