/* SPDX-License-Identifier: Apache-2.0 */
/* List and watch against a server that does everything a server can do wrong. */
#include "cluster/informer.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/strmap.h"
#include "cluster/api.h"
#include "lib/tap.h"
#include "sim/cluster_kit.h"

struct recorder {
    struct cluster_kit w;
    struct api *api;
    struct informer *informer;
    struct strmap *objects; /* what the informer has told us of */
    unsigned synced, gone, failures, recoveries, objects_told;
    unsigned refuse; /* so many objects, for want of memory */
    unsigned large;
    char last[200], last_large[200];
};

static bool on_object(void *arg, struct slice key, struct slice json)
{
    struct recorder *r = arg;

    r->objects_told++;
    if (r->refuse > 0) {
        r->refuse--;
        return false;
    }
    (void)snprintf(r->last, sizeof(r->last), "%.*s", (int)key.n, key.p);
    if (json.n == 0 || json.p[0] != '{' || !strmap_put(r->objects, key, r, NULL))
        tap_bail("no object");
    return true;
}

static void on_gone(void *arg, struct slice key)
{
    struct recorder *r = arg;

    r->gone++;
    (void)strmap_remove(r->objects, key);
}

static void on_synced(void *arg)
{
    ((struct recorder *)arg)->synced++;
}

static void on_health(void *arg, const char *why)
{
    struct recorder *r = arg;

    if (why != NULL)
        r->failures++;
    else
        r->recoveries++;
}

static void on_too_large(void *arg, struct slice key)
{
    struct recorder *r = arg;

    r->large++;
    (void)snprintf(r->last_large, sizeof(r->last_large), "%.*s", (int)key.n, key.p);
}

static const struct informer_handler handler = {.on_object = on_object,
                                                .on_gone = on_gone,
                                                .on_too_large = on_too_large,
                                                .on_synced = on_synced,
                                                .on_health = on_health};

static void put(struct recorder *r, int i)
{
    char group[32];

    (void)snprintf(group, sizeof(group), "g%d", i);
    kube_put_apiservice(r->w.store, group, "v1", true);
}

static void del(struct recorder *r, int i)
{
    char name[32];

    (void)snprintf(name, sizeof(name), "v1.g%d", i);
    kube_delete(r->w.store, KUBE_APISERVICE, name);
}

static void start(struct recorder *r, uint64_t silence_ms)
{
    struct informer_opts o = {.name = "apiservices",
                              .path = "/apis/apiregistration.k8s.io/v1/apiservices",
                              .list_ceiling = 1 << 20,
                              .object_limit = 4096,
                              .silence_ms = silence_ms};

    memset(r, 0, sizeof(*r));
    cluster_kit_init(&r->w, KIT_BASE);
    put(r, 1);
    put(r, 2);
    r->objects = strmap_new();
    r->api = cluster_kit_api(&r->w, r->w.origin);
    o.api = r->api;
    r->informer = informer_new(&o, &handler, r);
    if (r->objects == NULL || r->informer == NULL)
        tap_bail("no memory");
    sim_run_ms(r->w.loop, 100);
    ok(informer_synced(r->informer) && informer_watching(r->informer), "listed, and watching");
    is_u64(strmap_count(r->objects), 2, "two objects");
}

static void end(struct recorder *r)
{
    informer_free(r->informer);
    api_free(r->api);
    strmap_free(r->objects);
    cluster_kit_end(&r->w);
}

static void ordinary(void)
{
    struct recorder r;

    start(&r, 0);
    put(&r, 3);
    del(&r, 1);
    sim_run_ms(r.w.loop, 10);
    is_str(r.last, "v1.g3", "an object that comes");
    is_u64(strmap_count(r.objects), 2, "and one that goes");
    sim_run_ms(r.w.loop, 60 * 60000);
    is_u64(kube_lists(r.w.store, KUBE_APISERVICE), 1, "an hour of timeouts needs no second list");
    is_int((int)r.failures, 0, "and is no failure");
    put(&r, 4);
    sim_run_ms(r.w.loop, 300);
    is_str(r.last, "v1.g4", "and the watch is open");
    end(&r);
}

static void broken_streams(void)
{
    struct recorder r;

    start(&r, 0);
    for (int i = 10; i < 60; i++) {
        sim_server_break(kube_sim(r.w.local));
        put(&r, i);
        sim_run_ms(r.w.loop, 11000);
    }
    is_u64(strmap_count(r.objects), 52, "nothing that happened between two watches is lost");
    is_u64(kube_lists(r.w.store, KUBE_APISERVICE), 1, "without listing again");
    is_int((int)r.failures, 50, "each break is said");
    is_int((int)r.recoveries, 50, "and each return");
    end(&r);
}

static void put_large(struct recorder *r, const char *name, size_t bytes)
{
    char *members = must_zalloc(bytes + 1);

    memset(members, ' ', bytes);
    memcpy(members, ",\"a\":1", 6);
    kube_put(r->w.store, KUBE_APISERVICE, name, ",\"namespace\":\"x\"", members);
    mem_free(members);
}

/* One that is too large is told as that, wherever it turns up, and everything else goes on. */
static void too_large(void)
{
    struct recorder r;

    start(&r, 0);
    put_large(&r, "big", 5000);
    put(&r, 3);
    sim_run_ms(r.w.loop, 10);
    is_int((int)r.large, 1, "told of an event");
    is_str(r.last_large, "x/big", "which it is");
    ok(strmap_get(r.objects, SLICE_LIT("v1.g3")) != NULL, "the next event is taken");
    put_large(&r, "big", 150000);
    sim_run_ms(r.w.loop, 10);
    is_int((int)r.large, 2, "and of a still larger one");
    put_large(&r, "big", 100);
    sim_run_ms(r.w.loop, 10);
    ok(strmap_get(r.objects, SLICE_LIT("x/big")) != NULL, "when it is smaller it is an object");
    put_large(&r, "big", 5000);
    kube_delete(r.w.store, KUBE_APISERVICE, "big");
    sim_run_ms(r.w.loop, 10);
    is_int((int)r.gone, 1, "that it goes is told");
    ok(kube_lists(r.w.store, KUBE_APISERVICE) == 1 && r.failures == 0 && informer_watching(r.informer),
       "without listing again, and no failure");
    for (int i = 0; i < 8; i++) {
        char name[16];

        (void)snprintf(name, sizeof(name), "big%d", i);
        put_large(&r, name, 150000); /* together more than the list may have */
    }
    sim_run_ms(r.w.loop, 10);
    informer_restart(r.informer);
    r.large = 0;
    sim_run_ms(r.w.loop, 1000);
    ok(kube_lists(r.w.store, KUBE_APISERVICE) == 2 && r.failures == 0 && r.synced == 2,
       "a list of which they are part");
    is_int((int)r.large, 8, "tells of each");
    is_u64(strmap_count(r.objects), 3, "and has the others");
    kube_delete(r.w.store, KUBE_APISERVICE, "big0");
    sim_run_ms(r.w.loop, 10);
    is_int((int)r.gone, 2, "and when one goes");
    end(&r);
}

static void expired(void)
{
    struct recorder r;

    start(&r, 0);
    sim_server_break(kube_sim(r.w.local));
    del(&r, 1);
    put(&r, 5);
    kube_compact(r.w.store);
    sim_run_ms(r.w.loop, 2000);
    is_u64(kube_lists(r.w.store, KUBE_APISERVICE), 2, "410: listed again");
    is_u64(strmap_count(r.objects), 2, "what vanished meanwhile is told as gone");
    is_int((int)r.gone, 1, "once");
    ok(informer_watching(r.informer), "and watched again");
    end(&r);
}

static bool has_recovered(void *arg)
{
    const struct recorder *r = arg;

    return r->recoveries > 0;
}

/* After a long absence the waits are long, but a server that answers 410 is there. */
static void expired_after_absence(void)
{
    struct recorder r;

    start(&r, 0);
    kube_sim(r.w.local)->fault = SIM_REFUSE;
    sim_server_break(kube_sim(r.w.local));
    sim_run_ms(r.w.loop, 60000);
    del(&r, 1);
    put(&r, 5);
    kube_compact(r.w.store);
    kube_sim(r.w.local)->fault = SIM_FINE;
    sim_run_until(r.w.loop, 20000, has_recovered, &r);
    is_int((int)r.recoveries, 1, "the server is back");
    sim_run_ms(r.w.loop, 1000);
    is_u64(kube_lists(r.w.store, KUBE_APISERVICE), 2, "and what it no longer knows is listed soon");
    is_int((int)r.gone, 1, "what vanished meanwhile is gone");
    end(&r);
}

static void bad_lines(void)
{
    static const char *const lines[] = {
        "this is no event\n",
        "{\"type\":\"ADDED\"}\n",
        "{\"type\":\"WHATEVER\",\"object\":{\"metadata\":{\"resourceVersion\":\"5\"}}}\n",
        "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"x\"}}}\n",
        "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"x\",\"resourceVersion\":\"5&x=y\"}}}\n",
        "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":500,\"message\":\"etcd is gone\"}}\n",
        "{\"type\":\"ERROR\",\"object\":{}}\n",
    };
    struct recorder r;
    char *long_line;

    start(&r, 0);
    for (size_t i = 0; i < ROWS(lines); i++) {
        uint64_t lists = kube_lists(r.w.store, KUBE_APISERVICE);

        kube_inject(r.w.store, KUBE_APISERVICE, lines[i]);
        sim_run_ms(r.w.loop, 15000);
        is_u64(kube_lists(r.w.store, KUBE_APISERVICE), lists + 1, "line %zu: resynchronised", i);
        ok(informer_watching(r.informer) && strmap_count(r.objects) == 2, "line %zu: all is well again", i);
    }
    long_line = must_zalloc(10001);
    memset(long_line, 'x', 10000);
    kube_inject(r.w.store, KUBE_APISERVICE, long_line);
    kube_inject(r.w.store, KUBE_APISERVICE, "\n");
    mem_free(long_line);
    sim_run_ms(r.w.loop, 15000);
    ok(informer_watching(r.informer) && strmap_count(r.objects) == 2, "a line over the limit: the same");
    kube_inject(r.w.store, KUBE_APISERVICE,
                "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"resourceVersion\":\"5000\"}}}\n");
    sim_run_ms(r.w.loop, 100);
    is_u64(strmap_count(r.objects), 2, "an object without name is skipped");
    end(&r);
}

static void half_open(void)
{
    struct recorder r;

    start(&r, 25000);
    kube_sim(r.w.local)->fault = SIM_HANG;
    put(&r, 7);
    sim_run_ms(r.w.loop, 20000);
    kube_sim(r.w.local)->fault = SIM_FINE;
    ok(strmap_get(r.objects, SLICE_LIT("v1.g7")) == NULL, "a silent stream tells nothing");
    sim_run_ms(r.w.loop, 6000);
    ok(strmap_get(r.objects, SLICE_LIT("v1.g7")) != NULL, "but is given up after its silence");
    end(&r);
    start(&r, 0);
    sim_run_ms(r.w.loop, 70000); /* a bookmark has come */
    kube_sim(r.w.local)->fault = SIM_HANG;
    put(&r, 7);
    sim_run_ms(r.w.loop, 1000);
    kube_sim(r.w.local)->fault = SIM_FINE;
    sim_run_ms(r.w.loop, 10000);
    kube_sim(r.w.local)->fault = SIM_HANG;
    sim_run_ms(r.w.loop, 130000);
    kube_sim(r.w.local)->fault = SIM_FINE;
    sim_run_ms(r.w.loop, 190000);
    ok(strmap_get(r.objects, SLICE_LIT("v1.g7")) != NULL, "a server that has sent bookmarks must go on sending them");
    end(&r);
}

static void unavailable(void)
{
    static const struct {
        unsigned status, refused;
    } rows[] = {{500, 0}, {503, 0}, {429, 0}, {403, 403}, {404, 404}, {401, 401}};
    struct recorder r;

    for (size_t i = 0; i < ROWS(rows); i++) {
        uint64_t before;

        start(&r, 0);
        kube_forbid(r.w.local, "/apis/apiregistration.k8s.io", rows[i].status);
        sim_server_break(kube_sim(r.w.local));
        before = kube_sim(r.w.local)->requests;
        sim_run_ms(r.w.loop, 10 * 60000);
        is_u64(informer_refused(r.informer), rows[i].refused, "%u: refused or not", rows[i].status);
        ok(informer_failure(r.informer) != NULL, "%u: %s", rows[i].status, informer_failure(r.informer));
        ok(kube_sim(r.w.local)->requests - before > 50 && kube_sim(r.w.local)->requests - before < 90,
           "%u: tried on, about every ten seconds", rows[i].status);
        kube_forbid(r.w.local, NULL, 0);
        put(&r, 9);
        sim_run_ms(r.w.loop, 13000);
        ok(informer_watching(r.informer) && informer_failure(r.informer) == NULL && !informer_refused(r.informer),
           "%u: works again", rows[i].status);
        is_u64(strmap_count(r.objects), 3, "%u: and has missed nothing", rows[i].status);
        end(&r);
    }
}

/* A server that no longer likes our resourceVersion, and does not say so with 410 (as "Too large resource version"). */
static void watches_refused(void)
{
    static const unsigned statuses[] = {504, 500, 429, 400};

    for (size_t i = 0; i < ROWS(statuses); i++) {
        struct recorder r;

        start(&r, 0);
        kube_forbid_watches(r.w.local, statuses[i]);
        sim_server_break(kube_sim(r.w.local));
        put(&r, 9);
        sim_run_ms(r.w.loop, 30000);
        ok(kube_lists(r.w.store, KUBE_APISERVICE) >= 2, "%u: listed again", statuses[i]);
        ok(kube_lists(r.w.store, KUBE_APISERVICE) <= 12, "%u: not in a tight loop", statuses[i]);
        is_u64(strmap_count(r.objects), 3, "%u: so that what happens is seen all the same", statuses[i]);
        kube_forbid_watches(r.w.local, 0);
        sim_run_ms(r.w.loop, 13000);
        ok(informer_watching(r.informer), "%u: watched again", statuses[i]);
        end(&r);
    }
}

/* etcd restored from a backup: what happens now is older than what we know, and a watch from there says nothing. */
static void restored(uint64_t silence_ms, uint64_t within_ms)
{
    struct recorder r;

    start(&r, silence_ms);
    for (int i = 10; i < 200; i++)
        put(&r, i);
    sim_run_ms(r.w.loop, 100);
    kube_restore(r.w.store, 150);
    del(&r, 1);
    put(&r, 300);
    sim_run_ms(r.w.loop, within_ms);
    ok(strmap_get(r.objects, SLICE_LIT("v1.g300")) != NULL && strmap_get(r.objects, SLICE_LIT("v1.g1")) == NULL,
       "what happened after a restore is known within %llu ms", (unsigned long long)within_ms);
    put(&r, 301);
    sim_run_ms(r.w.loop, 100);
    is_str(r.last, "v1.g301", "and followed");
    end(&r);
}

static void hot_loop(void)
{
    struct recorder r;
    uint64_t before;

    /* A server that ends every watch at once must not be asked in a tight loop. */
    start(&r, 0);
    before = kube_sim(r.w.local)->requests;
    for (int i = 0; i < 6000; i++) {
        sim_server_break(kube_sim(r.w.local));
        sim_run_ms(r.w.loop, 10);
    }
    ok(kube_sim(r.w.local)->requests - before < 30, "%llu requests in a minute",
       (unsigned long long)(kube_sim(r.w.local)->requests - before));
    end(&r);
}

/* What the handler could not keep is listed again, whether a list or a watch told of it. */
static void not_kept(void)
{
    struct recorder r;

    start(&r, 0);
    r.refuse = 3;
    put(&r, 3);
    sim_run_ms(r.w.loop, 5000);
    is_u64(strmap_count(r.objects), 3,
           "an event that could not be kept, nor two lists after it: it is there in the end");
    is_u64(kube_lists(r.w.store, KUBE_APISERVICE), 4, "by other lists");
    put(&r, 4);
    sim_run_ms(r.w.loop, 300);
    is_u64(strmap_count(r.objects), 4, "and the watch is open");
    end(&r);
}

static void restarted(void)
{
    struct recorder r;

    start(&r, 0);
    put(&r, 8);
    informer_restart(r.informer);
    sim_run_ms(r.w.loop, 100);
    is_u64(kube_lists(r.w.store, KUBE_APISERVICE), 2, "a restart lists again");
    is_u64(strmap_count(r.objects), 3, "and goes on");
    is_u64(kube_watches(r.w.store, KUBE_APISERVICE), 1, "with one watch");
    end(&r);
}

static void described(void)
{
    struct recorder r;
    struct buf b;

    start(&r, 0);
    buf_init(&b, 4096);
    informer_describe(r.informer, &b);
    buf_append_char(&b, '\0');
    ok(strstr(b.p, "\"state\":\"watching\"") != NULL, "%s", b.p);
    buf_free(&b);
    end(&r);
}

int main(void)
{
    ordinary();
    broken_streams();
    too_large();
    expired();
    expired_after_absence();
    bad_lines();
    half_open();
    unavailable();
    watches_refused();
    restored(25000, 40000);
    restored(0, 700000);
    hot_loop();
    restarted();
    not_kept();
    described();
    return tap_end();
}
