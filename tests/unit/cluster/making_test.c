/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever is made is made as a whole: without memory for a part of it there is none, and nothing of it
 * is left. */
#include <stdio.h>
#include <stdlib.h>

#include "cluster/api.h"
#include "cluster/build.h"
#include "cluster/cluster_metrics.h"
#include "cluster/comparer.h"
#include "cluster/comparison.h"
#include "cluster/exclusions.h"
#include "cluster/leases.h"
#include "cluster/peers.h"
#include "cluster/pulse.h"
#include "cluster/schemas.h"
#include "cluster/server.h"
#include "cluster/work.h"
#include "kube/disco_parse.h"
#include "lib/tap.h"
#include "sim/cluster_kit.h"

enum { MOST = 400, LONG_BYTES = 70000 };

/* Of what things are made. */
struct parts {
    struct cluster_kit w;
    struct api *api;
    struct cluster_metrics metrics;
    struct cluster_env env;
    struct work_queue work;
    struct peers *peers;
    struct disco *disco;
    struct served *served;
    struct served_input in;
    struct served_peer peer;
    struct served_gv undiscovered[2];
    struct slice excluded[2];
    char *long_text;
};

static void nothing(void *arg)
{
    (void)arg;
}

static void on_lease(void *arg, const struct lease *l)
{
    (void)arg;
    (void)l;
}

static void on_why(void *arg, const char *why)
{
    (void)arg;
    (void)why;
}

static void on_refused(void *arg, struct slice key, const char *why)
{
    (void)arg;
    (void)key;
    (void)why;
}

static void on_peer(void *arg, struct peer *peer)
{
    (void)arg;
    (void)peer;
}

static void on_peer_changed(void *arg, struct peer *peer, unsigned what)
{
    (void)arg;
    (void)peer;
    (void)what;
}

static bool answers(void *arg, const struct peer *peer)
{
    (void)arg;
    (void)peer;
    return true;
}

static size_t one_server(void *arg)
{
    (void)arg;
    return 1;
}

static void on_pulse(void *arg, enum pulse_state before)
{
    (void)arg;
    (void)before;
}

static void on_fetched(void *arg, const struct fetch_result *r)
{
    (void)arg;
    (void)r;
}

/* ---- each is made, and given back ---- */

static bool comparer(struct parts *p)
{
    struct comparer *c = comparer_new(p->w.loop, &p->work);

    comparer_free(c);
    return c != NULL;
}

static bool comparison(struct parts *p)
{
    struct comparison *c = comparison_new(p->served, NULL);

    comparison_free(c);
    return c != NULL;
}

static bool pulse(struct parts *p)
{
    struct pulse *s = pulse_new(&(struct pulse_opts){.api = p->api, .servers = one_server, .changed = on_pulse});

    pulse_free(s);
    return s != NULL;
}

static bool schemas(struct parts *p)
{
    struct schemas *s = schemas_new(p->api, true, nothing, NULL);

    schemas_free(s);
    return s != NULL;
}

static bool server(struct parts *p)
{
    static const struct server_handler h = {.polled = NULL};
    struct cluster_env env = {.api = p->api,
                              .metrics = &p->metrics,
                              .servers = one_server,
                              .hostname = (char[]){"cp-a"},
                              .o.refresh_interval_ms = 1000};
    struct server *s = server_new(&env, NULL, &h, NULL);

    server_free(s);
    return s != NULL;
}

static bool exclusions(struct parts *p)
{
    static const struct exclusions_handler h = {.on_change = nothing, .on_event = nothing};
    struct exclusions *x = exclusions_new(p->api, &h, NULL);

    exclusions_free(x);
    return x != NULL;
}

static bool leases(struct parts *p)
{
    static const struct leases_handler h = {
        .on_synced = nothing, .on_own = on_lease, .on_health = on_why, .on_refused = on_refused};
    struct leases *l = leases_new(p->api, p->peers, "apiserver-x", &h, NULL);

    leases_free(l);
    return l != NULL;
}

static bool peer(struct parts *p)
{
    struct peer *made = peer_new(SLICE_LIT("apiserver-y"), 1);

    (void)p;
    peer_free(made);
    return made != NULL;
}

static bool build(struct parts *p)
{
    struct build *b = build_new(&p->in, true);

    build_free(b);
    return b != NULL;
}

static bool snapshot(struct parts *p)
{
    struct served *s = served_new(&p->in);

    served_unref(s);
    return s != NULL;
}

static bool request(struct parts *p)
{
    const struct api_request g = {.target = SLICE_LIT("/apis"), .accept = SLICE_LIT("*/*"), .timeout_ms = 1000};
    struct fetch *f = api_send(p->api, &g, on_fetched, NULL);
    bool made = f != NULL;
    size_t open = sim_open(p->w.back);

    fetch_cancel(&f);
    sim_run_ms(p->w.loop, 10);
    return made && open == 1 && sim_open(p->w.back) == 0;
}

/* ---- all of it ---- */

static void begin(struct parts *p)
{
    static const struct peers_handler h = {.added = on_peer,
                                           .changed = on_peer_changed,
                                           .removed = on_peer,
                                           .answers = answers,
                                           .document_holds = answers};
    struct disco_doc *doc;

    memset(p, 0, sizeof(*p));
    cluster_kit_init(&p->w, KIT_BATCH);
    p->api = cluster_kit_api(&p->w, p->w.origin);
    cluster_metrics_init(&p->metrics, p->w.metrics);
    work_queue_init(&p->work, p->w.loop);
    p->env = (struct cluster_env){.loop = p->w.loop, .back = p->w.back, .own_id = "apiserver-x"};
    p->peers = peers_new(&p->env, &h, NULL);
    doc = disco_parse(kube_document(p->w.local), NULL);
    p->disco = disco_new(doc, doc);
    disco_doc_unref(doc);
    p->undiscovered[0] = (struct served_gv){SLICE_LIT("policy"), SLICE_LIT("v1")};
    p->undiscovered[1] = (struct served_gv){SLICE_LIT("policy"), SLICE_LIT("v2")};
    p->excluded[0] = SLICE_LIT("a.io/v1");
    p->excluded[1] = SLICE_LIT("b.io/v1");
    p->peer = (struct served_peer){.id = "apiserver-y", .host = "cp-b", .disco = p->disco, .discovery_known = true};
    p->in = (struct served_input){.peers_enabled = true,
                                  .local_id = "apiserver-x",
                                  .local_host = "cp-a",
                                  .local = p->disco,
                                  .peers = &p->peer,
                                  .n_peers = 1,
                                  .incomplete = true,
                                  .doubtful = true,
                                  .undiscovered = p->undiscovered,
                                  .n_undiscovered = 2,
                                  .excluded = p->excluded,
                                  .n_excluded = 2};
    p->served = served_new(&p->in);
    p->long_text = must_zalloc(LONG_BYTES + 1);
    memset(p->long_text, 'l', LONG_BYTES);
    if (p->peers == NULL || p->disco == NULL || p->served == NULL)
        tap_bail("nothing to begin with");
    (void)request(p); /* what is made for the first one stays */
}

static void end(struct parts *p)
{
    mem_free(p->long_text);
    served_unref(p->served);
    disco_unref(p->disco);
    peers_free(p->peers);
    work_queue_close(&p->work);
    api_free(p->api);
    sim_run_ms(p->w.loop, 0);
    cluster_kit_end(&p->w);
}

/* The nth allocation of it fails, for each n. */
static void made(struct parts *p, const char *name, bool (*make)(struct parts *p))
{
    uint64_t calls = mem_calls(), n;
    unsigned made_without = 0;

    ok(make(p), "%s is made", name);
    calls = mem_calls() - calls;
    for (n = 1; n <= calls && n < MOST; n++) {
        mem_fail_nth(n);
        made_without += make(p);
        mem_fail_nth(0);
    }
    ok(n > 1 && made_without == 0, "%s: with each of its %u allocations", name, (unsigned)n - 1);
    ok(make(p), "%s is made again", name);
}

/* Each text needs a block of its own. */
static void make_long(struct parts *p)
{
    const struct slice text = slice_of(p->long_text, LONG_BYTES);

    p->in.local_id = p->in.local_host = p->peer.id = p->peer.host = p->long_text;
    p->in.local_etag[SERVED_APIS] = p->in.local_etag[SERVED_CORE] = text;
    p->undiscovered[0] = (struct served_gv){text, text};
    p->excluded[0] = text;
    p->in.aggregated = p->excluded;
    p->in.n_aggregated = 1;
}

int main(void)
{
    static const struct {
        const char *name;
        bool (*make)(struct parts *p);
    } rows[] = {{"a comparer", comparer}, {"a comparison", comparison}, {"a pulse", pulse},    {"schemas", schemas},
                {"a server", server},     {"exclusions", exclusions},   {"Leases", leases},    {"a peer", peer},
                {"a merge", build},       {"a snapshot", snapshot},     {"a request", request}};
    struct parts p;

    begin(&p);
    for (size_t i = 0; i < ROWS(rows); i++)
        made(&p, rows[i].name, rows[i].make);
    make_long(&p);
    made(&p, "a snapshot of long texts", snapshot);
    end(&p);
    return tap_end();
}
