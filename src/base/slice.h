/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text as (pointer, length). Never NUL-terminated by contract, never owned:
 * whoever hands out a slice says how long its bytes live.
 */
#ifndef MVPROXY_BASE_SLICE_H
#define MVPROXY_BASE_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/contract.h"

struct slice {
    const char *p;
    size_t n;
};

#define SLICE_NONE ((struct slice){NULL, 0})
/* For string literals only. */
#define SLICE_LIT(s) ((struct slice){(s), sizeof(s) - 1})

static inline struct slice slice_of(const char *p, size_t n)
{
    return (struct slice){p, n};
}

static inline struct slice slice_str(const char *s)
{
    return (struct slice){s, s == NULL ? 0 : strlen(s)};
}

static inline struct slice slice_from(struct slice s, size_t offset)
{
    return offset >= s.n ? SLICE_NONE : slice_of(s.p + offset, s.n - offset);
}

static inline bool slice_eq(struct slice a, struct slice b)
{
    if (a.n != b.n || a.n == 0)
        return a.n == b.n;
    contract(a.p != NULL && b.p != NULL);
    return memcmp(a.p, b.p, a.n) == 0;
}

/* ASCII case folding only; the locale is never asked. */
bool slice_ieq(struct slice a, struct slice b);
bool slice_has_prefix(struct slice s, struct slice prefix);
bool slice_has_iprefix(struct slice s, struct slice prefix);
bool slice_has_suffix(struct slice s, struct slice suffix);
/* Not empty, and all of it are letters and digits (ASCII) and bytes of `others`. */
bool slice_is_of(struct slice s, const char *others);

/* Bytewise order, shorter first on a common prefix: <0, 0, >0 as memcmp. */
int slice_cmp(struct slice a, struct slice b);
/* The same of two that are pointed to, for qsort() and bsearch(). */
int slice_cmp_at(const void *a, const void *b);

/* Index of the first `c`, or s.n. */
size_t slice_index(struct slice s, char c);

/* Removes spaces and tabs (the optional white space of RFC 9110) at both ends. */
struct slice slice_trim(struct slice s);

/*
 * Cuts the text before the first `sep` off *rest and returns it; *rest becomes what follows the separator.
 * False when *rest is exhausted. An empty input yields no field; "a," yields "a" and "".
 * The exhausted state is rest->p == NULL.
 */
bool slice_split(struct slice *rest, char sep, struct slice *field);

/* Plain decimal digits only (no sign, no space), no overflow; false otherwise and *value untouched. */
bool slice_u64(struct slice s, uint64_t *value);
/* The other way round: the text lies at the end of `out`. */
enum { SLICE_U64_BYTES = 20 };
struct slice slice_u64_text(uint64_t v, char out[SLICE_U64_BYTES]);
int slice_hex_digit(char c); /* its value; -1: it is none */
/* Plain hex digits only, at most 16. */
bool slice_hex_u64(struct slice s, uint64_t *value);

#endif
