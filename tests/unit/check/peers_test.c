/* SPDX-License-Identifier: Apache-2.0 */
/* The other API servers: whom the check waits for, how long, and what it says of each. All that asks is replaced. */
#include "back/back.h"
#include "check/sections.h"
#include "cluster/api.h"
#include "cluster/cluster.h"
#include "cluster/cluster_view.h"
#include "daemon/addresses.h"
#include "lib/tap.h"
#include "net/loop.h"

#include <json-c/json.h>
#include <stdio.h>

enum { ROOM = 1 << 20, PEERS = 8, MANY = 1000 };

#define VERSION(minor) "{\"major\":\"1\",\"minor\":\"" minor "\",\"gitVersion\":\"v1." minor ".3\"}"

/* ---- the world ---- */

struct peer {
    struct served_peer seen;
    unsigned status; /* of the answer to /version; 0: none, and why */
    const char *body;
    uint64_t takes_ms, due_ms;
    unsigned unready; /* status of the answer to /readyz, if it is not 200; 1: none */
    const char *failed;
    struct question *asked;
};

static struct {
    struct peer *peers;
    size_t n;
    uint64_t now_ms;
    uint64_t synced_ms, addresses_ms, read_ms; /* when it is known; UINT64_MAX: never */
    struct peer *given;                        /* who are there if some are given */
    uint64_t given_ms;                         /* when they are */
    bool local_cert, ca, local_away, unlisted;
    const char *const *networks; /* proxy-protocol-from */
    const char *const *bound;    /* bind-address */
    const char *advertised;      /* peer-advertise-ip and -port */
    struct cluster_opts opts;
    char hostname[16];
    unsigned freed, clocks;
    size_t under_way, most;      /* questions */
    struct cluster_server *seen; /* as the view has them */
    size_t n_seen;
    bool no_view;
    unsigned views;
    struct buf told;
} world;

static struct origin *somewhere(size_t i)
{
    return (struct origin *)(void *)&world.peers[i]; /* that it is there, and which, is all that is asked */
}

/* ---- in place of the cluster, the daemon's wiring, the loop and check/scene.c ---- */

void wire_cluster(const struct config *c, const struct trust *t, const struct wire_surroundings *s,
                  const char *hostname, struct cluster_opts *out)
{
    (void)c;
    (void)t;
    (void)s;
    *out = (struct cluster_opts){
        .hostname = hostname, .identity = IDENTITY_PUBLISH, .annotate = true, .advertise = "x", .local_failover = true};
}

struct cluster *cluster_new(struct loop *l, struct back *b, struct metrics *m, const struct cluster_opts *o)
{
    (void)l;
    (void)b;
    (void)m;
    world.opts = *o;
    (void)snprintf(world.hostname, sizeof(world.hostname), "%s", o->hostname);
    for (size_t i = 0; i < o->n_static_peers; i++)
        buf_printf(&world.told, "%s=%s port %u; ", o->static_peers[i].name, o->static_peers[i].host,
                   o->static_peers[i].port);
    if (o->n_static_peers > 0) {
        world.peers = world.given;
        world.n = o->n_static_peers;
    }
    return (struct cluster *)(void *)&world;
}

void cluster_free(struct cluster *c)
{
    (void)c;
    world.freed++;
}

struct served *cluster_served(struct cluster *c)
{
    return (struct served *)(void *)c;
}

struct served *served_ref(struct served *s)
{
    return s;
}

void served_unref(struct served *s)
{
    (void)s;
}

bool served_synced(const struct served *s)
{
    (void)s;
    return world.now_ms >= world.synced_ms;
}

bool cluster_leases_listed(const struct cluster *c)
{
    (void)c;
    return !world.unlisted;
}

bool cluster_view_take(struct cluster *c, struct cluster_view *v)
{
    (void)c;
    *v = (struct cluster_view){.servers = world.seen, .n = world.n_seen};
    return !world.no_view;
}

void cluster_view_free(struct cluster_view *v)
{
    world.views += v->servers == world.seen;
}

size_t served_n_peers(const struct served *s)
{
    (void)s;
    return world.now_ms >= world.given_ms ? world.n : 0;
}

const char *served_local_id(const struct served *s)
{
    (void)s;
    return "apiserver-own";
}

const char *served_local_host(const struct served *s)
{
    (void)s;
    return "own";
}

const struct served_peer *served_peer_at(const struct served *s, size_t i)
{
    struct served_peer *p = &world.peers[i].seen;

    (void)s;
    p->discovery_known = world.now_ms >= world.read_ms;
    if (p->source != NULL)
        p->origin = world.now_ms >= world.addresses_ms ? somewhere(i) : NULL;
    return p;
}

const char *origin_address(const struct origin *o)
{
    return ((const struct peer *)(const void *)o)->seen.life == SERVED_LIVE ? "10.0.0.2:6443" : "";
}

uint64_t loop_now_ms(const struct loop *l)
{
    (void)l;
    return world.now_ms;
}

bool addresses_configured(const struct config *c, struct addresses *bound, struct err *err)
{
    (void)err;
    bound->n = 1;
    (void)snprintf(bound->at[0].host, sizeof(bound->at[0].host), "%s", c->bind_address[0]);
    bound->at[0].port = (unsigned)c->secure_port;
    return true;
}

const struct listen_address *addresses_reached_by(const struct addresses *a, const struct derive_address *to)
{
    return a->at[0].port == to->port && strcmp(a->at[0].host, to->host) == 0 ? &a->at[0] : NULL;
}

bool addresses_meet(const struct derive_address *a, const struct derive_address *b)
{
    return a->port == b->port && strcmp(a->host, b->host) == 0;
}

static void answer(unsigned status, const char *body, struct question *q);

static void answer_due(void)
{
    for (size_t i = 0; i < world.n; i++) {
        struct peer *p = &world.peers[i];

        if (p->asked == NULL || world.now_ms < p->due_ms)
            continue;
        answer(p->status, p->body, p->asked);
        p->asked = NULL;
        world.under_way--;
    }
}

void loop_run_once(struct loop *l, uint64_t max_wait_ms)
{
    (void)l;
    world.now_ms += max_wait_ms;
    answer_due();
}

bool trust_has_peers(const struct trust *t)
{
    (void)t;
    return world.ca;
}

static void answer(unsigned status, const char *body, struct question *q)
{
    *q->answer = (struct answer){.ok = status != 0, .status = status};
    buf_append_str(q->body, body);
    q->answer->body = buf_slice(q->body);
    if (status == 0)
        (void)snprintf(q->answer->failure, sizeof(q->answer->failure), "%s", body);
    q->over = true;
}

void scene_send(struct scene *s, const struct api_request *r, struct question *q)
{
    struct peer *p = (struct peer *)(void *)r->origin;

    (void)s;
    buf_printf(&world.told, "%s %.*s%s; ", p->seen.id, (int)r->target.n, r->target.p, r->peer ? "" : " (unmarked)");
    buf_reset(q->body);
    if (slice_eq(r->target, SLICE_LIT("/readyz"))) {
        answer(p->unready == 0 ? 200 : p->unready == 1 ? 0 : p->unready, p->unready == 0 ? "ok" : p->failed, q);
        return;
    }
    p->asked = q;
    p->due_ms = world.now_ms + p->takes_ms;
    world.under_way++;
    if (world.under_way > world.most)
        world.most = world.under_way;
    answer_due();
}

void scene_judge_clock(struct scene *s, const char *check, const char *server, const struct answer *a)
{
    (void)s;
    (void)check;
    (void)server;
    world.clocks += a->ok;
}

/* ---- the section ---- */

static const char *const open_gates[] = {NULL}, *const closed_gates[] = {"UnknownVersionInteroperabilityProxy=false",
                                                                         NULL};
static struct buf out;

static void begin(struct peer *peers, size_t n)
{
    buf_release(&world.told);
    memset(&world, 0, sizeof(world));
    buf_init(&world.told, ROOM);
    world.peers = peers;
    world.n = n;
    world.now_ms = 5000;
    world.local_cert = world.ca = true;
    for (size_t i = 0; i < n; i++)
        if (peers[i].seen.source != NULL)
            peers[i].seen.origin = somewhere(i);
}

/* `as`: believed, the local server's minor version, and so on. */
static void look(const struct scene *as, const char *const *gates)
{
    struct config c = {.feature_gates = gates,
                       .proxy_protocol_from = world.networks,
                       .bind_address = world.bound,
                       .secure_port = 6443,
                       .peer_advertise_port = world.advertised == NULL ? 0 : 1};
    static const struct check_opts alone = {.config_file = NULL};
    struct scene s = *as;

    if (world.advertised != NULL)
        (void)snprintf(s.around.advertise, sizeof(s.around.advertise), "%s", world.advertised);
    s.opts = s.opts == NULL ? &alone : s.opts;
    s.local_answers = !world.local_away;
    s.config = &c;
    s.f = findings_new();
    s.trust.local_cert = world.local_cert ? (struct tls_ctx *)(void *)&s : NULL;
    section_peers(&s);
    buf_reset(&out);
    findings_print_text(s.f, false, &out);
    findings_free(s.f);
}

static void says(const char *want, const char *name)
{
    is_slice(buf_slice(&out), want, "%s", name);
}

#define PEER(name, status_, body_)                                                                                     \
    {                                                                                                                  \
        .seen = {.id = name, .host = name, .source = "etcd"}, .status = status_, .body = body_                         \
    }
#define WELL "Everything is well: "
#define UNREACHABLE                                                                                                    \
    "    what to do: is it up, is the address right, does the network let this machine there, and does its mvproxy "   \
    "accept (at max-connections peers wait, too: mvproxyctl status there)?\n"
#define REFUSED                                                                                                        \
    "    what to do: start its mvproxy (or kube-apiserver, on a node that has none), or correct its address: in "      \
    "peers, "                                                                                                          \
    "or peer-advertise-ip there\n"
#define TRUST                                                                                                          \
    "    what to do: its certificate must be of peer-ca-file and valid for kubernetes.default.svc, and what serves "   \
    "there an API server of this cluster\n"

static void possible(void)
{
    const struct scene believed = {.believed = true, .hostname = "cp-a"}, disbelieved = {.believed = false};

    begin(NULL, 0);
    look(&believed, closed_gates);
    says("peers\nok not used: the feature gate UnknownVersionInteroperabilityProxy is off\n\n" WELL "1 checks.\n",
         "the gate");
    world.local_cert = false;
    look(&believed, open_gates);
    says("peers\n-- cannot be used without a front-proxy certificate\n\n" WELL "0 checks.\n", "no certificate");
    world.local_cert = true;
    world.ca = false;
    look(&believed, open_gates);
    says("peers\n-- cannot be used: peer-ca-file is not configured\n\n" WELL "0 checks.\n", "no CA");
    world.ca = true;
    look(&disbelieved, open_gates);
    says("peers\n-- not examined: the local API server does not tell who they are\n\n" WELL "0 checks.\n",
         "not believed");
    is_u64(world.freed, 0, "nobody was looked for");
    look(&believed, open_gates);
    says("peers\nok there is no other API server\n\n" WELL "1 checks.\n", "none");
    is_u64(world.freed, 1, "looked for");
    ok(world.opts.identity == IDENTITY_OFF && !world.opts.annotate && world.opts.advertise[0] == '\0' &&
           !world.opts.local_failover,
       "nothing is published");
    is_str(world.hostname, "cp-a", "by whom");
}

static void waits(void)
{
    static const struct {
        size_t etcd;
        uint64_t synced_ms, addresses_ms, want_ms;
        const char *name;
    } rows[] = {
        {0, 0, 0, 5000, "not at all"},
        {0, 6000, 0, 6000, "for the Leases"},
        {0, UINT64_MAX, 0, 15000, "for the Leases, ten seconds"},
        {0, 0, 6000, 5000, "not for addresses without etcd"},
        {1, 0, 6000, 6000, "for addresses of etcd"},
        {1, 0, UINT64_MAX, 8000, "for those, three seconds"},
        {1, 9000, UINT64_MAX, 9000, "for the Leases, longer"},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        struct peer peers[] = {PEER("b", 0, "refused"), PEER("c", 0, "refused")};
        struct scene s = {.believed = true};

        begin(peers, 2);
        s.around.n_etcd = rows[i].etcd;
        world.synced_ms = rows[i].synced_ms;
        world.addresses_ms = rows[i].addresses_ms;
        look(&s, open_gates);
        is_u64(world.now_ms, rows[i].want_ms, "waits %s", rows[i].name);
    }
}

static void each(void)
{
    struct peer peers[PEERS] = {PEER("b", 200, VERSION("30")),
                                PEER("c", 0, "connect: Connection refused"),
                                PEER("d", 0, "certificate refused"),
                                PEER("e", 401, ""),
                                PEER("f", 403, ""),
                                PEER("g", 500, ""),
                                PEER("h", 200, "{}"),
                                {.seen = {.id = "i", .host = "i", .life = SERVED_LAPSED}}};
    const struct scene s = {.believed = true, .minor = 31};
    struct peer lost[] = {{.seen = {.id = "j", .host = "j"}}};
    struct peer kept[] = {PEER("k", 0, "127.0.0.1: the address is not allowed")};
    const struct scene mistaken = {.believed = true, .mistaken = true};

    begin(peers, PEERS);
    look(&s, open_gates);
    says("peers\nok peer b at 10.0.0.2:6443 (etcd): v1.30.3, its discovery is read\n"
         "XX peer c: connect: Connection refused\n" REFUSED "XX peer d: certificate refused\n" TRUST
         "XX peer e at 10.0.0.2:6443 does not believe this front proxy: it answers 401\n    what to do: give each node "
         "the same "
         "front-proxy CA (requestheader-client-ca-file) and requestheader-allowed-names\n"
         "XX peer f at 10.0.0.2:6443 does not believe this front proxy: it answers 403\n    what to do: give each node "
         "the same "
         "front-proxy CA (requestheader-client-ca-file) and requestheader-allowed-names\n"
         "XX peer g at 10.0.0.2:6443: it answers 500 when asked for its version\n" TRUST
         "XX peer h at 10.0.0.2:6443: it answers 200 when asked for its version\n" TRUST
         "!! peer i renews its Lease no more\n    what to do: start it; if it is gone for good it will be forgotten\n"
         "-- whether the API servers' versions are neighbours: 6 could not be asked\n\n6 wrong, 1 to be looked at, 1 "
         "well.\n",
         "all kinds");
    is_slice(buf_slice(&world.told),
             "b /version; b /readyz; c /version; d /version; e /version; f /version; g /version; h /version; ",
             "who is asked");
    is_u64(world.clocks, 1, "whose clock is looked at");
    begin(kept, 1);
    look(&s, open_gates);
    says("peers\nXX peer k: 127.0.0.1: the address is not allowed: it is not in peer-allowed-cidrs\n    what to do: "
         "give "
         "peer-allowed-cidrs the networks of all peers, this one's among them (without it loopback, link-local and the "
         "like are dialled nowhere), or correct its address: in peers, or peer-advertise-ip there\n-- whether the API "
         "servers' versions are neighbours: 1 could not be asked\n\n1 wrong, 0 to be looked at, 0 well.\n",
         "an address that is not dialled");
    begin(lost, 1);
    look(&s, open_gates);
    says("peers\nXX peer j: nothing says where it can be reached\n    what to do: let its mvproxy write it "
         "(peer-advertise-ip "
         "and -port there), or list it in peers\n-- whether the API servers' versions are neighbours: 1 could not be "
         "asked\n\n1 wrong, 0 to be "
         "looked at, 0 "
         "well.\n",
         "no address");
    look(&mistaken, open_gates);
    says("peers\n-- peer j is not examined: it may be this node\n\n" WELL "0 checks.\n",
         "perhaps this one, and no version");
}

/* A network of load balancers that a peer is in: it is told whether the peer answers us or not, for it is we who would
 * not answer. */
static void balancers(void)
{
    static const struct {
        const char *network, *want;
    } rows[] = {
        {"10.0.0.0/24",
         "peers\nXX peer b at 10.0.0.2:6443 is in proxy-protocol-from: it sends no PROXY header, and is cut off\n"
         "    what to do: take the addresses of control-plane nodes out of proxy-protocol-from on each node, and give "
         "a "
         "load balancer that runs there an address of its own\nok peer b"},
        {"10.0.1.0/24", "peers\nok peer b"},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        const char *const networks[] = {"192.0.2.0/24", rows[i].network, NULL};
        struct peer peers[] = {PEER("b", 200, VERSION("30"))};
        const struct scene s = {.believed = true, .minor = 30};

        begin(peers, 1);
        world.networks = networks;
        look(&s, open_gates);
        ok(slice_has_prefix(buf_slice(&out), slice_str(rows[i].want)), "row %zu: says so", i);
    }
}

/* What others would send here, and somebody else gets. Who has this node's address is to correct his own. */
static void advertised(void)
{
#define MISTAKEN                                                                                                       \
    "XX peer-advertise-ip: 10.0.0.2:6443 is the address of peer b\n    what to do: give an address at which peers "    \
    "reach "                                                                                                           \
    "this node, or none (then mvproxy's own)\n"
    static const struct {
        const char *advertised, *bound, *want;
    } rows[] = {
        {NULL, "10.0.0.3", ""},
        {"10.0.0.2:6443", "10.0.0.3", MISTAKEN},
        {"10.0.0.2:6443", "10.0.0.2", ""},
        {"10.0.0.2:6444", "10.0.0.3", ""},
        {"10.0.0.3:6443", "10.0.0.3", ""},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        const char *const bound[] = {rows[i].bound, NULL};
        struct peer peers[] = {PEER("b", 200, VERSION("30"))};
        const struct scene s = {.believed = true, .minor = 30};
        char want[512];

        begin(peers, 1);
        world.bound = bound;
        world.advertised = rows[i].advertised;
        look(&s, open_gates);
        (void)snprintf(want, sizeof(want), "peers\n%s%s", rows[i].want, rows[i].want[0] == '\0' ? "ok peer b" : "");
        ok(slice_has_prefix(buf_slice(&out), slice_str(want)), "row %zu: says so", i);
    }
}

static void discovery(void)
{
    static const struct {
        uint64_t read_ms, want_ms;
        bool read;
    } rows[] = {{0, 5000, true}, {9000, 9000, true}, {14900, 14900, true}, {15000, 15000, true}, {15001, 15000, false}};

    for (size_t i = 0; i < ROWS(rows); i++) {
        struct peer peers[] = {PEER("b", 200, VERSION("30"))};
        const struct scene s = {.believed = true, .minor = 30};

        begin(peers, 1);
        world.read_ms = rows[i].read_ms;
        look(&s, open_gates);
        is_u64(world.now_ms, rows[i].want_ms, "row %zu: waits for discovery", i);
        ok(slice_has_prefix(buf_slice(&out),
                            rows[i].read ? SLICE_LIT("peers\nok peer b at")
                                         : SLICE_LIT("peers\nXX peer b at 10.0.0.2:6443: its discovery cannot be "
                                                     "read\n    what to do: see the log")),
           "row %zu: says so", i);
    }
}

static void versions(void)
{
    static const struct {
        unsigned local;
        const char *b, *c, *want;
    } rows[] = {
        {30, VERSION("30"), VERSION("31"), "ok the API servers' versions are neighbours\n"},
        {30, VERSION("31"), VERSION("32"), "!! API servers from 1.30 to 1.32: Kubernetes supports neighbours only\n"},
        {32, VERSION("31"), VERSION("30"), "!! API servers from 1.30 to 1.32: Kubernetes supports neighbours only\n"},
        {31, VERSION("30"), VERSION("32"), "!! API servers from 1.30 to 1.32: Kubernetes supports neighbours only\n"},
        {0, VERSION("30"), VERSION("31"), "ok the API servers' versions are neighbours\n"},
        {30, VERSION("31"), "{\"major\":\"2\",\"minor\":\"40\",\"gitVersion\":\"v2\"}",
         "ok the API servers' versions are neighbours\n"},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        struct peer peers[] = {PEER("b", 200, rows[i].b), PEER("c", 200, rows[i].c)};
        const struct scene s = {.believed = true, .minor = rows[i].local};

        begin(peers, 2);
        look(&s, open_gates);
        buf_append_char(&out, '\0');
        ok(strstr(out.p, rows[i].want) != NULL, "row %zu: %s", i, out.p);
    }
}

/* Who says its version and all of its discovery may have lost its etcd, or the one that we have. */
static void relied_on(void)
{
#define AT "peers\nXX peer b at 10.0.0.2:6443 (etcd): v1.30.3, is not ready: its /readyz"
#define LAPSED                                                                                                         \
    "peers\n!! peer b at 10.0.0.2:6443 (etcd): v1.30.3, its discovery is read, but the process has not seen its "      \
    "Lease "                                                                                                           \
    "renewed"
    static const struct {
        unsigned status;
        const char *body, *life, *want;
    } rows[] = {
        {0, "", "live", "peers\nok peer b at"},
        {0, "", "lapsed",
         LAPSED " for longer than peer-stale-after\n    what to do: see the log of its kube-apiserver"},
        {500, "[+]ping ok\n[-]etcd failed: reason withheld\n", "live",
         AT " answers 500 (etcd failed)\n    what to do: see to the etcd of that node"},
        {500, "[-]shutdown failed: reason withheld\n", "lapsed",
         AT " answers 500 (shutdown failed)\n    what to do: wait"},
        {503, "[-]a2345678a2345678a2345678a2345678a2345678a2345678a2345678a23456789 failed", "", AT " answers 503\n"},
        {502, "", "", AT " answers 502\n    what to do: wait"},
        {1, "10.0.0.2:6443: timed out", "", AT ": 10.0.0.2:6443: timed out\n    what to do: wait"},
        {403, "[-]etcd failed", "live", "peers\nok peer b at"},
        {403, "", "lapsed", LAPSED},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        struct peer peers[] = {PEER("b", 200, VERSION("30"))};
        struct json_object *status = json_object_new_object(), *servers = json_object_new_array(),
                           *one = json_object_new_object();
        struct check_opts opts = {.status = status};
        const struct scene s = {.opts = &opts, .believed = true, .minor = 30};

        json_object_object_add(one, "id", json_object_new_string("b"));
        json_object_object_add(one, "life", json_object_new_string(rows[i].life));
        json_object_array_add(servers, one);
        json_object_object_add(status, "servers", servers);
        peers[0].unready = rows[i].status;
        peers[0].failed = rows[i].body;
        begin(peers, 1);
        look(&s, open_gates);
        buf_append_char(&out, '\0');
        ok(slice_has_prefix(buf_slice(&out), slice_str(rows[i].want)), "row %zu: %s", i, out.p);
        json_object_put(status);
    }
}

/* A name that only the configuration has, where servers have Leases and these are known. */
static void unleased(void)
{
    struct cluster_server seen[] = {{.host = "own", .local = true},
                                    {.host = "b", .fixed = true, .leased = true},
                                    {.host = "c", .leased = true},
                                    {.host = "d", .fixed = true}};
    static const struct {
        unsigned minor;
        bool unlisted, no_view, said;
    } rows[] = {
        {26, false, false, true}, {25, false, false, false}, {0, false, false, false},
        {30, true, false, false}, {30, false, true, false},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        struct peer peers[] = {PEER("b", 200, VERSION("30"))};
        const struct scene s = {.believed = true, .minor = rows[i].minor};

        begin(peers, 1);
        world.seen = seen;
        world.n_seen = ROWS(seen);
        world.unlisted = rows[i].unlisted;
        world.no_view = rows[i].no_view;
        look(&s, open_gates);
        buf_append_char(&out, '\0');
        ok((strstr(out.p, "!! peers: no API server of the cluster has the name d (no identity Lease)\n    what to do: "
                          "give the host name") != NULL) == rows[i].said,
           "row %zu: %s", i, out.p);
        ok(strstr(out.p, "has the name b") == NULL && strstr(out.p, "has the name c") == NULL &&
               strstr(out.p, "has the name own") == NULL,
           "row %zu: of no other", i);
        is_u64(world.views, rows[i].said, "row %zu: the view is given back", i);
    }
}

/* Silent ones cost little, however many there are; and who is not known to be silent is asked before them. */
static void silent(void)
{
    static const struct {
        size_t n;
        uint64_t takes_ms, want_ms;
        const char *want;
    } rows[] = {
        {1, 5000, 5000, "Everything is well"},
        {16, 5000, 5000, "15 wrong"},
        {17, 5000, 10000, "16 wrong"},
        {30, 5000, 10000, "29 wrong"},
        {192, 5000, 60000, "191 wrong"},
        {193, 5000, 60000, "-- 1 more peers are not examined: a minute was spent on those above"},
        {1000, 5000, 60000, "-- 808 more peers are not examined"},
        {1000, 15000, 60000, "-- 936 more peers are not examined"},
        {17, 60000, 60000, "-- 1 more peers are not examined"},
        {17, 59900, 119800, "16 wrong"},
    };
    static char ids[MANY][24];

    for (size_t i = 0; i < ROWS(rows); i++) {
        struct json_object *status = json_object_new_object(), *servers = json_object_new_array();
        struct peer *peers = must_zalloc(MANY * sizeof(*peers));
        struct check_opts opts = {.status = status};
        const struct scene s = {.opts = &opts, .believed = true};

        for (size_t j = 0; j < rows[i].n; j++) {
            bool last = j + 1 == rows[i].n;
            struct json_object *one = json_object_new_object();

            (void)snprintf(ids[j], sizeof(ids[j]), "p%zu", j);
            peers[j] = (struct peer)PEER(ids[j], last ? 200 : 0, last ? VERSION("30") : "no answer");
            peers[j].takes_ms = rows[i].takes_ms;
            json_object_object_add(one, "id", json_object_new_string(ids[j]));
            json_object_object_add(one, "answers", json_object_new_string(last ? "answers" : "unreachable"));
            json_object_array_add(servers, one);
        }
        json_object_object_add(status, "servers", servers);
        begin(peers, rows[i].n);
        look(&s, open_gates);
        is_u64(world.now_ms, 5000 + rows[i].want_ms, "row %zu: takes so long", i);
        is_u64(world.most, rows[i].n < 16 ? rows[i].n : 16, "row %zu: so many at once", i);
        buf_append_char(&out, '\0');
        ok(strstr(out.p, rows[i].want) != NULL, "row %zu: %.200s", i, out.p);
        ok(strstr(out.p, "v1.30.3, its discovery is read") != NULL, "row %zu: who answers is examined", i);
        json_object_put(status);
        mem_free(peers);
    }
}

/* What the running process cannot read is said once: here, unless it is found to be so. */
static void told(void)
{
#define ROW(id, more) "{\"id\":\"" id "\",\"hostname\":\"" id "\",\"lastError\":\"cut\"," more "}"
    struct check_opts opts = {
        .status = json_tokener_parse(
            "{\"servers\":[" ROW("a", "\"failing\":true,\"local\":true") "," ROW("b", "\"failing\":true") "," ROW(
                "c", "\"failing\":false,\"drained\":true") "," ROW("d", "\"failing\":true") "]}")};
    struct peer peers[] = {PEER("b", 200, VERSION("30")), PEER("c", 200, VERSION("30")), PEER("d", 0, "refused")};
    const struct scene s = {.opts = &opts, .believed = true};
#define DRAINED                                                                                                        \
    "!! peer c is drained: clients' requests go there from here only where nobody else serves them\n"                  \
    "    what to do: mvproxyctl undrain c, when the work there is done\n"
#define REMEDY "\n    what to do: mvproxyctl refresh tries again; mvproxyctl peers shows what comes of it\n"

    begin(peers, 3);
    look(&s, open_gates);
    says("peers\n" DRAINED "ok peer b at 10.0.0.2:6443 (etcd): v1.30.3, its discovery is read\n"
         "!! the process cannot read peer b, which this check can read: cut" REMEDY
         "ok peer c at 10.0.0.2:6443 (etcd): v1.30.3, its discovery is read\nXX peer d: refused\n" UNREACHABLE
         "-- whether the API servers' versions are neighbours: 1 could not be asked\n\n1 wrong, 2 to be looked at, 2 "
         "well.\n",
         "what differs");
    world.local_away = true;
    look(&s, open_gates);
    says("peers\n" DRAINED
         "-- not examined: the local API server does not answer\n!! the process cannot read peer b: cut" REMEDY
         "!! the process cannot read peer d: cut" REMEDY "\n0 wrong, 3 to be looked at, 0 well.\n",
         "without a look of its own");
    json_object_put(opts.status);
}

/* Without the Leases nobody is known but by the running process: nothing is said of who there is. */
static void unread(void)
{
    static const char status[] =
        "{\"servers\":[{\"hostname\":\"a\",\"id\":\"a\",\"life\":\"live\",\"address\":\"10.0.0.1:6443\",\"local\":true}"
        ","
        "{\"hostname\":\"b\",\"id\":\"b\",\"life\":\"live\",\"address\":\"10.0.0.2:6443\"},"
        "{\"hostname\":\"c\",\"id\":\"c\",\"life\":\"lapsed\",\"address\":\"10.0.0.3:6443\"},"
        "{\"hostname\":\"d\",\"id\":\"d\",\"life\":\"live\",\"address\":null},"
        "{\"hostname\":\"e\",\"id\":\"e\",\"life\":\"live\",\"address\":\"[2001:db8::5]:6444\"}]}";
    struct check_opts opts = {.status = json_tokener_parse(status)};
    struct peer given[] = {PEER("b", 200, VERSION("30")), PEER("e", 0, "refused")},
                named[] = {PEER("f", 200, VERSION("30"))};
    struct scene s = {.opts = &opts, .believed = true}, without = {.believed = true};

    for (size_t i = 0; i < ROWS(given); i++)
        given[i].seen.source = "static";
    begin(NULL, 0);
    world.synced_ms = UINT64_MAX;
    world.unlisted = true;
    look(&without, open_gates);
    says("peers\n-- not examined: the Leases cannot be read\n\n" WELL "0 checks.\n", "nobody is known");
    begin(named, 1);
    world.synced_ms = UINT64_MAX;
    world.unlisted = true;
    look(&without, open_gates);
    says("peers\n-- the Leases cannot be read: only those are examined that peers names\nok peer f at 10.0.0.2:6443 "
         "(etcd): v1.30.3, its discovery is read\nok the API servers' versions are neighbours\n\n" WELL "2 checks.\n",
         "who is configured");
    begin(NULL, 0);
    world.synced_ms = UINT64_MAX;
    world.unlisted = true;
    world.given = given;
    world.given_ms = 16000;
    look(&s, open_gates);
    says("peers\n-- the Leases cannot be read: only those are examined that the process knows\nok peer b at "
         "10.0.0.2:6443 (as the process knows it): v1.30.3, its discovery is read\nXX peer e: refused\n" UNREACHABLE
         "-- whether the API servers' versions are neighbours: 1 could not be asked\n\n1 wrong, 0 to be looked at, 1 "
         "well.\n",
         "whom the process knows: said of none of them that peers is to be corrected");
    is_slice(buf_slice(&world.told),
             "b=10.0.0.2 port 6443; e=2001:db8::5 port 6444; b /version; b /readyz; e /version; ",
             "where it knows them");
    is_u64(world.freed, 2, "both looks are over");
    begin(NULL, 0);
    world.synced_ms = world.given_ms = UINT64_MAX;
    world.unlisted = true;
    world.given = given;
    look(&s, open_gates);
    is_u64(world.now_ms, 5000 + 10000 + 3000, "not waited for longer than three seconds");
    json_object_put(opts.status);
}

/* What the running process says is not trusted to have a shape. */
static void odd(void)
{
    static const char *const rows[] = {"[]", "{\"servers\":{}}", "{\"servers\":[1,null,{\"id\":[]}]}", "\"x\""};

    for (size_t i = 0; i < ROWS(rows); i++) {
        struct peer peers[] = {PEER("b", 200, VERSION("30"))};
        struct check_opts opts = {.status = json_tokener_parse(rows[i])};
        const struct scene s = {.opts = &opts, .believed = true};

        begin(peers, 1);
        look(&s, open_gates);
        ok(slice_has_prefix(buf_slice(&out), SLICE_LIT("peers\nok peer b at")), "row %zu", i);
        json_object_put(opts.status);
    }
}

int main(void)
{
    buf_init(&out, ROOM);
    possible();
    waits();
    each();
    balancers();
    advertised();
    discovery();
    versions();
    relied_on();
    unleased();
    silent();
    told();
    unread();
    odd();
    buf_free(&out);
    buf_free(&world.told);
    return tap_end();
}
