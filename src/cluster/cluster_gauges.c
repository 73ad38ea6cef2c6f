/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/cluster_gauges.h"

#include "back/back.h"
#include "cluster/cluster_internal.h"
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
static void set_age(const struct cluster *c, const char *server, const struct server *s, uint64_t known_ms)
{
    struct slice label = slice_str(server);
    uint64_t age = s == NULL ? UINT64_MAX : refresh_age_ms(s->discovery);

    if (age == UINT64_MAX)
        age = loop_now_ms(c->loop) - known_ms;
    set_youngest(metric_child(c->metrics.age, &label), (double)age / 1000);
}

/* Whether it answers is not said before it was asked. Of two of one name it is enough if one does. Who answers at its
 * address may be another server (`elsewhere`): nothing is known of this one then, and nobody can be sent to it. */
static void set_pulse(const struct cluster *c, const char *server, const struct server *s, bool elsewhere)
{
    struct slice label = slice_str(server);
    struct metric *up;
    struct pulse_view v;

    pulse_look(s == NULL ? NULL : s->pulse, &v);
    if (v.state == PULSE_UNKNOWN)
        return;
    up = metric_child(c->metrics.up, &label);
    if (v.state == PULSE_ANSWERS && !elsewhere)
        metric_set(up, 1);
}

static void show_server(const struct cluster *c, const char *server, const char *id, const struct server *s,
                        const struct origin *o)
{
    const char *address = o == NULL ? NULL : origin_address(o);
    struct pulse_view v;

    pulse_look(s == NULL ? NULL : s->pulse, &v);
    metric_set(metric_child(c->metrics.info, (struct slice[]){slice_str(server), slice_str(id),
                                                              slice_str(v.says->binary), slice_str(address)}),
               1);
}

static void show_servers(const struct cluster *c)
{
    struct peer *p;
    const char *own = c->hostname[0] != '\0' ? c->hostname : "local";
    size_t i = 0, drained = 0;

    metric_family_clear(c->metrics.age);
    metric_family_clear(c->metrics.info);
    metric_family_clear(c->metrics.up);
    set_age(c, own, local_server(c->local), c->started_ms);
    set_pulse(c, own, local_server(c->local), false);
    show_server(c, own, c->own_id, local_server(c->local), c->o.local);
    while ((p = peer_side_next(c->side, &i)) != NULL) {
        /* Whose Lease was deleted has gone in good order: how old its document is worries nobody, and without that no
         * alert fires. That it does not answer is so until it is forgotten. */
        if (!p->left)
            set_age(c, peer_label(p), p->server, p->known_ms);
        set_pulse(c, peer_label(p), p->server, peer_side_leads_to(c->side, p) != NULL);
        show_server(c, peer_label(p), p->id, p->server, p->origin);
        drained += p->drained;
    }
    metric_set(c->metrics.peers_drained, (double)drained);
    metric_set(c->metrics.peers_ignored,
               peer_side_peers(c->side) == NULL ? 0 : (double)peers_ignored(peer_side_peers(c->side)));
}

static void show_peers(const struct cluster *c)
{
    const struct {
        struct metric *metric;
        enum peer_life life;
    } lives[] = {{c->metrics.peers_live, PEER_LIVE},
                 {c->metrics.peers_lapsed, PEER_LAPSED},
                 {c->metrics.peers_forgotten, PEER_FORGOTTEN}};

    for (size_t i = 0; i < sizeof(lives) / sizeof(lives[0]); i++)
        metric_set(lives[i].metric, peer_side_peers(c->side) == NULL
                                        ? 0
                                        : (double)peers_count_life(peer_side_peers(c->side), lives[i].life));
}

/* One list that was read is not enough: who comes after it, and who goes, is not seen. */
static bool follows_leases(const struct cluster *c)
{
    return peer_side_leases(c->side) != NULL && leases_synced(peer_side_leases(c->side)) &&
           leases_failure(peer_side_leases(c->side)) == NULL;
}

static void show_configured(const struct cluster *c)
{
    const struct cluster_metrics *m = &c->metrics;
    bool peers = c->o.peers_enabled, etcd = peers && c->o.n_etcd_servers > 0;
    enum identity_mode identity = peers ? (c->own_id[0] == '\0' ? IDENTITY_OFF : c->o.identity) : IDENTITY_OFF;

    metric_show(m->peers_live, peers);
    metric_show(m->peers_drained, peers);
    metric_show(m->leases_watching, peers);
    metric_show(m->peers_ignored, peers);
    metric_show(m->skewed, peers);
    metric_show(m->uneven, peers);
    metric_show(m->excluded, peers);
    metric_show(m->failing_over, peers && c->o.local_failover);
    metric_show(m->front_differs, peers);
    metric_show(m->front_refused, c->o.front_until_s > 0);
    metric_show(m->identity_publishing, identity == IDENTITY_AUTO || identity == IDENTITY_PUBLISH);
    metric_show(m->identity_collected, identity != IDENTITY_OFF);
    metric_show(m->etcd_working, etcd);
    metric_show(m->record_watching, etcd);
    metric_show(m->record_publishing, etcd);
    metric_show(m->records, etcd);
}

static void on_collect(void *arg)
{
    struct cluster *c = arg;

    metric_set(c->metrics.skewed, (double)comparer_result(c->comparer)->n_skewed);
    metric_set(c->metrics.uneven, (double)comparer_result(c->comparer)->uneven);
    metric_set(c->metrics.leases_watching, follows_leases(c) ? 1 : 0);
    show_peers(c);
    show_servers(c);
    show_configured(c);
}

void cluster_gauges_follow(struct cluster *c, struct metrics *m)
{
    show_configured(c);
    metrics_on_collect(m, on_collect, c);
}
