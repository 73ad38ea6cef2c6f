/* SPDX-License-Identifier: Apache-2.0 */
/* What mvproxyctl skew is told, text for text, in whatever pieces. */
#include "daemon/skew_view.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/metric.h"
#include "cluster/served.h"
#include "kube/disco.h"
#include "lib/disco_text.h"
#include "lib/tap.h"
#include "proxy/askers.h"
#include "proxy/insight.h"

enum { ROOM = 1 << 18, MOST_SERVERS = 40 };

/* Old and new serve different things, the last one has not said anything. */
#define REST                                                                                                           \
    "\"responseKind\":{\"group\":\"\",\"version\":\"v1\",\"kind\":\"K\"},\"scope\":\"Namespaced\","                    \
    "\"singularResource\":\"k\",\"verbs\":[\"get\"]}"
#define GROUP(name, resource)                                                                                          \
    "{\"metadata\":{\"name\":\"" name                                                                                  \
    "\"},\"versions\":[{\"version\":\"v1\",\"freshness\":\"Current\",\"resources\":[{\"resource\":\"" resource         \
    "\"," REST "]}]}"

/* Of apps/v1, with this hash, and of v1, the same everywhere. */
static struct schema_index *schemas_of(const char *hash)
{
    struct schema_index *x;
    char text[512];

    (void)snprintf(text, sizeof(text),
                   "{\"paths\":{\"apis/apps/v1\":{\"serverRelativeURL\":\"/openapi/v3/apis/apps/v1?hash=%s\"},"
                   "\"api/v1\":{\"serverRelativeURL\":\"/openapi/v3/api/v1?hash=same\"}}}",
                   hash);
    x = schema_index_parse(slice_str(text));
    if (x == NULL)
        tap_bail("no schemas");
    return x;
}

/* hashes: of the local server and of each peer; NULL: it has none. */
static bool peers_off; /* peers are not enabled */

static struct served *snapshot_of(const char *local_groups, const char *peer_groups, const char *const *hashes,
                                  size_t n)
{
    struct disco *older = disco_of_items(GROUP("", "pods"), local_groups);
    struct disco *newer = disco_of_items(GROUP("", "pods"), peer_groups);
    struct served_peer peers[MOST_SERVERS];
    struct schema_index *local = hashes[0] == NULL ? NULL : schemas_of(hashes[0]);
    char ids[MOST_SERVERS][16];
    struct served_input in = {.peers_enabled = !peers_off,
                              .leases_synced = true,
                              .local_id = "a",
                              .local_host = "cp-a",
                              .local = older,
                              .local_release = 1,
                              .local_schemas = local,
                              .peers = peers,
                              .n_peers = n - 1};
    struct served *s;

    for (size_t i = 0; i + 1 < n; i++) {
        (void)snprintf(ids[i], sizeof(ids[i]), "p%zu", i);
        peers[i] = (struct served_peer){.id = ids[i],
                                        .host = ids[i],
                                        .life = SERVED_LIVE,
                                        .discovery_known = i < 2,
                                        .disco = i < 2 ? newer : NULL,
                                        .release = i < 2 ? 2 : 0,
                                        .schemas = hashes[i + 1] == NULL ? NULL : schemas_of(hashes[i + 1])};
    }
    s = served_new(&in);
    if (s == NULL)
        tap_bail("out of memory");
    for (size_t i = 0; i + 1 < n; i++)
        schema_index_unref(peers[i].schemas);
    schema_index_unref(local);
    disco_unref(older);
    disco_unref(newer);
    return s;
}

static struct served *world(const char *const *hashes, size_t n)
{
    return snapshot_of(GROUP("apps", "deployments") "," GROUP("old", "olds"),
                       GROUP("apps", "deployments") "," GROUP("new", "news"), hashes, n);
}

/* Each piece takes what the clock gives it: with a frozen one as much as fits. */
static unsigned view(const struct skew_view_opts *o, struct buf *out)
{
    struct skew_view *v = skew_view_new(o);
    unsigned pieces = 0;
    bool more = true;

    if (v == NULL)
        tap_bail("out of memory");
    while (more) {
        struct buf piece;

        buf_init(&piece, ROOM);
        more = skew_view_more(v, &piece);
        buf_append(out, buf_slice(&piece));
        buf_free(&piece);
        pieces++;
    }
    skew_view_free(v);
    return pieces;
}

static void check(const struct skew_view_opts *o, const char *want, const char *name)
{
    struct buf out;

    buf_init(&out, ROOM);
    (void)view(o, &out);
    is_slice(buf_slice(&out), want, "%s", name);
    buf_free(&out);
}

#define SERVERS "{\"servers\":[\"cp-a\",\"p0\",\"p1\",\"p2\"],\"unread\":[\"p2\"],"
#define NEWS                                                                                                           \
    "{\"group\":\"new\",\"version\":\"v1\",\"resource\":\"news\",\"servedBy\":[\"no\",\"yes\",\"yes\",\"unknown\"]}"
#define OLDS                                                                                                           \
    "{\"group\":\"old\",\"version\":\"v1\",\"resource\":\"olds\",\"servedBy\":[\"yes\",\"no\",\"no\",\"unknown\"]}"
#define EVEN(group, resource)                                                                                          \
    "{\"group\":\"" group "\",\"version\":\"v1\",\"resource\":\"" resource                                             \
    "\",\"servedBy\":[\"yes\",\"yes\",\"yes\",\"unknown\"]}"

static void resources(struct insight *insight)
{
    static const char *const none[] = {NULL, NULL, NULL, NULL}, *const differ[] = {"x", "y", NULL, "x"};
    struct served *s = world(none, 4);
    struct skew_view_opts o = {.served = s,
                               .askers = insight_askers(insight),
                               .most_bytes = ROOM,
                               .skewed_ms = UINT64_MAX,
                               .uneven_ms = UINT64_MAX};

    check(&o, SERVERS "\"resources\":[" NEWS "," OLDS "],\"compared\":4,\"uneven\":2,\"partly\":[],\"schemas\":[]}",
          "what differs");
    o.all = true;
    check(&o,
          SERVERS "\"resources\":[" EVEN("", "pods") "," EVEN(
              "apps", "deployments") "," NEWS "," OLDS "],\"compared\":4,\"uneven\":2,\"partly\":[],\"schemas\":[]}",
          "all");
    served_unref(s);
    peers_off = true;
    o.served = s = world(none, 1);
    o.all = false;
    check(&o,
          "{\"servers\":[\"cp-a\"],\"unread\":[],\"peersEnabled\":false,\"resources\":[],\"compared\":3,\"uneven\":0,"
          "\"partly\":[],\"schemas\":[]}",
          "without peers, which is said");
    peers_off = false;
    served_unref(s);
    s = world(differ, 4);
    o = (struct skew_view_opts){
        .served = s, .askers = insight_askers(insight), .most_bytes = ROOM, .skewed_ms = 2500, .uneven_ms = 9500};
    o.skewed_resources = "newest";
    check(&o,
          "{\"servers\":[\"cp-a\",\"p0\",\"p1\",\"p2\"],\"skewedResources\":\"newest\",\"unread\":[\"p2\"],"
          "\"resources\":[" NEWS "," OLDS
          "],\"compared\":4,\"uneven\":2,\"unevenSeconds\":9.5,\"partly\":[],\"schemas\":["
          "{\"group\":\"apps\",\"version\":\"v1\",\"byServer\":[\"A\",\"B\",null,\"A\"]}],"
          "\"schemasDifferSeconds\":2.5}",
          "with schemas");
    served_unref(s);
}

#define KIND "\"responseKind\":{\"group\":\"\",\"version\":\"v1\",\"kind\":\"K\"}"
#define DEPLOYMENTS(verbs, subresources)                                                                               \
    "{\"metadata\":{\"name\":\"apps\"},\"versions\":[{\"version\":\"v1\",\"freshness\":\"Current\",\"resources\":["    \
    "{\"resource\":\"deployments\"," KIND ",\"scope\":\"Namespaced\",\"singularResource\":\"d\",\"verbs\":[" verbs     \
    "],\"subresources\":[" subresources "]}]}]}"
#define SUB(name, verbs) "{\"subresource\":\"" name "\"," KIND ",\"verbs\":[" verbs "]}"

/* All serve it, and not all of it; the order of verbs is nothing. */
static void partly(struct insight *insight)
{
    static const char *const none[] = {NULL, NULL};
    struct served *s =
        snapshot_of(DEPLOYMENTS("\"get\",\"delete\"", SUB("status", "\"get\",\"patch\"")),
                    DEPLOYMENTS("\"get\"", SUB("scale", "\"get\"") "," SUB("status", "\"get\"")), none, 2);
    struct skew_view_opts o = {.served = s,
                               .askers = insight_askers(insight),
                               .most_bytes = ROOM,
                               .skewed_ms = UINT64_MAX,
                               .uneven_ms = UINT64_MAX};

#define LACKING                                                                                                        \
    "{\"group\":\"apps\",\"version\":\"v1\",\"resource\":\"deployments\",\"servers\":[{\"server\":\"cp-a\","           \
    "\"newest\":false,\"lacks\":"                                                                                      \
    "["                                                                                                                \
    "\"/scale\"]},{\"server\":\"p0\",\"newest\":true,\"lacks\":[\"delete\",\"/status:patch\"]}]}"

    check(
        &o,
        "{\"servers\":[\"cp-a\",\"p0\"],\"unread\":[],\"resources\":[],\"compared\":2,\"uneven\":0,\"partly\":[" LACKING
        "],\"schemas\":[]}",
        "verbs and subresources");
    o.upgrade = true;
    check(&o,
          "{\"hours\":24,\"countedSeconds\":0.0,\"notedSeconds\":0.0,\"askersForgotten\":0,\"unread\":[],"
          "\"serversRead\":2,\"resources\":"
          "[],\"partly\":[" LACKING "]}",
          "of an upgrade, too");
    served_unref(s);
    s = snapshot_of(DEPLOYMENTS("\"get\",\"delete\"", ""), DEPLOYMENTS("\"delete\",\"get\"", ""), none, 2);
    o = (struct skew_view_opts){.served = s,
                                .askers = insight_askers(insight),
                                .most_bytes = ROOM,
                                .skewed_ms = UINT64_MAX,
                                .uneven_ms = UINT64_MAX};
    check(&o,
          "{\"servers\":[\"cp-a\",\"p0\"],\"unread\":[],\"resources\":[],\"compared\":2,\"uneven\":0,\"partly\":[],"
          "\"schemas\":[]}",
          "in another order");
    served_unref(s);
    o.served = s = snapshot_of(DEPLOYMENTS("\"get\",\"delete\"", ""), DEPLOYMENTS("\"get\"", ""), none, 2);
    check(&o,
          "{\"servers\":[\"cp-a\",\"p0\"],\"unread\":[],\"resources\":[],\"compared\":2,\"uneven\":0,\"partly\":["
          "{\"group\":\"apps\",\"version\":\"v1\",\"resource\":\"deployments\",\"servers\":["
          "{\"server\":\"cp-a\",\"newest\":false,\"lacks\":[]},{\"server\":\"p0\",\"newest\":true,\"lacks\":["
          "\"delete\"]}]}],\"schemas\":[]}",
          "the last one lacks something");
    served_unref(s);
}

/* Rows for which there is no room are counted: of resources, of schemas, of an upgrade. */
static void no_room(struct insight *insight)
{
    static const char *const differ[] = {"x", "y", NULL, "x"};
    struct served *s = world(differ, 4);
    struct skew_view_opts o = {
        .served = s, .askers = insight_askers(insight), .most_bytes = 80, .skewed_ms = 2500, .uneven_ms = UINT64_MAX};

    check(&o,
          SERVERS "\"resources\":[" NEWS "],\"compared\":4,\"uneven\":2,\"partly\":[],\"schemas\":[],"
                  "\"schemasDifferSeconds\":2.5,\"rowsLeftOut\":2}",
          "room for one row");
    o.most_bytes = 1;
    o.upgrade = true;
    check(&o,
          "{\"hours\":24,\"countedSeconds\":0.0,\"notedSeconds\":0.0,\"askersForgotten\":0,\"unread\":[\"p2\"],"
          "\"serversRead\":3,\"resources\":[],"
          "\"partly\":[],\"rowsLeftOut\":2}",
          "room for none");
    served_unref(s);
}

/* More schemas than letters: the last letter is everybody else's. */
static void many_schemas(struct insight *insight)
{
    const char *hashes[MOST_SERVERS];
    char texts[MOST_SERVERS][8];
    struct served *s;
    struct buf out;

    for (size_t i = 0; i < 28; i++) {
        (void)snprintf(texts[i], sizeof(texts[i]), "h%zu", i);
        hashes[i] = texts[i];
    }
    s = world(hashes, 28);
    buf_init(&out, ROOM);
    (void)view(
        &(struct skew_view_opts){.served = s, .askers = insight_askers(insight), .most_bytes = ROOM, .skewed_ms = 0},
        &out);
    buf_append_char(&out, '\0');
    ok(strstr(buf_slice(&out).p, "[\"A\",\"B\",\"C\",") != NULL &&
           strstr(buf_slice(&out).p, "\"X\",\"Y\",\"Z\",\"Z\",\"Z\"]}") != NULL,
       "28 schemas: %s", strstr(buf_slice(&out).p, "schemas"));
    buf_free(&out);
    served_unref(s);
}

/* One differs for longer than all have been counted. */
static uint64_t since(const struct cluster *c, struct slice group, struct slice version)
{
    (void)c;
    (void)version;
    return slice_eq(group, SLICE_LIT("new")) ? 300 : 900;
}

static void upgrade(struct insight *insight)
{
    static const char *const none[] = {NULL, NULL, NULL, NULL};
    static const struct gvr old = {{"old", 3}, {"v1", 2}, {"olds", 4}}, near[] = {{{"new", 3}, {"v1", 2}, {"olds", 4}},
                                                                                  {{"old", 3}, {"v2", 2}, {"olds", 4}},
                                                                                  {{"old", 3}, {"v1", 2}, {"x", 1}}};
    struct served *s = world(none, 4);
    struct buf out;

    for (size_t i = 0; i < ROWS(near); i++)
        insight_note(insight, INSIGHT_OLD, &near[i],
                     &(struct asker_who){SLICE_LIT("other"), SLICE_LIT("other"), SLICE_NONE});
    insight_note(insight, INSIGHT_OLD, &old,
                 &(struct asker_who){SLICE_LIT("kubectl/1.30"), SLICE_LIT("eve"), SLICE_LIT("192.0.2.1")});
    clock_fake(1500000, 1000000);
    check(
        &(struct skew_view_opts){
            .served = s, .askers = insight_askers(insight), .most_bytes = ROOM, .uneven_ms = 700, .upgrade = true},
        "{\"hours\":24,\"countedSeconds\":0.5,\"notedSeconds\":0.5,\"askersForgotten\":0,\"unread\":[\"p2\"],"
        "\"serversRead\":3,\"resources\":[{\"group\":"
        "\"new\",\"version\":\"v1\",\"resource\":"
        "\"news\",\"servedBy\":\"new\",\"servers\":[\"p0\",\"p1\"],\"lackedBy\":[\"cp-a\"],\"requests\":0,"
        "\"requestsLately\":0,\"askers\":[]},"
        "{\"group\":\"old\",\"version\":\"v1\",\"resource\":\"olds\",\"servedBy\":\"old\",\"servers\":[\"cp-a\"],"
        "\"lackedBy\":[\"p0\",\"p1\"],\"requests\":1,\"requestsLately\":1,\"askers\":[{\"userAgent\":\"kubectl/"
        "1.30\",\"user\":\"eve\",\"address\":\"192.0.2.1\",\"requests\":1,"
        "\"requestsLately\":1,\"lastSeconds\":0.5}]}],\"partly\":[]}",
        "who asks for what goes");
    buf_init(&out, ROOM);
    (void)view(&(struct skew_view_opts){.served = s,
                                        .askers = insight_askers(insight),
                                        .most_bytes = ROOM,
                                        .uneven_ms = 700,
                                        .uneven_gv_ms = since,
                                        .upgrade = true},
               &out);
    buf_append_char(&out, '\0');
    ok(strstr(out.p, "\"new\",\"countedSeconds\":0.3,") != NULL &&
           strstr(out.p, "\"old\",\"countedSeconds\":0.5,") != NULL,
       "each has been counted since it differs: %s", out.p);
    buf_free(&out);
    served_unref(s);
}

/* Whatever fails, nothing is told that is not so: the piece has failed. */
static void out_of_memory(struct insight *insight)
{
    static const char *const differ[] = {"x", "y", NULL, "x"};
    struct served *s = world(differ, 4);
    const struct skew_view_opts o = {
        .served = s, .askers = insight_askers(insight), .most_bytes = ROOM, .skewed_ms = 0};
    unsigned begun = 0;
    uint64_t calls;
    struct buf whole;

    buf_init(&whole, ROOM);
    calls = mem_calls();
    (void)view(&o, &whole);
    calls = mem_calls() - calls - 1; /* one was for the whole text */
    for (uint64_t nth = 1; nth <= calls + 1; nth++) {
        struct skew_view *v;
        struct buf piece;
        bool told;

        buf_init(&piece, ROOM);
        mem_fail_nth(nth);
        v = skew_view_new(&o);
        while (v != NULL && skew_view_more(v, &piece) && !piece.failed)
            ;
        mem_fail_nth(0);
        begun += v != NULL;
        told = v != NULL && !piece.failed;
        is_int(told, nth > calls, "allocation %u of %u fails", (unsigned)nth, (unsigned)calls);
        if (told)
            ok(slice_eq(buf_slice(&piece), buf_slice(&whole)), "all is told, or nothing");
        skew_view_free(v);
        buf_free(&piece);
    }
    ok(begun > 2, "%u were begun", begun);
    buf_free(&whole);
    served_unref(s);
}

int main(void)
{
    struct metrics *metrics = metrics_new();
    struct insight *insight;

    clock_fake(1000000, 1000000);
    insight = insight_new(metrics);
    resources(insight);
    partly(insight);
    no_room(insight);
    many_schemas(insight);
    upgrade(insight);
    out_of_memory(insight);
    insight_free(insight);
    metrics_free(metrics);
    return tap_end();
}
