/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/health.h"

#include "admin/process_metrics.h"
#include "base/list.h"
#include "base/log.h"
#include "kube/query.h"

enum { MAX_EXCLUDED = 32, MAX_CHECKS = 64, LOG_BYTES = 4096, QUERY_BYTES = 64 << 10 };

struct check {
    struct list_node node;
    char *name;
    unsigned endpoints;
    health_fn *fn;
    void *arg;
};

struct health {
    struct list checks;
    struct metrics *slis;
    struct metric_family *state, *results;
};

/* What the query asks for. */
struct asked {
    struct slice excluded[MAX_EXCLUDED];
    bool used[MAX_EXCLUDED];
    size_t n;
    bool verbose;
};

static const struct {
    const char *name;
    enum health_endpoint bit;
} endpoints[] = {{"livez", HEALTH_LIVEZ}, {"readyz", HEALTH_READYZ}, {"healthz", HEALTH_HEALTHZ}};

enum { ENDPOINTS = sizeof(endpoints) / sizeof(endpoints[0]) };

static bool ping(void *arg, struct err *why)
{
    (void)arg;
    (void)why;
    return true;
}

struct health *health_new(void)
{
    static const char *const state_labels[] = {"name", "type", NULL};
    static const char *const result_labels[] = {"name", "type", "status", NULL};
    struct health *h = must_zalloc(sizeof(*h));

    list_init(&h->checks);
    h->slis = metrics_new();
    h->state = metric_family(h->slis, METRIC_GAUGE, "kubernetes_healthcheck",
                             "[STABLE] The last result of each health check: 1 well, 0 not.", state_labels,
                             (size_t)MAX_CHECKS * ENDPOINTS);
    h->results =
        metric_family(h->slis, METRIC_COUNTER, "kubernetes_healthchecks_total",
                      "[STABLE] Results of each health check.", result_labels, (size_t)MAX_CHECKS * ENDPOINTS * 2);
    /* As component-base has it there: who scrapes these alone sees a restart. */
    process_metrics_start_time(h->slis);
    health_add(h, HEALTH_ALL, "ping", ping, NULL);
    return h;
}

void health_free(struct health *h)
{
    struct list_node *n;

    while ((n = list_pop_front(&h->checks)) != NULL) {
        struct check *c = list_entry(n, struct check, node);

        mem_free(c->name);
        mem_free(c);
    }
    metrics_free(h->slis);
    mem_free(h);
}

void health_add(struct health *h, unsigned bits, const char *name, health_fn *fn, void *arg)
{
    struct check *c = must_zalloc(sizeof(*c));

    c->name = must_strdup(name);
    c->endpoints = bits;
    c->fn = fn;
    c->arg = arg;
    list_push_back(&h->checks, &c->node);
}

struct metrics *health_slis(struct health *h)
{
    return h->slis;
}

/* The endpoint's index, ENDPOINTS if it is none; *check is what stands behind it, empty if nothing. */
static size_t endpoint_of(struct slice path, struct slice *check)
{
    size_t slash, i;

    *check = SLICE_NONE;
    if (path.n == 0 || path.p[0] != '/')
        return ENDPOINTS;
    path = slice_from(path, 1);
    slash = slice_index(path, '/');
    for (i = 0; i < ENDPOINTS; i++)
        if (slice_eq(slice_of(path.p, slash), slice_str(endpoints[i].name)))
            break;
    *check = slice_from(path, slash + 1);
    return i;
}

bool health_is_path(struct slice path)
{
    struct slice check;

    return endpoint_of(path, &check) < ENDPOINTS;
}

bool health_is_public(struct slice path)
{
    struct slice check;

    return endpoint_of(path, &check) < ENDPOINTS && check.n == 0;
}

/* ---- running ---- */

static bool run(struct health *h, const struct check *c, const char *endpoint, struct err *why)
{
    struct slice labels[] = {slice_str(c->name), slice_str(endpoint), SLICE_LIT("success")};
    bool well;

    err_clear(why);
    well = c->fn(c->arg, why);
    if (!well)
        labels[2] = SLICE_LIT("error");
    metric_set(metric_child(h->state, labels), well ? 1 : 0);
    metric_inc(metric_child(h->results, labels));
    return well;
}

void health_each_failing(struct health *h, enum health_endpoint endpoint,
                         void (*fn)(const char *check, const char *why, void *arg), void *arg)
{
    struct err why;

    for (struct list_node *n = list_first(&h->checks); n != NULL; n = list_next(&h->checks, n)) {
        const struct check *c = list_entry(n, struct check, node);

        err_clear(&why);
        if ((c->endpoints & (unsigned)endpoint) != 0 && !c->fn(c->arg, &why))
            fn(c->name, why.text, arg);
    }
}

/* Repeated names count once, as in the set that Kubernetes makes of them. */
static void exclude(struct asked *asked, struct slice name)
{
    size_t i = 0;

    while (i < asked->n && !slice_eq(asked->excluded[i], name))
        i++;
    if (i == asked->n && i < MAX_EXCLUDED)
        asked->excluded[asked->n++] = name;
}

/* False when out of memory. */
static bool read_query(struct asked *asked, struct arena *a, struct slice query)
{
    struct query_iter it;
    struct slice name, value;

    *asked = (struct asked){.n = 0};
    query_begin(&it, a, query);
    while (query_next(&it, &name, &value)) {
        if (slice_eq(name, SLICE_LIT("exclude")))
            exclude(asked, value);
        else if (slice_eq(name, SLICE_LIT("verbose")))
            asked->verbose = true;
    }
    return !it.no_memory;
}

static bool is_excluded(struct asked *asked, const char *name)
{
    for (size_t i = 0; i < asked->n; i++)
        if (slice_eq(asked->excluded[i], slice_str(name)))
            return asked->used[i] = true;
    return false;
}

/* The rest of the excluded names in order of their bytes, in quotes. */
static void warn_unmatched(struct asked *asked, struct buf *out)
{
    const char *separator = "warn: some health checks cannot be excluded: no matches for ";

    for (;;) {
        size_t least = asked->n;

        for (size_t i = 0; i < asked->n; i++)
            if (!asked->used[i] && (least == asked->n || slice_cmp(asked->excluded[i], asked->excluded[least]) < 0))
                least = i;
        if (least == asked->n)
            break;
        asked->used[least] = true;
        buf_append_quoted(out, separator, asked->excluded[least]);
        separator = ", ";
    }
    if (separator[0] == ',')
        buf_append_char(out, '\n');
}

struct tally {
    unsigned failed;
    struct buf names, reasons; /* for the log */
};

static void note_failure(struct tally *t, const struct check *c, const struct err *why)
{
    buf_printf(&t->names, "%s%s", t->failed++ > 0 ? "," : "", c->name);
    buf_printf(&t->reasons, "[-]%s failed: %s; ", c->name, why->text);
}

static void run_all(struct health *h, size_t e, struct asked *asked, struct buf *list, struct tally *t)
{
    for (struct list_node *n = list_first(&h->checks); n != NULL; n = list_next(&h->checks, n)) {
        const struct check *c = list_entry(n, struct check, node);
        struct err why;

        if ((c->endpoints & endpoints[e].bit) == 0)
            continue;
        if (is_excluded(asked, c->name)) {
            buf_printf(list, "[+]%s excluded: ok\n", c->name);
        } else if (run(h, c, endpoints[e].name, &why)) {
            buf_printf(list, "[+]%s ok\n", c->name);
        } else {
            buf_printf(list, "[-]%s failed: reason withheld, see mvproxyctl status or /%s/%s\n", c->name,
                       endpoints[e].name, c->name);
            note_failure(t, c, &why);
        }
    }
}

static unsigned run_and_tell(struct health *h, size_t e, struct asked *asked, struct buf *out)
{
    struct tally t = {0};
    struct buf list;

    buf_init(&list, out->ceiling);
    buf_init(&t.names, LOG_BYTES);
    buf_init(&t.reasons, LOG_BYTES);
    run_all(h, e, asked, &list, &t);
    warn_unmatched(asked, &list);
    if (t.failed > 0) {
        buf_append(out, buf_slice(&list));
        buf_printf(out, "%s check failed\n", endpoints[e].name);
        log_v(2, "Health check failed", LT("endpoint", endpoints[e].name), LS("checks", buf_slice(&t.names)),
              LS("reasons", buf_slice(&t.reasons)));
    } else if (asked->verbose) {
        buf_append(out, buf_slice(&list));
        buf_printf(out, "%s check passed\n", endpoints[e].name);
    } else {
        buf_append_str(out, "ok");
    }
    buf_free(&list);
    buf_free(&t.names);
    buf_free(&t.reasons);
    return t.failed > 0 ? 500 : 200;
}

static unsigned answer_all(struct health *h, size_t e, struct slice query, struct buf *out)
{
    struct arena *a = arena_new(QUERY_BYTES);
    struct asked asked;
    unsigned status = 500;

    if (a != NULL && read_query(&asked, a, query))
        status = run_and_tell(h, e, &asked, out);
    else
        buf_append_str(out, "internal server error: out of memory\n");
    arena_free(a);
    return status;
}

static unsigned answer_one(struct health *h, size_t e, struct slice name, struct buf *out)
{
    for (struct list_node *n = list_first(&h->checks); n != NULL; n = list_next(&h->checks, n)) {
        const struct check *c = list_entry(n, struct check, node);
        struct err why;

        if ((c->endpoints & endpoints[e].bit) == 0 || !slice_eq(slice_str(c->name), name))
            continue;
        if (run(h, c, endpoints[e].name, &why)) {
            buf_append_str(out, "ok");
            return 200;
        }
        /* kube-apiserver tells the reason here, because only who is authorized gets here; so it is with us. */
        buf_printf(out, "internal server error: %s\n", why.text);
        return 500;
    }
    buf_append_str(out, "404 page not found\n");
    return 404;
}

unsigned health_answer(struct health *h, struct slice path, struct slice query, struct buf *out)
{
    struct slice check;
    size_t e = endpoint_of(path, &check);

    if (e == ENDPOINTS) {
        buf_append_str(out, "404 page not found\n");
        return 404;
    }
    return check.n == 0 ? answer_all(h, e, query, out) : answer_one(h, e, check, out);
}
