#include "proxy/route.h"

#include "kube/status.h"

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

struct survey {
    bool served;      /* by some peer, as asked */
    size_t n_healthy; /* candidates at the front of the list */
};

static struct survey survey_peers(const struct route_query *q, struct route *out)
{
    struct survey s = {false, 0};
    struct gvr gvr = reqinfo_gvr(q->info);
    size_t n = served_n_peers(q->served);

    for (size_t i = 0; i < n && i <= UINT16_MAX; i++) {
        const struct served_peer *p = served_peer_at(q->served, i);
        enum disco_answer a = served_by_peer(q->served, i, &gvr, q->info->subresource, verb_to_ask(q->info));

        note_answer(out, a);
        if (a != DISCO_SERVED)
            continue;
        s.served = true;
        /* Who has lapsed may still answer, but those who are known to be there come first. */
        if (p->origin != NULL)
            add_candidate(out, &s.n_healthy, (uint16_t)i,
                          p->life == SERVED_LIVE && (q->healthy == NULL || q->healthy(p, q->arg)));
    }
    return s;
}

/* Rows 6 to 12: the local server does not serve it. */
static void decide_among_peers(const struct route_query *q, struct route *out)
{
    struct survey s;
    uint64_t state = q->dice | 1;

    if (served_n_peers(q->served) == 0) {
        decide(out, ROUTE_LOCAL, ROUTE_ROW_NO_PEERS);
        return;
    }
    if (served_excluded(q->served, q->info->group, q->info->version)) {
        decide(out, ROUTE_LOCAL, ROUTE_ROW_EXCLUDED);
        return;
    }
    s = survey_peers(q, out);
    if (out->n_candidates > 0) {
        shuffle(out->candidates, s.n_healthy, &state);
        shuffle(out->candidates + s.n_healthy, out->n_candidates - s.n_healthy, &state);
        decide(out, ROUTE_PEER, ROUTE_ROW_PEER);
    } else if (s.served) {
        refuse(out, ROUTE_ROW_NO_ADDRESS, STATUS_NO_ENDPOINT);
    } else if (served_unknown_peer(q->served)) {
        refuse(out, ROUTE_ROW_UNKNOWN_PEER, STATUS_PEER_UNKNOWN);
    } else {
        decide(out, ROUTE_LOCAL, ROUTE_ROW_NOBODY);
    }
}

static void decide_rerouted(const struct route_query *q, enum disco_answer local, struct route *out)
{
    if (local == DISCO_SERVED)
        decide(out, ROUTE_LOCAL, ROUTE_ROW_REROUTED);
    else if (!q->refreshed)
        decide(out, ROUTE_REFRESH, ROUTE_ROW_REROUTED);
    else
        refuse(out, ROUTE_ROW_REROUTED, STATUS_REROUTED);
}

void route_decide(const struct route_query *q, struct route *out)
{
    enum disco_answer local;

    *out = (struct route){.action = ROUTE_LOCAL};
    if (!served_peers_enabled(q->served)) {
        decide(out, ROUTE_LOCAL, ROUTE_ROW_DISABLED);
        return;
    }
    if (!q->info->is_resource) {
        bool discovery = q->get_or_head && slice_eq(q->info->path, SLICE_LIT("/apis"));

        decide(out, discovery && !q->rerouted ? ROUTE_DISCOVERY : ROUTE_LOCAL, ROUTE_ROW_NON_RESOURCE);
        return;
    }
    if (served_blind(q->served)) {
        decide(out, ROUTE_LOCAL, ROUTE_ROW_BLIND);
        return;
    }
    local = ask_local(q);
    note_answer(out, local);
    out->local_miss = local != DISCO_SERVED;
    if (q->rerouted)
        decide_rerouted(q, local, out);
    else if (local == DISCO_SERVED)
        decide(out, ROUTE_LOCAL, ROUTE_ROW_SERVED_LOCALLY);
    else if (!served_synced(q->served))
        refuse(out, ROUTE_ROW_NOT_SYNCED, STATUS_SYNCING);
    else
        decide_among_peers(q, out);
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
        [ROUTE_ROW_BLIND] = "blind",
    };

    if (row < ROUTE_ROW_DISABLED || row >= ROUTE_ROWS)
        return "none";
    return names[row];
}
