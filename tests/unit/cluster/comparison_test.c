/* SPDX-License-Identifier: Apache-2.0 */
/* What is not the same everywhere is counted right, and in pieces: no turn of the loop looks at more than two of them.
 */
#include "cluster/comparer.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/random.h"
#include "base/strmap.h"
#include "cluster/cluster_view.h"
#include "cluster/work.h"
#include "kube/disco_parse.h"
#include "lib/tap.h"
#include "sim/cluster_kit.h"

enum {
    SERVERS = 100,
    GROUPS = 500,
    WORLDS = 300,
    SMALL_SERVERS = 5,
    SMALL_GROUPS = 6,
    CEILING = 1 << 20,
    MOST_TURNS = 4000,
    UNNAMED = -1 /* as of a server before 1.27 */
};

/* Every look at a group/version or schema is one in a map (the linker puts this in between). */
void *__real_strmap_get(const struct strmap *m, struct slice key);
void *__wrap_strmap_get(const struct strmap *m, struct slice key);
static size_t lookups;
static bool cost_time; /* one takes a microsecond of the simulated clock: that is what ends a turn's work */

void *__wrap_strmap_get(const struct strmap *m, struct slice key)
{
    lookups++;
    if (cost_time)
        clock_fake(clock_us() + 1, clock_wall_us());
    return __real_strmap_get(m, key);
}

/* ---- documents ---- */

static void put_version(struct buf *b, const char *version, int kind)
{
    buf_printf(
        b,
        "{\"version\":\"%s\",\"resources\":[{\"resource\":\"things\",\"responseKind\":{\"group\":\"\",\"version\":"
        "\"v1\",\"kind\":\"K\"},\"scope\":\"Namespaced\",\"singularResource\":\"",
        version);
    if (kind != UNNAMED)
        buf_printf(b, "k%d", kind);
    buf_append_str(b, "\",\"verbs\":[\"get\"]}]}");
}

/* kinds[g]: 0: not there; UNNAMED: without a singular name; else how it is described. "apis" with groups, or (n is 1,
 * core) the core group. */
static struct disco_doc *document(const int *kinds, size_t n, bool core)
{
    struct err err = {""};
    struct disco_doc *d;
    struct buf b;
    bool any = false;

    buf_init(&b, CEILING);
    buf_append_str(&b, "{\"kind\":\"APIGroupDiscoveryList\",\"apiVersion\":\"apidiscovery.k8s.io/v2\",\"metadata\":{},"
                       "\"items\":[");
    for (size_t g = 0; g < n; g++) {
        if (kinds[g] == 0)
            continue;
        buf_append_str(&b, any ? "," : "");
        any = true;
        if (core)
            buf_append_str(&b, "{\"metadata\":{},\"versions\":[");
        else
            buf_printf(&b, "{\"metadata\":{\"name\":\"group-%03zu.example\"},\"versions\":[", g);
        put_version(&b, "v1", kinds[g]);
        buf_append_str(&b, "]}");
    }
    buf_append_str(&b, "]}");
    d = disco_parse(buf_slice(&b), &err);
    if (d == NULL)
        tap_bail("disco_parse: %s", err.text);
    buf_free(&b);
    return d;
}

static struct disco *describe(const int *kinds, size_t n, int core)
{
    struct disco_doc *c = document(&core, 1, true), *a = document(kinds, n, false);
    struct disco *d = disco_new(c, a);

    disco_doc_unref(c);
    disco_doc_unref(a);
    if (d == NULL)
        tap_bail("no memory");
    return d;
}

static struct schema_index *schemas(const int *hashes, size_t n)
{
    struct schema_index *x;
    struct buf b;
    bool any = false;

    buf_init(&b, CEILING);
    buf_append_str(&b, "{\"paths\":{");
    for (size_t g = 0; g < n; g++) {
        if (hashes[g] == 0)
            continue;
        buf_printf(&b, "%s\"apis/group-%03zu.example/v1\":{\"serverRelativeURL\":\"/openapi/v3/x?hash=H%d\"}",
                   any ? "," : "", g, hashes[g]);
        any = true;
    }
    buf_append_str(&b, "}}");
    x = schema_index_parse(buf_slice(&b));
    if (x == NULL)
        tap_bail("schema_index_parse");
    buf_free(&b);
    return x;
}

/* ---- by hand ---- */

static const struct disco *disco_of(const struct served *s, size_t i)
{
    return i == 0 ? served_local_disco(s) : served_peer_at(s, i - 1)->disco;
}

static void count_one(const struct served *s, struct slice group, size_t *all, size_t *uneven)
{
    const struct disco_version *first = NULL;
    bool lacks = false, differs = false;

    for (size_t i = 0; i <= served_n_peers(s); i++) {
        const struct disco *d = disco_of(s, i);
        const struct disco_version *v =
            d == NULL ? NULL : disco_doc_version(group.n == 0 ? disco_core(d) : disco_apis(d), group, SLICE_LIT("v1"));

        lacks = lacks || (d != NULL && v == NULL);
        differs = differs || (v != NULL && first != NULL && v->hash != first->hash);
        first = first == NULL ? v : first;
    }
    *all += first != NULL;
    *uneven += first != NULL && (lacks || differs);
}

static bool lists(const struct comparison_result *r, struct slice group)
{
    for (size_t i = 0; i < r->n_skewed; i++)
        if (slice_eq(r->skewed[i].group, group) && slice_eq(r->skewed[i].version, SLICE_LIT("v1")))
            return true;
    return false;
}

static bool is_right(const struct served *s, const struct comparison_result *r)
{
    size_t all = 0, uneven = 0, skewed = 0;
    char name[32];

    count_one(s, SLICE_LIT(""), &all, &uneven);
    for (size_t g = 0; g < SMALL_GROUPS; g++) {
        (void)snprintf(name, sizeof(name), "group-%03zu.example", g);
        count_one(s, slice_str(name), &all, &uneven);
        skewed += served_skewed(s, slice_str(name), SLICE_LIT("v1"));
        if (served_skewed(s, slice_str(name), SLICE_LIT("v1")) != lists(r, slice_str(name)))
            return false;
    }
    if (all == r->gvs && uneven == r->uneven && skewed == r->n_skewed)
        return true;
    diag("by hand: %zu, %zu uneven, %zu skewed; counted: %zu, %zu, %zu", all, uneven, skewed, r->gvs, r->uneven,
         r->n_skewed);
    return false;
}

/* ---- small worlds ---- */

static struct served *random_world(void)
{
    struct served_peer peers[SMALL_SERVERS - 1];
    struct disco *discos[SMALL_SERVERS];
    struct schema_index *indexes[SMALL_SERVERS];
    struct slice excluded = SLICE_LIT("group-000.example/v1");
    struct served_input in = {.local_id = "apiserver-0",
                              .local_etag = {SLICE_LIT("")},
                              .peers = peers,
                              .n_peers = random_below(SMALL_SERVERS),
                              .excluded = &excluded,
                              .n_excluded = random_below(2)};
    struct served *s;
    int kinds[SMALL_GROUPS], hashes[SMALL_GROUPS];

    for (size_t i = 0; i < SMALL_SERVERS; i++) {
        for (size_t g = 0; g < SMALL_GROUPS; g++) {
            kinds[g] = (int)random_below(8) == 0 ? (int)random_below(3) : 1;
            hashes[g] = (int)random_below(6) == 0 ? (int)random_below(3) : 1;
        }
        discos[i] = random_below(6) == 0
                        ? NULL
                        : describe(kinds, SMALL_GROUPS, random_below(5) == 0 ? (int)random_below(3) : 1);
        indexes[i] = random_below(4) == 0 ? NULL : schemas(hashes, SMALL_GROUPS);
        if (i > 0)
            peers[i - 1] = (struct served_peer){.id = "apiserver-x",
                                                .life = random_below(4) == 0 ? SERVED_LAPSED : SERVED_LIVE,
                                                .disco = discos[i],
                                                .schemas = indexes[i]};
    }
    in.local = discos[0];
    in.local_schemas = indexes[0];
    s = served_new(&in);
    for (size_t i = 0; i < SMALL_SERVERS; i++) {
        disco_unref(discos[i]);
        schema_index_unref(indexes[i]);
    }
    return s;
}

static void small(void)
{
    size_t wrong = 0, uneven = 0, skewed = 0;

    for (size_t i = 0; i < WORLDS; i++) {
        struct served *s = random_world();
        struct comparison *c = comparison_new(s, NULL);

        while (comparison_step(c, 1 + random_below(7)) == STEP_MORE)
            continue;
        wrong += !is_right(s, comparison_result(c));
        uneven += comparison_result(c)->uneven > 0;
        skewed += comparison_result(c)->n_skewed > 0;
        comparison_free(c);
        served_unref(s);
    }
    is_u64(wrong, 0, "as counted by hand, in %d random worlds", WORLDS);
    ok(uneven > WORLDS / 4 && skewed > WORLDS / 8, "of which %zu are uneven and %zu skewed", uneven, skewed);
}

/* ---- servers without singular names ---- */

/* A name that one does not have is no difference, in whatever order they are looked at; two names are. */
static void unnamed(void)
{
    static const struct {
        int kinds[3];
        size_t want;
    } rows[] = {
        {{UNNAMED, UNNAMED, UNNAMED}, 0},
        {{UNNAMED, 1, 1}, 0},
        {{1, UNNAMED, 1}, 0},
        {{1, 1, UNNAMED}, 0},
        {{UNNAMED, 1, 2}, 1},
        {{1, UNNAMED, 2}, 1},
        {{1, 2, UNNAMED}, 1},
        {{UNNAMED, 0, 1}, 1},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        struct served_peer peers[2];
        struct served_input in = {
            .local_id = "apiserver-0", .local_etag = {SLICE_LIT("")}, .peers = peers, .n_peers = 2};
        struct disco *discos[3];
        struct comparison *c;
        struct served *s;

        for (size_t k = 0; k < 3; k++)
            discos[k] = describe(&rows[i].kinds[k], 1, 1);
        in.local = discos[0];
        for (size_t k = 0; k < 2; k++)
            peers[k] = (struct served_peer){.id = "apiserver-x", .life = SERVED_LIVE, .disco = discos[k + 1]};
        s = served_new(&in);
        c = comparison_new(s, NULL);
        while (comparison_step(c, 2) == STEP_MORE)
            continue;
        is_u64(comparison_result(c)->uneven, rows[i].want, "%d, %d, %d: uneven", rows[i].kinds[0], rows[i].kinds[1],
               rows[i].kinds[2]);
        comparison_free(c);
        served_unref(s);
        for (size_t k = 0; k < 3; k++)
            disco_unref(discos[k]);
    }
}

/* ---- since when ---- */

/* Two servers that describe three groups so. */
static struct comparison *compared(const int *local, const int *peer, const struct comparison *before)
{
    struct disco *a = describe(local, 3, 1), *b = describe(peer, 3, 1);
    struct served_peer p = {.id = "apiserver-x", .life = SERVED_LIVE, .disco = b};
    struct served_input in = {
        .local_id = "apiserver-0", .local_etag = {SLICE_LIT("")}, .local = a, .peers = &p, .n_peers = 1};
    struct served *s = served_new(&in);
    struct comparison *c = comparison_new(s, before);

    while (comparison_step(c, 2) == STEP_MORE)
        continue;
    served_unref(s);
    disco_unref(a);
    disco_unref(b);
    return c;
}

/* A group that begins to differ, or differs in another way, does so from then on, whatever the others do. */
static void since(void)
{
    static const struct {
        int local[3], peer[3];
        uint64_t want[3]; /* seconds; 0: even */
    } rows[] = {
        {{1, 1, 1}, {1, 1, 1}, {0, 0, 0}},   {{1, 1, 1}, {1, 2, 1}, {0, 11, 0}},   {{1, 1, 1}, {1, 2, 1}, {0, 11, 0}},
        {{1, 1, 1}, {0, 2, 1}, {13, 11, 0}}, {{1, 1, 1}, {0, 2, 1}, {13, 11, 0}},  {{2, 1, 1}, {0, 2, 1}, {15, 11, 0}},
        {{2, 1, 1}, {0, 1, 1}, {15, 0, 0}},  {{2, 1, 1}, {0, 2, 2}, {15, 17, 17}}, {{2, 2, 1}, {0, 1, 2}, {15, 17, 17}},
    };
    struct comparison *before = NULL;
    char name[32];

    for (size_t i = 0; i < ROWS(rows); i++) {
        struct comparison *c;

        clock_fake((10 + i) * 1000000, 1);
        c = compared(rows[i].local, rows[i].peer, before);
        for (size_t g = 0; g < 3; g++) {
            (void)snprintf(name, sizeof(name), "group-%03zu.example", g);
            is_u64(comparison_uneven_since(c, slice_str(name), SLICE_LIT("v1")), rows[i].want[g] * 1000,
                   "look %zu, group %zu: since", i, g);
        }
        is_u64(comparison_uneven_since(c, SLICE_LIT("no-group"), SLICE_LIT("v1")), 0, "look %zu: one that is not there",
               i);
        comparison_free(before);
        before = c;
    }
    comparison_free(before);
}

/* ---- a large one ---- */

/* Each server describes every group otherwise, and has schemas of its own: as bad as it gets. */
static struct served *large_world(void)
{
    static struct served_peer peers[SERVERS - 1];
    struct disco *discos[SERVERS];
    struct schema_index *indexes[SERVERS];
    struct served_input in = {
        .local_id = "apiserver-0", .local_etag = {SLICE_LIT("")}, .peers = peers, .n_peers = SERVERS - 1};
    static int kinds[GROUPS];
    struct served *s;

    for (int i = 0; i < SERVERS; i++) {
        for (size_t g = 0; g < GROUPS; g++)
            kinds[g] = i + 1;
        discos[i] = describe(kinds, GROUPS, 1);
        indexes[i] = schemas(kinds, GROUPS);
        if (i > 0)
            peers[i - 1] = (struct served_peer){
                .id = "apiserver-x", .life = SERVED_LIVE, .disco = discos[i], .schemas = indexes[i]};
    }
    in.local = discos[0];
    in.local_schemas = indexes[0];
    s = served_new(&in);
    for (int i = 0; i < SERVERS; i++) {
        disco_unref(discos[i]);
        schema_index_unref(indexes[i]);
    }
    return s;
}

struct kit {
    struct loop *loop;
    struct work_queue queue;
    struct comparer *comparer;
    const struct comparison_result *last;
};

/* Whether there is another result than the last time. */
static bool is_another(struct kit *k)
{
    const struct comparison_result *before = k->last;

    k->last = comparer_result(k->comparer);
    return k->last != before;
}

static void open_kit(struct kit *k)
{
    *k = (struct kit){.loop = loop_new(NULL)};
    work_queue_init(&k->queue, k->loop);
    k->comparer = comparer_new(k->loop, &k->queue);
    if (k->comparer == NULL)
        tap_bail("no memory");
    (void)is_another(k);
}

static void close_kit(struct kit *k)
{
    comparer_free(k->comparer);
    work_queue_close(&k->queue);
    loop_free(k->loop);
}

/* For people; nothing depends on it. */
static void tell_time(struct served *s)
{
    struct comparison *c = comparison_new(s, NULL);
    uint64_t longest = 0, all = 0, took;
    enum step step;

    do {
        took = clock_us();
        step = comparison_step(c, COMPARER_BUDGET);
        took = clock_us() - took;
        all += took;
        longest = took > longest ? took : longest;
    } while (step == STEP_MORE);
    comparison_free(c);
    diag("compared in %llu us, the longest piece took %llu us", (unsigned long long)all, (unsigned long long)longest);
}

/* Looks at the counter at the end of each turn. */
struct watcher {
    struct kit *kit;
    struct loop_deferred next;
    size_t seen, most, turns;
};

static void look(void *arg)
{
    struct watcher *w = arg;

    w->most = lookups - w->seen > w->most ? lookups - w->seen : w->most;
    w->seen = lookups;
    w->turns++;
    if (comparer_result(w->kit->comparer) == w->kit->last && w->turns < MOST_TURNS)
        loop_defer(w->kit->loop, &w->next, look, w);
}

static void large(void)
{
    struct served *s = large_world();
    struct watcher w = {.kit = NULL};
    const struct comparison_result *r;
    struct kit k;

    tell_time(s);
    open_kit(&k);
    w.kit = &k;
    w.seen = lookups = 0;
    comparer_take(k.comparer, s);
    is_u64(lookups, 0, "nothing is compared from inside");
    is_u64(comparer_result(k.comparer)->gvs, 0, "before there is a result");
    loop_defer(k.loop, &w.next, look, &w);
    cost_time = true;
    sim_run_ms(k.loop, 0);
    cost_time = false;
    r = comparer_result(k.comparer);
    ok(is_another(&k), "a result");
    is_u64(r->gvs, GROUPS + 1, "all group/versions");
    is_u64(r->uneven, GROUPS, "of which none is described alike, but for the core group");
    is_u64(r->n_skewed, GROUPS, "nor has the same schema");
    diag("%zu looks, at most %zu in one of %zu turns", lookups, w.most, w.turns);
    ok(w.most <= WORK_TURN_US + WORK_PIECE_US + COMPARER_BUDGET, "no turn looks at more than %zu", w.most);
    /* Two of each description: its document and its schema; one of the core group. */
    ok(lookups <= (size_t)SERVERS * (2 * GROUPS + 1), "as many looks as there are descriptions: %zu", lookups);
    lookups = 0;
    comparer_take(k.comparer, s);
    sim_run_ms(k.loop, 0);
    ok(lookups == 0 && !is_another(&k), "the same again is not compared");
    close_kit(&k);
    served_unref(s);
}

/* ---- what happens meanwhile ---- */

/* Another snapshot in each turn. */
struct feeder {
    struct kit *kit;
    struct loop_deferred next;
    struct served *of[2];
    size_t turns, results;
};

static void feed(void *arg)
{
    struct feeder *f = arg;

    f->results += is_another(f->kit);
    comparer_take(f->kit->comparer, f->of[f->turns++ % 2]);
    if (f->turns < 200)
        loop_defer(f->kit->loop, &f->next, feed, f);
}

/* Results come all the same, that of the last one in the end. */
static void stream(void)
{
    struct served *big = large_world();
    struct kit k;
    struct feeder f = {.kit = &k, .of = {random_world(), random_world()}};

    open_kit(&k);
    comparer_take(k.comparer, big);
    loop_defer(k.loop, &f.next, feed, &f);
    cost_time = true;
    sim_run_ms(k.loop, 0);
    cost_time = false;
    is_u64(f.turns, 200, "turns with another snapshot");
    ok(f.results > 10 && f.results < 200, "%zu results", f.results);
    ok(is_right(f.of[1], comparer_result(k.comparer)), "the last one counts");
    comparer_take(k.comparer, big);
    close_kit(&k); /* under way */
    served_unref(big);
    served_unref(f.of[0]);
    served_unref(f.of[1]);
}

static void memory(void)
{
    struct served *first = random_world(), *second = large_world();
    unsigned failures = 0;
    struct kit k;

    open_kit(&k);
    comparer_take(k.comparer, first);
    sim_run_ms(k.loop, 0);
    (void)is_another(&k);
    for (uint64_t n = 1; n < 40; n += 3) {
        bool failed;

        comparer_take(k.comparer, n % 2 == 1 ? second : first);
        mem_fail_nth(n);
        sim_run_ms(k.loop, 0);
        mem_fail_nth(0);
        failed = !is_another(&k);
        if (failed) {
            failures++;
            ok(comparer_result(k.comparer)->gvs > 0, "the result of before stays, %llu", (unsigned long long)n);
        }
        sim_run_ms(k.loop, 1000);
        is_int(is_another(&k), failed, "and a moment later there is one other, %llu", (unsigned long long)n);
    }
    ok(failures > 2, "memory failed in %u of them", failures);
    close_kit(&k);
    served_unref(first);
    served_unref(second);
}

/* Whichever allocation fails is said at once: no result lacks a group/version that there was no room for. */
static void each_allocation(void)
{
    struct served *s = large_world();
    unsigned failures = 0, wrong = 0;
    enum step last = STEP_FAILED;

    for (uint64_t n = 1; last != STEP_DONE; n++) {
        struct comparison *c = comparison_new(s, NULL);

        mem_fail_nth(n);
        while ((last = comparison_step(c, COMPARER_BUDGET)) == STEP_MORE)
            continue;
        mem_fail_nth(0);
        failures += last == STEP_FAILED;
        wrong += last == STEP_DONE && comparison_result(c)->gvs != GROUPS + 1;
        comparison_free(c);
    }
    ok(failures > 2, "%u allocations, each may fail", failures);
    is_u64(wrong, 0, "what is over is complete");
    served_unref(s);
}

/* Who looks at the state, or scrapes, compares nothing himself. */
static void readers(void)
{
    struct cluster_view v;
    struct cluster_kit w;
    struct kube_server *b;

    cluster_kit_init(&w, KIT_BASE);
    b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    kube_set_schemas(w.local, "A");
    kube_set_schemas(b, "B");
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    sim_run_ms(w.loop, 100);
    lookups = 0;
    ok(cluster_view_take(w.cluster, &v), "the view");
    is_u64(v.uneven.gvs, 3, "core, apps and batch");
    is_u64(v.uneven.uneven, 1, "batch is not everywhere");
    is_u64(v.uneven.n_skewed, 1, "apps differs");
    cluster_view_free(&v);
    is_u64(lookups, 0, "without a look");
    is_double(cluster_kit_metric(&w, "mvproxy_skewed_group_versions", NULL), 1, "the metric says the same");
    is_double(cluster_kit_metric(&w, "mvproxy_uneven_group_versions", NULL), 1, "and so does that of batch");
    ok(v.uneven_ms < 2000 && v.skewed_ms < 2000, "for %llu ms", (unsigned long long)v.uneven_ms);
    kube_set_schemas(b, "A");
    sim_run_ms(w.loop, 35000);
    ok(cluster_skewed_ms(w.cluster) == UINT64_MAX && cluster_uneven_ms(w.cluster) > 35000,
       "for as long as batch lacks, whatever schemas do");
    kube_set_schemas(b, "A");
    kube_set_apis(b, KIT_BASE);
    sim_run_ms(w.loop, 35000);
    ok(cluster_view_take(w.cluster, &v) && v.uneven.uneven + v.uneven.n_skewed == 0, "until all is the same again");
    is_double(cluster_kit_metric(&w, "mvproxy_uneven_group_versions", NULL), 0, "the metric");
    ok(v.uneven_ms == UINT64_MAX, "and the age ends");
    cluster_view_free(&v);
    cluster_kit_end(&w);
}

int main(void)
{
    small();
    unnamed();
    since();
    large();
    stream();
    memory();
    each_allocation();
    readers();
    return tap_end();
}
