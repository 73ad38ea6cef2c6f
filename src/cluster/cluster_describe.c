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

static void text(struct buf *out, const char *name, const char *value)
{
    buf_printf(out, "\"%s\":\"", name);
    buf_append_json(out, slice_str(value));
    buf_append_str(out, "\",");
}

static void describe_peer(const struct cluster *c, const struct peer *p, struct buf *out)
{
    buf_append_char(out, '{');
    text(out, "id", p->id);
    text(out, "hostname", p->hostname);
    text(out, "life", peer_life_name(p->life));
    text(out, "holder", p->holder);
    text(out, "addressSource", peer_source_name(p->source));
    if (p->origin != NULL)
        text(out, "address", origin_address(p->origin));
    buf_printf(out,
               "\"lease\":%s,\"left\":%s,\"static\":%s,\"healthy\":%s,\"ejected\":%s,\"silentSeconds\":%.1f,"
               "\"knownSeconds\":%.1f",
               p->leased ? "true" : "false", p->left ? "true" : "false", p->fixed ? "true" : "false",
               p->origin != NULL && origin_healthy(p->origin) ? "true" : "false",
               p->origin != NULL && origin_ejected(p->origin) ? "true" : "false",
               (double)(loop_now_ms(c->loop) - p->seen_ms) / 1000, (double)(loop_now_ms(c->loop) - p->known_ms) / 1000);
    if (p->refresh != NULL) {
        buf_append_char(out, ',');
        refresh_describe(p->refresh, out);
    }
    buf_append_char(out, '}');
}

static void describe_peers(const struct cluster *c, struct buf *out)
{
    struct peer *p;
    size_t i = 0;

    buf_append_str(out, ",\"peers\":[");
    while (c->peers != NULL && (p = peers_next(c->peers, &i)) != NULL) {
        if (i > 1)
            buf_append_char(out, ',');
        describe_peer(c, p, out);
    }
    buf_append_char(out, ']');
}

struct list_of {
    struct buf *out;
    const char *comma;
};

static void describe_skewed(void *arg, struct slice group, struct slice version)
{
    struct list_of *l = arg;

    buf_printf(l->out, "%s\"", l->comma);
    buf_append_json(l->out, group);
    buf_append_str(l->out, group.n > 0 ? "/" : "");
    buf_append_json(l->out, version);
    buf_append_char(l->out, '"');
    l->comma = ",";
}

void cluster_describe(struct cluster *c, struct buf *out)
{
    const struct served *s = publish_current(c->publish);
    const struct served_document *d = served_merged(s, SERVED_V2);

    buf_append_char(out, '{');
    text(out, "serverID", c->own_id);
    text(out, "hostname", c->hostname);
    buf_printf(out, "\"peersEnabled\":%s,\"generation\":%llu,\"synced\":%s,\"mergedBytes\":%zu,",
               c->o.peers_enabled ? "true" : "false", (unsigned long long)served_generation(s),
               served_synced(s) ? "true" : "false", d == NULL ? (size_t)0 : d->body.n);
    buf_append_str(out, "\"mergedETag\":\"");
    buf_append_json(out, d == NULL ? SLICE_NONE : d->etag);
    buf_append_str(out, "\",\"local\":{");
    text(out, "address", origin_address(c->o.local));
    text(out, "readiness", readiness_name(readiness_state(c->readiness)));
    buf_printf(out, "\"failover\":%s,", cluster_fails_over(c) ? "true" : "false");
    refresh_describe(c->local, out);
    buf_append_char(out, '}');
    buf_append_str(out, ",\"skewedSchemas\":[");
    served_each_skewed(s, describe_skewed, &(struct list_of){out, ""});
    buf_append_char(out, ']');
    describe_peers(c, out);
    buf_printf(out, ",\"identityLease\":\"%s\"", identity_state_name(c->identity));
    buf_append_str(out, ",\"etcd\":");
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
