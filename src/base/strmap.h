/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hash map from text to pointer. Keys are copied. SipHash with a per-process random seed, so that nobody outside can
 * make it degenerate.
 */
#ifndef MVPROXY_BASE_STRMAP_H
#define MVPROXY_BASE_STRMAP_H

#include "base/mem.h"

struct strmap;

/* NULL when out of memory. */
MEM_CHECK struct strmap *strmap_new(void);
/* Values are the caller's: free them first (strmap_next). */
void strmap_free(struct strmap *m);
/* Gets on with freeing a large one, by the memory of n entries at most. True: strmap_free() has little to do. Nothing
 * else may be asked of it any more. */
bool strmap_free_some(struct strmap *m, size_t n);
void *strmap_get(const struct strmap *m, struct slice key);
/* Replaces; the old value goes to *old if old is not NULL. False when out of memory (map unchanged). */
MEM_CHECK bool strmap_put(struct strmap *m, struct slice key, void *value, void **old);
/* The removed value or NULL. */
void *strmap_remove(struct strmap *m, struct slice key);
size_t strmap_count(const struct strmap *m);
/*
 * Iteration in no order: *cursor starts at 0; false at the end. The map must not be changed meanwhile, except that the
 * entry just returned may be removed.
 */
bool strmap_next(const struct strmap *m, size_t *cursor, struct slice *key, void **value);

#endif
