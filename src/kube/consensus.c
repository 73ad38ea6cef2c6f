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

struct graph {
    uint32_t *start;  /* of item i's successors in `to`; n + 1 of them */
    uint32_t *to;     /* one per pair of neighbours in a list; the same pair of two lists counts twice on both sides */
    uint32_t *before; /* predecessors not yet placed */
    struct heap heap; /* of those that may come next */
    size_t placed;
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

static void begin_topological(struct graph *g, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (g->before[i] == 0)
            heap_push(&g->heap, (uint32_t)i);
}

/* Places at most so many more. At the end, when the heap is empty, fewer than all have been placed on a cycle. */
static void topological(struct graph *g, uint32_t *order, size_t at_most)
{
    for (size_t i = 0; i < at_most && g->heap.n > 0; i++) {
        uint32_t item = heap_pop(&g->heap);

        order[g->placed++] = item;
        for (uint32_t e = g->start[item]; e < g->start[item + 1]; e++)
            if (--g->before[g->to[e]] == 0)
                heap_push(&g->heap, g->to[e]);
    }
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

static size_t graph_size(size_t n, size_t edges)
{
    return 3 * n + 1 + edges;
}

/* `memory`: graph_size() of them. */
static void graph_init(struct graph *g, const struct slice *names, size_t n, uint32_t *memory)
{
    memset(memory, 0, (2 * n + 1) * sizeof(*memory));
    *g = (struct graph){
        .start = memory,
        .before = memory + n + 1,
        .heap = {.names = names, .items = memory + 2 * n + 1},
        .to = memory + 3 * n + 1,
    };
}

bool consensus_order(const struct slice *names, size_t n, const struct consensus_list *lists, size_t n_lists,
                     uint32_t *order)
{
    struct graph g;
    size_t edges = 0;
    uint32_t *memory;

    if (order_of_one(n, lists, n_lists, order))
        return true;
    for (size_t l = 0; l < n_lists; l++)
        edges += lists[l].n;
    memory = mem_array(graph_size(n, edges), sizeof(*memory));
    if (memory == NULL)
        return false;
    graph_init(&g, names, n, memory);
    build_graph(&g, n, lists, n_lists);
    begin_topological(&g, n);
    topological(&g, order, n);
    mem_free(memory);
    return g.placed == n || lay_all(n, lists, n_lists, order);
}

/* ---- the same, two lists at a time ---- */

enum fold_stage {
    FOLD_NEXT,  /* a list: who is in it */
    FOLD_GRAPH, /* it and the order of those before */
    FOLD_PLACE, /* some of the items */
    FOLD_CYCLE,
};

struct consensus_fold {
    const struct slice *names;
    size_t n_names;
    const struct consensus_list *lists;
    size_t n_lists, next;
    uint32_t *so_far; /* the order of all lists before */
    size_t n;
    uint32_t *place; /* of each item in `all`; NOBODY: not yet there */
    uint32_t *all;   /* what is in so_far, and what the next list adds */
    struct slice *some_names;
    uint32_t *first, *second, *result; /* by place */
    enum fold_stage stage;
    struct consensus_list two[2];
    size_t total; /* items in both */
    struct graph graph;
    uint32_t *graph_memory;
};

static void fold_next(struct consensus_fold *f)
{
    const struct consensus_list *next = &f->lists[f->next++];

    f->total = f->n;
    for (size_t i = 0; i < next->n; i++)
        if (f->place[next->items[i]] == NOBODY) {
            f->place[next->items[i]] = (uint32_t)f->total;
            f->all[f->total++] = next->items[i];
        }
    if (f->total == f->n)
        return; /* it adds nothing, and so has no say */
    for (size_t i = f->n; i < f->total; i++)
        f->some_names[i] = f->names[f->all[i]];
    for (size_t i = 0; i < f->n; i++)
        f->first[i] = f->place[f->so_far[i]];
    for (size_t i = 0; i < next->n; i++)
        f->second[i] = f->place[next->items[i]];
    f->two[0] = (struct consensus_list){f->first, f->n};
    f->two[1] = (struct consensus_list){f->second, next->n};
    f->stage = FOLD_GRAPH;
}

static void fold_complete(struct consensus_fold *f)
{
    for (size_t i = 0; i < f->total; i++)
        f->so_far[i] = f->all[f->result[i]];
    f->n = f->total;
    f->stage = FOLD_NEXT;
}

static void fold_graph(struct consensus_fold *f)
{
    if (order_of_one(f->total, f->two, 2, f->result)) {
        fold_complete(f);
        return;
    }
    graph_init(&f->graph, f->some_names, f->total, f->graph_memory);
    build_graph(&f->graph, f->total, f->two, 2);
    begin_topological(&f->graph, f->total);
    f->stage = FOLD_PLACE;
}

static void fold_place(struct consensus_fold *f)
{
    topological(&f->graph, f->result, AT_ONCE);
    if (f->graph.heap.n > 0)
        return;
    if (f->graph.placed < f->total)
        f->stage = FOLD_CYCLE;
    else
        fold_complete(f);
}

struct consensus_fold *consensus_fold_new(const struct slice *names, size_t n, const struct consensus_list *lists,
                                          size_t n_lists, uint32_t *order)
{
    struct consensus_fold *f = mem_zalloc(sizeof(*f));

    if (f == NULL)
        return NULL;
    *f = (struct consensus_fold){.names = names, .n_names = n, .lists = lists, .n_lists = n_lists, .so_far = order};
    f->some_names = mem_array(n + 1, sizeof(*f->some_names));
    f->place = mem_array(5 * n + 1, sizeof(*f->place));
    f->graph_memory = mem_array(graph_size(n, 2 * n), sizeof(*f->graph_memory));
    if (f->some_names == NULL || f->place == NULL || f->graph_memory == NULL) {
        consensus_fold_free(f);
        return NULL;
    }
    f->all = f->place + n;
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
    mem_free(f->graph_memory);
    mem_free(f);
}

enum step consensus_fold_step(struct consensus_fold *f)
{
    switch (f->stage) {
    case FOLD_NEXT:
        if (f->next == f->n_lists)
            return STEP_DONE;
        fold_next(f);
        break;
    case FOLD_GRAPH:
        fold_graph(f);
        break;
    case FOLD_PLACE:
        fold_place(f);
        break;
    case FOLD_CYCLE:
        return consensus_order(f->names, f->n_names, f->lists, f->n_lists, f->so_far) ? STEP_DONE : STEP_FAILED;
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
