/* SPDX-License-Identifier: Apache-2.0 */
#include "base/nearest.h"

struct nearest nearest_to(struct slice word)
{
    return (struct nearest){.word = word, .distance = word.n / 3 + 1};
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Optimal string alignment (Damerau 1964), row by row. */
static size_t edit_distance(struct slice a, struct slice b)
{
    size_t rows[3][NEAREST_NAME_BYTES + 1];
    size_t *above2 = rows[0], *above = rows[1], *row = rows[2];

    for (size_t k = 0; k <= b.n; k++)
        above[k] = k;
    for (size_t i = 1; i <= a.n; i++) {
        size_t *free_row = above2;

        row[0] = i;
        for (size_t k = 1; k <= b.n; k++) {
            bool same = a.p[i - 1] == b.p[k - 1];

            row[k] = least(least(above[k], row[k - 1]) + 1, above[k - 1] + (same ? 0 : 1));
            if (i > 1 && k > 1 && a.p[i - 1] == b.p[k - 2] && a.p[i - 2] == b.p[k - 1])
                row[k] = least(row[k], above2[k - 2] + 1);
        }
        above2 = above;
        above = row;
        row = free_row;
    }
    return above[b.n];
}

void nearest_try(struct nearest *n, const char *name)
{
    struct slice candidate = slice_str(name);
    size_t distance;

    if (n->word.n > NEAREST_NAME_BYTES || candidate.n > NEAREST_NAME_BYTES)
        return;
    distance = n->word.n > 1 && slice_has_prefix(candidate, n->word) ? 0 : edit_distance(n->word, candidate);
    if (distance >= n->distance)
        return;
    n->distance = distance;
    n->best = name;
}
