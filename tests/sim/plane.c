/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/plane.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "back/back.h"
#include "base/clock.h"
#include "base/metric.h"
#include "cluster/cluster.h"
#include "front/front.h"
#include "kube/disco_parse.h"
#include "net/tls_ctx.h"
#include "proxy/proxy.h"
#include "sim/sim_memory.h"

enum {
    TOKENS = 3,       /* few, so that some share connections */
    TURNS = 20000,    /* a loop that does not come to rest by then never will */
    PEACE_MS = 50000, /* all that is promised is kept by then: before a stalled body is given up */
    AFTERLIFE_MS = 600000,
};

#define LIST(items)                                                                                                    \
    "{\"kind\":\"APIGroupDiscoveryList\",\"apiVersion\":\"apidiscovery.k8s.io/v2\",\"metadata\":{},\"items\":[" items  \
    "]}"
#define RESOURCE(group, name)                                                                                          \
    "{\"metadata\":{\"name\":\"" group "\"},\"versions\":[{\"version\":\"v1\",\"resources\":[{\"resource\":\"" name    \
    "\",\"responseKind\":{\"group\":\"" group "\",\"version\":\"v1\",\"kind\":\"Thing\"},\"scope\":\"Namespaced\","    \
    "\"singularResource\":\"thing\",\"verbs\":[\"get\",\"list\",\"watch\",\"create\"],\"subresources\":[{"             \
    "\"subresource\":\"exec\",\"verbs\":[\"create\",\"get\"]}]}]}]}"
#define MERGED LIST(RESOURCE("batch", "jobs"))

static struct disco *local_disco, *peer_disco;

static const struct tls_peer certs[CERTS] = {
    [CERT_ALICE] =
        {.present = true, .client_ca = true, .common_name = {"alice", 5}, .sha256 = "aa", .not_after = INT64_MAX},
    [CERT_BOB] =
        {.present = true, .client_ca = true, .common_name = {"bob", 3}, .sha256 = "bb", .not_after = INT64_MAX},
    [CERT_FRONT_PROXY] = {.present = true,
                          .requestheader_ca = true,
                          .common_name = {"front-proxy-client", 18},
                          .sha256 = "ff",
                          .not_after = INT64_MAX},
};

/* ---- the story ---- */

void plane_say(const struct plane *p, const char *fmt, ...)
{
    va_list ap;

    if (!p->opts.say)
        return;
    va_start(ap, fmt);
    printf("# %6llu ", (unsigned long long)(clock_ms() % 1000000));
    (void)vprintf(fmt, ap);
    printf("\n");
    va_end(ap);
    (void)fflush(stdout); /* whatever comes next */
}

void plane_fail(const struct plane *p, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    printf("# %6llu DOES NOT HOLD: ", (unsigned long long)(clock_ms() % 1000000));
    (void)vprintf(fmt, ap);
    printf("\n");
    va_end(ap);
    (void)p;
    (void)fflush(stdout);
    abort();
}

/* ---- cluster/cluster.h: nothing changes, and a refresh ends when the loop gets to it ---- */

struct cluster_waiter {
    struct list_node node;
    void (*done)(void *arg);
    void *arg;
};

struct cluster {
    struct served *served;
    const struct sim_host *local;
    bool missed; /* a connection to the local server failed */
    struct list waiters;
    struct sim_source source;
};

static bool somebody_waits(void *arg)
{
    return ((struct cluster *)arg)->waiters.count > 0;
}

static void end_wait(void *arg)
{
    struct cluster *c = arg;
    struct cluster_waiter *w = list_entry(list_pop_front(&c->waiters), struct cluster_waiter, node), copy = *w;

    free(w);
    copy.done(copy.arg);
}

static struct cluster_waiter *wait_for(struct cluster *c, void (*done)(void *arg), void *arg)
{
    struct cluster_waiter *w = done == NULL ? NULL : calloc(1, sizeof(*w));

    if (w == NULL)
        return NULL;
    w->done = done;
    w->arg = arg;
    list_push_back(&c->waiters, &w->node);
    return w;
}

struct served *cluster_served(struct cluster *c)
{
    return c->served;
}

struct cluster_waiter *cluster_local_miss(struct cluster *c, void (*done)(void *arg), void *arg)
{
    return wait_for(c, done, arg);
}

struct cluster_waiter *cluster_want_protobuf(struct cluster *c, void (*done)(void *arg), void *arg)
{
    return wait_for(c, done, arg);
}

void cluster_forget_waiter(struct cluster *c, struct cluster_waiter *w)
{
    list_remove(&c->waiters, &w->node);
    free(w);
}

bool cluster_local_unread(const struct cluster *c)
{
    (void)c;
    return false;
}

void cluster_local_suspect(struct cluster *c)
{
    (void)c;
}

void cluster_peer_missed(struct cluster *c, const char *peer_id)
{
    (void)c;
    (void)peer_id;
}

void cluster_peer_suspect(struct cluster *c, const char *peer_id)
{
    (void)c;
    (void)peer_id;
}

void cluster_disbelieved(struct cluster *c, const char *server, const struct gvr *gvr)
{
    (void)c;
    (void)server;
    (void)gvr;
}

bool cluster_disbelieved_lately(const struct cluster *c, const char *server, const struct gvr *gvr, uint64_t *ago_ms)
{
    (void)c;
    (void)server;
    (void)gvr;
    (void)ago_ms;
    return false;
}

void cluster_peer_answered(struct cluster *c, const char *peer_id)
{
    (void)c;
    (void)peer_id;
}

void cluster_server_answered(struct cluster *c, const char *peer_id, uint64_t sent_ms)
{
    (void)c, (void)peer_id, (void)sent_ms;
}

void cluster_local_etag_seen(struct cluster *c, struct slice etag)
{
    (void)c;
    (void)etag;
}

const struct user_headers *cluster_front_named(const struct cluster *c)
{
    static const struct user_headers none = {0};

    (void)c;
    return &none;
}

bool cluster_fails_over(const struct cluster *c)
{
    (void)c;
    return true;
}

/* As good as asking: known again as soon as it can be reached. */
enum readiness_state cluster_local_state(const struct cluster *c)
{
    return c->missed && c->local->reach != SIM_REACHED ? READINESS_UNREACHABLE : READINESS_READY;
}

bool cluster_local_was_loading(const struct cluster *c, uint64_t sent_ms)
{
    (void)c;
    (void)sent_ms;
    return false;
}

enum api_word cluster_local_word(const struct cluster *c, uint64_t sent_ms)
{
    (void)c;
    (void)sent_ms;
    return API_WORD_READY;
}

bool cluster_peer_was_loading(struct cluster *c, const char *peer_id, uint64_t sent_ms)
{
    (void)c;
    (void)peer_id;
    (void)sent_ms;
    return false;
}

void cluster_local_failed(struct cluster *c, bool unreachable)
{
    c->missed |= unreachable;
}

bool cluster_peers_synced(struct cluster *c, char *reason, size_t n)
{
    (void)c;
    (void)reason;
    (void)n;
    return true;
}

static struct disco_doc *parse(const char *text)
{
    struct err err = {""};
    struct disco_doc *d = disco_parse(slice_str(text), &err);

    if (d == NULL)
        abort();
    return d;
}

void plane_prepare(void)
{
    struct disco_doc *core = parse(LIST(RESOURCE("", "pods"))), *nothing = parse(LIST("")), *apis = parse(MERGED);

    sim_clock_start();
    local_disco = disco_new(core, nothing);
    peer_disco = disco_new(core, apis);
    disco_doc_unref(core);
    disco_doc_unref(nothing);
    disco_doc_unref(apis);
}

void plane_unprepare(void)
{
    disco_unref(local_disco);
    disco_unref(peer_disco);
}

static void know(struct plane *p)
{
    struct served_peer peer = {.id = "apiserver-b",
                               .life = SERVED_LIVE,
                               .discovery_known = true,
                               .disco = peer_disco,
                               .origin = p->origins[1]};
    struct served_document merged[SERVED_SHAPES] = {{.body = SLICE_NONE}};
    char *storage[SERVED_SHAPES * 3] = {NULL};
    struct served_input in = {.peers_enabled = true,
                              .leases_synced = true,
                              .local_id = "apiserver-a",
                              .local = local_disco,
                              .local_etag = {SLICE_LIT("\"L\"")},
                              .peers = &peer,
                              .n_peers = 1};

    for (size_t i = 0; i < SERVED_JSON_SHAPES; i++) {
        storage[i] = mem_strdup(MERGED);
        merged[i] = (struct served_document){.body = slice_str(storage[i]), .etag = SLICE_LIT("\"M\"")};
    }
    in.documents[SERVED_APIS] = served_documents_new(merged, storage, NULL);
    p->cluster = calloc(1, sizeof(*p->cluster));
    p->cluster->local = &p->hosts[0];
    list_init(&p->cluster->waiters);
    p->cluster->served = served_new(&in);
    served_documents_unref(in.documents[SERVED_APIS]);
    sim_source_add(p->loop, &p->cluster->source, somebody_waits, end_wait, p->cluster);
}

/* ---- the whole ---- */

static void place_server(struct plane *p, size_t i, const char *name, const char *host)
{
    struct origin_opts o = {
        .name = name, .host = host, .port = 6443, .tls_cert = p->tls[1], .tls_no_cert = p->tls[2], .sole = i == 0};

    p->hosts[i] = (struct sim_host){
        .host = host, .port = 6443, .http2 = p->opts.server_http2, .on_connection = server_connected, .arg = p};
    p->hosts[i].hop = i == 1 && p->opts.peer_hop;
    sim_host_add(p->net, &p->hosts[i]);
    p->origins[i] = origin_new(p->back, &o);
}

static void refusal(struct buf *out, unsigned status, const char *message, void *arg)
{
    (void)message;
    (void)arg;
    buf_printf(out, "{\"code\":%u}", status);
}

static void clear_connection(struct connection *c)
{
    memset(c->asks, 0, c->n_asks * sizeof(c->asks[0]));
    memset(c, 0, offsetof(struct connection, asks));
    memset(&c->n_asks, 0, sizeof(*c) - offsetof(struct connection, n_asks));
}

/* Only what the story before has used: the whole is megabytes, and clearing it took longer than telling a story. */
static void clear(struct plane *p)
{
    memset(p->asks, 0, p->n_asks * sizeof(p->asks[0]));
    memset(p->clients, 0, p->n_clients * sizeof(p->clients[0]));
    for (size_t i = 0; i < p->n_connections; i++)
        clear_connection(&p->connections[i]);
    p->n_asks = p->n_clients = p->n_connections = 0;
}

void plane_open(struct plane *p, const struct plane_opts *o)
{
    static const char *const users[] = {"X-Remote-User", NULL}, *const groups[] = {"X-Remote-Group", NULL},
                             *const extra[] = {"X-Remote-Extra-", NULL};
    struct listen_address address = {.host = "10.0.0.9", .port = 6443};
    struct err err = {""};
    struct front_opts f = {
        .listen = {.addresses = &address, .n_addresses = 1}, .on_request = proxy_on_request, .refusal_body = refusal};
    struct proxy_opts x = {.username_headers = users,
                           .group_headers = groups,
                           .extra_header_prefixes = extra,
                           .can_assert = true,
                           .request_timeout_ms = o->request_timeout_ms,
                           .discovery_authz_ttl_ms = 1000};

    clear(p);
    p->opts = *o;
    p->loop = loop_new(NULL);
    p->net = sim_net_new(p->loop, o->room);
    p->metrics = metrics_new();
    p->back = back_new(p->loop, p->metrics);
    p->tls[0] = sim_tls_new(true, NULL);
    p->tls[1] = sim_tls_new(false, &certs[CERT_FRONT_PROXY]);
    p->tls[2] = sim_tls_new(false, NULL);
    place_server(p, 0, "local", "10.0.0.1");
    place_server(p, 1, "apiserver-b", "10.0.0.2");
    know(p);
    x.local = p->origins[0];
    p->proxy = proxy_new(p->loop, p->back, p->cluster, p->metrics, &x);
    f.arg = p->proxy;
    f.tls = p->tls[0];
    p->front = front_new(p->loop, p->metrics, &f, &err);
    if (p->front == NULL)
        abort();
}

static void settle(struct plane *p)
{
    if (!sim_settle(p->loop, TURNS))
        plane_fail(p, "the loop never comes to rest");
}

bool plane_round(struct plane *p)
{
    size_t turns = 0;

    for (size_t i = 0; i < p->n_clients; i++) {
        client_send(&p->clients[i], SIZE_MAX);
        client_read(&p->clients[i], SIZE_MAX);
    }
    for (size_t i = 0; i < p->n_connections; i++) {
        struct connection *c = &p->connections[i];

        server_read(c, SIZE_MAX);
        for (size_t k = 0; k < c->n_asks; k++)
            server_end_answer(c, k);
        server_send(c, SIZE_MAX);
        if (c->tunnel && c->sock != NULL)
            server_hang_up(c, false);
    }
    for (size_t n; turns < TURNS && (n = sim_turn(p->loop)) > 0;)
        turns += n;
    sim_turn(p->loop);
    if (turns >= TURNS)
        plane_fail(p, "the loop never comes to rest");
    return turns > 0;
}

static struct client *first_unsatisfied(struct plane *p)
{
    for (size_t i = 0; i < p->n_clients; i++)
        if (!client_over(&p->clients[i]))
            return &p->clients[i];
    return NULL;
}

void plane_wind_down(struct plane *p)
{
    uint64_t end;
    struct client *c;

    mem_fail_nth(0);
    sim_order(p->loop, NULL, NULL);
    for (size_t i = 0; i < 2; i++)
        p->hosts[i].reach = SIM_REACHED;
    plane_say(p, "all is well from here on");
    for (size_t i = 0; i < p->n_clients; i++)
        client_window(&p->clients[i], 1 << 20);
    end = clock_ms() + PEACE_MS;
    while (plane_round(p) || (first_unsatisfied(p) != NULL && clock_ms() < end)) {
        uint64_t next = sim_next_timer_ms(p->loop);

        if (next > 0 && sim_turn(p->loop) == 0)
            sim_pass_ms(next < 500 ? next : 500);
    }
    c = first_unsatisfied(p);
    if (c != NULL)
        plane_fail(p, "client %zu waits for an answer for ever", (size_t)(c - p->clients));
}

void plane_close(struct plane *p)
{
    uint64_t end = clock_ms() + AFTERLIFE_MS, next;

    mem_fail_nth(0);
    sim_order(p->loop, NULL, NULL);
    for (size_t i = 0; i < p->n_clients; i++)
        client_free(&p->clients[i]);
    settle(p);
    for (size_t i = 0; i < p->n_connections; i++)
        server_free(&p->connections[i]);
    /* Whatever waits for anything has had its time by then. */
    while (clock_ms() < end && (next = sim_next_timer_ms(p->loop)) != UINT64_MAX) {
        sim_pass_ms(next);
        settle(p);
    }
    if (front_connections(p->front) > 0 || front_exchanges(p->front) > 0)
        plane_fail(p, "%zu connections, %zu requests of clients that are gone", front_connections(p->front),
                   front_exchanges(p->front));
    if (proxy_tunnels(p->proxy) > 0 || proxy_long_running(p->proxy) > 0)
        plane_fail(p, "%zu tunnels, %zu watches of clients that are gone", proxy_tunnels(p->proxy),
                   proxy_long_running(p->proxy));
    for (size_t i = 0; i < 2; i++)
        if (origin_in_flight(p->origins[i]) > 0)
            plane_fail(p, "%zu requests of nobody are under way", origin_in_flight(p->origins[i]));
    if (p->cluster->waiters.count > 0)
        plane_fail(p, "somebody waits for discovery");
    front_free(p->front);
    proxy_free(p->proxy);
    served_unref(p->cluster->served);
    for (size_t i = 0; i < 2; i++)
        origin_unref(p->origins[i]);
    settle(p);
    back_free(p->back);
    settle(p);
    if (sim_net_streams(p->net) > 0)
        plane_fail(p, "%zu streams are left", sim_net_streams(p->net));
    sim_source_remove(&p->cluster->source);
    loop_free(p->loop);
    sim_net_free(p->net);
    for (size_t i = 0; i < 3; i++)
        tls_ctx_unref(p->tls[i]);
    metrics_free(p->metrics);
    free(p->cluster);
}

/* ---- who asks what ---- */

struct ask *plane_ask_by_number(struct plane *p, struct slice text)
{
    uint64_t k;

    return slice_u64(text, &k) && k < p->n_asks ? &p->asks[k] : NULL;
}

bool plane_refused_here(const struct ask *a)
{
    return a->cert == CERT_FRONT_PROXY && !a->remote && !a->token;
}

const char *plane_user(const struct ask *a)
{
    switch (a->cert) {
    case CERT_ALICE:
        return "alice";
    case CERT_BOB:
        return "bob";
    case CERT_FRONT_PROXY:
        return a->remote ? a->user : NULL;
    case CERT_NONE:
    case CERTS:
        break;
    }
    return NULL;
}

unsigned plane_token(const struct ask *a)
{
    return a->k % TOKENS;
}

const struct tls_peer *plane_shows(enum plane_cert cert)
{
    return cert == CERT_NONE ? NULL : &certs[cert];
}
