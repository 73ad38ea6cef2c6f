/* SPDX-License-Identifier: Apache-2.0 */
/* Merges that fail: the document before stays, routing goes on, it is counted, and tried again. */
#include <stdio.h>

#include "base/buf.h"
#include "cluster/cluster_metrics.h"
#include "cluster/publish.h"
#include "cluster/work.h"
#include "kube/disco_parse.h"
#include "lib/tap.h"
#include "net/loop.h"
#include "sim/cluster_kit.h"

enum { MERGED_MS = 100, SOON_MS = 1000, RETRY_MS = 500, RETRIED_MS = 10500, ROUTED_MS = 30, MOST = 2000 };

/* A peer whose document has changed: it was read, the merge is about to begin. */
struct story {
    struct cluster_kit w;
    struct kube_server *b;
    struct buf before; /* the merged document */
};

static bool routed(void *arg)
{
    struct story *s = arg;

    return cluster_kit_peer_serves(&s->w, s->b, "policy", "v1", "poddisruptionbudgets");
}

static bool was_read(void *arg)
{
    struct story *s = arg;

    return cluster_kit_metric(&s->w, "mvproxy_discovery_refreshes_total", "peer", "suspect", "changed", NULL) > 0;
}

static void begin(struct story *s)
{
    const struct served_document *d;

    cluster_kit_init(&s->w, KIT_BASE);
    s->b = cluster_kit_peer(&s->w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    cluster_kit_start(&s->w);
    if (!cluster_kit_ready(&s->w, 2000))
        tap_bail("not ready");
    sim_run_ms(s->w.loop, SOON_MS);
    d = served_merged(cluster_served(s->w.cluster), SERVED_V2);
    buf_init(&s->before, 1 << 20);
    if (!buf_append(&s->before, d->body) || cluster_kit_merged_has(&s->w, "poddisruptionbudgets"))
        tap_bail("no document to begin with");
    kube_set_apis(s->b, KIT_BATCH ";policy/v1:poddisruptionbudgets");
    cluster_peer_suspect(s->w.cluster, kube_id(s->b));
    if (!sim_run_until(s->w.loop, SOON_MS, was_read, s) || cluster_kit_merged_has(&s->w, "poddisruptionbudgets"))
        tap_bail("the merge is over before it could fail");
}

static void end(struct story *s)
{
    buf_free(&s->before);
    cluster_kit_end(&s->w);
}

static double failures(struct story *s)
{
    return cluster_kit_metric(&s->w, "mvproxy_discovery_merge_failures_total", NULL);
}

/* After a merge that was counted as failed. */
static void is_kept(struct story *s, uint64_t n)
{
    const struct served *now = cluster_served(s->w.cluster);

    ok(slice_eq(served_merged(now, SERVED_V2)->body, buf_slice(&s->before)), "%llu: the document before stays",
       (unsigned long long)n);
    ok(routed(s), "%llu: the routing is the new one all the same", (unsigned long long)n);
    is_double(failures(s), 1, "%llu: counted once", (unsigned long long)n);
}

/* Whichever allocation of a merge fails. */
static void without_memory(void)
{
    unsigned failed = 0, unseen = 0;
    struct story s;
    uint64_t calls;

    begin(&s);
    is_double(failures(&s), 0, "no failure to begin with");
    calls = mem_calls();
    sim_run_ms(s.w.loop, MERGED_MS);
    calls = mem_calls() - calls;
    ok(cluster_kit_merged_has(&s.w, "poddisruptionbudgets") && calls < MOST, "a merge takes %llu allocations",
       (unsigned long long)calls);
    end(&s);
    for (uint64_t n = 1; n <= calls; n++) {
        begin(&s);
        mem_fail_nth(n);
        sim_run_ms(s.w.loop, MERGED_MS);
        mem_fail_nth(0);
        if (failures(&s) > 0) {
            failed++;
            is_kept(&s, n);
        }
        sim_run_ms(s.w.loop, SOON_MS);
        unseen += !cluster_kit_merged_has(&s.w, "poddisruptionbudgets");
        end(&s);
    }
    ok(failed >= 10, "most of them are the merge's own: %u failed merges", failed);
    is_u64(unseen, 0, "after each of them the change is merged in the end");
}

/* A merge for which the nth allocation fails. */
static void begin_failing(struct story *s, uint64_t n)
{
    begin(s);
    mem_fail_nth(n);
    sim_run_ms(s->w.loop, MERGED_MS);
    mem_fail_nth(0);
}

/* The retry of it, half a second later, for which the nth fails, too. */
static void fail_again(struct story *s, uint64_t n)
{
    sim_run_ms(s->w.loop, RETRY_MS - MERGED_MS - 1);
    mem_fail_nth(n);
    sim_run_ms(s->w.loop, MERGED_MS);
    mem_fail_nth(0);
}

/* What fails again is left alone for a while. */
static void again(void)
{
    uint64_t first = 1, second = 1;
    struct story s;

    begin_failing(&s, first);
    while (failures(&s) < 1 && first < MOST) {
        end(&s);
        begin_failing(&s, ++first);
    }
    fail_again(&s, second);
    while (failures(&s) < 2 && second < MOST) {
        end(&s);
        begin_failing(&s, first);
        fail_again(&s, ++second);
    }
    is_double(failures(&s), 2, "the retry fails, too");
    sim_run_ms(s.w.loop, RETRIED_MS - SOON_MS);
    ok(!cluster_kit_merged_has(&s.w, "poddisruptionbudgets"), "then it is left alone for a while");
    sim_run_ms(s.w.loop, SOON_MS);
    ok(cluster_kit_merged_has(&s.w, "poddisruptionbudgets"), "and succeeds at last");
    is_double(failures(&s), 2, "no more than two failures");
    end(&s);
}

/* The very first one: nobody is ready with a document that lacks what peers have told. */
static void at_the_start(void)
{
    unsigned failed = 0, ready = 0, short_documents = 0;
    struct cluster_kit w;

    for (uint64_t n = 1; n < MOST; n += 1 + n / 200) {
        bool is_ready;

        cluster_kit_init(&w, KIT_BASE);
        (void)cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
        cluster_kit_start(&w);
        mem_fail_nth(n);
        is_ready = cluster_kit_ready(&w, SOON_MS);
        mem_fail_nth(0);
        if (cluster_kit_metric(&w, "mvproxy_discovery_merge_failures_total", NULL) > 0) {
            failed++;
            ready += is_ready;
            short_documents += !cluster_kit_merged_has(&w, "cronjobs");
        }
        cluster_kit_end(&w);
    }
    ok(failed >= 10, "%u first merges failed", failed);
    is_u64(ready, failed, "all of these instances became ready");
    is_u64(short_documents, 0, "none of them with a document without the peer's part");
}

/* ---- changes without end ---- */

enum { STORM_MS = 2000, GUST_MS = 7 };

static void count_call(void *arg)
{
    unsigned *called = arg;

    ++*called;
}

/*
 * One change is one look at what is known, one merge and one snapshot, with its documents. So is a flock of them, and
 * so is one that only the routing knows of, without a merge.
 */
static void one_change(void)
{
    struct story s;
    uint64_t generation;
    double merges;

    begin(&s);
    generation = served_generation(cluster_served(s.w.cluster));
    merges = cluster_kit_metric(&s.w, "aggregator_discovery_peer_aggregated_cache_misses_total", NULL);
    sim_run_ms(s.w.loop, MERGED_MS);
    ok(cluster_kit_merged_has(&s.w, "poddisruptionbudgets") && routed(&s), "routed by, and merged");
    is_u64(served_generation(cluster_served(s.w.cluster)) - generation, 1, "in one snapshot");
    is_double(cluster_kit_metric(&s.w, "aggregator_discovery_peer_aggregated_cache_misses_total", NULL) - merges, 1,
              "by one merge");
    generation = served_generation(cluster_served(s.w.cluster));
    for (unsigned i = 0; i < 50; i++) {
        char name[40];

        (void)snprintf(name, sizeof(name), "g%u.example.com", i);
        kube_put_crd(s.w.store, name, name, "v1");
    }
    sim_run_ms(s.w.loop, 500);
    is_u64(served_generation(cluster_served(s.w.cluster)) - generation, 1, "fifty custom resources at once: one more");
    end(&s);
}

/* Whoever asks for a snapshot although nothing has changed gets none, and is not kept waiting for one. */
static void no_change(void)
{
    struct story s;
    struct cluster_waiter *waiter;
    uint64_t generation;
    unsigned called = 0;

    begin(&s);
    sim_run_ms(s.w.loop, MERGED_MS);
    generation = served_generation(cluster_served(s.w.cluster));
    cluster_refresh(s.w.cluster);
    waiter = cluster_local_miss(s.w.cluster, count_call, &called);
    cluster_update(s.w.cluster, &s.w.opts);
    sim_run_ms(s.w.loop, SOON_MS);
    ok(waiter == NULL || called == 1, "nothing is new: who waits is called");
    is_u64(served_generation(cluster_served(s.w.cluster)), generation, "nothing is new: no snapshot");
    end(&s);
}

/* Somebody who knows something new all the time, also while a merge is being made of what he knew before. */
struct storm {
    struct loop *loop;
    struct publish *publish;
    struct disco *disco;
    struct loop_timer *timer;
    struct loop_deferred again;
    unsigned told, changes, published, collects;
    bool restless; /* with each document that is made something has changed again */
    const struct served_document *last;
    char excluded[32];
};

static bool collect(void *arg, struct served_input *in)
{
    struct storm *s = arg;
    struct slice *excluded = mem_array(1, sizeof(*excluded));

    s->collects++;
    if (excluded == NULL)
        return false;
    (void)snprintf(s->excluded, sizeof(s->excluded), "example.com/v%u", s->changes);
    excluded[0] = slice_str(s->excluded);
    *in = (struct served_input){
        .local_id = "apiserver-a", .leases_synced = true, .local = s->disco, .excluded = excluded, .n_excluded = 1};
    return true;
}

static void on_documents(void *arg)
{
    struct storm *s = arg;

    s->told++;
}

static void change(void *arg)
{
    struct storm *s = arg;

    s->changes++;
    publish_request(s->publish);
}

/* After a change the snapshot comes first and a merge is put off for a moment; at the second one it has just begun. */
static void on_published(void *arg)
{
    struct storm *s = arg;
    const struct served_document *now = served_merged(publish_current(s->publish), SERVED_V2);

    if (s->restless && now != s->last)
        change(s);
    s->last = now;
    if (!s->restless && ++s->published % 2 == 0)
        loop_defer(s->loop, &s->again, change, s);
}

static void count_published(void *arg)
{
    struct storm *s = arg;

    s->published++;
}

static void gust(void *arg)
{
    struct storm *s = arg;

    s->published = 0;
    change(s);
    loop_timer_set(s->timer, GUST_MS);
}

static struct disco *some_disco(void)
{
    static const char text[] = "{\"kind\":\"APIGroupDiscoveryList\",\"apiVersion\":\"apidiscovery.k8s.io/v2\","
                               "\"metadata\":{},\"items\":[{\"metadata\":{\"name\":\"apps\"},\"versions\":[]}]}";
    struct err err = {.text = ""};
    struct disco_doc *doc = disco_parse(slice_str(text), &err);
    struct disco *d = doc == NULL ? NULL : disco_new(NULL, doc);

    disco_doc_unref(doc);
    if (d == NULL)
        tap_bail("no document: %s", err.text);
    return d;
}

/* They put off the end of a merge, but not for ever; and whoever waits for a document is told. */
static void storm(bool restless)
{
    struct loop *l = loop_new(NULL);
    struct metrics *m = metrics_new();
    struct cluster_metrics counts;
    struct storm s = {.loop = l, .disco = some_disco(), .restless = restless, .timer = loop_timer_new(l, gust, &s)};
    struct work_queue work;
    struct publish_opts o = {.loop = l,
                             .work = &work,
                             .metrics = &counts,
                             .collect = collect,
                             .on_published = on_published,
                             .on_documents = on_documents,
                             .arg = &s};
    double merges;

    work_queue_init(&work, l);
    cluster_metrics_init(&counts, m);
    s.publish = publish_new(&o);
    change(&s);
    if (!restless)
        gust(&s);
    ok(publish_want_protobuf(s.publish), "somebody wants them in protobuf form");
    sim_run_ms(l, STORM_MS);
    merges = metric_value(counts.merges);
    ok(merges >= 5, "%.0f merges end while %u changes come in two seconds", merges, s.changes);
    ok(served_merged(publish_current(s.publish), SERVED_V2_PROTOBUF) != NULL && s.told >= merges,
       "whoever waits for a document is told although it never rests (%u times)", s.told);
    loop_timer_free(s.timer);
    loop_defer_cancel(l, &s.again);
    publish_free(s.publish);
    work_queue_close(&work);
    disco_unref(s.disco);
    metrics_free(m);
    loop_free(l);
}

/* How often what is known is put together. */
static void collected(void)
{
    struct loop *l = loop_new(NULL);
    struct metrics *m = metrics_new();
    struct cluster_metrics counts;
    struct storm s = {.loop = l, .disco = some_disco(), .restless = false, .published = 1};
    struct work_queue work;
    struct publish_opts o = {.loop = l,
                             .work = &work,
                             .metrics = &counts,
                             .collect = collect,
                             .on_published = count_published,
                             .on_documents = on_documents,
                             .arg = &s};

    work_queue_init(&work, l);
    cluster_metrics_init(&counts, m);
    s.publish = publish_new(&o);
    change(&s);
    sim_run_ms(l, 100);
    s.collects = s.published = 0;
    change(&s);
    sim_run_ms(l, 100);
    is_u64(s.collects, 1, "one change is collected once");
    is_u64(s.published, 1, "and published once");
    publish_free(s.publish);
    work_queue_close(&work);
    disco_unref(s.disco);
    metrics_free(m);
    loop_free(l);
}

static void ask_again(void *arg)
{
    struct storm *s = arg;

    if (s->published++ < s->changes)
        publish_request(s->publish);
}

/* Whoever is told of the routing asks for a snapshot, while the documents for it are being merged. */
static void asked_meanwhile(unsigned times)
{
    struct loop *l = loop_new(NULL);
    struct metrics *m = metrics_new();
    struct cluster_metrics counts;
    struct storm s = {.loop = l, .disco = some_disco(), .changes = times};
    struct work_queue work;
    struct publish_opts o = {.loop = l,
                             .work = &work,
                             .metrics = &counts,
                             .collect = collect,
                             .on_published = ask_again,
                             .on_documents = on_documents,
                             .arg = &s};

    work_queue_init(&work, l);
    cluster_metrics_init(&counts, m);
    s.publish = publish_new(&o);
    publish_request(s.publish);
    sim_run_ms(l, 1000);
    ok(served_merged(publish_current(s.publish), SERVED_V2) != NULL && publish_settled(s.publish),
       "asked for %u times while it is made, a document is there all the same", times);
    publish_free(s.publish);
    work_queue_close(&work);
    disco_unref(s.disco);
    metrics_free(m);
    loop_free(l);
}

struct seen {
    struct storm s;
    uint64_t generation; /* of the last snapshot that was told */
};

static void see(void *arg)
{
    struct seen *s = arg;

    s->generation = served_generation(publish_current(s->s.publish));
}

/* Allocations until the new snapshot is there, without its documents. */
static uint64_t until_routed(struct seen *s)
{
    struct disco *disco = s->s.disco;
    uint64_t calls = mem_calls();

    s->s.disco = NULL; /* nothing is merged then */
    change(&s->s);
    sim_run_ms(s->s.loop, SOON_MS);
    s->s.disco = disco;
    return mem_calls() - calls;
}

/* The next allocation after these fails, of a change that is urgent or not. */
static void routed_alone(struct seen *s, uint64_t n, bool urgent)
{
    uint64_t before = s->generation;

    mem_fail_nth(n + 1);
    s->s.changes++;
    if (urgent)
        publish_request_now(s->s.publish);
    else
        publish_request(s->s.publish);
    sim_run_ms(s->s.loop, urgent ? 0 : ROUTED_MS);
    mem_fail_nth(0);
    ok(served_generation(publish_current(s->s.publish)) == before + 1 && s->generation == before + 1,
       "no memory to begin the merge: %s the routing is another all the same, which is told",
       urgent ? "at once" : "soon");
    ok(!publish_settled(s->s.publish), "and its documents are to come");
    sim_run_ms(s->s.loop, SOON_MS);
    ok(publish_settled(s->s.publish) && served_merged(publish_current(s->s.publish), SERVED_V2) != NULL,
       "a moment later they have");
}

static void told_of_routing(void)
{
    struct loop *l = loop_new(NULL);
    struct metrics *m = metrics_new();
    struct cluster_metrics counts;
    struct seen s = {.s = {.loop = l, .disco = some_disco()}};
    struct work_queue work;
    struct publish_opts o = {.loop = l,
                             .work = &work,
                             .metrics = &counts,
                             .collect = collect,
                             .on_published = see,
                             .on_documents = on_documents,
                             .arg = &s};
    uint64_t n;

    work_queue_init(&work, l);
    cluster_metrics_init(&counts, m);
    s.s.publish = publish_new(&o);
    change(&s.s);
    sim_run_ms(l, SOON_MS);
    n = until_routed(&s);
    change(&s.s);
    sim_run_ms(l, SOON_MS);
    routed_alone(&s, n, false);
    routed_alone(&s, n, true);
    publish_free(s.s.publish);
    work_queue_close(&work);
    disco_unref(s.s.disco);
    metrics_free(m);
    loop_free(l);
}

int main(void)
{
    without_memory();
    again();
    at_the_start();
    one_change();
    no_change();
    collected();
    storm(false);
    storm(true);
    asked_meanwhile(0);
    asked_meanwhile(1);
    asked_meanwhile(3);
    told_of_routing();
    return tap_end();
}
