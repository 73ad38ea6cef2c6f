/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/consensus.h"

#include <stdlib.h>

enum { NOBODY = UINT32_MAX };

/* ---- lexicographic rank ---- */

static int by_name(const void *a, const void *b, void *names)
{
    const struct slice *text = names;
    const uint32_t *x = a, *y = b;

    return slice_cmp(text[*x], text[*y]);
}

/* rank[i]: the place of item i when all are sorted by name; sorted is the inverse. */
static void rank_names(const struct slice *names, size_t n, uint32_t *sorted, uint32_t *rank)
{
    for (size_t i = 0; i < n; i++)
        sorted[i] = (uint32_t)i;
    qsort_r(sorted, n, sizeof(*sorted), by_name, (void *)(uintptr_t)names);
    for (size_t i = 0; i < n; i++)
        rank[sorted[i]] = (uint32_t)i;
}

/* ---- a binary heap of ranks, least first ---- */

static void heap_push(uint32_t *heap, size_t *n, uint32_t value)
{
    size_t i = (*n)++;

    while (i > 0 && heap[(i - 1) / 2] > value) {
        heap[i] = heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    heap[i] = value;
}

static uint32_t heap_pop(uint32_t *heap, size_t *n)
{
    uint32_t least = heap[0], value = heap[--*n];
    size_t i = 0, child;

    for (child = 1; child < *n; child = 2 * i + 1) {
        if (child + 1 < *n && heap[child + 1] < heap[child])
            child++;
        if (heap[child] >= value)
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = value;
    return least;
}

/* ---- topological order ---- */

struct graph {
    uint32_t *start;  /* of item i's successors in `to`; n + 1 of them */
    uint32_t *to;     /* one per pair of neighbours in a list; the same pair of two lists counts twice on both sides */
    uint32_t *before; /* predecessors not yet placed */
    uint32_t *heap, *sorted, *rank;
};

static void build_graph(struct graph *g, size_t n, const struct consensus_list *lists, size_t n_lists)
{
    for (size_t l = 0; l < n_lists; l++)
        for (size_t i = 1; i < lists[l].n; i++) {
            g->start[lists[l].items[i - 1] + 1]++;
            g->before[lists[l].items[i]]++;
        }
    for (size_t i = 0; i < n; i++)
        g->start[i + 1] += g->start[i];
    /* Filling moves each start to its end, i.e. to the next item's start; shifted back below. */
    for (size_t l = 0; l < n_lists; l++)
        for (size_t i = 1; i < lists[l].n; i++)
            g->to[g->start[lists[l].items[i - 1]]++] = lists[l].items[i];
    for (size_t i = n; i > 0; i--)
        g->start[i] = g->start[i - 1];
    g->start[0] = 0;
}

/* How many items could be placed: fewer than n on a cycle. */
static size_t topological(struct graph *g, size_t n, uint32_t *order)
{
    size_t placed = 0, waiting = 0;

    for (size_t i = 0; i < n; i++)
        if (g->before[i] == 0)
            heap_push(g->heap, &waiting, g->rank[i]);
    while (waiting > 0) {
        uint32_t item = g->sorted[heap_pop(g->heap, &waiting)];

        order[placed++] = item;
        for (uint32_t e = g->start[item]; e < g->start[item + 1]; e++)
            if (--g->before[g->to[e]] == 0)
                heap_push(g->heap, &waiting, g->rank[g->to[e]]);
    }
    return placed;
}

/* ---- laying lists into one another ---- */

struct chain {
    uint32_t *next, *prev; /* n + 1 of each; item n is the head of the ring */
    uint32_t *label;       /* place among those that stood before the current list; NOBODY: not placed */
    uint32_t head;
};

static void insert_behind(struct chain *c, uint32_t anchor, uint32_t item)
{
    c->next[item] = c->next[anchor];
    c->prev[item] = anchor;
    c->prev[c->next[anchor]] = item;
    c->next[anchor] = item;
}

static void relabel(struct chain *c)
{
    uint32_t place = 0;

    for (uint32_t i = c->next[c->head]; i != c->head; i = c->next[i])
        c->label[i] = place++;
}

/* The placed name of the list that stands first, or the head (inserting before the head is inserting at the end). */
static uint32_t first_placed(const struct chain *c, const struct consensus_list *list)
{
    uint32_t first = c->head;

    for (size_t i = 0; i < list->n; i++) {
        uint32_t item = list->items[i];

        if (c->label[item] != NOBODY && (first == c->head || c->label[item] < c->label[first]))
            first = item;
    }
    return first;
}

static void lay(struct chain *c, const struct consensus_list *list)
{
    uint32_t first = first_placed(c, list), anchor = NOBODY, label = 0;

    for (size_t i = 0; i < list->n; i++) {
        uint32_t item = list->items[i];

        if (c->label[item] != NOBODY) {
            if (anchor == NOBODY || c->label[item] > label) {
                anchor = item;
                label = c->label[item];
            }
        } else if (anchor == NOBODY) {
            insert_behind(c, c->prev[first], item);
        } else {
            insert_behind(c, anchor, item);
            anchor = item;
        }
    }
    relabel(c);
}

static bool lay_all(size_t n, const struct consensus_list *lists, size_t n_lists, uint32_t *order)
{
    struct chain c = {.head = (uint32_t)n};
    uint32_t *memory = mem_array(3 * (n + 1), sizeof(*memory)), item;

    if (memory == NULL)
        return false;
    c.next = memory;
    c.prev = memory + n + 1;
    c.label = memory + 2 * (n + 1);
    for (size_t i = 0; i <= n; i++)
        c.label[i] = NOBODY;
    c.next[n] = c.prev[n] = c.head;
    for (size_t l = 0; l < n_lists; l++)
        lay(&c, &lists[l]);
    item = c.next[c.head];
    for (size_t i = 0; i < n; i++) {
        order[i] = item;
        item = c.next[item];
    }
    mem_free(memory);
    return true;
}

/* ---- the order ---- */

/* Rules 1 and 2; *placed: fewer than n on a cycle. */
static bool order_unless_cyclic(const struct slice *names, size_t n, const struct consensus_list *lists, size_t n_lists,
                                uint32_t *order, size_t *placed)
{
    struct graph g;
    size_t edges = 0;
    uint32_t *memory;

    for (size_t l = 0; l < n_lists; l++) {
        if (lists[l].n == n) {
            if (n > 0)
                memcpy(order, lists[l].items, n * sizeof(*order));
            *placed = n;
            return true;
        }
        edges += lists[l].n;
    }
    memory = mem_array(5 * n + 1 + edges, sizeof(*memory));
    if (memory == NULL)
        return false;
    g = (struct graph){
        .start = memory,
        .before = memory + n + 1,
        .heap = memory + 2 * n + 1,
        .sorted = memory + 3 * n + 1,
        .rank = memory + 4 * n + 1,
        .to = memory + 5 * n + 1,
    };
    rank_names(names, n, g.sorted, g.rank);
    build_graph(&g, n, lists, n_lists);
    *placed = topological(&g, n, order);
    mem_free(memory);
    return true;
}

bool consensus_order(const struct slice *names, size_t n, const struct consensus_list *lists, size_t n_lists,
                     uint32_t *order)
{
    size_t placed;

    return order_unless_cyclic(names, n, lists, n_lists, order, &placed) &&
           (placed == n || lay_all(n, lists, n_lists, order));
}

struct fold {
    const struct slice *names;
    uint32_t *so_far; /* the order of all lists before */
    size_t n;
    uint32_t *place; /* of each item in `all`; NOBODY: not yet there */
    uint32_t *all;   /* what is in so_far, and what the next list adds */
    struct slice *some_names;
    uint32_t *first, *second, *result; /* by place */
    bool cyclic;
};

static bool fold_in(struct fold *f, const struct consensus_list *next)
{
    size_t total = f->n, placed;
    struct consensus_list two[] = {{f->first, f->n}, {f->second, next->n}};

    for (size_t i = 0; i < next->n; i++)
        if (f->place[next->items[i]] == NOBODY) {
            f->place[next->items[i]] = (uint32_t)total;
            f->all[total++] = next->items[i];
        }
    if (total == f->n)
        return true; /* it adds nothing, and so has no say */
    for (size_t i = 0; i < total; i++)
        f->some_names[i] = f->names[f->all[i]];
    for (size_t i = 0; i < f->n; i++)
        f->first[i] = f->place[f->so_far[i]];
    for (size_t i = 0; i < next->n; i++)
        f->second[i] = f->place[next->items[i]];
    if (!order_unless_cyclic(f->some_names, total, two, 2, f->result, &placed))
        return false;
    f->cyclic = placed < total;
    if (f->cyclic)
        return true;
    for (size_t i = 0; i < total; i++)
        f->so_far[i] = f->all[f->result[i]];
    f->n = total;
    return true;
}

bool consensus_fold(const struct slice *names, size_t n, const struct consensus_list *lists, size_t n_lists,
                    uint32_t *order)
{
    uint32_t *memory = mem_array(5 * n + 1, sizeof(*memory));
    struct fold f = {.names = names, .so_far = order, .some_names = mem_array(n + 1, sizeof(*f.some_names))};
    bool good = memory != NULL && f.some_names != NULL;

    if (good) {
        f.place = memory;
        f.all = memory + n;
        f.first = memory + 2 * n;
        f.second = memory + 3 * n;
        f.result = memory + 4 * n;
        for (size_t i = 0; i < n; i++)
            f.place[i] = NOBODY;
    }
    for (size_t l = 0; good && !f.cyclic && l < n_lists; l++)
        good = fold_in(&f, &lists[l]);
    mem_free(memory);
    mem_free(f.some_names);
    return good && (!f.cyclic || consensus_order(names, n, lists, n_lists, order));
}
