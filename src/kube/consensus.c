/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/consensus.h"

enum { NOBODY = UINT32_MAX, AT_ONCE = 10000 /* items placed in a step */ };

/* ---- a binary heap of items, the one with the least name first ---- */

struct heap {
    const struct slice *names;
    uint32_t *items;
    size_t n; /* at most one for each list: what comes next in it */
};

static bool is_less(const struct heap *h, uint32_t a, uint32_t b)
{
    return slice_cmp(h->names[a], h->names[b]) < 0;
}

static void heap_push(struct heap *h, uint32_t item)
{
    size_t i = h->n++;

    while (i > 0 && is_less(h, item, h->items[(i - 1) / 2])) {
        h->items[i] = h->items[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    h->items[i] = item;
}

static uint32_t heap_pop(struct heap *h)
{
    uint32_t least = h->items[0], item = h->items[--h->n];
    size_t i = 0, child;

    for (child = 1; child < h->n; child = 2 * i + 1) {
        if (child + 1 < h->n && is_less(h, h->items[child + 1], h->items[child]))
            child++;
        if (!is_less(h, h->items[child], item))
            break;
        h->items[i] = h->items[child];
        i = child;
    }
    h->items[i] = item;
    return least;
}

/* ---- topological order ---- */

enum ordering_stage {
    ORDERING_COUNT, /* a list: the edges from each of its items */
    ORDERING_SUM,
    ORDERING_FILL,  /* a list: the edges themselves */
    ORDERING_PLACE, /* some of the items */
};

struct ordering {
    size_t n;
    const struct consensus_list *lists;
    size_t n_lists, next; /* list */
    uint32_t *order;
    uint32_t *start;  /* of item i's successors in `to`; n + 1 of them */
    uint32_t *to;     /* one per pair of neighbours in a list; the same pair of two lists counts twice on both sides */
    uint32_t *before; /* predecessors not yet placed */
    struct heap heap; /* of those that may come next */
    size_t placed;
    enum ordering_stage stage;
};

static size_t ordering_size(size_t n, size_t edges)
{
    return 3 * n + 1 + edges;
}

/* What is to be ordered is set. `memory`: ordering_size() of them. */
static void ordering_init(struct ordering *o, const struct slice *names, uint32_t *memory)
{
    size_t n = o->n;

    memset(memory, 0, (2 * n + 1) * sizeof(*memory));
    o->start = memory;
    o->before = memory + n + 1;
    o->heap = (struct heap){.names = names, .items = memory + 2 * n + 1};
    o->to = memory + 3 * n + 1;
}

static void count_edges(struct ordering *o, const struct consensus_list *list)
{
    for (size_t i = 1; i < list->n; i++) {
        o->start[list->items[i - 1] + 1]++;
        o->before[list->items[i]]++;
    }
}

static void sum_edges(struct ordering *o)
{
    for (size_t i = 0; i < o->n; i++)
        o->start[i + 1] += o->start[i];
}

/* Moves each start to its end, i.e. to the next item's start; begin_placing() shifts them back. */
static void fill_edges(struct ordering *o, const struct consensus_list *list)
{
    for (size_t i = 1; i < list->n; i++)
        o->to[o->start[list->items[i - 1]]++] = list->items[i];
}

static void begin_placing(struct ordering *o)
{
    memmove(o->start + 1, o->start, o->n * sizeof(*o->start));
    o->start[0] = 0;
    for (size_t i = 0; i < o->n; i++)
        if (o->before[i] == 0)
            heap_push(&o->heap, (uint32_t)i);
}

/* STEP_FAILED: what is left is on a cycle. */
static enum step place(struct ordering *o)
{
    for (size_t i = 0; i < AT_ONCE && o->heap.n > 0; i++) {
        uint32_t item = heap_pop(&o->heap);

        o->order[o->placed++] = item;
        for (uint32_t e = o->start[item]; e < o->start[item + 1]; e++)
            if (--o->before[o->to[e]] == 0)
                heap_push(&o->heap, o->to[e]);
    }
    if (o->heap.n > 0)
        return STEP_MORE;
    return o->placed == o->n ? STEP_DONE : STEP_FAILED;
}

static enum step ordering_step(struct ordering *o)
{
    switch (o->stage) {
    case ORDERING_COUNT:
        if (o->next < o->n_lists) {
            count_edges(o, &o->lists[o->next++]);
        } else {
            o->next = 0;
            o->stage = ORDERING_SUM;
        }
        break;
    case ORDERING_SUM:
        sum_edges(o);
        o->stage = ORDERING_FILL;
        break;
    case ORDERING_FILL:
        if (o->next < o->n_lists) {
            fill_edges(o, &o->lists[o->next++]);
        } else {
            begin_placing(o);
            o->stage = ORDERING_PLACE;
        }
        break;
    case ORDERING_PLACE:
        return place(o);
    }
    return STEP_MORE;
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

struct laying {
    struct chain chain;
    const struct consensus_list *lists;
    size_t n_lists, next;
    uint32_t *order;
};

static size_t laying_size(size_t n)
{
    return 3 * (n + 1);
}

/* `memory`: laying_size() of them. */
static void laying_init(struct laying *l, size_t n, const struct consensus_list *lists, size_t n_lists, uint32_t *order,
                        uint32_t *memory)
{
    struct chain *c = &l->chain;

    *l = (struct laying){.chain = {.head = (uint32_t)n}, .lists = lists, .n_lists = n_lists, .order = order};
    c->next = memory;
    c->prev = memory + n + 1;
    c->label = memory + 2 * (n + 1);
    for (size_t i = 0; i <= n; i++)
        c->label[i] = NOBODY;
    c->next[n] = c->prev[n] = c->head;
}

static enum step laying_step(struct laying *l)
{
    const struct chain *c = &l->chain;

    if (l->next < l->n_lists) {
        lay(&l->chain, &l->lists[l->next++]);
        return STEP_MORE;
    }
    for (uint32_t i = c->next[c->head], place = 0; i != c->head; i = c->next[i])
        l->order[place++] = i;
    return STEP_DONE;
}

/* ---- the order ---- */

/* Rule 1. */
static bool order_of_one(size_t n, const struct consensus_list *lists, size_t n_lists, uint32_t *order)
{
    for (size_t l = 0; l < n_lists; l++)
        if (lists[l].n == n) {
            if (n > 0)
                memcpy(order, lists[l].items, n * sizeof(*order));
            return true;
        }
    return false;
}

enum all_stage {
    ALL_ONE,   /* rule 1 */
    ALL_ORDER, /* rule 2 */
    ALL_LAY,   /* rule 3 */
};

struct all {
    const struct slice *names;
    size_t n;
    const struct consensus_list *lists;
    size_t n_lists;
    uint32_t *order;
    enum all_stage stage;
    uint32_t *memory;
    union {
        struct ordering ordering;
        struct laying laying;
    };
};

static void all_close(struct all *a)
{
    mem_free(a->memory);
    a->memory = NULL;
}

static enum step all_begin(struct all *a)
{
    size_t edges = 0, size;

    if (order_of_one(a->n, a->lists, a->n_lists, a->order))
        return STEP_DONE;
    for (size_t l = 0; l < a->n_lists; l++)
        edges += a->lists[l].n;
    size = ordering_size(a->n, edges);
    if (size < laying_size(a->n))
        size = laying_size(a->n);
    a->memory = mem_array(size, sizeof(*a->memory));
    if (a->memory == NULL)
        return STEP_FAILED;
    a->ordering = (struct ordering){.n = a->n, .lists = a->lists, .n_lists = a->n_lists, .order = a->order};
    ordering_init(&a->ordering, a->names, a->memory);
    a->stage = ALL_ORDER;
    return STEP_MORE;
}

/* STEP_FAILED: out of memory. */
static enum step all_step(struct all *a)
{
    enum step step = STEP_MORE;

    switch (a->stage) {
    case ALL_ONE:
        return all_begin(a);
    case ALL_ORDER:
        step = ordering_step(&a->ordering);
        if (step != STEP_FAILED)
            break;
        laying_init(&a->laying, a->n, a->lists, a->n_lists, a->order, a->memory);
        a->stage = ALL_LAY;
        return STEP_MORE;
    case ALL_LAY:
        step = laying_step(&a->laying);
        break;
    }
    return step;
}

bool consensus_order(const struct slice *names, size_t n, const struct consensus_list *lists, size_t n_lists,
                     uint32_t *order)
{
    struct all all = {.names = names, .n = n, .lists = lists, .n_lists = n_lists, .order = order};
    enum step step = STEP_MORE;

    while (step == STEP_MORE)
        step = all_step(&all);
    all_close(&all);
    return step == STEP_DONE;
}

/* ---- the same, two lists at a time ---- */

enum fold_stage {
    FOLD_NEXT, /* a list: who is in it */
    FOLD_TWO,  /* it and the order of those before */
    FOLD_ALL,  /* these two are on a cycle: all lists at once */
};

struct consensus_fold {
    struct all all;
    size_t next;      /* list */
    uint32_t *so_far; /* the order of all lists before */
    size_t n;
    uint32_t *place; /* of each item in `some`; NOBODY: not yet there */
    uint32_t *some;  /* what is in so_far, and what the next list adds */
    struct slice *some_names;
    uint32_t *first, *second, *result; /* by place */
    enum fold_stage stage;
    struct consensus_list two[2];
    size_t total; /* items in both */
    struct ordering ordering;
    uint32_t *memory; /* of `ordering` */
};

static void fold_complete(struct consensus_fold *f)
{
    for (size_t i = 0; i < f->total; i++)
        f->so_far[i] = f->some[f->result[i]];
    f->n = f->total;
    f->stage = FOLD_NEXT;
}

static void fold_next(struct consensus_fold *f)
{
    const struct consensus_list *next = &f->all.lists[f->next++];

    f->total = f->n;
    for (size_t i = 0; i < next->n; i++)
        if (f->place[next->items[i]] == NOBODY) {
            f->place[next->items[i]] = (uint32_t)f->total;
            f->some[f->total++] = next->items[i];
        }
    if (f->total == f->n)
        return; /* it adds nothing, and so has no say */
    for (size_t i = f->n; i < f->total; i++)
        f->some_names[i] = f->all.names[f->some[i]];
    for (size_t i = 0; i < f->n; i++)
        f->first[i] = f->place[f->so_far[i]];
    for (size_t i = 0; i < next->n; i++)
        f->second[i] = f->place[next->items[i]];
    f->two[0] = (struct consensus_list){f->first, f->n};
    f->two[1] = (struct consensus_list){f->second, next->n};
    if (order_of_one(f->total, f->two, 2, f->result)) {
        fold_complete(f);
        return;
    }
    f->ordering = (struct ordering){.n = f->total, .lists = f->two, .n_lists = 2, .order = f->result};
    ordering_init(&f->ordering, f->some_names, f->memory);
    f->stage = FOLD_TWO;
}

static void fold_two(struct consensus_fold *f)
{
    enum step step = ordering_step(&f->ordering);

    if (step == STEP_DONE)
        fold_complete(f);
    else if (step == STEP_FAILED)
        f->stage = FOLD_ALL;
}

struct consensus_fold *consensus_fold_new(const struct slice *names, size_t n, const struct consensus_list *lists,
                                          size_t n_lists, uint32_t *order)
{
    struct consensus_fold *f = mem_zalloc(sizeof(*f));

    if (f == NULL)
        return NULL;
    f->all = (struct all){.names = names, .n = n, .lists = lists, .n_lists = n_lists, .order = order};
    f->so_far = order;
    f->some_names = mem_array(n + 1, sizeof(*f->some_names));
    f->place = mem_array(5 * n + 1, sizeof(*f->place));
    f->memory = mem_array(ordering_size(n, 2 * n), sizeof(*f->memory));
    if (f->some_names == NULL || f->place == NULL || f->memory == NULL) {
        consensus_fold_free(f);
        return NULL;
    }
    f->some = f->place + n;
    f->first = f->place + 2 * n;
    f->second = f->place + 3 * n;
    f->result = f->place + 4 * n;
    for (size_t i = 0; i < n; i++)
        f->place[i] = NOBODY;
    return f;
}

void consensus_fold_free(struct consensus_fold *f)
{
    if (f == NULL)
        return;
    mem_free(f->place);
    mem_free(f->some_names);
    mem_free(f->memory);
    all_close(&f->all);
    mem_free(f);
}

enum step consensus_fold_step(struct consensus_fold *f)
{
    switch (f->stage) {
    case FOLD_NEXT:
        if (f->next == f->all.n_lists)
            return STEP_DONE;
        fold_next(f);
        break;
    case FOLD_TWO:
        fold_two(f);
        break;
    case FOLD_ALL:
        return all_step(&f->all);
    }
    return STEP_MORE;
}

bool consensus_fold(const struct slice *names, size_t n, const struct consensus_list *lists, size_t n_lists,
                    uint32_t *order)
{
    struct consensus_fold *f = consensus_fold_new(names, n, lists, n_lists, order);
    enum step step = f == NULL ? STEP_FAILED : STEP_MORE;

    while (step == STEP_MORE)
        step = consensus_fold_step(f);
    consensus_fold_free(f);
    return step == STEP_DONE;
}
