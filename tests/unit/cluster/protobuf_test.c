/* SPDX-License-Identifier: Apache-2.0 */
/* The merged documents in protobuf form: made when first wanted, then with every change; the same on all instances. */
#include <stdio.h>

#include "base/buf.h"
#include "kube/disco_parse.h"
#include "lib/proto_check.h"
#include "lib/tap.h"
#include "sim/cluster_kit.h"

static void count(void *arg)
{
    ++*(unsigned *)arg;
}

static const struct served_document *merged(struct cluster_kit *w, enum served_shape shape)
{
    return served_merged(cluster_served(w->cluster), shape);
}

/* Both forms are there, and say what the JSON forms do under the same tags. */
static void is_right(struct cluster_kit *w, const char *when)
{
    static const char *const api_versions[] = {DISCO_GROUP "/v2", DISCO_GROUP "/v2beta1"};

    for (size_t i = 0; i < SERVED_JSON_SHAPES; i++) {
        const struct served_document *json = merged(w, (enum served_shape)i);
        const struct served_document *proto = merged(w, (enum served_shape)(i + SERVED_JSON_SHAPES));
        struct err err = {.text = ""};
        struct disco_doc *doc;

        if (!ok(json != NULL && proto != NULL, "%s: %s is there", when, api_versions[i]))
            return;
        doc = disco_parse(json->body, &err);
        ok(doc != NULL && pb_agrees(proto->body, doc, api_versions[i]), "%s: %s says the same", when, api_versions[i]);
        ok(slice_eq(json->etag, proto->etag), "%s: under the same tag", when);
        ok((proto->gzip.n > 0) == (proto->body.n > 128 << 10), "%s: compressed if it is long", when);
        disco_doc_unref(doc);
    }
}

static void want(struct cluster_kit *w)
{
    unsigned called = 0;

    ok(cluster_want_protobuf(w->cluster, count, &called) != NULL && called == 0, "wanted");
    sim_run_ms(w->loop, 100);
    is_int(called, 1, "and told when they are there");
}

static void when_wanted(void)
{
    struct cluster_kit w;
    struct kube_server *b;
    struct cluster_waiter *gone;
    unsigned called = 0, forgotten = 0;

    cluster_kit_init(&w, KIT_BASE);
    b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    ok(merged(&w, SERVED_V2_PROTOBUF) == NULL, "nobody has wanted them: not made");
    ok(cluster_want_protobuf(w.cluster, count, &called) != NULL, "one");
    gone = cluster_want_protobuf(w.cluster, count, &forgotten);
    ok(cluster_want_protobuf(w.cluster, count, &called) != NULL, "and another want them");
    cluster_forget_waiter(w.cluster, gone);
    sim_run_ms(w.loop, 100);
    is_int(called, 2, "both are told");
    is_int(forgotten, 0, "who has gone is not");
    is_right(&w, "made");
    ok(cluster_want_protobuf(w.cluster, count, &called) == NULL, "nothing to wait for");
    kube_set_apis(b, KIT_BASE ";policy/v1:poddisruptionbudgets");
    cluster_refresh(w.cluster);
    sim_run_ms(w.loop, 100);
    ok(cluster_kit_merged_has(&w, "poddisruptionbudgets"), "a change");
    is_right(&w, "after a change");
    kube_set_apis(b, KIT_BASE);
    cluster_refresh(w.cluster);
    sim_run_ms(w.loop, 100);
    ok(slice_eq(merged(&w, SERVED_V2)->body, kube_document(w.local)), "nothing differs any more");
    is_right(&w, "nothing differs");
    cluster_kit_end(&w);
}

/* In the moment of a change: whoever is told has the new one. */
static void during_a_merge(void)
{
    struct cluster_kit w;
    struct kube_server *b;
    unsigned called = 0;

    cluster_kit_init(&w, KIT_BASE);
    b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    for (unsigned ms = 0; ms < 12; ms++) {
        kube_set_apis(b, ms % 2 == 0 ? KIT_BASE : KIT_BATCH);
        cluster_refresh(w.cluster);
        sim_run_ms(w.loop, ms);
        called = 0;
        if (cluster_want_protobuf(w.cluster, count, &called) == NULL)
            called = 1;
        sim_run_ms(w.loop, 500);
        is_int(called, 1, "wanted %u ms after a change", ms);
        is_right(&w, "then");
    }
    cluster_kit_end(&w);
}

/* Something changes all the time: whoever waits is called all the same. */
static void never_settled(void)
{
    struct cluster_kit w;
    struct kube_server *b;
    unsigned called = 0, ms = 0;

    cluster_kit_init(&w, KIT_BASE);
    b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    ok(cluster_want_protobuf(w.cluster, count, &called) != NULL, "wanted");
    for (; ms < 3000 && called == 0; ms++) {
        char name[40];

        (void)snprintf(name, sizeof(name), "g%u.example.com", ms);
        kube_put_crd(w.store, name, name, "v1");
        sim_run_ms(w.loop, 1);
    }
    ok(called == 1 && ms < 1000, "called after %u ms", ms);
    is_right(&w, "while things change");
    (void)b;
    cluster_kit_end(&w);
}

static void same_everywhere(void)
{
    struct cluster_kit a, b;

    cluster_kit_two(&a, KIT_BATCH, &b, KIT_BASE);
    want(&a);
    want(&b);
    /* The one encodes its local document, the other what it has merged. */
    ok(slice_eq(merged(&a, SERVED_V2_PROTOBUF)->body, merged(&b, SERVED_V2_PROTOBUF)->body), "the same bytes");
    ok(slice_eq(merged(&a, SERVED_V2_PROTOBUF)->etag, merged(&b, SERVED_V2_PROTOBUF)->etag), "the same tag");
    cluster_kit_end(&b);
    cluster_kit_end(&a);
}

static void big(void)
{
    struct cluster_kit w;
    struct buf apis;

    buf_init(&apis, 8 << 20);
    buf_append_str(&apis, KIT_BASE);
    for (int i = 0; i < 1500; i++)
        buf_printf(&apis, ";g%04d.example.com/v1:things%d,widgets%d", i, i, i);
    buf_append_char(&apis, '\0');
    cluster_kit_init(&w, KIT_BASE);
    cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", apis.p + apis.start);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 3000), "ready");
    want(&w);
    ok(merged(&w, SERVED_V2_PROTOBUF)->body.n > 128 << 10, "a long one");
    is_right(&w, "long");
    cluster_kit_end(&w);
    buf_free(&apis);
}

static void short_of_memory(void)
{
    unsigned missing = 0;

    for (uint64_t n = 1; n < 90; n++) {
        struct cluster_kit w;
        unsigned called = 0;

        cluster_kit_init(&w, KIT_BASE);
        cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
        cluster_kit_start(&w);
        (void)cluster_kit_ready(&w, 2000);
        mem_fail_nth(n);
        if (cluster_want_protobuf(w.cluster, count, &called) == NULL)
            called = 1;
        sim_run_ms(w.loop, 2000);
        mem_fail_nth(0);
        ok(called == 1 && merged(&w, SERVED_V2) != NULL, "allocation %llu fails: nobody waits for ever",
           (unsigned long long)n);
        missing += merged(&w, SERVED_V2_PROTOBUF) == NULL;
        kube_set_apis(w.local, KIT_BASE ";policy/v1:poddisruptionbudgets");
        cluster_refresh(w.cluster);
        sim_run_ms(w.loop, 1000);
        is_right(&w, "with the next change");
        cluster_kit_end(&w);
    }
    ok(missing > 0, "some were missing (%u)", missing);
}

int main(void)
{
    when_wanted();
    during_a_merge();
    never_settled();
    same_everywhere();
    big();
    short_of_memory();
    return tap_end();
}
