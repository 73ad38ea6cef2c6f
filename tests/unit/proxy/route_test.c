/* SPDX-License-Identifier: Apache-2.0
 * The decision table, row by row: every query before every snapshot; a query is a request.
 * Each cell is the decision that the design's table demands. */
#include "proxy/route.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "kube/disco.h"
#include "kube/status.h"
#include "lib/disco_text.h"
#include "lib/tap.h"
#include "unit/proxy/route_kit.h"

/* ---- documents, from lines "group/version resource verbs [subresource=verbs ...]"; verbs by letter ---- */

static void print_verbs(struct buf *b, const char *letters)
{
    static const struct {
        char letter;
        const char *verb;
    } verbs[] = {{'c', "create"}, {'d', "delete"}, {'D', "deletecollection"}, {'g', "get"},
                 {'l', "list"},   {'p', "patch"},  {'u', "update"},           {'w', "watch"}};
    const char *comma = "";

    buf_append_str(b, "\"verbs\":[");
    for (const char *l = letters; *l != '\0'; l++)
        for (size_t i = 0; i < ROWS(verbs); i++)
            if (verbs[i].letter == *l) {
                buf_printf(b, "%s\"%s\"", comma, verbs[i].verb);
                comma = ",";
            }
    buf_append_char(b, ']');
}

static void print_resource(struct buf *b, char *line)
{
    char *save = NULL, *name = strtok_r(line, " ", &save), *verbs = strtok_r(NULL, " ", &save), *sub;
    const char *comma = "";

    buf_printf(b, "{\"resource\":\"%s\",\"responseKind\":{\"group\":\"\",\"version\":\"\",\"kind\":\"K\"},", name);
    buf_append_str(b, "\"scope\":\"Namespaced\",\"singularResource\":\"\",");
    print_verbs(b, verbs);
    buf_append_str(b, ",\"subresources\":[");
    while ((sub = strtok_r(NULL, " ", &save)) != NULL) {
        char *eq = strchr(sub, '=');

        buf_printf(b, "%s{\"subresource\":\"%.*s\",", comma, (int)(eq - sub), sub);
        print_verbs(b, eq + 1);
        buf_append_char(b, '}');
        comma = ",";
    }
    buf_append_str(b, "]}");
}

/* Lines of one group/version stand together, and so do the versions of a group. */
static struct disco_doc *document(const char *const *lines, bool core)
{
    char gv[256] = "", group[256] = "";
    struct disco_doc *doc;
    struct buf b;
    bool first_group = true;

    buf_init(&b, 1 << 20);
    buf_append_str(
        &b,
        "{\"kind\":\"APIGroupDiscoveryList\",\"apiVersion\":\"apidiscovery.k8s.io/v2\",\"metadata\":{},\"items\":[");
    for (size_t i = 0; lines[i] != NULL; i++) {
        char line[256], *rest, *slash;

        (void)snprintf(line, sizeof(line), "%s", lines[i]);
        rest = strchr(line, ' ');
        *rest++ = '\0';
        slash = strchr(line, '/');
        if (core != (slash == line))
            continue;
        if (strcmp(gv, line) == 0) {
            buf_append_char(&b, ',');
        } else {
            char this_group[256];

            (void)snprintf(this_group, sizeof(this_group), "%.*s", (int)(slash - line), line);
            if (!first_group && strcmp(group, this_group) == 0)
                buf_append_str(&b, "]},");
            else
                buf_printf(&b, "%s{\"metadata\":{\"name\":\"%s\"},\"versions\":[", first_group ? "" : "]}]},",
                           this_group);
            buf_printf(&b, "{\"version\":\"%s\",\"freshness\":\"Current\",\"resources\":[", slash + 1);
            (void)snprintf(group, sizeof(group), "%s", this_group);
            (void)snprintf(gv, sizeof(gv), "%s", line);
            first_group = false;
        }
        print_resource(&b, rest);
    }
    buf_append_str(&b, first_group ? "]}" : "]}]}]}");
    doc = disco_doc_of(buf_slice(&b));
    buf_free(&b);
    return doc;
}

static struct disco *disco_of(const char *const *lines)
{
    return disco_of_docs(document(lines, true), document(lines, false));
}

static const char *const old_server[] = {
    "/v1 namespaces cdDglpuw finalize=u status=gpu",
    "/v1 nodes cdDglpuw proxy=cdgpu",
    "/v1 pods cdDglpuw exec=cg log=g status=gpu",
    "apps/v1 deployments cdDglpuw scale=gpu status=gpu",
    "apps/v1 controllerrevisions gl",
    "example.com/v1 widgets cdDglpuw",
    NULL,
};
/* The old one's, and what a newer version brings: a group, a version, a subresource, a verb. */
static const char *const new_server[] = {
    "/v1 namespaces cdDglpuw finalize=u status=gpu",
    "/v1 nodes cdDglpuw proxy=cdgpu",
    "/v1 pods cdDglpuw exec=cg log=g status=gpu resize=gpu",
    "apps/v1 deployments cdDglpuw scale=gpu status=gpu",
    "apps/v1 controllerrevisions cdDglpuw",
    "apps/v2 deployments cdDglpuw scale=gpu",
    "example.com/v1 widgets cdDglpuw",
    "example.com/v1 gadgets cdDglpuw",
    "resource.k8s.io/v1 deviceclasses cdDglpuw",
    "resource.k8s.io/v1 resourceclaims cdDglpuw status=gpu",
    NULL,
};

/* ---- snapshots ---- */

enum peer_kind { NEW, NEW_NO_ADDRESS, UNKNOWN, UNKNOWN_LAPSED, SILENT, OLD, NEW_LAPSED, END };

static const struct snapshot {
    char letter;
    const char *name;
    bool disabled, local_missing, local_refused, leases_missing;
    bool named; /* by stored APIServices: core/v1, apps/v1 and v2, resource.k8s.io/v1 */
    enum peer_kind peers[4];
} snapshots[] = {
    {.letter = 'd', .name = "gate off", .disabled = true, .peers = {NEW, END}},
    {.letter = 's', .name = "local discovery missing", .local_missing = true, .peers = {NEW, END}},
    {.letter = 't', .name = "Leases missing", .leases_missing = true, .peers = {END}},
    {.letter = '0', .name = "no peers", .peers = {END}},
    {.letter = '1', .name = "one newer peer", .peers = {NEW, END}},
    {.letter = '2', .name = "two newer peers and an old one", .peers = {NEW, OLD, NEW, END}},
    {.letter = 'a', .name = "newer peer without address", .peers = {NEW_NO_ADDRESS, END}},
    {.letter = 'b', .name = "two newer peers, one with an address", .peers = {NEW_NO_ADDRESS, NEW, END}},
    {.letter = 'u', .name = "live peer of unknown discovery", .named = true, .peers = {OLD, UNKNOWN, END}},
    {.letter = 'v', .name = "lapsed peer of unknown discovery", .named = true, .peers = {UNKNOWN_LAPSED, END}},
    {.letter = 'S', .name = "live peer that does not answer", .named = true, .peers = {SILENT, END}},
    {.letter = 'w', .name = "lapsed newer peer", .peers = {NEW_LAPSED, OLD, END}},
    {.letter = 'm', .name = "newer peer and one of unknown discovery", .named = true, .peers = {UNKNOWN, NEW, END}},
    {.letter = 'o', .name = "only an old peer", .peers = {OLD, END}},
    {.letter = 'B',
     .name = "local discovery refused",
     .local_missing = true,
     .local_refused = true,
     .peers = {NEW, END}},
    {.letter = 'W', .name = "only a lapsed peer", .peers = {NEW_LAPSED, END}},
};

static struct origin origins[4] = {{true}, {true}, {true}, {true}};

static void add_peer(struct served_peer *p, size_t i, enum peer_kind kind, struct disco *old, struct disco *newer)
{
    static const char *const ids[] = {"apiserver-a", "apiserver-b", "apiserver-c", "apiserver-d"};
    bool lapsed = kind == UNKNOWN_LAPSED || kind == NEW_LAPSED,
         unknown = kind == UNKNOWN || kind == UNKNOWN_LAPSED || kind == SILENT;

    p->id = ids[i];
    p->life = lapsed ? SERVED_LAPSED : SERVED_LIVE;
    p->discovery_known = !unknown;
    p->pending = kind == UNKNOWN;
    p->origin = kind == NEW_NO_ADDRESS ? NULL : &origins[i];
    p->disco = unknown ? NULL : kind == OLD ? old : newer;
}

static struct served *make_snapshot(const struct snapshot *known)
{
    static const struct slice excluded[] = {{"example.com/v1", sizeof("example.com/v1") - 1}};
    struct disco *old = disco_of(old_server), *newer = disco_of(new_server);
    struct served_peer peers[4] = {{0}};
    struct served_gv named[] = {{SLICE_LIT(""), SLICE_LIT("v1")},
                                {SLICE_LIT("apps"), SLICE_LIT("v1")},
                                {SLICE_LIT("apps"), SLICE_LIT("v2")},
                                {SLICE_LIT("resource.k8s.io"), SLICE_LIT("v1")}};
    struct served_input in = {
        .peers_enabled = !known->disabled,
        .leases_synced = !known->leases_missing,
        .local_id = "apiserver-local",
        .local = known->local_missing ? NULL : old,
        .local_read = true,
        .local_refused = known->local_refused,
        .peers = peers,
        .excluded = excluded,
        .n_excluded = 1,
        .undiscovered = named,
        .n_undiscovered = known->named ? ROWS(named) : 0,
    };
    struct served *s;

    for (; known->peers[in.n_peers] != END; in.n_peers++)
        add_peer(&peers[in.n_peers], in.n_peers, known->peers[in.n_peers], old, newer);
    s = served_new(&in);
    if (s == NULL)
        tap_bail("out of memory");
    disco_unref(old);
    disco_unref(newer);
    return s;
}

/* ---- the table ---- */

/* What a cell says, by letter. */
static const struct verdict {
    char letter;
    enum route_action action;
    enum route_row row;
    const char *message;
} verdicts[] = {
    {'d', ROUTE_LOCAL, ROUTE_ROW_DISABLED, NULL},
    {'n', ROUTE_LOCAL, ROUTE_ROW_NON_RESOURCE, NULL},
    {'D', ROUTE_DISCOVERY, ROUTE_ROW_NON_RESOURCE, NULL},
    {'H', ROUTE_HEAL, ROUTE_ROW_NON_RESOURCE, NULL},
    {'r', ROUTE_LOCAL, ROUTE_ROW_REROUTED, NULL},
    {'R', ROUTE_REFRESH, ROUTE_ROW_REROUTED, NULL},
    {'x', ROUTE_REFUSE, ROUTE_ROW_REROUTED, STATUS_REROUTED},
    {'s', ROUTE_REFUSE, ROUTE_ROW_NOT_SYNCED, STATUS_SYNCING},
    {'l', ROUTE_LOCAL, ROUTE_ROW_SERVED_LOCALLY, NULL},
    {'o', ROUTE_LOCAL, ROUTE_ROW_NO_PEERS, NULL},
    {'e', ROUTE_LOCAL, ROUTE_ROW_EXCLUDED, NULL},
    {'P', ROUTE_PEER, ROUTE_ROW_PEER, NULL},
    {'a', ROUTE_REFUSE, ROUTE_ROW_NO_ADDRESS, STATUS_NO_ENDPOINT},
    {'u', ROUTE_REFUSE, ROUTE_ROW_UNKNOWN_PEER, STATUS_PEER_UNKNOWN},
    {'z', ROUTE_LOCAL, ROUTE_ROW_NOBODY, NULL},
    {'B', ROUTE_LOCAL, ROUTE_ROW_FORBIDDEN, NULL},
    {'F', ROUTE_PEER, ROUTE_ROW_LOCAL_FAILOVER, NULL},
    {'Z', ROUTE_PEER, ROUTE_ROW_NOBODY, NULL},
};

/* The columns of `cells` are the snapshots above, in their order. */
/* clang-format off */
static const struct query {
    const char *method, *target;
    const char *cells;    /* from an ordinary client */
    const char *rerouted, *refreshed; /* with the loop mark, before and after the refresh */
} queries[] = {
    /*                                                        dst012abuvSwmoBW  */
    {"GET", "/api/v1/pods",                                  "dsllllllllllllBl", "dRrrrrrrrrrrrrBr", "dxrrrrrrrrrrrrBr"},
    {"HEAD", "/api/v1/namespaces/d/pods/x",                  "dsllllllllllllBl", "dRrrrrrrrrrrrrBr", "dxrrrrrrrrrrrrBr"},
    {"GET", "/api/v1/pods?watch=true",                       "dsllllllllllllBl", "dRrrrrrrrrrrrrBr", "dxrrrrrrrrrrrrBr"},
    {"GET", "/api/v1/watch/pods",                            "dsllllllllllllBl", "dRrrrrrrrrrrrrBr", "dxrrrrrrrrrrrrBr"},
    {"POST", "/api/v1/namespaces/d/pods",                    "dsllllllllllllBl", "dRrrrrrrrrrrrrBr", "dxrrrrrrrrrrrrBr"},
    {"DELETE", "/api/v1/namespaces/d/pods",                  "dsllllllllllllBl", "dRrrrrrrrrrrrrBr", "dxrrrrrrrrrrrrBr"},
    {"POST", "/api/v1/namespaces/d/pods/x/exec",             "dsllllllllllllBl", "dRrrrrrrrrrrrrBr", "dxrrrrrrrrrrrrBr"},
    {"GET", "/api/v1/namespaces/d/pods/x/log?follow=1",      "dsllllllllllllBl", "dRrrrrrrrrrrrrBr", "dxrrrrrrrrrrrrBr"},
    {"PUT", "/api/v1/namespaces/d/finalize",                 "dsllllllllllllBl", "dRrrrrrrrrrrrrBr", "dxrrrrrrrrrrrrBr"},
    {"PATCH", "/api/v1/namespaces/d/status",                 "dsllllllllllllBl", "dRrrrrrrrrrrrrBr", "dxrrrrrrrrrrrrBr"},
    {"GET", "/api/v1/proxy/nodes/n1",                        "dsllllllllllllBl", "dRrrrrrrrrrrrrBr", "dxrrrrrrrrrrrrBr"},
    {"OPTIONS", "/api/v1/pods",                              "dsllllllllllllBl", "dRrrrrrrrrrrrrBr", "dxrrrrrrrrrrrrBr"},
    {"GET", "/apis/apps/v1/deployments",                     "dsllllllllllllBl", "dRrrrrrrrrrrrrBr", "dxrrrrrrrrrrrrBr"},
    {"PUT", "/apis/apps/v1/namespaces/d/deployments/x/scale","dsllllllllllllBl", "dRrrrrrrrrrrrrBr", "dxrrrrrrrrrrrrBr"},
    {"GET", "/apis/apps/v1/controllerrevisions",             "dsllllllllllllBl", "dRrrrrrrrrrrrrBr", "dxrrrrrrrrrrrrBr"},
    /* a group that only newer servers have */
    {"GET", "/apis/resource.k8s.io/v1/deviceclasses",        "dssoPPaPuuuPPzBP", "dRRRRRRRRRRRRRBR", "dxxxxxxxxxxxxxBx"},
    {"GET", "/apis/resource.k8s.io/v1/deviceclasses?watch=1","dssoPPaPuuuPPzBP", "dRRRRRRRRRRRRRBR", "dxxxxxxxxxxxxxBx"},
    {"GET", "/apis/resource.k8s.io/v1/deviceclasses/x",      "dssoPPaPuuuPPzBP", "dRRRRRRRRRRRRRBR", "dxxxxxxxxxxxxxBx"},
    {"POST", "/apis/resource.k8s.io/v1/deviceclasses",       "dssoPPaPuuuPPzBP", "dRRRRRRRRRRRRRBR", "dxxxxxxxxxxxxxBx"},
    {"DELETE", "/apis/resource.k8s.io/v1/deviceclasses",     "dssoPPaPuuuPPzBP", "dRRRRRRRRRRRRRBR", "dxxxxxxxxxxxxxBx"},
    {"PATCH", "/apis/resource.k8s.io/v1/deviceclasses/x",    "dssoPPaPuuuPPzBP", "dRRRRRRRRRRRRRBR", "dxxxxxxxxxxxxxBx"},
    {"PUT", "/apis/resource.k8s.io/v1/namespaces/d/resourceclaims/x/status", "dssoPPaPuuuPPzBP", "dRRRRRRRRRRRRRBR", "dxxxxxxxxxxxxxBx"},
    /* a version, a subresource and a verb that only newer servers have */
    {"GET", "/apis/apps/v2/deployments",                     "dssoPPaPuuuPPzBP", "dRRRRRRRRRRRRRBR", "dxxxxxxxxxxxxxBx"},
    {"PATCH", "/api/v1/namespaces/d/pods/x/resize",          "dssoPPaPuuuPPzBP", "dRRRRRRRRRRRRRBR", "dxxzxxxxxxxxxzBx"},
    {"POST", "/apis/apps/v1/namespaces/d/controllerrevisions","dssoPPaPuuuPPzBP", "dRRRRRRRRRRRRRBR", "dxxzxxxxxxxxxzBx"},
    {"DELETE", "/api/v1/namespaces/d/pods/x/resize",         "dssoPPaPuuuPuzBP", "dRRRRRRRRRRRRRBR", "dxxzzzzzxxxzxzBz"},
    /* what nobody has */
    {"GET", "/apis/nobody.io/v1/things",                     "dssozzzzuzzzuzBz", "dRRRRRRRRRRRRRBR", "dxxxxxxxxxxxxxBx"},
    {"GET", "/apis/apps/v3/deployments",                     "dssozzzzuzzzuzBz", "dRRRRRRRRRRRRRBR", "dxxxxxxxxxxxxxBx"},
    {"GET", "/api/v1/namespaces/d/pods/x/nothing",           "dssozzzzuuuzuzBz", "dRRRRRRRRRRRRRBR", "dxxzzzzzxxxzxzBz"},
    {"GET", "/api/v1//pods",                                 "dssozzzzuuuzuzBz", "dRRRRRRRRRRRRRBR", "dxxxxxxxxxxxxxBx"},
    /* of a group/version that belongs to a CRD: never a peer's */
    {"GET", "/apis/example.com/v1/widgets",                  "dsllllllllllllBl", "dRrrrrrrrrrrrrBr", "dxrrrrrrrrrrrrBr"},
    {"GET", "/apis/example.com/v1/gadgets",                  "dssoeeeeeeeeeeBe", "dRRRRRRRRRRRRRBR", "dxxxxxxxxxxxxxBx"},
    /* not resources */
    {"GET", "/apis",                                         "dDDDDDDDDDDDDDDD", "dnnnnnnnnnnnnnnn", "dnnnnnnnnnnnnnnn"},
    {"HEAD", "/apis?timeout=32s",                            "dDDDDDDDDDDDDDDD", "dnnnnnnnnnnnnnnn", "dnnnnnnnnnnnnnnn"},
    {"POST", "/apis",                                        "dnnnnnnnnnnnnnnn", "dnnnnnnnnnnnnnnn", "dnnnnnnnnnnnnnnn"},
    {"GET", "/apis/",                                        "dHHHHHHHHHHHHHHH", "dnnnnnnnnnnnnnnn", "dnnnnnnnnnnnnnnn"},
    {"GET", "/api",                                          "dDDDDDDDDDDDDDDD", "dnnnnnnnnnnnnnnn", "dnnnnnnnnnnnnnnn"},
    {"HEAD", "/api?timeout=32s",                             "dDDDDDDDDDDDDDDD", "dnnnnnnnnnnnnnnn", "dnnnnnnnnnnnnnnn"},
    {"POST", "/api",                                         "dnnnnnnnnnnnnnnn", "dnnnnnnnnnnnnnnn", "dnnnnnnnnnnnnnnn"},
    {"GET", "/api/",                                         "dDDDDDDDDDDDDDDD", "dnnnnnnnnnnnnnnn", "dnnnnnnnnnnnnnnn"},
    {"GET", "/apis/resource.k8s.io/v1",                      "dHHHHHHHHHHHHHHH", "dnnnnnnnnnnnnnnn", "dnnnnnnnnnnnnnnn"},
    {"HEAD", "/apis/resource.k8s.io",                        "dHHHHHHHHHHHHHHH", "dnnnnnnnnnnnnnnn", "dnnnnnnnnnnnnnnn"},
    {"GET", "/apis/apps/v1",                                 "dHHHHHHHHHHHHHHH", "dnnnnnnnnnnnnnnn", "dnnnnnnnnnnnnnnn"},
    {"GET", "/api/v1",                                       "dHHHHHHHHHHHHHHH", "dnnnnnnnnnnnnnnn", "dnnnnnnnnnnnnnnn"},
    {"POST", "/apis/resource.k8s.io/v1",                     "dnnnnnnnnnnnnnnn", "dnnnnnnnnnnnnnnn", "dnnnnnnnnnnnnnnn"},
    {"GET", "/apis/resource.k8s.io/",                        "dHHHHHHHHHHHHHHH", "dnnnnnnnnnnnnnnn", "dnnnnnnnnnnnnnnn"},
    {"GET", "/apis//v1",                                     "dnnnnnnnnnnnnnnn", "dnnnnnnnnnnnnnnn", "dnnnnnnnnnnnnnnn"},
    {"GET", "/api/v1/",                                      "dHHHHHHHHHHHHHHH", "dnnnnnnnnnnnnnnn", "dnnnnnnnnnnnnnnn"},
    {"GET", "/openapi/v3",                                   "dHHHHHHHHHHHHHHH", "dnnnnnnnnnnnnnnn", "dnnnnnnnnnnnnnnn"},
    {"POST", "/openapi/v3",                                  "dnnnnnnnnnnnnnnn", "dnnnnnnnnnnnnnnn", "dnnnnnnnnnnnnnnn"},
    {"GET", "/openapi/v3/",                                  "dnnnnnnnnnnnnnnn", "dnnnnnnnnnnnnnnn", "dnnnnnnnnnnnnnnn"},
    {"GET", "/openapi/v2",                                   "dnnnnnnnnnnnnnnn", "dnnnnnnnnnnnnnnn", "dnnnnnnnnnnnnnnn"},
    {"GET", "/openapi/resource.k8s.io/v1",                   "dnnnnnnnnnnnnnnn", "dnnnnnnnnnnnnnnn", "dnnnnnnnnnnnnnnn"},
    {"GET", "/healthz",                                      "dnnnnnnnnnnnnnnn", "dnnnnnnnnnnnnnnn", "dnnnnnnnnnnnnnnn"},
    {"GET", "/openapi/v3/apis/resource.k8s.io/v1",           "dssnPPaPuuuPPnnP", "dnnnnnnnnnnnnnnn", "dnnnnnnnnnnnnnnn"},
    {"GET", "//apis/resource.k8s.io/v1/deviceclasses",       "dnnnnnnnnnnnnnnn", "dnnnnnnnnnnnnnnn", "dnnnnnnnnnnnnnnn"},
    {"OPTIONS", "*",                                         "dnnnnnnnnnnnnnnn", "dnnnnnnnnnnnnnnn", "dnnnnnnnnnnnnnnn"}};

/* While the local server cannot be reached, is starting, or failed the request: row 5a comes before all but 1 to 3. */
static const struct query failed_over[] = {
    /*                                                        dst012abuvSwmoBW  */
    {"GET", "/api/v1/pods",                                  "dFllFFlFFllFFFFF", "dRrrrrrrrrrrrrBr", "dxrrrrrrrrrrrrBr"},
    {"GET", "/api/v1/pods?watch=true",                       "dFllFFlFFllFFFFF", "dRrrrrrrrrrrrrBr", "dxrrrrrrrrrrrrBr"},
    {"POST", "/api/v1/namespaces/d/pods",                    "dFllFFlFFllFFFFF", "dRrrrrrrrrrrrrBr", "dxrrrrrrrrrrrrBr"},
    {"POST", "/api/v1/namespaces/d/pods/x/exec",             "dFllFFlFFllFFFFF", "dRrrrrrrrrrrrrBr", "dxrrrrrrrrrrrrBr"},
    {"GET", "/api/v1/namespaces/d/pods/x/log?follow=1",      "dFllFFlFFllFFFFF", "dRrrrrrrrrrrrrBr", "dxrrrrrrrrrrrrBr"},
    {"GET", "/apis/apps/v1/controllerrevisions",             "dFllFFlFFllFFFFF", "dRrrrrrrrrrrrrBr", "dxrrrrrrrrrrrrBr"},
    /* custom resources as well: also what the local server has not listed yet, if a live peer does */
    {"GET", "/apis/example.com/v1/widgets",                  "dFllFFlFFllFFFFF", "dRrrrrrrrrrrrrBr", "dxrrrrrrrrrrrrBr"},
    {"GET", "/apis/example.com/v1/gadgets",                  "dFsoFFeFZeeZFZFe", "dRRRRRRRRRRRRRBR", "dxxxxxxxxxxxxxBx"},
    /* what the local server lacks is a peer's as ever, and of what nobody has live peers say so */
    {"GET", "/apis/resource.k8s.io/v1/deviceclasses",        "dFsoPPaPuuuPPZFP", "dRRRRRRRRRRRRRBR", "dxxxxxxxxxxxxxBx"},
    {"PATCH", "/api/v1/namespaces/d/pods/x/resize",          "dFsoPPaPuuuPPZFP", "dRRRRRRRRRRRRRBR", "dxxzxxxxxxxxxzBx"},
    {"GET", "/apis/nobody.io/v1/things",                     "dssoZZzZuzzZuZBz", "dRRRRRRRRRRRRRBR", "dxxxxxxxxxxxxxBx"},
    /* what is no resource tells the truth about the local server, unless it is about resources */
    {"GET", "/readyz",                                       "dnnnnnnnnnnnnnnn", "dnnnnnnnnnnnnnnn", "dnnnnnnnnnnnnnnn"},
    {"GET", "/version",                                      "dnnnnnnnnnnnnnnn", "dnnnnnnnnnnnnnnn", "dnnnnnnnnnnnnnnn"},
    {"GET", "/api",                                          "dDDDDDDDDDDDDDDD", "dnnnnnnnnnnnnnnn", "dnnnnnnnnnnnnnnn"},
    {"GET", "/apis",                                         "dDDDDDDDDDDDDDDD", "dnnnnnnnnnnnnnnn", "dnnnnnnnnnnnnnnn"},
    {"GET", "/apis/apps/v1",                                 "dHHHHHHHHHHHHHHH", "dnnnnnnnnnnnnnnn", "dnnnnnnnnnnnnnnn"},
    {"GET", "/openapi/v3",                                   "dHHHHHHHHHHHHHHH", "dnnnnnnnnnnnnnnn", "dnnnnnnnnnnnnnnn"},
    {"GET", "/openapi/v2",                                   "dFnnFFnFFnFFFFFn", "dnnnnnnnnnnnnnnn", "dnnnnnnnnnnnnnnn"},
    {"GET", "/openapi/v3/",                                  "dnnnnnnnnnnnnnnn", "dnnnnnnnnnnnnnnn", "dnnnnnnnnnnnnnnn"},
    {"GET", "/openapi/v3/apis/apps/v1",                      "dFnnFFnFFnnFFFFn", "dnnnnnnnnnnnnnnn", "dnnnnnnnnnnnnnnn"},
};
/* clang-format on */

/* How the local server stands, for all queries of a table. */
struct local {
    const char *reason; /* of row 5a; NULL: it does not apply */
    bool failover, failed, newest;
    enum readiness_state state;
};

static const struct local ready = {NULL, true, false, false, READINESS_READY};

static const struct verdict *verdict_of(char letter)
{
    for (size_t i = 0; i < ROWS(verdicts); i++)
        if (verdicts[i].letter == letter)
            return &verdicts[i];
    tap_bail("no verdict %c", letter);
}

static struct route decide(const struct query *q, struct served *s, bool rerouted, bool refreshed, uint64_t dice,
                           const struct local *local)
{
    struct arena *a = arena_new(1 << 20);
    struct reqinfo info;
    struct route r;
    struct route_query rq = {
        .info = &info,
        .get_or_head = strcmp(q->method, "GET") == 0 || strcmp(q->method, "HEAD") == 0,
        .rerouted = rerouted,
        .refreshed = refreshed,
        .newest = local->newest,
        .failover = local->failover,
        .local_failed = local->failed,
        .local_state = local->state,
        .served = s,
        .healthy = route_kit_is_healthy,
        .dice = dice,
    };

    if (a == NULL || reqinfo_parse(a, slice_str(q->method), slice_str(q->target), &info) != REQINFO_OK)
        tap_bail("test request %s", q->target);
    route_decide(&rq, &r);
    arena_free(a);
    return r;
}

struct cell {
    size_t snapshot;
    char letter;
    bool rerouted, refreshed;
};

static bool same_text(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static void check_cell(const struct query *q, struct served *s, const struct local *local, struct cell c)
{
    const struct verdict *v = verdict_of(c.letter);
    struct route r = decide(q, s, c.rerouted, c.refreshed, 1, local);
    const char *reason = v->row == ROUTE_ROW_LOCAL_FAILOVER ? local->reason : NULL;
    bool reads = r.local_miss && v->row == ROUTE_ROW_LOCAL_FAILOVER; /* who is away */

    ok(!reads && r.action == v->action && r.row == v->row && same_text(r.message, v->message) &&
           same_text(r.reason, reason),
       "%s %s in \"%s\"%s%s: %s%s%s", q->method, q->target, snapshots[c.snapshot].name, c.rerouted ? ", rerouted" : "",
       c.refreshed ? ", refreshed" : "", route_row_name(v->row), local->reason != NULL ? ", local server " : "",
       local->reason != NULL ? local->reason : "");
    if (r.action != v->action || r.row != v->row)
        diag("got action %d row %s", (int)r.action, route_row_name(r.row));
}

static void test_table(const struct query *table, size_t n, const struct local *local)
{
    for (size_t k = 0; k < ROWS(snapshots); k++) {
        struct served *s = make_snapshot(&snapshots[k]);

        for (size_t i = 0; i < n; i++) {
            if (strlen(table[i].cells) != ROWS(snapshots) || strlen(table[i].rerouted) != ROWS(snapshots) ||
                strlen(table[i].refreshed) != ROWS(snapshots))
                tap_bail("row %zu has not one cell per snapshot", i);
            check_cell(&table[i], s, local, (struct cell){k, table[i].cells[k], false, false});
            check_cell(&table[i], s, local, (struct cell){k, table[i].rerouted[k], true, false});
            check_cell(&table[i], s, local, (struct cell){k, table[i].refreshed[k], true, true});
        }
        served_unref(s);
    }
}

static const struct query peer_only = {"GET", "/apis/resource.k8s.io/v1/deviceclasses", "", "", ""};

static struct served *snapshot_of(char letter)
{
    for (size_t n = 0; n < ROWS(snapshots); n++)
        if (snapshots[n].letter == letter)
            return make_snapshot(&snapshots[n]);
    tap_bail("no snapshot %c", letter);
}

static void test_candidates(void)
{
    struct served *s = snapshot_of('2');
    size_t first[4] = {0};
    struct route r;

    for (uint64_t dice = 1; dice <= 2000; dice++) {
        r = decide(&peer_only, s, false, false, dice * 0x9e3779b97f4a7c15U, &ready);
        first[r.candidates[0]]++;
    }
    is_u64(r.n_candidates, 2, "both newer peers are candidates, the old one is not");
    is_u64(first[1], 0, "the old peer never comes first");
    ok(first[0] > 600 && first[2] > 600, "each of the two comes first about equally often");
    origins[0].healthy = false;
    for (uint64_t dice = 1; dice <= 50; dice++) {
        r = decide(&peer_only, s, false, false, dice * 0x9e3779b97f4a7c15U, &ready);
        if (r.candidates[0] != 2 || r.candidates[1] != 0)
            break;
    }
    ok(r.n_candidates == 2 && r.candidates[0] == 2 && r.candidates[1] == 0, "the healthy peer always comes first");
    origins[2].healthy = false;
    r = decide(&peer_only, s, false, false, 7, &ready);
    is_int(r.action, ROUTE_PEER, "when none is healthy they are tried all the same");
    is_u64(r.n_candidates, 2, "all of them");
    origins[0].healthy = origins[2].healthy = true;
    served_unref(s);

    s = snapshot_of('b');
    r = decide(&peer_only, s, false, false, 3, &ready);
    ok(r.n_candidates == 1 && r.candidates[0] == 1, "a peer without address is no candidate");
    served_unref(s);
}

/* More peers than fit: the healthy ones among the last are still found. */
static void test_many_peers(void)
{
    enum { MANY = 60 };
    struct disco *old = disco_of(old_server), *newer = disco_of(new_server);
    struct served_peer peers[MANY];
    char ids[MANY][16];
    struct served_input in = {
        .peers_enabled = true, .leases_synced = true, .local_id = "l", .local = old, .peers = peers, .n_peers = MANY};
    struct origin sick = {false};
    struct served *s;
    struct route r;

    for (size_t i = 0; i < MANY; i++) {
        (void)snprintf(ids[i], sizeof(ids[i]), "peer-%02zu", i);
        peers[i] = (struct served_peer){
            .id = ids[i], .discovery_known = true, .disco = newer, .origin = i < MANY - 2 ? &sick : &origins[0]};
    }
    s = served_new(&in);
    if (s == NULL)
        tap_bail("out of memory");
    r = decide(&peer_only, s, false, false, 99, &ready);
    is_u64(r.n_candidates, ROUTE_MAX_CANDIDATES, "candidates are bounded");
    ok(r.candidates[0] >= MANY - 2 && r.candidates[1] >= MANY - 2 && r.candidates[0] != r.candidates[1],
       "the two healthy peers at the end of sixty come first");
    served_unref(s);
    disco_unref(old);
    disco_unref(newer);
}

/* Who is drained comes behind everybody else, is no newest server, and is better than nobody. */
static void test_drained(void)
{
    struct disco *old = disco_of(old_server), *newer = disco_of(new_server);
    struct origin sick = {false};
    struct served_peer peers[3] = {
        {.id = "b", .discovery_known = true, .disco = newer, .origin = &origins[0], .drained = true},
        {.id = "c", .discovery_known = true, .disco = newer, .origin = &sick},
        {.id = "d", .life = SERVED_LAPSED, .discovery_known = true, .disco = newer, .origin = &origins[1]}};
    struct served_input in = {
        .peers_enabled = true, .leases_synced = true, .local_id = "l", .local = old, .peers = peers};
    unsigned last = 0;

    for (in.n_peers = 1; in.n_peers <= 3; in.n_peers += 2) {
        struct served *s = served_new(&in);

        if (s == NULL)
            tap_bail("out of memory");
        for (unsigned dice = 0; dice < 50; dice++) {
            struct route r = decide(&peer_only, s, false, false, dice, &ready);

            last += r.action == ROUTE_PEER && r.n_candidates == in.n_peers && r.candidates[in.n_peers - 1] == 0;
        }
        served_unref(s);
    }
    is_u64(last, 100, "a drained peer is the last of the candidates, and the only one where nobody else is");
    disco_unref(old);
    disco_unref(newer);
}

static void test_facts(void)
{
    struct served *s = snapshot_of('1');
    static const struct query nobody = {"GET", "/apis/nobody.io/v1/things", "", "", ""},
                              local = {"GET", "/api/v1/pods", "", "", ""},
                              subresources[] = {{"GET", "/api/v1/namespaces/d/pods/x/exec", "", "", ""},
                                                {"DELETE", "/api/v1/namespaces/d/pods/x/exec", "", "", ""},
                                                {"GET", "/api/v1/namespaces/d/pods/x/nothing", "", "", ""}};
    struct route r = decide(&nobody, s, false, false, 1, &ready);

    ok(!r.known_resource && r.local_miss, "a resource that nobody has is not known, and a local miss");
    r = decide(&peer_only, s, false, false, 1, &ready);
    ok(r.known_resource && r.local_miss, "a peer's resource is known, and a local miss");
    r = decide(&local, s, false, false, 1, &ready);
    ok(r.known_resource && !r.local_miss, "a local resource is known and no miss");
    for (size_t i = 0; i < ROWS(subresources); i++) {
        r = decide(&subresources[i], s, false, false, 1, &ready);
        ok(r.known_subresource == (i < 2), "%s %s: known or not", subresources[i].method, subresources[i].target);
    }
    served_unref(s);
    is_str(route_row_name(ROUTE_ROW_DISABLED), "disabled", "the first row");
    is_str(route_row_name((enum route_row)0), "none", "before it there is none");
    is_str(route_row_name((enum route_row)ROUTE_ROWS), "none", "nor behind the last");
    is_str(route_row_name(ROUTE_ROW_PEER), "peer", "rows have names");
    is_str(route_row_name((enum route_row)99), "none", "what is no row has none");
}

/* ---- skewed schemas ---- */

static struct schema_index *schemas(const char *hash)
{
    struct schema_index *x;
    char text[500];

    (void)snprintf(
        text, sizeof(text),
        "{\"paths\":{\"apis/apps/v1\":{\"serverRelativeURL\":\"/x?hash=%s\"},\"api/v1\":{"
        "\"serverRelativeURL\":\"/x?hash=same\"},\"apis/example.com/v1\":{\"serverRelativeURL\":\"/x?hash=%s\"}}}",
        hash, hash);
    x = schema_index_parse(slice_str(text));
    if (x == NULL)
        tap_bail("out of memory");
    return x;
}

static const struct version {
    const char *hash;
    uint64_t release;
    enum served_life life;
} v33 = {"33", 33, SERVED_LIVE}, v34 = {"34", 34, SERVED_LIVE}, v34_lapsed = {"34", 34, SERVED_LAPSED},
  v34_drained = {"34", 34, SERVED_LIVE}, v35 = {"35", 35, SERVED_LIVE}, twin = {"33", 34, SERVED_LIVE},
  v32 = {"32", 32, SERVED_LIVE}, other33 = {"33b", 33, SERVED_LIVE}, unknown = {NULL, 0, SERVED_LIVE},
  unversioned = {"33", 0, SERVED_LIVE}, no_index33 = {NULL, 33, SERVED_LIVE}, no_index34 = {NULL, 34, SERVED_LIVE};

#define ID(x) "apiserver-" x x x x x x x x x x x x x /* as long as real ones, which a snapshot has behind the peers */
/* The local server and two peers, which all have what the old one has. */
static struct served *versions(const struct version *local, const struct version *b, const struct version *c)
{
    static const struct slice excluded[] = {{"example.com/v1", sizeof("example.com/v1") - 1}};
    const struct version *of[] = {local, b, c};
    struct schema_index *index[3];
    struct disco *old = disco_of(old_server);
    struct served_peer peers[2];
    struct served_input in = {.peers_enabled = true,
                              .leases_synced = true,
                              .local_id = "apiserver-local",
                              .local = old,
                              .local_release = local->release,
                              .peers = peers,
                              .n_peers = 2,
                              .excluded = excluded,
                              .n_excluded = 1};
    struct served *s;

    for (size_t i = 0; i < 3; i++)
        index[i] = of[i]->hash == NULL ? NULL : schemas(of[i]->hash);
    in.local_schemas = index[0];
    for (size_t i = 0; i < 2; i++)
        peers[i] = (struct served_peer){.id = i == 0 ? ID("bbbb") : ID("cccc"),
                                        .life = of[i + 1]->life,
                                        .drained = of[i + 1] == &v34_drained,
                                        .discovery_known = true,
                                        .disco = old,
                                        .origin = &origins[i],
                                        .schemas = index[i + 1],
                                        .release = of[i + 1]->release};
    s = served_new(&in);
    if (s == NULL)
        tap_bail("out of memory");
    disco_unref(old);
    for (size_t i = 0; i < 3; i++)
        schema_index_unref(index[i]);
    return s;
}

static void test_newest(void)
{
    static const struct {
        const struct version *local, *b, *c;
        const char *target;
        enum route_row row;
        size_t n; /* candidates */
        uint16_t first;
        bool skewed, older;
        const char *what;
    } rows[] = {
#define APPS "/apis/apps/v1/deployments"
        {&v33, &v34, &v33, APPS, ROUTE_ROW_NEWEST, 1, 0, true, true, "one is newer"},
        {&v33, &v34, &v35, APPS, ROUTE_ROW_NEWEST, 1, 1, true, true, "the newest of three"},
        {&v33, &v34, &v34, APPS, ROUTE_ROW_NEWEST, 2, 0, true, true, "either of two"},
        {&v34, &v33, &v34, APPS, ROUTE_ROW_SERVED_LOCALLY, 0, 0, true, false, "equal releases: local first"},
        {&v35, &v33, &v34, APPS, ROUTE_ROW_SERVED_LOCALLY, 0, 0, true, false, "the local one is the newest"},
        {&v33, &v34_lapsed, &v33, APPS, ROUTE_ROW_SERVED_LOCALLY, 0, 0, false, true, "who has lapsed is not asked"},
        {&v33, &twin, &v33, APPS, ROUTE_ROW_SERVED_LOCALLY, 0, 0, false, false, "a newer one with the same schema"},
        {&v33, &unknown, &v33, APPS, ROUTE_ROW_SERVED_LOCALLY, 0, 0, false, false, "one that has no index"},
        {&unknown, &v33, &v34, APPS, ROUTE_ROW_SERVED_LOCALLY, 0, 0, true, false, "nothing is known of the local one"},
        {&v33, &v34, &v34_lapsed, APPS, ROUTE_ROW_NEWEST, 1, 0, true, true, "nor is he beside one that is there"},
        {&v33, &v34, &v34_drained, APPS, ROUTE_ROW_NEWEST, 1, 0, true, true, "who is drained is not, either"},
        {&v33, &v33, &v34_drained, APPS, ROUTE_ROW_SERVED_LOCALLY, 0, 0, true, true, "nor alone"},
        {&v33, &twin, &v32, APPS, ROUTE_ROW_NEWEST, 1, 0, true, true, "the newest, with the schema of the local one"},
        {&v33, &other33, &v33, APPS, ROUTE_ROW_SERVED_LOCALLY, 0, 0, true, false, "of one release"},
        {&v33, &no_index34, &v33, APPS, ROUTE_ROW_SERVED_LOCALLY, 0, 0, false, false, "a newer one without index"},
        {&no_index33, &v34, &v34, APPS, ROUTE_ROW_SERVED_LOCALLY, 0, 0, false, false, "the local one has none"},
        {&unversioned, &v34, &v34, APPS, ROUTE_ROW_SERVED_LOCALLY, 0, 0, true, false, "of what release it is, either"},
        {&v33, &v34, &v33, "/api/v1/pods", ROUTE_ROW_SERVED_LOCALLY, 0, 0, false, false, "what is the same everywhere"},
        {&v33, &v34, &v33, "/apis/example.com/v1/widgets", ROUTE_ROW_SERVED_LOCALLY, 0, 0, false, false, "a CRD's"},
        {&v33, &v34, &v33, "/apis/apps/v1", ROUTE_ROW_NON_RESOURCE, 0, 0, true, false, "discovery"},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        struct served *s = versions(rows[i].local, rows[i].b, rows[i].c);
        const struct query q = {"GET", rows[i].target, "", "", ""};
        struct local newest = ready;
        struct route r;

        newest.newest = true;
        r = decide(&q, s, false, false, 1, &newest);
        is_int(r.row, rows[i].row, "newest: %s", rows[i].what);
        is_u64(r.n_candidates, rows[i].n, "candidates");
        ok((r.n_candidates != 1 || r.candidates[0] == rows[i].first) && r.older == rows[i].older, "which");
        if (strncmp(rows[i].target, "/apis/apps", 10) == 0)
            ok(served_skewed(s, SLICE_LIT("apps"), SLICE_LIT("v1")) == rows[i].skewed, "skewed");
        if (r.row == ROUTE_ROW_NEWEST) {
            r = decide(&q, s, true, false, 1, &newest);
            is_int(r.row, ROUTE_ROW_REROUTED, "one hop, no more");
            r = decide(&q, s, false, false, 1, &ready);
            is_int(r.row, ROUTE_ROW_SERVED_LOCALLY, "switched off");
            newest.failed = true;
            r = decide(&q, s, false, false, 1, &newest);
            is_int(r.row, ROUTE_ROW_LOCAL_FAILOVER, "when all that failed: anybody");
            is_u64(r.n_candidates, 2, "of both");
        }
        served_unref(s);
    }
}

/* Documents of OpenAPI: whose index has the hash, the local one first; without one any that has the path. */
static void test_schemas(void)
{
    static const struct {
        const struct version *local, *b, *c;
        const char *target;
        enum route_row row;
        size_t n;
        uint16_t first;
        const char *what;
    } rows[] = {
#define DOC "/openapi/v3/apis/apps/v1"
        {&v33, &v34, &v33, DOC "?hash=33", ROUTE_ROW_NON_RESOURCE, 0, 0, "the local hash"},
        {&v33, &v34, &v33, DOC "?hash=34", ROUTE_ROW_PEER, 1, 0, "a peer's hash"},
        {&v33, &v34, &v35, DOC "?a=1&hash=35", ROUTE_ROW_PEER, 1, 1, "another peer's"},
        {&v33, &v34, &v34, DOC "?hash=34", ROUTE_ROW_PEER, 2, 0, "either of two"},
        {&v33, &v34, &v35, DOC "?hash=36", ROUTE_ROW_NON_RESOURCE, 0, 0, "nobody's hash: the local server says which"},
        {&v33, &v34, &v35, DOC, ROUTE_ROW_NON_RESOURCE, 0, 0, "no hash"},
        {&v33, &v34, &v35, "/openapi/v3/apis/example.com/v1?hash=34", ROUTE_ROW_NON_RESOURCE, 0, 0, "a CRD's"},
        {&v33, &v34_lapsed, &v33, DOC "?hash=34", ROUTE_ROW_PEER, 1, 0, "one that has lapsed: as a resource"},
        {&unknown, &v34, &v35, DOC "?hash=34", ROUTE_ROW_NON_RESOURCE, 0, 0, "the local index is not known"},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        struct served *s = versions(rows[i].local, rows[i].b, rows[i].c);
        const struct query q = {"GET", rows[i].target, "", "", ""};
        struct route r = decide(&q, s, false, false, 1, &ready);

        is_int(r.row, rows[i].row, "schemas: %s", rows[i].what);
        is_u64(r.n_candidates, rows[i].n, "candidates");
        ok(r.n_candidates != 1 || r.candidates[0] == rows[i].first, "which");
        r = decide(&q, s, true, false, 1, &ready);
        is_int(r.row, ROUTE_ROW_NON_RESOURCE, "one hop, no more");
        served_unref(s);
    }
}

static void test_schemas_fail_over(void)
{
    static const struct local away = {"unreachable", true, false, false, READINESS_UNREACHABLE};
    static const struct query doc = {"GET", DOC "?hash=33", "", "", ""},
                              none = {"GET", "/openapi/v3/x?hash=1", "", "", ""};
    struct served *s = versions(&v33, &v34, &v34_lapsed);
    struct route r = decide(&doc, s, false, false, 1, &away);

    is_int(r.row, ROUTE_ROW_LOCAL_FAILOVER, "the local server is away: a live peer's, whatever its hash");
    is_u64(r.n_candidates, 1, "one");
    is_str(r.reason, "unreachable", "why");
    r = decide(&none, s, false, false, 1, &away);
    is_int(r.row, ROUTE_ROW_NON_RESOURCE, "nobody has it");
    served_unref(s);
}

/* What only a peer has: a peer's, until its hash is known to be another. */
static void test_schemas_of_a_peer(void)
{
    struct schema_index *x = schema_index_parse(
        SLICE_LIT("{\"paths\":{\"apis/new.io/v1\":{\"serverRelativeURL\":\"/openapi/v3/apis/new.io/v1?hash=7\"}}}"));
    struct schema_index *mine = schemas("33");
    struct served_peer peer = {.id = "apiserver-b", .origin = &origins[0], .schemas = x};
    struct served_input in = {.peers_enabled = true,
                              .leases_synced = true,
                              .local_id = "apiserver-local",
                              .local_schemas = mine,
                              .peers = &peer,
                              .n_peers = 1};
    static const char *const targets[] = {"/openapi/v3/apis/new.io/v1?hash=7", "/openapi/v3/apis/new.io/v1",
                                          "/openapi/v3/apis/new.io/v1?hash=6"};
    struct served *s = served_new(&in);

    if (x == NULL || s == NULL)
        tap_bail("out of memory");
    for (size_t i = 0; i < ROWS(targets); i++) {
        const struct query q = {"GET", targets[i], "", "", ""};

        is_int(decide(&q, s, false, false, 1, &ready).row, ROUTE_ROW_PEER, "%s", targets[i]);
    }
    served_unref(s);
    schema_index_unref(x);
    schema_index_unref(mine);
}

int main(void)
{
    static const struct local off = {NULL, false, true, false, READINESS_UNREACHABLE};
    static const struct local away[] = {{"unreachable", true, false, false, READINESS_UNREACHABLE},
                                        {"starting", true, false, false, READINESS_STARTING},
                                        {"failed", true, true, false, READINESS_READY}};

    test_table(queries, ROWS(queries), &ready);
    test_table(queries, ROWS(queries), &off);
    for (size_t i = 0; i < ROWS(away); i++)
        test_table(failed_over, ROWS(failed_over), &away[i]);
    test_candidates();
    test_many_peers();
    test_drained();
    test_facts();
    test_newest();
    test_schemas();
    test_schemas_fail_over();
    test_schemas_of_a_peer();
    return tap_end();
}
