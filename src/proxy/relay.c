/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/relay.h"

#include "base/limits.h"
#include "http/h1_parse.h"
#include "http/hop.h"
#include "kube/status.h"
#include "proxy/alternatives.h"
#include "proxy/answer.h"
#include "proxy/deliver.h"
#include "proxy/rewrite.h"

#define WARNING_OLDER                                                                                                  \
    "299 - \"answered by an API server that is older than others of this control plane: fields that it does not know " \
    "are lost\""

/* ---- a request to a server ---- */

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

static struct rewrite_names names_to_strip(const struct job *j)
{
    return (struct rewrite_names){
        .headers = &j->config->authn.headers,
        .also = cluster_front_named(j->proxy->cluster),
        .back = j->proxy->back,
    };
}

static bool wants_upgrade(const struct job *j)
{
    return exchange_wants_upgrade(j->x) && !j->bare;
}

bool relay_rewrite(struct job *j, const struct served_peer *to, bool if_ready)
{
    struct rewrite_in in = {
        .head = exchange_request(j->x),
        .authn = &j->authn,
        .names = names_to_strip(j),
        .target = to != NULL ? REWRITE_PEER : REWRITE_LOCAL,
        .client_ip = exchange_client(j->x)->ip,
        .believes_client = job_believes_client(j),
        .upgrade = wants_upgrade(j),
        .if_ready = if_ready,
        .may_deny = to != NULL && j->route.unserved,
        .may_send_on = !served_peers_enabled(j->served),
    };

    switch (rewrite_named(j, &in)) {
    case REWRITE_OK:
        return true;
    case REWRITE_UNENCODABLE:
        job_refuse(j, 401, STATUS_UNAUTHORIZED);
        return false;
    case REWRITE_NO_MEMORY:
        break;
    }
    job_refuse(j, 503, STATUS_NO_MEMORY);
    return false;
}

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
void relay_start(struct job *j, const struct served_peer *to, const struct back_handler *handler, struct http_body body)
{
    struct origin *origin = to != NULL ? to->origin : j->config->local;
    bool asserts = j->authn.kind == AUTHN_ASSERT;
    bool others = to == NULL && !j->stays && (alternatives_exist(j) || alternatives_of_sender(j));
    struct back_opts o = {
        .origin = origin,
        .with_cert = asserts,
        .hop = !asserts && origin != j->config->local,
        .http2 = http2_for(j),
        .http2_if_busy = may_as_well_be_http1(j),
        .lasting = j->summary.long_running,
        .watch = slice_eq(j->info.verb, SLICE_LIT("watch")),
        .proves_nothing = answer_proves_nothing(j),
        .once = reqinfo_reaches_through(&j->info),
        .head = &j->request,
        .impersonations = hop_impersonations(exchange_request(j->x)),
        .body = body,
        .upgrade = wants_upgrade(j) && handler->on_upgraded != NULL,
        .expect_continue = body.kind != HTTP_BODY_NONE && exchange_expects_continue(j->x),
        .head_timeout_ms = j->summary.long_running ? 0 : j->config->request_timeout_ms,
        .client = j->client,
        .quota = exchange_quota(j->x),
        .others = others,
        .movable = to == NULL ? others : alternatives_left(j),
        .handler = handler,
        .arg = j,
    };

    j->target = origin_ref(origin);
    j->summary.attempts++;
    j->back = back_start(j->proxy->back, &o);
    if (j->back == NULL) {
        job_refuse(j, 503, STATUS_NO_MEMORY);
        return;
    }
    /* The body is held back until the server can take it: until then another server may still be tried. */
    if (body.kind != HTTP_BODY_NONE)
        exchange_pause_body(j->x);
    if (buf_len(&j->kept) > 0)
        (void)back_write(j->back, buf_slice(&j->kept));
    if (j->body_ended)
        back_finish(j->back, NULL);
}

/* ---- towards the server: the client's body ---- */

/* The price of handing a write on: a copy, as long as it is short. */
static void keep_body(struct job *j, struct slice data)
{
    if (!j->body_started) {
        buf_init(&j->kept, LIMIT_REPLAY_BYTES);
        buf_charge(&j->kept, exchange_quota(j->x));
        j->keeps_body = j->state != JOB_RELAYING && alternatives_exist(j);
    }
    j->keeps_body = j->keeps_body && buf_append(&j->kept, data);
    if (!j->keeps_body)
        buf_release(&j->kept);
}

static void on_client_body(void *arg, struct slice data)
{
    struct job *j = arg;

    if (j->back == NULL || j->bare)
        return; /* answered already, or of no interest: what still arrives is the connection's to drain */
    keep_body(j, data);
    j->body_started = true;
    if (back_write(j->back, data) && back_congested(j->back))
        exchange_pause_body(j->x);
}

static void on_client_body_end(void *arg, const struct http_head *trailers)
{
    struct job *j = arg;
    const struct rewrite_names names = names_to_strip(j);
    struct http_head kept = {0};

    if (j->bare)
        return;
    j->body_ended = true;
    if (j->back == NULL)
        return;
    /* Nobody relies on trailers (RFC 9110 6.5.1): without memory for them there are none. */
    if (trailers != NULL && !rewrite_trailers(trailers, &names, exchange_arena(j->x), &kept))
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

const struct exchange_sink *relay_sink(void)
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

void relay_interim(void *arg, const struct http_head *head)
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

/* What a peer reads of our server it may take for all that there is, if it reads it from one that is ready. */
static const char *readiness_to_tell(const struct job *j)
{
    if (!j->authn.rerouted || j->info.is_resource || j->peer != NULL)
        return NULL;
    switch (cluster_local_word(j->proxy->cluster, j->sent_ms)) {
    case API_WORD_READY:
        return "true";
    case API_WORD_LOADING:
        return "false";
    case API_WORD_NONE:
        break;
    }
    return NULL;
}

bool relay_head(struct job *j, const struct http_head *head, struct http_body body)
{
    struct rewrite_origin from = {
        .served_by = j->peer != NULL ? j->peer->id : NULL,
        .hop = j->authn.rerouted ? served_local_id(j->served) : NULL,
        .version = j->authn.rerouted && !j->info.is_resource ? j->config->version : NULL,
        .ready = readiness_to_tell(j),
        .unserved = j->authn.rerouted && j->route.row == ROUTE_ROW_NOBODY,
        .warning = is_of_older(j) ? WARNING_OLDER : NULL,
    };
    struct http_head out;

    if (!rewrite_response(head, &from, exchange_arena(j->x), &out)) {
        job_refuse(j, 503, STATUS_NO_MEMORY);
        return false;
    }
    j->summary.status = head->status;
    request_summary_note_answer(&j->summary, head);
    if (j->summary.long_running)
        job_note_asker(j); /* its end may be far */
    job_set_state(j, JOB_RELAYING);
    job_vouch(j); /* this answer may be the first to its token, and the only one */
    (void)exchange_respond(j->x, &out, announced(j, head, body));
    job_forget_request(j);
    /* Megabytes, and others after each change: whoever reads slowly is not to keep them. */
    if (j->judge == NULL || j->judge == j->peer)
        job_forget_snapshot(j);
    return true;
}

bool relay_held(struct job *j, const struct http_head *head, struct http_body body, struct slice bytes)
{
    if (!relay_head(j, head, body))
        return false;
    if (bytes.n > 0)
        relay_body(j, bytes);
    return true;
}

void relay_body(void *arg, struct slice data)
{
    struct job *j = arg;

    if (exchange_body(j->x, data) && j->back != NULL && exchange_congested(j->x))
        back_pause(j->back);
}

void relay_end(void *arg, const struct http_head *trailers)
{
    struct job *j = arg;

    j->back = NULL;
    job_finish(j, trailers != NULL && trailers->n_fields > 0 ? trailers : NULL);
}

void relay_writable(void *arg)
{
    struct job *j = arg;

    exchange_resume_body(j->x);
}
