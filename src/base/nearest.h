/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of the known names somebody meant who mistyped one: for "did you mean" in messages to people.
 */
#ifndef MVPROXY_BASE_NEAREST_H
#define MVPROXY_BASE_NEAREST_H

#include "base/slice.h"

struct nearest {
    struct slice word;
    const char *best; /* NULL: none is near enough */
    size_t distance;  /* of best */
};

enum { NEAREST_NAME_BYTES = 64 };

/* Begins a search; the text must live as long as it. */
struct nearest nearest_to(struct slice word);
/*
 * Offers a candidate, which must live as long as the result. The edit distance counts an insertion, a deletion, a
 * replacement, and two neighbours in the wrong order, as one each, and the beginning of a name as none; a third of the
 * word's length is near enough, and the first of equally near ones stays. Names of more than NEAREST_NAME_BYTES are
 * never near.
 */
void nearest_try(struct nearest *n, const char *name);

#endif
