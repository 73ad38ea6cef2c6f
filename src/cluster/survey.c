/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/survey.h"

#include "base/contract.h"
#include "cluster/exclusions.h"
#include "cluster/leases.h"
#include "cluster/local.h"
#include "cluster/peer_side.h"
#include "cluster/publish.h"
#include "net/loop.h"

enum {
    FRESH_MS = 2000,    /* so long what was read before the local server went is as good as what peers say */
    RENEWAL_MS = 25000, /* a kube-apiserver renews its Lease every 10 s: one renewal may fail */
};

struct survey {
    const struct cluster_env *env;
    const struct local *local;
    const struct peer_side *side;
    struct loop_timer *patience; /* fires when a time is over */
    bool leases_fail;            /* they cannot be followed */
    uint64_t leases_ms;          /* since when the Leases are followed, or are not */
    uint64_t behind_ms;          /* when the minute began in which unknown APIs may belong to unknown peers */
    bool doubtful;               /* what CRDs and aggregated APIs there are nobody knows: they are Stale */
    /* Of the one under way: */
    bool unknown;      /* what some peer serves is not known */
    uint64_t again_ms; /* when the first time is over; 0: none runs */
};

/*
 * Another process behind the same Lease may serve other things than the document says. But of one that has lapsed
 * without having answered, the document is the best there is: by it a request is held back (503) and not denied (404).
 */
static bool discovery_known(const struct peer *p)
{
    return refresh_look(p->server->discovery)->known ||
           (p->life != PEER_LIVE && refresh_look(p->server->discovery)->disco != NULL);
}

/* Whether less than `limit` has passed; then there is another snapshot when it has. */
static bool in_time(struct survey *s, uint64_t passed_ms, uint64_t limit)
{
    if (passed_ms >= limit)
        return false;
    if (s->again_ms == 0 || limit - passed_ms < s->again_ms)
        s->again_ms = limit - passed_ms;
    return true;
}

/*
 * Is there something to be learnt of this peer? Not while nothing is configured to trust peers by, nor without an
 * address. The mvproxy before a server that has just come up gives it one in seconds; if nobody does, nobody will, and
 * a document that says for ever that it is not complete would keep namespaces from ever being deleted.
 */
static bool incomplete_without(struct survey *s, const struct peer *p)
{
    if (!s->env->o.peers_enabled || s->env->o.peer_tls_cert == NULL)
        return false;
    if (p->server != NULL && refresh_look(p->server->discovery)->disco != NULL)
        return false;
    return p->origin != NULL || in_time(s, loop_now_ms(s->env->loop) - p->known_ms, TIMEOUT_PEER_ADDRESS_MS);
}

/*
 * Whoever can be asked will have answered in a moment, and until then whatever nobody serves may be its. But what does
 * not answer for a minute, or cannot be asked, must not turn every API that is optional into 503 for ever.
 */
static bool is_pending(struct survey *s, const struct peer *p)
{
    return p->life == PEER_LIVE && p->server != NULL && !refresh_look(p->server->discovery)->known &&
           in_time(s, refresh_unknown_ms(p->server->discovery), TIMEOUT_PEER_UNKNOWN_MS);
}

/* Not if it is there, and only does not let us read it: others may. */
static bool is_local_unreadable(const struct survey *s)
{
    const struct refresh_view *is = refresh_look(s->local->server->discovery);

    return is->failing && is->refused == 0 && !is->odd;
}

static bool are_schemas_pending(struct survey *s, const struct peer *p)
{
    uint64_t for_ms;

    return p->life == PEER_LIVE && refresh_look(p->server->discovery)->known &&
           schemas_expected(p->server->schemas, &for_ms) && in_time(s, for_ms, SCHEMAS_EXPECTED_MS);
}

/*
 * Whether a server without an mvproxy was ready, and not in doubt since, as its document was asked for: its /readyz is
 * only asked when it has come, so what happens later is known by the failures that it makes.
 */
static bool was_ready(const struct refresh_view *is, const struct pulse_view *v, uint64_t steady_ms, uint64_t now)
{
    return v->good_ms > 0 && !is->mvproxy && now - v->good_ms <= steady_ms && is->read_ms > v->good_ms;
}

/*
 * Whether what CRDs and aggregated APIs there are is taken from it, since the local server cannot say so: it was read
 * since that went, and was ready then, so that it is not one that has just started, of which a server does not know for
 * a moment: what vanishes clients act on. Where nobody says whether it was, it has to be there for long.
 */
static bool vouches(struct survey *s, const struct peer *p)
{
    uint64_t now = loop_now_ms(s->env->loop), steady_ms, failed_ms;
    const struct refresh_view *is;
    const struct refresh *r;
    struct pulse_view v;

    if (s->local->life == LOCAL_THERE || p->life != PEER_LIVE || p->server == NULL)
        return false;
    r = p->server->discovery;
    is = refresh_look(r);
    pulse_look(p->server->pulse, &v);
    if (!is->known || is->failure != NULL || refresh_age_ms(r) > local_gone_ms(s->local) || v.state != PULSE_ANSWERS ||
        is->word == API_WORD_LOADING)
        return false;
    steady_ms = v.age_ms;
    if (refresh_last_failure(r, &failed_ms) != NULL && failed_ms < steady_ms)
        steady_ms = failed_ms;
    return is->word == API_WORD_READY || was_ready(is, &v, steady_ms, now) || !in_time(s, steady_ms, PULSE_STEADY_MS);
}

/*
 * Whether nobody can say what CRDs and aggregated APIs there are: the local server is not ready, and what it said last
 * is old, or was replaced by what one says that does not know its CRDs yet.
 */
static bool is_doubtful(struct survey *s, const struct served_input *in)
{
    for (size_t i = 0; i < in->n_peers; i++)
        if (in->peers[i].vouches)
            return false;
    return s->local->life == LOCAL_ANOTHER ||
           (s->local->life == LOCAL_GONE && !in_time(s, local_gone_ms(s->local), FRESH_MS));
}

static bool is_silent(const struct server *s)
{
    struct pulse_view v;

    pulse_look(s->pulse, &v);
    return refresh_look(s->discovery)->failure != NULL || v.state == PULSE_UNREACHABLE;
}

/*
 * By our clock its Lease has expired, and it is no peer; but that of one of us may be wrong, or nobody could write
 * Leases for an hour, and can again. If it is there we see that by its next renewal.
 */
static bool may_be_renewed(struct survey *s, const struct peer *p)
{
    return p->expired && in_time(s, loop_now_ms(s->env->loop) - p->known_ms, RENEWAL_MS);
}

/*
 * What only it serves is Stale then, which clients take for nothing. One whose Lease somebody deleted goes on, and
 * makes that again with its next renewal. One that stops does not answer any more in a moment.
 */
static bool is_stale(struct survey *s, const struct peer *p)
{
    if (p->origin == NULL || refresh_look(p->server->discovery)->failing)
        return true;
    return p->life != PEER_LIVE && !(p->left && peer_side_answers(s->side, p) &&
                                     in_time(s, loop_now_ms(s->env->loop) - p->seen_ms, RENEWAL_MS));
}

static bool collect_peers(struct survey *s, struct served_input *in)
{
    size_t n = peers_count(s->side->peers), i = 0, used = 0;
    struct served_peer *peers = mem_array(n + 1, sizeof(*peers));
    bool expired = false;
    struct peer *p;

    in->peers = peers;
    if (peers == NULL)
        return false;
    while ((p = peers_next(s->side->peers, &i)) != NULL) {
        if (p->life == PEER_FORGOTTEN) {
            expired = expired || may_be_renewed(s, p);
            continue;
        }
        peers[used] = (struct served_peer){
            .id = p->id,
            .host = p->hostname,
            .life = p->life == PEER_LIVE ? SERVED_LIVE : SERVED_LAPSED,
            .origin = p->origin,
            .source = peer_source_name(p->source),
            .drained = p->drained,
        };
        if (p->server != NULL) {
            peers[used].discovery_known = discovery_known(p);
            peers[used].pending = is_pending(s, p);
            peers[used].vouches = vouches(s, p);
            peers[used].disco = refresh_look(p->server->discovery)->disco;
            peers[used].schemas = schemas_index(p->server->schemas);
            peers[used].last_schemas = schemas_last_index(p->server->schemas);
            peers[used].schemas_pending = are_schemas_pending(s, p);
            peers[used].release = schemas_release(p->server->schemas);
            peers[used].stale = is_stale(s, p);
            peers[used].silent = is_silent(p->server);
        }
        in->incomplete |= incomplete_without(s, p);
        /* An earlier process's document says nothing of what this one has added, also after it has left. */
        s->unknown |= p->server == NULL || !refresh_look(p->server->discovery)->known;
        in->local_stale |= is_local_unreadable(s) && peers[used].disco != NULL && !peers[used].stale;
        used++;
    }
    s->unknown |= expired;
    in->incomplete |= expired && s->env->o.peer_tls_cert != NULL;
    in->n_peers = used;
    return true;
}

/* Where the local server is away for another reason than its connections (it hangs, its etcd is away) the watch goes
 * on, and says nothing. */
static bool can_follow(const struct survey *s)
{
    return leases_failure(s->side->leases) == NULL && readiness_state(s->local->readiness) == READINESS_READY;
}

/*
 * Who came while the Leases could not be followed is not known: for a while anything may be his. So it is for a moment
 * after they are followed again, until what has happened is read. Of failures with less than a minute between them only
 * the first has its minute: what comes and goes for ever must not turn every API that is optional into 503 for ever.
 * Who has never been allowed to read them serves by what else is known.
 */
static bool is_behind(struct survey *s)
{
    const struct leases *leases = s->side->leases;
    uint64_t now = loop_now_ms(s->env->loop);
    bool fail;

    if (leases == NULL || s->leases_ms == 0 || (leases_refused(leases) != 0 && !leases_synced(leases)))
        return false;
    fail = !can_follow(s);
    s->unknown |= fail;
    return fail ? in_time(s, now - s->behind_ms, TIMEOUT_PEER_UNKNOWN_MS)
                : in_time(s, now - s->leases_ms, TIMEOUT_LEASES_READ_MS);
}

void survey_note_leases(struct survey *s)
{
    uint64_t now = loop_now_ms(s->env->loop);
    bool fail;

    if (s->side->leases == NULL)
        return;
    fail = !can_follow(s);
    if (fail == s->leases_fail && s->leases_ms != 0)
        return;
    s->leases_fail = fail;
    if (fail && (s->behind_ms == 0 || now - s->leases_ms >= TIMEOUT_PEER_UNKNOWN_MS))
        s->behind_ms = now;
    s->leases_ms = now;
}

static bool collect_undiscovered(const struct exclusions *x, struct served_input *in)
{
    size_t n = exclusions_n_services(x);
    struct exclusions_cursor cursor = {.stored = 0};

    in->undiscovered = mem_array(n + 1, sizeof(*in->undiscovered));
    if (in->undiscovered == NULL)
        return false;
    while (in->n_undiscovered < n && exclusions_registered(x, &cursor, &in->undiscovered[in->n_undiscovered].group,
                                                           &in->undiscovered[in->n_undiscovered].version))
        in->n_undiscovered++;
    return true;
}

static bool collect_excluded(const struct exclusions *x, struct served_input *in)
{
    size_t n = exclusions_count(x), cursor = 0;
    struct slice *gvs = mem_array(n + 1, sizeof(*gvs)), *services = mem_array(n + 1, sizeof(*services));
    bool aggregated;

    in->excluded = gvs;
    in->aggregated = services;
    if (gvs == NULL || services == NULL)
        return false;
    while (in->n_excluded < n && exclusions_next(x, &cursor, &gvs[in->n_excluded], &aggregated)) {
        if (aggregated)
            services[in->n_aggregated++] = gvs[in->n_excluded];
        in->n_excluded++;
    }
    return true;
}

static bool leases_known(const struct survey *s)
{
    const struct leases *leases = s->side->leases;
    const struct exclusions *exclusions = s->side->exclusions;

    return leases != NULL && leases_synced(leases) && exclusions != NULL && exclusions_settled(exclusions);
}

bool survey_take(struct survey *s, struct served_input *in)
{
    const struct cluster_env *e = s->env;
    const struct server *local = s->local->server;
    const struct refresh_view *is = refresh_look(local->discovery);
    struct exclusions *exclusions = s->side->exclusions;

    s->unknown = false;
    s->again_ms = 0;
    in->peers_enabled = e->o.peers_enabled;
    in->leases_synced = !e->o.peers_enabled || leases_known(s);
    in->local_id = e->own_id;
    in->local_host = e->hostname;
    in->local = is->disco;
    in->local_refused = is->refused != 0 || is->odd;
    in->local_schemas = schemas_index(local->schemas);
    in->local_release = schemas_release(local->schemas);
    in->local_etag[SERVED_APIS] = slice_str(is->apis_etag);
    in->local_etag[SERVED_CORE] = slice_str(is->core_etag);
    if (!collect_peers(s, in))
        return false;
    in->peers_read = !s->unknown;
    in->behind = is_behind(s);
    in->local_read = s->local->read;
    in->doubtful = s->doubtful = is_doubtful(s, in);
    if (s->again_ms > 0)
        loop_timer_set(s->patience, s->again_ms);
    else
        loop_timer_cancel(s->patience);
    if (exclusions == NULL)
        return true;
    if (!s->unknown && leases_known(s))
        exclusions_all_read(exclusions);
    return collect_excluded(exclusions, in) && (!s->unknown || collect_undiscovered(exclusions, in));
}

static void on_patience(void *arg)
{
    const struct survey *s = arg;

    publish_request(s->env->publish);
}

struct survey *survey_new(const struct cluster_env *env, const struct local *local, const struct peer_side *side)
{
    struct survey *s = must_zalloc(sizeof(*s));

    *s = (struct survey){
        .env = env, .local = local, .side = side, .patience = loop_timer_new(env->loop, on_patience, s)};
    must_hold(s->patience != NULL);
    return s;
}

void survey_free(struct survey *s)
{
    if (s == NULL)
        return;
    loop_timer_free(s->patience);
    mem_free(s);
}

uint64_t survey_leases_ms(const struct survey *s)
{
    return loop_now_ms(s->env->loop) - s->leases_ms;
}

bool survey_doubtful(const struct survey *s)
{
    return s->doubtful;
}
