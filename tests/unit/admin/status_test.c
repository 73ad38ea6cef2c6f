/* SPDX-License-Identifier: Apache-2.0 */
/* The one status: what JSON, text and the first line say of the same state. */
#include "admin/status.h"

#include <json-c/json.h>
#include <stdio.h>

#include "admin/notices.h"
#include "admin/server_state.h"
#include "admin/status_page.h"
#include "base/changes.h"
#include "cluster/served.h"
#include "lib/tap.h"
#include "proxy/traffic.h"

static struct traffic traffic;

static struct served *nothing_served(void)
{
    struct served_input in = {.local_id = "apiserver-a", .local_host = "cp-a", .local_etag = {SLICE_LIT("")}};
    struct served *s = served_new(&in);

    if (s == NULL)
        tap_bail("out of memory");
    return s;
}

static void make(struct status *s, struct changes *c, bool ready)
{
    *s = (struct status){
        .ready = ready,
        .phase = "serving",
        .version = "1.2.3",
        .hostname = "cp-a",
        .up_ms = 3600000,
        .now_us = 1725603591000000,
        .reload_refused = "line 1: <nonsense>",
        .files_refused = "",
        .skewed_resources = "local",
        .changes = c,
        .traffic = &traffic,
        .served = nothing_served(),
        .n_failing = ready ? 0 : 1,
        .failing = {{.name = "local-apiserver", .why = "it is \"dead\"", .look = "its log"}},
        .n_certificates = 1,
        .certificates =
            {{.option = "tls-cert-file", .file = "/etc/x.crt", .not_after_s = 1725603592, .remaining_s = 1}},
        .cluster = {.own_id = "apiserver-a", .hostname = "cp-a", .identity = "observing"},
    };
    buf_init(&s->internals, 100);
    s->cluster.servers = mem_array(2, sizeof(s->cluster.servers[0]));
    if (s->cluster.servers == NULL)
        tap_bail("out of memory");
    s->cluster.n = 2;
    s->cluster.servers[0] = (struct cluster_server){.id = "apiserver-a",
                                                    .host = "cp-a",
                                                    .life = "local",
                                                    .local = true,
                                                    .holder = "",
                                                    .address = "127.0.0.1:6443",
                                                    .source = "configuration",
                                                    .version = "v1.34.0",
                                                    .emulated = "1.33",
                                                    .mvproxy = "",
                                                    .lease_ms = UINT64_MAX,
                                                    .answers = ready ? PULSE_ANSWERS : PULSE_UNREACHABLE,
                                                    .error = ready ? NULL : "refused",
                                                    .failing = !ready,
                                                    .error_ms = 2000,
                                                    .readiness = "ready"};
    s->cluster.servers[1] = (struct cluster_server){.id = "apiserver-b",
                                                    .host = "cp-b",
                                                    .life = "live",
                                                    .holder = "x",
                                                    .leased = true,
                                                    .address = "10.0.0.2:6443",
                                                    .source = "etcd",
                                                    .version = "",
                                                    .emulated = "",
                                                    .mvproxy = "0.1.0",
                                                    .has_mvproxy = true,
                                                    .lease_ms = 1500,
                                                    .discovery_ms = UINT64_MAX,
                                                    .ejected = true};
}

static struct json_object *parse(const struct status *s)
{
    struct json_object *o;
    struct buf out;

    buf_init(&out, 1 << 20);
    status_json(s, &out);
    buf_append_char(&out, '\0');
    o = json_tokener_parse(out.p);
    buf_free(&out);
    if (o == NULL)
        tap_bail("no JSON");
    return o;
}

/* "servers/1/hostname" */
static const char *at(struct json_object *o, const char *path)
{
    struct slice rest = slice_str(path), part;
    char name[64];

    while (slice_split(&rest, '/', &part)) {
        (void)snprintf(name, sizeof(name), "%.*s", (int)part.n, part.p);
        o = json_object_is_type(o, json_type_array) ? json_object_array_get_idx(o, (size_t)(name[0] - '0'))
                                                    : json_object_object_get(o, name);
    }
    return o == NULL ? "(none)" : json_object_get_string(o);
}

static void test_json(void)
{
    static const struct {
        const char *path, *want;
    } rows[] = {
        {"ready", "false"},
        {"notReady/0/check", "local-apiserver"},
        {"notReady/0/reason", "it is \"dead\""},
        {"notReady/0/look", "its log"},
        {"hostname", "cp-a"},
        {"config/lastReloadRefused", "line 1: <nonsense>"},
        {"config/lastFilesRefused", "(none)"},
        {"servers/0/state", "local, does not answer"},
        {"servers/0/emulatedVersion", "1.33"},
        {"servers/0/leaseAgeSeconds", "(none)"},
        {"servers/0/lastError", "refused"},
        {"servers/0/lastErrorAgeSeconds", "2.0"},
        {"servers/1/hostname", "cp-b"},
        {"servers/1/id", "apiserver-b"},
        {"servers/1/state", "live, ejected"},
        {"servers/1/leaseAgeSeconds", "1.5"},
        {"servers/1/discoveryAgeSeconds", "(none)"},
        {"servers/1/outlierEjected", "true"},
        {"servers/1/address", "10.0.0.2:6443"},
        {"servers/1/addressSource", "etcd"},
        {"certificates/0/remainingSeconds", "1"},
        {"changes/0/subject", "cp-b"},
        {"changes/0/kind", "failed"},
        {"disbelieved/0/text", "of nobody"},
        {"traffic/routes/0/route", "peer"},
        {"internals", "(none)"},
    };
    struct changes *c = changes_new();
    struct json_object *o;
    struct status s;

    changes_add(c, CHANGE_FAILED, "cp-b", "does not answer");
    changes_add(c, CHANGE_DISBELIEVED, "Lease", "of nobody");
    make(&s, c, false);
    traffic_add(&traffic, 0, ROUTE_ROW_PEER, 200);
    o = parse(&s);
    for (size_t i = 0; i < ROWS(rows); i++)
        is_str(at(o, rows[i].path), rows[i].want, "%s", rows[i].path);
    json_object_put(o);
    status_end(&s);
    changes_free(c);
}

static bool has(const struct buf *b, const char *text)
{
    return memmem(b->p, buf_len(b), text, strlen(text)) != NULL;
}

static void test_same(void)
{
    struct changes *c = changes_new();
    struct status_page *p;
    struct status s;
    struct buf out;

    buf_init(&out, 1 << 20);
    make(&s, c, false);
    status_text(&s, &out);
    ok(has(&out, "Not ready: local-apiserver: it is \"dead\"\n"), "the first line as text");
    ok(has(&out, "Server cp-a: local, does not answer, v1.34.0 as 1.33, 127.0.0.1:6443 (configuration), no Lease, "
                 "discovery 0.0s old, 0 in flight, for 2.0s: refused\n"),
       "a dead server");
    ok(has(&out, "Peers ejected: cp-b\n"), "who is ejected");
    buf_reset(&out);
    p = status_page_begin(&s, 0, &out);
    ok(has(&out, "<h1 class=\"bad\">Not ready: local-apiserver: it is &quot;dead&quot;</h1>"), "the same on the page");
    ok(has(&out, "local, does not answer") && has(&out, "refused"), "the same of the server");
    ok(has(&out, "line 1: &lt;nonsense&gt;"), "why the reload was refused, as text");
    status_page_free(p);
    status_end(&s);
    make(&s, c, true);
    buf_reset(&out);
    status_headline(&s, &out);
    is_slice(buf_slice(&out), "Ready", "all is well");
    status_end(&s);
    buf_free(&out);
    changes_free(c);
}

/* The worst comes first. */
static void test_words(void)
{
    static const struct {
        bool local, lapsed, silent, nowhere, failing, drained, ejected, left;
        const char *readiness, *leads_to, *error, *words;
        enum server_mood mood;
    } rows[] = {
        {.local = true, .silent = true, .failing = true, .words = "local, does not answer", .mood = SERVER_BAD},
        {.silent = true, .nowhere = true, .words = "live, does not answer", .mood = SERVER_BAD},
        {.silent = true, .lapsed = true, .words = "lapsed, does not answer", .mood = SERVER_BAD},
        {.nowhere = true, .failing = true, .words = "live, no address", .mood = SERVER_BAD},
        {.nowhere = true, .lapsed = true, .words = "lapsed, no address", .mood = SERVER_WARNING},
        {.local = true, .failing = true, .words = "local, discovery fails", .mood = SERVER_BAD},
        {.failing = true, .drained = true, .words = "live, discovery fails, drained", .mood = SERVER_BAD},
        {.silent = true,
         .drained = true,
         .ejected = true,
         .lapsed = true,
         .words = "lapsed, does not answer, drained, ejected",
         .mood = SERVER_BAD},
        {.failing = true, .lapsed = true, .words = "lapsed, discovery fails", .mood = SERVER_BAD},
        {.drained = true, .ejected = true, .words = "live, drained, ejected", .mood = SERVER_WARNING},
        {.drained = true, .lapsed = true, .words = "lapsed, drained", .mood = SERVER_WARNING},
        {.ejected = true, .words = "live, ejected", .mood = SERVER_WARNING},
        {.ejected = true, .lapsed = true, .words = "lapsed, ejected", .mood = SERVER_WARNING},
        {.local = true, .readiness = "starting", .words = "local, not ready", .mood = SERVER_WARNING},
        {.local = true, .readiness = "ready", .words = "local", .mood = SERVER_GOOD},
        {.local = true, .words = "local", .mood = SERVER_GOOD},
        {.readiness = "starting", .words = "live", .mood = SERVER_GOOD},
        {.lapsed = true, .words = "lapsed", .mood = SERVER_WARNING},
        {.lapsed = true, .left = true, .words = "left, forgotten in 4m12s", .mood = SERVER_WARNING},
        {.lapsed = true,
         .left = true,
         .silent = true,
         .ejected = true,
         .words = "left, forgotten in 4m12s, does not answer, ejected",
         .mood = SERVER_BAD},
        {.leads_to = "cp-c", .words = "live, its address leads to cp-c", .mood = SERVER_BAD},
        {.leads_to = "cp-c",
         .failing = true,
         .drained = true,
         .words = "live, its address leads to cp-c, drained",
         .mood = SERVER_BAD},
        {.leads_to = "a-host-name-of-more-than-thirty-two-letters",
         .words = "live, its address leads to a-host-name-of-more-than-thirty-",
         .mood = SERVER_BAD},
        {.leads_to = "cp-c", .silent = true, .words = "live, does not answer", .mood = SERVER_BAD},
        {.silent = true,
         .drained = true,
         .error = "TLS handshake: certificate refused: it has expired",
         .words = "live, certificate refused, drained",
         .mood = SERVER_BAD},
        {.silent = true,
         .ejected = true,
         .error = "127.0.0.1: the address is not allowed",
         .words = "live, address not in peer-allowed-cidrs, ejected",
         .mood = SERVER_BAD},
        {.silent = true, .error = "TLS handshake: cut", .words = "live, does not answer", .mood = SERVER_BAD},
        {.error = "TLS handshake: certificate refused: it has expired", .words = "live", .mood = SERVER_GOOD},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        const struct cluster_server s = {.local = rows[i].local,
                                         .life = rows[i].local    ? "local"
                                                 : rows[i].lapsed ? "lapsed"
                                                                  : "live",
                                         .answers = rows[i].silent ? PULSE_UNREACHABLE : PULSE_ANSWERS,
                                         .address = rows[i].nowhere ? NULL : "1.2.3.4:5",
                                         .failing = rows[i].failing,
                                         .drained = rows[i].drained,
                                         .ejected = rows[i].ejected,
                                         .left = rows[i].left,
                                         .forgotten_in_ms = 252000,
                                         .leads_to = rows[i].leads_to,
                                         .error = rows[i].error,
                                         .readiness = rows[i].readiness};
        char words[SERVER_STATE_BYTES];

        is_int(server_state(&s, words), rows[i].mood, "%s: mood", rows[i].words);
        is_str(words, rows[i].words, "row %zu", i);
    }
}

/* What text, JSON and page say of the same, word for word. */
static void in_all_views(struct status *s, const char *words)
{
    struct json_object *o = parse(s);
    struct status_page *p;
    struct buf out;

    buf_init(&out, 1 << 20);
    status_text(s, &out);
    ok(has(&out, words), "text: %s", words);
    buf_reset(&out);
    p = status_page_begin(s, 0, &out);
    while (status_page_more(p, &out))
        ;
    ok(has(&out, words), "page: %s", words);
    status_page_free(p);
    ok(strstr(json_object_to_json_string_ext(o, JSON_C_TO_STRING_NOSLASHESCAPE), words) != NULL, "JSON: %s", words);
    json_object_put(o);
    buf_free(&out);
}

/* A host name is what a Lease says, and whoever may write one says anything. */
static void test_forged(void)
{
    struct changes *c = changes_new();
    struct status s;
    struct buf out;

    make(&s, c, true);
    s.cluster.servers[1].host = "b\nServer cp-c: live, forged";
    s.cluster.servers[1].version = "v1\r\x1b]0;owned\x07";
    s.cluster.servers[1].error = "to \u202eleft \xc2\x9b \xff";
    changes_add(c, CHANGE_CHANGED, "\x1b[2J", "so\nReady");
    buf_init(&out, 1 << 20);
    status_text(&s, &out);
    ok(!has(&out, "\nServer cp-c") && !has(&out, "\nReady"), "no line of its own");
    ok(has(&out, "\nServer b?Server cp-c: live, forged: "), "but in its server's");
    ok(has(&out, " v1??]0;owned?"), "a version");
    ok(has(&out, "to ?left ? ?\n"), "an error");
    ok(has(&out, "Z changed ?[2J so?Ready\n"), "a change");
    buf_reset(&out);
    out.ceiling = 40;
    status_text(&s, &out);
    ok(out.failed, "too long is a failure");
    buf_free(&out);
    status_end(&s);
    changes_free(c);
}

/* All that is told of a server, each with a value that nothing else has. */
static void test_members(void)
{
    static const char *const shown[] = {"cp-z",           "live, drained, ejected", "v1.35.7",    "1.34",
                                        "0.9.8",          "192.0.2.77:6443",        "by carrier", "no route to it",
                                        "/etc/own/z.crt", "client-ca-file"};
    static const struct {
        const char *text, *page, *json;
    } told[] = {{"Lease 17s old", "<td>17s</td>", "\"leaseAgeSeconds\":17.0"},
                {"discovery 23s old", "<td>23s<br>", "\"discoveryAgeSeconds\":23.0"},
                {"41 in flight", "<td>41</td>", "\"requestsInFlight\":41"},
                {"for 31s: no route", "</bdi> <small>31s ago", "\"lastErrorAgeSeconds\":31.0"},
                {"Peers ejected: cp-z", "ejected", "\"outlierEjected\":true"},
                {"in 59d23h: /etc/own", "59d23h", "\"notAfter\":\"2024-11-05T05:06:30.000000Z\""}};
    struct changes *c = changes_new();
    struct status s;
    struct buf text, json, page;
    struct status_page *p;

    make(&s, c, true);
    s.cluster.servers[1] = (struct cluster_server){.id = "apiserver-z",
                                                   .host = "cp-z",
                                                   .life = "live",
                                                   .holder = "z",
                                                   .leased = true,
                                                   .known = true,
                                                   .address = "192.0.2.77:6443",
                                                   .source = "by carrier",
                                                   .version = "v1.35.7",
                                                   .emulated = "1.34",
                                                   .mvproxy = "0.9.8",
                                                   .has_mvproxy = true,
                                                   .lease_ms = 17000,
                                                   .discovery_ms = 23000,
                                                   .error = "no route to it",
                                                   .error_ms = 31000,
                                                   .answers = PULSE_ANSWERS,
                                                   .ejected = true,
                                                   .drained = true,
                                                   .in_flight = 41};
    s.certificates[0] = (struct status_certificate){
        .option = "client-ca-file", .file = "/etc/own/z.crt", .not_after_s = 1730783190, .remaining_s = 5183990};
    for (size_t i = 0; i < ROWS(shown); i++)
        in_all_views(&s, shown[i]);
    buf_init(&text, 1 << 20);
    buf_init(&json, 1 << 20);
    buf_init(&page, 1 << 20);
    status_text(&s, &text);
    status_json(&s, &json);
    p = status_page_begin(&s, 0, &page);
    while (status_page_more(p, &page))
        ;
    for (size_t i = 0; i < ROWS(told); i++) {
        ok(has(&text, told[i].text), "text: %s", told[i].text);
        ok(has(&page, told[i].page), "page: %s", told[i].page);
        ok(has(&json, told[i].json), "JSON: %s", told[i].json);
    }
    status_page_free(p);
    buf_free(&text);
    buf_free(&json);
    buf_free(&page);
    status_end(&s);
    changes_free(c);
}

/* What somebody has to do, or has done and forgotten. */
static void test_operators(void)
{
    struct changes *c = changes_new();
    char notices[NOTICES][NOTICE_BYTES];
    struct status s;
    size_t before;

    make(&s, c, true);
    s.reload_refused = "";
    before = notices_of(&s, notices);
    s.reload_refused = "line 1";
    s.reload_refused_ms = 61000;
    is_u64(notices_of(&s, notices), before + 1, "one more");
    in_all_views(&s, "The last reload was refused (for 61s): the configuration in force is older than the file");
    s.files_refused = "no key";
    s.files_refused_ms = 172800000;
    in_all_views(&s,
                 "Changed certificate files were refused (for 2d0h): instead of these the earlier ones are in force");
    s.files_refused = "mvproxy.yaml:1:1: egress-selector-config-file: egress.yaml:6:20: not supported";
    in_all_views(&s,
                 "A changed egress configuration was refused (for 2d0h): instead of it the earlier one is in force");
    s.files_refused = "no key";
    s.headers_more = "requestheader-username-headers: X-Login is not configured here";
    in_all_views(&s,
                 "The API servers name headers for identities that requestheader-* does not, and they are removed from "
                 "requests: requestheader-username-headers: X-Login is not configured here");
    s.headers_more = NULL;
    s.doubts[0] = (struct status_doubt){"sockets", "move it", "a socket is elsewhere"};
    s.n_doubts = 1;
    in_all_views(&s, "Look at this: a socket is elsewhere: move it");
    s.n_doubts = 0;
    s.certificates[0].soon = true;
    s.certificates[0].remaining_s = 90000;
    in_all_views(&s, "The certificate of tls-cert-file expires in 25h0m");
    s.certificates[1] = (struct status_certificate){"etcd-cafile", "/ca", 1, -5, true};
    s.n_certificates = 2;
    in_all_views(&s, "The certificate of etcd-cafile has expired, and 1 more is to be renewed");
    s.certificates[2] = (struct status_certificate){"etcd-certfile", "/c", 9, 9, true};
    s.n_certificates = 3;
    in_all_views(&s, "The certificate of etcd-cafile has expired, and 2 more are to be renewed");
    s.certificates[2].remaining_s = -5;
    in_all_views(&s, "The certificate of etcd-cafile has expired, and 2 more are to be renewed");
    is_u64(notices_of(&s, notices), before + 3, "three, and nothing drained");
    s.cluster.servers[1].drained = true;
    in_all_views(&s, "Drained by an operator: cp-b");
    status_end(&s);
    changes_free(c);
}

static void test_unread(void)
{
    struct changes *c = changes_new();
    char skew[NOTICE_BYTES], notices[NOTICES][NOTICE_BYTES];
    struct status s;
    size_t before;

    make(&s, c, true);
    s.cluster.servers[1].answers = PULSE_UNREACHABLE;
    in_all_views(&s, "1 of 2 servers cannot be used: cp-b (live, does not answer, ejected)");
    in_all_views(&s, "Not known what these serve, whose discovery has not been read yet: cp-b");
    in_all_views(&s, "not known: 1 of 2 servers have never been read");
    s.cluster.custom_stale = true;
    s.cluster.never_from_peers = 3;
    in_all_views(&s, "Custom resources and aggregated APIs are Stale in discovery");
    s.cluster.custom_stale = false;
    s.cluster.servers[1].schemas_unusable = "it is over 8 MiB";
    in_all_views(&s, "/openapi/v3 is not merged with these, whose index of schemas cannot be used (it is over 8 MiB): "
                     "cp-b");
    s.cluster.servers[1].schemas_unusable = NULL;
    s.cluster.uneven.gvs = 20;
    s.cluster.servers[1].discovery_ms = 1000;
    s.cluster.skewed_ms = UINT64_MAX;
    s.cluster.uneven_ms = 200000;
    in_all_views(&s, "0 of 20 group/versions are not the same on all servers (for 3m20s), the schemas of 0 differ");
    before = notices_of(&s, notices);
    s.cluster.leases_failure = "list of leases: 500";
    s.cluster.leases_failure_ms = 14000;
    is_u64(notices_of(&s, notices), before, "a Lease is renewed every ten seconds: nothing is missed yet");
    s.cluster.leases_failure_ms = 153000;
    in_all_views(&s, "Identity Leases cannot be read, so who is live may be outdated (for 2m33s): list of leases: 500");
    s.cluster.leases_never = true;
    s.cluster.leases_failure_ms = 100;
    in_all_views(&s,
                 "Identity Leases have never been read, so which servers there are is not known (for 0.1s): list of "
                 "leases: 500");
    s.cluster.n = 1;
    in_all_views(&s, "not known: the identity Leases have never been read");
    s.client_memory_limit = 100 << 20;
    s.client_memory = 80 << 20;
    before = notices_of(&s, notices);
    s.client_memory++;
    is_u64(notices_of(&s, notices), before + 1, "from 80 percent on");
    in_all_views(&s, "Clients hold 80 of the 100 MiB of max-client-memory: close to it new requests get 429");
    s.client_memory = 75 << 20;
    is_u64(notices_of(&s, notices), before, "three quarters are none");
    s.memory_ended = 230;
    is_u64(notices_of(&s, notices), before + 1, "unless connections have just been ended for it");
    in_all_views(&s, "Clients hold 75 of the 100 MiB of max-client-memory: close to it new requests get 429, and the "
                     "connections that hold most are closed, 230 in the last minute");
    s.client_memory_limit = SIZE_MAX;
    is_u64(notices_of(&s, notices), before, "nor if there is no limit any more");
    s.client_memory_limit = 100 << 20;
    s.connections = 18;
    s.tunnels = 2;
    s.max_connections = 20;
    s.crowded = s.full = true;
    in_all_views(
        &s, "18 connections and 2 tunnels, of 20 that max-connections allows, and none can make room: new clients");
    s.connections = 1;
    s.tunnels = 0;
    s.full = false;
    in_all_views(&s, "1 connection and 0 tunnels, of 20 that max-connections allows: new clients had to wait less than "
                     "ten seconds ago, for none could make room");
    s.accept_failure = "Too many open files";
    in_all_views(&s, "New clients wait, or had to less than ten seconds ago, for none could be accepted: Too many");
    is_u64(notices_of(&s, notices), before + 3, "each is told for itself");
    (void)snprintf(s.peers_off, sizeof(s.peers_off), "peer-ca-file is not configured");
    in_all_views(&s, "Peers are not used: peer-ca-file is not configured");
    in_all_views(&s, "not known: peers are not used");
    notices_skew(&s, skew);
    is_str(skew, "not known: peers are not used", "and nothing else");
    status_end(&s);
    changes_free(c);
}

/* Some of several servers, and more of them, with longer names, than there is room for. */
static void test_many(void)
{
    enum { MANY = 100 };
    char host[254], notices[NOTICES][NOTICE_BYTES], skew[NOTICE_BYTES];
    struct cluster_server servers[MANY];
    struct status s = {.reload_refused = "",
                       .files_refused = "",
                       .cluster = {.servers = servers, .n = 3, .uneven_ms = 5100, .skewed_ms = 90000}};
    struct served_gv gv = {SLICE_LIT("apps"), SLICE_LIT("v1")};

    memset(host, 'x', sizeof(host) - 1);
    host[sizeof(host) - 1] = '\0';
    for (size_t i = 0; i < MANY; i++)
        servers[i] = (struct cluster_server){.id = "i", .host = host, .life = "live", .discovery_ms = UINT64_MAX};
    s.cluster.uneven = (struct comparison_result){.gvs = 9, .uneven = 2, .skewed = &gv, .n_skewed = 1};
    servers[0].discovery_ms = servers[1].discovery_ms = 1;
    notices_skew(&s, skew);
    is_str(skew,
           "2 of 9 group/versions are not the same on all servers that were read (for 5.1s), the schemas of 1 differ "
           "(for 90s); 1 of 3 servers have never been read",
           "of how many it is known");
    s.cluster.n = MANY;
    is_u64(notices_of(&s, notices), 2, "two notices");
    ok(strncmp(notices[0], "100 of 100 servers cannot be used: xxx", 38) == 0 &&
           strstr(notices[0],
                  "xxx (live, no address) and 92 more. Without an address: run mvproxy there, or name it in "
                  "the option peers here") != NULL,
       "those that cannot be used are counted, and what is to be done");
    ok(strstr(notices[1], "xxx and 90 more") != NULL, "and those that were never read");
    s.cluster.n = 1;
    servers[0].answers = PULSE_UNREACHABLE;
    is_u64(notices_of(&s, notices), 1, "one that is silent");
    ok(strstr(notices[0], "does not answer)") != NULL && strstr(notices[0], "Without") == NULL, "needs no address");
    s.cluster.n = 0;
    is_u64(notices_of(&s, notices), 0, "nothing to be known");
}

int main(void)
{
    test_operators();
    test_unread();
    test_many();
    test_forged();
    test_members();
    test_words();
    test_json();
    test_same();
    return tap_end();
}
