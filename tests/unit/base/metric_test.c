/* SPDX-License-Identifier: Apache-2.0 */
#include "base/metric.h"

#include "base/buf.h"
#include "lib/tap.h"

static void print_view(const struct metric_view *v, void *arg)
{
    struct buf *b = arg;

    buf_printf(b, "%s%s", v->first_of_family ? "# " : "", v->name);
    for (size_t i = 0; i < v->n_labels; i++)
        buf_printf(b, " %s=%.*s", v->label_names[i], (int)v->label_values[i].n, v->label_values[i].p);
    buf_printf(b, " %g", v->value);
    if (v->kind == METRIC_HISTOGRAM) {
        buf_printf(b, " n=%d", (int)v->count);
        for (size_t i = 0; i < v->n_bounds; i++)
            buf_printf(b, " le%g=%d", v->bounds[i], (int)v->counts[i]);
        buf_printf(b, " rest=%d", (int)v->counts[v->n_bounds]);
    }
    buf_append_char(b, '\n');
}

static void is_walk(struct metrics *m, const char *want, const char *name)
{
    struct buf b;

    buf_init(&b, 10000);
    metrics_walk(m, print_view, &b);
    is_slice(buf_slice(&b), want, "%s", name);
    buf_free(&b);
}

static void counters(void)
{
    static const char *const labels[] = {"code", "peer", NULL};
    struct metrics *m = metrics_new();
    struct metric *plain = metric_single(m, METRIC_COUNTER, "z_total", "Last by name.");
    struct metric_family *f = metric_family(m, METRIC_COUNTER, "a_total", "First by name.", labels, 2);
    struct metric *b = metric_child(f, (struct slice[]){SLICE_LIT("503"), SLICE_LIT("b")});
    struct metric *a = metric_child(f, (struct slice[]){SLICE_LIT("200"), SLICE_LIT("a")});
    struct metric *more = metric_child(f, (struct slice[]){SLICE_LIT("404"), SLICE_LIT("c")});

    is_walk(m, "# a_total code=200 peer=a 0\na_total code=503 peer=b 0\na_total code=other peer=other 0\n# z_total 0\n",
            "names and labels in order, zero is shown");
    ok(metric_child(f, (struct slice[]){SLICE_LIT("200"), SLICE_LIT("a")}) == a, "the same child again");
    ok(metric_family(m, METRIC_COUNTER, "a_total", "x", NULL, 1) == f, "the same family again");
    ok(metric_child(f, (struct slice[]){SLICE_LIT("410"), SLICE_LIT("d")}) == more, "too many share one child");
    ok(metric_child(f, (struct slice[]){SLICE_LIT("other"), SLICE_LIT("other")}) == more, "by its own name too");
    metric_inc(plain);
    metric_add(plain, 2.5);
    metric_add(plain, -1);
    is_double(metric_value(plain), 3.5, "a counter never falls");
    metric_inc(b);
    metric_inc(more);
    is_walk(m,
            "# a_total code=200 peer=a 0\na_total code=503 peer=b 1\na_total code=other peer=other 1\n# z_total 3.5\n",
            "bumped");
    metric_show(b, false);
    is_walk(m, "# z_total 3.5\n", "a family that is hidden");
    metric_show(a, true);
    metric_family_clear(f);
    is_walk(m, "# z_total 3.5\n", "a family without children is not shown");
    metric_inc(metric_child(f, (struct slice[]){SLICE_LIT("1"), SLICE_NONE}));
    is_walk(m, "# a_total code=1 peer= 1\n# z_total 3.5\n", "and can have some again");
    metrics_free(m);
    metrics_free(NULL);
}

/* When there are too many, those that are folded keep what matters. */
static void folded(void)
{
    static const char *const labels[] = {"code", "peer", NULL};
    struct metrics *m = metrics_new();
    struct metric_family *f = metric_family(m, METRIC_COUNTER, "a_total", "Counter.", labels, 3);
    const char *const names[] = {"a", "b", "c", "a"}, *const codes[] = {"200", "200", "503", "404"};

    for (size_t i = 0; i < ROWS(names); i++)
        metric_inc(metric_child_or(f, (struct slice[]){slice_str(codes[i]), slice_str(names[i])},
                                   (struct slice[]){slice_str(codes[i]), SLICE_LIT("other")}, 1));
    metric_inc(metric_child_or(f, (struct slice[]){SLICE_LIT("200"), SLICE_LIT("b")}, NULL, 1));
    is_walk(m,
            "# a_total code=200 peer=a 1\na_total code=200 peer=b 2\na_total code=503 peer=other 1\n"
            "a_total code=other peer=other 1\n",
            "two, one that is folded, and what has no room even so");
    metrics_free(m);
}

/* Of as many as there is room for, and of one more and one less. */
static void forgotten(void)
{
    static const char *const labels[] = {"l", NULL};

    for (size_t n = 1; n <= 17; n++) {
        struct metrics *m = metrics_new();
        struct metric_family *f = metric_family(m, METRIC_GAUGE, "g", "Gauge.", labels, 20);
        char name[2] = "a";

        for (size_t i = 0; i < n; i++, name[0]++)
            metric_set(metric_child(f, (struct slice[]){slice_str(name)}), 1);
        while (name[0]-- > 'a')
            metric_forget(f, slice_str(name));
        is_walk(m, "", "each is forgotten");
        metrics_free(m);
    }
}

static void out_of_memory(void)
{
    static const char *const labels[] = {"l", NULL};
    struct metrics *m = metrics_new();
    struct metric_family *f = metric_family(m, METRIC_GAUGE, "g", "Gauge.", labels, 10);

    for (uint64_t nth = 1; nth <= 2; nth++) {
        mem_fail_nth(nth);
        metric_set(metric_child(f, (struct slice[]){SLICE_LIT("v")}), -2);
        mem_fail_nth(0);
        is_walk(m, "# g l=other -2\n", "a child that cannot be made is counted as other");
    }
    metric_set(metric_child(f, (struct slice[]){SLICE_LIT("v")}), 1);
    is_walk(m, "# g l=other -2\ng l=v 1\n", "later it can");
    metrics_free(m);
}

static void histograms(void)
{
    static const double bounds[] = {0.1, 1, 10};
    struct metrics *m = metrics_new();
    struct metric_family *f = metric_histogram_family(m, "h", "Histogram.", NULL, bounds, ROWS(bounds));
    struct metric *h = metric_child(f, NULL);
    static const double values[] = {0.05, 0.1, 0.5, 10, 11, 1000};

    for (size_t i = 0; i < ROWS(values); i++)
        metric_observe(h, values[i]);
    is_walk(m, "# h 1021.65 n=6 le0.1=2 le1=1 le10=1 rest=2\n", "bounds are inclusive");
    is_double(metric_value(h), 6, "its value is its count");
    metric_family_clear(f);
    metric_observe(metric_child(f, NULL), 0.5);
    is_walk(m, "# h 0.5 n=1 le0.1=0 le1=1 le10=0 rest=0\n", "cleared");
    metrics_free(m);
}

static void bump(void *arg)
{
    metric_inc(arg);
}

static void collecting(void)
{
    struct metrics *m = metrics_new();
    struct metric *a = metric_single(m, METRIC_GAUGE, "a", "One."), *b = metric_single(m, METRIC_GAUGE, "b", "Two.");

    metrics_on_collect(m, bump, a);
    metrics_on_collect(m, bump, b);
    metrics_on_collect(m, bump, b);
    metrics_collect(m);
    is_double(metric_value(a), 1, "called");
    is_double(metric_value(b), 2, "each of them");
    metrics_free(m);
}

/* ---- with pauses ---- */

struct paused {
    struct buf text;
    unsigned most, told;
};

static bool print_some(const struct metric_view *v, void *arg)
{
    struct paused *p = arg;

    print_view(v, &p->text);
    return ++p->told % p->most != 0;
}

static void is_walk_on(struct metrics *m, unsigned most, const char *want)
{
    struct metrics_walk *w = metrics_walk_new(m);
    struct paused p = {.most = most};
    enum metrics_walked walked;
    unsigned pauses = 0;

    buf_init(&p.text, 10000);
    while ((walked = metrics_walk_on(w, print_some, &p)) == METRICS_PAUSED)
        pauses++;
    is_int(walked, METRICS_ALL, "to its end");
    is_u64(pauses, p.told / most, "with a pause after each %u", most);
    is_slice(buf_slice(&p.text), want, "the same as without");
    buf_free(&p.text);
    metrics_walk_free(w);
}

static void pauses(void)
{
    static const char *const labels[] = {"code", "peer", NULL};
    struct metrics *m = metrics_new();
    struct metric_family *f = metric_family(m, METRIC_COUNTER, "a_total", "x", labels, 3);
    struct metric_family *none = metric_family(m, METRIC_COUNTER, "b_total", "no children", labels, 3);
    struct metric *hidden = metric_single(m, METRIC_GAUGE, "c", "x");
    struct metrics_walk *w;
    struct paused p = {.most = 2};

    (void)none;
    metric_show(hidden, false);
    metric_inc(metric_single(m, METRIC_COUNTER, "z_total", "x"));
    metric_inc(metric_child(f, (struct slice[]){SLICE_LIT("200"), SLICE_LIT("")}));
    metric_inc(metric_child(f, (struct slice[]){SLICE_LIT("503"), SLICE_LIT("a")}));
    metric_inc(metric_child(f, (struct slice[]){SLICE_LIT("zzz"), SLICE_LIT("b")}));
    metric_inc(metric_child(f, (struct slice[]){SLICE_LIT("one"), SLICE_LIT("more")}));
    for (unsigned most = 1; most <= 6; most++)
        is_walk_on(m, most,
                   "# a_total code=200 peer= 1\na_total code=503 peer=a 1\na_total code=other peer=other 1\n"
                   "a_total code=zzz peer=b 1\n# z_total 1\n");
    /* What is gone, and what has come, while it is paused behind 503. */
    buf_init(&p.text, 10000);
    w = metrics_walk_new(m);
    is_int(metrics_walk_on(w, print_some, &p), METRICS_PAUSED, "paused");
    metric_family_clear(f);
    metric_inc(metric_child(f, (struct slice[]){SLICE_LIT("201"), SLICE_LIT("")}));
    metric_add(metric_child(f, (struct slice[]){SLICE_LIT("503"), SLICE_LIT("a")}), 7);
    metric_inc(metric_child(f, (struct slice[]){SLICE_LIT("504"), SLICE_LIT("")}));
    (void)metric_single(m, METRIC_COUNTER, "a_first", "x");
    (void)metric_single(m, METRIC_COUNTER, "a_total_later", "x");
    is_int(metrics_walk_on(w, print_some, &p), METRICS_PAUSED, "paused again");
    is_int(metrics_walk_on(w, print_some, &p), METRICS_ALL, "all");
    is_slice(buf_slice(&p.text),
             "# a_total code=200 peer= 1\na_total code=503 peer=a 1\na_total code=504 peer= 1\n# a_total_later 0\n"
             "# z_total 1\n",
             "each once, in order");
    buf_free(&p.text);
    metrics_walk_free(w);
    buf_init(&p.text, 10000);
    (void)buf_reserve(&p.text, 5000);
    p.told = 0;
    mem_fail_nth(2);
    w = metrics_walk_new(m);
    is_int(w == NULL ? METRICS_ALL : metrics_walk_on(w, print_some, &p), METRICS_NO_MEMORY, "no memory for the place");
    mem_fail_nth(0);
    buf_free(&p.text);
    metrics_walk_free(w);
    metrics_free(m);
}

int main(void)
{
    counters();
    folded();
    forgotten();
    out_of_memory();
    histograms();
    collecting();
    pauses();
    return tap_end();
}
