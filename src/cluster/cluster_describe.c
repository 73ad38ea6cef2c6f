#include "cluster/cluster_describe.h"

#include "back/back.h"
#include "base/buf.h"
#include "cluster/cluster_internal.h"
#include "cluster/exclusions.h"
#include "cluster/informer.h"
#include "cluster/leases.h"
#include "cluster/peers.h"
#include "cluster/publish.h"
#include "cluster/records.h"
#include "cluster/refresh.h"

void cluster_describe(struct cluster *c, struct buf *out)
{
    buf_append_str(out, "{\"etcd\":");
    records_describe(c->records, out);
    if (c->leases != NULL) {
        buf_printf(out, ",\"ownLeaseSeen\":%s,\"leases\":", leases_own_seen(c->leases) ? "true" : "false");
        leases_describe(c->leases, out);
    }
    if (c->exclusions != NULL) {
        buf_append_str(out, ",\"exclusions\":");
        exclusions_describe(c->exclusions, out);
    }
    buf_append_char(out, '}');
}

void cluster_etcd_state(struct cluster *c, char *text, size_t n)
{
    records_state(c->records, text, n);
}

static void set_age(const struct cluster *c, const char *id, const struct refresh *r)
{
    struct slice label = slice_str(id);

    if (r != NULL && refresh_disco(r) != NULL)
        metric_set(metric_child(c->metrics.age, &label), (double)refresh_age_ms(r) / 1000);
}

static void count_skewed(void *arg, struct slice group, struct slice version)
{
    (void)group;
    (void)version;
    (*(size_t *)arg)++;
}

static void on_collect(void *arg)
{
    struct cluster *c = arg;
    struct peer *p;
    size_t i = 0, skewed = 0;

    served_each_skewed(publish_current(c->publish), count_skewed, &skewed);
    metric_set(c->metrics.skewed, (double)skewed);
    metric_set(c->metrics.peers_live, c->peers == NULL ? 0 : (double)peers_count_life(c->peers, PEER_LIVE));
    metric_set(c->metrics.peers_lapsed, c->peers == NULL ? 0 : (double)peers_count_life(c->peers, PEER_LAPSED));
    metric_set(c->metrics.peers_forgotten, c->peers == NULL ? 0 : (double)peers_count_life(c->peers, PEER_FORGOTTEN));
    metric_family_clear(c->metrics.age);
    set_age(c, c->own_id, c->local);
    while (c->peers != NULL && (p = peers_next(c->peers, &i)) != NULL)
        set_age(c, p->id, p->refresh);
}

void cluster_metrics_follow(struct cluster *c, struct metrics *m)
{
    metrics_on_collect(m, on_collect, c);
}
