/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/forward.h"

#include "back/retry.h"
#include "base/limits.h"
#include "base/log.h"
#include "http/h1_parse.h"
#include "kube/denial.h"
#include "kube/status.h"
#include "proxy/alternatives.h"
#include "proxy/answer.h"
#include "proxy/deliver.h"
#include "proxy/rewrite.h"
#include "proxy/upgrade.h"

#define WARNING_OLDER                                                                                                  \
    "answered by an API server that is older than others of this control plane: fields that it does not know are lost"

/* ---- towards the server: the client's body ---- */

/* The price of handing a write on: a copy, as long as it is short. */
static void keep_body(struct job *j, struct slice data)
{
    if (!j->body_started) {
        buf_init(&j->kept, LIMIT_REPLAY_BYTES);
        buf_charge(&j->kept, exchange_quota(j->x));
        j->keeps_body = alternatives_exist(j);
    }
    j->keeps_body = j->keeps_body && buf_append(&j->kept, data);
    if (!j->keeps_body)
        buf_release(&j->kept);
}

static void on_client_body(void *arg, struct slice data)
{
    struct job *j = arg;

    if (j->back == NULL)
        return; /* answered already: what still arrives is the connection's to drain */
    keep_body(j, data);
    j->body_started = true;
    if (back_write(j->back, data) && back_congested(j->back))
        exchange_pause_body(j->x);
}

static void on_client_body_end(void *arg, const struct http_head *trailers)
{
    struct job *j = arg;
    struct http_head kept = {0};

    j->body_ended = true;
    if (j->back == NULL)
        return;
    /* Nobody relies on trailers (RFC 9110 6.5.1): without memory for them there are none. */
    if (trailers != NULL && !rewrite_trailers(trailers, &j->config->authn.headers,
                                              cluster_front_named(j->proxy->cluster), exchange_arena(j->x), &kept))
        kept.n_fields = 0;
    back_finish(j->back, kept.n_fields > 0 ? &kept : NULL);
}

static void on_client_writable(void *arg)
{
    struct job *j = arg;

    if (j->state == JOB_SERVING)
        deliver_resume(j);
    else if (j->back != NULL)
        back_resume(j->back);
}

static void on_client_gone(void *arg, const char *reason)
{
    (void)reason;
    job_release(arg, ACCOUNT_CLIENT_GONE);
}

const struct exchange_sink *forward_sink(void)
{
    static const struct exchange_sink sink = {
        .on_body = on_client_body,
        .on_body_end = on_client_body_end,
        .on_writable = on_client_writable,
        .on_gone = on_client_gone,
    };

    return &sink;
}

/* ---- towards the client: the server's response ---- */

static void on_interim(void *arg, const struct http_head *head)
{
    struct job *j = arg;
    struct http_head out;

    if (rewrite_response(head, &(struct rewrite_origin){.hop = NULL}, exchange_arena(j->x), &out))
        (void)exchange_interim(j->x, &out);
}

/* RFC 9110 8.6: the length that a HEAD's or a 304's answer announces belongs to the resource, and is passed on. */
static struct http_body announced(const struct job *j, const struct http_head *head, struct http_body body)
{
    bool about_another = exchange_request(j->x)->method_id == HTTP_HEAD || head->status == 304;

    if (body.kind == HTTP_BODY_NONE && about_another && h1_content_length(head, &body.length))
        body.kind = HTTP_BODY_LENGTH;
    return body;
}

static bool is_of_older(const struct job *j)
{
    return j->peer == NULL ? j->route.older : j->peer->release < j->route.release;
}

void forward_relay_head(struct job *j, const struct http_head *head, struct http_body body)
{
    struct rewrite_origin from = {
        .served_by = j->peer != NULL ? j->peer->id : NULL,
        .hop = j->authn.rerouted ? served_local_id(j->served) : NULL,
        .version = j->authn.rerouted && !j->info.is_resource ? j->config->version : NULL,
        .warning = is_of_older(j) ? WARNING_OLDER : NULL,
    };
    struct http_head out;

    if (!rewrite_response(head, &from, exchange_arena(j->x), &out)) {
        job_refuse(j, 503, STATUS_NO_MEMORY);
        return;
    }
    j->summary.status = head->status;
    request_summary_note_answer(&j->summary, head);
    if (j->summary.long_running)
        job_note_asker(j); /* its end may be far */
    job_set_state(j, JOB_RELAYING);
    (void)exchange_respond(j->x, &out, announced(j, head, body));
    job_forget_request(j);
}

static bool try_next(struct job *j, const char *retry_reason);
static bool send_elsewhere(struct job *j, const char *why);

static void peer_denies(struct job *j)
{
    struct gvr gvr = reqinfo_gvr(&j->info);

    job_drop_back(j);
    cluster_disbelieved(j->proxy->cluster, j->peer->host, &gvr);
    cluster_peer_suspect(j->proxy->cluster, j->peer->id);
    if (!alternatives_body_gone(j) && try_next(j, "peer-not-found"))
        return;
    j->route.row = ROUTE_ROW_PEERS_FAILED;
    job_refuse(j, 503, STATUS_PROXY_FAILED);
}

void forward_look_again(struct job *j, const struct gvr *denied)
{
    job_drop_back(j);
    request_metrics_retry(j->proxy->request_metrics, "local-not-found");
    cluster_disbelieved(j->proxy->cluster, served_local_host(j->served), denied);
    j->looked_again = true;
    job_route_again(j);
}

/*
 * The local server has come back serving less, and its discovery has not been read since: look, then decide again. Or
 * what it serves is not for us to know: then a peer may serve it, and 404 would be more than anybody knows.
 */
static void local_denies(struct job *j)
{
    struct gvr gvr = reqinfo_gvr(&j->info);

    if (alternatives_body_gone(j) || j->route.row == ROUTE_ROW_FORBIDDEN || j->route.row == ROUTE_ROW_LOCAL_FAILOVER) {
        job_drop_back(j);
        request_metrics_retry(j->proxy->request_metrics, "local-not-found");
        cluster_local_suspect(j->proxy->cluster);
        job_refuse(j, 503, STATUS_SYNCING);
        return;
    }
    forward_look_again(j, &gvr);
}

static void note_peer_answer(const struct job *j, unsigned status)
{
    if (j->peer == NULL)
        return;
    if (status == 404 || status == 503)
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
    if (!j->summary.unavailable || alternatives_body_gone(j) || !alternatives_left(j) || !take_repeat(j))
        return false;
    j->peers_starting = true;
    job_drop_back(j);
    if (!try_next(j, "peer-not-ready")) {
        j->route.row = ROUTE_ROW_PEERS_FAILED;
        job_refuse(j, 503, STATUS_PROXY_FAILED);
    }
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

static bool peer_distrusts_us(struct job *j, const struct http_head *head)
{
    bool again;

    if (!answer_distrusts_us(j, head))
        return false;
    again = !alternatives_body_gone(j) && take_repeat(j);
    job_drop_back(j);
    cluster_peer_suspect(j->proxy->cluster, j->peer->id);
    if (again && try_next(j, "peer-unauthorized"))
        return true;
    j->route.row = ROUTE_ROW_PEERS_FAILED;
    job_refuse(j, 503, STATUS_PROXY_FAILED);
    return true;
}

/* The local server has not looked at the request. False: nobody else can be asked, and its answer is the answer. */
static bool pass_on(struct job *j)
{
    struct forward_held *held = j->held;

    /* More of the body may have come since the head. */
    if (!alternatives_may_pass_on(j))
        return false;
    cluster_local_failed(j->proxy->cluster, false);
    alternatives_spend(j);
    job_drop_back(j);
    j->held = NULL;
    if (send_elsewhere(j, "local-not-ready"))
        return true;
    j->held = held;
    return false;
}

static void denies(struct job *j)
{
    if (j->peer != NULL)
        peer_denies(j);
    else
        local_denies(j);
}

/* Held back until it is known what it says. */
struct forward_held {
    const struct http_head *head;
    struct http_body body;
    size_t n;
    char text[LIMIT_DENIAL_BODY];
};

/* It is the truth, or too long to be anything else. False: the job is over. */
static bool let_go(struct job *j)
{
    struct forward_held *held = j->held;

    j->held = NULL;
    forward_relay_head(j, held->head, held->body);
    if (j->state != JOB_RELAYING)
        return false;
    if (held->n > 0 && exchange_body(j->x, slice_of(held->text, held->n)) && j->back != NULL &&
        exchange_congested(j->x))
        back_pause(j->back);
    return j->state == JOB_RELAYING;
}

/* Not to be relayed without memory: a 404 that nobody has read may be a false one. */
static void hold(struct job *j, const struct http_head *head, struct http_body body)
{
    j->held = arena_alloc(exchange_arena(j->x), sizeof(*j->held));
    if (j->held == NULL) {
        job_refuse(j, 503, STATUS_NO_MEMORY);
        return;
    }
    j->held->head = head;
    j->held->body = body;
    j->held->n = 0;
}

static bool is_too_long(struct http_body body)
{
    return body.kind == HTTP_BODY_LENGTH && body.length > LIMIT_DENIAL_BODY;
}

static void on_head(void *arg, const struct http_head *head, struct http_body body)
{
    struct job *j = arg;
    enum denial d = answer_denies(j, head, body.kind != HTTP_BODY_NONE);

    note_peer_answer(j, head->status);
    if (peer_passes(j, head) || peer_knows_nobody(j, head) || peer_distrusts_us(j, head))
        return;
    if (d == DENIAL_UNKNOWN)
        denies(j);
    else if (d == DENIAL_NONE || is_too_long(body))
        forward_relay_head(j, head, body);
    else
        hold(j, head, body);
}

static void on_body(void *arg, struct slice data)
{
    struct job *j = arg;

    if (j->held != NULL && data.n <= LIMIT_DENIAL_BODY - j->held->n) {
        memcpy(j->held->text + j->held->n, data.p, data.n);
        j->held->n += data.n;
        return;
    }
    if (j->held == NULL || let_go(j))
        forward_on_body(j, data);
}

static void on_end(void *arg, const struct http_head *trailers)
{
    struct job *j = arg;
    struct forward_held *held = j->held;
    bool denied;

    if (held == NULL) {
        forward_on_end(j, trailers);
        return;
    }
    j->back = NULL;
    denied = denial_by_body(held->head->status, slice_of(held->text, held->n)) != DENIAL_NONE;
    if (denied && (j->peer != NULL || held->head->status != 503)) {
        j->held = NULL;
        denies(j);
        return;
    }
    if (denied && pass_on(j))
        return;
    if (let_go(j))
        forward_on_end(j, trailers);
}

void forward_on_body(void *arg, struct slice data)
{
    struct job *j = arg;

    if (exchange_body(j->x, data) && exchange_congested(j->x))
        back_pause(j->back);
}

void forward_on_end(void *arg, const struct http_head *trailers)
{
    struct job *j = arg;

    j->back = NULL;
    job_finish(j, trailers != NULL && trailers->n_fields > 0 ? trailers : NULL);
}

static void on_server_writable(void *arg)
{
    struct job *j = arg;

    exchange_resume_body(j->x);
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

static void log_failure(const struct job *j, const struct back_failure_info *f)
{
    log_v(3, "Request to API server failed", LT("server", j->peer != NULL ? j->peer->host : "local"),
          LS("path", j->info.raw_path), LT("err", f->text), LB("reusedConnection", f->reused),
          LB("requestSent", f->request_sent));
}

static bool send_elsewhere(struct job *j, const char *why)
{
    if (j->peer != NULL || j->route.row == ROUTE_ROW_LOCAL_FAILOVER)
        return try_next(j, why);
    if (!job_fail_over(j))
        return false;
    j->local_tried = true;
    j->stage = JOB_STAGE_READY_PEERS;
    j->next_candidate = 0;
    return try_next(j, why);
}

/*
 * kube-apiserver ends the request of who has reached a program that breaks off, and has nothing to say of it: nor have
 * we, and the server is as well as it was.
 */
static bool is_of_another_program(const struct job *j, const struct back_failure_info *f)
{
    return f->why == BACK_FAIL_UNANSWERED && f->request_sent && reqinfo_reaches_through(&j->info);
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
    if (j->peer != NULL && f->why != BACK_FAIL_CLIENT) {
        cluster_peer_suspect(j->proxy->cluster, j->peer->id);
        request_metrics_peer_error(j->proxy->request_metrics, PEER_ERROR_PROXY_TRANSPORT, &j->info);
    } else if (j->peer == NULL && retry_server_is_lost(f->why)) {
        cluster_local_failed(j->proxy->cluster, f->why != BACK_FAIL_UNANSWERED);
    }
    if (verdict == RETRY_ELSEWHERE) {
        alternatives_spend(j);
        job_drop_back(j);
        if (send_elsewhere(j, back_failure_name(f->why)))
            return;
    }
    if (j->peer != NULL && j->route.row != ROUTE_ROW_LOCAL_FAILOVER)
        j->route.row = ROUTE_ROW_PEERS_FAILED;
    if (f->why == BACK_FAIL_LOOP)
        job_refuse_loop(j);
    else if (j->peer == NULL && f->why == BACK_FAIL_CONNECT)
        job_refuse_unserved(j, failure_message(j, f));
    else
        job_refuse(j, failure_status(f->why), failure_message(j, f));
}

static const struct back_handler forward_handler = {
    .on_interim = on_interim,
    .on_head = on_head,
    .on_body = on_body,
    .on_end = on_end,
    .on_writable = on_server_writable,
    .on_failed = on_failed,
    .on_upgraded = upgrade_on_upgraded,
};

/* ---- start ---- */

/*
 * Who asks stands in the fields of a request with the certificate, unless it is a token that an mvproxy or the server
 * is to judge.
 */
static enum back_http2 http2_for(const struct job *j)
{
    return j->authn.kind == AUTHN_ASSERT ? BACK_HTTP2_SHARED : BACK_HTTP2_SAME_BEARER;
}

/*
 * What came over HTTP/2 goes on over it. Watches do in any case, because there are thousands, and each would hold a
 * connection of its own; and so do writes, of which a server that stops can say on HTTP/2 only that it has not looked
 * at them, so that they may be sent again (docs/internals/retry.md).
 */
static bool may_as_well_be_http1(const struct job *j)
{
    return strcmp(exchange_client(j->x)->protocol, "HTTP/2.0") != 0 && http_method_is_safe(j->request.method_id) &&
           !slice_eq(j->info.verb, SLICE_LIT("watch"));
}

/*
 * An mvproxy in front of a peer knows a hop by its certificate, also when the identity is a token: only so can it
 * believe the loop mark. A bare kube-apiserver may take the certificate for the user. So without a user to assert it is
 * the connection that has to prove who is there.
 */
bool forward_start(struct job *j, const struct back_handler *handler, struct http_body body)
{
    bool asserts = j->authn.kind == AUTHN_ASSERT;
    struct back_opts o = {
        .origin = j->target,
        .with_cert = asserts,
        .hop = !asserts && j->target != j->config->local,
        .http2 = http2_for(j),
        .http2_if_busy = may_as_well_be_http1(j),
        .lasting = j->summary.long_running,
        .proves_nothing = answer_proves_nothing(j),
        .once = reqinfo_reaches_through(&j->info),
        .head = &j->request,
        .body = body,
        .upgrade = exchange_wants_upgrade(j->x) && handler->on_upgraded != NULL,
        .expect_continue = exchange_expects_continue(j->x),
        .head_timeout_ms = j->summary.long_running ? 0 : j->config->request_timeout_ms,
        .client = j->client,
        .quota = exchange_quota(j->x),
        .others = j->peer == NULL && alternatives_exist(j),
        .handler = handler,
        .arg = j,
    };

    j->summary.attempts++;
    j->back = back_start(j->proxy->back, &o);
    if (j->back == NULL) {
        job_refuse(j, 503, STATUS_NO_MEMORY);
        return false;
    }
    /* The body is held back until the server can take it: until then another server may still be tried. */
    if (body.kind != HTTP_BODY_NONE)
        exchange_pause_body(j->x);
    if (buf_len(&j->kept) > 0)
        (void)back_write(j->back, buf_slice(&j->kept));
    if (j->body_ended)
        back_finish(j->back, NULL);
    return true;
}

/* The head of a 101 is the kubelet's and has no Audit-ID: what becomes a tunnel has ours from the beginning. */
static enum rewrite_result rewrite_named(struct job *j, const struct rewrite_in *in)
{
    struct arena *head_arena = exchange_request_arena(j->x);
    enum rewrite_result r = rewrite_request(in, head_arena, &j->request);

    if (r != REWRITE_OK || !in->upgrade)
        return r;
    return request_summary_name_head(&j->summary, &j->request, exchange_arena(j->x), head_arena) ? REWRITE_OK
                                                                                                 : REWRITE_NO_MEMORY;
}

static void send_to(struct job *j, struct origin *origin, const struct served_peer *peer)
{
    struct rewrite_in in = {
        .head = exchange_request(j->x),
        .authn = &j->authn,
        .headers = &j->config->authn.headers,
        .also = cluster_front_named(j->proxy->cluster),
        .target = peer != NULL ? REWRITE_PEER : REWRITE_LOCAL,
        .client_ip = exchange_client(j->x)->ip,
        .believes_client = job_believes_client(j),
        .upgrade = exchange_wants_upgrade(j->x),
        .if_ready = peer != NULL && (j->route.row == ROUTE_ROW_LOCAL_FAILOVER || j->route.row == ROUTE_ROW_NEWEST) &&
                    j->stage == JOB_STAGE_READY_PEERS,
        .may_send_on = !served_peers_enabled(j->served),
    };

    switch (rewrite_named(j, &in)) {
    case REWRITE_OK:
        break;
    case REWRITE_UNENCODABLE:
        job_refuse(j, 401, STATUS_UNAUTHORIZED);
        return;
    case REWRITE_NO_MEMORY:
        job_refuse(j, 503, STATUS_NO_MEMORY);
        return;
    }
    j->target = origin_ref(origin);
    j->peer = peer;
    j->summary.peer = peer != NULL ? peer->host : NULL;
    job_set_state(j, JOB_FORWARDING);
    (void)forward_start(j, &forward_handler, exchange_request_body(j->x));
}

void forward_local(struct job *j)
{
    send_to(j, j->config->local, NULL);
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
        send_to(j, p->origin, p);
        return true;
    }
    return false;
}

/*
 * As try_next_peer(), but when the local server is failed over it is not the end: the local server itself, unless this
 * request had it already, and then the peers that are only starting.
 */
static bool try_next(struct job *j, const char *retry_reason)
{
    if (try_next_peer(j, retry_reason))
        return true;
    if (j->route.row == ROUTE_ROW_NEWEST && j->stage == JOB_STAGE_READY_PEERS) {
        j->stage = JOB_STAGE_LOCAL;
        request_metrics_retry(j->proxy->request_metrics, "older");
        forward_local(j);
        return true;
    }
    if (j->route.row != ROUTE_ROW_LOCAL_FAILOVER)
        return false;
    if (j->stage == JOB_STAGE_READY_PEERS) {
        j->stage = JOB_STAGE_LOCAL;
        if (!j->local_tried) {
            request_metrics_retry(j->proxy->request_metrics, "last-resort");
            forward_local(j);
            return true;
        }
    }
    if (j->stage == JOB_STAGE_LOCAL && j->peers_starting) {
        j->stage = JOB_STAGE_ANY_PEER;
        j->next_candidate = 0;
        return try_next_peer(j, "last-resort");
    }
    return false;
}

void forward_peers(struct job *j)
{
    if (!try_next(j, NULL))
        job_refuse(j, 503, j->peers_busy ? STATUS_OVERLOADED : STATUS_NO_PEER_CONFIG);
}
