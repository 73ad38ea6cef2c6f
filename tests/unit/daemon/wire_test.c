/* SPDX-License-Identifier: Apache-2.0 */
/* From options to what each module is told: each value arrives where it belongs. */
#include "daemon/wire.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "back/fetch.h"
#include "base/metric.h"
#include "daemon/config_load.h"
#include "daemon/machine_memory.h"
#include "daemon/rlimits.h"
#include "kube/status.h"
#include "lib/tap.h"
#include "net/loop.h"

enum { ROOM = 1 << 16, MIB = 1 << 20 };

#define BASE "tls-cert-file: c\ntls-private-key-file: k\napiserver-ca-file: a\nbind-address: 10.0.0.9\n"

static struct config *configured(const char *text)
{
    char path[] = "/tmp/wire_test.XXXXXX";
    int fd = mkstemp(path);
    struct config *c;
    struct buf errors;

    buf_init(&errors, ROOM);
    if (fd < 0 || dprintf(fd, "%s%s", BASE, text) < 0)
        tap_bail("cannot write %s", path);
    (void)close(fd);
    c = config_load(path, NULL, 0, &errors);
    if (c == NULL)
        tap_bail("%.*s", (int)buf_len(&errors), buf_slice(&errors).p);
    (void)unlink(path);
    buf_free(&errors);
    return c;
}

/* ---- the cluster ---- */

static bool may_dial(const struct cluster_opts *o, const char *ip)
{
    struct sockaddr_in addr = {.sin_family = AF_INET};

    (void)inet_pton(AF_INET, ip, &addr.sin_addr);
    return o->peer_allowed((struct sockaddr *)&addr, o->peer_allowed_arg);
}

static void identity_modes(void)
{
    static const struct {
        const char *text;
        enum identity_mode want;
    } rows[] = {
        {"off", IDENTITY_OFF}, {"auto", IDENTITY_AUTO}, {"observe", IDENTITY_OBSERVE}, {"publish", IDENTITY_PUBLISH}};

    for (size_t i = 0; i < ROWS(rows); i++) {
        static char none[] = "";
        const struct trust trust = {.requestheader_ca = none};
        const struct wire_surroundings around = {.n_etcd = 0};
        struct cluster_opts o;
        struct config *c;
        char text[64];

        (void)snprintf(text, sizeof(text), "identity-lease: \"%s\"\n", rows[i].text);
        c = configured(text);
        wire_cluster(c, &trust, &around, "cp-a", &o);
        is_int(o.identity, rows[i].want, "identity-lease: %s", rows[i].text);
        config_free(c);
    }
}

/* Like a daemon without certificates: what is made of the rest. */
static void surroundings(struct back *b)
{
    static char ca[] = "CA";
    struct config *c = configured(
        "peers: [b=10.0.0.2:6443, \"c=[::1]:7\"]\npeer-allowed-cidrs: 10.0.0.0/8\nrequestheader-uid-headers: [X-Uid, "
        "X-Id]\n"
        "requestheader-group-headers: X-Teams\nrequestheader-username-headers: X-Login\n"
        "requestheader-extra-headers-prefix: [X-A-, X-B-, X-C-]\netcd-servers: [http://10.0.0.3:1, http://10.0.0.4:2]\n"
        "etcd-prefix: /r\npeer-advertise-ip: 10.0.0.8\npeer-advertise-port: 99\npeer-stale-after: 61s\n"
        "peer-forget-after: 62m\npeer-leave-grace: 63s\ndiscovery-refresh-interval: 64s\napiserver-user: me\n"
        "local-failover: false\nrequestheader-allowed-names: front\n");
    const struct trust trust = {.requestheader_ca = ca};
    struct wire_surroundings s = {.n_etcd = 0};
    struct cluster_opts o;

    ok(wire_surroundings_make(b, c, &trust, "cp-a", &s), "made");
    is_u64(s.peers.n, 2, "peers");
    ok(strcmp(s.peers.list[0].name, "b") == 0 && strcmp(s.peers.list[0].host, "10.0.0.2") == 0 &&
           s.peers.list[0].port == 6443,
       "the first");
    ok(strcmp(s.peers.list[1].name, "c") == 0 && strcmp(s.peers.list[1].host, "::1") == 0 && s.peers.list[1].port == 7,
       "the second");
    is_u64(s.n_etcd, 2, "endpoints of etcd");
    is_str(origin_address(s.etcd[1]), "10.0.0.4:2", "the second");
    is_str(s.advertise, "10.0.0.8:99", "where peers reach us");
    ok(s.annotate, "which they are told");
    ok(s.headers.n_uid == 2 && s.headers.n_group == 1 && s.headers.n_username == 1 && s.headers.n_extra_prefix == 3,
       "header names");
    is_slice(s.headers.uid[1], "X-Id", "of UIDs");
    is_slice(s.headers.group[0], "X-Teams", "of groups");
    is_slice(s.headers.username[0], "X-Login", "of users");
    is_slice(s.headers.extra_prefix[2], "X-C-", "of the rest");
    wire_cluster(c, &trust, &s, "cp-a", &o);
    ok(o.local == s.local && o.static_peers == s.peers.list && o.n_static_peers == 2 && o.n_etcd_servers == 2,
       "servers");
    ok(o.stale_after_ms == 61000 && o.forget_after_ms == 62 * 60000 && o.leave_grace_ms == 63000 &&
           o.refresh_interval_ms == 64000,
       "times");
    ok(!o.local_failover && o.pulse && o.annotate && !o.peers_enabled == false, "switches");
    is_str(o.user, "me", "who asks");
    is_str(o.etcd_prefix, "/r", "where records are");
    is_str(o.front.names[0], "front", "front proxies");
    is_slice(o.front.ca, "CA", "their CA");
    ok(may_dial(&o, "10.1.1.1") && !may_dial(&o, "11.1.1.1"), "a list of networks says everything");
    wire_etcd_free(&s);
    is_u64(s.n_etcd, 0, "endpoints are let go");
    wire_networks_free(s.networks);
    origin_unref(s.local);
    config_free(c);
}

static void note_failure(void *arg, const struct fetch_result *r)
{
    (void)snprintf(arg, 200, "%s", r->ok ? "answered" : r->failure);
}

/* What would go to the local server goes nowhere as long as there is nothing to know it by. */
static void in_the_clear(struct back *b, struct loop *l)
{
    struct config *c = configured("apiserver: https://127.0.0.1:1\n");
    const struct trust trust = {.serving = NULL};
    struct origin *local = wire_local_origin(b, c, &trust, "cp-a");
    const struct fetch_opts o = {.origin = local,
                                 .method = SLICE_LIT("GET"),
                                 .target = SLICE_LIT("/version"),
                                 .ceiling = ROOM,
                                 .timeout_ms = 10000};
    char why[200] = "";

    ok(fetch_start(b, l, &o, note_failure, why) != NULL, "a request without a CA for the server");
    while (why[0] == '\0')
        loop_run_once(l, 10);
    ok(strstr(why, "is not configured") != NULL, "is not sent in the clear: %s", why);
    origin_unref(local);
    config_free(c);
}

static void defaults(struct back *b)
{
    static char ca[] = "";
    struct config *c = configured("feature-gates: UnknownVersionInteroperabilityProxy=false\n");
    const struct trust trust = {.requestheader_ca = ca};
    struct wire_surroundings s = {.n_etcd = 0};
    struct wire_networks *other, *more;
    struct config *wider = configured("peer-allowed-cidrs: 192.0.2.0/24\n");
    struct cluster_opts o;

    ok(wire_surroundings_make(b, c, &trust, "", &s), "made");
    is_str(s.advertise, "10.0.0.9:6443", "where clients reach us");
    wire_cluster(c, &trust, &s, "cp-a", &o);
    ok(!o.peers_enabled, "the gate is closed");
    ok(may_dial(&o, "10.1.1.1") && may_dial(&o, "8.8.8.8") && !may_dial(&o, "127.0.0.1") &&
           !may_dial(&o, "169.254.1.1"),
       "without a list no address that is no other machine's");
    other = wire_networks_new(c);
    more = wire_networks_new(wider);
    ok(wire_networks_same(s.networks, other) && !wire_networks_same(s.networks, more), "compared");
    wire_networks_replace(s.networks, more);
    ok(!may_dial(&o, "10.1.1.1") && may_dial(&o, "192.0.2.1"), "a reload holds for every origin at once");
    wire_networks_free(other);
    wire_networks_free(NULL);
    wire_networks_free(s.networks);
    origin_unref(s.local);
    config_free(wider);
    config_free(c);
}

/* Each allocation fails once: all or nothing. */
static void out_of_memory(struct back *b)
{
    struct config *c = configured("peers: [b=10.0.0.2:1]\netcd-servers: http://10.0.0.3:1\n");
    static char ca[] = "";
    const struct trust trust = {.requestheader_ca = ca};
    unsigned failures = 0;
    bool made = false;

    for (uint64_t nth = 1; !made; nth++) {
        struct wire_surroundings s = {.n_etcd = 0};

        mem_fail_nth(nth);
        made = wire_surroundings_make(b, c, &trust, "cp-a", &s);
        mem_fail_nth(0);
        failures += !made;
        ok(!made || (s.local != NULL && s.networks != NULL && s.n_etcd == 1 && s.peers.n == 1 && s.headers.n_group > 0),
           "all or nothing");
        wire_etcd_free(&s);
        wire_networks_free(s.networks);
        if (s.local != NULL)
            origin_unref(s.local);
    }
    ok(failures > 3, "%u failures", failures);
    config_free(c);
}

/* ---- proxy and front ---- */

static void proxy(void)
{
    struct config *c =
        configured("request-timeout: 7s\ndiscovery-authz-ttl: 8s\nmax-requests-inflight-per-peer: 9\n"
                   "goaway-chance: 0.01\nskewed-resources: newest\nlegacy-discovery: off\naccess-log: [slow=2s]\n"
                   "access-log-sample: 5\naccess-log-user: true\nmax-client-memory: 8388608\n");
    struct trust trust = {.local_cert = NULL};
    struct proxy_opts o;

    wire_proxy(c, &trust, NULL, &o);
    ok(!o.can_assert && o.newest && !o.legacy_discovery, "switches");
    ok(o.request_timeout_ms == 7000 && o.discovery_authz_ttl_ms == 8000 && o.max_in_flight_per_peer == 9, "numbers");
    is_u64(o.max_outdated_bytes, 2 << 20, "a quarter of max-client-memory");
    is_double(o.goaway_chance, 0.01, "goaway-chance");
    ok(o.access_log.slow_ms == 2000 && o.access_log.sample == 5 && o.access_log.user && !o.access_log.all,
       "access log");
    config_free(c);
    c = configured("max-client-memory: 1073741824\n");
    trust.local_cert = (struct tls_ctx *)(void *)c; /* it is there, more is not asked */
    wire_proxy(c, &trust, NULL, &o);
    ok(o.can_assert && !o.newest && o.legacy_discovery, "by default");
    is_double(o.goaway_chance, 0, "no goaway");
    is_u64(o.max_outdated_bytes, 128 << 20, "but not more than so much");
    config_free(c);
}

static void refusals(const struct front_opts *o)
{
    static const struct {
        unsigned status, retry_after;
    } rows[] = {{429, 1}, {503, 1}, {400, 0}, {431, 0}, {428, 0}};

    for (size_t i = 0; i < ROWS(rows); i++) {
        struct buf out;

        buf_init(&out, ROOM);
        o->refusal_body(&out, rows[i].status, "words", o->refusal_arg);
        buf_append_char(&out, '\0');
        ok(strstr(buf_slice(&out).p, "\"message\":\"words") != NULL &&
               (strstr(buf_slice(&out).p, "\"retryAfterSeconds\":1") != NULL) == (rows[i].retry_after == 1),
           "%u: %s", rows[i].status, buf_slice(&out).p);
        buf_free(&out);
    }
}

static size_t fresh(const char *text)
{
    struct config *c = configured(text);
    const struct trust trust = {.serving = NULL};
    struct front_opts o;

    wire_front(c, &trust, &o);
    config_free(c);
    return o.max_fresh_connections;
}

static size_t connections(const char *text)
{
    struct config *c = configured(text);
    const struct trust trust = {.serving = NULL};
    struct front_opts o;

    wire_front(c, &trust, &o);
    config_free(c);
    return o.max_connections;
}

static void front(void)
{
    struct config *c =
        configured("max-connections: 11\nmax-connections-per-client: 12\nmax-requests-per-connection: 14\n"
                   "max-client-memory: 536870912\nmax-request-header-bytes: 70000\nclient-header-timeout: 15s\n"
                   "client-idle-timeout: 16s\nproxy-protocol-from: 10.0.0.0/8\n");
    const struct trust trust = {.serving = NULL};
    const struct rlimit few = {400, 400};
    struct front_opts o;

    wire_front(c, &trust, &o);
    ok(o.max_connections == 11 && o.max_connections_per_client == 12 && o.max_requests_per_connection == 14, "numbers");
    is_u64(o.max_memory, 512 * MIB, "memory");
    ok(o.max_head_bytes == 70000 && o.header_timeout_ms == 15000 && o.idle_timeout_ms == 16000, "of heads");
    is_str(o.proxy_protocol_from[0], "10.0.0.0/8", "PROXY protocol");
    is_u64(o.retry_after_s, 1, "Retry-After");
    refusals(&o);
    config_free(c);
    if (setrlimit(RLIMIT_NOFILE, &few) != 0)
        tap_bail("setrlimit");
    is_u64(rlimits_descriptors(), 400, "descriptors");
    is_u64(fresh("max-fresh-connections: 0\n"), 100, "a quarter of the descriptors");
    is_u64(connections(""), 150, "half of them are for servers, and some for others");
    is_u64(connections("max-connections: 149\n"), 149, "fewer, if so configured");
    is_u64(fresh("max-fresh-connections: 99\n"), 99, "fewer, if so configured");
    is_u64(fresh("max-fresh-connections: 101\n"), 100, "but not more");
}

int main(void)
{
    struct metrics *metrics = metrics_new();
    struct loop *loop = loop_new(metrics);
    struct back *b = back_new(loop, metrics);

    identity_modes();
    surroundings(b);
    in_the_clear(b, loop);
    defaults(b);
    out_of_memory(b);
    proxy();
    front();
    back_free(b);
    loop_free(loop);
    metrics_free(metrics);
    return tap_end();
}
