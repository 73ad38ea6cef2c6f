/* SPDX-License-Identifier: Apache-2.0 */
/* The parts that follow the cluster: made here, and what comes of their news. */
#include "base/changes.h"
#include "base/log.h"
#include "cluster/cluster_internal.h"
#include "cluster/exclusions.h"
#include "cluster/leases.h"
#include "cluster/local.h"
#include "cluster/publish.h"
#include "cluster/records.h"
#include "cluster/server.h"

/* ---- each server ---- */

static void on_polled(void *arg, struct server *s, bool ok, bool changed)
{
    struct cluster *c = arg;

    if (changed || local_life(c->local) != LOCAL_THERE) /* it may vouch now, with the same document */
        publish_request(c->publish);
    if (!ok)
        return;
    schemas_poll(s->schemas, s->o.peer->origin);
    peers_answered(c->peers, s->o.peer);
}

static void on_schemas(void *arg)
{
    struct cluster *c = arg;

    publish_request(c->publish);
}

size_t cluster_servers(void *arg)
{
    const struct cluster *c = arg;

    return 1 + (c->peers == NULL ? 0 : peers_count_life(c->peers, PEER_LIVE));
}

const char *cluster_name_of(const struct cluster *c, const char *id)
{
    const struct peer *other;

    if (strcmp(id, c->own_id) == 0)
        return c->hostname[0] != '\0' ? c->hostname : c->own_id;
    other = peers_find(c->peers, slice_str(id));
    return other == NULL ? NULL : peer_label(other);
}

static const char *named(void *arg, const char *id)
{
    const char *name = cluster_name_of(arg, id);

    return name != NULL ? name : id;
}

struct server *cluster_new_server(struct cluster *c, struct peer *peer)
{
    const struct server_opts o = {
        .api = c->api,
        .peer = peer,
        .hostname = c->hostname,
        .interval_ms = c->o.refresh_interval_ms,
        .metrics = &c->metrics,
        .changes = c->o.changes,
        .servers = cluster_servers,
        .polled = on_polled,
        .named = named,
        .schemas_changed = on_schemas,
        .arg = c,
    };

    return server_new(&o);
}

/* ---- leases, exclusions ---- */

static void on_leases_synced(void *arg)
{
    struct cluster *c = arg;

    publish_request(c->publish);
}

static void on_leases_health(void *arg, const char *why)
{
    struct cluster *c = arg;

    if (why != NULL)
        metric_inc(c->metrics.sync_errors_lease_list);
    else
        identity_recheck(c->identity);
    cluster_note_leases(c);
    publish_request(c->publish);
    local_watch_changed(c->local);
}

static void on_own_lease(void *arg, const struct lease *l)
{
    struct cluster *c = arg;

    if (local_lease_seen(c->local, l->renew_us))
        peers_own_renewed(c->peers);
    identity_seen(c->identity, l);
}

static void on_lease_refused(void *arg, struct slice key, const char *why)
{
    const struct cluster *c = arg;

    changes_add(c->o.changes, CHANGE_DISBELIEVED, "Lease", "%.*s is no API server identity: %s", (int)key.n, key.p,
                why);
}

static const struct leases_handler leases_handler = {.on_synced = on_leases_synced,
                                                     .on_own = on_own_lease,
                                                     .on_health = on_leases_health,
                                                     .on_refused = on_lease_refused};

/* One instance's worth of effort: the first of those that live collects. */
static bool collects(void *arg)
{
    struct cluster *c = arg;
    struct peer *p;
    size_t i = 0;

    while (c->peers != NULL && (p = peers_next(c->peers, &i)) != NULL)
        if (p->leased && p->life == PEER_LIVE && strcmp(p->id, c->own_id) < 0)
            return false;
    return c->peers != NULL;
}

static bool renewed(void *arg, struct slice id)
{
    const struct cluster *c = arg;
    const struct peer *p = c->peers == NULL ? NULL : peers_find(c->peers, id);

    return p != NULL && p->leased && p->life == PEER_LIVE;
}

enum identity_mode cluster_identity_mode(const struct cluster *c)
{
    return c->own_id[0] == '\0' ? IDENTITY_OFF : c->o.identity;
}

void cluster_make_identity(struct cluster *c)
{
    const struct identity_opts o = {
        .api = c->api,
        .id = c->own_id,
        .hostname = c->hostname,
        .mode = cluster_identity_mode(c),
        .advertise = c->advertise,
        .annotate = c->o.annotate,
        .metrics = &c->metrics,
        .collects = collects,
        .renewed = renewed,
        .arg = c,
    };

    c->identity = identity_new(&o);
}

static void on_record_address(void *arg, struct slice id, const char *host, unsigned port)
{
    struct cluster *c = arg;

    if (c->peers != NULL)
        peers_etcd_address(c->peers, id, host, port);
}

static bool answers(void *arg)
{
    const struct cluster *c = arg;

    return refresh_polls(local_discovery(c->local)) > 0 && refresh_failure(local_discovery(c->local)) == NULL;
}

static bool is_annotated(void *arg, struct slice id)
{
    const struct cluster *c = arg;
    const struct peer *p = c->peers == NULL ? NULL : peers_find(c->peers, id);

    return p != NULL && p->address[PEER_FROM_ANNOTATION].host != NULL;
}

void cluster_make_records(struct cluster *c)
{
    const struct records_opts o = {
        .loop = c->loop,
        .back = c->back,
        .metrics = &c->metrics,
        .changes = c->o.changes,
        .own_id = c->own_id,
        .on_address = on_record_address,
        .may_publish = answers,
        .has_other = is_annotated,
        .arg = c,
    };

    c->records = records_new(&o);
}

void cluster_configure_records(struct cluster *c, const struct cluster_opts *o)
{
    const struct records_config r = {
        .servers = o->etcd_servers,
        .n_servers = o->peers_enabled ? o->n_etcd_servers : 0,
        .prefix = o->etcd_prefix,
        .advertise = o->advertise,
    };

    records_configure(c->records, &r);
}

static void on_exclusions_change(void *arg)
{
    struct cluster *c = arg;

    publish_request(c->publish);
}

static void on_exclusions_event(void *arg)
{
    struct cluster *c = arg;

    refresh_trigger(local_discovery(c->local), REFRESH_EVENT);
}

static const struct exclusions_handler exclusions_handler = {.on_change = on_exclusions_change,
                                                             .on_event = on_exclusions_event};

/* ---- the parts ---- */

struct peers_opts cluster_peers_options(const struct cluster *c, const struct cluster_opts *o)
{
    return (struct peers_opts){
        .loop = c->loop,
        .own_id = c->own_id,
        .stale_after_ms = o->stale_after_ms,
        .forget_after_ms = o->forget_after_ms,
        .leave_grace_ms = o->leave_grace_ms,
        .rule_changed = o->peer_rule_changed,
        .reach = {.back = c->back,
                  .tls_cert = o->peer_tls_cert,
                  .tls_no_cert = o->peer_tls_no_cert,
                  .allow = o->peer_allowed,
                  .allow_arg = o->peer_allowed_arg,
                  .egress = o->peer_egress,
                  .changes = o->changes},
    };
}

void cluster_start_peer_side(struct cluster *c)
{
    if (c->leases == NULL)
        c->leases = leases_new(c->api, c->peers, c->own_id, &leases_handler, c);
    if (c->exclusions == NULL)
        c->exclusions = exclusions_new(c->api, &exclusions_handler, c);
    if (!c->ending)
        identity_start(c->identity);
    if (c->leases == NULL || c->exclusions == NULL) {
        log_error("Out of memory for following the cluster");
        loop_timer_set(c->memory_retry, CLUSTER_MEMORY_RETRY_MS);
    }
}

void cluster_stop_peer_side(struct cluster *c)
{
    leases_free(c->leases);
    exclusions_free(c->exclusions);
    peers_free(c->peers);
    c->leases = NULL;
    c->exclusions = NULL;
    c->peers = NULL;
    c->peers_seen = false;
    if (!c->ending) /* else whoever ends it waits to hear of it */
        identity_stop(c->identity, NULL, NULL);
}
