/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cluster_kit.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/metric.h"
#include "cluster/api.h"
#include "cluster/cluster_view.h"
#include "kube/disco_parse.h"
#include "lib/tap.h"

/* The contexts are never looked into. */
static char cert, no_cert;

struct origin *cluster_kit_origin(struct back *b, const char *name, const char *host)
{
    return origin_new(b, &(struct origin_opts){.name = name,
                                               .host = host,
                                               .port = 6443,
                                               .tls_cert = (struct tls_ctx *)(void *)&cert,
                                               .tls_no_cert = (struct tls_ctx *)(void *)&no_cert});
}

static const char *const masters[] = {"system:masters", NULL};

struct cluster_opts cluster_kit_opts(const char *hostname, struct origin *local)
{
    return (struct cluster_opts){
        .peers_enabled = true,
        .hostname = hostname,
        .local = local,
        .user = "system:apiserver",
        .groups = masters,
        .peer_tls_cert = (struct tls_ctx *)(void *)&cert,
        .peer_tls_no_cert = (struct tls_ctx *)(void *)&no_cert,
        .refresh_interval_ms = 30000,
        .stale_after_ms = 40000,
        .forget_after_ms = 300000,
        .leave_grace_ms = 300000,
    };
}

void cluster_kit_init(struct cluster_kit *w, const char *apis)
{
    memset(w, 0, sizeof(*w));
    sim_seed(42);
    w->loop = loop_new(NULL);
    w->metrics = metrics_new();
    w->back = back_new(w->loop, w->metrics);
    w->store = kube_store_new(w->loop);
    w->local = kube_server_new(w->store, w->back, "cp-a", "10.0.0.1:6443", apis);
    w->origin = cluster_kit_origin(w->back, "local", "10.0.0.1");
    w->opts = cluster_kit_opts("cp-a", w->origin);
    kube_start(w->local, 0);
}

void cluster_kit_without_lease(struct cluster_kit *w, unsigned minor)
{
    kube_stop(w->local, true);
    kube_sim(w->local)->fault = SIM_FINE;
    kube_set_minor(w->local, minor);
}

struct api *cluster_kit_api(const struct cluster_kit *w, struct origin *local)
{
    return api_new(w->loop, w->back, local, &(struct api_identity){.user = "system:apiserver", .groups = masters});
}

void cluster_kit_start(struct cluster_kit *w)
{
    w->cluster = cluster_new(w->loop, w->back, w->metrics, &w->opts);
}

void cluster_kit_end(struct cluster_kit *w)
{
    cluster_free(w->cluster);
    sim_run_ms(w->loop, 0);
    is_u64(sim_open(w->back), 0, "no request is left behind");
    kube_store_free(w->store);
    origin_unref(w->origin);
    back_free(w->back);
    loop_free(w->loop);
    metrics_free(w->metrics);
}

struct kube_server *cluster_kit_peer(struct cluster_kit *w, const char *hostname, const char *address, const char *apis)
{
    struct kube_server *k = kube_server_new(w->store, w->back, hostname, address, apis);

    kube_start(k, 0);
    return k;
}

static bool is_ready(void *arg)
{
    struct cluster_kit *w = arg;
    char reason[128];

    return cluster_local_synced(w->cluster, reason, sizeof(reason)) &&
           cluster_leases_synced(w->cluster, reason, sizeof(reason)) &&
           cluster_peers_synced(w->cluster, reason, sizeof(reason));
}

bool cluster_kit_ready(struct cluster_kit *w, uint64_t max_ms)
{
    return sim_run_until(w->loop, max_ms, is_ready, w);
}

static void beside(struct cluster_kit *w, const char *apis, const char *others)
{
    cluster_kit_init(w, apis);
    (void)cluster_kit_peer(w, "cp-b", "10.0.0.2:6443", others);
    cluster_kit_start(w);
    ok(cluster_kit_ready(w, 2000), "ready beside a peer");
}

void cluster_kit_two(struct cluster_kit *a, const char *apis_a, struct cluster_kit *b, const char *apis_b)
{
    beside(a, apis_a, apis_b);
    beside(b, apis_b, apis_a);
}

static size_t index_of(struct cluster_kit *w, const struct kube_server *k)
{
    const struct served *s = cluster_served(w->cluster);
    size_t i = 0;

    while (i < served_n_peers(s) && strcmp(served_peer_at(s, i)->id, kube_id(k)) != 0)
        i++;
    return i;
}

bool cluster_kit_sees_mvproxy(struct cluster_kit *w)
{
    struct cluster_view v;
    bool found = false;

    if (!cluster_view_take(w->cluster, &v))
        abort();
    for (size_t i = 0; i < v.n; i++)
        found = found || v.servers[i].has_mvproxy;
    cluster_view_free(&v);
    return found;
}

const struct served_peer *cluster_kit_peer_of(struct cluster_kit *w, const struct kube_server *k)
{
    const struct served *s = cluster_served(w->cluster);
    size_t i = index_of(w, k);

    return i < served_n_peers(s) ? served_peer_at(s, i) : NULL;
}

bool cluster_kit_local_serves(struct cluster_kit *w, const char *group, const char *version, const char *resource)
{
    struct gvr g = {slice_str(group), slice_str(version), slice_str(resource)};

    return served_local(cluster_served(w->cluster), &g, SLICE_NONE, SLICE_NONE) == DISCO_SERVED;
}

bool cluster_kit_peer_serves(struct cluster_kit *w, const struct kube_server *k, const char *group, const char *version,
                             const char *resource)
{
    struct gvr g = {slice_str(group), slice_str(version), slice_str(resource)};
    size_t i = index_of(w, k);

    return i < served_n_peers(cluster_served(w->cluster)) &&
           served_by_peer(cluster_served(w->cluster), i, &g, SLICE_NONE, SLICE_NONE) == DISCO_SERVED;
}

bool cluster_kit_merged_has(struct cluster_kit *w, const char *text)
{
    const struct served_document *d = served_merged(cluster_served(w->cluster), SERVED_V2);

    return d != NULL && memmem(d->body.p, d->body.n, text, strlen(text)) != NULL;
}

const char *cluster_kit_freshness(struct cluster_kit *w, const char *group)
{
    const struct served_document *d = served_merged(cluster_served(w->cluster), SERVED_V2);
    struct err err = {.text = ""};
    struct disco_doc *doc = d == NULL ? NULL : disco_parse(d->body, &err);
    const struct disco_group *g = doc == NULL ? NULL : disco_doc_group(doc, slice_str(group));
    const char *answer = g == NULL || g->versions == NULL ? "" : g->versions->stale ? "Stale" : "Current";

    disco_doc_unref(doc);
    return answer;
}

struct wanted {
    const char *name;
    const char *labels[METRIC_MAX_LABELS];
    size_t n;
    double value;
};

static void look_at(const struct metric_view *v, void *arg)
{
    struct wanted *want = arg;

    if (strcmp(v->name, want->name) != 0 || v->n_labels != want->n)
        return;
    for (size_t i = 0; i < want->n; i++)
        if (!slice_eq(v->label_values[i], slice_str(want->labels[i])))
            return;
    want->value = v->kind == METRIC_HISTOGRAM ? (double)v->count : v->value;
}

double cluster_kit_metric(struct cluster_kit *w, const char *name, ...)
{
    struct wanted want = {.name = name};
    const char *label;
    va_list ap;

    va_start(ap, name);
    while ((label = va_arg(ap, const char *)) != NULL)
        want.labels[want.n++] = label;
    va_end(ap);
    metrics_collect(w->metrics);
    metrics_walk(w->metrics, look_at, &want);
    return want.value;
}
