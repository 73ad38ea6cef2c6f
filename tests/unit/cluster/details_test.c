/* SPDX-License-Identifier: Apache-2.0 */
/* Details of what is shown, asked and said, each of which somebody relies on. */
#include <stdio.h>
#include <stdlib.h>

#include "base/changes.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/metric.h"
#include "cluster/api.h"
#include "cluster/cluster_metrics.h"
#include "cluster/cluster_view.h"
#include "cluster/front_trust.h"
#include "cluster/lease_news.h"
#include "kube/request_header.h"
#include "lib/listen.h"
#include "lib/tap.h"
#include "sim/cluster_kit.h"

#define PEM "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
#define MAP(users)                                                                                                     \
    "{\"kind\":\"ConfigMap\",\"data\":{\"requestheader-client-ca-file\":\"-----BEGIN CERTIFICATE-----\\nAAAA\\n"       \
    "-----END CERTIFICATE-----\\n\",\"requestheader-username-headers\":\"[" users "]\"}}"
#define MAP_SAME MAP("\\\"X-Remote-User\\\"")
#define MAP_MORE MAP("\\\"X-Remote-User\\\",\\\"X-Login\\\"")

/* ---- views ---- */

/* What the view says of that server; texts live until the loop goes on. */
static struct cluster_server server_of(struct cluster_kit *w, const char *host)
{
    struct cluster_server found = {.id = NULL};
    struct cluster_view v;

    if (!cluster_view_take(w->cluster, &v))
        tap_bail("no view");
    for (size_t i = 0; i < v.n; i++)
        if (strcmp(v.servers[i].host, host) == 0)
            found = v.servers[i];
    cluster_view_free(&v);
    if (found.id == NULL)
        tap_bail("no such server");
    return found;
}

static struct kube_server *pair(struct cluster_kit *w)
{
    struct kube_server *b;

    cluster_kit_init(w, KIT_BASE);
    w->opts.pulse = true;
    b = cluster_kit_peer(w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    cluster_kit_start(w);
    ok(cluster_kit_ready(w, 5000), "ready");
    sim_run_ms(w->loop, 2000);
    return b;
}

static void views(void)
{
    struct cluster_server s;
    struct kube_server *b;
    struct cluster_kit w;

    b = pair(&w);
    s = server_of(&w, "cp-a");
    ok(s.local && !s.left && s.forgotten_in_ms == 0 && !s.ejected && !s.failing, "the local server");
    is_str(s.address, "10.0.0.1:6443", "its address");
    is_str(s.source, "configuration", "where that is from");
    is_str(s.life, "local", "it is the local one");
    is_u64(s.groups, 2, "its groups");
    s = server_of(&w, "cp-b");
    ok(!s.local && !s.left && s.forgotten_in_ms == 0 && !s.has_mvproxy && s.known && s.leased, "a peer");
    is_str(s.address, "10.0.0.2:6443", "its address");
    is_str(s.mvproxy, "", "nothing before it");
    is_u64(s.groups, 3, "its groups");
    kube_set_hop(b, kube_id(b));
    kube_set_hop_version(b, "1.10.11");
    sim_run_ms(w.loop, 2000);
    is_str(server_of(&w, "cp-b").mvproxy, "1.10.11", "an mvproxy before it");
    kube_set_hop_version(b, "1.2");
    sim_run_ms(w.loop, 2000);
    is_str(server_of(&w, "cp-b").mvproxy, "1.2", "of another version");
    kube_set_hop(b, kube_id(w.local));
    sim_run_ms(w.loop, 2000);
    is_str(server_of(&w, "cp-b").leads_to, "cp-a", "it leads to another server");
    kube_set_hop(b, NULL);
    sim_run_ms(w.loop, 2000);
    is_str(server_of(&w, "cp-b").mvproxy, "", "gone");
    ok(server_of(&w, "cp-b").leads_to == NULL, "and leads to nobody");
    kube_stop(b, true);
    sim_run_ms(w.loop, 1000);
    s = server_of(&w, "cp-b");
    ok(s.left && s.forgotten_in_ms > 290000 && s.forgotten_in_ms < 300000, "it has left: %llu",
       (unsigned long long)s.forgotten_in_ms);
    cluster_kit_end(&w);
}

/* The error that is shown is the last one. */
static void errors(void)
{
    static const unsigned statuses[] = {500, 503, 429, 500};
    char text[16];
    struct kube_server *b;
    struct cluster_kit w;

    b = pair(&w);
    ok(server_of(&w, "cp-b").error == NULL, "no error so far");
    for (size_t i = 0; i < ROWS(statuses); i++) {
        kube_forbid(b, "/api", statuses[i]);
        cluster_peer_suspect(w.cluster, kube_id(b));
        sim_run_ms(w.loop, 15000);
        (void)snprintf(text, sizeof(text), "%u", statuses[i]);
        ok(server_of(&w, "cp-b").failing && strstr(server_of(&w, "cp-b").error, text) != NULL, "%s: %s", text,
           server_of(&w, "cp-b").error);
    }
    kube_forbid(b, NULL, 0);
    sim_run_ms(w.loop, 15000);
    ok(!server_of(&w, "cp-b").failing && server_of(&w, "cp-b").error != NULL, "it is remembered");
    cluster_kit_end(&w);
}

/* ---- front proxies ---- */

static void begin_front(struct cluster_kit *w, const char *map)
{
    cluster_kit_init(w, KIT_BASE);
    w->opts.front = (struct request_header){.headers = user_headers_default(), .ca = slice_str(PEM)};
    w->opts.changes = changes_new();
    kube_set_map(w->local, map);
    listen_to_log();
    cluster_kit_start(w);
    sim_run_ms(w->loop, 3000);
}

static void end_front(struct cluster_kit *w)
{
    listen_no_more();
    cluster_free(w->cluster);
    w->cluster = NULL;
    changes_free(w->opts.changes);
    cluster_kit_end(w);
}

static void more_is_said_once(void)
{
    struct cluster_kit w;

    begin_front(&w, MAP_MORE);
    sim_run_ms(w.loop, 600000);
    is_u64(heard("API servers name headers for identities"), 1, "that servers name more is said once in ten minutes");
    kube_set_map(w.local, MAP_SAME);
    sim_run_ms(w.loop, 100000);
    kube_set_map(w.local, MAP_MORE);
    sim_run_ms(w.loop, 100000);
    is_u64(heard("API servers name headers for identities"), 2, "and when it is so again");
    is_str(cluster_front_more(w.cluster) == NULL ? "" : "more", "more", "which is shown");
    end_front(&w);
}

/* Nobody is asked any more when nobody is asserted, not even what is under way. */
static void not_asked(void)
{
    uint64_t asked;
    struct cluster_kit w;

    begin_front(&w, MAP_SAME);
    w.opts.front.headers = NULL;
    ok(cluster_update(w.cluster, &w.opts), "without a certificate for clients");
    asked = kube_map_requests(w.local);
    sim_run_ms(w.loop, 300000);
    is_u64(kube_map_requests(w.local), asked, "the servers' words are not asked for");
    w.opts.front.headers = user_headers_default();
    ok(cluster_update(w.cluster, &w.opts), "with one");
    sim_run_ms(w.loop, 10);
    is_u64(kube_map_requests(w.local), asked + 1, "they are, at once");
    end_front(&w);
}

/* What another server said is not what this one will say. */
static void another_server(void)
{
    static const struct slice login[] = {SLICE_LIT("X-Login")};
    struct user_headers headers = *user_headers_default();
    struct origin *other;
    char reason[200];
    struct cluster_kit w;

    begin_front(&w, MAP_SAME);
    headers.username = login;
    headers.n_username = 1;
    other = cluster_kit_origin(w.back, "other", "10.0.0.9");
    w.opts.front.headers = &headers;
    w.opts.local = other;
    ok(cluster_update(w.cluster, &w.opts), "a reload with another server and other words");
    ok(cluster_front_expected(w.cluster, reason, sizeof(reason)), "nothing is expected of it");
    w.opts.local = w.origin;
    ok(cluster_update(w.cluster, &w.opts), "back");
    sim_run_ms(w.loop, 5000);
    ok(!cluster_front_expected(w.cluster, reason, sizeof(reason)), "it has said otherwise: %s", reason);
    ok(!cluster_front_trusted(w.cluster, reason, sizeof(reason)), "and does");
    w.opts.front.headers = user_headers_default();
    ok(cluster_update(w.cluster, &w.opts), "as at first");
    origin_unref(other);
    end_front(&w);
}

static void names_count(void)
{
    static const char *const one[] = {"front-proxy-client", NULL}, *const two[] = {"front-proxy-client", "other", NULL};
    uint64_t asked;
    struct cluster_kit w;

    begin_front(&w, MAP_SAME);
    for (size_t i = 0; i < 3; i++) {
        asked = kube_map_requests(w.local);
        w.opts.front.names = i == 0 ? one : i == 1 ? two : NULL;
        ok(cluster_update(w.cluster, &w.opts), "other names of front proxies");
        sim_run_ms(w.loop, 1000);
        is_u64(kube_map_requests(w.local), asked + 1, "asked");
        ok(cluster_update(w.cluster, &w.opts), "the same");
        sim_run_ms(w.loop, 1000);
        ok(kube_map_requests(w.local) <= asked + 2, "not without end");
    }
    end_front(&w);
}

static void disbelieved(void)
{
    const struct change *c;
    struct cluster_kit w;

    begin_front(&w, MAP_SAME);
    w.opts.front_until_s = clock_wall_us() / 1000000 + 1000000;
    ok(cluster_update(w.cluster, &w.opts), "a certificate that is in date");
    sim_run_ms(w.loop, 1000);
    ok(changes_at(w.opts.changes, true, 0) == NULL, "nothing is wrong");
    kube_forbid(w.local, REQUEST_HEADER_PATH, 401);
    sim_run_ms(w.loop, FRONT_TRUST_DOUBT_MS + 200000);
    c = changes_at(w.opts.changes, true, 0);
    ok(c != NULL && strcmp(c->subject, "requestheader") == 0 && strstr(c->text, "answers 401") != NULL,
       "that it is not believed is among the changes");
    is_u64(c == NULL ? 0 : c->times, 1, "once");
    is_u64(heard("API server does not believe this front proxy"), 1, "and said once");
    kube_forbid(w.local, NULL, 0);
    sim_run_ms(w.loop, 200000);
    is_u64(heard("API server believes this front proxy"), 1, "and that it is again");
    end_front(&w);
}

/* ---- Leases and peers ---- */

static void large_lease(struct cluster_kit *w, const char *ns, const char *name)
{
    char *event = must_zalloc(LIMIT_LEASE_BYTES + 1000);
    int n = snprintf(event, 400,
                     "{\"type\":\"MODIFIED\",\"object\":{\"kind\":\"Lease\",\"metadata\":{\"name\":\"%s\","
                     "\"namespace\":\"%s\",\"resourceVersion\":\"9\",\"annotations\":{\"a\":\"",
                     name, ns);

    memset(event + n, 'a', LIMIT_LEASE_BYTES);
    (void)snprintf(event + n + LIMIT_LEASE_BYTES, 16, "\"}}}}\n");
    kube_inject(w->store, KUBE_LEASE, event);
    mem_free(event);
}

/* Of its own namespace only. */
static void too_large(void)
{
    struct kube_server *b;
    struct cluster_kit w;

    b = pair(&w);
    kube_pause_renewal(b, true);
    listen_to_log();
    large_lease(&w, "default", kube_id(b));
    sim_run_ms(w.loop, 1000);
    ok(cluster_kit_peer_of(&w, b)->life == SERVED_LIVE, "a large Lease of that name in another namespace");
    is_u64(heard("Ignoring a Lease that is no API server identity"), 1, "is said to be none");
    large_lease(&w, "default", kube_id(b));
    sim_run_ms(w.loop, 1000);
    is_u64(heard("Ignoring a Lease that is no API server identity"), 1, "once");
    large_lease(&w, "kube-system", kube_id(b));
    sim_run_ms(w.loop, 1000);
    ok(cluster_kit_peer_of(&w, b) == NULL || cluster_kit_peer_of(&w, b)->life != SERVED_LIVE,
       "one in its own place is no identity");
    listen_no_more();
    cluster_kit_end(&w);
}

/* Whoever was a static peer as well is at the address of its Lease then. */
static void not_static_any_more(void)
{
    const struct cluster_static_peer fixed = {.name = "cp-b", .host = "10.0.0.22", .port = 6443};
    struct kube_server *b;
    struct cluster_kit w;
    uint64_t asked;

    cluster_kit_init(&w, KIT_BASE);
    b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    w.opts.static_peers = &fixed;
    w.opts.n_static_peers = 1;
    cluster_kit_start(&w);
    sim_run_ms(w.loop, 10000);
    ok(cluster_kit_peer_of(&w, b) != NULL && !cluster_kit_peer_serves(&w, b, "batch", "v1", "jobs"),
       "nobody is at that address");
    kube_pause_renewal(b, true);
    w.opts.n_static_peers = 0;
    ok(cluster_update(w.cluster, &w.opts), "a reload without");
    asked = kube_discovery_requests(b);
    sim_run_ms(w.loop, 1000);
    ok(kube_discovery_requests(b) > asked && cluster_kit_peer_serves(&w, b, "batch", "v1", "jobs"),
       "asked where it is, soon");
    cluster_kit_end(&w);
}

/* Changes that were missed are listed again, and that is no failure. */
static void expired(void)
{
    uint64_t lists;
    struct cluster_kit w;

    (void)pair(&w);
    lists = kube_lists(w.store, KUBE_LEASE);
    listen_to_log();
    kube_inject(w.store, KUBE_LEASE,
                "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410,\"reason\":\"Expired\"}}\n");
    sim_run_ms(w.loop, 3000);
    ok(kube_lists(w.store, KUBE_LEASE) > lists && kube_lists(w.store, KUBE_LEASE) <= lists + 2, "listed again: %llu",
       (unsigned long long)(kube_lists(w.store, KUBE_LEASE) - lists));
    is_u64(heard("watch error"), 0, "without an error");
    listen_no_more();
    ok(cluster_leases_listed(w.cluster), "and known");
    cluster_kit_end(&w);
}

/* A definition has the group/version already when an APIService with a service names it. */
static void aggregated_later(void)
{
    struct cluster_kit w;

    (void)pair(&w);
    kube_put_crd(w.store, "things.x.io", "x.io", "v1 v");
    sim_run_ms(w.loop, 5000);
    ok(served_excluded(cluster_served(w.cluster), SLICE_LIT("x.io"), SLICE_LIT("v")), "a version of one letter");
    ok(!served_aggregated(cluster_served(w.cluster), SLICE_LIT("x.io"), SLICE_LIT("v1")), "a custom resource");
    kube_put_apiservice(w.store, "x.io", "v1", true);
    sim_run_ms(w.loop, 20);
    ok(served_aggregated(cluster_served(w.cluster), SLICE_LIT("x.io"), SLICE_LIT("v1")), "is aggregated at once");
    kube_delete(w.store, KUBE_APISERVICE, "v1.x.io");
    sim_run_ms(w.loop, 20);
    ok(!served_aggregated(cluster_served(w.cluster), SLICE_LIT("x.io"), SLICE_LIT("v1")), "and is not");
    cluster_kit_end(&w);
}

/* A watch that had events goes on where its server has ended it. */
static void busy_watch(void)
{
    char name[32];
    uint64_t lists;
    struct cluster_kit w;

    (void)pair(&w);
    lists = kube_lists(w.store, KUBE_CRD);
    for (unsigned i = 0; i < 60; i++) {
        (void)snprintf(name, sizeof(name), "c%u.x.io", i);
        kube_put_crd(w.store, name, "x.io", "v1");
        sim_run_ms(w.loop, 60000);
    }
    is_u64(kube_lists(w.store, KUBE_CRD), lists, "in an hour nothing is listed again");
    cluster_kit_end(&w);
}

/* The document is the same whatever order it has, and said once. */
static void said_once(void)
{
    struct cluster_kit w;
    unsigned said;

    listen_to_log();
    log_set_verbosity(2);
    (void)pair(&w);
    sim_run_ms(w.loop, 5000);
    said = heard("\"Merged discovery\"");
    ok(said == 1, "the merged document is said once: %u", said);
    kube_put_lease(w.store, &(struct kube_lease){.name = "apiserver-aaaaaaaaaaaaaaaaaaaaaaaaaa",
                                                 .hostname = "cp-x",
                                                 .holder = "apiserver-aaaaaaaaaaaaaaaaaaaaaaaaaa_x",
                                                 .address = "10.0.0.9:6443",
                                                 .duration_s = 3600,
                                                 .renew_us = clock_wall_us()});
    sim_run_ms(w.loop, 100000);
    is_u64(heard("\"Merged discovery\""), said, "and not again with each snapshot");
    kube_set_apis(w.local, KIT_BATCH);
    cluster_refresh(w.cluster);
    sim_run_ms(w.loop, 5000);
    is_u64(heard("\"Merged discovery\""), said, "nor when nothing comes by it");
    kube_set_apis(w.local, KIT_BATCH ";policy/v1:poddisruptionbudgets");
    cluster_refresh(w.cluster);
    sim_run_ms(w.loop, 5000);
    is_u64(heard("\"Merged discovery\""), said + 1, "but another one");
    log_set_verbosity(0);
    listen_no_more();
    cluster_kit_end(&w);
}

/* The first of those that live collects the Leases of the dead, whoever comes behind it. */
static void collects(void)
{
    enum { OTHERS = 40 };
    struct arena *a = arena_new(1 << 20);
    unsigned before = 0;
    struct lease l;
    struct cluster_kit w;
    bool there;

    cluster_kit_init(&w, KIT_BASE);
    cluster_kit_without_lease(&w, 24);
    w.opts.identity = IDENTITY_PUBLISH;
    w.opts.advertise = "10.0.0.1:16443";
    for (size_t i = 0; i < OTHERS; i++) {
        char address[32], host[16];
        struct kube_server *k;

        (void)snprintf(address, sizeof(address), "10.0.0.%zu:6443", i + 2);
        (void)snprintf(host, sizeof(host), "node-%zu", i);
        k = cluster_kit_peer(&w, host, address, KIT_BASE);
        if (strcmp(kube_id(k), kube_id(w.local)) < 0) {
            kube_stop(k, true);
            before++;
        }
    }
    ok(before > 0 && before < OTHERS, "%u come before us, and are away", before);
    kube_put_lease(w.store, &(struct kube_lease){.name = "apiserver-zzzzzzzzzzzzzzzzzzzzzzzzzz",
                                                 .hostname = "cp-z",
                                                 .holder = "apiserver-zzzzzzzzzzzzzzzzzzzzzzzzzz_x",
                                                 .duration_s = 3600,
                                                 .renew_us = 1});
    cluster_kit_start(&w);
    sim_run_ms(w.loop, 2 * 3600 * 1000);
    there = kube_get_lease(w.store, "apiserver-zzzzzzzzzzzzzzzzzzzzzzzzzz", a, &l);
    ok(!there, "the Lease of a dead server is collected");
    arena_free(a);
    cluster_kit_end(&w);
}

/* ---- what is written ---- */

static struct {
    void (*serve)(void *arg, struct sim_request *q);
    unsigned posts, patches, puts, others;
    char accept[64];
} seen;

/* In front of the server's own: which types of content it gets. */
static void look(void *arg, struct sim_request *q)
{
    struct slice type = sim_header(q, "Content-Type"), method = sim_method(q);

    if (slice_eq(method, SLICE_LIT("POST")) && slice_eq(type, SLICE_LIT("application/json")))
        seen.posts++;
    else if (slice_eq(method, SLICE_LIT("PUT")) && slice_eq(type, SLICE_LIT("application/json")))
        seen.puts++;
    else if (slice_eq(method, SLICE_LIT("PATCH")) && slice_eq(type, SLICE_LIT("application/merge-patch+json")))
        seen.patches++;
    else if (!slice_eq(method, SLICE_LIT("GET")))
        seen.others += !slice_eq(method, SLICE_LIT("DELETE")) || !slice_eq(type, SLICE_LIT("application/json"));
    seen.serve(arg, q);
}

/* An API server refuses a body of which it is not told what it is. */
static void typed(bool publishes)
{
    struct cluster_kit w;

    memset(&seen, 0, sizeof(seen));
    cluster_kit_init(&w, KIT_BASE);
    if (publishes) {
        cluster_kit_without_lease(&w, 24);
        kube_put_lease(w.store, &(struct kube_lease){.name = kube_id(w.local),
                                                     .hostname = "cp-a",
                                                     .holder = "left-behind",
                                                     .duration_s = 3600,
                                                     .renew_us = 1});
    } else {
        kube_set_unadvertised(w.local);
        kube_start(w.local, 0);
    }
    w.opts.identity = publishes ? IDENTITY_PUBLISH : IDENTITY_OBSERVE;
    w.opts.annotate = true;
    w.opts.advertise = "10.0.0.1:16443";
    seen.serve = kube_sim(w.local)->serve;
    kube_sim(w.local)->serve = look;
    cluster_kit_start(&w);
    sim_run_ms(w.loop, 30000);
    if (publishes)
        ok(seen.posts == 1 && seen.puts + seen.patches >= 2, "created and renewed: %u, %u, %u", seen.posts, seen.puts,
           seen.patches);
    else
        ok(seen.posts == 0 && seen.patches >= 1, "annotated: %u", seen.patches);
    is_u64(seen.others, 0, "with the type of what is sent");
    cluster_kit_end(&w);
}

static void on_written(void *arg, struct slice uid, struct slice version)
{
    (void)uid;
    (void)version;
    ++*(unsigned *)arg;
}

static bool is_told(struct cluster_kit *w, struct arena *a, const char *name)
{
    struct lease l;

    arena_reset(a);
    return kube_get_lease(w->store, name, a, &l) && slice_has_prefix(l.discovery, SLICE_LIT("0123456789abcdef."));
}

/* An address that leads to another server: nobody says that this one answers. */
static void answers_elsewhere(void)
{
    char *text = NULL;
    size_t n = 0;
    FILE *log = open_memstream(&text, &n);
    struct changes *changes = changes_new();
    const struct change *last;
    struct kube_server *b, *c;
    struct cluster_kit w;

    cluster_kit_init(&w, KIT_BASE);
    w.opts.pulse = true;
    w.opts.changes = changes;
    b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    c = cluster_kit_peer(&w, "cp-c", "10.0.0.3:6443", KIT_BATCH);
    kube_set_hop(b, kube_id(c)); /* its address is cp-c's */
    kube_set_hop(c, kube_id(c));
    log_set_verbosity(2);
    log_set_stream(log);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 8000), "ready");
    sim_run_ms(w.loop, 2000);
    (void)fflush(log);
    ok(strstr(text,
              "\"Address of a server leads to another one, which answers there\" server=\"cp-b\" leadsTo=\"cp-c\" "
              "address=\"10.0.0.2:6443\"") != NULL,
       "the log has it: %s", text);
    ok(strstr(text, "\"Server answers\" server=\"cp-b\"") == NULL, "and not that it answers");
    ok(strstr(text, "\"Server answers\" server=\"cp-c\"") != NULL, "as the other one does");
    last = changes_at(changes, false, 0);
    for (size_t i = 1; last != NULL && strcmp(last->subject, "cp-b") != 0; i++)
        last = changes_at(changes, false, i);
    ok(last != NULL && last->kind == CHANGE_FAILED && strstr(last->text, "its address leads to cp-c") != NULL,
       "and the changes: %s", last == NULL ? "" : last->text);
    for (unsigned i = 0; i < 20; i++) { /* an address that several have in turn */
        kube_set_hop(b, kube_id(i % 2 == 0 ? b : c));
        sim_run_ms(w.loop, 1500);
    }
    (void)fflush(log);
    ok(strstr(text, "\"Server answers again\" server=\"cp-b\"") == NULL, "what comes and goes is not told");
    kube_set_hop(b, kube_id(b));
    sim_run_ms(w.loop, PULSE_REASON_MS + 2000);
    (void)fflush(log);
    ok(strstr(text, "\"Server answers again\" server=\"cp-b\"") != NULL, "corrected");
    last = changes_at(changes, false, 0);
    ok(last != NULL && last->kind == CHANGE_RECOVERED && strcmp(last->subject, "cp-b") == 0, "the changes, too: %s",
       last == NULL ? "" : last->text);
    log_set_stream(stderr);
    log_set_verbosity(0);
    cluster_kit_end(&w);
    changes_free(changes);
    (void)fclose(log);
    free(text);
}

/* Another Lease stands for the server while the one before is written to. */
static void told_elsewhere(void)
{
    static const char *const names[] = {"apiserver-aaaaaaaaaaaaaaaaaaaaaaaaaa", "apiserver-bbbbbbbbbbbbbbbbbbbbbbbbbb"};
    struct arena *a = arena_new(1 << 20);
    struct cluster_metrics metrics;
    struct lease_news *n;
    char path[2][128];
    unsigned written = 0;
    struct api *api;
    struct cluster_kit w;

    cluster_kit_init(&w, KIT_BASE);
    cluster_metrics_init(&metrics, w.metrics);
    api = cluster_kit_api(&w, w.origin);
    for (size_t i = 0; i < 2; i++) {
        kube_put_lease(
            w.store,
            &(struct kube_lease){
                .name = names[i], .hostname = "cp-x", .holder = "x", .duration_s = 3600, .renew_us = clock_wall_us()});
        (void)snprintf(path[i], sizeof(path[i]), "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/%s",
                       names[i]);
    }
    n = lease_news_new(
        &(struct lease_news_opts){.api = api, .writes = metrics.identity_tags, .written = on_written, .arg = &written});
    lease_news_set(n, SLICE_LIT("0123456789abcdef"));
    lease_news_at(n, path[0]);
    kube_sim(w.local)->delay_ms = 100;
    sim_run_ms(w.loop, 10);
    lease_news_at(n, path[1]);
    sim_run_ms(w.loop, 1000);
    ok(is_told(&w, a, names[1]) && written == 1,
       "the one that counts now is written to, and nothing said of the other");
    lease_news_at(n, path[0]);
    sim_run_ms(w.loop, 1000);
    ok(is_told(&w, a, names[0]) && written == 2, "and back");
    lease_news_free(n);
    api_free(api);
    sim_run_ms(w.loop, 0);
    arena_free(a);
    cluster_kit_end(&w);
}

/* ---- ends ---- */

static void on_looked(void *arg)
{
    ++*(unsigned *)arg;
}

/* Whatever is under way, nothing comes after the end. */
static void ends_at_any_time(void)
{
    for (unsigned ms = 0; ms < 60; ms++) {
        unsigned called = 0, at_the_end;
        struct cluster_kit w;

        cluster_kit_init(&w, KIT_BASE);
        (void)cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
        cluster_kit_start(&w);
        sim_run_ms(w.loop, 1000);
        (void)cluster_local_miss(w.cluster, on_looked, &called);
        (void)cluster_want_protobuf(w.cluster, on_looked, &called);
        kube_set_apis(w.local, KIT_BATCH);
        cluster_refresh(w.cluster);
        sim_run_ms(w.loop, ms);
        at_the_end = called;
        cluster_free(w.cluster);
        w.cluster = NULL;
        sim_run_ms(w.loop, 5000);
        if (called != at_the_end)
            ok(false, "called after the end, at %u ms", ms);
        cluster_kit_end(&w);
    }
}

int main(void)
{
    views();
    errors();
    more_is_said_once();
    not_asked();
    another_server();
    names_count();
    disbelieved();
    too_large();
    not_static_any_more();
    expired();
    aggregated_later();
    busy_watch();
    said_once();
    collects();
    typed(true);
    typed(false);
    told_elsewhere();
    answers_elsewhere();
    ends_at_any_time();
    return tap_end();
}
