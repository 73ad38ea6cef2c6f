/* SPDX-License-Identifier: Apache-2.0 */
/* One reading of a server's discovery, against a server of which each answer is the test's: what is made of it, and
 * what is still asked. */
#include "cluster/disco_fetch.h"

#include <stdio.h>

#include "base/buf.h"
#include "cluster/api.h"
#include "kube/user.h"
#include "lib/tap.h"
#include "sim/cluster_kit.h"

#define V2 "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
#define JSON "application/json"
#define HOP "apiserver-scg43bmblmfhqplxpiyqlziyzi"
#define DOCUMENT(form, groups)                                                                                         \
    "{\"kind\":\"APIGroupDiscoveryList\",\"apiVersion\":\"apidiscovery.k8s.io/" form                                   \
    "\",\"metadata\":{},\"items\":[" groups "]}"
#define EMPTY DOCUMENT("v2", "")
#define ONE                                                                                                            \
    DOCUMENT("v2", "{\"metadata\":{\"name\":\"a\"},\"versions\":[{\"version\":\"v1\",\"resources\":["                  \
                   "{\"resource\":\"things\",\"responseKind\":{\"group\":\"\",\"version\":\"\",\"kind\":\"Thing\"},"   \
                   "\"scope\":\"Namespaced\",\"singularResource\":\"\",\"verbs\":[\"get\"]}],"                         \
                   "\"freshness\":\"Current\"}]}")
#define NO_GROUPS "{\"kind\":\"APIGroupList\",\"groups\":[]}"
#define TWO_GROUPS                                                                                                     \
    "{\"kind\":\"APIGroupList\",\"groups\":[{\"name\":\"a\",\"versions\":[{\"groupVersion\":\"a/v1\",\"version\":"     \
    "\"v1\"}]},{\"name\":\"b\",\"versions\":[{\"groupVersion\":\"b/v1\",\"version\":\"v1\"}]}]}"
#define THINGS(gv)                                                                                                     \
    "{\"kind\":\"APIResourceList\",\"groupVersion\":\"" gv "\",\"resources\":[{\"name\":\"things\",\"kind\":"          \
    "\"Thing\",\"namespaced\":true,\"singularName\":\"\",\"verbs\":[\"get\"]}]}"
#define INDEX                                                                                                          \
    "{\"paths\":{\"apis/c/v1\":{\"serverRelativeURL\":\"/openapi/v3/apis/c/v1?hash=1\"},\"api/v1\":{"                  \
    "\"serverRelativeURL\":\"/openapi/v3/api/v1?hash=2\"}}}"

enum { ANSWERS = 24, TIMEOUT_MS = 10000 };

enum how { AT_ONCE, HELD, LOST };

struct answer {
    const char *path;
    unsigned status;
    const char *type, *etag, *body;
    enum how how;
    bool of_mvproxy; /* an mvproxy says it, of itself: without its mark */
    unsigned asked;
    struct sim_request *held;
};

struct story {
    struct cluster_kit w;
    struct api *api;
    struct sim_server *sim;
    struct origin *origin;
    struct answer answers[ANSWERS];
    const char *hop; /* the mark of the mvproxy before the server */
    struct slice if_none_match[2];
    char tags[2][600];
    /* What came of it. */
    unsigned called;
    struct disco_fetch_result r;
    struct disco *disco;
    char failure[600], core_etag[600], apis_etag[600];
    size_t open; /* requests, when it did */
};

/* ---- the server ---- */

static struct answer *answer_to(struct story *s, struct slice path)
{
    for (size_t i = 0; i < ANSWERS; i++)
        if (s->answers[i].path != NULL && slice_eq(path, slice_str(s->answers[i].path)))
            return &s->answers[i];
    return NULL;
}

static void reply(struct story *s, struct answer *a, struct sim_request *q)
{
    bool marked = sim_header(q, USER_MARK_REROUTED).p != NULL;

    sim_reply(q, a->status, a->type, a->etag, slice_str(a->body));
    if (s->hop != NULL && marked && !a->of_mvproxy)
        sim_field(q, USER_HOP, s->hop);
}

static void serve(void *arg, struct sim_request *q)
{
    struct story *s = arg;
    struct answer *a = answer_to(s, sim_path(q));
    struct slice known = sim_header(q, "If-None-Match");
    bool apis = slice_eq(sim_path(q), SLICE_LIT("/apis"));

    if (apis || slice_eq(sim_path(q), SLICE_LIT("/api")))
        (void)snprintf(s->tags[apis], sizeof(s->tags[apis]), "%.*s", (int)known.n, known.p == NULL ? "" : known.p);
    if (a == NULL) {
        sim_reply(q, 404, JSON, NULL, SLICE_LIT("{}"));
        return;
    }
    a->asked++;
    if (a->how == HELD)
        a->held = q;
    else if (a->how == LOST)
        sim_fail(q);
    else
        reply(s, a, q);
}

static void gone(void *arg, struct sim_request *q)
{
    struct story *s = arg;

    for (size_t i = 0; i < ANSWERS; i++)
        if (s->answers[i].held == q)
            s->answers[i].held = NULL;
}

/* As a row of s->answers; the same path again replaces it. */
static void will(struct story *s, const char *path, unsigned status, const char *type, const char *body)
{
    struct answer *a = answer_to(s, slice_str(path));

    for (size_t i = 0; a == NULL && i < ANSWERS; i++)
        if (s->answers[i].path == NULL)
            a = &s->answers[i];
    if (a == NULL)
        tap_bail("too many answers");
    *a = (struct answer){.path = path, .status = status, .type = type, .body = body};
}

static void let(struct story *s, const char *path)
{
    struct answer *a = answer_to(s, slice_str(path));

    if (a == NULL || a->held == NULL)
        tap_bail("%s is not asked for", path);
    reply(s, a, a->held);
    sim_run_ms(s->w.loop, 20);
}

static void lose(struct story *s, const char *path)
{
    struct answer *a = answer_to(s, slice_str(path));

    if (a == NULL || a->held == NULL)
        tap_bail("%s is not asked for", path);
    sim_fail(a->held);
    sim_run_ms(s->w.loop, 20);
}

static unsigned asked(struct story *s, const char *path)
{
    return answer_to(s, slice_str(path))->asked;
}

/* ---- a reading ---- */

static void begin(struct story *s)
{
    memset(s, 0, sizeof(*s));
    cluster_kit_init(&s->w, KIT_BASE);
    s->api = cluster_kit_api(&s->w, s->w.origin);
    s->sim = sim_server_new(s->w.back, s->w.loop, "10.0.0.9:6443", serve, s);
    s->sim->gone = gone;
    s->origin = cluster_kit_origin(s->w.back, "other", "10.0.0.9");
    will(s, "/api", 200, V2, EMPTY);
    will(s, "/apis", 200, V2, ONE);
}

static void end(struct story *s)
{
    disco_unref(s->disco);
    origin_unref(s->origin);
    api_free(s->api);
    cluster_kit_end(&s->w);
}

static void on_end(void *arg, const struct disco_fetch_result *r)
{
    struct story *s = arg;

    s->called++;
    s->r = *r;
    (void)snprintf(s->failure, sizeof(s->failure), "%s", r->failure == NULL ? "" : r->failure);
    (void)snprintf(s->core_etag, sizeof(s->core_etag), "%.*s", (int)r->core_etag.n, r->core_etag.p);
    (void)snprintf(s->apis_etag, sizeof(s->apis_etag), "%.*s", (int)r->apis_etag.n, r->apis_etag.p);
    if (r->disco != NULL) {
        disco_unref(s->disco);
        s->disco = disco_ref(r->disco);
    }
    s->open = sim_open(s->w.back);
}

static struct disco_fetch *start(struct story *s)
{
    const struct disco_fetch_opts o = {.api = s->api,
                                       .origin = s->origin,
                                       .peer = true,
                                       .last = s->disco,
                                       .core_etag = slice_str(s->core_etag),
                                       .apis_etag = slice_str(s->apis_etag),
                                       .timeout_ms = TIMEOUT_MS};
    struct disco_fetch *f = disco_fetch_start(&o, on_end, s);

    if (f == NULL)
        tap_bail("out of memory");
    s->called = 0;
    return f;
}

static void read_it(struct story *s)
{
    (void)start(s);
    is_u64(s->called, 0, "not called from inside");
    sim_run_ms(s->w.loop, 200);
    is_u64(s->called, 1, "called once");
}

static bool served(const struct story *s, const char *group)
{
    const struct gvr things = {slice_str(group), SLICE_LIT("v1"), SLICE_LIT("things")};

    return disco_resource(s->disco, &things) != NULL;
}

static bool is_stale(const struct story *s, const char *group)
{
    return disco_gv(s->disco, slice_str(group), SLICE_LIT("v1")) == DISCO_GV_STALE;
}

/* ---- forms ---- */

static void types(void)
{
    static const struct {
        const char *type, *body, *failure;
    } rows[] = {
        {V2, ONE, NULL},
        {"application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList", DOCUMENT("v2beta1", ""), NULL},
        {"x=y; as=APIGroupDiscoveryList ;v=v2; g=apidiscovery.k8s.io;Application/JSON", ONE, NULL},
        /* One part is missing: the legacy form, which this is none of. */
        {"application/json;v=v2;as=APIGroupDiscoveryList", ONE, "not an APIGroupList"},
        {"application/json;g=apidiscovery.k8s.io;as=APIGroupDiscoveryList", ONE, "not an APIGroupList"},
        {"application/json;g=apidiscovery.k8s.io;v=v3;as=APIGroupDiscoveryList", ONE, "not an APIGroupList"},
        {"application/json;g=apidiscovery.k8s.io;v=v2", ONE, "not an APIGroupList"},
        {"application/json;g=apidiscovery.k8s.io;v=v2;as=Another", ONE, "not an APIGroupList"},
        {"application/json", NO_GROUPS, NULL},
        {"g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", ONE, "the answer is not JSON"},
        {"application/yaml;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", ONE, "the answer is not JSON"},
        {"text/html", "<html>", "the answer is not JSON"},
        {"", ONE, "the answer is not JSON"},
        {V2, "", "/apis: empty answer"},
        {V2, "{", " at byte "},
        {V2, NO_GROUPS, "APIGroupDiscoveryList"},
        {JSON, "{", " at byte "},
        {JSON, "", "/apis: empty answer"},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        struct story s;

        begin(&s);
        will(&s, "/apis", 200, rows[i].type, rows[i].body);
        read_it(&s);
        if (rows[i].failure == NULL)
            is_int(s.r.outcome, DISCO_CHANGED, "type %zu: read (%s)", i, s.failure);
        else
            ok(s.r.outcome == DISCO_FAILED && strstr(s.failure, rows[i].failure) != NULL, "type %zu: %s", i, s.failure);
        is_u64(s.r.failed_paths, rows[i].failure != NULL, "of one of two");
        is_u64(s.r.refused, 0, "not refused");
        end(&s);
    }
}

/* Whole lists in legacy form have their ceiling. */
static void too_large(void)
{
    struct story s;
    struct buf body;

    buf_init(&body, 16 << 20);
    buf_append_str(&body, "{\"kind\":\"APIGroupList\",");
    while (buf_len(&body) <= (8 << 20) + 100)
        buf_append_str(&body, "                                                                ");
    buf_append_str(&body, "\"groups\":[]}");
    buf_append_char(&body, '\0');
    begin(&s);
    will(&s, "/apis", 200, JSON, body.p + body.start);
    read_it(&s);
    ok(s.r.outcome == DISCO_FAILED && strcmp(s.failure, "the legacy document is over 8388608 bytes") == 0, "%s",
       s.failure);
    end(&s);
    buf_free(&body);
}

static void statuses(void)
{
    static const struct {
        unsigned api, apis;
        const char *failure;
        unsigned refused, failed;
    } rows[] = {
        {200, 404, "/apis: answered 404", 0, 1},
        {404, 404, "/apis: answered 404", 0, 1},
        {200, 401, "/apis: answered 401", 401, 1},
        {403, 200, "/api: answered 403", 403, 1},
        {403, 401, "answered 40", 403, 2},
        {500, 503, "answered 50", 0, 2},
        {500, 403, "answered", 403, 2},
        {304, 200, "/api: answered 304", 0, 1},
        {200, 402, "/apis: answered 402", 0, 1},
        {404, 200, NULL, 0, 0},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        struct story s;

        begin(&s);
        will(&s, "/api", rows[i].api, V2, EMPTY);
        will(&s, "/apis", rows[i].apis, V2, ONE);
        read_it(&s);
        if (rows[i].failure == NULL)
            ok(s.r.outcome == DISCO_CHANGED && disco_core(s.disco) == NULL && served(&s, "a"),
               "a server without a core group is one");
        else
            ok(s.r.outcome == DISCO_FAILED && strstr(s.failure, rows[i].failure) != NULL, "%u and %u: %s", rows[i].api,
               rows[i].apis, s.failure);
        is_u64(s.r.refused, rows[i].refused, "refused");
        is_u64(s.r.failed_paths, rows[i].failed, "so many failed");
        is_u64(s.r.requests, 2, "of two requests");
        end(&s);
    }
}

/* ---- again ---- */

static void conditionally(void)
{
    struct story s;
    static char long_tag[600];

    begin(&s);
    answer_to(&s, SLICE_LIT("/api"))->etag = "\"core\"";
    answer_to(&s, SLICE_LIT("/apis"))->etag = "\"apis\"";
    s.sim->connection = 41;
    read_it(&s);
    ok(s.r.outcome == DISCO_CHANGED && served(&s, "a") && !served(&s, "b"), "read");
    ok(strcmp(s.tags[0], "") == 0 && strcmp(s.tags[1], "") == 0, "without a condition");
    ok(strcmp(s.core_etag, "\"core\"") == 0 && strcmp(s.apis_etag, "\"apis\"") == 0, "with their tags");
    is_u64(s.r.core_connection, 41, "over which connection");
    will(&s, "/api", 304, V2, "");
    will(&s, "/apis", 304, V2, "");
    read_it(&s);
    is_int(s.r.outcome, DISCO_UNCHANGED, "both unchanged");
    ok(strcmp(s.tags[0], "\"core\"") == 0 && strcmp(s.tags[1], "\"apis\"") == 0, "asked with their tags");
    ok(strcmp(s.core_etag, "\"core\"") == 0 && strcmp(s.apis_etag, "\"apis\"") == 0, "which are still theirs");
    will(&s, "/apis", 200, V2, EMPTY);
    answer_to(&s, SLICE_LIT("/apis"))->etag = "\"other\"";
    read_it(&s);
    ok(s.r.outcome == DISCO_CHANGED && !served(&s, "a") && disco_core(s.disco) != NULL, "one is another");
    ok(strcmp(s.core_etag, "\"core\"") == 0 && strcmp(s.apis_etag, "\"other\"") == 0, "with its tag");
    memset(long_tag, 'x', 512);
    answer_to(&s, SLICE_LIT("/apis"))->etag = long_tag;
    read_it(&s);
    is_int(s.r.outcome, DISCO_UNCHANGED, "the same bytes are no other document");
    is_str(s.apis_etag, "", "a tag of 512 bytes is none");
    long_tag[511] = '\0';
    read_it(&s);
    is_str(s.apis_etag, long_tag, "of 511 it is");
    long_tag[1] = '\0';
    read_it(&s);
    is_str(s.apis_etag, "x", "and of a single one");
    s.apis_etag[0] = '\0';
    will(&s, "/apis", 304, V2, "");
    read_it(&s);
    ok(s.r.outcome == DISCO_FAILED && strcmp(s.failure, "/apis: answered 304") == 0, "unchanged since nothing: %s",
       s.failure);
    will(&s, "/apis", 200, V2, DOCUMENT("v2", " "));
    s.core_etag[0] = '\0';
    will(&s, "/api", 404, V2, "");
    read_it(&s);
    ok(s.r.outcome == DISCO_CHANGED && disco_core(s.disco) == NULL, "no core group any more");
    read_it(&s);
    is_int(s.r.outcome, DISCO_UNCHANGED, "as before");
    will(&s, "/api", 200, V2, EMPTY);
    read_it(&s);
    ok(s.r.outcome == DISCO_CHANGED && disco_core(s.disco) != NULL, "it has one again");
    end(&s);
}

static void through_mvproxy(void)
{
    struct story s;

    begin(&s);
    s.hop = HOP;
    read_it(&s);
    ok(s.r.mvproxy, "both through an mvproxy");
    answer_to(&s, SLICE_LIT("/apis"))->of_mvproxy = true;
    read_it(&s);
    ok(!s.r.mvproxy, "one is not");
    will(&s, "/apis", 200, V2, ONE);
    answer_to(&s, SLICE_LIT("/api"))->of_mvproxy = true;
    read_it(&s);
    ok(!s.r.mvproxy, "the other is not");
    end(&s);
}

/* ---- in time ---- */

static void late(void)
{
    struct story s;

    for (unsigned which = 0; which < 3; which++) {
        begin(&s);
        if (which != 1)
            answer_to(&s, SLICE_LIT("/api"))->how = HELD;
        if (which != 0)
            answer_to(&s, SLICE_LIT("/apis"))->how = HELD;
        (void)start(&s);
        sim_run_ms(s.w.loop, TIMEOUT_MS - 10);
        is_u64(s.called, 0, "waited for");
        sim_run_ms(s.w.loop, 20);
        is_u64(s.called, 1, "to the deadline");
        is_int(s.r.outcome, DISCO_FAILED, "failed");
        is_u64(s.r.failed_paths, which == 2 ? 2 : 1, "what was not answered");
        is_u64(sim_open(s.w.back), 0, "and nothing is asked any more");
        end(&s);
    }
}

/* Each request is in time, all together are not. */
static void late_together(const char *root, const char *body, const char *next)
{
    struct story s;

    begin(&s);
    will(&s, root, 200, JSON, body);
    will(&s, next, 200, JSON, INDEX);
    answer_to(&s, slice_str(root))->how = HELD;
    answer_to(&s, slice_str(next))->how = HELD;
    (void)start(&s);
    sim_run_ms(s.w.loop, TIMEOUT_MS / 2);
    let(&s, root);
    sim_run_ms(s.w.loop, TIMEOUT_MS / 2);
    is_u64(s.called, 1, "over at the deadline of all");
    is_str(s.failure, "no complete answer in time", "for that reason");
    is_u64(s.r.failed_paths, 1, "one of them was complete");
    is_u64(sim_open(s.w.back), 0, "nothing is asked any more");
    end(&s);
}

struct turns {
    const struct loop *loop;
    uint64_t until;
};

static bool turned(void *arg)
{
    const struct turns *t = arg;

    return sim_turns(t->loop) >= t->until;
}

/* Given up after any turn: nobody is called any more. */
static void given_up(unsigned status)
{
    struct story s;
    unsigned n = 0;
    bool over = false;

    while (!over) {
        struct disco_fetch *f;
        struct turns t;

        begin(&s);
        will(&s, "/api", status, V2, EMPTY);
        f = start(&s);
        t = (struct turns){s.w.loop, sim_turns(s.w.loop) + n++};
        (void)sim_run_until(s.w.loop, TIMEOUT_MS, turned, &t);
        over = s.called > 0;
        if (!over) {
            disco_fetch_cancel(f);
            sim_run_ms(s.w.loop, TIMEOUT_MS);
            is_u64(s.called, 0, "given up after %u turns", n);
        }
        end(&s);
    }
    ok(n > 3, "over after %u turns", n);
}

/* ---- the legacy walk ---- */

static void begin_walk(struct story *s)
{
    begin(s);
    will(s, "/api", 200, JSON, "{\"kind\":\"APIVersions\",\"versions\":[\"v1\"]}");
    will(s, "/api/v1", 200, JSON, THINGS("v1"));
    will(s, "/apis", 200, JSON, TWO_GROUPS);
    will(s, "/openapi/v3", 200, JSON, INDEX);
    will(s, "/apis/a/v1", 200, JSON, THINGS("a/v1"));
    will(s, "/apis/b/v1", 200, JSON, THINGS("b/v1"));
    will(s, "/apis/c/v1", 200, JSON, THINGS("c/v1"));
}

static void walk(void)
{
    struct story s;

    begin_walk(&s);
    read_it(&s);
    ok(s.r.outcome == DISCO_CHANGED && served(&s, "") && served(&s, "a") && served(&s, "b") && served(&s, "c"),
       "all that the list and the index name: %s", s.failure);
    is_u64(s.r.requests, 7, "by seven requests");
    ok(strcmp(s.core_etag, "") == 0 && strcmp(s.apis_etag, "") == 0, "which has no tags");
    will(&s, "/openapi/v3", 404, JSON, "");
    read_it(&s);
    is_int(s.r.outcome, DISCO_UNCHANGED, "without an index what was known is asked for as well");
    is_u64(s.r.requests, 7, "once");
    will(&s, "/apis/c/v1", 404, JSON, "");
    will(&s, "/openapi/v3", 200, JSON, "garbage");
    read_it(&s);
    ok(s.r.outcome == DISCO_CHANGED && served(&s, "b") && !served(&s, "c") && !is_stale(&s, "c"),
       "and gone when it is");
    will(&s, "/api", 200, JSON, "{\"kind\":\"APIVersions\",\"versions\":[]}");
    will(&s, "/apis", 200, JSON, NO_GROUPS);
    will(&s, "/apis/a/v1", 404, JSON, "");
    will(&s, "/apis/b/v1", 404, JSON, "");
    read_it(&s);
    ok(s.r.outcome == DISCO_CHANGED && !served(&s, "") && !served(&s, "a"), "a server without any group: %s",
       s.failure);
    is_u64(s.r.requests, 5, "after it was asked for what it had");
    read_it(&s);
    is_int(s.r.outcome, DISCO_UNCHANGED, "and again");
    is_u64(s.r.requests, 3, "nothing more is asked for");
    end(&s);
}

/* Eight at once, each in a place of its own, and whichever is answered first makes room. */
static void many(void)
{
    enum { MANY = 13, AT_ONCE_MOST = 8 };
    static char paths[MANY][32], bodies[MANY][300];
    struct story s;
    struct buf list;
    unsigned answered = 0;

    begin_walk(&s);
    will(&s, "/openapi/v3", 404, JSON, "");
    buf_init(&list, 1 << 16);
    buf_append_str(&list, "{\"kind\":\"APIGroupList\",\"groups\":[");
    for (unsigned i = 0; i < MANY; i++) {
        buf_printf(&list, "%s{\"name\":\"g%u\",\"versions\":[{\"groupVersion\":\"g%u/v1\",\"version\":\"v1\"}]}",
                   i == 0 ? "" : ",", i, i);
        (void)snprintf(paths[i], sizeof(paths[i]), "/apis/g%u/v1", i);
        (void)snprintf(bodies[i], sizeof(bodies[i]), THINGS("g%u/v1"), i);
        will(&s, paths[i], 200, JSON, bodies[i]);
        answer_to(&s, slice_str(paths[i]))->how = HELD;
    }
    buf_append_str(&list, "]}");
    buf_append_char(&list, '\0');
    will(&s, "/apis", 200, JSON, list.p + list.start);
    (void)start(&s);
    sim_run_ms(s.w.loop, 50);
    is_u64(sim_open(s.w.back), AT_ONCE_MOST, "eight at once");
    while (answered < MANY) {
        unsigned i = MANY;

        while (i > 0 && answer_to(&s, slice_str(paths[i - 1]))->held == NULL)
            i--;
        if (i == 0)
            break;
        let(&s, paths[i - 1]);
        answered++;
        is_u64(sim_open(s.w.back), MANY - answered < AT_ONCE_MOST ? MANY - answered : AT_ONCE_MOST, "%u are answered",
               answered);
    }
    ok(s.called == 1 && s.r.outcome == DISCO_CHANGED, "all are: %s", s.failure);
    for (unsigned i = 0; i < MANY; i++)
        ok(asked(&s, paths[i]) == 1, "%s once", paths[i]);
    is_u64(s.r.requests, 4 + MANY, "so many requests");
    end(&s);
    buf_free(&list);
}

static void unavailable(void)
{
    static const struct {
        unsigned status;
        const char *body;
    } rows[] = {{503, ""}, {500, ""}, {200, "{"}, {200, "{\"kind\":\"Status\"}"}};

    for (size_t i = 0; i < ROWS(rows); i++) {
        struct story s;

        begin_walk(&s);
        will(&s, "/apis/b/v1", rows[i].status, JSON, rows[i].body);
        read_it(&s);
        ok(s.r.outcome == DISCO_CHANGED && served(&s, "a") && is_stale(&s, "b") && !is_stale(&s, "a"),
           "a group/version that answers %u is unavailable: %s", rows[i].status, s.failure);
        is_u64(s.r.requests, 10, "it is asked once more, between two looks at the list");
        is_u64(asked(&s, "/apis/a/v1"), 1, "what was answered is not");
        is_u64(asked(&s, "/apis/b/v1"), 2, "what was not is");
        is_u64(asked(&s, "/apis"), 3, "the list");
        end(&s);
    }
}

/* It was there at first, and is no more, or again, while its groups are asked for. */
static void back_amid(void)
{
    struct story s;

    begin_walk(&s);
    will(&s, "/apis/c/v1", 503, JSON, "");
    answer_to(&s, SLICE_LIT("/apis/c/v1"))->how = HELD;
    (void)start(&s);
    sim_run_ms(s.w.loop, 50);
    will(&s, "/apis", 503, JSON, "");
    let(&s, "/apis/c/v1");
    ok(s.called == 1 && s.r.outcome == DISCO_FAILED &&
           strstr(s.failure, "stopped serving discovery in the middle of it: no list any more") != NULL,
       "its list is gone: %s", s.failure);
    will(&s, "/apis", 200, JSON, TWO_GROUPS);
    (void)start(&s);
    sim_run_ms(s.w.loop, 50);
    answer_to(&s, SLICE_LIT("/apis"))->how = LOST;
    let(&s, "/apis/c/v1");
    ok(s.called == 1 && s.r.outcome == DISCO_FAILED && strstr(s.failure, "in the middle of it: ") != NULL &&
           strstr(s.failure, "no list") == NULL,
       "its list cannot be read: %s", s.failure);
    will(&s, "/apis", 200, JSON, TWO_GROUPS);
    (void)start(&s);
    sim_run_ms(s.w.loop, 50);
    answer_to(&s, SLICE_LIT("/apis"))->how = HELD;
    let(&s, "/apis/c/v1");
    will(&s, "/apis/c/v1", 200, JSON, THINGS("c/v1"));
    is_u64(s.called, 0, "the list is looked at");
    let(&s, "/apis");
    ok(s.called == 1 && s.r.outcome == DISCO_CHANGED && served(&s, "c") && !is_stale(&s, "c"),
       "it is back: asked once more: %s", s.failure);
    is_u64(s.r.requests, 9, "with one look");
    end(&s);
}

/* The server is in trouble, not a group of its: nothing more is asked, and what was known stays. */
static void fails_amid(void)
{
    static const char *const paths[] = {"/apis/a/v1", "/apis/b/v1", "/openapi/v3", "/api/v1"};

    for (size_t i = 0; i < ROWS(paths); i++) {
        struct story s;
        bool core = strcmp(paths[i], "/api/v1") == 0;

        begin_walk(&s);
        for (size_t k = 0; k < ANSWERS; k++)
            if (s.answers[k].path != NULL && strlen(s.answers[k].path) > sizeof("/apis") - 1)
                s.answers[k].how = HELD;
        (void)start(&s);
        sim_run_ms(s.w.loop, 50);
        is_u64(sim_open(s.w.back), 2, "one of each half");
        if (strncmp(paths[i], "/apis/", 6) == 0) {
            let(&s, "/openapi/v3");
            is_u64(sim_open(s.w.back), 4, "or all of one");
        }
        lose(&s, paths[i]);
        is_u64(sim_open(s.w.back), 1, "%s is lost: nothing more of that half is asked", paths[i]);
        is_u64(s.called, 0, "the other half goes on");
        sim_run_ms(s.w.loop, 50);
        if (core) {
            let(&s, "/openapi/v3");
            let(&s, "/apis/a/v1");
            let(&s, "/apis/b/v1");
            let(&s, "/apis/c/v1");
        } else {
            let(&s, "/api/v1");
        }
        ok(s.called == 1 && s.r.outcome == DISCO_FAILED && slice_has_prefix(slice_str(s.failure), slice_str(paths[i])),
           "it failed: %s", s.failure);
        is_u64(s.r.failed_paths, 1, "one half did");
        end(&s);
    }
}

/* An mvproxy says 503 of itself: its server has not been asked. */
static void said_by_mvproxy(void)
{
    static const char *const paths[] = {"/apis/a/v1", "/openapi/v3"};

    for (size_t i = 0; i < ROWS(paths); i++) {
        struct story s;

        begin_walk(&s);
        s.hop = HOP;
        will(&s, paths[i], 503, JSON, "");
        read_it(&s);
        ok(s.r.outcome == DISCO_CHANGED && s.r.mvproxy, "%s: 503 of the server is its word: %s", paths[i], s.failure);
        answer_to(&s, slice_str(paths[i]))->of_mvproxy = true;
        read_it(&s);
        ok(s.r.outcome == DISCO_FAILED && strstr(s.failure, paths[i]) != NULL &&
               strstr(s.failure, "answered 503") != NULL,
           "%s: not of the mvproxy: %s", paths[i], s.failure);
        will(&s, paths[i], 200, JSON, i == 0 ? THINGS("a/v1") : INDEX);
        answer_to(&s, slice_str(paths[i]))->of_mvproxy = true;
        read_it(&s);
        ok(s.r.outcome != DISCO_FAILED, "%s: 200 needs no mark: %s", paths[i], s.failure);
        s.hop = NULL;
        will(&s, paths[i], 503, JSON, "");
        read_it(&s);
        ok(s.r.outcome != DISCO_FAILED, "%s: nor does a bare server: %s", paths[i], s.failure);
        end(&s);
    }
}

/* ---- without memory ---- */

static bool attempt(struct story *s)
{
    const struct disco_fetch_opts o = {
        .api = s->api, .origin = s->origin, .peer = true, .last = s->disco, .timeout_ms = TIMEOUT_MS};
    struct disco_fetch *f = disco_fetch_start(&o, on_end, s);

    s->called = 0;
    if (f != NULL)
        sim_run_ms(s->w.loop, TIMEOUT_MS + 100);
    return f != NULL;
}

static void out_of_memory(bool walked)
{
    uint64_t calls = 0;
    unsigned none = 0, failed = 0;

    for (uint64_t n = 0; n <= calls; n++) {
        struct story s;
        bool began;

        if (walked)
            begin_walk(&s);
        else
            begin(&s);
        if (walked)
            will(&s, "/apis/b/v1", 503, JSON, "");
        calls = n == 0 ? mem_calls() : calls;
        mem_fail_nth(n);
        began = attempt(&s);
        mem_fail_nth(0);
        calls = n == 0 ? mem_calls() - calls : calls;
        none += !began;
        failed += began && s.r.outcome == DISCO_FAILED;
        if ((began && s.called != 1) ||
            (began && s.r.outcome == DISCO_FAILED && (s.failure[0] == '\0' || s.r.failed_paths == 0)) ||
            (n == 0 && s.r.outcome != DISCO_CHANGED) ||
            (began && s.r.outcome == DISCO_CHANGED && !(served(&s, "a") && (!walked || served(&s, "c")))))
            ok(false, "allocation %llu: called %u times: %s", (unsigned long long)n, s.called, s.failure);
        is_u64(sim_open(s.w.back), 0, "allocation %llu fails: nothing is left", (unsigned long long)n);
        end(&s);
    }
    ok(none > 2 && failed > 5, "%u did not begin, %u failed of %llu", none, failed, (unsigned long long)calls);
}

int main(void)
{
    types();
    too_large();
    statuses();
    conditionally();
    through_mvproxy();
    late();
    late_together("/apis", NO_GROUPS, "/openapi/v3");
    late_together("/api", "{\"kind\":\"APIVersions\",\"versions\":[\"v1\"]}", "/api/v1");
    given_up(200);
    given_up(404);
    walk();
    many();
    unavailable();
    back_amid();
    fails_amid();
    said_by_mvproxy();
    out_of_memory(false);
    out_of_memory(true);
    return tap_end();
}
