/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/explain.h"

#include "base/clock.h"
#include "base/json_write.h"
#include "base/nearest.h"
#include "http/h1_check.h"
#include "http/h1_parse.h"
#include "http/head.h"
#include "kube/status.h"
#include "proxy/decide.h"
#include "proxy/heal.h"
#include "proxy/heal_denial.h"
#include "proxy/job.h"
#include "proxy/judge.h"
#include "proxy/redact.h"

enum { EXPLAIN_BYTES = 256 << 10 };

/* ---- one request ---- */

/* A sentence for each row of the decision table. */
static const char *reason_of(enum route_row row)
{
    static const char *const sentences[ROUTE_ROWS] = {
        [ROUTE_ROW_DISABLED] =
            "The feature gate UnknownVersionInteroperabilityProxy is off: everything goes to the local server.",
        [ROUTE_ROW_NON_RESOURCE] = "It asks for no resource.",
        [ROUTE_ROW_REROUTED] = "A peer has sent it on already, and it is never sent on twice.",
        [ROUTE_ROW_NOT_SYNCED] = "It is not known yet what the local server or its peers serve.",
        [ROUTE_ROW_SERVED_LOCALLY] = "The local server serves this resource.",
        [ROUTE_ROW_NO_PEERS] = "The local server does not serve it, and there are no peers.",
        [ROUTE_ROW_EXCLUDED] =
            "The group and version belong to a CRD or an aggregated API, which every server serves alike.",
        [ROUTE_ROW_PEER] = "The local server does not serve it, and a peer does.",
        [ROUTE_ROW_NO_ADDRESS] = "Only peers serve it whose address is not known.",
        [ROUTE_ROW_PEERS_FAILED] = "The local server does not serve it, and no peer that does can be reached.",
        [ROUTE_ROW_UNKNOWN_PEER] = "Nobody known serves it, but it is not known of all servers: one has not been read "
                                   "yet, or the local one or the Leases cannot be read now.",
        [ROUTE_ROW_NOBODY] =
            "No server serves it: it goes to the local server, which answers 404 (is the name mistyped?).",
        [ROUTE_ROW_FORBIDDEN] = "The local server does not let its discovery be read: everything goes there, and what "
                                "it does not know is 503.",
        [ROUTE_ROW_NEWEST] =
            "Its schema differs between servers, and skewed-resources: newest sends it to a newer one.",
        [ROUTE_ROW_LOCAL_FAILOVER] = "The local server does not answer or is not ready, and a peer serves it.",
    };

    return row < ROUTE_ROWS && sentences[row] != NULL ? sentences[row] : "";
}

static const char *action_of(const struct route *r)
{
    static const char *const names[] = {
        [ROUTE_LOCAL] = "local", [ROUTE_PEER] = "peer",       [ROUTE_DISCOVERY] = "discovery",
        [ROUTE_HEAL] = "heal",   [ROUTE_REFRESH] = "refresh", [ROUTE_REFUSE] = "refuse",
    };

    return names[r->action];
}

/* Of an outlier whose time is over one request finds out whether it is well; all others go to the rest first. */
static bool is_asked_first(const struct origin *o)
{
    return origin_healthy(o) && origin_ejection(o, NULL) == NULL;
}

static bool is_healthy(const struct served_peer *p, void *arg)
{
    (void)arg;
    return is_asked_first(p->origin);
}

/* A 404 of a server that lists the resource is not believed: what the client sees of the next one is 503. */
static void put_denial(struct json_write *w, const struct proxy *p, const struct reqinfo *info, const char *host)
{
    struct gvr gvr;
    uint64_t ago_ms;

    if (!info->is_resource)
        return;
    gvr = reqinfo_gvr(info);
    if (cluster_disbelieved_lately(p->cluster, host, &gvr, &ago_ms))
        json_seconds(w, "disbelievedSeconds", ago_ms);
}

/* True unless it is known not to answer. */
static bool put_server(struct json_write *w, const struct explain_query *q, const char *host, const char *id)
{
    struct explain_server how;

    json_text(w, "server", host);
    json_text(w, "serverID", id);
    if (q->look == NULL || !q->look(q->arg, id, &how))
        return true;
    json_text(w, "state", how.state);
    json_bool(w, "answers", how.answers);
    json_text(w, "lastError", how.error);
    if (how.error != NULL)
        json_seconds(w, "lastErrorAgeSeconds", how.error_ms);
    json_bool(w, "failing", how.failing);
    return how.answers;
}

/* How many of them answer, as far as is known. */
static size_t put_candidates(struct json_write *w, const struct proxy *p, const struct explain_query *q,
                             const struct reqinfo *info, const struct served *s, const struct route *r)
{
    struct json_write list = json_nested(w, "candidates", '[');
    size_t answer = 0;

    for (size_t i = 0; i < r->n_candidates; i++) {
        const struct served_peer *peer = served_peer_at(s, r->candidates[i]);
        struct json_write one = json_nested(&list, NULL, '{');

        answer += put_server(&one, q, peer->host, peer->id);
        put_denial(&one, p, info, peer->host);
        json_text(&one, "address", peer->origin == NULL ? NULL : origin_address(peer->origin));
        json_bool(&one, "live", peer->life == SERVED_LIVE);
        json_bool(&one, "healthy", peer->origin != NULL && is_asked_first(peer->origin));
        json_bool(&one, "drained", peer->drained);
        json_close(&one);
    }
    json_close(&list);
    return answer;
}

/* Who is asked, and whether he answers just now: what the client sees otherwise is 503. */
static bool put_servers(struct json_write *w, const struct proxy *p, const struct explain_query *q,
                        const struct reqinfo *info, const struct served *s, const struct route *r)
{
    struct json_write local = json_nested(w, "localServer", '{');
    bool answered = put_server(&local, q, served_local_host(s), served_local_id(s));
    size_t answer;

    json_close(&local);
    answer = put_candidates(w, p, q, info, s, r);
    if (r->n_candidates > 0)
        answered = answer > 0;
    answered = answered && r->action != ROUTE_REFUSE;
    json_bool(w, "answered", answered);
    return answered;
}

static void put_info(struct json_write *w, const struct reqinfo *info)
{
    json_bool(w, "resourceRequest", info->is_resource);
    json_slice(w, "verb", info->verb);
    json_slice(w, "path", info->path);
    if (!info->is_resource)
        return;
    json_slice(w, "group", info->group);
    json_slice(w, "version", info->version);
    json_slice(w, "resource", info->resource);
    json_slice(w, "subresource", info->subresource);
    json_slice(w, "namespace", info->ns);
    json_slice(w, "name", info->name);
    json_bool(w, "longRunning", info->long_running);
}

/* Why such a user gets 401 wherever it goes; NULL: he does not. */
static const char *why_unauthorized(const struct proxy *p, const struct explain_query *q)
{
    if (q->user == NULL)
        return NULL;
    return p->config->authn.can_assert ? q->disbelieved : "no front-proxy certificate is configured";
}

static const char *identity_of(const struct proxy *p, const struct explain_query *q)
{
    if (q->user == NULL)
        return "left to the server that answers, as for a token or nobody (--as USER: for a client certificate's)";
    return p->config->authn.can_assert && q->disbelieved == NULL
               ? "asserted to the server by X-Remote-User over the front-proxy certificate"
               : "cannot be passed on to a server";
}

/* Requests fail there, and go elsewhere. Where it hangs they wait. */
static bool is_local_gone(const struct explain_query *q, const struct served *s)
{
    struct explain_server how;

    return q->look != NULL && q->look(q->arg, served_local_id(s), &how) && !how.answers && !how.hangs;
}

/*
 * What becomes of row 8 if none of them answers: the last one decides. If it cannot be reached that is row 10; if
 * something there answers 5xx, as the mvproxy before a dead server does, that is passed on.
 */
static void foresee_failure(const struct explain_query *q, const struct served *s, struct route *r)
{
    bool refuses = false;

    if ((r->row != ROUTE_ROW_PEER && r->row != ROUTE_ROW_NEWEST) || q->look == NULL)
        return;
    for (size_t i = 0; i < r->n_candidates; i++) {
        struct explain_server how;

        if (!q->look(q->arg, served_peer_at(s, r->candidates[i])->id, &how) || how.answers)
            return;
        refuses = how.refuses;
    }
    if (r->row == ROUTE_ROW_NEWEST) {
        r->action = ROUTE_LOCAL; /* which has it, too */
        r->n_candidates = 0;
    } else if (!refuses) {
        r->row = ROUTE_ROW_PEERS_FAILED;
    }
}

/*
 * A server that is known to be gone is still tried by the first requests; those that may be sent again end at a peer
 * all the same.
 */
static enum readiness_state local_state(const struct proxy *p, const struct explain_query *q, const struct served *s,
                                        bool repeatable)
{
    enum readiness_state state = cluster_local_state(p->cluster);

    return state == READINESS_READY && repeatable && is_local_gone(q, s) ? READINESS_UNREACHABLE : state;
}

static const char *why_withheld(const struct proxy *p, const struct route_query *rq, const struct route *r, bool away)
{
    char why[128];

    if ((r->action == ROUTE_DISCOVERY || heal_waits_for_peers(rq->info->path)) &&
        !cluster_peers_synced(p->cluster, why, sizeof(why)))
        return STATUS_SYNCING;
    return heal_outlook(rq->served, rq->info->path, away);
}

/* Outliers last. */
static void name_judges(const struct served *s, bool asserted, struct route *r)
{
    for (size_t healthy = 2; healthy-- > 0;)
        for (size_t i = 0; i < served_n_peers(s) && r->n_candidates < ROUTE_MAX_CANDIDATES; i++) {
            const struct served_peer *p = served_peer_at(s, i);

            if (judge_may_be(p, asserted) && is_asked_first(p->origin) == (healthy == 1))
                r->candidates[r->n_candidates++] = (uint16_t)i;
        }
}

/*
 * Discovery while the local server is away, or turns out to be when it is asked: a live peer is asked in its place.
 * Unless it is about what nobody has who is there.
 */
static void fail_over_discovery(const struct proxy *p, const struct explain_query *q, const struct route_query *rq,
                                struct route *r)
{
    bool away = rq->failover && !rq->rerouted && (rq->local_state != READINESS_READY || is_local_gone(q, rq->served));
    const char *refused;

    if (r->action != ROUTE_HEAL && r->action != ROUTE_DISCOVERY)
        return;
    if (r->action == ROUTE_HEAL && !p->config->legacy_discovery && heal_is_legacy_discovery(rq->info->path)) {
        r->action = ROUTE_LOCAL;
        return;
    }
    if (away)
        name_judges(rq->served, q->user != NULL, r);
    refused = why_withheld(p, rq, r, away);
    if (refused != NULL) {
        r->action = ROUTE_REFUSE;
        r->message = refused;
    }
}

/* Row 11: who may have it, and has not said what it serves. Where there is none the Leases cannot be read. */
static void name_unread(const struct served *s, struct route *r)
{
    for (size_t i = 0; i < served_n_peers(s) && r->n_candidates < ROUTE_MAX_CANDIDATES; i++)
        if (!served_peer_at(s, i)->discovery_known || served_peer_at(s, i)->pending)
            r->candidates[r->n_candidates++] = (uint16_t)i;
}

/* Rows that blame peers where the configuration is to blame. */
static bool misses_peers(enum route_row row)
{
    return row == ROUTE_ROW_NO_ADDRESS || row == ROUTE_ROW_PEERS_FAILED || row == ROUTE_ROW_UNKNOWN_PEER ||
           row == ROUTE_ROW_NO_PEERS;
}

static const char *why_there(const struct proxy *p, const struct explain_query *q, const struct route *r, bool answered)
{
    if (q->no_peers != NULL && misses_peers(r->row))
        return "The local server does not serve it, and peers cannot be asked.";
    if (r->unserved)
        return "No server is known to serve it, and the local one cannot say so now: live peers are asked, and it is "
               "404 if they deny it.";
    if (r->action == ROUTE_HEAL && r->n_candidates > 0)
        return "The local server does not answer or is not ready, and a live peer answers about discovery and schemas.";
    if (r->action == ROUTE_DISCOVERY && r->n_candidates > 0 && !p->config->legacy_discovery)
        return "The local server does not answer or is not ready: who accepts the aggregated form and may read it gets "
               "the merged document, and others 503, since legacy-discovery is off.";
    if (r->action == ROUTE_DISCOVERY)
        return "Who accepts the aggregated form and may read it gets the merged document; others get what the local "
               "server says, completed with what peers have where it is a document.";
    if (r->action == ROUTE_LOCAL && r->row == ROUTE_ROW_NEWEST)
        return "Its schema differs between servers, and skewed-resources: newest would send it to a newer one, which "
               "does not answer: the local server has it as well.";
    if (r->action == ROUTE_LOCAL && r->row == ROUTE_ROW_SERVED_LOCALLY && r->older && p->config->newest)
        return "Its schema differs between servers, and skewed-resources: newest would send it to a newer one. None of "
               "these answers (they hang, have lapsed or are drained): the local server does, with a Warning.";
    if (r->action == ROUTE_PEER && r->row == ROUTE_ROW_PEER && !answered)
        return "The local server does not serve it, and a peer does, whose mvproxy can be reached, and says 503 for "
               "it.";
    return reason_of(r->row);
}

static void put_answer(struct proxy *p, const struct explain_query *q, const struct reqinfo *info, struct buf *out)
{
    enum http_method method = http_method_of(slice_str(q->method));
    struct served *s = cluster_served(p->cluster);
    struct route_query rq = {
        .info = info,
        .get_or_head = method == HTTP_GET || method == HTTP_HEAD,
        .rerouted = q->rerouted,
        .newest = p->config->newest,
        .failover = cluster_fails_over(p->cluster),
        .local_state = local_state(p, q, s, method == HTTP_GET || method == HTTP_HEAD),
        .served = s,
        .healthy = is_healthy,
        .reachable = decide_reachable,
        .dice = 1,
    };
    struct json_write w;
    struct route r;

    route_decide(&rq, &r);
    if (r.action == ROUTE_REFRESH) { /* as it stands if the look brings nothing new */
        rq.refreshed = true;
        route_decide(&rq, &r);
    }
    fail_over_discovery(p, q, &rq, &r);
    if (r.row == ROUTE_ROW_UNKNOWN_PEER)
        name_unread(s, &r);
    foresee_failure(q, s, &r);
    w = json_open(out, '{');
    put_info(&w, info);
    json_text(&w, "action", action_of(&r));
    json_text(&w, "row", route_row_name(r.row));
    json_bool(&w, "refreshesDiscovery", r.local_miss);
    if (r.action == ROUTE_REFUSE) {
        json_u64(&w, "status", 503);
        json_text(&w, "message", r.message);
    }
    json_text(&w, "reason", why_there(p, q, &r, put_servers(&w, p, q, info, s, &r)));
    json_text(&w, "noPeers", misses_peers(r.row) ? q->no_peers : NULL);
    json_text(&w, "identity", identity_of(p, q));
    json_text(&w, "unauthorized", why_unauthorized(p, q));
    json_text(&w, "doubted", q->user == NULL ? NULL : q->doubted);
    json_text(&w, "user", q->user);
    json_close(&w);
}

/* RBAC's verbs that are not called like their methods. NULL: it is none. */
static const char *method_of_verb(const char *verb)
{
    static const char *const names[][2] = {{"list", "GET"},
                                           {"watch", "GET with ?watch=true"},
                                           {"create", "POST"},
                                           {"update", "PUT"},
                                           {"deletecollection", "DELETE"}};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (slice_ieq(slice_str(verb), slice_str(names[i][0])))
            return names[i][1];
    return NULL;
}

/* What the front refuses before anything is decided (h1_parse, h1_check): explain must not say where it goes. */
static bool is_request(const struct explain_query *q, struct err *err)
{
    static const char *const usual[] = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", NULL};
    struct nearest n = nearest_to(slice_str(q->method));
    const char *wrong;

    if (!h1_method_known(slice_str(q->method))) {
        if (method_of_verb(q->method) != NULL)
            return err_set(err, "\"%.32s\" is a verb, not a method: did you mean %s?", q->method,
                           method_of_verb(q->method));
        for (size_t i = 0; usual[i] != NULL; i++) {
            if (slice_ieq(slice_str(q->method), slice_str(usual[i])))
                return err_set(err, "\"%.32s\" is no method: did you mean %s?", q->method, usual[i]);
            nearest_try(&n, usual[i]);
        }
        return err_set(err,
                       n.best == NULL ? "\"%.32s\" is no method: mvproxy refuses it with 501"
                                      : "\"%.32s\" is no method: did you mean %s?",
                       q->method, n.best);
    }
    if (http_method_of(slice_str(q->method)) == HTTP_CONNECT)
        return err_set(err, "CONNECT is refused: mvproxy is no forward proxy");
    if (q->target[0] != '/' && strcmp(q->target, "*") != 0)
        return err_set(err, "the path must begin with \"/\": did you mean /%.200s?", q->target);
    wrong = h1_check_target(http_method_of(slice_str(q->method)), slice_str(q->target));
    return wrong == NULL ||
           err_set(err, "\"%.32s %.200s\" is no request: mvproxy answers 400: %s", q->method, q->target, wrong);
}

bool explain_request(struct proxy *p, const struct explain_query *q, struct buf *out, struct err *err)
{
    struct arena *a = arena_new(EXPLAIN_BYTES);
    struct reqinfo info;
    bool ok;

    /* What is a request in is_request() has no bad target. */
    ok = (a != NULL || err_set(err, "out of memory")) && is_request(q, err) &&
         (reqinfo_parse(a, slice_str(q->method), slice_str(q->target), &info) == REQINFO_OK ||
          err_set(err, "out of memory"));
    if (ok)
        put_answer(p, q, &info, out);
    arena_free(a);
    return ok;
}

/* ---- what is under way ---- */

static const char *state_of(const struct job *j)
{
    static const char *const names[] = {
        [JOB_DECIDING] = "deciding", [JOB_ASKING] = "authorizing", [JOB_FORWARDING] = "waiting",
        [JOB_RELAYING] = "relaying", [JOB_SERVING] = "serving",    [JOB_ENDED] = "ended",
    };
    bool for_answer = j->state == JOB_ASKING && j->heal != NULL;

    return names[for_answer ? JOB_FORWARDING : j->state];
}

/*
 * Nothing of what follows the first parameter (RFC 3986 3.3; the Kubernetes API has none): this is decoded, so the
 * parameter's own "/" looks like the end of its segment. And the beginning of a long one, so that however many requests
 * there are, all can be shown.
 */
static void put_path(struct json_write *w, struct slice path)
{
    size_t n = redact_path(path).n;

    if (n > EXPLAIN_PATH_BYTES) {
        n = EXPLAIN_PATH_BYTES;
        while (n > 0 && ((unsigned char)path.p[n] & 0xc0) == 0x80)
            n--; /* no half of a character */
        json_u64(w, "pathBytes", path.n);
    }
    json_slice(w, "path", slice_of(path.p, n));
    if (redact_path(path).n < path.n)
        json_bool(w, "pathHasParameters", true);
}

static void put_request(struct json_write *list, const struct job *j, uint64_t now_us)
{
    const struct served_peer *peer = j->peer != NULL || j->state != JOB_ASKING ? j->peer : j->judge;
    const struct served *s = cluster_served(j->proxy->cluster); /* its own may be gone: the local names are the same */
    struct json_write w = json_nested(list, NULL, '{');

    json_seconds(&w, "ageSeconds", (now_us - exchange_started_us(j->x)) / 1000);
    json_slice(&w, "method", exchange_request(j->x)->method);
    json_slice(&w, "verb", j->info.verb);
    put_path(&w, j->info.path);
    json_text(&w, "client", exchange_client(j->x)->address);
    json_slice(&w, "user", j->summary.user);
    json_text(&w, "protocol", exchange_client(j->x)->protocol);
    json_text(&w, "row", route_row_name(j->route.row));
    json_text(&w, "server", peer != NULL ? peer->host : j->target != NULL ? served_local_host(s) : NULL);
    json_text(&w, "serverID", peer != NULL ? peer->id : j->target != NULL ? served_local_id(s) : NULL);
    json_text(&w, "state", state_of(j));
    json_bool(&w, "longRunning", j->summary.long_running);
    json_u64(&w, "bytesIn", exchange_request_bytes(j->x));
    json_u64(&w, "bytesOut", exchange_response_bytes(j->x));
    json_close(&w);
}

/* Returns how many of them there are. */
static size_t put_requests(struct json_write *list, const struct proxy *p, bool long_running, size_t max)
{
    uint64_t now = clock_us();
    size_t found = 0;

    for (struct list_node *n = list_first(&p->under_way); n != NULL; n = list_next(&p->under_way, n)) {
        const struct job *j = list_entry(n, struct job, under_way);

        if (j->summary.long_running == long_running && found++ < max)
            put_request(list, j, now);
    }
    return found;
}

void explain_under_way(const struct proxy *p, size_t max, struct buf *out)
{
    struct json_write w = json_open(out, '{'), list = json_nested(&w, "requests", '[');
    size_t n = put_requests(&list, p, false, max);

    n += put_requests(&list, p, true, n < max ? max - n : 0);
    json_close(&list);
    json_u64(&w, "notShown", n > max ? n - max : 0);
    json_close(&w);
}
