/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inside of a discovery document, for the code that builds one (disco_parse.c, disco_index.c). All others use
 * disco.h.
 */
#ifndef MVPROXY_KUBE_DISCO_DOC_H
#define MVPROXY_KUBE_DISCO_DOC_H

#include "base/buf.h"
#include "kube/disco.h"

enum disco_entry_kind { DISCO_ENTRY_NONE, DISCO_ENTRY_GROUP, DISCO_ENTRY_VERSION, DISCO_ENTRY_RESOURCE };

struct disco_entry {
    uint64_t hash;
    enum disco_entry_kind kind;
    const void *item;
};

struct disco_doc {
    unsigned refs;
    enum disco_form form;
    struct buf body;
    struct arena *arena; /* everything the index points to, except the body */
    struct slice api_version;
    const struct disco_group *groups;
    size_t n_groups, n_versions, n_resources;
    size_t n_left_out;
    struct slice left_out;       /* the first of them */
    struct disco_entry *entries; /* open addressing; a power of two, at most half full */
    size_t n_entries;
};

/* An empty document with one reference. Takes over the body's memory; `body` is empty afterwards. NULL when out of
 * memory. */
MEM_CHECK struct disco_doc *disco_doc_new(struct buf *body);
/* Makes the table with room for as many entries as the counters say. False when out of memory. */
MEM_CHECK bool disco_doc_index_init(struct disco_doc *d);
/*
 * Adds an item under its name (version or resource empty for a group or version). False if the name is there already or
 * is not valid: the item must then be taken off its list.
 */
bool disco_doc_index_add(struct disco_doc *d, enum disco_entry_kind kind, const struct gvr *name, const void *item);

#endif
