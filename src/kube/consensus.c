/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/consensus.h"

enum { NOBODY = UINT32_MAX };

/* ---- what is to be ordered ---- */

struct task {
    const struct slice *names;
    size_t n;
    const struct consensus_list *lists;
    size_t n_lists;
    uint32_t *order;
    struct fiber *fiber;
};

/* A pass over a list costs little beside putting an item at its place. */
static bool spend_list(const struct task *t, const struct consensus_list *list)
{
    return fiber_spend(t->fiber, 1 + list->n / 4);
}

/* ---- topological order ---- */

struct edges {
    uint32_t *start;  /* of item i's successors in `to`; n + 1 of them */
    uint32_t *to;     /* one per pair of neighbours in a list; the same pair of two lists counts twice on both sides */
    uint32_t *before; /* predecessors not yet placed */
};

static size_t topological_size(size_t n, size_t edges)
{
    return 3 * n + 1 + edges;
}

static void count_edges(struct edges *e, const struct consensus_list *list)
{
    for (size_t i = 1; i < list->n; i++) {
        e->start[list->items[i - 1] + 1]++;
        e->before[list->items[i]]++;
    }
}

/* Moves each start to its end, i.e. to the next item's start. */
static void fill_edges(struct edges *e, const struct consensus_list *list)
{
    for (size_t i = 1; i < list->n; i++)
        e->to[e->start[list->items[i - 1]]++] = list->items[i];
}

static bool find_edges(const struct task *t, struct edges *e)
{
    memset(e->start, 0, (2 * t->n + 1) * sizeof(*e->start)); /* `before` as well */
    for (size_t l = 0; l < t->n_lists; l++) {
        count_edges(e, &t->lists[l]);
        if (!spend_list(t, &t->lists[l]))
            return false;
    }
    for (size_t i = 0; i < t->n; i++)
        e->start[i + 1] += e->start[i];
    for (size_t l = 0; l < t->n_lists; l++) {
        fill_edges(e, &t->lists[l]);
        if (!spend_list(t, &t->lists[l]))
            return false;
    }
    memmove(e->start + 1, e->start, t->n * sizeof(*e->start));
    e->start[0] = 0;
    return true;
}

/* Takes the one with the least name out of `items`. */
static uint32_t take_least(const struct slice *names, uint32_t *items, size_t *n)
{
    uint32_t item;
    size_t least = 0;

    for (size_t i = 1; i < *n; i++)
        if (slice_cmp(names[items[i]], names[items[least]]) < 0)
            least = i;
    item = items[least];
    items[least] = items[--*n];
    return item;
}

/* `memory`: topological_size() of them. False: what is left is on a cycle, or it is given up. */
static bool order_topologically(const struct task *t, uint32_t *memory)
{
    struct edges e = {.start = memory, .before = memory + t->n + 1, .to = memory + 3 * t->n + 1};
    uint32_t *may_come = memory + 2 * t->n + 1; /* at most one of each list: what comes next in it */
    size_t n = 0, placed = 0;

    if (!find_edges(t, &e))
        return false;
    for (size_t i = 0; i < t->n; i++)
        if (e.before[i] == 0)
            may_come[n++] = (uint32_t)i;
    while (n > 0) {
        size_t looked_at = n;
        uint32_t item = take_least(t->names, may_come, &n);

        t->order[placed++] = item;
        for (uint32_t i = e.start[item]; i < e.start[item + 1]; i++)
            if (--e.before[e.to[i]] == 0)
                may_come[n++] = e.to[i];
        if (!fiber_spend(t->fiber, 1 + looked_at / 16))
            return false;
    }
    return placed == t->n;
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

static size_t laying_size(size_t n)
{
    return 3 * (n + 1);
}

/* `memory`: laying_size() of them. */
static bool lay_all(const struct task *t, uint32_t *memory)
{
    size_t n = t->n;
    struct chain c = {.next = memory, .prev = memory + n + 1, .label = memory + 2 * (n + 1), .head = (uint32_t)n};

    for (size_t i = 0; i <= n; i++)
        c.label[i] = NOBODY;
    c.next[n] = c.prev[n] = c.head;
    for (size_t l = 0; l < t->n_lists; l++) {
        lay(&c, &t->lists[l]);
        if (!fiber_spend(t->fiber, 1 + n / 4))
            return false;
    }
    for (uint32_t i = c.next[c.head], place = 0; i != c.head; i = c.next[i])
        t->order[place++] = i;
    return true;
}

/* ---- the order ---- */

/* Rule 1. */
static bool order_of_one(const struct task *t)
{
    for (size_t l = 0; l < t->n_lists; l++)
        if (t->lists[l].n == t->n) {
            if (t->n > 0)
                memcpy(t->order, t->lists[l].items, t->n * sizeof(*t->order));
            return true;
        }
    return false;
}

static bool order_all(const struct task *t)
{
    size_t edges = 0, size;
    uint32_t *memory;
    bool good;

    if (order_of_one(t))
        return true;
    for (size_t l = 0; l < t->n_lists; l++)
        edges += t->lists[l].n;
    size = topological_size(t->n, edges);
    memory = mem_array(size < laying_size(t->n) ? laying_size(t->n) : size, sizeof(*memory));
    good = memory != NULL && (order_topologically(t, memory) || lay_all(t, memory));
    mem_free(memory);
    return good;
}

bool consensus_order(const struct slice *names, size_t n, const struct consensus_list *lists, size_t n_lists,
                     uint32_t *order, struct fiber *fiber)
{
    const struct task all = {names, n, lists, n_lists, order, fiber};

    return order_all(&all);
}

/* ---- the same, two lists at a time ---- */

struct fold {
    const struct task *all;
    size_t n;                          /* so many are in all->order: the order of all lists before */
    uint32_t *place;                   /* of each item in `some`; NOBODY: not yet there */
    uint32_t *some;                    /* what is in that order, and what the next list adds */
    uint32_t *first, *second, *result; /* by place */
    struct slice *names;               /* likewise */
    uint32_t *memory;
};

/* False: they are on a cycle, or it is given up. */
static bool fold_in(struct fold *f, const struct consensus_list *next)
{
    uint32_t *so_far = f->all->order;
    size_t total = f->n;
    const struct consensus_list two[] = {{f->first, f->n}, {f->second, next->n}};

    for (size_t i = 0; i < next->n; i++)
        if (f->place[next->items[i]] == NOBODY) {
            f->place[next->items[i]] = (uint32_t)total;
            f->names[total] = f->all->names[next->items[i]];
            f->some[total++] = next->items[i];
        }
    if (total > f->n) { /* one that adds nothing has no say */
        const struct task task = {f->names, total, two, 2, f->result, f->all->fiber};

        for (size_t i = 0; i < f->n; i++)
            f->first[i] = f->place[so_far[i]];
        for (size_t i = 0; i < next->n; i++)
            f->second[i] = f->place[next->items[i]];
        if (!order_of_one(&task) && !order_topologically(&task, f->memory))
            return false;
        for (size_t i = 0; i < total; i++)
            so_far[i] = f->some[f->result[i]];
        f->n = total;
    }
    return spend_list(f->all, next);
}

static bool fold_all(struct fold *f)
{
    for (size_t i = 0; i < f->all->n; i++)
        f->place[i] = NOBODY;
    for (size_t l = 0; l < f->all->n_lists; l++)
        if (!fold_in(f, &f->all->lists[l]))
            return false;
    return true;
}

bool consensus_fold(const struct slice *names, size_t n, const struct consensus_list *lists, size_t n_lists,
                    uint32_t *order, struct fiber *fiber)
{
    const struct task all = {names, n, lists, n_lists, order, fiber};
    uint32_t *places = mem_array(5 * n + 1, sizeof(*places));
    struct fold f = {.all = &all,
                     .names = mem_array(n + 1, sizeof(*f.names)),
                     .memory = mem_array(topological_size(n, 2 * n), sizeof(*f.memory))};
    bool good = false;

    if (places != NULL && f.names != NULL && f.memory != NULL) {
        f.place = places;
        f.some = places + n;
        f.first = places + 2 * n;
        f.second = places + 3 * n;
        f.result = places + 4 * n;
        good = fold_all(&f) || order_all(&all);
    }
    mem_free(places);
    mem_free(f.names);
    mem_free(f.memory);
    return good;
}
