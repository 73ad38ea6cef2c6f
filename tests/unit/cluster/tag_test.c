/* SPDX-License-Identifier: Apache-2.0 */
/* What a server serves now is said in its Lease, and who knows something else reads it again. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metric.h"
#include "kube/server_id.h"
#include "lib/tap.h"
#include "sim/cluster_kit.h"

enum { ARENA = 1 << 20, AT_ONCE_MS = 250 };

struct story {
    struct cluster_kit w;
    struct kube_server *b;
    struct arena *arena;
    struct lease lease;
    struct metrics *metrics; /* of the mvproxy before b */
    struct origin *origin;
    struct cluster *other;
};

static bool look(struct story *s, const struct kube_server *k)
{
    char older[SERVER_ID_BYTES_126];

    arena_reset(s->arena);
    return kube_get_lease(s->w.store, kube_id(k), s->arena, &s->lease) ||
           (server_id_126_from_hostname(SLICE_LIT("cp-a"), older) &&
            kube_get_lease(s->w.store, older, s->arena, &s->lease));
}

static const char *tag_of(struct story *s, const struct kube_server *k, char text[LEASE_TAG_BYTES])
{
    bool there = look(s, k);

    (void)snprintf(text, LEASE_TAG_BYTES, "%.*s", there ? (int)s->lease.discovery.n : 0, s->lease.discovery.p);
    return text;
}

static void begin(struct story *s, enum identity_mode mode, unsigned minor)
{
    memset(s, 0, sizeof(*s));
    s->arena = arena_new(ARENA);
    cluster_kit_init(&s->w, KIT_BASE);
    s->w.opts.identity = mode;
    s->w.opts.advertise = "10.0.0.1:6443";
    s->w.opts.annotate = true;
    cluster_kit_without_lease(&s->w, minor);
    if (minor >= 26)
        kube_start(s->w.local, 0);
    s->b = cluster_kit_peer(&s->w, "cp-b", "10.0.0.2:6443", KIT_BASE);
    cluster_kit_start(&s->w);
    ok(cluster_kit_ready(&s->w, 2000), "ready");
    sim_run_ms(s->w.loop, 3000);
}

static void end(struct story *s)
{
    cluster_free(s->other);
    if (s->origin != NULL)
        origin_unref(s->origin);
    cluster_kit_end(&s->w);
    if (s->metrics != NULL)
        metrics_free(s->metrics);
    arena_free(s->arena);
}

/* The mvproxy before b, which takes this one for its server's host name. */
static void start_as(struct story *s, const char *hostname)
{
    const struct origin_opts o = {.name = "local",
                                  .host = "10.0.0.2",
                                  .port = 6443,
                                  .tls_cert = s->w.opts.peer_tls_cert,
                                  .tls_no_cert = s->w.opts.peer_tls_no_cert};
    struct cluster_opts opts = s->w.opts;

    s->metrics = metrics_new();
    s->origin = origin_new(s->w.back, &o);
    opts.hostname = hostname;
    opts.local = s->origin;
    opts.advertise = "10.0.0.2:6443";
    s->other = cluster_new(s->w.loop, s->w.back, s->metrics, &opts);
}

static void start_other(struct story *s)
{
    start_as(s, "cp-b");
    sim_run_ms(s->w.loop, 5000);
}

/* Written once for each state, into whoever's Lease it is, and not lost by renewals. */
static void written(enum identity_mode mode, unsigned minor)
{
    char first[LEASE_TAG_BYTES], now[LEASE_TAG_BYTES];
    struct story s;

    begin(&s, mode, minor);
    ok(strlen(tag_of(&s, s.w.local, first)) == LEASE_TAG_BYTES - 1, "1.%u: the Lease has a tag", minor);
    is_u64(kube_lease_writes(s.w.store, "TAG"), 1, "written once");
    sim_run_ms(s.w.loop, 120000);
    is_str(tag_of(&s, s.w.local, now), first, "two minutes later it is there");
    is_u64(kube_lease_writes(s.w.store, "TAG"), 1, "and was not written again");
    is_double(cluster_kit_metric(&s.w, "mvproxy_identity_lease_renewals_total", "conflict", NULL), 0,
              "nor in anybody's way");
    kube_set_apis(s.w.local, KIT_BATCH);
    cluster_refresh(s.w.cluster);
    sim_run_ms(s.w.loop, AT_ONCE_MS);
    ok(strcmp(tag_of(&s, s.w.local, now), first) != 0 && strlen(now) == LEASE_TAG_BYTES - 1,
       "another state, another tag, at once");
    kube_set_apis(s.w.local, KIT_BASE);
    cluster_refresh(s.w.cluster);
    sim_run_ms(s.w.loop, AT_ONCE_MS);
    is_str(tag_of(&s, s.w.local, now), first, "the same state, the same tag");
    sim_run_ms(s.w.loop, 30000);
    is_double(cluster_kit_metric(&s.w, "mvproxy_identity_lease_renewals_total", "yielded", NULL), 0, "nobody gave way");
    end(&s);
}

/* However often it changes, and whatever others do to it. */
static void bounded(void)
{
    char tag[LEASE_TAG_BYTES], now[LEASE_TAG_BYTES];
    struct story s;
    uint64_t before;

    begin(&s, IDENTITY_OBSERVE, 34);
    before = kube_lease_writes(s.w.store, "TAG");
    for (unsigned i = 0; i < 600; i++) {
        kube_set_apis(s.w.local, i % 2 == 0 ? KIT_BATCH : KIT_BASE ";batch/v2:jobs");
        cluster_refresh(s.w.cluster);
        sim_run_ms(s.w.loop, 100);
    }
    ok(kube_lease_writes(s.w.store, "TAG") - before <= 70, "600 changes in a minute are not 600 writes");
    sim_run_ms(s.w.loop, 11000);
    before = kube_lease_writes(s.w.store, "TAG");
    (void)tag_of(&s, s.w.local, tag);
    for (unsigned i = 0; i < 600; i++) {
        const struct kube_lease l = {.name = kube_id(s.w.local),
                                     .hostname = "cp-a",
                                     .holder = "x_x",
                                     .tag = "somebody-elses",
                                     .renew_us = clock_wall_us(),
                                     .duration_s = 3600};
        char holder[100];
        struct kube_lease mine = l;

        (void)snprintf(holder, sizeof(holder), "%s_x", kube_id(s.w.local));
        mine.holder = holder;
        kube_put_lease(s.w.store, &mine);
        sim_run_ms(s.w.loop, 100);
    }
    ok(kube_lease_writes(s.w.store, "TAG") - before <= 70, "nor is somebody fought who writes into it");
    sim_run_ms(s.w.loop, 25000);
    is_str(tag_of(&s, s.w.local, now), tag, "it is ours in the end");
    end(&s);
}

static void refused(void)
{
    char tag[LEASE_TAG_BYTES], now[LEASE_TAG_BYTES];
    struct story s;
    uint64_t requests;

    begin(&s, IDENTITY_OBSERVE, 34);
    (void)tag_of(&s, s.w.local, tag);
    kube_forbid_writes(s.w.local, 403);
    kube_set_apis(s.w.local, KIT_BATCH);
    cluster_refresh(s.w.cluster);
    sim_run_ms(s.w.loop, 1000);
    requests = kube_sim(s.w.local)->requests;
    sim_run_ms(s.w.loop, 600000);
    ok(kube_sim(s.w.local)->requests - requests < 200, "who may not write tries it now and then");
    ok(cluster_kit_ready(&s.w, 0), "and is ready");
    kube_forbid_writes(s.w.local, 0);
    sim_run_ms(s.w.loop, 65000);
    ok(strlen(tag_of(&s, s.w.local, now)) == LEASE_TAG_BYTES - 1 && strcmp(now, tag) != 0, "until it may");
    end(&s);
}

static unsigned long long looks(struct story *s, const struct kube_server *k)
{
    (void)s;
    return (unsigned long long)kube_discovery_requests(k);
}

static void put_tag(struct story *s, const char *tag)
{
    char holder[100];
    struct kube_lease l = {.name = kube_id(s->b),
                           .hostname = "cp-b",
                           .holder = holder,
                           .address = "10.0.0.2:6443",
                           .tag = tag,
                           .duration_s = 3600};

    (void)look(s, s->b);
    (void)snprintf(holder, sizeof(holder), "%.*s", (int)s->lease.holder.n, s->lease.holder.p);
    l.renew_us = s->lease.renew_us;
    kube_put_lease(s->w.store, &l);
}

/* One that lies about itself all the time costs a bounded number of looks at itself. */
static void lies(void)
{
    struct story s;
    unsigned long long before;

    begin(&s, IDENTITY_OFF, 34);
    kube_set_apis(s.b, KIT_BATCH);
    put_tag(&s, "another");
    sim_run_ms(s.w.loop, AT_ONCE_MS);
    ok(cluster_kit_peer_serves(&s.w, s.b, "batch", "v1", "jobs"), "another tag: read again at once");
    sim_run_ms(s.w.loop, 2000);
    before = looks(&s, s.b);
    for (unsigned i = 0; i < 1000; i++) {
        char tag[20];

        (void)snprintf(tag, sizeof(tag), "t%u", i);
        put_tag(&s, tag);
        sim_run_ms(s.w.loop, 10);
    }
    ok(looks(&s, s.b) - before <= 2 * 25, "1000 tags in 10 s: %llu requests", looks(&s, s.b) - before);
    put_tag(&s, "a-tag-that-is-longer-than-any-that-we-write-and-than-we-would-keep");
    ok(cluster_kit_peer_serves(&s.w, s.b, "batch", "v1", "jobs"), "it is served by all the same");
    end(&s);
}

/* A Lease that says what has been read already is no reason to ask. */
static void known_already(void)
{
    char tag[LEASE_TAG_BYTES];
    struct story s;
    unsigned long long before;

    begin(&s, IDENTITY_OBSERVE, 34);
    start_other(&s);
    (void)tag_of(&s, s.b, tag);
    cluster_free(s.other);
    s.other = NULL;
    before = looks(&s, s.b);
    put_tag(&s, "another");
    sim_run_ms(s.w.loop, 2000);
    ok(strlen(tag) == LEASE_TAG_BYTES - 1 && looks(&s, s.b) > before, "another tag: read again");
    before = looks(&s, s.b);
    put_tag(&s, tag);
    sim_run_ms(s.w.loop, 2000);
    is_u64(looks(&s, s.b), before, "the tag of what is known: it is not");
    end(&s);
}

/* Nor does one whose Lease says a thousand times that it is another process, out of turn. */
static void pretends(void)
{
    struct story s;
    unsigned long long before;

    begin(&s, IDENTITY_OFF, 34);
    before = looks(&s, s.b);
    for (unsigned i = 0; i < 1000; i++) {
        char holder[100];
        const struct kube_lease l = {.name = kube_id(s.b),
                                     .hostname = "cp-b",
                                     .holder = holder,
                                     .address = "10.0.0.2:6443",
                                     .renew_us = clock_wall_us(),
                                     .duration_s = 3600};

        (void)snprintf(holder, sizeof(holder), "%s_%u", kube_id(s.b), i);
        kube_put_lease(s.w.store, &l);
        sim_run_ms(s.w.loop, 10);
    }
    ok(looks(&s, s.b) - before <= 2 * 25, "1000 holders in 10 s: %llu requests", looks(&s, s.b) - before);
    kube_set_apis(s.b, KIT_BATCH);
    sim_run_ms(s.w.loop, 35000);
    ok(cluster_kit_peer_serves(&s.w, s.b, "batch", "v1", "jobs"), "what it serves is found out all the same");
    end(&s);
}

/*
 * A kube-apiserver before 1.35 keeps its holder, and its renewal came in time: only its own mvproxy knows that it is
 * another process. And a change without another process: a custom resource less.
 */
static void routed_at_once(void)
{
    struct story s;
    unsigned ms = 0;

    begin(&s, IDENTITY_OBSERVE, 34);
    start_other(&s);
    sim_run_ms(s.w.loop, 4000);
    ok(!cluster_kit_peer_serves(&s.w, s.b, "batch", "v1", "jobs"), "not there yet");
    kube_set_apis(s.b, KIT_BATCH);
    cluster_refresh(s.other); /* its own mvproxy has heard of it somehow */
    for (; ms < 5000 && !cluster_kit_peer_serves(&s.w, s.b, "batch", "v1", "jobs"); ms++)
        sim_run_ms(s.w.loop, 1);
    ok(ms <= AT_ONCE_MS, "what one node gained is routed by at the other after %u ms", ms);
    end(&s);
}

/* Peers that could not read it meanwhile go by its Lease, which we keep: it is renewed as soon as it is back. */
static void back_after(unsigned away_ms)
{
    struct story s;
    int64_t before;
    unsigned ms = 0;

    begin(&s, IDENTITY_AUTO, 24);
    s.w.opts.local_failover = true; /* so that it is asked whether it is back */
    cluster_update(s.w.cluster, &s.w.opts);
    sim_run_ms(s.w.loop, 20000);
    kube_stop(s.w.local, false);
    sim_run_ms(s.w.loop, away_ms);
    (void)look(&s, s.w.local);
    before = s.lease.renew_us;
    kube_sim(s.w.local)->fault = SIM_FINE;
    for (; ms < 10000 && look(&s, s.w.local) && s.lease.renew_us == before; ms++)
        sim_run_ms(s.w.loop, 1);
    ok(ms <= 1500, "away for %u s: renewed %u ms after it is back", away_ms / 1000, ms);
    end(&s);
}

/* The Lease that it has left behind is seen once more, and then it serves again what that one says. */
static void left_behind(struct story *s)
{
    char tag[LEASE_TAG_BYTES];

    put_tag(s, tag_of(s, s->b, tag));
    sim_run_ms(s->w.loop, 5000);
    kube_set_apis(s->b, KIT_BASE);
    cluster_refresh(s->other);
    sim_run_ms(s->w.loop, AT_ONCE_MS);
    ok(!cluster_kit_peer_serves(&s->w, s->b, "batch", "v2", "jobs"),
       "what an older Lease has said before is news as well");
}

/* Taken back to a version with another Lease, or with none of its own, while the one before is there still. */
static void taken_back(unsigned minor)
{
    struct story s;
    unsigned ms = 0;

    begin(&s, IDENTITY_AUTO, 34);
    start_other(&s);
    kube_stop(s.b, false);
    sim_run_ms(s.w.loop, 1000);
    kube_set_minor(s.b, minor);
    kube_pause_renewal(s.b, minor < 26);
    kube_set_apis(s.b, KIT_BATCH);
    kube_start_again(s.b, 0);
    for (; ms < 60000 && !cluster_kit_peer_serves(&s.w, s.b, "batch", "v1", "jobs"); ms++)
        sim_run_ms(s.w.loop, 1);
    ok(ms <= 2000, "taken back to 1.%u: what it has gained is routed by after %u ms", minor, ms);
    sim_run_ms(s.w.loop, 60000);
    ok(cluster_kit_peer_of(&s.w, s.b)->life == SERVED_LIVE, "and it stays live");
    kube_set_apis(s.b, KIT_BASE ";batch/v2:jobs");
    cluster_refresh(s.other);
    sim_run_ms(s.w.loop, AT_ONCE_MS);
    ok(cluster_kit_peer_serves(&s.w, s.b, "batch", "v2", "jobs"), "what comes later is known at once");
    if (minor == 26)
        left_behind(&s);
    end(&s);
}

/* Legacy discovery describes a resource in the same bytes whatever its group and version are called. */
static void renamed(const char *apis)
{
    char first[LEASE_TAG_BYTES], now[LEASE_TAG_BYTES];
    struct story s;

    begin(&s, IDENTITY_OBSERVE, 34);
    kube_set_apis(s.w.local, "apps/v1:deployments;batch/v1:jobs;batch/v2:jobs");
    kube_set_form(s.w.local, KUBE_LEGACY);
    cluster_refresh(s.w.cluster);
    sim_run_ms(s.w.loop, AT_ONCE_MS);
    (void)tag_of(&s, s.w.local, first);
    kube_set_apis(s.w.local, apis);
    cluster_refresh(s.w.cluster);
    sim_run_ms(s.w.loop, AT_ONCE_MS);
    ok(strcmp(tag_of(&s, s.w.local, now), first) != 0, "a legacy server has %s now: another tag", apis);
    end(&s);
}

/* After a restart its own mvproxy looks more than once: the first document may lack what is installed last. */
static void grows_after_its_start(void)
{
    struct story s;

    begin(&s, IDENTITY_OBSERVE, 34);
    start_other(&s);
    kube_stop(s.b, false);
    sim_run_ms(s.w.loop, 5000);
    kube_set_apis(s.b, "apps/v1:deployments");
    kube_start_again(s.b, 0);
    for (unsigned i = 0; i < 20 && cluster_served(s.other) != NULL && kube_discovery_requests(s.b) == 0; i++)
        sim_run_ms(s.w.loop, 100);
    sim_run_ms(s.w.loop, 1000);
    kube_set_apis(s.b, KIT_BATCH);
    sim_run_ms(s.w.loop, 2500);
    ok(cluster_kit_peer_serves(&s.w, s.b, "batch", "v1", "jobs"), "what comes a second after its start is known");
    end(&s);
}

/* An mvproxy that has written its address and is settled, in front of a server that does not; from here on to the log.
 */
static uint64_t begin_alone(struct story *s, FILE *log)
{
    begin(s, IDENTITY_AUTO, 34);
    kube_set_unadvertised(s->w.local);
    sim_run_ms(s->w.loop, 20000);
    log_set_stream(log);
    return kube_lease_writes(s->w.store, "PATCH");
}

static unsigned times(const char *text, const char *words)
{
    unsigned n = 0;

    for (const char *at = text; (at = strstr(at, words)) != NULL; at++)
        n++;
    return n;
}

/* By a copied hostname-override the mvproxy before b writes into the Lease of a, too. */
static void two_with_one_name(void)
{
    static const char words[] = "Another mvproxy writes its address into the Lease of this server again and again";
    char *text = NULL;
    size_t n = 0;
    FILE *log = open_memstream(&text, &n);
    uint64_t before, addresses, tags;
    struct story s;

    before = begin_alone(&s, log);
    start_as(&s, "cp-a");
    sim_run_ms(s.w.loop, 600000);
    addresses = kube_lease_writes(s.w.store, "PATCH") - before;
    tags = kube_lease_writes(s.w.store, "TAG");
    ok(addresses >= 15 && addresses <= 60, "%llu addresses in ten minutes, of both", (unsigned long long)addresses);
    ok(tags <= 300, "%llu tags", (unsigned long long)tags);
    (void)fflush(log);
    is_u64(times(text, words), 2, "each says once what is the matter");
    ok(strstr(text, "hostname-override") != NULL &&
           strstr(text, "hostname=\"cp-a\" address=\"10.0.0.2:6443\"") != NULL &&
           strstr(text, "hostname=\"cp-a\" address=\"10.0.0.1:6443\"") != NULL,
       "with the cause, and the other one's address");
    cluster_free(s.other);
    s.other = NULL;
    sim_run_ms(s.w.loop, 300000);
    (void)fflush(log);
    is_u64(times(text, "Nobody else writes an address into the server's own Lease any more"), 1, "and its end");
    ok(look(&s, s.w.local) && slice_eq(s.lease.advertise, SLICE_LIT("10.0.0.1:6443")), "whose address is there");
    log_set_stream(stderr);
    (void)fclose(log);
    free(text);
    end(&s);
}

/* Another one wrote twice and is gone; ours may not write any more: what is seen at each renewal is no write. */
static void seen_is_not_written(void)
{
    static const char words[] = "Another mvproxy writes its address into the Lease of this server again and again";
    char *text = NULL;
    size_t n = 0;
    FILE *log = open_memstream(&text, &n);
    struct story s;
    uint64_t before;

    before = begin_alone(&s, log);
    start_as(&s, "cp-a");
    for (int i = 0; i < 20000 && kube_lease_writes(s.w.store, "PATCH") < before + 3; i++) {
        sim_run_ms(s.w.loop, 1);
        if (kube_lease_writes(s.w.store, "PATCH") >= before + 2 && look(&s, s.w.local) &&
            slice_eq(s.lease.advertise, SLICE_LIT("10.0.0.1:6443")))
            kube_forbid_writes(s.w.local, 403);
    }
    sim_run_ms(s.w.loop, 3);
    cluster_free(s.other);
    s.other = NULL;
    is_u64(kube_lease_writes(s.w.store, "PATCH") - before, 3, "two of his, one of ours");
    sim_run_ms(s.w.loop, 120000);
    log_flush();
    log_set_stream(stderr);
    (void)fclose(log);
    is_u64(times(text, words), 0, "nobody writes again and again");
    free(text);
    end(&s);
}

int main(void)
{
    two_with_one_name();
    written(IDENTITY_OBSERVE, 34);
    written(IDENTITY_AUTO, 26);
    written(IDENTITY_AUTO, 24);
    bounded();
    refused();
    lies();
    known_already();
    pretends();
    routed_at_once();
    grows_after_its_start();
    for (unsigned ms = 1000; ms <= 20000; ms += 1000)
        back_after(ms);
    taken_back(26);
    taken_back(25);
    renamed("apps/v1:deployments;batch/v1:jobs;batch/v3:jobs");
    renamed("apps/v1:deployments;batch/v2:jobs;batch/v1:jobs");
    renamed("apps/v1:deployments;botch/v1:jobs;botch/v2:jobs");
    seen_is_not_written();
    return tap_end();
}
