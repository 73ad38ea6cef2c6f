/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/request_metrics.h"

#include "base/clock.h"
#include "base/limits.h"
#include "base/metric.h"
#include "base/random.h"
#include "proxy/request_labels.h"

#include <stdio.h>

/* What does not fit keeps whether it asked for a resource, and its code: alerts go by these. */
enum { ACCOUNT_MAX_SERIES = 5000, ACCOUNT_FOLDED = 200, ACCOUNT_CODES = 600 };

struct request_metrics {
    struct metric_family *requests, *rerouted, *peer_errors, *durations, *retries, *failovers;
    struct metric *discovery_hits, *discovery_nopeer;
    struct metric *certificate_life;
    struct metric *tunnels, *tunnel_bytes_in, *tunnel_bytes_out;
    struct metric *by_route[ROUTE_ROWS];                            /* children of durations, looked up once */
    struct metric *unavailable[ROUTE_ROWS], *resources[ROUTE_ROWS]; /* [0]: no route */
    char code_digits[ACCOUNT_CODES][4];                             /* "": not asked for yet */
    uint64_t open_tunnels;
};

static const char *const request_labels[] = {"verb",        "dry_run", "group",     "version", "resource",
                                             "subresource", "scope",   "component", "code",    NULL};
static const char *const gvr_code_labels[] = {"code", "group", "version", "resource", NULL};
static const char *const gvr_type_labels[] = {"type", "group", "version", "resource", NULL};
static const char *const route_labels[] = {"route", NULL};
static const char *const reason_labels[] = {"reason", NULL};
static const double duration_bounds[] = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                         0.25,   0.5,   1,      2.5,   5,    10,    30,   60};

static void declare_requests(struct request_metrics *a, struct metrics *m)
{
    a->requests =
        metric_family(m, METRIC_COUNTER, "apiserver_request_total",
                      "Requests answered, by what they asked for and the HTTP status code sent to the client.",
                      request_labels, ACCOUNT_MAX_SERIES);
    a->rerouted = metric_family(
        m, METRIC_COUNTER, "apiserver_rerouted_request_total",
        "Requests sent to a peer because the local API server does not serve the resource, or cannot now.",
        gvr_code_labels, ACCOUNT_MAX_SERIES);
    a->peer_errors =
        metric_family(m, METRIC_COUNTER, "apiserver_peer_proxy_errors_total",
                      "Errors while sending requests to a peer, by type.", gvr_type_labels, ACCOUNT_MAX_SERIES);
    a->retries =
        metric_family(m, METRIC_COUNTER, "mvproxy_retries_total",
                      "Requests that were sent again after a failure or a denial, by reason.", reason_labels, 16);
    a->failovers = metric_family(m, METRIC_COUNTER, "mvproxy_local_failover_requests_total",
                                 "Requests that went to a peer in place of the local API server, by why: it is "
                                 "unreachable, starting, or failed this request before it read it.",
                                 reason_labels, 8);
    a->durations =
        metric_histogram_family(m, "mvproxy_request_duration_seconds",
                                "Time from the request's head to the end of its answer, by route; "
                                "long-running requests are left out.",
                                route_labels, duration_bounds, sizeof(duration_bounds) / sizeof(duration_bounds[0]));
}

/* As upstream registers it (k8s.io/apiserver pkg/authentication/request/x509). */
static void declare_certificate_life(struct request_metrics *a, struct metrics *m)
{
    static const double bounds[] = {0,      1800,   3600,   7200,    21600,   43200,    86400,
                                    172800, 345600, 604800, 2592000, 7776000, 15552000, 31104000};

    a->certificate_life =
        metric_child(metric_histogram_family(
                         m, "apiserver_client_certificate_expiration_seconds",
                         "Distribution of the remaining lifetime on the certificate used to authenticate a request.",
                         NULL, bounds, sizeof(bounds) / sizeof(bounds[0])),
                     NULL);
}

static void declare_others(struct request_metrics *a, struct metrics *m)
{
    a->discovery_hits = metric_single(m, METRIC_COUNTER, "aggregator_discovery_peer_aggregated_cache_hits_total",
                                      "Requests for /apis that were answered from the merged document.");
    a->discovery_nopeer = metric_single(m, METRIC_COUNTER, "aggregator_discovery_nopeer_requests_total",
                                        "Requests for local-only discovery (profile=nopeer).");
    a->tunnels = metric_single(m, METRIC_GAUGE, "mvproxy_tunnels", "Upgraded connections that are open.");
    a->tunnel_bytes_in = metric_single(m, METRIC_COUNTER, "mvproxy_tunnel_client_bytes_total",
                                       "Bytes that clients sent through upgraded connections.");
    a->tunnel_bytes_out = metric_single(m, METRIC_COUNTER, "mvproxy_tunnel_server_bytes_total",
                                        "Bytes that servers sent through upgraded connections.");
}

struct request_metrics *request_metrics_new(struct metrics *m)
{
    struct request_metrics *a = must_zalloc(sizeof(*a));
    struct metric_family *unavailable = metric_family(m, METRIC_COUNTER, "mvproxy_unavailable_requests_total",
                                                      "Requests for resources that mvproxy itself, or that of the last "
                                                      "peer, answered with 503, by route; only with a "
                                                      "verified certificate or a token that a server has taken.",
                                                      route_labels, ROUTE_ROWS);
    struct metric_family *resources = metric_family(m, METRIC_COUNTER, "mvproxy_resource_requests_total",
                                                    "Requests for resources that were answered, with a verified "
                                                    "certificate or a token that a server has taken, but those with a "
                                                    "status that is had without any, by route.",
                                                    route_labels, ROUTE_ROWS);

    declare_requests(a, m);
    declare_others(a, m);
    declare_certificate_life(a, m);
    for (unsigned i = ROUTE_ROW_DISABLED; i < ROUTE_ROWS; i++) {
        struct slice name = slice_str(route_row_name((enum route_row)i));

        a->by_route[i] = metric_child(a->durations, &name);
        a->unavailable[i] = metric_child(unavailable, &name);
        a->resources[i] = metric_child(resources, &name);
    }
    a->unavailable[0] = metric_child(unavailable, (struct slice[]){SLICE_LIT("none")});
    a->resources[0] = metric_child(resources, (struct slice[]){SLICE_LIT("none")});
    /* Those with an alert are 0 from the start: a series that begins with 1 has not grown. */
    (void)metric_child(a->retries, (struct slice[]){SLICE_LIT("peer-not-found")});
    (void)metric_child(a->retries, (struct slice[]){SLICE_LIT("local-not-found")});
    return a;
}

void request_metrics_free(struct request_metrics *a)
{
    mem_free(a);
}

/* Printed once. */
static struct slice code_of(struct request_metrics *a, unsigned status)
{
    unsigned code = status < ACCOUNT_CODES ? status : 0;
    char *digits = a->code_digits[code];

    if (digits[0] == '\0')
        (void)snprintf(digits, sizeof(a->code_digits[0]), "%u", code);
    return slice_str(digits);
}

/* Anybody can ask for any name: only those that some server has become label values. */
static struct slice known(const struct route *r, struct slice text)
{
    return r->known_resource ? text : SLICE_LIT("other");
}

static struct slice known_subresource(const struct route *r, struct slice text)
{
    return r->known_subresource || text.n == 0 ? text : SLICE_LIT("other");
}

/* Strangers leave half of the series to those who are let in. */
static void count_request(struct request_metrics *a, struct exchange *x, const struct reqinfo *info,
                          const struct route *r, const struct request_summary *e)
{
    const struct request_labels_query q = {exchange_request(x)->method_id, info, e->custom, e->apply, e->aggregated};
    struct slice none = slice_of("", 0);
    bool resource = info->is_resource;
    struct request_labels labels;

    struct slice other = SLICE_LIT("other"), component = SLICE_LIT("mvproxy");
    /* kube-apiserver has none for what it hands over to another protocol. */
    struct slice code = code_of(a, e->status == 101 ? 0 : e->status);

    request_labels_of(&q, exchange_arena(x), &labels);
    metric_inc(metric_child_or(
        a->requests,
        (struct slice[]){
            labels.verb,
            labels.dry_run,
            resource ? known(r, info->group) : none,
            resource ? known(r, info->version) : none,
            resource ? known(r, info->resource) : none,
            resource ? known_subresource(r, info->subresource) : labels.path,
            labels.scope,
            component,
            code,
        },
        (struct slice[]){other, none, other, other, resource ? other : none, other, other, component, code},
        request_summary_was_heard(e) ? ACCOUNT_FOLDED : ACCOUNT_MAX_SERIES / 2));
}

void request_summary_note_head(struct request_summary *e, const struct http_head *h)
{
    e->user_agent = http_head_value(h, HTTP_USER_AGENT);
    e->audit_id = http_head_value(h, HTTP_AUDIT_ID);
}

struct slice request_summary_own_audit_id(struct request_summary *e, struct arena *a)
{
    char uuid[37];

    if (e->audit_id.n == 0) {
        random_uuid(uuid);
        e->audit_id = arena_copy(a, slice_str(uuid));
    }
    return e->audit_id;
}

bool request_summary_name_head(struct request_summary *e, struct http_head *h, struct arena *a,
                               struct arena *head_arena)
{
    struct slice id;

    if (http_head_value(h, HTTP_AUDIT_ID).n > 0)
        return true;
    id = request_summary_own_audit_id(e, a);
    return id.n == 0 || http_head_add_id(h, head_arena, HTTP_AUDIT_ID, id);
}

/* What servers answer before they look who asks (net/http, k8s.io/apiserver's filters: ?timeout=), and what we do. */
bool request_summary_was_heard(const struct request_summary *e)
{
    static const unsigned unheard[] = {0, 400, 401, 403, 408, 413, 414, 417, 429, 431, 501, 504, 505};

    for (size_t i = 0; !e->anonymous && i < sizeof(unheard) / sizeof(unheard[0]); i++)
        if (e->status == unheard[i])
            return false;
    return !e->anonymous;
}

void request_summary_note_answer(struct request_summary *e, const struct http_head *h)
{
    struct slice id = http_head_value(h, HTTP_AUDIT_ID);

    if (id.n > 0)
        e->audit_id = id;
}

/* Without memory for it the log says nothing of it. */
static struct slice keep(struct slice text, struct arena *a)
{
    return text.n == 0 ? SLICE_NONE
                       : arena_copy(a, slice_of(text.p, text.n <= LIMIT_LOG_VALUE ? text.n : LIMIT_LOG_VALUE + 1));
}

void request_summary_keep_head(struct request_summary *e, struct arena *a)
{
    e->user = keep(e->user, a);
    e->user_agent = keep(e->user_agent, a);
    e->audit_id = keep(e->audit_id, a);
}

/*
 * An alert goes by unavailable[] and resources[]: they count only whom a server or we know, or anybody could page
 * somebody with an invented token for what is away, which is 503 before any server has looked at it.
 */
void request_metrics_count(struct request_metrics *a, struct exchange *x, const struct reqinfo *info,
                           const struct route *r, const struct request_summary *e)
{
    uint64_t us = clock_us() - exchange_started_us(x);

    count_request(a, x, info, r, e);
    if (!e->long_running && r->row >= ROUTE_ROW_DISABLED && r->row < ROUTE_ROWS)
        metric_observe(a->by_route[r->row], (double)us / 1e6);
    if (info->is_resource && e->vouched && request_summary_was_heard(e)) {
        metric_inc(a->resources[r->row]);
        if (e->unavailable && e->status == 503)
            metric_inc(a->unavailable[r->row]);
    }
    if (r->reason != NULL && e->peer != NULL) {
        struct slice reason = slice_str(r->reason);

        metric_inc(metric_child(a->failovers, &reason));
    }
}

/* Only resources that a peer is known to serve are ever sent to one, so the names are bounded. */
void request_metrics_rerouted(struct request_metrics *a, unsigned status, const struct reqinfo *info)
{
    struct slice values[] = {code_of(a, status), info->group, info->version, info->resource};

    metric_inc(metric_child(a->rerouted, values));
}

void request_metrics_peer_error(struct request_metrics *a, enum request_metrics_peer_error type,
                                const struct reqinfo *info)
{
    struct slice values[] = {
        type == PEER_ERROR_ENDPOINT_RESOLUTION ? SLICE_LIT("endpoint_resolution") : SLICE_LIT("proxy_transport"),
        info->group,
        info->version,
        info->resource,
    };

    metric_inc(metric_child(a->peer_errors, values));
}

void request_metrics_discovery_hit(struct request_metrics *a)
{
    metric_inc(a->discovery_hits);
}

void request_metrics_discovery_nopeer(struct request_metrics *a)
{
    metric_inc(a->discovery_nopeer);
}

void request_metrics_tunnel(struct request_metrics *a, int change)
{
    a->open_tunnels = change > 0 ? a->open_tunnels + 1 : a->open_tunnels - 1;
    metric_set(a->tunnels, (double)a->open_tunnels);
}

void request_metrics_tunnel_bytes(struct request_metrics *a, uint64_t from_client, uint64_t from_server)
{
    metric_add(a->tunnel_bytes_in, (double)from_client);
    metric_add(a->tunnel_bytes_out, (double)from_server);
}

void request_metrics_retry(struct request_metrics *a, const char *reason)
{
    struct slice value = slice_str(reason);

    metric_inc(metric_child(a->retries, &value));
}

void request_metrics_certificate(struct request_metrics *a, int64_t seconds_left)
{
    metric_observe(a->certificate_life, (double)seconds_left);
}
