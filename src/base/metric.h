/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Metric registry: declaring and bumping only. The text form is written by admin/metrics_text from metrics_walk().
 * Everything is single-threaded. A metric pointer stays valid as long as its registry: look it up once, bump it often.
 */
#ifndef MVPROXY_BASE_METRIC_H
#define MVPROXY_BASE_METRIC_H

#include "base/mem.h"

struct metrics;       /* registry */
struct metric_family; /* one name, one help, one set of label names */
struct metric;        /* one set of label values */

enum metric_kind { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };
enum { METRIC_MAX_LABELS = 10, METRIC_MAX_BUCKETS = 24 };

struct metrics *metrics_new(void); /* ends the process when out of memory */
void metrics_free(struct metrics *m);

/*
 * Declares a family. `labels` is a NULL-terminated array (NULL for none); names follow Prometheus' rules; both strings
 * and label names must outlive the registry (literals). At most `max_series` children: further label sets share one
 * child whose label values are all "other". Declaring a name twice returns the first.
 */
struct metric_family *metric_family(struct metrics *m, enum metric_kind kind, const char *name, const char *help,
                                    const char *const *labels, size_t max_series);
/* As above with upper bounds in ascending order (+Inf is implied), seconds for times. */
struct metric_family *metric_histogram_family(struct metrics *m, const char *name, const char *help,
                                              const char *const *labels, const double *bounds, size_t n_bounds);
/* The child with these label values (as many as names; copied). Never NULL: falls back to the "other" child. */
struct metric *metric_child(struct metric_family *f, const struct slice *values);
/* The same, but of the family's series `reserve` are kept for those of `folded`, which are used when the others are. */
struct metric *metric_child_or(struct metric_family *f, const struct slice *values, const struct slice *folded,
                               size_t reserve);
/* Shorthand for a family without labels. */
struct metric *metric_single(struct metrics *m, enum metric_kind kind, const char *name, const char *help);
/* Whether the family of this child is exported: what is not configured says nothing. Born shown. */
void metric_show(struct metric *m, bool shown);
/* Forgets the children with this value of the first label (a server that is gone). Pointers to them die. */
void metric_forget(struct metric_family *f, struct slice value);
/* Forgets all children (e.g. gauges by peer, before they are set anew). Pointers to them die. */
void metric_family_clear(struct metric_family *f);

void metric_inc(struct metric *m);
void metric_add(struct metric *m, double v);
void metric_set(struct metric *m, double v);
void metric_observe(struct metric *m, double v);
double metric_value(const struct metric *m); /* counter or gauge; a histogram's count */

/* Called before every exposition, to refresh gauges that are cheaper to compute than to keep. */
void metrics_on_collect(struct metrics *m, void (*fn)(void *arg), void *arg);
void metrics_collect(struct metrics *m);

struct metric_view {
    const char *name, *help;
    enum metric_kind kind;
    const char *const *label_names;
    const struct slice *label_values;
    double value;           /* counter, gauge; histogram: sum */
    uint64_t count;         /* histogram */
    const double *bounds;   /* histogram */
    const uint64_t *counts; /* histogram, per bucket (not cumulative), n_bounds + 1 of them */
    size_t n_labels, n_bounds;
    bool first_of_family;
};
/* Families in name order, children in order of label values. */
void metrics_walk(struct metrics *m, void (*fn)(const struct metric_view *v, void *arg), void *arg);
/*
 * The same with pauses, in which series may come, go and change: none is told twice, and one that came before where the
 * walk stands is not told.
 */
struct metrics_walk;
enum metrics_walked { METRICS_PAUSED, METRICS_ALL, METRICS_NO_MEMORY };
MEM_CHECK struct metrics_walk *metrics_walk_new(struct metrics *m); /* NULL when out of memory */
void metrics_walk_free(struct metrics_walk *w);                     /* NULL is fine */
/* Goes on until fn() says false, after which it may be called again. Not after METRICS_NO_MEMORY. */
enum metrics_walked metrics_walk_on(struct metrics_walk *w, bool (*fn)(const struct metric_view *v, void *arg),
                                    void *arg);

#endif
