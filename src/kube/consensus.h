/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes one order from several lists: the consensus order in which merged discovery has groups, versions and
 * resources.
 */
#ifndef MVPROXY_KUBE_CONSENSUS_H
#define MVPROXY_KUBE_CONSENSUS_H

#include "base/fiber.h"
#include "base/mem.h"

/*
 * `names[i]` is item i's text, all different. `lists[l]` has item numbers without duplicates, in order of precedence;
 * every item is in at least one list. The result is a permutation of 0..n-1 in `order`:
 *
 *  1. If a list has all items, the first such list is the order.
 *
 *  2. Else it is the topological order of the edges between neighbours in each list; if several items may come next,
 *     the one with the smallest name.
 *
 *  3. On a cycle (kube-apiserver then sorts by name, which loses preferred versions) the lists are merged one by one.
 * The first list is taken as it is. Of each further list, names not placed yet go right behind the last-placed of the
 *     names before them in that list, or, with none before them, right before the first-placed name of that list (at
 *     the end if it shares none). So two names are ordered as in the first list that has both, unless earlier lists
 *     force another order.
 */
struct consensus_list {
    const uint32_t *items;
    size_t n;
};
/* False when out of memory, or given up. Spends about one for each item and, if they are many, for each 16 lists of
 * them, and as much for four in lists. O(total length + n * n_lists). */
MEM_CHECK bool consensus_order(const struct slice *names, size_t n, const struct consensus_list *lists, size_t n_lists,
                               uint32_t *order, struct fiber *fiber);

/*
 * The same, two lists at a time: the order of all lists before, and the next one. kube-apiserver orders versions and
 * resources in this way, but groups all at once. With two lists both are the same. With more, what was left open by two
 * lists and was decided by names can contradict the next one, although no two servers disagree: on such a cycle the
 * result is that of consensus_order().
 */
MEM_CHECK bool consensus_fold(const struct slice *names, size_t n, const struct consensus_list *lists, size_t n_lists,
                              uint32_t *order, struct fiber *fiber);

#endif
