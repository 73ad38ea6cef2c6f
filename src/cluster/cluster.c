/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/cluster.h"

#include <stdio.h>

#include "back/back.h"
#include "base/changes.h"
#include "base/clock.h"
#include "base/contract.h"
#include "base/log.h"
#include "cluster/api.h"
#include "cluster/cluster_internal.h"
#include "cluster/comparer.h"
#include "cluster/front_trust.h"
#include "cluster/identity.h"
#include "cluster/local.h"
#include "cluster/peer_named.h"
#include "cluster/peer_side.h"
#include "cluster/publish.h"
#include "cluster/records.h"
#include "cluster/survey.h"

/* ---- options ---- */

/* Keeps what is needed later; most texts and arrays have only been borrowed. */
static void take_options(struct cluster *c, const struct cluster_opts *o)
{
    struct origin *old = c->e.o.local;

    c->e.o = *o;
    c->e.o.local = origin_ref(o->local);
    origin_unref(old);
    c->e.o.hostname = c->e.o.user = c->e.o.advertise = NULL;
    c->e.o.groups = NULL;
    c->e.o.etcd_servers = NULL;
    c->e.o.etcd_prefix = NULL;
    (void)snprintf(c->e.advertise, sizeof(c->e.advertise), "%s", o->advertise == NULL ? "" : o->advertise);
}

static struct api_identity identity(const struct cluster_opts *o)
{
    return (struct api_identity){.user = o->user, .groups = o->groups, .headers = o->headers};
}

static void set_hostname(struct cluster *c, const char *hostname)
{
    c->e.hostname = must_strdup(hostname);
    if (!server_id_from_hostname(slice_str(hostname), c->e.own_id)) {
        log_error("The host name makes no server ID", LT("hostname", hostname));
        c->e.own_id[0] = '\0';
    }
    log_info("Own server ID", LT("id", c->e.own_id), LT("hostname", hostname));
}

/* ---- snapshots ---- */

static bool collect(void *arg, struct served_input *in)
{
    struct cluster *c = arg;

    return survey_take(c->survey, in);
}

static void on_published(void *arg)
{
    struct cluster *c = arg;

    comparer_take(c->comparer, publish_current(c->e.publish));
    waiters_published(&c->waiters);
}

static void on_documents(void *arg)
{
    struct cluster *c = arg;

    waiters_polled(&c->protobuf_waiters, false);
}

/* ---- the local server ---- */

static void on_local_polled(void *arg, bool ok, bool restarted)
{
    struct cluster *c = arg;
    char tag[LEASE_TAG_BYTES];

    if (restarted)
        identity_restarted(c->identity);
    if (ok) {
        if (c->e.o.peers_enabled)
            schemas_poll(c->local->server->schemas, c->e.o.local);
        records_local_answers(c->records);
        refresh_tag(c->local->server->discovery, tag);
        identity_serves(c->identity, slice_str(tag));
    } else if (refresh_look(c->local->server->discovery)->refused != 0) {
        front_trust_doubt(c->front_trust);
    }
    waiters_polled(&c->waiters, publish_pending(c->e.publish));
}

static void on_local_readiness(void *arg, bool ready)
{
    struct cluster *c = arg;

    survey_note_leases(c->survey);
    if (ready)
        peer_side_retry(c->side);
}

static bool is_local_watched(void *arg)
{
    const struct cluster *c = arg;

    return peer_side_watches(c->side);
}

static size_t poll_peers(void *arg)
{
    const struct cluster *c = arg;

    return peer_side_poll(c->side);
}

static size_t servers(void *arg)
{
    const struct cluster *c = arg;

    return peer_side_servers(c->side);
}

static const struct local_handler local_handler = {
    .polled = on_local_polled, .readiness = on_local_readiness, .watched = is_local_watched, .poll_peers = poll_peers};

/* ---- the peers ---- */

static void on_peer_added(void *arg, const char *id)
{
    const struct cluster *c = arg;

    records_tell(c->records, slice_str(id));
}

static void on_watch(void *arg, const char *why)
{
    struct cluster *c = arg;

    if (why != NULL)
        metric_inc(c->metrics.sync_errors_lease_list);
    else
        identity_recheck(c->identity);
    survey_note_leases(c->survey);
    publish_request(c->e.publish);
    local_watch_changed(c->local);
}

static void on_own_lease(void *arg, const struct lease *l)
{
    const struct cluster *c = arg;

    identity_seen(c->identity, l);
}

static const struct peer_side_handler peer_side_handler = {
    .added = on_peer_added, .watch = on_watch, .own_lease = on_own_lease};

/* ---- the own Lease ---- */

static const struct peers *peers(void *arg)
{
    const struct cluster *c = arg;

    return c->side->peers;
}

static enum identity_mode identity_mode(const struct cluster *c)
{
    return c->e.own_id[0] == '\0' ? IDENTITY_OFF : c->e.o.identity;
}

static void make_identity(struct cluster *c)
{
    const struct identity_opts o = {
        .api = c->e.api,
        .id = c->e.own_id,
        .hostname = c->e.hostname,
        .mode = identity_mode(c),
        .advertise = c->e.advertise,
        .annotate = c->e.o.annotate,
        .metrics = &c->metrics,
        .peers = peers,
        .arg = c,
    };

    c->identity = identity_new(&o);
}

/* ---- records in etcd ---- */

static void on_record_address(void *arg, struct slice id, const char *host, unsigned port)
{
    struct cluster *c = arg;

    peers_etcd_address(c->side->peers, id, host, port);
}

static bool answers(void *arg)
{
    const struct cluster *c = arg;

    const struct refresh_view *is = refresh_look(c->local->server->discovery);

    return is->polls > 0 && is->failure == NULL;
}

static bool is_annotated(void *arg, struct slice id)
{
    const struct cluster *c = arg;
    const struct peer *p = peers_find(c->side->peers, id);

    return p != NULL && p->address[PEER_FROM_ANNOTATION].host != NULL;
}

static void make_records(struct cluster *c)
{
    const struct records_opts o = {
        .loop = c->e.loop,
        .back = c->e.back,
        .metrics = &c->metrics,
        .changes = c->e.o.changes,
        .own_id = c->e.own_id,
        .on_address = on_record_address,
        .may_publish = answers,
        .has_other = is_annotated,
        .arg = c,
    };

    c->records = records_new(&o);
}

static void configure_records(struct cluster *c, const struct cluster_opts *o)
{
    const struct records_config r = {
        .servers = o->etcd_servers,
        .n_servers = o->peers_enabled ? o->n_etcd_servers : 0,
        .prefix = o->etcd_prefix,
        .advertise = o->advertise,
    };

    records_configure(c->records, &r);
}

/* ---- life ---- */

static void watch_readiness(struct cluster *c)
{
    readiness_set_origin(c->local->readiness, cluster_fails_over(c) ? c->e.o.local : NULL);
}

static void configure_front(struct cluster *c, const struct cluster_opts *o, bool moved)
{
    struct front_trust_self self = {.until_s = o->front_until_s};

    for (size_t i = 0; o->groups != NULL && o->groups[i] != NULL; i++)
        self.masters = self.masters || strcmp(o->groups[i], "system:masters") == 0;
    front_trust_configure(c->front_trust, &o->front, &self, moved);
}

/* Peers are reached in another way, so each of their origins has to be another one. */
static bool is_reach_new(const struct cluster_opts *then, const struct cluster_opts *now)
{
    return now->peer_tls_cert != then->peer_tls_cert || now->peer_tls_no_cert != then->peer_tls_no_cert ||
           now->peer_allowed != then->peer_allowed || now->peer_allowed_arg != then->peer_allowed_arg ||
           now->peer_rule_changed || now->peer_egress != then->peer_egress;
}

static void start_peers(struct cluster *c, bool anew, bool moved)
{
    peer_side_start(c->side, anew, moved);
    if (!c->ending)
        identity_start(c->identity);
}

static void stop_peers(struct cluster *c)
{
    peer_side_stop(c->side);
    c->peers_seen = false;
    if (!c->ending) /* else whoever ends it waits to hear of it */
        identity_stop(c->identity, NULL, NULL);
}

struct cluster *cluster_new(struct loop *l, struct back *b, struct metrics *m, const struct cluster_opts *o)
{
    struct cluster *c = must_zalloc(sizeof(*c));
    struct api_identity who = identity(o);
    struct publish_opts p = {.loop = l,
                             .metrics = &c->metrics,
                             .collect = collect,
                             .on_published = on_published,
                             .on_documents = on_documents,
                             .arg = c};

    c->e.loop = l;
    c->e.back = b;
    c->e.metrics = &c->metrics;
    c->e.servers = servers;
    c->e.servers_arg = c;
    take_options(c, o);
    set_hostname(c, o->hostname);
    cluster_metrics_init(&c->metrics, m);
    c->e.api = api_new(l, b, c->e.o.local, &who);
    make_identity(c);
    make_records(c);
    c->front_trust = front_trust_new(&(struct front_trust_opts){.api = c->e.api,
                                                                .differs = c->metrics.front_differs,
                                                                .refused = c->metrics.front_refused,
                                                                .changes = o->changes});
    waiters_init(&c->waiters, l);
    waiters_init(&c->protobuf_waiters, l);
    p.work = api_work(c->e.api);
    c->comparer = comparer_new(l, api_work(c->e.api));
    c->e.publish = publish_new(&p);
    must_hold(c->comparer != NULL);
    c->local = local_new(&c->e, &local_handler, c);
    c->side = peer_side_new(&c->e, c->local, &peer_side_handler, c);
    c->survey = survey_new(&c->e, c->local, c->side);
    c->gauges = (struct cluster_gauges){
        .env = &c->e, .local = c->local, .side = c->side, .comparer = c->comparer, .started_ms = loop_now_ms(l)};
    cluster_gauges_follow(&c->gauges, m);
    server_set_origin(c->local->server, c->e.o.local, c->e.o.pulse);
    watch_readiness(c);
    if (o->peers_enabled)
        start_peers(c, false, false);
    configure_records(c, o);
    configure_front(c, o, true);
    publish_request(c->e.publish);
    return c;
}

void cluster_free(struct cluster *c)
{
    if (c == NULL)
        return;
    loop_defer_cancel(c->e.loop, &c->withdrawn_turn);
    stop_peers(c);
    identity_free(c->identity);
    front_trust_free(c->front_trust);
    records_free(c->records);
    waiters_clear(&c->waiters);
    waiters_clear(&c->protobuf_waiters);
    survey_free(c->survey);
    peer_side_free(c->side);
    local_free(c->local);
    publish_free(c->e.publish);
    comparer_free(c->comparer);
    api_free(c->e.api);
    origin_unref(c->e.o.local);
    mem_free(c->e.hostname);
    mem_free(c);
}

bool cluster_update(struct cluster *c, const struct cluster_opts *o)
{
    struct api_identity who = identity(o);
    bool moved = o->local != c->e.o.local, anew = is_reach_new(&c->e.o, o);
    bool was_enabled = c->e.o.peers_enabled;

    if (!api_set_identity(c->e.api, &who))
        return false;
    take_options(c, o);
    if (was_enabled && !o->peers_enabled)
        stop_peers(c);
    identity_update(c->identity, identity_mode(c), c->e.advertise, c->e.o.annotate);
    if (was_enabled != o->peers_enabled)
        log_info(o->peers_enabled ? "Peer proxying enabled" : "Peer proxying disabled");
    /* A restart of the local server is seen by the watches, and there were none. */
    if (!was_enabled && o->peers_enabled)
        refresh_trigger(c->local->server->discovery, REFRESH_EVENT);
    if (moved) {
        server_set_origin(c->local->server, c->e.o.local, c->e.o.pulse);
        api_set_local(c->e.api, c->e.o.local);
        identity_recheck(c->identity);
    }
    watch_readiness(c);
    refresh_set_interval(c->local->server->discovery, o->refresh_interval_ms);
    if (o->peers_enabled)
        start_peers(c, anew, moved && was_enabled);
    configure_records(c, o);
    configure_front(c, o, moved);
    publish_request_now(c->e.publish);
    return true;
}

static void on_part_withdrawn(void *arg)
{
    struct cluster *c = arg;

    if (--c->withdrawing == 0)
        loop_defer(c->e.loop, &c->withdrawn_turn, c->withdrawn, c->withdrawn_arg);
}

void cluster_stop(struct cluster *c, void (*done)(void *arg), void *arg)
{
    c->ending = true;
    c->withdrawn = done;
    c->withdrawn_arg = arg;
    c->withdrawing = 2;
    records_stop(c->records, on_part_withdrawn, c);
    identity_stop(c->identity, on_part_withdrawn, c);
}

struct served *cluster_served(struct cluster *c)
{
    return publish_current(c->e.publish);
}

/* ---- surprises ---- */

struct cluster_waiter *cluster_local_miss(struct cluster *c, void (*done)(void *arg), void *arg)
{
    /* Each request to a peer comes here, and most wait for nothing. Who waits has been told two things at once. */
    refresh_trigger(c->local->server->discovery, done == NULL ? REFRESH_MISS : REFRESH_SUSPECT);
    return done == NULL ? NULL : waiters_add(&c->waiters, done, arg);
}

struct cluster_waiter *cluster_want_protobuf(struct cluster *c, void (*done)(void *arg), void *arg)
{
    if (!publish_want_protobuf(c->e.publish))
        return NULL;
    return waiters_add(&c->protobuf_waiters, done, arg);
}

void cluster_forget_waiter(struct cluster *c, struct cluster_waiter *w)
{
    (void)c;
    waiters_forget(w);
}

bool cluster_local_unread(const struct cluster *c)
{
    return refresh_look(c->local->server->discovery)->failure != NULL;
}

void cluster_peer_missed(struct cluster *c, const char *peer_id)
{
    struct server *s = peer_side_server(c->side, peer_id);

    if (s != NULL)
        refresh_trigger(s->discovery, REFRESH_MISS);
}

void cluster_peer_suspect(struct cluster *c, const char *peer_id)
{
    struct server *s = peer_side_server(c->side, peer_id);

    if (s == NULL)
        return;
    refresh_trigger(s->discovery, REFRESH_SUSPECT);
    pulse_doubt(s->pulse);
}

void cluster_local_suspect(struct cluster *c)
{
    refresh_trigger(c->local->server->discovery, REFRESH_SUSPECT);
}

#define DISBELIEVED_LATELY_US ((int64_t)600 * 1000000)

static void name_denial(const struct gvr *gvr, char out[CHANGE_TEXT_BYTES])
{
    (void)snprintf(out, CHANGE_TEXT_BYTES, "404 for %.*s of %.*s%s%.*s, which its discovery lists",
                   (int)gvr->resource.n, gvr->resource.p, (int)gvr->group.n, gvr->group.n == 0 ? "" : gvr->group.p,
                   gvr->group.n == 0 ? "" : "/", (int)gvr->version.n, gvr->version.p);
}

void cluster_disbelieved(struct cluster *c, const char *server, const struct gvr *gvr)
{
    char text[CHANGE_TEXT_BYTES];

    name_denial(gvr, text);
    changes_add(c->e.o.changes, CHANGE_DISBELIEVED, server, "%s", text);
}

bool cluster_disbelieved_lately(const struct cluster *c, const char *server, const struct gvr *gvr, uint64_t *ago_ms)
{
    int64_t now = clock_wall_us();
    const struct change *one;
    char text[CHANGE_TEXT_BYTES];

    name_denial(gvr, text);
    for (size_t i = 0; (one = changes_at(c->e.o.changes, true, i)) != NULL; i++) {
        if (now - one->wall_us > DISBELIEVED_LATELY_US)
            break;
        if (strcmp(one->subject, server) != 0 || strcmp(one->text, text) != 0)
            continue;
        *ago_ms = now > one->wall_us ? (uint64_t)(now - one->wall_us) / 1000 : 0;
        return true;
    }
    return false;
}

void cluster_peer_answered(struct cluster *c, const char *peer_id)
{
    struct server *s = peer_side_server(c->side, peer_id);

    if (s != NULL && refresh_look(s->discovery)->failing)
        refresh_trigger(s->discovery, REFRESH_ANSWERED);
}

void cluster_server_answered(struct cluster *c, const char *peer_id, uint64_t sent_ms)
{
    struct server *s = peer_id == NULL ? c->local->server : peer_side_server(c->side, peer_id);

    if (s != NULL)
        pulse_answered(s->pulse, sent_ms);
}

bool cluster_fails_over(const struct cluster *c)
{
    return c->e.o.local_failover && c->e.o.peers_enabled;
}

bool cluster_peers_answer(const struct cluster *c)
{
    return local_peers_answer(c->local);
}

enum readiness_state cluster_local_state(const struct cluster *c)
{
    return readiness_state(c->local->readiness);
}

bool cluster_local_was_loading(const struct cluster *c, uint64_t sent_ms)
{
    return readiness_was_loading(c->local->readiness, sent_ms);
}

enum api_word cluster_local_word(const struct cluster *c, uint64_t sent_ms)
{
    return readiness_word(c->local->readiness, sent_ms);
}

bool cluster_peer_was_loading(struct cluster *c, const char *peer_id, uint64_t sent_ms)
{
    const struct server *s = peer_side_server(c->side, peer_id);

    return s != NULL && pulse_was_loading(s->pulse, sent_ms);
}

void cluster_local_failed(struct cluster *c, bool unreachable)
{
    if (unreachable)
        readiness_lost(c->local->readiness);
    else
        readiness_invalidate(c->local->readiness);
    pulse_doubt(c->local->server->pulse);
    if (origin_loops(c->e.o.local))
        refresh_trigger(c->local->server->discovery, REFRESH_SUSPECT); /* and, as it fails, until it no longer does */
}

void cluster_refresh(struct cluster *c)
{
    struct peer *p;
    size_t i = 0;

    refresh_trigger(c->local->server->discovery, REFRESH_OPERATOR);
    while ((p = peers_next(c->side->peers, &i)) != NULL)
        if (p->server != NULL)
            refresh_trigger(p->server->discovery, REFRESH_OPERATOR);
}

bool cluster_is_own_name(const struct cluster *c, const char *name)
{
    return strcmp(name, c->e.hostname) == 0 || strcmp(name, c->e.own_id) == 0;
}

const char *cluster_nearest_peer(const struct cluster *c, const char *name)
{
    struct nearest n = nearest_to(slice_str(name));

    peer_named_nearest(c->side->peers, &n);
    return n.best;
}

const char *cluster_refresh_server(struct cluster *c, const char *name, struct err *err)
{
    struct peer *p;

    if (cluster_is_own_name(c, name)) {
        refresh_trigger(c->local->server->discovery, REFRESH_OPERATOR);
        return c->e.own_id;
    }
    p = peer_side_named(c->side, name, false, err);
    if (p != NULL && p->server != NULL)
        refresh_trigger(p->server->discovery, REFRESH_OPERATOR);
    return p == NULL ? NULL : p->id;
}

bool cluster_drain_peer(struct cluster *c, const char *name, bool drained, struct cluster_drained *out, struct err *err)
{
    struct peer *p = peer_side_named(c->side, name, !drained, err);

    if (p == NULL)
        return false;
    peers_set_drained(c->side->peers, p, drained);
    *out = (struct cluster_drained){
        .id = p->id, .host = peer_label(p), .in_flight = p->origin == NULL ? 0 : origin_clients_in_flight(p->origin)};
    return true;
}

void cluster_local_etag_seen(struct cluster *c, struct slice etag)
{
    if (etag.n > 0 && !slice_eq(etag, slice_str(refresh_look(c->local->server->discovery)->apis_etag)))
        refresh_trigger(c->local->server->discovery, REFRESH_ETAG);
}
