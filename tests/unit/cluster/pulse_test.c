/* SPDX-License-Identifier: Apache-2.0 */
/* A server that dies, or comes back, is noticed within two seconds, whatever it is and however it dies. */
#include "cluster/pulse.h"

#include <stdio.h>

#include "base/changes.h"
#include "base/clock.h"
#include "base/err.h"
#include "cluster/cluster.h"
#include "cluster/cluster_view.h"
#include "lib/tap.h"
#include "sim/cluster_kit.h"

enum { SOON_MS = 2000 };

static struct changes *start(struct cluster_kit *w)
{
    struct changes *c = changes_new();

    cluster_kit_init(w, KIT_BASE);
    w->opts.pulse = true;
    w->opts.changes = c;
    return c;
}

/* Of the server with this index; texts live until the world goes on. */
static struct cluster_server look(struct cluster_kit *w, size_t i)
{
    struct cluster_view v;
    struct cluster_server s;

    if (!cluster_view_take(w->cluster, &v) || i >= v.n)
        tap_bail("no such server");
    s = v.servers[i];
    cluster_view_free(&v);
    return s;
}

static bool is_told(const struct changes *c, enum change_kind kind, const char *who)
{
    const struct change *x;

    for (size_t i = 0; (x = changes_at(c, false, i)) != NULL; i++)
        if (x->kind == kind && strcmp(x->subject, who) == 0)
            return true;
    return false;
}

static const char *told_of(const struct changes *c, enum change_kind kind)
{
    const struct change *x;

    for (size_t i = 0; (x = changes_at(c, false, i)) != NULL; i++)
        if (x->kind == kind)
            return x->text;
    return "nothing";
}

static void dies(enum sim_fault fault, bool local)
{
    struct cluster_kit w;
    struct changes *c = start(&w);
    struct kube_server *b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH), *k;
    const char *name = local ? "cp-a" : "cp-b";
    uint64_t before;

    k = local ? w.local : b;
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    sim_run_ms(w.loop, SOON_MS);
    ok(look(&w, !local).answers == PULSE_ANSWERS && !look(&w, !local).failing, "%s answers", name);
    ok(strncmp(look(&w, !local).version, "v1.", 3) == 0, "and which version it is");
    before = kube_discovery_requests(k);
    sim_run_ms(w.loop, SOON_MS);
    is_u64(kube_discovery_requests(k), before, "that it answers is no reason to read its discovery");
    kube_sim(k)->fault = fault;
    sim_run_ms(w.loop, SOON_MS);
    ok(look(&w, !local).answers == PULSE_UNREACHABLE && look(&w, !local).failing, "%s is dead", name);
    ok(look(&w, !local).error != NULL && look(&w, !local).error_ms <= SOON_MS, "why and for how long");
    ok(is_told(c, CHANGE_FAILED, name), "it is in the list");
    ok((kube_sim(k)->suspected > 0) == (fault == SIM_HANG), "only connections to one that hangs are suspected");
    kube_sim(k)->fault = SIM_FINE; /* what hangs does so until its time is up */
    sim_run_ms(w.loop, fault == SIM_REFUSE ? SOON_MS : SOON_MS + PULSE_TIMEOUT_MS);
    ok(look(&w, !local).answers == PULSE_ANSWERS, "%s is back", name);
    ok(look(&w, !local).error != NULL, "the last error is still known");
    ok(is_told(c, CHANGE_RECOVERED, name), "in the list, too");
    ok(strstr(told_of(c, CHANGE_CAME), "before") == NULL && strstr(told_of(c, CHANGE_RECOVERED), "before") == NULL,
       "as the version that it is, and no other");
    cluster_kit_end(&w);
    changes_free(c);
}

/* The core group counts, as it does for skew; an upgrade is told as one. */
static void upgraded(void)
{
    struct cluster_kit w;
    struct changes *c = start(&w);
    struct kube_server *b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    char want[128];

    kube_set_core(w.local, "v1:pods,nodes");
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    sim_run_ms(w.loop, SOON_MS);
    is_u64(look(&w, 0).groups, 2, "apps and core");
    is_u64(look(&w, 0).resources, 4, "two resources of each");
    (void)snprintf(want, sizeof(want), ", before %s", look(&w, 1).version);
    kube_stop(b, false);
    sim_run_ms(w.loop, SOON_MS);
    kube_set_minor(b, 99);
    kube_start(b, 0);
    sim_run_ms(w.loop, SOON_MS);
    ok(strstr(told_of(c, CHANGE_RECOVERED), want) != NULL &&
           strstr(told_of(c, CHANGE_RECOVERED), "again, v1.99.") != NULL,
       "from which version to which: %s", told_of(c, CHANGE_RECOVERED));
    cluster_kit_end(&w);
    changes_free(c);
}

/* However long ago it was asked last. */
static void hangs_at_any_time(void)
{
    enum { STEP_MS = 90, PHASES = 14 };
    unsigned seen = 0;

    for (unsigned i = 0; i < PHASES; i++) {
        struct cluster_kit w;
        struct changes *c = start(&w);
        struct kube_server *b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);

        cluster_kit_start(&w);
        sim_run_ms(w.loop, 5000 + i * STEP_MS);
        kube_sim(b)->fault = SIM_HANG;
        sim_run_ms(w.loop, SOON_MS);
        seen += look(&w, 1).answers == PULSE_UNREACHABLE;
        cluster_kit_end(&w);
        changes_free(c);
    }
    is_u64(seen, PHASES, "within two seconds, whenever it begins to hang");
}

/* What it serves may be other than before: when it falls silent, is back, or is another version, that is read at once.
 */
static void discovery_follows(void)
{
    struct cluster_kit w;
    struct changes *c = start(&w);
    struct kube_server *b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    uint64_t before;

    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    sim_run_ms(w.loop, SOON_MS);
    before = kube_discovery_requests(b);
    is_u64(before, 2, "that it answers is no reason: /api and /apis were read once");
    kube_forbid(b, "/version", 503);
    sim_run_ms(w.loop, SOON_MS);
    ok(look(&w, 1).answers == PULSE_UNREACHABLE && kube_discovery_requests(b) > before, "it is silent: read");
    before = kube_discovery_requests(b);
    kube_forbid(b, NULL, 0);
    sim_run_ms(w.loop, SOON_MS);
    ok(look(&w, 1).answers == PULSE_ANSWERS && kube_discovery_requests(b) > before, "it is back: read");
    before = kube_discovery_requests(b);
    kube_set_minor(b, 99);
    sim_run_ms(w.loop, SOON_MS);
    ok(kube_discovery_requests(b) > before, "it is another version: read");
    cluster_kit_end(&w);
    changes_free(c);
}

/* Its discovery is read, which fails if this answers with that status; 0: it does not. */
static void read_with(struct cluster_kit *w, struct kube_server *k, const char *forbidden, unsigned status)
{
    struct err err = {.text = ""};

    kube_forbid(k, forbidden, status);
    ok(cluster_refresh_server(w->cluster, "cp-b", &err) != NULL, "its discovery is asked for");
    sim_run_ms(w->loop, SOON_MS);
}

static void shows(struct cluster_kit *w, bool failing, const char *error, const char *what)
{
    struct cluster_server s = look(w, 1);

    ok(s.failing == failing && s.error != NULL && strstr(s.error, error) != NULL, "%s: %s", what, s.error);
}

/* Of a server that answers its discovery's failure is shown, of one that does not why; when both are over, the last. */
static void which_failure(void)
{
    struct cluster_kit w;
    struct changes *c = start(&w);
    struct kube_server *b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);

    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    sim_run_ms(w.loop, SOON_MS);
    ok(look(&w, 1).error == NULL && !look(&w, 1).failing, "no failure");
    read_with(&w, b, "/api", 500);
    sim_run_ms(w.loop, 40000);
    shows(&w, true, "500", "it answers, and its discovery fails");
    ok(look(&w, 1).answers == PULSE_ANSWERS && look(&w, 1).error_ms < 35000, "tried in vain lately");
    read_with(&w, b, "/", 503);
    shows(&w, true, "it answers 503", "it does not answer, which matters more");
    read_with(&w, b, "/api", 500);
    shows(&w, true, "500", "it answers again, its discovery still fails");
    read_with(&w, b, NULL, 0);
    shows(&w, false, "500", "all is well, that was the last failure");
    read_with(&w, b, "/version", 503);
    shows(&w, true, "it answers 503", "it does not answer");
    read_with(&w, b, NULL, 0);
    shows(&w, false, "it answers 503", "all is well, this was the last failure");
    cluster_kit_end(&w);
    changes_free(c);
}

static uint64_t news(const struct changes *c)
{
    const struct change *x;
    uint64_t n = 0;

    for (size_t i = 0; (x = changes_at(c, false, i)) != NULL; i++)
        n += x->times;
    return n;
}

/* What is seen of the peer by those who read the night's outage. */
static void ages(void)
{
    struct cluster_kit w;
    struct changes *c = start(&w);
    struct kube_server *b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    uint64_t told;

    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    sim_run_ms(w.loop, SOON_MS);
    kube_forbid(b, "/version", 503);
    sim_run_ms(w.loop, 60000);
    ok(look(&w, 1).error_ms > 57000, "an error that stays is as old as the outage");
    kube_forbid(b, NULL, 0);
    kube_sim(b)->fault = SIM_REFUSE;
    sim_run_ms(w.loop, SOON_MS);
    ok(look(&w, 1).error_ms <= SOON_MS, "another error is young: %s", look(&w, 1).error);
    ok(look(&w, 1).answers_ms > 57000, "the outage is not");
    told = news(c);
    w.opts.peer_rule_changed = true; /* as new certificates: it is reached by another origin */
    ok(cluster_update(w.cluster, &w.opts), "a reload");
    ok(look(&w, 1).answers == PULSE_UNREACHABLE, "is no news of the server");
    sim_run_ms(w.loop, SOON_MS);
    ok(look(&w, 1).answers_ms > 57000, "nor makes an outage younger");
    is_u64(news(c), told, "nothing came or failed anew");
    kube_sim(b)->fault = SIM_FINE;
    sim_run_ms(w.loop, 2 * SOON_MS);
    told = news(c);
    ok(cluster_update(w.cluster, &w.opts), "another reload, while it answers");
    sim_run_ms(w.loop, SOON_MS);
    ok(look(&w, 1).answers == PULSE_ANSWERS && look(&w, 1).answers_ms > SOON_MS, "it answers as long as before");
    is_u64(news(c), told, "nothing came");
    cluster_kit_end(&w);
    changes_free(c);
}

/* An mvproxy says which server it stands before: what is asked there says nothing of the peer. */
static void leads_elsewhere(void)
{
    struct cluster_kit w;
    struct changes *c = start(&w);
    struct kube_server *b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH),
                       *d = cluster_kit_peer(&w, "cp-d", "10.0.0.4:6443", KIT_BATCH);

    kube_set_hop(b, kube_id(b));
    kube_set_hop(d, kube_id(b)); /* an address of cp-d that is really cp-b's */
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 8000), "ready, without its document");
    sim_run_ms(w.loop, SOON_MS);
    is_str(look(&w, 2).host, "cp-d", "the other one");
    is_str(look(&w, 2).leads_to, "cp-b", "who is there instead");
    ok(look(&w, 1).leads_to == NULL, "and the right one is itself");
    kube_set_hop(d, "apiserver-scg43bmblmfhqplxpiyqlziyzi");
    sim_run_ms(w.loop, SOON_MS);
    ok(look(&w, 2).leads_to == NULL, "of whom nobody knows nothing is said");
    kube_set_hop(d, kube_id(w.local));
    sim_run_ms(w.loop, SOON_MS);
    is_str(look(&w, 2).leads_to, "cp-a", "it may be this very server");
    kube_set_hop(d, kube_id(d));
    sim_run_ms(w.loop, SOON_MS);
    ok(look(&w, 2).leads_to == NULL, "corrected");
    kube_stop(d, false);
    kube_delete(w.store, KUBE_LEASE, kube_id(d));
    sim_run_ms(w.loop, 60000);
    ok(look(&w, 2).left && look(&w, 2).forgotten_in_ms > 230000 && look(&w, 2).forgotten_in_ms <= 240000,
       "one that left is forgotten in %llu ms", (unsigned long long)look(&w, 2).forgotten_in_ms);
    cluster_kit_end(&w);
    changes_free(c);
}

/* Which version of us is there is shown to operators, if it is a version. */
static void version_of_hop(void)
{
    static const char *const rows[][2] = {{"0.1.0", "0.1.0"}, {"0.2.0-rc.1", "0.2.0-rc.1"}, {"<b>1</b>", ""}};
    struct cluster_kit w;
    struct changes *c = start(&w);
    struct kube_server *b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);

    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    for (size_t i = 0; i < ROWS(rows); i++) {
        kube_set_hop(b, kube_id(b));
        kube_set_hop_version(b, rows[i][0]);
        sim_run_ms(w.loop, SOON_MS);
        is_str(look(&w, 1).mvproxy, rows[i][1], "an mvproxy that says it is %s", rows[i][0]);
    }
    cluster_kit_end(&w);
    changes_free(c);
}

static bool denies_early(const struct cluster_kit *w, struct kube_server *k)
{
    return cluster_peer_was_loading(w->cluster, kube_id(k), loop_now_ms(w->loop));
}

/* What a peer without an mvproxy denies when it has just come is not the truth, until its /readyz no longer says so. */
static void loading(void)
{
    struct cluster_kit w;
    struct changes *c = start(&w);
    struct kube_server *b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    uint64_t sent_ms, others;

    kube_fail_check(b, "informer-sync");
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    sim_run_ms(w.loop, SOON_MS);
    ok(look(&w, 1).answers == PULSE_ANSWERS && denies_early(&w, b), "a new one that has not read who may do what");
    sent_ms = loop_now_ms(w.loop);
    kube_fail_check(b, NULL);
    sim_run_ms(w.loop, SOON_MS);
    ok(!denies_early(&w, b), "it has");
    ok(cluster_peer_was_loading(w.cluster, kube_id(b), sent_ms), "what it was asked before may be wrong all the same");
    kube_fail_check(b, "informer-sync");
    sim_run_ms(w.loop, SOON_MS);
    ok(!denies_early(&w, b), "one that never went is not asked again");
    kube_stop(b, false);
    sim_run_ms(w.loop, SOON_MS);
    ok(denies_early(&w, b), "it is away: whoever answers next has just begun");
    kube_start(b, 0);
    sim_run_ms(w.loop, 4 * PULSE_LOADING_MS);
    ok(denies_early(&w, b), "and loads for as long as it says so");
    kube_fail_check(b, "poststarthook/apiservice-discovery-controller");
    sim_run_ms(w.loop, SOON_MS);
    ok(!denies_early(&w, b), "another check may fail for ever");
    others = kube_sim(b)->requests - kube_version_requests(b);
    sim_run_ms(w.loop, SOON_MS);
    ok(kube_sim(b)->requests - kube_version_requests(b) <= others + 2, "so it is not asked for ever");
    cluster_kit_end(&w);
    changes_free(c);
}

/* Whether it is good may be for nobody to know. */
static void loading_refused(unsigned status)
{
    struct cluster_kit w;
    struct changes *c = start(&w);
    struct kube_server *b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);

    kube_forbid(b, "/readyz", status);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    sim_run_ms(w.loop, SOON_MS);
    ok(denies_early(&w, b) == (status != 404), "asked for its /readyz a new peer says %u", status);
    sim_run_ms(w.loop, PULSE_LOADING_MS + SOON_MS);
    ok(!denies_early(&w, b), "then its denials count all the same");
    ok(look(&w, 1).answers == PULSE_ANSWERS, "it answers");
    cluster_kit_end(&w);
    changes_free(c);
}

/* An mvproxy in front of it does not relay what is not the truth. */
static void loading_behind_mvproxy(void)
{
    struct cluster_kit w;
    struct changes *c = start(&w);
    struct kube_server *b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);

    kube_set_hop(b, kube_id(b));
    kube_fail_check(b, "informer-sync");
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    sim_run_ms(w.loop, SOON_MS);
    ok(!denies_early(&w, b), "what it denies is denied");
    kube_forbid(b, "/version", 503);
    sim_run_ms(w.loop, SOON_MS);
    ok(!denies_early(&w, b), "also while its server is away");
    ok(!cluster_peer_was_loading(w.cluster, "nobody", 0), "nor does who is not known deny anything");
    cluster_kit_end(&w);
    changes_free(c);
}

static void off(void)
{
    struct cluster_kit w;
    struct changes *c = start(&w);

    w.opts.pulse = false;
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    sim_run_ms(w.loop, 5000);
    ok(look(&w, 0).answers == PULSE_UNKNOWN, "nobody asks");
    cluster_kit_end(&w);
    changes_free(c);
}

static void leases_unread(void)
{
    struct cluster_kit w;
    struct cluster_view v;
    struct changes *c = start(&w);

    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    ok(cluster_view_take(w.cluster, &v) && v.leases_failure == NULL, "Leases are followed");
    cluster_view_free(&v);
    kube_forbid(w.local, "/apis/coordination.k8s.io", 500);
    sim_server_break(kube_sim(w.local));
    sim_run_ms(w.loop, 30000);
    ok(cluster_view_take(w.cluster, &v) && v.leases_failure != NULL, "and then they are not");
    ok(v.leases_failure_ms > 1000 && v.leases_failure_ms <= 30000, "since they were refused");
    cluster_view_free(&v);
    cluster_kit_end(&w);
    changes_free(c);
}

static void count_host(void *arg, const char *host)
{
    *(unsigned *)arg += strcmp(host, "cp-b") == 0;
}

/* Who is away for long is not simply gone: its Lease is there. */
static void missing(void)
{
    struct cluster_kit w;
    struct changes *c = start(&w);
    struct kube_server *b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    unsigned n = 0;

    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    kube_stop(b, false);
    sim_run_ms(w.loop, 120000);
    cluster_each_missing(w.cluster, count_host, &n);
    ok(n == 0 && !look(&w, 1).missing, "two minutes: what it serves is known");
    sim_run_ms(w.loop, 300000);
    cluster_each_missing(w.cluster, count_host, &n);
    ok(n == 1 && look(&w, 1).missing, "seven minutes: it is missing");
    kube_put_lease(w.store, &(struct kube_lease){.name = "apiserver-aaaaaaaaaaaaaaaaaaaaaaaaaa",
                                                 .hostname = "cp-b",
                                                 .holder = "apiserver-aaaaaaaaaaaaaaaaaaaaaaaaaa_x",
                                                 .address = "10.0.0.2:6443",
                                                 .duration_s = 3600,
                                                 .renew_us = clock_wall_us()});
    sim_run_ms(w.loop, 1000);
    n = 0;
    cluster_each_missing(w.cluster, count_host, &n);
    is_u64(n, 0, "nobody misses what was left behind by who is there under another ID");
    cluster_kit_end(&w);
    changes_free(c);
}

static void leases_never_read(void)
{
    struct cluster_kit w;
    struct cluster_view v;
    struct changes *c = start(&w);

    kube_forbid(w.local, "/apis/coordination.k8s.io", 403);
    cluster_kit_start(&w);
    sim_run_ms(w.loop, 3000);
    if (!cluster_view_take(w.cluster, &v))
        tap_bail("out of memory");
    ok(cluster_leases_never(w.cluster) != NULL && v.leases_never && !cluster_leases_listed(w.cluster), "not one: %s",
       v.leases_failure);
    cluster_view_free(&v);
    kube_forbid(w.local, NULL, 0);
    sim_run_ms(w.loop, 60000);
    ok(cluster_leases_never(w.cluster) == NULL && cluster_leases_listed(w.cluster), "but then");
    kube_forbid(w.local, "/apis/coordination.k8s.io", 403);
    sim_server_break(kube_sim(w.local));
    sim_run_ms(w.loop, 60000);
    ok(cluster_leases_never(w.cluster) == NULL, "once is not never");
    cluster_kit_end(&w);
    changes_free(c);
}

static void memory(void)
{
    struct cluster_view v;
    struct cluster_kit w;
    struct changes *c = start(&w);

    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    mem_fail_nth(1);
    ok(!cluster_view_take(w.cluster, &v), "no view without memory");
    mem_fail_nth(0);
    cluster_kit_end(&w);
    changes_free(c);
}

/* ---- what others know ---- */

enum {
    MANY = 40,       /* servers: each is probed every 2 s only */
    PROBED_MS = 150, /* early, and answered */
};

struct many {
    struct cluster_kit w;
    struct changes *c;
    struct kube_server *b;
};

/* All answer; b is the one behind the local server in the view. */
static void start_many(struct many *m)
{
    char host[16], address[24];

    m->c = start(&m->w);
    m->b = cluster_kit_peer(&m->w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    for (int i = 2; i < MANY; i++) {
        (void)snprintf(host, sizeof(host), "cp-n%d", i);
        (void)snprintf(address, sizeof(address), "10.0.1.%d:6443", i);
        (void)cluster_kit_peer(&m->w, host, address, KIT_BATCH);
    }
    cluster_kit_start(&m->w);
    ok(cluster_kit_ready(&m->w, 3000), "ready");
    sim_run_ms(m->w.loop, 3 * SOON_MS);
}

static void end_many(struct many *m)
{
    cluster_kit_end(&m->w);
    changes_free(m->c);
}

static void run(struct many *m, uint64_t ms)
{
    sim_run_ms(m->w.loop, ms);
}

static uint64_t now(const struct many *m)
{
    return loop_now_ms(m->w.loop);
}

/* Until it has just been probed in vain: the next probe in turn is far. */
static void dies_of(struct many *m, enum sim_fault fault)
{
    uint64_t ms = 0;

    kube_sim(m->b)->fault = fault;
    for (; look(&m->w, 1).answers == PULSE_ANSWERS && ms < 3 * SOON_MS; ms++)
        run(m, 1);
    ok(look(&m->w, 1).answers == PULSE_UNREACHABLE, "it is dead");
    run(m, 1);
}

/* A client's request proves it. It is another version by now. */
static void client_is_answered(void)
{
    struct many m;
    struct cluster_server s;

    start_many(&m);
    dies_of(&m, SIM_REFUSE);
    cluster_server_answered(m.w.cluster, kube_id(m.b), now(&m) - 100);
    s = look(&m.w, 1);
    ok(s.answers == PULSE_UNREACHABLE && s.failing, "an answer to what was sent before proves nothing");
    cluster_server_answered(m.w.cluster, "apiserver-of-nobody", now(&m));
    run(&m, PROBED_MS);
    ok(look(&m.w, 1).answers == PULSE_UNREACHABLE, "nor does the probe that it is reason for");
    run(&m, 1);
    kube_sim(m.b)->fault = SIM_FINE;
    kube_set_minor(m.b, 99);
    cluster_server_answered(m.w.cluster, kube_id(m.b), now(&m));
    s = look(&m.w, 1);
    ok(s.answers == PULSE_ANSWERS && s.answers_ms < PROBED_MS, "it has answered: it is there, at once");
    ok(s.error != NULL && strncmp(s.version, "v1.34.", 6) == 0, "its last error, and what was its version");
    ok(!is_told(m.c, CHANGE_RECOVERED, "cp-b"), "it is told with its version");
    run(&m, PROBED_MS);
    ok(look(&m.w, 1).answers == PULSE_ANSWERS && strncmp(look(&m.w, 1).version, "v1.99.", 6) == 0,
       "and so it is, without waiting for its turn: %s", look(&m.w, 1).version);
    ok(strstr(told_of(m.c, CHANGE_RECOVERED), "again, v1.99.") != NULL, "%s", told_of(m.c, CHANGE_RECOVERED));
    end_many(&m);
}

/* Reading its discovery does as well. */
static void discovery_is_read(bool local)
{
    struct many m;
    struct cluster_server s;
    struct err err = {.text = ""};

    start_many(&m);
    if (local)
        m.b = m.w.local;
    kube_sim(m.b)->fault = SIM_REFUSE;
    run(&m, 3 * SOON_MS);
    ok(look(&m.w, !local).answers == PULSE_UNREACHABLE, "it is dead");
    kube_sim(m.b)->fault = SIM_FINE;
    kube_set_minor(m.b, 99);
    ok(cluster_refresh_server(m.w.cluster, local ? "cp-a" : "cp-b", &err) != NULL, "its discovery is asked for");
    run(&m, PROBED_MS);
    s = look(&m.w, !local);
    ok(s.answers == PULSE_ANSWERS && !s.failing && strncmp(s.version, "v1.99.", 6) == 0, "it is there: %s", s.version);
    end_many(&m);
}

/* Who dies again is dead, whatever old connections have still brought. */
static void dies_again(void)
{
    struct many m;
    uint64_t sent_ms;

    start_many(&m);
    dies_of(&m, SIM_REFUSE);
    kube_sim(m.b)->fault = SIM_FINE;
    sent_ms = now(&m);
    cluster_server_answered(m.w.cluster, kube_id(m.b), sent_ms);
    run(&m, PROBED_MS);
    ok(look(&m.w, 1).answers == PULSE_ANSWERS, "it is back");
    kube_sim(m.b)->fault = SIM_REFUSE;
    cluster_peer_suspect(m.w.cluster, kube_id(m.b));
    run(&m, PROBED_MS);
    ok(look(&m.w, 1).answers == PULSE_UNREACHABLE, "a request failed: it is dead again, known before its turn");
    cluster_server_answered(m.w.cluster, kube_id(m.b), sent_ms);
    ok(look(&m.w, 1).answers == PULSE_UNREACHABLE, "a late answer hides nothing");
    run(&m, PROBED_MS);
    ok(look(&m.w, 1).answers == PULSE_UNREACHABLE && look(&m.w, 1).failing, "nor later");
    end_many(&m);
}

/* A probe that hangs is not waited for, once others are answered; but only the next one says that it is well. */
static void hangs_no_more(void)
{
    struct many m;
    uint64_t before;

    start_many(&m);
    kube_forbid(m.b, "/version", 0);
    dies_of(&m, SIM_FINE);
    before = kube_sim(m.b)->requests;
    while (kube_sim(m.b)->requests == before)
        run(&m, 1);
    run(&m, PULSE_EARLY_MS);
    kube_forbid(m.b, NULL, 0);
    cluster_server_answered(m.w.cluster, kube_id(m.b), now(&m));
    ok(look(&m.w, 1).answers == PULSE_UNREACHABLE, "it answers others, and did not answer in time");
    run(&m, PULSE_EARLY_MS / 2);
    ok(look(&m.w, 1).answers == PULSE_ANSWERS, "now it does");
    end_many(&m);
}

/* /version alone fails, and there is much to do. */
static void no_storm(unsigned status, uint64_t delay_ms)
{
    struct many m;
    uint64_t before, told, suspected;

    start_many(&m);
    kube_forbid(m.b, "/version", status);
    kube_sim(m.b)->delay_ms = delay_ms;
    run(&m, 3 * SOON_MS);
    before = kube_sim(m.b)->requests;
    suspected = kube_sim(m.b)->suspected;
    told = news(m.c);
    for (unsigned ms = 0; ms < 10000; ms++) {
        cluster_server_answered(m.w.cluster, kube_id(m.b), now(&m));
        run(&m, 1);
    }
    ok(kube_sim(m.b)->requests - before <= 10000 / PULSE_EARLY_MS + 10, "%llu probes at most in ten seconds",
       (unsigned long long)(kube_sim(m.b)->requests - before));
    is_u64(news(m.c), told, "and nothing is told of it");
    is_u64(kube_sim(m.b)->suspected, suspected, "nor are connections suspected over which others are answered");
    kube_sim(m.b)->delay_ms = 0;
    end_many(&m);
}

/* Nor is who answers anyway asked more often for it. */
static void well_known(void)
{
    struct many m;
    uint64_t before;

    start_many(&m);
    before = kube_version_requests(m.b);
    for (unsigned ms = 0; ms < 10000; ms++) {
        cluster_server_answered(m.w.cluster, kube_id(m.b), now(&m));
        run(&m, 1);
    }
    ok(kube_version_requests(m.b) - before <= 10000 / SOON_MS + 1, "%llu probes in ten seconds",
       (unsigned long long)(kube_version_requests(m.b) - before));
    end_many(&m);
}

/* What was answered before a probe was sent says nothing of the time since. */
static void answered_before(void)
{
    struct many m;
    uint64_t asked;

    start_many(&m);
    kube_forbid(m.b, "/version", 0);
    asked = kube_sim(m.b)->requests;
    while (kube_sim(m.b)->requests == asked) {
        cluster_server_answered(m.w.cluster, kube_id(m.b), now(&m));
        run(&m, 1);
    }
    run(&m, PULSE_TIMEOUT_MS / 2);
    is_u64(kube_sim(m.b)->suspected, 0, "the probe still has time");
    run(&m, PULSE_TIMEOUT_MS);
    is_u64(kube_sim(m.b)->suspected, 1, "nothing since it was sent");
    kube_forbid(m.b, NULL, 0);
    end_many(&m);
}

/* Nobody's answers keep a slow server from ever having answered a probe. */
static void slow_one(void)
{
    struct many m;

    start_many(&m);
    dies_of(&m, SIM_REFUSE);
    kube_sim(m.b)->fault = SIM_FINE;
    kube_sim(m.b)->delay_ms = 1000;
    for (unsigned ms = 0; ms < 3 * SOON_MS; ms++) {
        cluster_server_answered(m.w.cluster, kube_id(m.b), now(&m));
        run(&m, 1);
    }
    ok(is_told(m.c, CHANGE_RECOVERED, "cp-b"), "it was probed, and answered");
    kube_sim(m.b)->delay_ms = 0;
    end_many(&m);
}

/* The local server, too: by clients' requests. */
static void local_is_known(void)
{
    struct many m;

    start_many(&m);
    kube_sim(m.w.local)->fault = SIM_REFUSE;
    cluster_local_failed(m.w.cluster, true);
    run(&m, PROBED_MS);
    ok(look(&m.w, 0).answers == PULSE_UNREACHABLE, "a request failed: the local server is dead");
    run(&m, 1);
    kube_sim(m.w.local)->fault = SIM_FINE;
    cluster_server_answered(m.w.cluster, NULL, now(&m));
    ok(look(&m.w, 0).answers == PULSE_ANSWERS, "a request was answered: it is there");
    end_many(&m);
}

int main(void)
{
    dies(SIM_REFUSE, true);
    dies(SIM_REFUSE, false);
    dies(SIM_HANG, true);
    dies(SIM_HANG, false);
    hangs_at_any_time();
    upgraded();
    discovery_follows();
    which_failure();
    ages();
    leads_elsewhere();
    version_of_hop();
    loading();
    loading_refused(403);
    loading_refused(401);
    loading_refused(404);
    loading_refused(0);
    loading_behind_mvproxy();
    off();
    leases_unread();
    missing();
    leases_never_read();
    memory();
    client_is_answered();
    discovery_is_read(true);
    discovery_is_read(false);
    dies_again();
    hangs_no_more();
    no_storm(503, 0);
    no_storm(0, 0);
    no_storm(503, 300);
    well_known();
    answered_before();
    slow_one();
    local_is_known();
    return tap_end();
}
