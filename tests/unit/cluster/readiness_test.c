/* SPDX-License-Identifier: Apache-2.0 */
/* The local server goes, comes back and starts: what is known of it when, and what asking costs. */
#include "cluster/readiness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cluster/pulse.h"
#include "lib/tap.h"
#include "sim/cluster_kit.h"

enum { SOON_MS = 20, POLLS_MS = 3 * READINESS_POLL_MS };
/* The longest until it is known by what is asked once a second: before each of two, if they are answered at once. */
enum { LOOKED_MS = READINESS_BAD_LOOKS * READINESS_LOOK_MS * 11 / 10 + SOON_MS };

static void start_with(struct cluster_kit *w, bool failover, bool pulse)
{
    cluster_kit_init(w, KIT_BASE);
    w->opts.pulse = pulse;
    w->opts.local_failover = failover;
    (void)cluster_kit_peer(w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    cluster_kit_start(w);
    ok(cluster_kit_ready(w, 2000), "ready");
    is_int(cluster_local_state(w->cluster), READINESS_READY, "the local server, too");
    is_int(cluster_peers_answer(w->cluster), failover, "its peer could answer, if it may");
}

static void start(struct cluster_kit *w, bool failover)
{
    start_with(w, failover, false);
}

static double active(struct cluster_kit *w)
{
    return cluster_kit_metric(w, "mvproxy_local_failover_active", NULL);
}

static void is_state(struct cluster_kit *w, enum readiness_state s, const char *when)
{
    is_str(readiness_name(cluster_local_state(w->cluster)), readiness_name(s), "%s", when);
    is_double(active(w), s == READINESS_READY ? 0 : 1, "shown so");
}

struct told {
    FILE *stream;
    size_t bytes;
    char *text;
};

static void listen_to_log(struct told *t)
{
    t->stream = open_memstream(&t->text, &t->bytes);
    if (t->stream == NULL)
        tap_bail("no memory stream");
    log_set_stream(t->stream);
}

/* Until it is freed `text` is what was logged. */
static void heard(struct told *t)
{
    log_flush();
    log_set_stream(stderr);
    (void)fclose(t->stream);
}

/* Nobody asks anything of it meanwhile: the watch of the Leases breaks, and that is enough. */
static void restart(void)
{
    struct cluster_kit w;
    struct told t;
    const char *after;
    char text[192];

    start(&w, true);
    listen_to_log(&t);
    kube_stop(w.local, false);
    sim_run_ms(w.loop, 10000);
    is_state(&w, READINESS_UNREACHABLE, "killed: noticed at once");
    ok(cluster_peers_answer(w.cluster), "its peer answers");
    kube_forbid(w.local, "/readyz", 500);
    kube_start(w.local, 0);
    sim_run_ms(w.loop, POLLS_MS);
    is_state(&w, READINESS_STARTING, "it answers, but is not ready");
    cluster_local_describe(w.cluster, text, sizeof(text));
    ok(strstr(text, "active for ") != NULL && strstr(text, "starting") != NULL && strstr(text, "no peer") == NULL,
       "said so: %s", text);
    kube_forbid(w.local, NULL, 0);
    sim_run_ms(w.loop, POLLS_MS);
    is_state(&w, READINESS_READY, "now it is");
    heard(&t);
    after = strstr(t.text, "server is ready\" afterMilliseconds=");
    ok(after != NULL && strtol(strchr(after, '=') + 1, NULL, 10) >= 10000, "after the whole outage: %s", t.text);
    free(t.text);
    cluster_kit_end(&w);
}

/* While it is away the pauses before each next attempt grow; when it is ready nothing waits for their end. */
static void away_for_long(void)
{
    struct cluster_kit w;

    start(&w, true);
    for (int i = 0; i < 10; i++) {
        kube_stop(w.local, false);
        sim_run_ms(w.loop, 300000);
        is_u64(kube_watches(w.store, KUBE_CRD) + kube_watches(w.store, KUBE_LEASE), 0, "away: nothing is watched");
        kube_start(w.local, 0);
        for (int ms = 0; ms < 60000 && cluster_local_state(w.cluster) != READINESS_READY; ms++)
            sim_run_ms(w.loop, 1);
        sim_run_ms(w.loop, 100);
        ok(kube_watches(w.store, KUBE_CRD) > 0 && kube_watches(w.store, KUBE_LEASE) > 0, "ready: all is at once");
    }
    cluster_kit_end(&w);
}

/* Nobody takes over: that is not said, then. */
static void alone(void)
{
    struct cluster_kit w;
    char text[192];

    cluster_kit_init(&w, KIT_BASE);
    w.opts.pulse = true;
    w.opts.local_failover = true;
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    kube_stop(w.local, false);
    sim_run_ms(w.loop, SOON_MS);
    cluster_local_describe(w.cluster, text, sizeof(text));
    ok(strstr(text, "active for ") != NULL && strstr(text, ", and no peer answers for it") != NULL, "alone: %s", text);
    cluster_kit_end(&w);
}

/* As without etcd: /version is answered as ever, /readyz after so long that nobody waits for it. */
static void readyz_hangs(void)
{
    struct cluster_kit w;
    char reason[192] = "";

    start(&w, true);
    ok(cluster_local_reachable(w.cluster, reason, sizeof(reason)), "it can be reached: %s", reason);
    kube_forbid(w.local, "/readyz", 0);
    cluster_local_failed(w.cluster, false);
    sim_run_ms(w.loop, READINESS_TIMEOUT_MS + SOON_MS);
    is_state(&w, READINESS_UNREACHABLE, "it does not say whether it is ready: peers answer");
    ok(!cluster_local_reachable(w.cluster, reason, sizeof(reason)), "and that is not to be ready: %s", reason);
    kube_forbid(w.local, "/readyz", 500);
    sim_run_ms(w.loop, POLLS_MS);
    is_state(&w, READINESS_STARTING, "it says that it is not");
    kube_forbid(w.local, "/readyz", 0);
    sim_run_ms(w.loop, READINESS_POLL_MS + READINESS_TIMEOUT_MS + SOON_MS);
    is_state(&w, READINESS_STARTING, "no other state because it is slow to say it again");
    ok(!cluster_local_reachable(w.cluster, reason, sizeof(reason)), "not ready: %s", reason);
    kube_forbid(w.local, NULL, 0);
    sim_run_ms(w.loop, READINESS_TIMEOUT_MS + POLLS_MS);
    is_state(&w, READINESS_READY, "now it is");
    ok(cluster_local_reachable(w.cluster, reason, sizeof(reason)), "for all to see");
    cluster_kit_end(&w);
}

/* Then all that is said of it says the same. */
static void named_alike(void)
{
    static const char says[] = "the local kube-apiserver answers /version, but is not ready (its etcd?)";
    char reason[192] = "", text[192];
    struct cluster_kit w;

    start_with(&w, true, true);
    kube_forbid(w.local, "/readyz", 0);
    cluster_local_failed(w.cluster, false);
    sim_run_ms(w.loop, READINESS_TIMEOUT_MS + 2 * PULSE_TIMEOUT_MS + SOON_MS);
    ok(!cluster_local_reachable(w.cluster, reason, sizeof(reason)) && strstr(reason, says) == reason, "not ready: %s",
       reason);
    cluster_local_describe(w.cluster, text, sizeof(text));
    ok(strstr(text, "active for ") == text && strstr(text, says) != NULL, "failover: %s", text);
    cluster_kit_end(&w);
}

/* It hangs, and nobody has asked it anything that could fail. */
static void hangs_unasked(void)
{
    struct cluster_kit w;

    start_with(&w, true, true);
    kube_sim(w.local)->fault = SIM_HANG;
    sim_run_ms(w.loop, PULSE_INTERVAL_MS * 3 / 2 + PULSE_TIMEOUT_MS + READINESS_TIMEOUT_MS + SOON_MS);
    is_state(&w, READINESS_UNREACHABLE, "peers answer soon");
    kube_sim(w.local)->fault = SIM_FINE;
    sim_run_ms(w.loop, READINESS_TIMEOUT_MS + POLLS_MS);
    is_state(&w, READINESS_READY, "until it answers");
    kube_forbid(w.local, "/version", 0);
    sim_run_ms(w.loop, 10000);
    is_state(&w, READINESS_READY, "that it does not tell its version is another matter");
    cluster_kit_end(&w);
}

/* It was away for so short a time that nobody saw it away. */
static void restart_unseen(void)
{
    struct cluster_kit w;

    start(&w, true);
    kube_forbid(w.local, "/readyz", 500);
    kube_stop(w.local, false);
    kube_start_again(w.local, 0);
    sim_run_ms(w.loop, SOON_MS);
    is_state(&w, READINESS_STARTING, "another process that is starting");
    kube_forbid(w.local, "/readyz", 403);
    sim_run_ms(w.loop, POLLS_MS);
    is_state(&w, READINESS_READY, "who may not ask takes it for ready");
    cluster_kit_end(&w);
}

/* Some requests fail all the time, whatever it is well for, each while it is asked: it has answered since the one
 * before. */
static void failing_requests(void)
{
    struct cluster_kit w;

    start(&w, true);
    kube_sim(w.local)->delay_ms = 10;
    kube_stop(w.local, false);
    sim_run_ms(w.loop, 5000);
    is_state(&w, READINESS_UNREACHABLE, "it is away");
    kube_start(w.local, 0);
    for (unsigned ms = 0; ms < POLLS_MS; ms++) {
        cluster_local_failed(w.cluster, false);
        sim_run_ms(w.loop, 1);
    }
    is_state(&w, READINESS_READY, "it is back, whoever says that his request has failed");
    cluster_kit_end(&w);
}

/* A check that fails for another reason than a start changes nothing, and nobody polls a server that is well. */
static void nothing_happened(void)
{
    struct cluster_kit w;

    start(&w, true);
    kube_forbid(w.local, "/readyz", 500);
    sim_run_ms(w.loop, 5000);
    is_state(&w, READINESS_READY, "unready, but it never went away");
    kube_forbid(w.local, NULL, 0);
    cluster_local_failed(w.cluster, false);
    sim_run_ms(w.loop, SOON_MS);
    is_state(&w, READINESS_READY, "a lost connection of a server that is well");
    cluster_local_failed(w.cluster, true);
    is_state(&w, READINESS_UNREACHABLE, "one that could not be made: at once");
    sim_run_ms(w.loop, SOON_MS);
    is_state(&w, READINESS_READY, "until it is asked");
    cluster_kit_end(&w);
}

static bool was_loading(const struct cluster_kit *w, uint64_t sent_ms)
{
    return cluster_local_was_loading(w->cluster, sent_ms);
}

/* It denies what it will allow until it has read who may do what, and then its denials are true, ready or not. */
static void loading(void)
{
    static const char *const unread[] = {"informer-sync", "poststarthook/generic-apiserver-start-informers",
                                         "poststarthook/rbac/bootstrap-roles"};
    uint64_t sent_ms = 0;
    struct cluster_kit w;

    start(&w, true);
    ok(!was_loading(&w, loop_now_ms(w.loop)), "ready: what it denies is denied");
    kube_stop(w.local, false);
    sim_run_ms(w.loop, 10000);
    ok(was_loading(&w, loop_now_ms(w.loop)), "away: whoever answers has just started");
    kube_start(w.local, 0);
    for (size_t i = 0; i < sizeof(unread) / sizeof(*unread); i++) {
        kube_fail_check(w.local, unread[i]);
        sim_run_ms(w.loop, POLLS_MS);
        is_state(&w, READINESS_STARTING, unread[i]);
        sent_ms = loop_now_ms(w.loop);
        ok(was_loading(&w, sent_ms), "it may allow it later");
    }
    kube_fail_check(w.local, "poststarthook/apiservice-discovery-controller");
    sim_run_ms(w.loop, POLLS_MS);
    is_state(&w, READINESS_STARTING, "another check, which may fail for ever");
    ok(!was_loading(&w, loop_now_ms(w.loop)), "what it denies is denied");
    ok(was_loading(&w, sent_ms), "but not what it was asked before");
    kube_fail_check(w.local, NULL);
    sim_run_ms(w.loop, POLLS_MS);
    is_state(&w, READINESS_READY, "ready");
    ok(!was_loading(&w, loop_now_ms(w.loop)), "so it stays");
    cluster_kit_end(&w);
}

static enum api_word word(const struct cluster_kit *w)
{
    return cluster_local_word(w->cluster, loop_now_ms(w->loop));
}

/* Peers take what it lists for all that there is only if its /readyz was good before, and nothing has happened since.
 */
static void told_to_peers(void)
{
    struct cluster_kit w;
    uint64_t sent_ms;

    start(&w, true);
    sent_ms = loop_now_ms(w.loop);
    sim_run_ms(w.loop, SOON_MS);
    is_int(word(&w), API_WORD_READY, "ready");
    cluster_local_failed(w.cluster, false);
    is_int(word(&w), API_WORD_NONE, "a request failed: who answers next may be another process");
    is_int(cluster_local_word(w.cluster, sent_ms), API_WORD_NONE, "or was it already");
    sim_run_ms(w.loop, SOON_MS);
    is_int(word(&w), API_WORD_READY, "it is the same");
    is_int(cluster_local_word(w.cluster, sent_ms), API_WORD_NONE, "what was sent before that was known may not be");
    kube_stop(w.local, false);
    kube_fail_check(w.local, "informer-sync");
    sim_run_ms(w.loop, 10000);
    kube_start(w.local, 0);
    sim_run_ms(w.loop, POLLS_MS);
    is_int(word(&w), API_WORD_LOADING, "it starts");
    sent_ms = loop_now_ms(w.loop);
    kube_fail_check(w.local, "poststarthook/crd-informer-synced");
    sim_run_ms(w.loop, POLLS_MS);
    is_int(word(&w), API_WORD_NONE, "it has read who may do what, and is not ready");
    kube_fail_check(w.local, NULL);
    sim_run_ms(w.loop, POLLS_MS);
    is_int(word(&w), API_WORD_READY, "it is");
    is_int(cluster_local_word(w.cluster, sent_ms), API_WORD_LOADING, "what was sent while it was loading");
    kube_fail_check(w.local, "poststarthook/crd-informer-synced");
    sim_run_ms(w.loop, LOOKED_MS);
    is_state(&w, READINESS_READY, "a check that fails");
    is_int(word(&w), API_WORD_NONE, "makes it doubtful");
    kube_fail_check(w.local, NULL);
    sim_run_ms(w.loop, LOOKED_MS);
    is_int(word(&w), API_WORD_READY, "until it is good again");
    cluster_kit_end(&w);
}

/* Who may not ask, or does not, cannot say. */
static void not_told_to_peers(bool failover)
{
    struct cluster_kit w;

    cluster_kit_init(&w, KIT_BASE);
    w.opts.local_failover = failover;
    if (failover)
        kube_forbid(w.local, "/readyz", 403);
    cluster_kit_start(&w);
    sim_run_ms(w.loop, 5000);
    is_int(cluster_local_state(w.cluster), READINESS_READY, "taken for ready");
    is_int(word(&w), API_WORD_NONE, "but not known to be");
    cluster_kit_end(&w);
}

/* Its etcd is away, and no request fails: what it has cached it answers, and writes hang. */
static void etcd_goes(const char *check)
{
    char reason[192] = "";
    struct cluster_kit w;
    struct told t;

    start_with(&w, true, true);
    sim_run_ms(w.loop, 5000);
    listen_to_log(&t);
    kube_fail_check(w.local, check);
    sim_run_ms(w.loop, LOOKED_MS);
    heard(&t);
    is_state(&w, READINESS_STARTING, "its etcd is away: peers answer");
    ok(!cluster_local_reachable(w.cluster, reason, sizeof(reason)) && strstr(reason, "etcd fails") != NULL &&
           strstr(reason, "starting") == NULL,
       "so it is not ready, and does not start: %s", reason);
    ok(strstr(t.text, "is not ready\" state=\"unready\"") != NULL, "nor in the log: %s", t.text);
    free(t.text);
    is_int(kube_sim(w.local)->given_up, 1, "and what waits there goes elsewhere");
    ok(!was_loading(&w, loop_now_ms(w.loop)), "what it denies is denied: it has read who may do what");
    sim_run_ms(w.loop, 60000);
    is_state(&w, READINESS_STARTING, "for as long");
    is_int(kube_sim(w.local)->given_up, 1, "once: whoever asks it now has nobody else");
    kube_fail_check(w.local, NULL);
    sim_run_ms(w.loop, POLLS_MS);
    is_state(&w, READINESS_READY, "it is back");
    cluster_kit_end(&w);
}

/* As etcd goes for real: at first there is no answer. */
static void etcd_hangs(void)
{
    char reason[192] = "";
    struct cluster_kit w;

    start_with(&w, true, true);
    sim_run_ms(w.loop, 5000);
    kube_forbid(w.local, "/readyz", 0);
    sim_run_ms(w.loop, READINESS_LOOK_MS * 11 / 10 + READINESS_BAD_LOOKS * READINESS_LOOK_TIMEOUT_MS +
                           READINESS_POLL_MS + SOON_MS);
    is_state(&w, READINESS_UNREACHABLE, "in five seconds: peers answer");
    is_int(kube_sim(w.local)->given_up, 1, "and what waits there goes elsewhere");
    kube_forbid(w.local, NULL, 0);
    kube_fail_check(w.local, "etcd");
    sim_run_ms(w.loop, READINESS_TIMEOUT_MS + POLLS_MS);
    is_state(&w, READINESS_STARTING, "then it says what it is");
    ok(!cluster_local_reachable(w.cluster, reason, sizeof(reason)) && strstr(reason, "is not ready: ") != NULL &&
           strstr(reason, "starting") == NULL,
       "an etcd that fails makes no starting process of it: %s", reason);
    kube_fail_check(w.local, NULL);
    sim_run_ms(w.loop, READINESS_TIMEOUT_MS + POLLS_MS);
    is_state(&w, READINESS_READY, "it is back");
    cluster_kit_end(&w);
}

/* Neither one bad answer now and then, nor one late one, nor a check that fails for another reason. */
static void passing_trouble(void)
{
    static const char *const others[] = {"poststarthook/apiservice-discovery-controller", "etcd-override-0",
                                         "etcd-override-readiness-0", "shutdown"};
    struct cluster_kit w;
    struct told t;

    start(&w, true);
    listen_to_log(&t);
    for (unsigned i = 0; i < 50; i++) {
        kube_fail_check(w.local, "etcd");
        sim_run_ms(w.loop, READINESS_LOOK_MS * 9 / 10 - SOON_MS);
        kube_fail_check(w.local, NULL);
        sim_run_ms(w.loop, READINESS_LOOK_MS * 11 / 10 + SOON_MS);
        kube_forbid(w.local, "/readyz", 0);
        sim_run_ms(w.loop, READINESS_LOOK_MS);
        kube_forbid(w.local, NULL, 0);
        sim_run_ms(w.loop, 3000);
    }
    heard(&t);
    ok(strstr(t.text, "is not ready") == NULL, "it is never away: %s", t.text);
    free(t.text);
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
        kube_fail_check(w.local, others[i]);
        sim_run_ms(w.loop, 20000);
        is_state(&w, READINESS_READY, others[i]);
    }
    cluster_kit_end(&w);
}

static size_t times_said(const char *log, const char *what)
{
    size_t n = 0;

    while ((log = strstr(log, what)) != NULL) {
        log += strlen(what);
        n++;
    }
    return n;
}

/* It takes longer to answer than a look waits, and less than other questions do. */
static void slow(void)
{
    struct cluster_kit w;
    struct told t;

    start(&w, true);
    kube_sim(w.local)->delay_ms = (READINESS_LOOK_TIMEOUT_MS + READINESS_TIMEOUT_MS) / 2;
    sim_run_ms(w.loop, 10000);
    listen_to_log(&t);
    sim_run_ms(w.loop, 60000);
    heard(&t);
    is_state(&w, READINESS_READY, "slow: it is there");
    is_u64(times_said(t.text, "is not ready"), 0, "and does not come and go");
    free(t.text);
    kube_sim(w.local)->fault = SIM_HANG;
    sim_run_ms(w.loop, 6000 + READINESS_TIMEOUT_MS); /* what was under way is answered */
    is_state(&w, READINESS_UNREACHABLE, "that it hangs then is known six seconds after its last answer");
    kube_sim(w.local)->fault = SIM_FINE;
    kube_sim(w.local)->delay_ms = 5;
    sim_run_ms(w.loop, 20000);
    is_state(&w, READINESS_READY, "it is back, and quick");
    kube_sim(w.local)->fault = SIM_HANG;
    sim_run_ms(w.loop, 5000);
    is_state(&w, READINESS_UNREACHABLE, "that a quick one hangs is known in five");
    cluster_kit_end(&w);
}

static bool count_readyz(void *arg, struct sim_request *q)
{
    unsigned *n = arg;

    *n += slice_eq(sim_path(q), SLICE_LIT("/readyz"));
    return false;
}

/* Nobody but its own mvproxy asks a server, and that once a second while it is well. */
static void asked_seldom(void)
{
    unsigned n = 0;
    struct cluster_kit w;

    start(&w, true);
    kube_set_extra(w.local, count_readyz, &n);
    sim_run_ms(w.loop, 60000);
    ok(n >= 45 && n <= 56, "a minute: %u questions", n);
    cluster_kit_end(&w);
}

static void switched_off(void)
{
    struct cluster_kit w;
    struct cluster_opts o;
    char text[192];

    start(&w, false);
    kube_stop(w.local, false);
    cluster_local_failed(w.cluster, true);
    sim_run_ms(w.loop, SOON_MS);
    is_state(&w, READINESS_READY, "switched off: nothing is said against it");
    cluster_local_describe(w.cluster, text, sizeof(text));
    is_str(text, "off", "nor asked");
    o = w.opts;
    o.local_failover = true;
    cluster_update(w.cluster, &o);
    ok(cluster_fails_over(w.cluster), "a reload switches it on");
    sim_run_ms(w.loop, SOON_MS);
    is_state(&w, READINESS_UNREACHABLE, "and it is asked at once");
    o.local_failover = false;
    cluster_update(w.cluster, &o);
    is_state(&w, READINESS_READY, "and off again");
    cluster_kit_end(&w);
}

/* Nobody asks it any more: it counts as ready, and nothing says that it is. */
static void no_longer_asked(bool by_reload)
{
    struct cluster_kit w;
    struct cluster_opts o;
    struct told t;

    start(&w, true);
    kube_stop(w.local, false);
    sim_run_ms(w.loop, SOON_MS);
    is_state(&w, READINESS_UNREACHABLE, "it is away");
    listen_to_log(&t);
    o = w.opts;
    o.local_failover = false;
    if (by_reload)
        cluster_update(w.cluster, &o);
    cluster_kit_end(&w);
    heard(&t);
    ok(strstr(t.text, "server is ready") == NULL, "%s: %s", by_reload ? "switched off" : "shutdown", t.text);
    free(t.text);
}

/* Each request that fails invalidates: a flood of them is no flood of questions. */
static void invalidated_often(void)
{
    struct cluster_kit w;
    uint64_t before;

    start(&w, true);
    sim_run_ms(w.loop, 1000);
    before = kube_sim(w.local)->requests;
    for (unsigned i = 0; i < 2000; i++) {
        cluster_local_failed(w.cluster, false);
        sim_run_ms(w.loop, 1);
    }
    before = kube_sim(w.local)->requests - before;
    ok(before > 20 && before <= 60, "2000 invalidations in 2 s: %llu questions", (unsigned long long)before);
    kube_stop(w.local, false);
    sim_run_ms(w.loop, 2 * READINESS_SPACING_MS);
    is_state(&w, READINESS_UNREACHABLE, "and then it is gone");
    cluster_kit_end(&w);
}

int main(void)
{
    invalidated_often();
    restart();
    away_for_long();
    alone();
    restart_unseen();
    readyz_hangs();
    slow();
    loading();
    told_to_peers();
    not_told_to_peers(true);
    not_told_to_peers(false);
    named_alike();
    hangs_unasked();
    failing_requests();
    nothing_happened();
    etcd_goes("etcd");
    etcd_goes("etcd-readiness");
    etcd_hangs();
    passing_trouble();
    asked_seldom();
    switched_off();
    no_longer_asked(true);
    no_longer_asked(false);
    return tap_end();
}
