/* SPDX-License-Identifier: Apache-2.0 */
/* A line of the log for every change of what is believed: who, what, why. */
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "kube/lease.h"
#include "lib/tap.h"
#include "sim/cluster_kit.h"

enum { WORDS = 5 };

struct story {
    struct cluster_kit w;
    struct kube_server *b;
    FILE *stream;
    char *text;
    size_t bytes;
};

static void listen(struct story *s)
{
    s->stream = open_memstream(&s->text, &s->bytes);
    if (s->stream == NULL)
        tap_bail("no memory stream");
    log_set_stream(s->stream);
}

static void stop_listening(struct story *s)
{
    log_flush();
    log_set_stream(stderr);
    (void)fclose(s->stream);
}

/* One line has all these words. */
static bool said(const struct story *s, const char *const words[WORDS])
{
    struct slice rest = slice_of(s->text, s->bytes), line;

    while (slice_split(&rest, '\n', &line)) {
        bool all = true;

        for (size_t i = 0; all && i < WORDS && words[i] != NULL; i++)
            all = line.n > 0 && memmem(line.p, line.n, words[i], strlen(words[i])) != NULL;
        if (all)
            return true;
    }
    return false;
}

/* ---- what happens ---- */

static void starts(struct story *s)
{
    cluster_kit_start(&s->w);
}

static void changes(struct story *s)
{
    kube_set_apis(s->b, KIT_BASE ";policy/v1:poddisruptionbudgets");
    cluster_peer_suspect(s->w.cluster, kube_id(s->b));
}

static void speaks_nonsense(struct story *s)
{
    kube_set_garbage(s->b, "<html>");
    cluster_refresh(s->w.cluster);
}

static void speaks_again(struct story *s)
{
    kube_set_garbage(s->b, NULL);
    cluster_refresh(s->w.cluster);
}

static void moves(struct story *s)
{
    char holder[100];
    const struct kube_lease l = {.name = kube_id(s->b),
                                 .hostname = "cp-b",
                                 .holder = holder,
                                 .address = "10.0.0.9:6443",
                                 .renew_us = 1764000000000000,
                                 .duration_s = 3600};

    (void)snprintf(holder, sizeof(holder), "%s_process-1", kube_id(s->b));
    kube_put_lease(s->w.store, &l);
}

static void crashes(struct story *s)
{
    kube_stop(s->b, false);
}

static void starts_anew(struct story *s)
{
    kube_start(s->b, 0);
}

static void ends(struct story *s)
{
    kube_stop(s->b, true);
}

static void nothing(struct story *s)
{
    (void)s;
}

static void crd_comes(struct story *s)
{
    kube_put_crd(s->w.store, "things.x.example.com", "x.example.com", "v1");
}

static void crd_goes(struct story *s)
{
    kube_delete(s->w.store, KUBE_CRD, "things.x.example.com");
}

static void goes(struct story *s)
{
    kube_sim(s->b)->fault = SIM_REFUSE;
}

static void is_back(struct story *s)
{
    kube_sim(s->b)->fault = SIM_FINE;
}

static void local_goes(struct story *s)
{
    kube_sim(s->w.local)->fault = SIM_REFUSE;
    sim_server_break(kube_sim(s->w.local));
}

static void watch_breaks(struct story *s)
{
    kube_forbid(s->w.local, LEASE_COLLECTION_PATH, 500);
    sim_server_break(kube_sim(s->w.local));
}

static void watch_is_back(struct story *s)
{
    kube_forbid(s->w.local, NULL, 0);
    kube_sim(s->w.local)->fault = SIM_FINE;
}

static void lease_too_large(struct story *s)
{
    static char members[20000];

    memset(members, ' ', sizeof(members) - 1);
    kube_put(s->w.store, KUBE_LEASE, "apiserver-large",
             ",\"namespace\":\"kube-system\",\"labels\":{\"apiserver.kubernetes.io/identity\":\"kube-apiserver\"}",
             members);
}

static void gate_off(struct story *s)
{
    s->w.opts.peers_enabled = false;
    cluster_update(s->w.cluster, &s->w.opts);
}

/* One after the other, in one life. @ stands for the peer. */
static const struct {
    void (*happens)(struct story *s);
    uint64_t then_ms;
    const char *words[WORDS];
} rows[] = {
    {starts, 2000, {"Peer added", "@", "server=\"cp-b\"", "life=\"live\""}},
    {changes,
     1000,
     {"Discovery read", "server=\"cp-b\"", "trigger=\"suspect\"", "came=\"policy/v1\"", "gone=\"batch/v1\""}},
    {speaks_nonsense, 2000, {"Could not read discovery", "server=\"cp-b\"", "documentKept=true", "err="}},
    {speaks_again, 2000, {"Discovery read again, unchanged", "server=\"cp-b\""}},
    {moves, 100, {"Peer address", "server=\"cp-b\"", "10.0.0.9:6443", "source=\"annotation\""}},
    {goes, 3000, {"W1124", "Server does not answer", "server=\"cp-b\"", "err="}},
    {is_back, 3000, {"Server answers again", "server=\"cp-b\"", "version="}},
    {crashes, 60000, {"Peer state changed", "@", "from=\"live\"", "to=\"lapsed\"", "reason="}},
    {nothing, 300000, {"Peer state changed", "@", "from=\"lapsed\"", "to=\"forgotten\"", "reason="}},
    {starts_anew, 1000, {"Peer state changed", "@", "from=\"forgotten\"", "to=\"live\"", "reason="}},
    {starts_anew, 1000, {"Peer restarted: its Lease has another holder", "@", "server=\"cp-b\""}},
    {crd_comes, 100, {"Group/version is never taken from peers", "x.example.com/v1"}},
    {crd_goes, 100, {"Group/version is gone from the cluster", "x.example.com/v1"}},
    {nothing, 301000, {"Group/version may come from peers again", "x.example.com/v1", "reason="}},
    {watch_breaks, 3000, {"Informer cannot list or watch", "leases", "err="}},
    {watch_is_back, 15000, {"Informer recovered", "leases"}},
    {lease_too_large, 100, {"W1124", "Ignoring a Lease", "kube-system/apiserver-large", "err=\"too large\""}},
    {local_goes, 15000, {"W1124", "Server does not answer", "server=\"cp-a\""}},
    {watch_is_back, 15000, {"Server answers again", "server=\"cp-a\""}},
    {ends, 100, {"Peer state changed", "@", "to=\"lapsed\"", "reason=\"Lease deleted\""}},
    {nothing, 301000, {"Peer removed", "@", "reason=\"Lease deleted, and not made again\""}},
    {gate_off, 100, {"Peer proxying disabled"}},
};

/* What all of its questions come to is one fault, and no more than three warnings: of the server, of failover, and of
 * what is believed meanwhile. */
static void one_cause(void)
{
    struct story s = {.bytes = 0};
    unsigned warnings = 0;

    cluster_kit_init(&s.w, KIT_BASE);
    s.w.opts.pulse = s.w.opts.local_failover = true;
    listen(&s);
    local_goes(&s);
    cluster_kit_start(&s.w);
    sim_run_ms(s.w.loop, 60000);
    stop_listening(&s);
    for (const char *at = s.text; (at = strstr(at, "W1124")) != NULL; at++)
        warnings++;
    is_u64(warnings, 3, "warnings of a minute without the local server");
    ok(said(&s, (const char *const[WORDS]){"W1124", "Server does not answer", "server=\"cp-a\""}), "which it is");
    if (warnings != 3)
        diag("%s", s.text);
    free(s.text);
    cluster_kit_end(&s.w);
}

/* Which of the two may not be read does not matter. */
static void half_read(void)
{
    static const char *const forbidden[] = {NULL, "/apis/apiextensions.k8s.io", "/apis/apiregistration.k8s.io"};

    for (size_t i = 0; i < ROWS(forbidden); i++) {
        struct story s = {.bytes = 0};

        cluster_kit_init(&s.w, KIT_BASE);
        kube_forbid(s.w.local, forbidden[i], 403);
        listen(&s);
        cluster_kit_start(&s.w);
        sim_run_ms(s.w.loop, 500);
        stop_listening(&s);
        is_int(said(&s, (const char *const[WORDS]){"W1124", "Custom resources and aggregated APIs cannot be read"}),
               forbidden[i] != NULL, "%s cannot be read", forbidden[i] == NULL ? "nothing" : forbidden[i]);
        free(s.text);
        cluster_kit_end(&s.w);
    }
}

int main(void)
{
    struct story s = {.bytes = 0};

    cluster_kit_init(&s.w, KIT_BASE);
    s.w.opts.pulse = true;
    s.b = cluster_kit_peer(&s.w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    for (size_t i = 0; i < ROWS(rows); i++) {
        const char *words[WORDS];
        char name[200] = "";

        for (size_t k = 0; k < WORDS; k++) {
            words[k] = rows[i].words[k] != NULL && rows[i].words[k][0] == '@' ? kube_id(s.b) : rows[i].words[k];
            (void)snprintf(name + strlen(name), sizeof(name) - strlen(name), " %s", words[k] == NULL ? "" : words[k]);
        }
        listen(&s);
        rows[i].happens(&s);
        sim_run_ms(s.w.loop, rows[i].then_ms);
        stop_listening(&s);
        if (!ok(said(&s, words), "said:%s", name))
            diag("%s", s.text);
        free(s.text);
    }
    cluster_kit_end(&s.w);
    one_cause();
    half_read();
    return tap_end();
}
