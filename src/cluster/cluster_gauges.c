/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/cluster_gauges.h"

#include "back/back.h"
#include "cluster/cluster_env.h"
#include "cluster/comparer.h"
#include "cluster/leases.h"
#include "cluster/local.h"
#include "cluster/peer_side.h"
#include "cluster/server.h"
#include "net/loop.h"

/* Two of one host name: a server that has another ID since it was upgraded, and what is left of the one before. */
static void set_youngest(struct metric *m, double age)
{
    double shown = metric_value(m);

    if (age < 0.001)
        age = 0.001; /* 0: nothing shown yet */
    if (shown == 0 || age < shown)
        metric_set(m, age);
}

/* One that never answered is as old as what is known of it. */
static void set_age(const struct cluster_gauges *g, const char *server, const struct server *s, uint64_t known_ms)
{
    struct slice label = slice_str(server);
    uint64_t age = s == NULL ? UINT64_MAX : refresh_age_ms(s->discovery);

    if (age == UINT64_MAX)
        age = loop_now_ms(g->env->loop) - known_ms;
    set_youngest(metric_child(g->env->metrics->age, &label), (double)age / 1000);
}

/* Whether it answers is not said before it was asked. Of two of one name it is enough if one does. Who answers at its
 * address may be another server (`elsewhere`): nothing is known of this one then, and nobody can be sent to it. */
static void set_pulse(const struct cluster_gauges *g, const char *server, const struct server *s, bool elsewhere)
{
    struct slice label = slice_str(server);
    struct metric *up;
    struct pulse_view v;

    pulse_look(s == NULL ? NULL : s->pulse, &v);
    if (v.state == PULSE_UNKNOWN)
        return;
    up = metric_child(g->env->metrics->up, &label);
    if (v.state == PULSE_ANSWERS && !elsewhere)
        metric_set(up, 1);
}

static void show_server(const struct cluster_gauges *g, const char *server, const char *id, const struct server *s,
                        const struct origin *o)
{
    const char *address = o == NULL ? NULL : origin_address(o);
    struct pulse_view v;

    pulse_look(s == NULL ? NULL : s->pulse, &v);
    metric_set(metric_child(g->env->metrics->info, (struct slice[]){slice_str(server), slice_str(id),
                                                                    slice_str(v.says->binary), slice_str(address)}),
               1);
}

static void show_servers(const struct cluster_gauges *g)
{
    struct peer *p;
    const char *own = g->env->hostname[0] != '\0' ? g->env->hostname : "local";
    size_t i = 0, drained = 0;

    metric_family_clear(g->env->metrics->age);
    metric_family_clear(g->env->metrics->info);
    metric_family_clear(g->env->metrics->up);
    set_age(g, own, g->local->server, g->started_ms);
    set_pulse(g, own, g->local->server, false);
    show_server(g, own, g->env->own_id, g->local->server, g->env->o.local);
    while ((p = peers_next(g->side->peers, &i)) != NULL) {
        /* Whose Lease was deleted has gone in good order: how old its document is worries nobody, and without that no
         * alert fires. That it does not answer is so until it is forgotten. */
        if (!p->left)
            set_age(g, peer_label(p), p->server, p->known_ms);
        set_pulse(g, peer_label(p), p->server, peer_side_leads_to(g->side, p) != NULL);
        show_server(g, peer_label(p), p->id, p->server, p->origin);
        drained += p->drained;
    }
    metric_set(g->env->metrics->peers_drained, (double)drained);
    metric_set(g->env->metrics->peers_ignored, (double)peers_ignored(g->side->peers));
}

static void show_peers(const struct cluster_gauges *g)
{
    const struct {
        struct metric *metric;
        enum peer_life life;
    } lives[] = {{g->env->metrics->peers_live, PEER_LIVE},
                 {g->env->metrics->peers_lapsed, PEER_LAPSED},
                 {g->env->metrics->peers_forgotten, PEER_FORGOTTEN}};

    for (size_t i = 0; i < sizeof(lives) / sizeof(lives[0]); i++)
        metric_set(lives[i].metric, (double)peers_count_life(g->side->peers, lives[i].life));
}

/* One list that was read is not enough: who comes after it, and who goes, is not seen. */
static bool follows_leases(const struct cluster_gauges *g)
{
    return g->side->leases != NULL && leases_synced(g->side->leases) && leases_failure(g->side->leases) == NULL;
}

static void show_configured(const struct cluster_gauges *g)
{
    const struct cluster_metrics *m = g->env->metrics;
    bool peers = g->env->o.peers_enabled, etcd = peers && g->env->o.n_etcd_servers > 0;
    enum identity_mode identity =
        peers ? (g->env->own_id[0] == '\0' ? IDENTITY_OFF : g->env->o.identity) : IDENTITY_OFF;

    metric_show(m->peers_live, peers);
    metric_show(m->peers_drained, peers);
    metric_show(m->leases_watching, peers);
    metric_show(m->peers_ignored, peers);
    metric_show(m->skewed, peers);
    metric_show(m->uneven, peers);
    metric_show(m->excluded, peers);
    metric_show(m->failing_over, peers && g->env->o.local_failover);
    metric_show(m->front_differs, peers);
    metric_show(m->front_refused, g->env->o.front_until_s > 0);
    metric_show(m->identity_publishing, identity == IDENTITY_AUTO || identity == IDENTITY_PUBLISH);
    metric_show(m->identity_collected, identity != IDENTITY_OFF);
    metric_show(m->etcd_working, etcd);
    metric_show(m->record_watching, etcd);
    metric_show(m->record_publishing, etcd);
    metric_show(m->records, etcd);
}

static void on_collect(void *arg)
{
    struct cluster_gauges *g = arg;

    metric_set(g->env->metrics->skewed, (double)comparer_result(g->comparer)->n_skewed);
    metric_set(g->env->metrics->uneven, (double)comparer_result(g->comparer)->uneven);
    metric_set(g->env->metrics->leases_watching, follows_leases(g) ? 1 : 0);
    show_peers(g);
    show_servers(g);
    show_configured(g);
}

void cluster_gauges_follow(struct cluster_gauges *g, struct metrics *m)
{
    show_configured(g);
    metrics_on_collect(m, on_collect, g);
}
