/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/cluster_view.h"

#include <stdlib.h>

#include "back/back.h"
#include "base/buf.h"
#include "base/clock.h"
#include "cluster/cluster.h"
#include "cluster/cluster_internal.h"
#include "cluster/comparer.h"
#include "cluster/exclusions.h"
#include "cluster/identity.h"
#include "cluster/leases.h"
#include "cluster/local.h"
#include "cluster/peer_side.h"
#include "cluster/publish.h"
#include "cluster/records.h"
#include "cluster/server.h"
#include "cluster/survey.h"
#include "net/loop.h"

static void take_pulse(struct cluster_server *s, const struct server *from)
{
    struct pulse_view v;

    pulse_look(from == NULL ? NULL : from->pulse, &v);
    s->answers = v.state;
    s->refuses = v.refuses;
    s->hangs = v.hangs;
    s->answers_ms = v.age_ms;
    s->version = v.says->binary;
    s->emulated = v.says->emulated;
    s->has_mvproxy = v.hop;
    s->mvproxy = v.mvproxy;
    s->error = v.last_failure;
    s->error_ms = v.last_failure_ms;
    s->failing = v.state == PULSE_UNREACHABLE;
}

static void count_doc(struct cluster_server *s, const struct disco_doc *d)
{
    if (d == NULL)
        return;
    s->groups += disco_doc_n_groups(d);
    s->resources += disco_doc_n_resources(d);
}

/* A server that does not answer at all has no other trouble that would matter more. */
static void take_discovery(struct cluster_server *s, const struct server *from)
{
    const struct refresh *r = from == NULL ? NULL : from->discovery;
    const struct refresh_view *is;
    const char *error;
    uint64_t error_ms;

    s->discovery_ms = UINT64_MAX;
    if (r == NULL)
        return;
    is = refresh_look(r);
    s->known = is->known;
    s->has_mvproxy = s->has_mvproxy || is->mvproxy;
    s->discovery_ms = refresh_age_ms(r);
    s->reads = is->polls;
    s->schemas_unusable = schemas_unusable(from->schemas);
    if (is->disco != NULL) {
        count_doc(s, disco_core(is->disco));
        count_doc(s, disco_apis(is->disco));
    }
    error = refresh_last_failure(r, &error_ms);
    if (s->failing || error == NULL || (s->error != NULL && s->error_ms < error_ms && is->failure == NULL))
        return;
    s->error = error;
    s->error_ms = error_ms;
    s->failing = is->failure != NULL;
}

static void take_origin(struct cluster_server *s, const struct origin *o)
{
    if (o == NULL)
        return;
    s->address = origin_address(o);
    s->in_flight = origin_clients_in_flight(o);
}

/* An outlier answers the questions of ours, and fails those of clients: then why it was ejected is what is to be
 * known. */
static void take_ejection(struct cluster_server *s, const struct origin *o)
{
    uint64_t for_ms;
    const char *why = o == NULL ? NULL : origin_ejection(o, &for_ms);

    s->ejected = why != NULL;
    if (why == NULL || s->failing)
        return;
    s->error = why;
    s->error_ms = for_ms;
}

static void take_local(const struct cluster *c, struct cluster_server *s)
{
    *s = (struct cluster_server){
        .id = c->e.own_id,
        .host = c->e.hostname[0] != '\0' ? c->e.hostname : c->e.own_id,
        .life = "local",
        .holder = "",
        .local = true,
        .source = "configuration",
        .leased = local_lease_ms(c->local) != UINT64_MAX,
        .lease_ms = local_lease_ms(c->local),
        .readiness = readiness_name(readiness_state(c->local->readiness)),
    };
    take_origin(s, c->e.o.local);
    take_pulse(s, c->local->server);
    take_discovery(s, c->local->server);
    take_ejection(s, c->e.o.local);
}

/* Who has another ID since it was upgraded leaves the one before behind. */
static bool is_missing(const struct cluster *c, const struct peer *p)
{
    const struct peer *other;
    size_t i = 0;

    if (p->life != PEER_FORGOTTEN || !(p->leased || p->fixed) || strcmp(p->hostname, c->e.hostname) == 0)
        return false;
    while (p->hostname[0] != '\0' && (other = peers_next(c->side->peers, &i)) != NULL)
        if (other->life != PEER_FORGOTTEN && strcmp(other->hostname, p->hostname) == 0)
            return false;
    return true;
}

void cluster_each_missing(const struct cluster *c, void (*fn)(void *arg, const char *host), void *arg)
{
    const struct peer *p;
    size_t i = 0;

    while ((p = peers_next(c->side->peers, &i)) != NULL)
        if (is_missing(c, p))
            fn(arg, p->hostname[0] != '\0' ? p->hostname : p->id);
}

void cluster_each_place(const struct cluster *c, void (*fn)(void *arg, const struct cluster_place *p), void *arg)
{
    const struct peer *p;
    size_t i = 0;

    while ((p = peers_next(c->side->peers, &i)) != NULL)
        if (p->life == PEER_LIVE && p->origin != NULL && p->source != PEER_SOURCES)
            fn(arg, &(struct cluster_place){.server = peer_label(p),
                                            .host = p->address[p->source].host,
                                            .port = p->address[p->source].port,
                                            .unreachable = origin_unreachable(p->origin)});
}

bool cluster_leases_listed(const struct cluster *c)
{
    return c->side->leases != NULL && leases_synced(c->side->leases);
}

const char *cluster_leases_never(const struct cluster *c)
{
    return !c->e.o.peers_enabled || c->side->leases == NULL || leases_synced(c->side->leases)
               ? NULL
               : leases_failure(c->side->leases);
}

static void take_peer(const struct cluster *c, const struct peer *p, struct cluster_server *s)
{
    *s = (struct cluster_server){
        .id = p->id,
        .host = p->hostname[0] != '\0' ? p->hostname : p->id,
        .life = peer_life_name(p->life),
        .holder = p->leased ? p->holder : "",
        .leased = p->leased,
        .fixed = p->fixed,
        .left = p->left,
        .forgotten_in_ms = p->left ? peers_forgotten_in_ms(c->side->peers, p) : 0,
        .leads_to = peer_side_leads_to(c->side, p),
        .missing = is_missing(c, p),
        .drained = p->drained,
        .source = peer_source_name(p->source),
        .lease_ms = p->leased ? loop_now_ms(c->e.loop) - p->seen_ms : UINT64_MAX,
    };
    take_origin(s, p->origin);
    take_pulse(s, p->server);
    take_discovery(s, p->server);
    take_ejection(s, p->origin);
}

uint64_t cluster_skewed_ms(const struct cluster *c)
{
    return comparer_skewed_ms(c->comparer);
}

uint64_t cluster_uneven_ms(const struct cluster *c)
{
    return comparer_uneven_ms(c->comparer);
}

uint64_t cluster_uneven_gv_ms(const struct cluster *c, struct slice group, struct slice version)
{
    uint64_t since = comparer_uneven_since(c->comparer, group, version);

    return since == 0 ? 0 : clock_ms() - since;
}

static int by_host(const void *a, const void *b)
{
    const struct cluster_server *x = a, *y = b;
    int c = strcmp(x->host, y->host);

    return c != 0 ? c : strcmp(x->id, y->id);
}

bool cluster_view_take(struct cluster *c, struct cluster_view *out)
{
    const struct served *s = publish_current(c->e.publish);
    const struct served_document *d = served_merged(s, SERVED_V2);
    const struct peer *p;
    size_t i = 0;

    *out = (struct cluster_view){
        .own_id = c->e.own_id,
        .hostname = c->e.hostname,
        .peers_enabled = c->e.o.peers_enabled,
        .synced = served_synced(s),
        .generation = served_generation(s),
        .identity = identity_state_name(c->identity),
        .merged_bytes = d == NULL ? 0 : d->body.n,
        .skewed_ms = cluster_skewed_ms(c),
        .uneven_ms = cluster_uneven_ms(c),
        .uneven = *comparer_result(c->comparer),
        .never_from_peers = c->side->exclusions == NULL ? 0 : exclusions_count(c->side->exclusions),
        .custom_stale = survey_doubtful(c->survey),
        .servers = mem_array(1 + peers_count(c->side->peers), sizeof(out->servers[0])),
    };
    if (out->servers == NULL)
        return false;
    take_local(c, &out->servers[out->n++]);
    while ((p = peers_next(c->side->peers, &i)) != NULL)
        take_peer(c, p, &out->servers[out->n++]);
    if (c->side->leases != NULL && leases_failure(c->side->leases) != NULL) {
        out->leases_failure = leases_failure(c->side->leases);
        out->leases_failure_ms = survey_leases_ms(c->survey);
        out->leases_never = cluster_leases_never(c) != NULL;
    }
    qsort(out->servers + 1, out->n - 1, sizeof(out->servers[0]), by_host);
    return true;
}

void cluster_view_free(struct cluster_view *v)
{
    mem_free(v->servers);
    v->servers = NULL;
    v->n = 0;
}

void cluster_describe(struct cluster *c, struct buf *out)
{
    buf_append_str(out, "{\"etcd\":");
    records_describe(c->records, out);
    if (c->side->leases != NULL) {
        buf_printf(out, ",\"ownLeaseSeen\":%s,\"leases\":", leases_own_seen(c->side->leases) ? "true" : "false");
        leases_describe(c->side->leases, out);
    }
    if (c->side->exclusions != NULL) {
        buf_append_str(out, ",\"exclusions\":");
        exclusions_describe(c->side->exclusions, out);
    }
    buf_append_char(out, '}');
}

void cluster_etcd_state(struct cluster *c, char *text, size_t n)
{
    records_state(c->records, text, n);
}
