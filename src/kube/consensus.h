/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One order out of many: the consensus order in which merged discovery lists groups, versions and resources.
 */
#ifndef MVPROXY_KUBE_CONSENSUS_H
#define MVPROXY_KUBE_CONSENSUS_H

#include "base/mem.h"

/*
 * `names[i]` is item i's text, all different. `lists[l]` are item numbers without duplicates; every item is in at least
 * one list; lists are in order of precedence. The result is a permutation of 0..n-1 in `order`:
 *
 *  1. A list that has all items is the order (the first such list).
 *
 *  2. Else the topological order of the edges between neighbours in each list, the smaller name first where several may
 *     come.
 *
 *  3. On a cycle (kube-apiserver then sorts by name, which loses preferred versions) the lists are laid into one
 *     another. The first list is taken as it is; of each further list, names not yet placed go right behind the
 *     last-placed of the names before them in that list, or, with none before them, right before the first-placed name
 *     of that list (at the end if it shares none). So two names stand as in the first list that has both, unless
 *     earlier lists force them otherwise.
 */
struct consensus_list {
    const uint32_t *items;
    size_t n;
};
/* False when out of memory. O(total length + n log n). */
MEM_CHECK bool consensus_order(const struct slice *names, size_t n, const struct consensus_list *lists, size_t n_lists,
                               uint32_t *order);

/*
 * The same two lists at a time, from the first on: the order of all before, and the next list. So kube-apiserver orders
 * versions and resources (groups it orders all at once). Of two lists it is the same. What two lists left open, and
 * names decided, can contradict the next one, though no two servers disagree: on a cycle it is consensus_order().
 */
MEM_CHECK bool consensus_fold(const struct slice *names, size_t n, const struct consensus_list *lists, size_t n_lists,
                              uint32_t *order);

#endif
