/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/answer.h"

#include "back/retry.h"
#include "cluster/api.h"
#include "http/credential.h"
#include "kube/surface.h"
#include "proxy/alternatives.h"
#include "proxy/rewrite.h"

#define SCHEMAS "/openapi/v3/"

/* Custom resources have their own errors, and an aggregated API server has, in whatever words. */
static bool is_excluded(const struct job *j)
{
    return served_excluded(j->served, j->info.group, j->info.version);
}

/*
 * The words are another program's, even if they are kube-apiserver's: it is built like one, and every server would
 * hand it the same request.
 */
static bool is_aggregated(const struct job *j)
{
    return served_aggregated(j->served, j->info.group, j->info.version);
}

/* Of discovery and schemas that an aggregated API server, or the one that serves custom resources, writes itself. */
static bool is_about_excluded(const struct job *j)
{
    struct surface about = surface_of(j->info.path);
    struct slice path = j->info.path, group = about.group, version = about.version;

    if (slice_has_prefix(path, SLICE_LIT(SCHEMAS)) &&
        !schema_path_names(slice_from(path, sizeof(SCHEMAS) - 1), &group, &version))
        return false;
    return group.n > 0 && version.n > 0 && served_excluded(j->served, group, version);
}

bool answer_proves_nothing(const struct job *j)
{
    return reqinfo_reaches_through(&j->info) || is_excluded(j) || is_about_excluded(j);
}

/*
 * A namespace before what is in none, or none before what is in one: no server knows that path, whatever it serves.
 * Lists and watches may be about all namespaces.
 */
static bool is_out_of_scope(const struct job *j)
{
    const struct disco *d = j->peer != NULL ? j->peer->disco : served_local_disco(j->served);
    struct gvr gvr = reqinfo_gvr(&j->info);
    const struct disco_resource *r = disco_resource(d, &gvr);

    if (r == NULL)
        return false;
    if (j->info.in_namespace)
        return j->info.ns.n == 0 || slice_eq(r->scope, SLICE_LIT("Cluster"));
    if (!slice_eq(j->info.verb, SLICE_LIT("list")) && !slice_eq(j->info.verb, SLICE_LIT("watch")))
        return slice_eq(r->scope, SLICE_LIT("Namespaced"));
    return slice_eq(r->scope, SLICE_LIT("Namespaced")) && j->info.name.n > 0 && !j->info.name_selected;
}

/*
 * No server has a route for it, whatever it serves (k8s.io/apiserver, pkg/endpoints/installer.go): something behind a
 * subresource, an object that is created by its name, or changed without one, and of a watch's path all but reading.
 */
static bool has_no_route(const struct job *j)
{
    const struct reqinfo *info = &j->info;
    enum http_method method = exchange_request(j->x)->method_id;
    bool reads = method == HTTP_GET || method == HTTP_HEAD, named = info->name.n > 0;

    if (info->deeper)
        return true;
    if (slice_eq(info->verb, SLICE_LIT("create")))
        return named && info->subresource.n == 0;
    if (slice_eq(info->verb, SLICE_LIT("update")) || slice_eq(info->verb, SLICE_LIT("patch")))
        return !named;
    return slice_eq(info->verb, SLICE_LIT("watch")) && !reads;
}

/* Of the peer that answers, by its discovery. */
static enum disco_answer listed_by_peer(const struct job *j)
{
    struct gvr gvr = reqinfo_gvr(&j->info);

    if (j->peer == NULL || j->peer->disco == NULL)
        return DISCO_NO_RESOURCE;
    return disco_lookup(j->peer->disco, &gvr, j->info.subresource, j->info.verb);
}

static bool lacks_verb(const struct job *j)
{
    return !j->had_verb && listed_by_peer(j) == DISCO_NO_VERB;
}

/* Of who answers: that he serves it; or that somebody may, where we may not know what the local server serves. */
static bool is_believed(const struct job *j)
{
    if (j->route.row == ROUTE_ROW_FORBIDDEN)
        return !route_nobody_else(j->served, &j->info);
    return j->peer != NULL || j->route.row == ROUTE_ROW_SERVED_LOCALLY || j->route.row == ROUTE_ROW_REROUTED ||
           j->route.row == ROUTE_ROW_LOCAL_FAILOVER || j->route.row == ROUTE_ROW_NEWEST;
}

bool answer_is_of_nobodys(const struct job *j)
{
    return j->peer == NULL && (j->route.row == ROUTE_ROW_NOBODY || j->route.row == ROUTE_ROW_NO_PEERS);
}

bool answer_is_outdated(const struct job *j)
{
    const struct served *now = cluster_served(j->proxy->cluster);

    return (now != j->served || j->moved) && !route_nobody_else(now, &j->info);
}

static bool is_local_outdated(const struct job *j)
{
    return answer_is_of_nobodys(j) && !j->decided_anew && answer_is_outdated(j);
}

/* What the local server says after another look at what it serves, if there could be one. */
static bool is_final(const struct job *j)
{
    return j->peer == NULL && j->looked_again && !j->unread;
}

static bool has_schema(const struct job *j)
{
    const struct schema_index *x = j->peer != NULL ? j->peer->last_schemas : served_local_schemas(j->served);

    return j->had_schema || route_has_schema(j->served, &j->info, x);
}

void answer_remember(struct job *j)
{
    j->had_schema = has_schema(j);
    j->had_verb = j->had_verb || listed_by_peer(j) == DISCO_SERVED;
}

/*
 * 404 says nothing else of a schema, in whatever form, than that it is not there; kube-aggregator says it without a
 * body.
 */
static bool denies_schema(const struct job *j, const struct http_head *head)
{
    return head->status == 404 && !j->authn.rerouted && (j->peer != NULL || !j->looked_again) && has_schema(j);
}

/* Custom resources are answered to HEAD as to GET: an object that is not there has no body to say so. */
static enum denial judge_head(const struct job *j, const struct http_head *head, bool body)
{
    struct slice type = http_head_value(head, HTTP_CONTENT_TYPE);

    if (!body && is_excluded(j) && !denial_is_plain(type))
        return DENIAL_NONE;
    return denial_by_head(head->status, type, body);
}

bool answer_is_not_read(const struct http_head *head)
{
    return head->status == 503 || head->status == 429;
}

/*
 * Of what nobody is known to serve: an mvproxy says so of all servers, or the last peer of its own. What custom
 * resources there are servers learn one after the other, so each has to deny them.
 */
static bool is_last_word(const struct job *j, const struct http_head *head)
{
    if (!j->route.unserved || j->peer == NULL)
        return false;
    if (!is_excluded(j) && http_head_find_name(head, SLICE_LIT(REWRITE_UNSERVED)) != NULL)
        return true;
    return !j->route.untold && j->denied + 1 == j->route.n_candidates && !answer_is_outdated(j);
}

/*
 * Discovery lists no verb for it: whether it is allowed was not known. Or it was known that it is not. What can only be
 * created (reviews) has no route for a name: that is 404, but not the plain one, which is about the whole group.
 */
static bool is_known_to_lack(const struct job *j, const struct http_head *head)
{
    if (head->status == 405)
        return j->info.verb.n == 0 || j->route.row == ROUTE_ROW_FORBIDDEN || lacks_verb(j);
    return head->status == 404 && lacks_verb(j) && !denial_is_plain(http_head_value(head, HTTP_CONTENT_TYPE));
}

enum denial answer_denies(const struct job *j, const struct http_head *head, bool body)
{
    enum denial d = judge_head(j, head, body);

    if (denies_schema(j, head))
        return DENIAL_UNKNOWN;
    if (d == DENIAL_NONE || reqinfo_reaches_through(&j->info) || is_aggregated(j))
        return DENIAL_NONE;
    if (answer_is_not_read(head))
        return j->peer != NULL || alternatives_may_pass_on(j) ? d : DENIAL_NONE;
    if (is_final(j) || has_no_route(j) || is_last_word(j, head))
        return DENIAL_NONE;
    /* There is nowhere else to go: every server has it, or none. */
    if (j->peer == NULL && is_excluded(j))
        return DENIAL_NONE;
    if (is_known_to_lack(j, head))
        return DENIAL_NONE;
    return (is_believed(j) || is_local_outdated(j)) && !is_out_of_scope(j) ? d : DENIAL_NONE;
}

/*
 * Nobody but an mvproxy speaks so, unless what answers is no API server: before a peer without an mvproxy nothing
 * removes the field from what a program behind a `proxy` subresource, or an aggregated API, writes.
 */
static bool speaks_for_itself(const struct job *j)
{
    return retry_is_harmless(j->request.method_id, job_acts(j), true) ||
           (!reqinfo_reaches_through(&j->info) && !is_excluded(j));
}

bool answer_is_unready(const struct job *j, const struct http_head *head)
{
    return j->peer != NULL && head->status == 503 && speaks_for_itself(j) &&
           http_head_find_name(head, SLICE_LIT(REWRITE_TRY_ANOTHER)) != NULL;
}

bool answer_distrusts_us(const struct job *j, const struct http_head *head)
{
    return j->peer != NULL && head->status == 401 && j->authn.kind == AUTHN_ASSERT &&
           !reqinfo_reaches_through(&j->info) && !is_excluded(j);
}

static bool shows_token(const struct job *j)
{
    return j->authn.kind == AUTHN_PASS &&
           credential_is_bearer(http_head_value(exchange_request(j->x), HTTP_AUTHORIZATION));
}

/* Or that of a program which may be one: what the local server hands on is not known to us. */
static bool is_of_another_program(const struct job *j)
{
    struct surface about = surface_of(j->info.path);

    if (j->route.row == ROUTE_ROW_FORBIDDEN && (j->info.group.n > 0 || about.group.n > 0))
        return true;
    return reqinfo_reaches_through(&j->info) || is_aggregated(j) ||
           served_aggregated(j->served, about.group, about.version) ||
           slice_has_prefix(j->info.path, SLICE_LIT("/openapi/v3/apis/"));
}

/* Or what a peer's mvproxy looks for twice a second (cluster/pulse.h). */
static bool asks_how_it_is(const struct job *j)
{
    static const struct slice names[] = {SLICE_LIT("/readyz"), SLICE_LIT("/livez"), SLICE_LIT("/healthz")};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (slice_has_prefix(j->info.path, names[i]))
            return true;
    return j->authn.rerouted && slice_eq(j->info.path, SLICE_LIT("/version"));
}

/* An mvproxy, which says that it is one, holds its own server's early denials back: what it sends on is meant. */
static bool was_loading(const struct job *j, const struct http_head *head, const struct served_peer *peer)
{
    if (peer == NULL)
        return cluster_local_was_loading(j->proxy->cluster, j->sent_ms);
    return !api_through_mvproxy(head) && cluster_peer_was_loading(j->proxy->cluster, peer->id, j->sent_ms);
}

bool answer_is_premature(const struct job *j, const struct http_head *head, const struct served_peer *peer)
{
    return (head->status == 403 || (head->status == 401 && shows_token(j))) && was_loading(j, head, peer) &&
           !asks_how_it_is(j) && !is_of_another_program(j);
}

bool answer_knows_nobody(const struct job *j, const struct http_head *head)
{
    const struct served_peer *next;

    if (j->peer == NULL || head->status != 401 || !shows_token(j) || alternatives_body_gone(j) ||
        reqinfo_reaches_through(&j->info) || j->next_candidate == j->route.n_candidates)
        return false;
    next = served_peer_at(j->served, j->route.candidates[j->next_candidate]);
    return origin_healthy(next->origin);
}
