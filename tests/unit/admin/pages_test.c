/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All that people and programs see of one state, letter for letter: text, JSON and the page, as pages.golden has them.
 * MVPROXY_UPDATE_GOLDEN=1 writes the file anew; read what changed before it is committed.
 */
#include <stdio.h>
#include <stdlib.h>

#include "admin/status.h"
#include "admin/status_page.h"
#include "base/base64.h"
#include "base/changes.h"
#include "base/clock.h"
#include "base/hash.h"
#include "cluster/served.h"
#include "kube/disco.h"
#include "lib/disco_text.h"
#include "lib/tap.h"
#include "proxy/traffic.h"

enum { ROOM = 1 << 20, SERVERS = 7, VERBS = 20 };

/* 2026-11-22T10:20:30.4Z */
#define NOW_US 1795342830400000

/* ---- what is served ---- */

static void put_resource(struct buf *b, const char *name, unsigned verbs)
{
    if (b->p[buf_len(b) - 1] == '}')
        buf_append_char(b, ',');
    buf_printf(b,
               "{\"resource\":\"%s\",\"responseKind\":{\"group\":\"\",\"version\":\"v1\",\"kind\":\"K\"},"
               "\"scope\":\"Namespaced\",\"singularResource\":\"k\",\"verbs\":[",
               name);
    for (unsigned i = 0; i < verbs; i++)
        buf_printf(b, "%s\"verb%u\"", i == 0 ? "" : ",", i);
    buf_append_str(b, "]}");
}

static void put_group(struct buf *b, const char *name, const char *const *resources, unsigned verbs)
{
    if (b->p[buf_len(b) - 1] == '}')
        buf_append_char(b, ',');
    buf_printf(b, "{\"metadata\":{\"name\":\"%s\"},\"versions\":[{\"version\":\"v1\",\"resources\":[", name);
    for (size_t i = 0; resources[i] != NULL; i++)
        put_resource(b, resources[i], verbs);
    buf_append_str(b, "],\"freshness\":\"Current\"}]}");
}

static struct disco_doc *document(const char *group, const char *const *resources, unsigned verbs, bool old)
{
    static const char *const widgets[] = {"widgets", NULL};
    struct disco_doc *doc;
    struct buf b;

    buf_init(&b, ROOM);
    buf_append_str(&b, "{\"kind\":\"APIGroupDiscoveryList\",\"apiVersion\":\"apidiscovery.k8s.io/v2\",\"metadata\":{},"
                       "\"items\":[");
    put_group(&b, group, resources, verbs);
    if (group[0] != '\0') {
        put_group(&b, "same.example", widgets, 1);
        if (old)
            put_group(&b, "old.example", widgets, 1);
    }
    buf_append_str(&b, "]}");
    doc = disco_doc_of(buf_slice(&b));
    buf_free(&b);
    return doc;
}

/* Each describes apps/v1 in its own way, and the core group alike. */
static struct disco *disco_of(unsigned server)
{
    static const char *const pods[] = {"pods", NULL};
    static const char *const apps[] = {"deployments", "replicasets", NULL};
    struct disco_doc *core = document("", pods, 2, false);
    struct disco_doc *apis =
        document("apps", server == 2 ? apps + 1 : apps, server == 1 ? VERBS : server + 1, server == 0);

    return disco_of_docs(core, apis);
}

static struct schema_index *schemas_of(const char *hash)
{
    struct schema_index *x;
    char text[512];

    (void)snprintf(text, sizeof(text),
                   "{\"paths\":{\"apis/apps/v1\":{\"serverRelativeURL\":\"/openapi/v3/apis/apps/v1?hash=%s\"},"
                   "\"api/v1\":{\"serverRelativeURL\":\"/openapi/v3/api/v1?hash=%s\"},"
                   "\"apis/same.example/v1\":{\"serverRelativeURL\":\"/openapi/v3/apis/same.example/v1?hash=x\"}}}",
                   hash, hash);
    x = schema_index_parse(slice_str(text));
    if (x == NULL)
        tap_bail("no schemas");
    return x;
}

/* Five that describe things differently, two schemas, and one that is not known. */
static struct served *snapshot(void)
{
    static const char *const ids[] = {"apiserver-b", "apiserver-c", "apiserver-d", "apiserver-e", "apiserver-f"};
    struct served_peer peers[ROWS(ids)] = {{.id = NULL}};
    struct schema_index *schemas[] = {schemas_of("one"), schemas_of("two")};
    struct disco *discos[ROWS(ids)];
    struct served_input in = {.peers_enabled = true,
                              .leases_synced = true,
                              .local_id = "apiserver-a",
                              .local_host = "cp-a",
                              .local_etag = {SLICE_LIT("")},
                              .local_schemas = schemas[0],
                              .peers = peers,
                              .n_peers = ROWS(ids)};
    struct served *s;

    for (unsigned i = 0; i < ROWS(ids); i++)
        discos[i] = disco_of(i);
    in.local = discos[0];
    for (unsigned i = 0; i < ROWS(ids); i++)
        peers[i] = (struct served_peer){.id = ids[i],
                                        .host = ids[i],
                                        .life = SERVED_LIVE,
                                        .discovery_known = i < 4,
                                        .disco = i < 4 ? discos[i + 1] : NULL,
                                        .schemas = i < 3 ? schemas[i == 1] : NULL};
    s = served_new(&in);
    if (s == NULL)
        tap_bail("out of memory");
    for (unsigned i = 0; i < ROWS(ids); i++)
        disco_unref(discos[i]);
    schema_index_unref(schemas[0]);
    schema_index_unref(schemas[1]);
    return s;
}

/* ---- the state ---- */

static const struct cluster_server servers[SERVERS] = {
    {.id = "apiserver-a",
     .host = "cp-a",
     .life = "local",
     .local = true,
     .holder = "",
     .address = "127.0.0.1:6443",
     .source = "configuration",
     .version = "v1.34.0",
     .emulated = "1.33",
     .mvproxy = "",
     .known = true,
     .groups = 3,
     .resources = 40,
     .lease_ms = UINT64_MAX,
     .discovery_ms = 1000,
     .answers = PULSE_ANSWERS,
     .answers_ms = 3600000,
     .in_flight = 7,
     .readiness = "starting"},
    {.id = "apiserver-b",
     .host = "cp-b",
     .life = "live",
     .holder = "apiserver-b_1",
     .leased = true,
     .address = "10.0.0.2:6443",
     .source = "etcd",
     .version = "",
     .emulated = "",
     .mvproxy = "0.1.0",
     .has_mvproxy = true,
     .known = true,
     .lease_ms = 1500,
     .discovery_ms = UINT64_MAX,
     .error = "connect: <refused>",
     .error_ms = 65000,
     .ejected = true},
    {.id = "apiserver-c",
     .host = "cp-c",
     .life = "lapsed",
     .holder = "x",
     .source = "none of them",
     .version = "v1.33.1",
     .emulated = "",
     .mvproxy = "",
     .has_mvproxy = true,
     .lease_ms = 7200000,
     .discovery_ms = 300000,
     .error = "timed out",
     .error_ms = 500,
     .left = true},
    {.id = "apiserver-d",
     .host = "cp-d",
     .life = "live",
     .fixed = true,
     .holder = "",
     .address = "cp-d:6443",
     .source = "configuration",
     .version = "v1.34.0",
     .emulated = "",
     .mvproxy = "",
     .lease_ms = UINT64_MAX,
     .discovery_ms = 9000,
     .answers = PULSE_UNREACHABLE,
     .error = "discovery: 500",
     .error_ms = 12345678,
     .failing = true},
    {.id = "apiserver-e",
     .host = "cp-e",
     .life = "live",
     .holder = "",
     .address = "cp-e:6443",
     .source = "Lease",
     .version = "v1.34.0",
     .emulated = "",
     .mvproxy = "",
     .drained = true},
    {.id = "apiserver-f",
     .host = "cp-f",
     .life = "live",
     .holder = "",
     .address = "cp-f:6443",
     .source = "Lease",
     .version = "v1.34.0",
     .emulated = "",
     .mvproxy = "",
     .ejected = true},
    {.id = "apiserver-g",
     .host = "cp-g",
     .life = "live",
     .holder = "",
     .address = "cp-g:6443",
     .source = "Lease",
     .version = "v1.34.0",
     .emulated = "",
     .mvproxy = "",
     .known = true},
};

static void make(struct status *s, const struct changes *c, const struct traffic *t, bool bad)
{
    static const struct served_gv differ[] = {{{"", 0}, {"v1", 2}}, {{"apps", 4}, {"v1", 2}}};

    *s = (struct status){
        .ready = !bad,
        .phase = "serving",
        .version = "1.2.3",
        .hostname = "cp-a",
        .pid = 4711,
        .up_ms = 3600000,
        .now_us = NOW_US,
        .started_us = NOW_US - 3600000000,
        .listeners = {"10.0.0.1:6443", "[::1]:6443"},
        .n_listeners = 2,
        .connections = 11,
        .max_connections = 50,
        .requests = 12,
        .tunnels = 13,
        .config_file = bad ? "/etc/mvproxy/mvproxy.yaml" : NULL,
        .reload_refused = bad ? "line 1: <nonsense>" : "",
        .files_refused = bad ? "no key" : "",
        .reload_refused_ms = 61000,
        .files_refused_ms = 172800000,
        .skewed_resources = "local",
        .changes = c,
        .traffic = t,
        .now_ms = 600000,
        .served = snapshot(),
        .failover = "on, not needed",
        .etcd = "followed",
        .n_failing = bad ? 2 : 0,
        .failing = {{.name = "local-apiserver", .why = "it is \"dead\"", .look = "its log"},
                    {.name = "shutdown", .why = "shutting down", .look = "nothing"}},
        .n_certificates = 4,
        .certificates =
            {{.option = "tls-cert-file", .file = "/a.crt", .not_after_s = 1795342830, .remaining_s = 0, .soon = true},
             {.option = "client-ca-file", .file = "/b.crt", .not_after_s = 1795342831, .remaining_s = 1, .soon = true},
             {.option = "peer-ca-file",
              .file = "/c.crt",
              .not_after_s = 1797934829,
              .remaining_s = 2591999,
              .soon = true},
             {.option = "etcd-cafile", .file = "/d.crt", .not_after_s = 1797934830, .remaining_s = 2592000}},
        .cluster = {.own_id = "apiserver-a",
                    .hostname = "cp-a",
                    .peers_enabled = true,
                    .synced = bad,
                    .generation = 5,
                    .merged_bytes = 6,
                    .never_from_peers = 7,
                    .skewed_ms = bad ? 90500 : UINT64_MAX,
                    .uneven_ms = bad ? 7200000 : UINT64_MAX,
                    .uneven = {.gvs = 5, .uneven = 2, .skewed = differ, .n_skewed = bad ? 2 : 0},
                    .identity = "observing"},
    };
    buf_init(&s->internals, ROOM);
    if (bad)
        buf_append_str(&s->internals, "{\"x\":1}");
    s->cluster.servers = mem_array(SERVERS, sizeof(servers[0]));
    if (s->cluster.servers == NULL)
        tap_bail("out of memory");
    memcpy(s->cluster.servers, servers, sizeof(servers));
    s->cluster.n = SERVERS;
}

static struct changes *happened(void)
{
    static const enum change_kind kinds[] = {CHANGE_CAME,      CHANGE_WENT,    CHANGE_FAILED,
                                             CHANGE_RECOVERED, CHANGE_CHANGED, CHANGE_DISBELIEVED};
    struct changes *c = changes_new();

    for (size_t i = 0; i < ROWS(kinds); i++) {
        clock_fake(600000000, NOW_US - 1000000 * (int64_t)(10 - i));
        changes_add(c, kinds[i], "cp-b", "number <%zu>", i);
    }
    changes_add(c, CHANGE_DISBELIEVED, "cp-b", "number <%u>", 5U);
    clock_fake(600000000, NOW_US);
    return c;
}

/* The first bucket and the last; one of a hundred is seen, too. */
static const struct traffic *went_by(void)
{
    static struct traffic t;

    for (unsigned i = 0; i < 100; i++)
        traffic_add(&t, 15000, ROUTE_ROW_PEER, i < 50 ? 200 : 500);
    traffic_add(&t, 25000, ROUTE_ROW_PEER, 0);
    traffic_add(&t, 600000, ROUTE_ROW_LOCAL_FAILOVER, 200);
    return &t;
}

/* ---- the golden file ---- */

static void put_page(const struct status *s, unsigned refresh_s, struct buf *out)
{
    struct status_page *p = status_page_begin(s, refresh_s, out);

    if (p == NULL)
        tap_bail("out of memory");
    while (status_page_more(p, out))
        ;
    status_page_free(p);
}

/* What the page's style is allowed by: its digest, and none of its text in the golden file. */
static void check_style(struct buf *page)
{
    unsigned char digest[HASH_SHA256_BYTES];
    char *begin, *end;
    struct buf want, policy;

    buf_append_char(page, '\0');
    begin = strstr(page->p, "<style>") + 7;
    end = strstr(begin, "</style>");
    buf_init(&want, ROOM);
    buf_init(&policy, ROOM);
    buf_append_str(&want, "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors "
                          "'none'; style-src 'sha256-");
    if (!hash_sha256(slice_of(begin, (size_t)(end - begin)), digest) ||
        !base64_append(&want, slice_of((const char *)digest, sizeof(digest))))
        tap_bail("no digest");
    buf_append_str(&want, "'");
    buf_append_char(&want, '\0');
    status_page_policy(&policy);
    is_slice(buf_slice(&policy), want.p, "the policy allows the page's style");
    buf_free(&want);
    buf_free(&policy);
    memmove(begin, end, strlen(end) + 1);
    page->end = page->start + strlen(page->p);
}

static void put_state(const char *name, bool bad, struct buf *out)
{
    struct changes *c = bad ? happened() : changes_new();
    static const struct traffic none;
    struct status s;
    struct buf page;

    buf_init(&page, ROOM);
    make(&s, c, bad ? went_by() : &none, bad);
    buf_printf(out, "== %s: text\n", name);
    status_text(&s, out);
    buf_printf(out, "== %s: JSON\n", name);
    status_json(&s, out);
    buf_printf(out, "\n== %s: page\n", name);
    put_page(&s, bad ? 5 : 0, &page);
    check_style(&page);
    buf_append_str(out, page.p);
    buf_free(&page);
    status_end(&s);
    changes_free(c);
}

static void compare(struct slice got, struct slice want)
{
    struct slice a, b;
    size_t line = 0;
    bool same = true;

    while (same && got.n + want.n > 0) {
        a = b = SLICE_NONE;
        (void)slice_split(&got, '\n', &a);
        (void)slice_split(&want, '\n', &b);
        same = slice_eq(a, b);
        line++;
    }
    if (!ok(same, "all as in pages.golden"))
        diag("line %zu: \"%.*s\"\ninstead of \"%.*s\"", line, (int)a.n, a.p, (int)b.n, b.p);
}

int main(void)
{
    static char golden[ROOM];
    const char *top = getenv("top_srcdir");
    bool update = getenv("MVPROXY_UPDATE_GOLDEN") != NULL;
    char path[4096];
    struct buf out;
    FILE *f;

    clock_fake(600000000, NOW_US);
    buf_init(&out, ROOM);
    put_state("unwell", true, &out);
    put_state("well", false, &out);
    (void)snprintf(path, sizeof(path), "%s/tests/unit/admin/pages.golden", top == NULL ? "." : top);
    f = fopen(path, update ? "w" : "r");
    if (f == NULL)
        tap_bail("%s", path);
    if (update)
        (void)fwrite(buf_slice(&out).p, 1, buf_len(&out), f);
    else
        compare(buf_slice(&out), slice_of(golden, fread(golden, 1, sizeof(golden) - 1, f)));
    (void)fclose(f);
    buf_free(&out);
    return tap_end();
}
