/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/proxy.h"

#include "back/claims.h"
#include "back/loop_token.h"
#include "base/clock.h"
#include "base/contract.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/random.h"
#include "http/hop.h"
#include "kube/status.h"
#include "kube/surface.h"
#include "net/loop.h"
#include "net/tls_peer.h"
#include "proxy/alternatives.h"
#include "proxy/decide.h"
#include "proxy/disco_serve.h"
#include "proxy/forward.h"
#include "proxy/heal.h"
#include "proxy/refuse.h"
#include "proxy/relay.h"
#include "proxy/request_labels.h"
#include "proxy/snapshots.h"
#include "proxy/upgrade.h"

enum {
    PROXY_AUTHZ_VERDICTS = 10000,
    MOST_ADDRESS = 64,
    MOST_FORWARDED = 16, /* addresses in X-Forwarded-For that are looked at: proxies behind proxies */
};

/* Makes one hash of two. */
#define ODD UINT64_C(0x9e3779b97f4a7c15)

/* ---- the pipeline ---- */

/*
 * goaway-chance, as kube-apiserver's WithProbabilisticGoaway has it: HTTP/2 only, whose connections last for ever, and
 * any request. A peer that sends one on is no client that a load balancer could bring to another server.
 */
static void maybe_send_away(struct job *j)
{
    double dice = j->config->goaway_chance > 0 ? (double)(job_throw_dice(j) >> 32) / 4294967296.0 : 1;

    if (dice < j->config->goaway_chance && !j->authn.rerouted &&
        slice_eq(slice_str(exchange_client(j->x)->protocol), SLICE_LIT("HTTP/2.0")))
        exchange_send_away(j->x);
}

/* Nobody waits for it: what the local server lacks, as far as we know, it may have by now. */
static void note_miss(const struct job *j)
{
    if (j->route.local_miss)
        (void)cluster_local_miss(j->proxy->cluster, NULL, NULL);
}

/* Decides where the job goes, and sends it there. Once more after a refresh, by what is known then (decide.h). */
static void act(struct job *j)
{
    snapshots_look(j->proxy);
    decide_route(j);
    switch (j->route.action) {
    case ROUTE_LOCAL:
        note_miss(j);
        forward_local(j);
        break;
    case ROUTE_PEER:
        note_miss(j);
        forward_peers(j);
        break;
    case ROUTE_DISCOVERY:
        if (!disco_serve(j))
            heal(j);
        break;
    case ROUTE_HEAL:
        heal(j);
        break;
    case ROUTE_REFRESH:
        if (!decide_later(j))
            act(j);
        break;
    case ROUTE_REFUSE:
        if (j->route.row == ROUTE_ROW_NO_ADDRESS)
            request_metrics_peer_error(j->proxy->request_metrics, PEER_ERROR_ENDPOINT_RESOLUTION, &j->info);
        if (j->route.row == ROUTE_ROW_NOT_SYNCED)
            job_refuse_unserved(j, j->route.message);
        else
            job_refuse(j, 503, j->route.message);
        break;
    }
}

static const char *user_kind(const struct authn *au)
{
    if (au->kind == AUTHN_REFUSED)
        return "refused";
    if (au->kind == AUTHN_PASS)
        return "pass";
    return au->front_proxy ? "front-proxy" : "certificate";
}

/* False when the job has been answered. */
static bool authenticate(struct job *j)
{
    const struct exchange_client *client = exchange_client(j->x);

    if (authn_decide(&j->config->authn, exchange_request(j->x), client->tls, clock_wall_us() / 1000000,
                     exchange_request_arena(j->x), &j->authn) != AUTHN_OK) {
        job_refuse(j, 503, STATUS_NO_MEMORY);
        return false;
    }
    j->summary.user_kind = user_kind(&j->authn);
    j->summary.anonymous = j->authn.anonymous;
    if (j->authn.kind == AUTHN_PASS)
        j->bearer = back_bearer(exchange_request(j->x));
    if (j->authn.by_certificate)
        request_metrics_certificate(j->proxy->request_metrics, client->tls->not_after - clock_wall_us() / 1000000);
    if (j->config->access_log.user)
        j->summary.user = j->authn.user.name;
    job_vouch(j);
    if (j->authn.kind != AUTHN_REFUSED)
        return true;
    log_v(3, "Unauthorized", LT("client", client->address), LT("why", j->authn.why));
    job_refuse(j, 401, STATUS_UNAUTHORIZED);
    return false;
}

static bool is_aggregated(const struct http_head *head, struct slice path)
{
    struct surface s = surface_of(path);

    return ((s.kind == SURFACE_GROUPS && !s.legacy_only) || s.kind == SURFACE_CORE) && request_is_aggregated(head);
}

static bool understand(struct job *j)
{
    const struct http_head *head = exchange_request(j->x);

    enum reqinfo_result r = reqinfo_parse(exchange_arena(j->x), head->method, head->target, &j->info);

    if (r != REQINFO_OK) { /* the front takes no bad targets */
        job_refuse(j, r == REQINFO_BAD_TARGET ? 400 : 503,
                   r == REQINFO_BAD_TARGET ? STATUS_BAD_TARGET : STATUS_NO_MEMORY);
        return false;
    }
    j->summary.apply = head->method_id == HTTP_PATCH && request_is_apply(head);
    j->summary.aggregated = is_aggregated(head, j->info.path);
    j->summary.long_running = j->info.long_running || exchange_wants_upgrade(j->x);
    return true;
}

/* Of a list; *rest becomes what is before it. */
static struct slice take_last(struct slice *rest)
{
    size_t at = rest->n;
    struct slice last;

    while (at > 0 && rest->p[at - 1] != ',')
        at--;
    last = slice_trim(slice_from(*rest, at));
    *rest = slice_of(rest->p, at == 0 ? 0 : at - 1);
    return last;
}

/* The address that the first of the proxies whom we know has added, if it has. */
static struct slice forwarded_address(const struct job *j)
{
    const struct http_head *head = exchange_request(j->x);
    unsigned looked = 0;

    for (size_t i = head->n_fields; i-- > 0;) {
        struct slice rest = head->fields[i].value;

        while (head->fields[i].id == HTTP_X_FORWARDED_FOR && rest.n > 0 && looked++ < MOST_FORWARDED) {
            struct slice element = take_last(&rest), last = hop_bare_address(element);

            if (last.n == 0 && element.n > 0)
                return SLICE_NONE; /* what stands left of it may be anybody's */
            if (last.n > 0 && !cidr_set_covers(&j->config->trusted_proxies, last))
                return slice_of(last.p, last.n < MOST_ADDRESS ? last.n : MOST_ADDRESS);
        }
    }
    return SLICE_NONE;
}

/*
 * Whose doing it is. A proxy asks for many, and what one of them wastes must be nobody else's trouble. False when the
 * job has been answered.
 */
static bool note_client(struct job *j)
{
    struct slice address;

    if (j->authn.rerouted) {
        exchange_of_peer(j->x);
        return true;
    }
    j->client = exchange_client(j->x)->ip;
    if (!job_believes_client(j) || (address = forwarded_address(j)).n == 0)
        return true;
    address = arena_copy(exchange_arena(j->x), address);
    if (address.p == NULL) {
        job_refuse(j, 503, STATUS_NO_MEMORY);
        return false;
    }
    j->client = address.p;
    if (exchange_for_client(j->x, address))
        return true;
    job_refuse(j, 429, STATUS_CANCELLING);
    return false;
}

/*
 * On whose account what is given up is: a user whom a certificate names, or a front proxy, has one at each address, so
 * that behind a load balancer nobody can use up that of the nodes. All others at an address have one together: tokens
 * can be invented, and real ones be had by the thousand.
 */
static uint64_t account_of(const struct job *j)
{
    struct slice at = slice_str(j->client);
    uint64_t account = hash_seeded(at);

    if (at.n == 0)
        return 0;
    if (j->authn.kind == AUTHN_ASSERT)
        account = account * ODD + hash_seeded(j->authn.user.name);
    return account | 1;
}

/* By these a load balancer decides on all its clients. */
static bool asks_for_health(const struct job *j)
{
    return !j->info.is_resource &&
           (slice_eq(j->info.path, SLICE_LIT("/readyz")) || slice_eq(j->info.path, SLICE_LIT("/livez")) ||
            slice_eq(j->info.path, SLICE_LIT("/healthz")));
}

/* Who lets servers work in vain is refused for a while. A peer has looked already. False when the job was answered. */
static bool may_ask(struct job *j)
{
    if (j->authn.rerouted || exchange_may_ask(j->x, account_of(j)) || asks_for_health(j))
        return true;
    job_refuse(j, 429, STATUS_CANCELLING);
    return false;
}

/* A probe, asking for the way to the local server. A peer's question is about the server itself. */
static bool asks_whether_ready(const struct job *j)
{
    return !j->authn.rerouted && !j->info.is_resource && slice_eq(j->info.path, SLICE_LIT("/readyz"));
}

/* A peer whose own server is away has others to ask, and asks again if nobody is ready. */
static bool wants_who_is_ready(const struct job *j)
{
    return alternatives_of_sender(j) && cluster_local_state(j->proxy->cluster) != READINESS_READY;
}

/* Who asks for what not all servers serve is named when it ends: until then its names have to be kept. */
static void look_for_insight(struct job *j)
{
    struct gvr gvr;

    if (!j->info.is_resource || j->authn.rerouted)
        return;
    gvr = reqinfo_gvr(&j->info);
    j->insight = insight_look(j->proxy->insight, j->served, &gvr);
    if (j->insight != INSIGHT_EVEN) {
        request_summary_note_head(&j->summary, exchange_request(j->x));
        j->summary.user = j->authn.user.name;
    }
}

/* What the proxy itself asks the local server; a client has no use for the field. */
static bool is_own_question(const struct job *j)
{
    const struct http_field *f = http_head_find_name(exchange_request(j->x), SLICE_LIT(LOOP_TOKEN_FIELD));

    return f != NULL && loop_token_came_back(j->config->local, f->value);
}

void proxy_on_request(struct exchange *x, void *arg)
{
    struct proxy *p = arg;
    struct job *j = arena_zalloc(exchange_arena(x), sizeof(*j));

    if (j == NULL) {
        refuse_exchange(x, 503, STATUS_NO_MEMORY, SLICE_NONE, REFUSE_AGAIN);
        return;
    }
    j->proxy = p;
    j->x = x;
    j->config = p->config;
    j->config->refs++;
    job_take_snapshot(j);
    list_push_back(&p->under_way, &j->under_way);
    exchange_attach(x, relay_sink(), j);
    if (access_log_on(&j->config->access_log))
        request_summary_note_head(&j->summary, exchange_request(x));
    if (!understand(j))
        return;
    if (is_own_question(j)) {
        job_refuse_loop(j);
        return;
    }
    if (!authenticate(j))
        return;
    if (!note_client(j) || !may_ask(j))
        return;
    maybe_send_away(j);
    if (p->stopping && asks_whether_ready(j)) {
        job_refuse(j, 503, STATUS_SHUTTING_DOWN);
        return;
    }
    if (wants_who_is_ready(j)) {
        decide_sent_back(j);
        job_refuse(j, 503, STATUS_NOT_READY);
        return;
    }
    look_for_insight(j);
    if (j->summary.long_running)
        list_push_back(&p->long_running, &j->node);
    act(j);
}

/* ---- life ---- */

struct proxy *proxy_new(struct loop *l, struct back *b, struct cluster *c, struct metrics *m,
                        const struct proxy_opts *o)
{
    struct proxy *p = must_zalloc(sizeof(*p));

    p->loop = l;
    p->back = b;
    p->cluster = c;
    p->act = act;
    p->request_metrics = request_metrics_new(m);
    p->insight = insight_new(m);
    p->audit = audit_new(l, m);
    p->dice = random_u64();
    list_init(&p->under_way);
    list_init(&p->long_running);
    list_init(&p->tunnels);
    work_queue_init(&p->work, l);
    holders_init(&p->holders, &p->work);
    p->authz = authz_cache_new(PROXY_AUTHZ_VERDICTS);
    p->config = proxy_config_new(o);
    p->nobody = served_new(&(struct served_input){.local_id = ""});
    must_hold(p->authz != NULL && p->config != NULL && p->nobody != NULL);
    return p;
}

void proxy_update(struct proxy *p, struct proxy_config *c)
{
    proxy_config_unref(p->config);
    p->config = c;
    /* Whom a verdict was about may be read differently now (CAs, header names). */
    authz_cache_clear(p->authz);
    mem_free(p->hsts);
    p->hsts = NULL;
}

void proxy_set_stopping(struct proxy *p)
{
    p->stopping = true;
}

const struct askers *proxy_askers(struct proxy *p)
{
    for (struct list_node *n = list_first(&p->long_running); n != NULL; n = list_next(&p->long_running, n)) {
        struct job *j = list_entry(n, struct job, node);

        if (j->summary.status != 0)
            job_note_asker(j);
    }
    return insight_askers(p->insight);
}

const struct traffic *proxy_traffic(const struct proxy *p)
{
    return &p->traffic;
}

size_t proxy_tunnels(const struct proxy *p)
{
    return p->tunnels.count;
}

size_t proxy_long_running(const struct proxy *p)
{
    return p->long_running.count;
}

size_t proxy_end_long_running(struct proxy *p, size_t n)
{
    size_t ended = 0;

    while (ended < n && p->long_running.count > 0) {
        struct job *j = list_entry(list_first(&p->long_running), struct job, node);

        /* A watch that ends in order makes client-go resume at once, elsewhere; a half log must not look whole. */
        if (j->state == JOB_RELAYING && slice_eq(j->info.verb, SLICE_LIT("watch")))
            job_finish(j, NULL);
        else if (j->state == JOB_RELAYING)
            job_abort(j, "shutting down");
        else
            job_refuse(j, 503, STATUS_SHUTTING_DOWN);
        ended++;
    }
    return ended + upgrade_end_oldest(p, n - ended);
}

void proxy_free(struct proxy *p)
{
    must_hold(p->under_way.count == 0); /* whose exchanges would come back to it */
    (void)upgrade_end_oldest(p, SIZE_MAX);
    loop_defer_cancel(p->loop, &p->holders.trim);
    work_queue_close(&p->work);
    holders_close(&p->holders);
    authz_cache_free(p->authz);
    mem_free(p->hsts);
    request_metrics_free(p->request_metrics);
    insight_free(p->insight);
    audit_free(p->audit);
    served_unref(p->nobody);
    proxy_config_unref(p->config);
    mem_free(p);
}
