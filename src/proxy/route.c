/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/route.h"

#include "base/contract.h"
#include "kube/status.h"
#include "kube/surface.h"

static void decide(struct route *r, enum route_action action, enum route_row row)
{
    r->action = action;
    r->row = row;
}

static void refuse(struct route *r, enum route_row row, const char *message)
{
    decide(r, ROUTE_REFUSE, row);
    r->message = message;
}

/*
 * Discovery lists the verbs of REST storage. What kube-apiserver derives from the path alone (legacy `proxy`) or leaves
 * empty (methods it has no verb for) is not among them, so it is not asked for.
 */
static struct slice verb_to_ask(const struct reqinfo *info)
{
    if (slice_eq(info->verb, SLICE_LIT("proxy")))
        return slice_of("", 0);
    return info->verb;
}

static enum disco_answer ask_local(const struct route_query *q)
{
    struct gvr gvr = reqinfo_gvr(q->info);

    if (q->local_unread)
        return DISCO_NO_RESOURCE;
    return served_local(q->served, &gvr, q->info->subresource, verb_to_ask(q->info));
}

/* xorshift: the dice are thrown once per request and stretched here, so that the function stays pure. */
static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void shuffle(uint16_t *v, size_t n, uint64_t *state)
{
    for (size_t i = n; i > 1; i--) {
        size_t j = (size_t)(next_random(state) % i);
        uint16_t t = v[i - 1];

        v[i - 1] = v[j];
        v[j] = t;
    }
}

/* Inserts among the healthy (front) or the others (back); a full list prefers the healthy. */
static void add_candidate(struct route *r, size_t *n_healthy, uint16_t peer, bool healthy)
{
    if (r->n_candidates == ROUTE_MAX_CANDIDATES) {
        if (!healthy || *n_healthy == ROUTE_MAX_CANDIDATES)
            return;
        must_hold(r->n_candidates > 0);
        r->n_candidates--;
    }
    if (healthy) {
        r->candidates[r->n_candidates] = r->candidates[*n_healthy];
        r->candidates[(*n_healthy)++] = peer;
    } else {
        r->candidates[r->n_candidates] = peer;
    }
    r->n_candidates++;
}

static void note_answer(struct route *r, enum disco_answer a)
{
    r->known_resource |= a != DISCO_NO_RESOURCE;
    r->known_subresource |= a == DISCO_SERVED || a == DISCO_NO_VERB;
}

/* What a request is about: a resource, or schemas. */
struct subject {
    bool schemas;                /* `schema`, or if that is empty those of OpenAPI v2, which every server has */
    struct slice schema;         /* in the index of schemas: "apis/GROUP/VERSION" */
    struct slice hash;           /* the one that is wanted; empty: any */
    struct slice group, version; /* "": not of one */
    bool but_verb;               /* of servers that have the resource without the verb */
    bool any;                    /* of servers that have the group/version, whatever they list of it */
    bool everybody;              /* of all that are known */
    bool before;                 /* of who served it before another process came, it seems, that was not read yet */
    bool listed;                 /* schemas: of who lists the group/version, while his index is not known */
};

static bool has_schema(const struct schema_index *x, const struct subject *what)
{
    const struct schema_entry *e = schema_index_find(x, what->schema);

    return what->schema.n == 0 || (e != NULL && (what->hash.n == 0 || slice_eq(e->hash, what->hash)));
}

static bool lists(const struct disco *d, const struct subject *what)
{
    return d != NULL && what->version.n > 0 && disco_gv(d, what->group, what->version) != DISCO_GV_ABSENT;
}

struct choice {
    bool served;      /* by some peer, as asked */
    size_t n_healthy; /* candidates at the front of the list */
    size_t n_active;  /* these and those behind them; the rest is drained */
};

static bool serves(const struct route_query *q, const struct subject *what, size_t peer, struct route *out)
{
    const struct served_peer *p = served_peer_at(q->served, peer);
    struct gvr gvr = reqinfo_gvr(q->info);
    enum disco_answer a;

    if (what->schemas && what->listed)
        return p->schemas == NULL && p->discovery_known && lists(p->disco, what);
    if (what->schemas)
        return has_schema(p->schemas, what);
    if (what->everybody)
        return p->discovery_known;
    if (what->before)
        return !p->discovery_known && p->disco != NULL &&
               disco_lookup(p->disco, &gvr, q->info->subresource, verb_to_ask(q->info)) == DISCO_SERVED;
    a = served_by_peer(q->served, peer, &gvr, q->info->subresource, verb_to_ask(q->info));
    note_answer(out, a);
    if (what->any)
        return p->discovery_known && p->disco != NULL &&
               disco_gv(p->disco, what->group, what->version) != DISCO_GV_ABSENT;
    return a == (what->but_verb ? DISCO_NO_VERB : DISCO_SERVED);
}

/* Who is no candidate although it serves it. */
struct conditions {
    bool live;        /* who has lapsed */
    bool lapsed;      /* who has not */
    uint64_t release; /* who is older */
    bool active;      /* who is drained */
    bool healthy;     /* who is an outlier */
    bool reachable;   /* who cannot be reached, or hangs */
};

static bool is_healthy(const struct route_query *q, const struct served_peer *p)
{
    return q->healthy == NULL || q->healthy(p, q->arg);
}

static bool is_reachable(const struct route_query *q, const struct served_peer *p)
{
    return p->origin != NULL && (q->reachable == NULL || q->reachable(p, q->arg));
}

static bool meets(const struct route_query *q, const struct served_peer *p, struct conditions c)
{
    return (!c.live || p->life == SERVED_LIVE) && (!c.lapsed || p->life != SERVED_LIVE) && p->release >= c.release &&
           (!c.healthy || (p->origin != NULL && is_healthy(q, p))) && (!c.reachable || is_reachable(q, p));
}

/* Before who is an outlier, drained, or has lapsed. The last may still answer. */
static bool is_first_choice(const struct route_query *q, const struct served_peer *p)
{
    return !p->drained && p->life == SERVED_LIVE && is_healthy(q, p);
}

static void find_some(const struct route_query *q, const struct subject *what, const struct conditions *c, bool drained,
                      struct choice *s, struct route *out)
{
    size_t n = served_n_peers(q->served);

    for (size_t i = 0; i < n && i <= UINT16_MAX; i++) {
        const struct served_peer *p = served_peer_at(q->served, i);

        if (p->drained != drained || !meets(q, p, *c) || !serves(q, what, i, out))
            continue;
        s->served = true;
        if (p->origin != NULL)
            add_candidate(out, &s->n_healthy, (uint16_t)i, is_first_choice(q, p));
    }
}

/* The drained come last of all, behind who is an outlier: a drained peer is better than a 503. */
static struct choice find_candidates(const struct route_query *q, const struct subject *what, struct conditions c,
                                     struct route *out)
{
    struct choice s = {.served = false};

    find_some(q, what, &c, false, &s, out);
    s.n_active = out->n_candidates;
    if (!c.active)
        find_some(q, what, &c, true, &s, out);
    return s;
}

static void shuffle_candidates(const struct route_query *q, const struct choice *s, struct route *out)
{
    uint64_t state = q->dice | 1;

    shuffle(out->candidates, s->n_healthy, &state);
    shuffle(out->candidates + s->n_healthy, s->n_active - s->n_healthy, &state);
    shuffle(out->candidates + s->n_active, out->n_candidates - s->n_active, &state);
}

/*
 * Of the live peers that serve it, if servers do not all mean the same by it and that matters; 0: never mind. Equal
 * schemas are as good as each other, whatever the release.
 */
static uint64_t newest_release(const struct route_query *q, const struct subject *what)
{
    struct gvr gvr = reqinfo_gvr(q->info);
    uint64_t newest = 0;

    if (!q->newest || q->local_failed || !served_skewed(q->served, what->group, what->version))
        return 0;
    for (size_t i = 0; i < served_n_peers(q->served); i++) {
        const struct served_peer *p = served_peer_at(q->served, i);

        if (p->life == SERVED_LIVE && !p->drained && p->release > newest &&
            served_by_peer(q->served, i, &gvr, q->info->subresource, verb_to_ask(q->info)) == DISCO_SERVED)
            newest = p->release;
    }
    return newest;
}

/* Somebody may have it who has not said so yet. */
static bool somebody_may(const struct served *s, struct slice group, struct slice version)
{
    return served_unknown_peer(s) || served_undiscovered(s, group, version);
}

bool route_nobody_else(const struct served *s, const struct reqinfo *info)
{
    struct gvr gvr = reqinfo_gvr(info);

    if (!served_leases_listed(s))
        return false;
    for (size_t i = 0; i < served_n_peers(s); i++)
        if (served_by_peer(s, i, &gvr, info->subresource, verb_to_ask(info)) == DISCO_SERVED)
            return served_excluded(s, info->group, info->version);
    return served_excluded(s, info->group, info->version) || !somebody_may(s, info->group, info->version);
}

static bool is_away(const struct route_query *q)
{
    return q->failover && !q->rerouted && (q->local_failed || q->local_state != READINESS_READY);
}

/* All live peers that were read, and that can be asked. */
static size_t count_live(const struct served *s)
{
    size_t n = 0;

    for (size_t i = 0; i < served_n_peers(s); i++)
        n += served_peer_at(s, i)->life == SERVED_LIVE && served_peer_at(s, i)->discovery_known;
    return n;
}

/*
 * Nobody is known to have it, and the local server cannot say so: it is away, or (`untold`) who else there is can be
 * read elsewhere only. So live peers say it, each of its own server, and an mvproxy of all that it knows of. Not for a
 * local server that is back and may have what it had not: that is read in a moment.
 */
static bool asks_peers(const struct route_query *q, bool untold, struct route *out)
{
    struct choice s;

    if (!q->failover || q->local_unread || (!untold && !is_away(q)) ||
        (q->local_state != READINESS_UNREACHABLE && !served_local_read(q->served)))
        return false;
    s = find_candidates(q, &(struct subject){.everybody = true}, (struct conditions){.live = true}, out);
    if (out->n_candidates == 0)
        return false;
    shuffle_candidates(q, &s, out);
    decide(out, ROUTE_PEER, ROUTE_ROW_NOBODY);
    out->unserved = true;
    out->untold = untold || out->n_candidates < count_live(q->served);
    return true;
}

/* While the local server is away, and the Leases are not followed, a live peer that does not answer may have become
 * another process. */
static bool somebody_is_silent(const struct served *s)
{
    for (size_t i = 0; i < served_n_peers(s); i++)
        if (served_peer_at(s, i)->life == SERVED_LIVE && served_peer_at(s, i)->silent)
            return true;
    return false;
}

/* It may be somebody's, but of whom we know it is nobody's: who came while the Leases are not followed may have it. */
static bool only_newcomers_may(const struct route_query *q, const struct subject *what)
{
    const struct served *s = q->served;

    return !served_pending(s) && ((served_peers_read(s) && !(is_away(q) && somebody_is_silent(s))) ||
                                  !served_undiscovered(s, what->group, what->version));
}

/* Whoever else serves it, behind those of the latest release: an older one is better than a 503. */
static bool add_older(const struct route_query *q, const struct subject *what, struct route *out)
{
    struct route all = {.n_candidates = 0};
    struct choice s = find_candidates(q, what, (struct conditions){.live = false}, &all);

    shuffle_candidates(q, &s, &all);
    for (size_t i = 0; i < all.n_candidates && out->n_candidates < ROUTE_MAX_CANDIDATES; i++)
        if (served_peer_at(q->served, all.candidates[i])->release < out->release)
            out->candidates[out->n_candidates++] = all.candidates[i];
    return s.served;
}

/* Rows 8 and 9. False: it is no known peer's. */
static bool goes_to_peer(const struct route_query *q, const struct subject *what, struct route *out)
{
    uint64_t newest = newest_release(q, what);
    struct choice s = find_candidates(q, what, (struct conditions){.release = newest}, out);

    shuffle_candidates(q, &s, out);
    out->release = newest;
    s.served |= newest > 0 && add_older(q, what, out);
    if (out->n_candidates > 0)
        decide(out, ROUTE_PEER, ROUTE_ROW_PEER);
    else if (s.served)
        refuse(out, ROUTE_ROW_NO_ADDRESS, STATUS_NO_ENDPOINT);
    return s.served;
}

/* The local server's 404 would say that it is gone; who has the resource says 405. */
static bool lacks_verb_elsewhere(const struct route_query *q, const struct subject *what, struct route *out)
{
    struct subject without = *what;

    without.but_verb = true;
    return ask_local(q) != DISCO_NO_VERB && goes_to_peer(q, &without, out);
}

/*
 * Row 11: whoever had it is likely to have it still, and says so if not: that is 503 then, and not 404. It may even be
 * the same process, in whose Lease somebody has written.
 */
static bool asks_who_had_it(const struct route_query *q, const struct subject *what, struct route *out)
{
    struct subject before = *what;
    struct choice s;

    before.before = true;
    s = find_candidates(q, &before, (struct conditions){.live = true}, out);
    if (out->n_candidates == 0)
        return false;
    shuffle_candidates(q, &s, out);
    decide(out, ROUTE_PEER, ROUTE_ROW_PEER);
    return true;
}

/* Rows 6 to 12: the local server does not serve it. */
static void decide_among_peers(const struct route_query *q, const struct subject *what, struct route *out)
{
    if (served_n_peers(q->served) == 0 && !somebody_may(q->served, what->group, what->version)) {
        decide(out, ROUTE_LOCAL, ROUTE_ROW_NO_PEERS);
        return;
    }
    if (served_excluded(q->served, what->group, what->version)) {
        if (!asks_peers(q, false, out))
            decide(out, ROUTE_LOCAL, ROUTE_ROW_EXCLUDED);
        return;
    }
    if (goes_to_peer(q, what, out))
        return;
    if (!somebody_may(q->served, what->group, what->version)) {
        if (!lacks_verb_elsewhere(q, what, out) && !asks_peers(q, false, out))
            decide(out, ROUTE_LOCAL, ROUTE_ROW_NOBODY);
    } else if (!asks_who_had_it(q, what, out) && (!only_newcomers_may(q, what) || !asks_peers(q, true, out))) {
        refuse(out, ROUTE_ROW_UNKNOWN_PEER, STATUS_PEER_UNKNOWN);
    }
}

#define SCHEMAS "/openapi/v3"

static const char *why_not_local(const struct route_query *q)
{
    if (q->local_failed)
        return "failed";
    return q->local_state == READINESS_STARTING ? "starting" : "unreachable";
}

/* The local server's, where schemas differ: an older one drops the new fields of what it writes and reads, and the
 * local one's clients do not know. 0: never mind. */
static uint64_t meant_release(const struct route_query *q)
{
    return served_skewed(q->served, q->info->group, q->info->version) ? served_local_release(q->served) : 0;
}

static void put_older_last(const struct route_query *q, struct route *out)
{
    uint64_t release = meant_release(q);
    size_t at = 0;

    for (size_t i = 0; release > 0 && i < out->n_candidates; i++) {
        uint16_t peer = out->candidates[i];

        if (served_peer_at(q->served, peer)->release < release)
            continue;
        memmove(&out->candidates[at + 1], &out->candidates[at], (i - at) * sizeof(peer));
        out->candidates[at++] = peer;
    }
}

static void put_in_order(const struct route_query *q, const struct choice *s, struct route *out)
{
    shuffle_candidates(q, s, out);
    put_older_last(q, out);
}

static void fail_over(const struct route_query *q, struct route *out)
{
    out->release = meant_release(q);
    out->reason = why_not_local(q);
    out->local_miss = false;
    decide(out, ROUTE_PEER, ROUTE_ROW_LOCAL_FAILOVER);
}

/* A schema, or OpenAPI v2. */
static bool names_schemas(const struct reqinfo *info, struct subject *what)
{
    struct slice hash = SLICE_NONE, rest = info->raw_query, pair;

    *what = (struct subject){.schemas = true, .schema = slice_of("", 0)};
    if (slice_eq(info->path, SLICE_LIT("/openapi/v2")))
        return true;
    if (!slice_has_prefix(info->path, SLICE_LIT(SCHEMAS "/")))
        return false;
    while (hash.n == 0 && slice_split(&rest, '&', &pair))
        if (slice_has_prefix(pair, SLICE_LIT("hash=")))
            hash = slice_from(pair, 5);
    what->schema = slice_from(info->path, sizeof(SCHEMAS));
    what->hash = hash;
    if (!schema_path_names(what->schema, &what->group, &what->version))
        what->group = what->version = slice_of("", 0);
    return what->schema.n > 0;
}

bool route_may_fail_over(const struct reqinfo *info)
{
    struct subject what;

    return info->is_resource || names_schemas(info, &what);
}

bool route_has_schema(const struct served *s, const struct reqinfo *info, const struct schema_index *x)
{
    struct subject what;

    if (x == NULL || !names_schemas(info, &what) || what.schema.n == 0)
        return false;
    what.hash = SLICE_NONE;
    return has_schema(x, &what) && (what.version.n == 0 || !served_excluded(s, what.group, what.version));
}

static bool is_own_schema(const struct route_query *q, const struct subject *what)
{
    const struct schema_index *local = served_local_schemas(q->served);

    if (q->local_denied)
        return false;
    if (local != NULL)
        return has_schema(local, what);
    return what->version.n == 0 || served_forbidden(q->served) || lists(served_local_disco(q->served), what);
}

/* As far as it is known: so rows 4 and 11 hold as for a resource. */
static bool is_not_local_schema(const struct route_query *q, const struct subject *what)
{
    struct subject any = *what;

    any.hash = SLICE_NONE;
    return what->group.n > 0 && !served_forbidden(q->served) && !is_own_schema(q, &any) &&
           !lists(served_local_disco(q->served), what);
}

/* Not the local server's, for all we know. False: it says so itself. */
static bool decide_schema_elsewhere(const struct route_query *q, const struct subject *what, struct route *out)
{
    bool not_local = is_not_local_schema(q, what), synced = served_synced(q->served);
    struct subject any = *what, listed = *what;
    struct choice s;

    any.hash = SLICE_NONE;
    listed.listed = true;
    if (served_local_schemas(q->served) == NULL && !synced && not_local) {
        refuse(out, ROUTE_ROW_NOT_SYNCED, STATUS_SYNCING);
        return true;
    }
    s = find_candidates(q, what, (struct conditions){.live = false}, out);
    if (out->n_candidates == 0 && !is_own_schema(q, &any))
        s = find_candidates(q, &any, (struct conditions){.live = false}, out);
    if (!s.served && not_local)
        s = find_candidates(q, &listed, (struct conditions){.live = false}, out);
    if (out->n_candidates > 0) {
        shuffle_candidates(q, &s, out);
        decide(out, ROUTE_PEER, ROUTE_ROW_PEER);
    } else if (not_local && s.served) {
        refuse(out, ROUTE_ROW_NO_ADDRESS, STATUS_NO_ENDPOINT);
    } else if (not_local && !synced) {
        refuse(out, ROUTE_ROW_NOT_SYNCED, STATUS_SYNCING);
    } else if (not_local && somebody_may(q->served, what->group, what->version)) {
        refuse(out, ROUTE_ROW_UNKNOWN_PEER, STATUS_PEER_UNKNOWN);
    }
    return out->action != ROUTE_LOCAL;
}

/*
 * A document of OpenAPI. Who has the index has the hashes of whose documents it names, and gets these: a server with
 * another hash would answer with its own URL, and behind a load balancer that could go on for ever.
 */
static bool decide_schemas(const struct route_query *q, struct route *out)
{
    struct subject what, any;
    struct choice s;

    if (!q->get_or_head || q->rerouted || !names_schemas(q->info, &what))
        return false;
    any = what;
    any.hash = SLICE_NONE;
    if (is_away(q)) {
        s = find_candidates(q, &any, (struct conditions){.live = true}, out);
        any.listed = true;
        if (!s.served)
            s = find_candidates(q, &any, (struct conditions){.live = true}, out);
        put_in_order(q, &s, out);
        if (out->n_candidates > 0) {
            fail_over(q, out);
            return true;
        }
    }
    if (what.schema.n == 0 || is_own_schema(q, &what) ||
        (what.version.n > 0 && served_excluded(q->served, what.group, what.version)))
        return false;
    return decide_schema_elsewhere(q, &what, out);
}

static void decide_non_resource(const struct route_query *q, struct route *out)
{
    struct surface about = surface_of(q->info->path);

    if (decide_schemas(q, out))
        return;
    decide(out, ROUTE_LOCAL, ROUTE_ROW_NON_RESOURCE);
    if (!q->get_or_head || q->rerouted)
        return;
    if (about.kind == SURFACE_NONE)
        return;
    if ((about.kind == SURFACE_CORE || about.kind == SURFACE_GROUPS) && !about.legacy_only)
        out->action = ROUTE_DISCOVERY;
    else
        out->action = ROUTE_HEAL;
}

/* An aggregated API may have more than it lists: those of metrics, whose resources are any names. */
static bool answers_for_itself(const struct route_query *q)
{
    return served_aggregated(q->served, q->info->group, q->info->version);
}

/*
 * kube-apiserver's own feature sends on by group, version and resource alone, so also subresources and verbs that
 * nobody has: 404 or 405 is their truth. An mvproxy knows better, and takes it for a denial. One that asks whether
 * anybody has it is told by the local server itself, which is up to date: a poll, of which there is one a second, would
 * make it wait for nothing.
 */
static void decide_rerouted(const struct route_query *q, enum disco_answer local, struct route *out)
{
    if (local == DISCO_SERVED || answers_for_itself(q))
        decide(out, ROUTE_LOCAL, ROUTE_ROW_REROUTED);
    else if (q->may_deny && route_nobody_else(q->served, q->info))
        decide(out, ROUTE_LOCAL, ROUTE_ROW_NOBODY);
    else if (!q->refreshed)
        decide(out, ROUTE_REFRESH, ROUTE_ROW_REROUTED);
    else if (local != DISCO_NO_RESOURCE && route_nobody_else(q->served, q->info))
        decide(out, ROUTE_LOCAL, ROUTE_ROW_NOBODY);
    else
        refuse(out, ROUTE_ROW_REROUTED, STATUS_REROUTED);
}

/*
 * Who has left for a while, has lapsed or is drained is not asked, but what he has written has fields that the local
 * server does not know: a rolling restart must not lose them unseen.
 */
static bool is_of_older(const struct route_query *q)
{
    const struct reqinfo *info = q->info;
    struct slice hash = schema_index_hash(served_local_schemas(q->served), info->group, info->version);
    uint64_t release = served_local_release(q->served);
    struct gvr gvr = reqinfo_gvr(info);

    if (!q->newest || release == 0 || hash.n == 0 || served_excluded(q->served, info->group, info->version))
        return false;
    for (size_t i = 0; i < served_n_peers(q->served); i++) {
        const struct served_peer *p = served_peer_at(q->served, i);
        struct slice its = schema_index_hash(p->schemas, info->group, info->version);

        if (p->release > release && its.n > 0 && !slice_eq(its, hash) &&
            served_by_peer(q->served, i, &gvr, info->subresource, verb_to_ask(info)) == DISCO_SERVED)
            return true;
    }
    return false;
}

/*
 * The local server has it, but a newer one means more by it (skewed-resources: newest). One that does not answer is not
 * waited for; one that answers 503 is asked all the same: what is written must not lose fields for that.
 */
static bool goes_to_newest(const struct route_query *q, enum disco_answer local, struct route *out)
{
    struct subject what = {.group = q->info->group, .version = q->info->version};
    uint64_t newest = q->rerouted || local != DISCO_SERVED ? 0 : newest_release(q, &what);
    struct choice s;

    out->older = !q->rerouted && local == DISCO_SERVED && is_of_older(q);
    if (newest <= served_local_release(q->served) || served_local_release(q->served) == 0)
        return false;
    out->older = true;
    s = find_candidates(q, &what,
                        (struct conditions){.live = true, .release = newest, .active = true, .reachable = true}, out);
    if (out->n_candidates == 0)
        return false;
    shuffle_candidates(q, &s, out);
    decide(out, ROUTE_PEER, ROUTE_ROW_NEWEST);
    return true;
}

/* A full list loses its last one. */
static void insert_candidate(struct route *r, size_t at, uint16_t peer)
{
    size_t n = r->n_candidates < ROUTE_MAX_CANDIDATES ? r->n_candidates++ : ROUTE_MAX_CANDIDATES - 1;

    must_hold(at <= n);
    memmove(&r->candidates[at + 1], &r->candidates[at], (n - at) * sizeof(peer));
    r->candidates[at] = peer;
}

/* Who has lapsed and can be reached again: behind all live ones who can be, before those who cannot. */
static void add_lapsed(const struct route_query *q, const struct subject *what, struct route *out)
{
    struct route lapsed = {.n_candidates = 0};
    struct choice s =
        find_candidates(q, what, (struct conditions){.lapsed = true, .active = true, .healthy = true}, &lapsed);
    size_t at = out->n_candidates;

    put_in_order(q, &s, &lapsed);
    while (at > 0 && !is_first_choice(q, served_peer_at(q->served, out->candidates[at - 1])))
        at--;
    for (size_t i = 0; i < lapsed.n_candidates && at < ROUTE_MAX_CANDIDATES; i++)
        insert_candidate(out, at++, lapsed.candidates[i]);
}

/*
 * Row 5a. Not for what the local server lacks: that is a peer's anyway. Custom resources and aggregated APIs are every
 * server's, out of the same etcd, so a peer that lists them may serve them; of an aggregated API, a peer that lists the
 * group/version. What none of them lists any more was deleted meanwhile, if they say so. The local server is also where
 * Leases are read: of who had lapsed before, nobody can tell us that he is back, and of who is live, that he has
 * lapsed. An outlier is not waited for.
 */
static bool fails_over(const struct route_query *q, enum disco_answer local, struct route *out)
{
    const struct reqinfo *info = q->info;
    struct subject what = {.group = info->group, .version = info->version, .any = answers_for_itself(q)};
    struct choice s;

    if (!is_away(q))
        return false;
    if (local != DISCO_SERVED && served_local_disco(q->served) != NULL &&
        !served_excluded(q->served, info->group, info->version))
        return false;
    s = find_candidates(q, &what, (struct conditions){.live = true}, out);
    put_in_order(q, &s, out);
    if (local == DISCO_SERVED || what.any)
        add_lapsed(q, &what, out);
    if (out->n_candidates == 0)
        return local == DISCO_SERVED && served_excluded(q->served, info->group, info->version) &&
               asks_peers(q, false, out);
    fail_over(q, out);
    return true;
}

/*
 * requestInfo, and so authorization, reads over slashes before the prefix; the director of k8s.io/apiserver
 * (pkg/server/handler.go) does not: what each server says there, 404, is the truth.
 */
static bool is_nobodys_path(const struct reqinfo *info)
{
    return slice_has_prefix(info->path, SLICE_LIT("//"));
}

void route_decide(const struct route_query *q, struct route *out)
{
    enum disco_answer local;

    *out = (struct route){.action = ROUTE_LOCAL};
    if (!served_peers_enabled(q->served)) {
        decide(out, ROUTE_LOCAL, ROUTE_ROW_DISABLED);
        return;
    }
    if (!q->info->is_resource || is_nobodys_path(q->info)) {
        decide_non_resource(q, out);
        return;
    }
    local = ask_local(q);
    note_answer(out, local);
    out->local_miss = local != DISCO_SERVED && !served_forbidden(q->served);
    if (goes_to_newest(q, local, out) || fails_over(q, local, out))
        return;
    if (served_forbidden(q->served))
        decide(out, ROUTE_LOCAL, ROUTE_ROW_FORBIDDEN);
    else if (q->rerouted)
        decide_rerouted(q, local, out);
    else if (local == DISCO_SERVED)
        decide(out, ROUTE_LOCAL, ROUTE_ROW_SERVED_LOCALLY);
    else if (!served_synced(q->served))
        refuse(out, ROUTE_ROW_NOT_SYNCED, STATUS_SYNCING);
    else
        decide_among_peers(q, &(struct subject){.group = q->info->group, .version = q->info->version}, out);
}

const char *route_row_name(enum route_row row)
{
    static const char *const names[] = {
        [ROUTE_ROW_DISABLED] = "disabled",
        [ROUTE_ROW_NON_RESOURCE] = "non-resource",
        [ROUTE_ROW_REROUTED] = "rerouted",
        [ROUTE_ROW_NOT_SYNCED] = "not-synced",
        [ROUTE_ROW_SERVED_LOCALLY] = "served-locally",
        [ROUTE_ROW_NO_PEERS] = "no-peers",
        [ROUTE_ROW_EXCLUDED] = "excluded",
        [ROUTE_ROW_PEER] = "peer",
        [ROUTE_ROW_NO_ADDRESS] = "no-address",
        [ROUTE_ROW_PEERS_FAILED] = "peers-failed",
        [ROUTE_ROW_UNKNOWN_PEER] = "unknown-peer",
        [ROUTE_ROW_NOBODY] = "nobody",
        [ROUTE_ROW_FORBIDDEN] = "discovery-forbidden",
        [ROUTE_ROW_NEWEST] = "newest",
        [ROUTE_ROW_LOCAL_FAILOVER] = "local-failover",
    };

    if (row < ROUTE_ROW_DISABLED || row >= ROUTE_ROWS)
        return "none";
    return names[row];
}
