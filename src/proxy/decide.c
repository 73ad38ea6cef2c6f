/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/decide.h"

static bool peer_healthy(const struct served_peer *p, void *arg)
{
    (void)arg;
    return origin_healthy(p->origin);
}

bool decide_reachable(const struct served_peer *p, void *arg)
{
    (void)arg;
    return !origin_hangs(p->origin) && !origin_unreachable(p->origin);
}

static void ask_router(struct job *j, bool local_failed)
{
    enum http_method method = exchange_request(j->x)->method_id;
    struct route_query q = {
        .info = &j->info,
        .get_or_head = method == HTTP_GET || method == HTTP_HEAD,
        .rerouted = j->authn.rerouted,
        .may_deny = http_head_find_name(exchange_request(j->x), SLICE_LIT(USER_MAY_DENY)) != NULL,
        .refreshed = j->refreshed,
        .newest = j->config->newest,
        .failover = cluster_fails_over(j->proxy->cluster),
        .local_denied = j->looked_again,
        .local_unread = j->unread,
        .local_failed = local_failed,
        .local_state = cluster_local_state(j->proxy->cluster),
        .served = j->served,
        .healthy = peer_healthy,
        .reachable = decide_reachable,
        .dice = job_throw_dice(j),
    };

    route_decide(&q, &j->route);
}

void decide_route(struct job *j)
{
    ask_router(j, false);
}

void decide_sent_back(struct job *j)
{
    decide_route(j);
    if (j->info.is_resource) /* whoever serves it */
        j->route.row = ROUTE_ROW_REROUTED;
}

bool decide_fail_over(struct job *j)
{
    struct route before = j->route;

    ask_router(j, true);
    if (j->route.row == ROUTE_ROW_LOCAL_FAILOVER || j->route.unserved)
        return true;
    j->route = before;
    return false;
}

static void on_refreshed(void *arg)
{
    struct job *j = arg;

    job_waited(j);
    j->unread = j->looked_again && cluster_local_unread(j->proxy->cluster);
    j->proxy->act(j);
}

bool decide_later(struct job *j)
{
    j->refreshed = true;
    job_set_state(j, JOB_DECIDING);
    j->waiter = cluster_local_miss(j->proxy->cluster, on_refreshed, j);
    if (j->waiter == NULL)
        return false;
    exchange_pause_body(j->x); /* there is nobody yet who could take it */
    return true;
}

void decide_anew(struct job *j)
{
    job_drop_back(j);
    j->decided_anew = true;
    j->peer = NULL; /* of the old snapshot */
    j->summary.peer = NULL;
    job_set_stage(j, JOB_STAGE_READY_PEERS);
    j->next_candidate = j->denied = 0;
    j->peers_starting = j->peers_busy = j->stays = j->local_tried = false;
    job_waited(j);
    j->proxy->act(j);
}

void decide_again(struct job *j, const struct gvr *denied)
{
    job_drop_back(j);
    request_metrics_retry(j->proxy->request_metrics, "local-not-found");
    cluster_disbelieved(j->proxy->cluster, served_local_host(j->served), denied);
    j->looked_again = j->unread = true;
    if (!decide_later(j))
        j->proxy->act(j);
}
