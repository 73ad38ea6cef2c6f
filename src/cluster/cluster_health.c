/* SPDX-License-Identifier: Apache-2.0 */
/* What is awaited before this instance is ready, and what is wrong with it. */
#include <stdio.h>

#include "back/back.h"
#include "base/duration.h"
#include "base/limits.h"
#include "cluster/cluster.h"
#include "cluster/cluster_internal.h"
#include "cluster/exclusions.h"
#include "cluster/front_trust.h"
#include "cluster/informer.h"
#include "cluster/leases.h"
#include "cluster/local.h"
#include "cluster/peer_side.h"
#include "cluster/publish.h"
#include "cluster/pulse.h"
#include "cluster/readiness.h"
#include "cluster/server.h"
#include "net/loop.h"

static bool not_yet(char *reason, size_t n, const char *what, const char *why)
{
    (void)snprintf(reason, n, "%s%s%s", what, why == NULL ? "" : ": ", why == NULL ? "" : why);
    return false;
}

/* What we may not know is not waited for: the server goes on being served without it. But whom it does not believe it
 * refuses everything, and only until that is put right. */
static bool lacks_rights(const struct cluster *c, unsigned refused)
{
    return refused != 0 && !front_trust_is_disbelief(c->front_trust, refused);
}

/* The document lists more than we take, say, by the fault of one aggregated API: no reason to serve nothing. */
static bool is_closed(const struct cluster *c)
{
    const struct refresh_view *is = refresh_look(c->local->server->discovery);

    return lacks_rights(c, is->refused) || is->odd;
}

bool cluster_local_synced(struct cluster *c, char *reason, size_t n)
{
    if (refresh_look(c->local->server->discovery)->disco != NULL || is_closed(c))
        return true;
    return not_yet(reason, n, "local discovery not read yet", refresh_look(c->local->server->discovery)->failure);
}

bool cluster_leases_synced(struct cluster *c, char *reason, size_t n)
{
    if (!c->e.o.peers_enabled)
        return true;
    if (c->side->leases == NULL)
        return not_yet(reason, n, "out of memory", NULL);
    if (!leases_synced(c->side->leases) && !lacks_rights(c, leases_refused(c->side->leases)))
        return not_yet(reason, n, "leases not listed yet", leases_failure(c->side->leases));
    if (c->side->exclusions == NULL || !exclusions_settled(c->side->exclusions))
        return not_yet(reason, n, "custom resources and APIServices not listed yet", NULL);
    return true;
}

static const struct peer *awaited(const struct cluster *c)
{
    uint64_t now = loop_now_ms(c->e.loop);
    struct peer *p;
    size_t i = 0;

    while ((p = peers_next(c->side->peers, &i)) != NULL)
        if (p->life == PEER_LIVE && (p->server == NULL || !refresh_look(p->server->discovery)->known) &&
            now - p->known_ms < TIMEOUT_PEER_FIRST_ANSWER_MS)
            return p;
    return NULL;
}

/* Nothing more will be known than is. */
static bool refused(const struct cluster *c)
{
    return is_closed(c) || lacks_rights(c, leases_refused(c->side->leases));
}

bool cluster_peers_synced(struct cluster *c, char *reason, size_t n)
{
    const struct peer *p;

    /* Once is enough: a peer that joins later must not take this instance out of service. */
    if (!c->e.o.peers_enabled || c->peers_seen)
        return true;
    if (!cluster_leases_synced(c, reason, n))
        return false;
    /* A server that starts is read before it knows its CRDs, and so may be refused the list of them, too. */
    if (!readiness_asked(c->local->readiness) ||
        (c->local->life != LOCAL_THERE && !exclusions_synced(c->side->exclusions)))
        return not_yet(reason, n, "the local server is not ready, so custom resources are not known", NULL);
    p = awaited(c);
    if (p != NULL)
        return not_yet(reason, n, "a peer has not answered yet", p->hostname[0] != '\0' ? p->hostname : p->id);
    /* What the last one answered must have reached the snapshot. */
    if (!publish_settled(c->e.publish) || (!served_synced(publish_current(c->e.publish)) && !refused(c)))
        return not_yet(reason, n, "discovery is being merged", NULL);
    if (served_schemas_pending(publish_current(c->e.publish)))
        return not_yet(reason, n, "the schemas of a peer are being read", NULL);
    c->peers_seen = true;
    return true;
}

/* What is wrong where /version, which needs nothing, is answered: after a time in which that would have failed as well.
 */
static const char *local_trouble(struct cluster *c, const struct pulse_view *pulse)
{
    bool answers = pulse->state == PULSE_ANSWERS && readiness_age_ms(c->local->readiness) >= 2 * PULSE_TIMEOUT_MS;

    if (answers)
        return "the local kube-apiserver answers /version, but is not ready (its etcd?)";
    if (readiness_state(c->local->readiness) != READINESS_STARTING)
        return "the local kube-apiserver does not answer";
    return readiness_served(c->local->readiness) || readiness_etcd_fails(c->local->readiness)
               ? "the local kube-apiserver is not ready"
               : "the local kube-apiserver is starting";
}

void cluster_local_describe(struct cluster *c, char *text, size_t n)
{
    enum readiness_state s = readiness_state(c->local->readiness);
    char age[DURATION_BYTES];
    struct pulse_view pulse;

    pulse_look(c->local->server->pulse, &pulse);
    if (!cluster_fails_over(c))
        (void)snprintf(text, n, "off");
    else if (s == READINESS_READY && pulse.state == PULSE_UNREACHABLE)
        (void)snprintf(text, n,
                       "not yet: the local API server does not answer for %s; it begins when a request, its "
                       "/readyz or reading discovery fails as well",
                       duration_text(pulse.age_ms, age));
    else if (s == READINESS_READY)
        (void)snprintf(text, n, "not needed: the local API server answers");
    else
        (void)snprintf(text, n, "active for %s: %s%s", duration_text(readiness_away_ms(c->local->readiness), age),
                       local_trouble(c, &pulse), cluster_peers_answer(c) ? "" : ", and no peer answers for it");
}

bool cluster_local_reachable(struct cluster *c, char *reason, size_t n)
{
    const struct refresh_view *is = refresh_look(c->local->server->discovery);
    struct pulse_view pulse;

    pulse_look(c->local->server->pulse, &pulse);
    if (origin_loops(c->e.o.local))
        return not_yet(reason, n, "requests to the API server come back", "an mvproxy answers at its address");
    /* Of a server that hangs discovery knows ten seconds later, and it may be long until that is read again. One late
     * answer is no outage: the next is missed as well by then. */
    if (pulse.state == PULSE_UNREACHABLE && pulse.age_ms >= PULSE_INTERVAL_MS + PULSE_TIMEOUT_MS)
        return not_yet(reason, n, "the local kube-apiserver does not answer", pulse.failure);
    /* Peers answer for it (local failover): it may answer /version as if all were well. */
    if (readiness_state(c->local->readiness) != READINESS_READY)
        return not_yet(reason, n, local_trouble(c, &pulse), readiness_failure(c->local->readiness));
    if ((is->failure == NULL && is->polls > 0) || is->refused != 0 || is->odd)
        return true;
    return not_yet(reason, n,
                   is->failure == NULL ? "the local kube-apiserver was not asked yet"
                                       : "the local kube-apiserver does not answer",
                   is->failure);
}

bool cluster_front_trusted(struct cluster *c, char *reason, size_t n)
{
    return front_trust_agrees(c->front_trust, reason, n);
}

const char *cluster_front_more(const struct cluster *c)
{
    return front_trust_more(c->front_trust);
}

bool cluster_front_expected(const struct cluster *c, char *reason, size_t n)
{
    return front_trust_expected(c->front_trust, reason, n);
}

enum request_header_verdict cluster_front_clients(const struct cluster *c, struct slice client_ca)
{
    return front_trust_clients(c->front_trust, client_ca);
}

void cluster_front_ask(struct cluster *c)
{
    front_trust_ask(c->front_trust);
}

const struct user_headers *cluster_front_named(const struct cluster *c)
{
    return front_trust_named(c->front_trust);
}
