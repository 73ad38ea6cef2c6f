/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/alternatives.h"

bool alternatives_exist(const struct job *j)
{
    return (route_may_fail_over(&j->info) || j->state == JOB_ASKING) && !j->authn.rerouted &&
           served_n_peers(j->served) > 0 && (cluster_fails_over(j->proxy->cluster) || j->route.row == ROUTE_ROW_NEWEST);
}

bool alternatives_of_sender(const struct job *j)
{
    return j->authn.rerouted && http_head_find_name(exchange_request(j->x), SLICE_LIT(USER_IF_READY)) != NULL;
}

bool alternatives_body_gone(const struct job *j)
{
    return j->body_started && !j->keeps_body;
}

bool alternatives_local_left(const struct job *j)
{
    return j->stage == JOB_STAGE_READY_PEERS && !j->local_tried &&
           (j->route.row == ROUTE_ROW_NEWEST || j->route.row == ROUTE_ROW_LOCAL_FAILOVER ||
            (j->route.unserved && !j->route.untold));
}

bool alternatives_starting_left(const struct job *j)
{
    return j->stage < JOB_STAGE_ANY_PEER && j->peers_starting &&
           (j->route.row == ROUTE_ROW_LOCAL_FAILOVER || j->route.row == ROUTE_ROW_PEER);
}

bool alternatives_left(const struct job *j)
{
    return j->next_candidate < j->route.n_candidates || alternatives_local_left(j) || alternatives_starting_left(j);
}

static bool is_stranger(const struct job *j)
{
    return j->authn.kind != AUTHN_ASSERT && back_is_stranger(j->proxy->back, &j->request);
}

bool alternatives_affordable(const struct job *j)
{
    return origin_may_repeat(j->target, is_stranger(j));
}

void alternatives_spend(const struct job *j)
{
    origin_note_repeat(j->target, is_stranger(j));
}

/* An aggregated server may say for itself that it stops or starts, again and again: there is a budget. */
bool alternatives_may_pass_on(const struct job *j)
{
    return alternatives_exist(j) && cluster_fails_over(j->proxy->cluster) && !alternatives_body_gone(j) &&
           (j->route.row != ROUTE_ROW_LOCAL_FAILOVER || alternatives_left(j)) && alternatives_affordable(j);
}

/* A server that is overloaded is not to pass its load on to the next one. */
static bool may_fail_over(const struct job *j, const struct back_failure_info *f)
{
    return j->peer == NULL && route_may_fail_over(&j->info) && !j->authn.rerouted && f->why != BACK_FAIL_BUSY &&
           f->why != BACK_FAIL_CLIENT &&
           (j->route.row == ROUTE_ROW_LOCAL_FAILOVER ? alternatives_left(j) : cluster_fails_over(j->proxy->cluster));
}

enum retry_verdict alternatives_after(const struct job *j, const struct back_failure_info *f)
{
    struct retry_case c = {
        .method = j->request.method_id,
        .why = f->why,
        .relayed = j->state == JOB_RELAYING,
        .sent = f->request_sent,
        .body_gone = alternatives_body_gone(j),
        .upgrade = job_acts(j),
        .others = j->peer != NULL ? alternatives_left(j) : may_fail_over(j, f),
        .affordable = true,
        .repeated = RETRY_MAX_HERE,
    };

    /* What the local server never got costs it nothing: the budget is for what is sent twice. */
    if (retry_decide(&c) != RETRY_ELSEWHERE || alternatives_affordable(j) || (j->peer == NULL && !f->request_sent))
        return retry_decide(&c);
    origin_note_refused_repeat(j->target);
    c.affordable = false;
    return retry_decide(&c);
}
