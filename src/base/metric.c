/* SPDX-License-Identifier: Apache-2.0 */
#include "base/metric.h"

#include "base/contract.h"
#include "base/limits.h"

struct metric {
    double value; /* histogram: sum */
    uint64_t count;
    uint64_t *counts; /* histogram: behind the struct */
    struct metric_family *family;
    struct slice *labels;
};

struct metric_family {
    const char *name, *help;
    enum metric_kind kind;
    const char *const *label_names;
    size_t n_labels;
    double bounds[METRIC_MAX_BUCKETS];
    size_t n_bounds;
    size_t max_series;
    struct metric **children; /* in order of label values */
    size_t n_children, cap;
    struct metric *other; /* made at birth, so that a bump never fails */
    bool other_used, hidden;
};

struct collector {
    void (*fn)(void *arg);
    void *arg;
};

struct metrics {
    struct metric_family **families; /* in name order */
    size_t n_families;
    struct collector *collectors;
    size_t n_collectors;
};

/* Declarations happen at start-up: out of memory ends the process. */
static void *must_grow(void *old, size_t count, size_t size)
{
    void *p = must_zalloc((count + 1) * size);

    if (count > 0)
        memcpy(p, old, count * size);
    mem_free(old);
    return p;
}

struct metrics *metrics_new(void)
{
    return must_zalloc(sizeof(struct metrics));
}

/* ---- one metric ---- */

static size_t n_counts(const struct metric_family *f)
{
    return f->kind == METRIC_HISTOGRAM ? METRIC_MAX_BUCKETS + 1 : 0;
}

/* One piece of memory: the struct, the bucket counts, the label slices and the label bytes. */
static size_t metric_bytes(const struct metric_family *f, const struct slice *values)
{
    size_t n = sizeof(struct metric) + n_counts(f) * sizeof(uint64_t) + f->n_labels * sizeof(struct slice);

    for (size_t i = 0; i < f->n_labels; i++)
        n += values[i].n;
    return n;
}

static void metric_fill(struct metric *m, struct metric_family *f, const struct slice *values)
{
    char *text;

    m->family = f;
    m->counts = (uint64_t *)(void *)(m + 1);
    m->labels = (struct slice *)(void *)(m->counts + n_counts(f));
    text = (char *)(m->labels + f->n_labels);
    for (size_t i = 0; i < f->n_labels; i++) {
        if (values[i].n > 0)
            memcpy(text, values[i].p, values[i].n);
        m->labels[i] = slice_of(text, values[i].n);
        text += values[i].n;
    }
}

void metric_add(struct metric *m, double v)
{
    /* A counter that goes down would look like a restart of the process. */
    if (m->family->kind == METRIC_COUNTER && !(v >= 0))
        return;
    m->value += v;
}

void metric_inc(struct metric *m)
{
    metric_add(m, 1);
}

void metric_set(struct metric *m, double v)
{
    m->value = v;
}

void metric_show(struct metric *m, bool shown)
{
    m->family->hidden = !shown;
}

void metric_observe(struct metric *m, double v)
{
    size_t i = 0;

    while (i < m->family->n_bounds && v > m->family->bounds[i])
        i++;
    m->counts[i]++;
    m->count++;
    m->value += v;
}

double metric_value(const struct metric *m)
{
    return m->family->kind == METRIC_HISTOGRAM ? (double)m->count : m->value;
}

/* ---- families ---- */

static int compare_labels(const struct slice *a, const struct slice *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int d = slice_cmp(a[i], b[i]);

        if (d != 0)
            return d;
    }
    return 0;
}

/* Where the name is, or should be put in. */
static size_t family_at(const struct metrics *m, const char *name, bool *found)
{
    size_t low = 0, high = m->n_families;

    *found = false;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        int d = strcmp(m->families[mid]->name, name);

        if (d == 0)
            *found = true;
        if (d < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

struct metric_family *metric_family(struct metrics *m, enum metric_kind kind, const char *name, const char *help,
                                    const char *const *labels, size_t max_series)
{
    struct slice others[METRIC_MAX_LABELS] = {SLICE_NONE};
    struct metric_family *f;
    bool found;
    size_t at = family_at(m, name, &found);

    if (found)
        return m->families[at];
    f = must_zalloc(sizeof(*f));
    f->name = name;
    f->help = help;
    f->kind = kind;
    f->label_names = labels;
    f->max_series = max_series;
    while (labels != NULL && f->n_labels < METRIC_MAX_LABELS && labels[f->n_labels] != NULL)
        others[f->n_labels++] = SLICE_LIT("other");
    f->other = must_zalloc(metric_bytes(f, others));
    metric_fill(f->other, f, others);

    m->families = must_grow(m->families, m->n_families, sizeof(m->families[0]));
    memmove(m->families + at + 1, m->families + at, (m->n_families - at) * sizeof(m->families[0]));
    m->families[at] = f;
    m->n_families++;
    return f;
}

struct metric_family *metric_histogram_family(struct metrics *m, const char *name, const char *help,
                                              const char *const *labels, const double *bounds, size_t n_bounds)
{
    struct metric_family *f = metric_family(m, METRIC_HISTOGRAM, name, help, labels, LIMIT_METRIC_SERIES);

    if (f->n_bounds == 0) {
        f->n_bounds = n_bounds < METRIC_MAX_BUCKETS ? n_bounds : METRIC_MAX_BUCKETS;
        memcpy(f->bounds, bounds, f->n_bounds * sizeof(double));
    }
    return f;
}

static bool make_room(struct metric_family *f)
{
    size_t cap = f->cap == 0 ? 4 : f->cap * 2;
    struct metric **children;

    if (f->n_children < f->cap)
        return true;
    children = mem_realloc(f->children, cap * sizeof(f->children[0]));
    if (children == NULL)
        return false;
    f->children = children;
    f->cap = cap;
    return true;
}

/* Where the child is, or should be put in. */
static size_t child_at(const struct metric_family *f, const struct slice *values, bool *found)
{
    size_t low = 0, high = f->n_children;

    *found = false;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        int d = compare_labels(f->children[mid]->labels, values, f->n_labels);

        if (d == 0) {
            *found = true;
            return mid;
        }
        if (d < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* NULL: there is none, and no room or memory for one more. */
static struct metric *child_within(struct metric_family *f, const struct slice *values, size_t most)
{
    bool found;
    size_t at = child_at(f, values, &found);
    struct metric *m;

    if (found)
        return f->children[at];
    m = f->n_children < most && make_room(f) ? mem_zalloc(metric_bytes(f, values)) : NULL;
    if (m == NULL)
        return NULL;
    metric_fill(m, f, values);
    memmove(f->children + at + 1, f->children + at, (f->n_children - at) * sizeof(f->children[0]));
    f->children[at] = m;
    f->n_children++;
    return m;
}

struct metric *metric_child(struct metric_family *f, const struct slice *values)
{
    struct metric *m = NULL;

    must_hold(values != NULL || f->n_labels == 0);
    /* Also the only child of a family without labels, and the real thing where all values happen to be "other". */
    if (values != NULL && compare_labels(f->other->labels, values, f->n_labels) != 0)
        m = child_within(f, values, f->max_series);
    if (m != NULL)
        return m;
    f->other_used = true;
    return f->other;
}

struct metric *metric_child_or(struct metric_family *f, const struct slice *values, const struct slice *folded,
                               size_t reserve)
{
    struct metric *m = child_within(f, values, f->max_series > reserve ? f->max_series - reserve : 0);

    return m != NULL ? m : metric_child(f, folded);
}

struct metric *metric_single(struct metrics *m, enum metric_kind kind, const char *name, const char *help)
{
    return metric_child(metric_family(m, kind, name, help, NULL, 1), NULL);
}

void metric_forget(struct metric_family *f, struct slice value)
{
    size_t kept = 0;

    must_hold(f->n_labels > 0);
    for (size_t i = 0; i < f->n_children; i++) {
        if (slice_eq(f->children[i]->labels[0], value))
            mem_free(f->children[i]);
        else
            f->children[kept++] = f->children[i];
    }
    f->n_children = kept;
}

void metric_family_clear(struct metric_family *f)
{
    for (size_t i = 0; i < f->n_children; i++)
        mem_free(f->children[i]);
    f->n_children = 0;
    f->other->value = 0;
    f->other->count = 0;
    memset(f->other->counts, 0, n_counts(f) * sizeof(uint64_t));
    f->other_used = false;
}

void metrics_free(struct metrics *m)
{
    if (m == NULL)
        return;
    for (size_t i = 0; i < m->n_families; i++) {
        metric_family_clear(m->families[i]);
        mem_free(m->families[i]->children);
        mem_free(m->families[i]->other);
        mem_free(m->families[i]);
    }
    mem_free(m->families);
    mem_free(m->collectors);
    mem_free(m);
}

/* ---- collecting ---- */

void metrics_on_collect(struct metrics *m, void (*fn)(void *arg), void *arg)
{
    m->collectors = must_grow(m->collectors, m->n_collectors, sizeof(m->collectors[0]));
    m->collectors[m->n_collectors++] = (struct collector){fn, arg};
}

void metrics_collect(struct metrics *m)
{
    for (size_t i = 0; i < m->n_collectors; i++)
        m->collectors[i].fn(m->collectors[i].arg);
}

static struct metric_view view_of(const struct metric *m)
{
    const struct metric_family *f = m->family;

    return (struct metric_view){
        .name = f->name,
        .help = f->help,
        .kind = f->kind,
        .label_names = f->label_names,
        .label_values = m->labels,
        .value = m->value,
        .count = m->count,
        .bounds = f->bounds,
        .counts = m->counts,
        .n_labels = f->n_labels,
        .n_bounds = f->n_bounds,
    };
}

typedef bool each_fn(const struct metric_view *v, void *arg);

/* From behind these label values on; NULL: from the start. Where it is paused; NULL: it is over. */
static const struct metric *walk_family(const struct metric_family *f, const struct slice *after, each_fn *fn,
                                        void *arg)
{
    bool found = false, other_due = f->other_used;
    size_t i = 0;

    if (after != NULL) {
        i = child_at(f, after, &found);
        i += found ? 1 : 0;
        other_due = other_due && compare_labels(f->other->labels, after, f->n_labels) > 0;
    }
    for (bool first = after == NULL; i < f->n_children || other_due; first = false) {
        bool other = other_due &&
                     (i == f->n_children || compare_labels(f->other->labels, f->children[i]->labels, f->n_labels) < 0);
        const struct metric *m = other ? f->other : f->children[i];
        struct metric_view v = view_of(m);

        other_due = other_due && !other;
        i += other ? 0 : 1;
        v.first_of_family = first;
        if (!fn(&v, arg))
            return m;
    }
    return NULL;
}

struct every {
    void (*fn)(const struct metric_view *v, void *arg);
    void *arg;
};

static bool and_on(const struct metric_view *v, void *arg)
{
    const struct every *e = arg;

    e->fn(v, e->arg);
    return true;
}

void metrics_walk(struct metrics *m, void (*fn)(const struct metric_view *v, void *arg), void *arg)
{
    struct every e = {fn, arg};

    for (size_t i = 0; i < m->n_families; i++)
        if (!m->families[i]->hidden)
            (void)walk_family(m->families[i], NULL, and_on, &e);
}

/* ---- a walk with pauses ---- */

struct metrics_walk {
    const struct metrics *m;
    const struct metric_family *family; /* in which it was paused; NULL: before the first. They are for ever */
    struct slice after[METRIC_MAX_LABELS];
    char *texts; /* of `after`: the child may be gone */
};

struct metrics_walk *metrics_walk_new(struct metrics *m)
{
    struct metrics_walk *w = mem_zalloc(sizeof(*w));

    if (w != NULL)
        w->m = m;
    return w;
}

void metrics_walk_free(struct metrics_walk *w)
{
    if (w == NULL)
        return;
    mem_free(w->texts);
    mem_free(w);
}

static bool remember(struct metrics_walk *w, const struct metric *m)
{
    size_t n = 1;
    char *text;

    for (size_t i = 0; i < m->family->n_labels; i++)
        n += m->labels[i].n;
    text = mem_alloc(n);
    if (text == NULL)
        return false;
    mem_free(w->texts);
    w->texts = text;
    w->family = m->family;
    for (size_t i = 0; i < m->family->n_labels; i++) {
        w->after[i] = slice_of(text, m->labels[i].n);
        if (m->labels[i].n > 0)
            memcpy(text, m->labels[i].p, m->labels[i].n);
        text += m->labels[i].n;
    }
    return true;
}

enum metrics_walked metrics_walk_on(struct metrics_walk *w, each_fn *fn, void *arg)
{
    bool found;
    size_t i = w->family == NULL ? 0 : family_at(w->m, w->family->name, &found);

    for (; i < w->m->n_families; i++) {
        const struct metric_family *f = w->m->families[i];
        const struct metric *paused = f->hidden ? NULL : walk_family(f, f == w->family ? w->after : NULL, fn, arg);

        if (paused != NULL)
            return remember(w, paused) ? METRICS_PAUSED : METRICS_NO_MEMORY;
    }
    return METRICS_ALL;
}
