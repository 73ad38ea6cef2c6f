/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/job.h"

#include "back/claims.h"
#include "back/retry.h"
#include "base/clock.h"
#include "base/contract.h"
#include "base/state.h"
#include "kube/schema_complete.h"
#include "kube/status.h"
#include "proxy/askers.h"
#include "proxy/disco_pretty.h"
#include "proxy/refuse.h"

static const char *const state_names[] = {
    [JOB_DECIDING] = "deciding", [JOB_ASKING] = "asking",   [JOB_FORWARDING] = "forwarding",
    [JOB_RELAYING] = "relaying", [JOB_SERVING] = "serving", [JOB_ENDED] = "ended",
};

/* What is under way may turn out to be for another server, or for a document, until the response has begun. */
static const uint32_t next_states[] = {
    [JOB_DECIDING] =
        STATE(JOB_DECIDING) | STATE(JOB_ASKING) | STATE(JOB_FORWARDING) | STATE(JOB_SERVING) | STATE(JOB_ENDED),
    [JOB_ASKING] = STATE(JOB_DECIDING) | STATE(JOB_ASKING) | STATE(JOB_FORWARDING) | STATE(JOB_RELAYING) |
                   STATE(JOB_SERVING) | STATE(JOB_ENDED),
    [JOB_FORWARDING] = STATE(JOB_DECIDING) | STATE(JOB_FORWARDING) | STATE(JOB_RELAYING) | STATE(JOB_ENDED),
    [JOB_RELAYING] = STATE(JOB_ENDED),
    [JOB_SERVING] = STATE(JOB_ENDED),
    [JOB_ENDED] = 0,
};

static const struct state_table states = STATE_TABLE("job", state_names, next_states);

enum { HOUR_MS = 3600 * 1000 };

void job_set_state(struct job *j, enum job_state state)
{
    state_move(&states, &j->state, state);
}

void job_set_stage(struct job *j, enum job_stage stage)
{
    static const char *const names[] = {[JOB_STAGE_READY_PEERS] = "ready peers",
                                        [JOB_STAGE_LOCAL] = "the local server",
                                        [JOB_STAGE_ANY_PEER] = "any peer"};
    static const uint32_t next[] = {
        [JOB_STAGE_READY_PEERS] = STATE(JOB_STAGE_READY_PEERS) | STATE(JOB_STAGE_LOCAL) | STATE(JOB_STAGE_ANY_PEER),
        [JOB_STAGE_LOCAL] = STATE(JOB_STAGE_READY_PEERS) | STATE(JOB_STAGE_ANY_PEER),
        [JOB_STAGE_ANY_PEER] = STATE(JOB_STAGE_READY_PEERS),
    };
    static const struct state_table stages = STATE_TABLE("stage of a job", names, next);

    state_move(&stages, &j->stage, stage);
}

static void let_go_of_snapshot(struct job *j)
{
    holders_drop(&j->proxy->holders, &j->holder, j->served);
}

void job_take_snapshot(struct job *j)
{
    must_hold(j->state != JOB_ENDED);
    if (j->served != NULL)
        let_go_of_snapshot(j);
    j->served = holders_take(&j->proxy->holders, &j->holder, cluster_served(j->proxy->cluster));
}

void job_waited(struct job *j)
{
    j->waiter = NULL;
    j->moved = false;
    j->judge = NULL; /* of the old snapshot, as a peer would be that answered: there was none yet */
    job_take_snapshot(j);
}

/* Which peer gets a request need not be unguessable: no system call for it. */
uint64_t job_throw_dice(struct job *j)
{
    j->proxy->dice = j->proxy->dice * 6364136223846793005U + 1442695040888963407U;
    return j->proxy->dice;
}

bool job_believes_client(const struct job *j)
{
    return j->authn.front_proxy || cidr_set_covers(&j->config->trusted_proxies, slice_str(exchange_client(j->x)->ip));
}

bool job_acts(const struct job *j)
{
    return exchange_wants_upgrade(j->x) || reqinfo_reaches_through(&j->info);
}

struct slice job_answers_itself(struct job *j)
{
    struct slice id = j->summary.audit_id;

    if (!j->audit.own) {
        request_summary_note_head(&j->summary, exchange_request(j->x));
        if (id.n > 0)
            j->summary.audit_id = id;
        request_summary_keep_head(&j->summary, exchange_arena(j->x));
        audit_note(&j->audit, j->x, &j->authn, job_believes_client(j));
    }
    return request_summary_own_audit_id(&j->summary, exchange_arena(j->x));
}

void job_drop_back(struct job *j)
{
    if (j->back != NULL) {
        back_cancel(j->back);
        j->back = NULL;
    }
    if (j->target != NULL) {
        origin_unref(j->target);
        j->target = NULL;
    }
}

void job_forget_request(struct job *j)
{
    request_summary_keep_head(&j->summary, exchange_arena(j->x));
    exchange_forget_request(j->x);
}

static bool is_custom(const struct job *j)
{
    return j->info.name_selected && served_excluded(j->served, j->info.group, j->info.version);
}

/* Without memory it is kept. */
void job_forget_snapshot(struct job *j)
{
    struct arena *a = exchange_arena(j->x);
    struct served_peer *names = NULL;

    if (j->peer != NULL) {
        struct slice id = arena_copy(a, slice_str(j->peer->id)), host = arena_copy(a, slice_str(j->peer->host));

        names = arena_alloc(a, sizeof(*names));
        if (id.p == NULL || host.p == NULL || names == NULL)
            return;
        *names = (struct served_peer){.id = id.p, .host = host.p};
        j->summary.peer = names->host;
    }
    j->judge = j->judge == NULL ? NULL : names;
    j->peer = names;
    j->summary.custom = is_custom(j);
    let_go_of_snapshot(j);
    j->served = served_ref(j->proxy->nobody);
}

/* A peer's mvproxy looks twice a second whether our server is there (cluster/pulse.h): nothing that anybody looks for.
 */
static bool is_pulse(const struct job *j)
{
    return j->authn.rerouted && !j->info.is_resource && slice_eq(j->info.path, SLICE_LIT("/version"));
}

/*
 * What a peer's mvproxy asks for itself (cluster/api.c): while our server is away each look at discovery is refused,
 * and says nothing that the line on the server has not said. What the server answers itself is logged.
 */
static bool is_look_of_peer(const struct job *j)
{
    return j->authn.rerouted && !j->info.is_resource && slice_eq(j->summary.user_agent, SLICE_LIT("mvproxy"));
}

void job_note_asker(struct job *j)
{
    const struct asker_who who = {j->summary.user_agent, j->summary.user, slice_str(exchange_client(j->x)->ip)};
    struct gvr gvr = reqinfo_gvr(&j->info);
    uint64_t now = clock_ms();

    if (j->insight == INSIGHT_EVEN || !request_summary_was_heard(&j->summary) || j->summary.status == 503 ||
        (j->noted_ms != 0 && now - j->noted_ms < HOUR_MS))
        return;
    j->noted_ms = now;
    insight_note(j->proxy->insight, j->insight, &gvr, &who);
}

static bool is_vouched(const struct job *j)
{
    return j->authn.kind == AUTHN_ASSERT || back_bearer_was_taken(j->proxy->back, j->bearer);
}

void job_vouch(struct job *j)
{
    if (is_vouched(j))
        exchange_vouch(j->x);
}

static void account(struct job *j)
{
    job_note_asker(j);
    if (!is_pulse(j))
        traffic_add(&j->proxy->traffic, clock_ms(), j->route.row, j->summary.status);
    if (j->summary.attempts > 0 && j->peer != NULL && !j->route.unserved) /* else its names may be anything */
        request_metrics_rerouted(j->proxy->request_metrics, j->summary.status, &j->info);
    /* By which of its two ways kube-apiserver tells the scope matters only here. */
    if (j->served != j->proxy->nobody)
        j->summary.custom = is_custom(j);
    /* Only now: its own answer may be what shows it. */
    j->summary.vouched = is_vouched(j);
    request_metrics_count(j->proxy->request_metrics, j->x, &j->info, &j->route, &j->summary);
    if (!is_pulse(j) && !(j->audit.own && is_look_of_peer(j)))
        access_log_request(&j->config->access_log, j->x, &j->info, &j->route, &j->summary,
                           j->authn.rerouted && j->info.is_resource);
    if (!j->audit.own || is_look_of_peer(j))
        return;
    j->audit.unbounded = j->config->access_log.all;
    j->audit.route = route_row_name(j->route.row);
    audit_write(j->proxy->audit, j->x, &j->info, &j->audit, &j->summary);
}

/* Everything but the exchange: after this only the caller's last call into it is left. */
static void settle(struct job *j, const char *why)
{
    if (why != NULL)
        j->summary.why = why;
    account(j);
    if (j->waiter != NULL)
        cluster_forget_waiter(j->proxy->cluster, j->waiter);
    job_drop_back(j);
    list_remove(&j->proxy->under_way, &j->under_way);
    if (list_linked(&j->node))
        list_remove(&j->proxy->long_running, &j->node);
    buf_free(&j->kept);
    work_cancel(&j->proxy->work, &j->work);
    schema_completion_free(j->schemas);
    disco_pretty_free(j->pretty);
    let_go_of_snapshot(j);
    proxy_config_unref(j->config);
    job_set_state(j, JOB_ENDED);
}

/* A request that is under way now may be carried out as well as one that was lost. */
static bool may_be_repeated(const struct job *j)
{
    return !j->maybe_done && (j->back == NULL || retry_is_harmless(j->request.method_id, job_acts(j), true));
}

void job_refuse(struct job *j, unsigned status, const char *message)
{
    struct exchange *x = j->x;
    struct slice audit_id = job_answers_itself(j);
    bool only_401 = j->unauthorized && (status == 503 || status == 504);
    unsigned flags = may_be_repeated(j) && !only_401 ? REFUSE_AGAIN : 0;
    struct own_answer answer;

    /* For the peer that has sent it on: it may be another's turn. */
    if (j->authn.rerouted && !j->maybe_done && j->back == NULL)
        flags |= REFUSE_TRY_ANOTHER;
    if (only_401) {
        status = 401;
        message = STATUS_UNAUTHORIZED;
    }
    j->summary.status = status_code(status);
    j->summary.unavailable = true;
    own_answer_make(&answer, x, status, message, audit_id, flags);
    if (exchange_request(x)->method_id != HTTP_HEAD && answer.whole)
        j->summary.own_bytes = buf_len(&answer.body);
    settle(j, message);
    own_answer_send(&answer, x);
}

void job_refuse_unserved(struct job *j, const char *message)
{
    if (!j->authn.rerouted)
        exchange_send_away(j->x);
    job_refuse(j, 503, message);
}

const char *job_local_failed_text(const struct job *j)
{
    struct slice text = arena_printf(exchange_arena(j->x), STATUS_LOCAL_FAILED " of %s", served_local_host(j->served));

    return text.p == NULL ? STATUS_LOCAL_FAILED : text.p;
}

void job_refuse_loop(struct job *j)
{
    if (j->authn.rerouted) {
        job_refuse(j, 503, STATUS_LOOP);
        return;
    }
    exchange_send_away(j->x);
    job_refuse(j, 508, STATUS_LOOP);
}

void job_finish(struct job *j, const struct http_head *trailers)
{
    struct exchange *x = j->x;

    settle(j, NULL);
    exchange_finish(x, trailers);
}

void job_abort(struct job *j, const char *reason)
{
    struct exchange *x = j->x;

    settle(j, reason);
    exchange_abort(x, reason);
}

void job_release(struct job *j, const char *reason)
{
    settle(j, reason);
}
