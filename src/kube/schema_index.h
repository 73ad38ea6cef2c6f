/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The schema index of a server (`/openapi/v3`): the URL of each group/version's schema, and its hash (kube-openapi,
 * handler3: "paths" → "apis/GROUP/VERSION" → serverRelativeURL with ?hash=). Immutable, reference-counted.
 */
#ifndef MVPROXY_KUBE_SCHEMA_INDEX_H
#define MVPROXY_KUBE_SCHEMA_INDEX_H

#include "base/fiber.h"
#include "base/mem.h"

struct schema_index;

struct schema_entry {
    struct slice path; /* "api/v1", "apis/apps", "apis/apps/v1", "version" */
    struct slice url;  /* "/openapi/v3/apis/apps/v1?hash=..." */
    struct slice hash; /* within the URL; empty: none */
};

/*
 * Reads such a document in steps, since a large one takes longer than a turn of the loop may. The document must stay
 * until the end; what the index holds is charged to `quota`, which must outlive it. NULL when out of memory.
 */
struct schema_reader;
MEM_CHECK struct schema_reader *schema_reader_new(struct slice document, struct quota *quota);
/* DONE: *out is the caller's. Entries without URL are left out. FAILED: it is not such a document, or over a limit. */
enum step schema_reader_step(struct schema_reader *r, struct schema_index **out);
/* The same in the course of other work, which spends the bytes that are read. NULL: it has failed. */
struct schema_index *schema_reader_read(struct schema_reader *r, struct fiber *f);
bool schema_reader_starved(const struct schema_reader *r); /* it failed for want of memory */
void schema_reader_free(struct schema_reader *r);          /* NULL is fine */

/* The same at once, for small ones. False: out of memory. *out is NULL then, and if it is not such a document, or over
 * a limit. */
MEM_CHECK bool schema_index_read(struct slice document, struct schema_index **out);
/* The same, where it does not matter why there is none. */
MEM_CHECK struct schema_index *schema_index_parse(struct slice document);
struct schema_index *schema_index_ref(struct schema_index *x); /* NULL is fine, here and below */
void schema_index_unref(struct schema_index *x);
/* A hash of the contents; different ones have the same by chance only, once in 2^64. NULL: 0. */
uint64_t schema_index_digest(const struct schema_index *x);
size_t schema_index_count(const struct schema_index *x);
size_t schema_index_bytes(const struct schema_index *x); /* of memory */
/* Entries are sorted by path. */
const struct schema_entry *schema_index_at(const struct schema_index *x, size_t i);
/* NULL if there is none. */
const struct schema_entry *schema_index_find(const struct schema_index *x, struct slice path);
/* The hash of a group/version's schema; empty if there is none. Group "" is the core group. */
struct slice schema_index_hash(const struct schema_index *x, struct slice group, struct slice version);
/* Splits "api/VERSION" or "apis/GROUP/VERSION". False for any other path. */
bool schema_path_names(struct slice path, struct slice *group, struct slice *version);

#endif
