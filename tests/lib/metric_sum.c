/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/metric_sum.h"

#include "base/metric.h"

struct wanted {
    const char *name, *label_value;
    double sum;
};

static void add(const struct metric_view *v, void *arg)
{
    struct wanted *w = arg;
    bool found = w->label_value == NULL;

    if (strcmp(v->name, w->name) != 0)
        return;
    for (size_t i = 0; i < v->n_labels; i++)
        found = found || slice_eq(v->label_values[i], slice_str(w->label_value));
    if (found)
        w->sum += v->value;
}

double metric_sum(struct metrics *m, const char *name, const char *label_value)
{
    struct wanted w = {name, label_value, 0};

    metrics_walk(m, add, &w);
    return w.sum;
}
