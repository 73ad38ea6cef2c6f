/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/forward.h"

#include "back/retry.h"
#include "base/log.h"
#include "kube/status.h"
#include "net/loop.h"
#include "proxy/alternatives.h"
#include "proxy/answer.h"
#include "proxy/decide.h"
#include "proxy/held.h"
#include "proxy/redact.h"
#include "proxy/relay.h"
#include "proxy/upgrade.h"

static const struct back_handler *handler(void); /* of what comes back: at the end */

/* ---- to a server ---- */

/* There is somebody else to ask if its server is not ready: its mvproxy is to say so, rather than let it wait. */
static bool only_if_ready(const struct job *j)
{
    if (j->stage != JOB_STAGE_READY_PEERS)
        return false;
    return j->route.row == ROUTE_ROW_LOCAL_FAILOVER || j->route.row == ROUTE_ROW_NEWEST || j->route.unserved ||
           (j->route.row == ROUTE_ROW_PEER && j->route.n_candidates > 1 && alternatives_exist(j));
}

static void send_to(struct job *j, const struct served_peer *peer)
{
    if (!relay_rewrite(j, peer, peer != NULL && only_if_ready(j)))
        return;
    j->peer = peer;
    j->judge = NULL; /* who was asked whether the client may is not who answers */
    j->had_schema = j->had_verb = false;
    j->summary.peer = peer != NULL ? peer->host : NULL;
    j->sent_ms = loop_now_ms(j->proxy->loop);
    job_set_state(j, JOB_FORWARDING);
    relay_start(j, peer, handler(), j->bare ? (struct http_body){HTTP_BODY_NONE, 0} : exchange_request_body(j->x));
}

void forward_local(struct job *j)
{
    send_to(j, NULL);
}

/* False when none is left. Otherwise a request is under way, or the job is over. `retry_reason` NULL: the first. */
static bool try_next_peer(struct job *j, const char *retry_reason)
{
    while (j->next_candidate < j->route.n_candidates) {
        const struct served_peer *p = served_peer_at(j->served, j->route.candidates[j->next_candidate++]);
        size_t limit = j->config->max_in_flight_per_peer;

        if (j->authn.kind == AUTHN_ASSERT && !origin_has_cert(p->origin))
            continue;
        if (limit > 0 && origin_clients_in_flight(p->origin) >= limit) {
            j->peers_busy = true;
            continue;
        }
        if (retry_reason != NULL)
            request_metrics_retry(j->proxy->request_metrics, retry_reason);
        send_to(j, p);
        return true;
    }
    return false;
}

/*
 * As try_next_peer(), but where the local server would do as well it is not the end: the local server itself, unless
 * this request had it already, and then the peers that are only starting.
 */
static bool try_next(struct job *j, const char *retry_reason)
{
    if (try_next_peer(j, retry_reason))
        return true;
    if (alternatives_local_left(j)) {
        job_set_stage(j, JOB_STAGE_LOCAL);
        request_metrics_retry(j->proxy->request_metrics, j->route.row == ROUTE_ROW_NEWEST ? "older" : "last-resort");
        forward_local(j);
        return true;
    }
    if (!alternatives_starting_left(j))
        return false;
    job_set_stage(j, JOB_STAGE_ANY_PEER);
    j->next_candidate = 0;
    return try_next_peer(j, "last-resort");
}

void forward_peers(struct job *j)
{
    if (!try_next(j, NULL))
        job_refuse(j, 503, j->peers_busy ? STATUS_OVERLOADED : STATUS_NO_PEER_CONFIG);
}

/* The server that had it has not read it, or may have and it does no harm. `failed`: it is not to be asked again. */
static bool send_elsewhere(struct job *j, const char *why, bool failed)
{
    if (j->peer != NULL || j->route.row == ROUTE_ROW_LOCAL_FAILOVER || j->route.unserved)
        return try_next(j, why);
    if (!decide_fail_over(j))
        return false;
    j->local_tried = failed;
    job_set_stage(j, JOB_STAGE_READY_PEERS);
    j->next_candidate = 0;
    return try_next(j, why);
}

/* ---- an answer that is not for the client ---- */

/* What a peer said is its trouble. `again`: the request may be sent once more. */
static void next_or_none(struct job *j, bool again, const char *why)
{
    if (again && try_next(j, why))
        return;
    if (!j->route.unserved)
        j->route.row = ROUTE_ROW_PEERS_FAILED;
    job_refuse(j, 503, j->route.unserved ? STATUS_PEER_UNKNOWN : STATUS_PROXY_FAILED);
}

static void peer_denies(struct job *j)
{
    struct gvr gvr = reqinfo_gvr(&j->info);

    job_drop_back(j);
    if (j->route.unserved) {
        j->denied++;
        if (!j->route.untold && !j->decided_anew && !alternatives_body_gone(j) && answer_is_outdated(j)) {
            decide_anew(j);
            return;
        }
    } else {
        cluster_disbelieved(j->proxy->cluster, j->peer->host, &gvr);
        cluster_peer_suspect(j->proxy->cluster, j->peer->id);
    }
    next_or_none(j, !alternatives_body_gone(j), "peer-not-found");
}

/*
 * The local server has come back serving less, and its discovery has not been read since: look, then decide again. Or
 * what it serves is not for us to know: then a peer may serve it, and 404 would be more than anybody knows.
 */
static void local_denies(struct job *j)
{
    struct gvr gvr = reqinfo_gvr(&j->info);

    if (answer_is_of_nobodys(j) && !alternatives_body_gone(j)) {
        decide_anew(j);
        return;
    }
    if (alternatives_body_gone(j) || j->route.row == ROUTE_ROW_FORBIDDEN || j->route.row == ROUTE_ROW_LOCAL_FAILOVER ||
        j->route.row == ROUTE_ROW_NEWEST) {
        job_drop_back(j);
        request_metrics_retry(j->proxy->request_metrics, "local-not-found");
        cluster_local_suspect(j->proxy->cluster);
        job_refuse(j, 503, STATUS_SYNCING);
        return;
    }
    decide_again(j, &gvr);
}

static void denies(struct job *j)
{
    if (j->peer != NULL)
        peer_denies(j);
    else
        local_denies(j);
}

static void note_answer(const struct job *j, unsigned status)
{
    if (status < 500)
        cluster_server_answered(j->proxy->cluster, j->peer == NULL ? NULL : j->peer->id, j->sent_ms);
    if (j->peer == NULL)
        return;
    /* What it serves is another than is known, or may be. */
    if (status == 404 || status == 503 || j->route.unserved)
        cluster_peer_missed(j->proxy->cluster, j->peer->id);
    else
        cluster_peer_answered(j->proxy->cluster, j->peer->id);
}

/* What the same request costs a server more than once is bounded. */
static bool take_repeat(const struct job *j)
{
    if (!alternatives_affordable(j)) {
        origin_note_refused_repeat(j->target);
        return false;
    }
    alternatives_spend(j);
    return true;
}

/*
 * To the next one then. One that says so now and then only to have the work done twice has a budget as well; one that
 * says it each time is soon tried last.
 */
static bool peer_passes(struct job *j, const struct http_head *head)
{
    j->summary.unavailable = answer_is_unready(j, head);
    if (!j->summary.unavailable)
        return false;
    /* So that it may be asked once more, without the condition, if nobody else is left. */
    j->peers_starting = j->peers_starting || only_if_ready(j);
    if (alternatives_body_gone(j) || !alternatives_left(j) || !take_repeat(j))
        return false;
    job_drop_back(j);
    next_or_none(j, true, "peer-not-ready");
    return true;
}

/* 401 is only the truth when the others agree. */
static bool peer_knows_nobody(struct job *j, const struct http_head *head)
{
    if (!answer_knows_nobody(j, head) || !take_repeat(j))
        return false;
    j->unauthorized = true;
    job_drop_back(j);
    if (!try_next(j, "peer-unauthorized"))
        job_refuse(j, 503, STATUS_PROXY_FAILED);
    return true;
}

static void peer_distrusts_us(struct job *j)
{
    bool again = !alternatives_body_gone(j) && take_repeat(j);

    job_drop_back(j);
    cluster_peer_suspect(j->proxy->cluster, j->peer->id);
    next_or_none(j, again, "peer-unauthorized");
}

/* False: nobody else can be asked. */
static bool peer_is_passed(struct job *j)
{
    if (alternatives_body_gone(j) || !alternatives_left(j) || !take_repeat(j))
        return false;
    job_drop_back(j);
    return try_next(j, "peer-not-ready");
}

/* The local server has not looked at the request. False: nobody else can be asked, and its answer is the answer. */
static bool pass_on(struct job *j)
{
    /* More of the body may have come since the head. */
    if (!alternatives_may_pass_on(j))
        return false;
    cluster_local_failed(j->proxy->cluster, false);
    alternatives_spend(j);
    job_drop_back(j);
    return send_elsewhere(j, "local-not-ready", true);
}

/* The server does not know yet whom it will allow: another one may, and who waits does. */
static bool is_premature(struct job *j, const struct http_head *head)
{
    if (!answer_is_premature(j, head, j->peer))
        return false;
    if (j->peer != NULL ? peer_is_passed(j) : pass_on(j))
        return true;
    job_drop_back(j);
    if (j->peer != NULL)
        job_refuse(j, 503, STATUS_LOADING);
    else
        job_refuse_unserved(j, STATUS_LOADING);
    return true;
}

/* ---- an answer ---- */

/* It is the truth, or too long to be anything else. False: the job is over. */
static bool let_go(struct job *j, const struct held *held)
{
    return relay_held(j, held->head, held->body, held_bytes(held));
}

static void on_head(void *arg, const struct http_head *head, struct http_body body)
{
    struct job *j = arg;
    enum denial d = answer_denies(j, head, body.kind != HTTP_BODY_NONE);
    bool distrusts;

    note_answer(j, head->status);
    if (is_premature(j, head) || peer_passes(j, head) || peer_knows_nobody(j, head))
        return;
    distrusts = answer_distrusts_us(j, head);
    if (distrusts && body.kind == HTTP_BODY_NONE)
        peer_distrusts_us(j);
    else if (d == DENIAL_UNKNOWN)
        denies(j);
    else if ((d == DENIAL_NONE && !distrusts) || held_is_too_long(body))
        (void)relay_head(j, head, body);
    else
        held_start(j, head, body);
}

static void on_body(void *arg, struct slice data)
{
    struct job *j = arg;
    struct held *held = j->held;

    if (held_add(held, data))
        return;
    j->held = NULL;
    if (held == NULL || let_go(j, held))
        relay_body(j, data);
}

/* False: it is the answer. */
static bool is_dealt_with(struct job *j, const struct held *held)
{
    if (answer_distrusts_us(j, held->head)) {
        if (denial_knows_user(held_bytes(held)))
            return false;
        peer_distrusts_us(j);
        return true;
    }
    if (held_says(held) == DENIAL_NONE)
        return false;
    if (j->peer == NULL && answer_is_not_read(held->head))
        return pass_on(j);
    denies(j);
    return true;
}

static void on_end(void *arg, const struct http_head *trailers)
{
    struct job *j = arg;
    struct held *held = j->held;

    j->back = NULL;
    j->held = NULL;
    if (held == NULL || (!is_dealt_with(j, held) && let_go(j, held)))
        relay_end(j, trailers);
}

/* ---- failure ---- */

static unsigned failure_status(enum back_failure why)
{
    switch (why) {
    case BACK_FAIL_TIMEOUT:
        return 504;
    case BACK_FAIL_CLIENT:
        return 429;
    default:
        return 503;
    }
}

static const char *failure_message(const struct job *j, const struct back_failure_info *f)
{
    if (f->why == BACK_FAIL_TIMEOUT)
        return STATUS_GATEWAY_TIMEOUT;
    if (f->why == BACK_FAIL_MEMORY)
        return STATUS_NO_MEMORY;
    if (f->why == BACK_FAIL_BUSY)
        return STATUS_OVERLOADED;
    if (f->why == BACK_FAIL_CLIENT)
        return STATUS_WASTEFUL;
    return j->peer != NULL ? STATUS_PROXY_FAILED : job_local_failed_text(j);
}

static void refuse_failed(struct job *j, const struct back_failure_info *f)
{
    if (j->peer != NULL && j->route.row != ROUTE_ROW_LOCAL_FAILOVER && !j->route.unserved)
        j->route.row = ROUTE_ROW_PEERS_FAILED;
    if (f->why == BACK_FAIL_LOOP)
        job_refuse_loop(j);
    else if (j->peer == NULL && f->why == BACK_FAIL_CONNECT)
        job_refuse_unserved(j, failure_message(j, f));
    else
        job_refuse(j, failure_status(f->why), failure_message(j, f));
}

static void log_failure(const struct job *j, const struct back_failure_info *f)
{
    log_v(3, "Request to API server failed", LT("server", j->peer != NULL ? j->peer->host : "local"),
          LS("path", redact_path(j->info.raw_path)), LT("err", f->text), LB("reusedConnection", f->reused),
          LB("requestSent", f->request_sent));
}

/*
 * kube-apiserver ends the request of who has reached a program that breaks off, and has nothing to say of it: nor have
 * we, and the server is as well as it was.
 */
static bool is_of_another_program(const struct job *j, const struct back_failure_info *f)
{
    return f->why == BACK_FAIL_UNANSWERED && f->request_sent && reqinfo_reaches_through(&j->info);
}

/* What it says of the server. */
static void note_server_failed(const struct job *j, const struct back_failure_info *f)
{
    if (j->peer == NULL) {
        if (retry_server_is_lost(f->why))
            cluster_local_failed(j->proxy->cluster, f->why != BACK_FAIL_UNANSWERED);
    } else if (!retry_is_of_client(f->why)) {
        cluster_peer_suspect(j->proxy->cluster, j->peer->id);
        if (!j->route.unserved) /* of names that some server has */
            request_metrics_peer_error(j->proxy->request_metrics, PEER_ERROR_PROXY_TRANSPORT, &j->info);
    }
}

/* Nobody takes over what was given up at the local server: that may still answer, however late. */
static void stay(struct job *j)
{
    j->stays = true;
    job_drop_back(j);
    forward_local(j);
}

static void on_failed(void *arg, const struct back_failure_info *f)
{
    struct job *j = arg;
    enum retry_verdict verdict = alternatives_after(j, f);

    j->back = NULL;
    j->held = NULL;
    log_failure(j, f);
    if (verdict == RETRY_BREAK || is_of_another_program(j, f)) {
        job_abort(j, "server broke off its response");
        return;
    }
    j->maybe_done = !retry_is_harmless(j->request.method_id, job_acts(j), f->request_sent);
    note_server_failed(j, f);
    if (verdict == RETRY_ELSEWHERE) {
        alternatives_spend(j);
        job_drop_back(j);
        if (send_elsewhere(j, back_failure_name(f->why), f->why != BACK_FAIL_GIVEN_UP))
            return;
    }
    if (f->why == BACK_FAIL_GIVEN_UP && j->authn.rerouted)
        job_refuse(j, 503, STATUS_NOT_READY);
    else if (f->why == BACK_FAIL_GIVEN_UP && j->peer == NULL && !j->stays && !alternatives_body_gone(j))
        stay(j);
    else
        refuse_failed(j, f);
}

static const struct back_handler *handler(void)
{
    static const struct back_handler forwarded = {
        .on_interim = relay_interim,
        .on_head = on_head,
        .on_body = on_body,
        .on_end = on_end,
        .on_writable = relay_writable,
        .on_failed = on_failed,
        .on_upgraded = upgrade_on_upgraded,
    };

    return &forwarded;
}
