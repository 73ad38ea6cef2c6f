/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/plane.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "back/back.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/metric.h"
#include "front/front.h"
#include "net/tls_ctx.h"
#include "proxy/proxy.h"
#include "sim/fake_cluster.h"
#include "sim/plane_cluster.h"
#include "sim/sim_memory.h"

enum {
    TOKENS = 3,       /* few, so that some share connections */
    TURNS = 20000,    /* a loop that does not come to rest by then never will */
    PEACE_MS = 50000, /* all that is promised is kept by then: before a stalled body is given up */
    AFTERLIFE_MS = 600000,
};

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

/* As p->opts has it. */
static struct proxy_opts proxy_opts(const struct plane *p)
{
    static const char *const users[] = {"X-Remote-User", NULL}, *const groups[] = {"X-Remote-Group", NULL},
                             *const extra[] = {"X-Remote-Extra-", NULL};

    return (struct proxy_opts){.username_headers = users,
                               .group_headers = groups,
                               .extra_header_prefixes = extra,
                               .can_assert = true,
                               .local = p->origins[0],
                               .legacy_discovery = p->opts.legacy_discovery,
                               .newest = p->opts.newest,
                               .goaway_chance = p->opts.goaways ? 0.3 : 0,
                               .request_timeout_ms = p->opts.request_timeout_ms,
                               .discovery_authz_ttl_ms = p->opts.asks_always ? 0 : 1000,
                               .max_outdated_bytes = p->opts.forgetful ? 1 : 0};
}

void plane_open(struct plane *p, const struct plane_opts *o)
{
    struct listen_address address = {.host = "10.0.0.9", .port = 6443};
    struct err err = {""};
    struct front_opts f = {
        .listen = {.addresses = &address, .n_addresses = 1}, .on_request = proxy_on_request, .refusal_body = refusal};
    struct proxy_opts x;

    clear(p);
    p->opts = *o;
    p->draining = p->ends_watches = false;
    p->loop = loop_new(NULL);
    p->net = sim_net_new(p->loop, o->room);
    p->metrics = metrics_new();
    p->back = back_new(p->loop, p->metrics);
    p->tls[0] = sim_tls_new(true, NULL);
    p->tls[1] = sim_tls_new(false, &certs[CERT_FRONT_PROXY]);
    p->tls[2] = sim_tls_new(false, NULL);
    place_server(p, 0, "local", "10.0.0.1");
    place_server(p, 1, "apiserver-b", "10.0.0.2");
    plane_cluster_open(p);
    x = proxy_opts(p);
    p->proxy = proxy_new(p->loop, p->back, p->cluster, p->metrics, &x);
    f.arg = p->proxy;
    f.tls = p->tls[0];
    p->front = front_new(p->loop, p->metrics, &f, &err);
    if (p->front == NULL)
        abort();
}

void plane_reload(struct plane *p)
{
    struct proxy_opts x = proxy_opts(p);
    struct proxy_config *c = proxy_config_new(&x);

    plane_say(p, "a reload%s", c == NULL ? ": there is no memory for it" : "");
    if (c != NULL)
        proxy_update(p->proxy, c);
}

void plane_end_watches(struct plane *p, size_t n)
{
    n = proxy_end_long_running(p->proxy, n);
    plane_say(p, "%zu watches are ended", n);
    p->ends_watches |= n > 0;
}

static void drained(void *arg)
{
    plane_say(arg, "drained");
}

void plane_drain(struct plane *p)
{
    plane_say(p, "mvproxy drains");
    p->draining = true;
    proxy_set_stopping(p->proxy);
    front_drain(p->front, drained, p);
}

void plane_kill(struct plane *p)
{
    plane_say(p, "mvproxy ends, with whatever is under way");
    front_free(p->front);
    proxy_free(p->proxy);
    p->front = NULL;
    p->proxy = NULL;
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
    plane_local(p, &(struct plane_local){.state = READINESS_READY});
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

static void check_nobody_is_there(const struct plane *p)
{
    if (front_connections(p->front) > 0 || front_exchanges(p->front) > 0)
        plane_fail(p, "%zu connections, %zu requests of clients that are gone", front_connections(p->front),
                   front_exchanges(p->front));
    if (proxy_tunnels(p->proxy) > 0 || proxy_long_running(p->proxy) > 0)
        plane_fail(p, "%zu tunnels, %zu watches of clients that are gone", proxy_tunnels(p->proxy),
                   proxy_long_running(p->proxy));
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
    if (p->proxy != NULL)
        check_nobody_is_there(p);
    for (size_t i = 0; i < 2; i++)
        if (origin_in_flight(p->origins[i]) > 0)
            plane_fail(p, "%zu requests of nobody are under way", origin_in_flight(p->origins[i]));
    if (p->cluster->waiters.count > 0)
        plane_fail(p, "somebody waits for discovery");
    if (p->proxy != NULL) {
        front_free(p->front);
        proxy_free(p->proxy);
    }
    fake_cluster_forget(p->cluster);
    for (size_t i = 0; i < 2; i++)
        origin_unref(p->origins[i]);
    settle(p);
    back_free(p->back);
    settle(p);
    if (sim_net_streams(p->net) > 0)
        plane_fail(p, "%zu streams are left", sim_net_streams(p->net));
    plane_cluster_close(p);
    loop_free(p->loop);
    sim_net_free(p->net);
    for (size_t i = 0; i < 3; i++)
        tls_ctx_unref(p->tls[i]);
    metrics_free(p->metrics);
}

/* ---- who asks what ---- */

struct ask *plane_ask_by_number(struct plane *p, struct slice text)
{
    uint64_t k;

    return slice_u64(text, &k) && k < p->n_asks ? &p->asks[k] : NULL;
}

bool plane_refused_here(const struct ask *a)
{
    /* A peer's request with its mark is anonymous without a name. */
    return a->cert == CERT_FRONT_PROXY && !a->remote && !a->token && (a->special & ASK_REROUTED) == 0;
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
