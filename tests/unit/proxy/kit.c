/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/proxy/kit.h"

#include "back/back.h"
#include "base/metric.h"
#include "front/front.h"
#include "kube/disco.h"
#include "kube/schema_index.h"
#include "lib/disco_text.h"
#include "lib/metric_sum.h"
#include "net/listener.h"
#include "net/loop.h"
#include "net/tls_ctx.h"

#include <netinet/in.h>
#include <stdio.h>
#include <unistd.h>

#define PODS_GROUP                                                                                                     \
    "{\"metadata\":{},\"versions\":[{\"version\":\"v1\",\"resources\":[{\"resource\":\"pods\",\"responseKind\":{"      \
    "\"group\":\"\",\"version\":\"v1\",\"kind\":\"Pod\"},\"scope\":\"Namespaced\",\"singularResource\":\"pod\","       \
    "\"verbs\":[\"get\",\"list\",\"watch\",\"create\"],\"subresources\":[{\"subresource\":\"exec\",\"verbs\":["        \
    "\"create\",\"get\"]},{\"subresource\":\"proxy\",\"verbs\":[\"create\",\"get\"]}]}]}]}"
#define JOBS_GROUP(list) NAMED_JOBS("\"job\"", list)
#define NAMED_JOBS(singular, list)                                                                                     \
    "{\"metadata\":{\"name\":\"batch\"},\"versions\":[{\"version\":\"v1\",\"resources\":[{\"resource\":\"jobs\","      \
    "\"responseKind\":{\"group\":\"batch\",\"version\":\"v1\",\"kind\":\"Job\"},\"scope\":\"Namespaced\","             \
    "\"singularResource\":" singular ",\"verbs\":[\"get\"," list                                                       \
    "\"watch\",\"create\",\"update\",\"patch\",\"delete\"],\"subresources\":[{"                                        \
    "\"subresource\":\"status\",\"verbs\":[\"get\",\"create\"]},{\"subresource\":\"proxy\",\"verbs\":[\"get\"]},{"     \
    "\"subresource\":\"exec\",\"verbs\":[\"get\"]}]}]}]}"

const char *proxy_kit_document(void)
{
    return DISCO_TEXT(JOBS_GROUP("\"list\","));
}

/* ---- what the cluster knows ---- */

bool proxy_kit_waiting(const struct proxy_kit *w)
{
    return w->cluster->waiters.count > 0;
}

void proxy_kit_refreshed(struct proxy_kit *w)
{
    if (w->cluster->waiters.count != 1)
        tap_bail("%zu wait, and these tests are for one", w->cluster->waiters.count);
    fake_cluster_refreshed(w->cluster);
}

void proxy_kit_know(struct proxy_kit *w)
{
    static const char *const ids[PROXY_KIT_PEERS] = {"apiserver-b", "apiserver-c", "apiserver-d"};
#define ALL_JOBS JOBS_GROUP("\"list\",")
    static const char all[] = ALL_JOBS;
    static const char *const own[] = {
        [PROXY_KIT_JOB] = ALL_JOBS,
        [PROXY_KIT_UNNAMED] = NAMED_JOBS("\"\"", "\"list\","),
        [PROXY_KIT_JAB] = NAMED_JOBS("\"jab\"", "\"list\","),
    };
    struct disco *local = disco_of_items(PODS_GROUP, w->local_has_jobs ? own[w->local_singular] : "");
    struct disco *other = disco_of_items(PODS_GROUP, all), *lacking = disco_of_items(PODS_GROUP, "");
    struct disco *listless = disco_of_items(PODS_GROUP, JOBS_GROUP(""));
    bool by_peers = w->peers_without_jobs < w->n_peers;
    struct schema_index *others = fake_cluster_schemas(w->peer_schemas, w->schemas_quota),
                        *before = fake_cluster_schemas(w->last_schemas, w->schemas_quota);
    struct served_gv jobs = {SLICE_LIT("batch"), SLICE_LIT("v1")};
    struct served_peer peers[PROXY_KIT_PEERS];
    struct served_input in = {.peers_enabled = true,
                              .leases_synced = !w->unread_leases,
                              .local_id = "apiserver-a",
                              .local = w->forbidden ? NULL : local,
                              .local_read = true,
                              .peers_read = !w->peers_pending,
                              .behind = w->behind,
                              .local_refused = w->forbidden,
                              .local_etag = {SLICE_LIT("\"L\""), SLICE_LIT("\"L\"")},
                              .local_schemas = fake_cluster_schemas(w->local_schemas, w->schemas_quota),
                              .local_release = w->local_release,
                              .peers = peers,
                              .n_peers = w->n_peers,
                              .excluded = &(struct slice){"batch/v1", 8},
                              .n_excluded = w->jobs_excluded || w->jobs_aggregated,
                              .aggregated = &(struct slice){"batch/v1", 8},
                              .n_aggregated = w->jobs_aggregated,
                              .undiscovered = &jobs,
                              .n_undiscovered = w->jobs_undiscovered};

    for (size_t i = 0; i < w->n_peers; i++)
        peers[i] = (struct served_peer){.id = ids[i],
                                        .host = w->peer_host,
                                        .life = i < w->peers_lapsed ? SERVED_LAPSED : SERVED_LIVE,
                                        .drained = i < w->peers_drained,
                                        .discovery_known = !w->peers_pending,
                                        .pending = w->peers_pending,
                                        .disco = i + 1 == w->without_list    ? listless
                                                 : i < w->peers_without_jobs ? lacking
                                                                             : other,
                                        .schemas = i < w->without_schemas ? NULL : others,
                                        .last_schemas = before,
                                        .schemas_pending = w->schemas_pending,
                                        .release = w->peer_release,
                                        .origin = w->peers[i].origin};
    in.documents[SERVED_APIS] =
        fake_cluster_documents(w->document != NULL ? w->document : proxy_kit_document(), w->document_is_long,
                               w->has_protobuf ? PROXY_KIT_PROTOBUF : NULL, disco_apis(by_peers ? other : local));
    in.documents[SERVED_CORE] = served_documents_ref(in.documents[SERVED_APIS]);
    if (!fake_cluster_know(w->cluster, &in))
        tap_bail("no memory");
    served_documents_unref(in.documents[SERVED_APIS]);
    served_documents_unref(in.documents[SERVED_CORE]);
    disco_unref(local);
    disco_unref(other);
    disco_unref(lacking);
    disco_unref(listless);
    schema_index_unref(in.local_schemas);
    schema_index_unref(others);
    schema_index_unref(before);
}

/* ---- the test's ends of connections ---- */

/* With one of the test's own allocations gone this end is of no use, and must not keep anybody waiting. */
static void lose(struct played_end *s)
{
    if (!s->w->short_of_memory)
        tap_bail("too much");
    hang_up(s, STREAM_CLOSE_NOW);
    s->failed = true;
}

static void take_all(struct played_end *s)
{
    struct slice in;

    while (!s->stopped && s->s != NULL && (in = stream_peek(s->s)).n > 0) {
        s->n_got += in.n;
        if (!s->count_only && !buf_append(&s->got, in)) {
            lose(s);
            return;
        }
        stream_consume(s->s, in.n);
    }
}

static void on_side_event(struct stream *stream, enum stream_event ev, void *arg)
{
    struct played_end *s = arg;

    (void)stream;
    s->opened |= ev == STREAM_OPENED;
    if (ev == STREAM_READABLE)
        take_all(s);
    s->eof |= ev == STREAM_EOF;
    s->failed |= ev == STREAM_FAILED;
    if (ev == STREAM_FAILED && s->w->short_of_memory)
        hang_up(s, STREAM_CLOSE_NOW);
}

static struct played_end *begin_side(struct proxy_kit *w, struct played_end *s)
{
    *s = (struct played_end){.w = w};
    buf_init(&s->got, PROXY_KIT_BYTES);
    return s;
}

static void end_side(struct played_end *s)
{
    hang_up(s, STREAM_CLOSE_NOW);
    buf_free(&s->got);
}

struct played_end *client(struct proxy_kit *w)
{
    struct played_end *s = begin_side(w, &w->clients[w->n_clients++]);
    struct stream_opts o = {.fn = on_side_event, .arg = s, .tls = w->client_tls};
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)front_port(w->front))};

    if (w->n_clients > PROXY_KIT_CONNS)
        tap_bail("too many clients");
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    s->s = stream_connect(w->loop, (const struct sockaddr *)&to, sizeof(to), &o);
    if (s->s == NULL && !w->short_of_memory)
        tap_bail("connect");
    s->failed = s->s == NULL;
    if (s->s != NULL)
        (void)until(w, s->opened || s->failed || s->eof);
    return s;
}

static void on_accept(int fd, void *arg)
{
    struct played_server *server = arg;
    struct played_end *s;
    struct stream_opts o = {.fn = on_side_event, .tls = server->w->server_tls};

    if (server->refuse || server->n_conns == PROXY_KIT_CONNS) {
        close(fd);
        return;
    }
    s = begin_side(server->w, &server->conns[server->n_conns++]);
    o.arg = s;
    s->s = stream_accept(server->w->loop, fd, &o);
    s->failed = s->s == NULL;
}

struct played_end *conn(struct played_server *s, size_t n)
{
    if (!until(s->w, s->n_conns > n))
        tap_bail("no connection %zu", n);
    return &s->conns[n];
}

void say_bytes(struct played_end *s, struct slice bytes)
{
    if (s->s != NULL && !stream_write(s->s, bytes) && s->w->short_of_memory)
        lose(s);
}

void say(struct played_end *s, const char *text)
{
    say_bytes(s, slice_str(text));
}

/* Its digits are random: any "404" or "abc" is in one of 140 of them. */
static bool is_in_an_audit_id(struct slice g, const char *at)
{
    static const char name[] = "Audit-Id: ";
    const char *line = at;

    while (line > g.p && line[-1] != '\n')
        line--;
    return (size_t)(at - line) >= sizeof(name) - 1 && strncasecmp(line, name, sizeof(name) - 1) == 0 && *at != '\r';
}

bool got(const struct played_end *s, const char *text)
{
    struct slice g = buf_slice(&s->got);
    const char *at = g.n == 0 ? NULL : memmem(g.p, g.n, text, strlen(text));

    while (at != NULL && is_in_an_audit_id(g, at))
        at = memmem(at + 1, g.n - (size_t)(at + 1 - g.p), text, strlen(text));
    return at != NULL;
}

bool has(struct played_end *s, const char *text)
{
    if (until(s->w, got(s, text)))
        return true;
    diag("got: %.*s", (int)buf_len(&s->got), buf_len(&s->got) == 0 ? "" : buf_slice(&s->got).p);
    return false;
}

bool ended(struct played_end *s)
{
    return until(s->w, s->eof || s->failed || s->s == NULL);
}

void stop_reading(struct played_end *s)
{
    s->stopped = true;
    stream_pause(s->s, STREAM_PAUSE_BODY);
}

void go_on_reading(struct played_end *s)
{
    s->stopped = false;
    stream_resume(s->s, STREAM_PAUSE_BODY);
}

void hang_up(struct played_end *s, enum stream_close_how how)
{
    if (s->s != NULL)
        stream_close(s->s, how);
    s->s = NULL;
}

/* ---- the whole ---- */

static void start_server(struct proxy_kit *w, struct played_server *s, const char *name)
{
    struct err err = {""};
    struct origin_opts o = {.name = name, .host = "127.0.0.1", .tls_cert = w->back_tls, .tls_no_cert = w->back_tls};

    s->w = w;
    s->listener = listener_open(w->loop, "127.0.0.1", 0, on_accept, s, &err);
    if (s->listener == NULL)
        tap_bail("%s", err.text);
    s->port = o.port = listener_port(s->listener);
    s->origin = origin_new(w->back, &o);
    if (s->origin == NULL)
        tap_bail("no memory");
}

void proxy_kit_init(struct proxy_kit *w, size_t n_peers)
{
    proxy_kit_init_tls(w, n_peers, NULL, NULL);
}

void proxy_kit_init_tls(struct proxy_kit *w, size_t n_peers, struct tls_ctx *server, struct tls_ctx *back)
{
    static const char *const names[PROXY_KIT_PEERS] = {"peer-b", "peer-c", "peer-d"};

    memset(w, 0, sizeof(*w));
    w->n_peers = n_peers;
    w->server_tls = server;
    w->back_tls = back;
    w->loop = loop_new(NULL);
    w->metrics = metrics_new();
    w->back = back_new(w->loop, w->metrics);
    start_server(w, &w->local, "local");
    for (size_t i = 0; i < n_peers; i++)
        start_server(w, &w->peers[i], names[i]);
    w->cluster = fake_cluster_new();
    w->opts = (struct proxy_opts){.local = w->local.origin, .discovery_authz_ttl_ms = 60000};
}

void proxy_kit_start(struct proxy_kit *w)
{
    struct err err = {""};
    const struct listen_address loopback = {"127.0.0.1", 0};
    struct front_opts o = {.listen = {.addresses = &loopback, .n_addresses = 1}, .on_request = proxy_on_request};

    proxy_kit_know(w);
    w->proxy = proxy_new(w->loop, w->back, w->cluster, w->metrics, &w->opts);
    o.arg = w->proxy;
    o.tls = w->front_tls;
    w->front = front_new(w->loop, w->metrics, &o, &err);
    if (w->front == NULL)
        tap_bail("%s", err.text);
}

void proxy_kit_reload(struct proxy_kit *w, const struct proxy_opts *o)
{
    struct proxy_config *c = proxy_config_new(o);

    if (c == NULL)
        tap_bail("no memory for options");
    proxy_update(w->proxy, c);
}

void proxy_kit_open(struct proxy_kit *w, size_t n_peers)
{
    proxy_kit_init(w, n_peers);
    proxy_kit_start(w);
}

static void end_server(struct played_server *s)
{
    listener_close(s->listener);
    for (size_t i = 0; i < s->n_conns; i++)
        end_side(&s->conns[i]);
    is_u64(origin_in_flight(s->origin), 0, "nothing is left in flight");
    origin_unref(s->origin);
}

void proxy_kit_close(struct proxy_kit *w)
{
    struct tls_ctx *const contexts[] = {w->front_tls, w->client_tls, w->server_tls, w->back_tls};

    for (size_t i = 0; i < w->n_clients; i++)
        end_side(&w->clients[i]);
    proxy_kit_settle(w);
    front_free(w->front);
    is_u64(proxy_long_running(w->proxy), 0, "no long-running request is left");
    proxy_free(w->proxy);
    ok(!proxy_kit_waiting(w), "nobody waits");
    fake_cluster_forget(w->cluster);
    end_server(&w->local);
    for (size_t i = 0; i < w->n_peers; i++)
        end_server(&w->peers[i]);
    proxy_kit_settle(w);
    back_free(w->back);
    for (size_t i = 0; i < ROWS(contexts); i++)
        if (contexts[i] != NULL)
            tls_ctx_unref(contexts[i]);
    loop_free(w->loop);
    metrics_free(w->metrics);
    fake_cluster_free(w->cluster);
}

void proxy_kit_settle(struct proxy_kit *w)
{
    for (unsigned i = 0; i < 10; i++)
        loop_run_once(w->loop, 1);
}

double proxy_kit_metric(struct proxy_kit *w, const char *name, const char *label_value)
{
    return metric_sum(w->metrics, name, label_value);
}
