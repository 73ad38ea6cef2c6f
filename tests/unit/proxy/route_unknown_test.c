/* SPDX-License-Identifier: Apache-2.0 */
/* What is denied, and what is held back, while somebody may have it who has not said so. */
#include "kube/disco.h"
#include "lib/disco_text.h"
#include "lib/tap.h"
#include "proxy/route.h"
#include "unit/proxy/route_kit.h"

/* Of one group, with this resource. */
#define GROUP(group, resource)                                                                                         \
    "{\"metadata\":{\"name\":\"" group                                                                                 \
    "\"},\"versions\":[{\"version\":\"v1\",\"freshness\":\"Current\",\"resources\":["                                  \
    "{\"resource\":\"" resource "\",\"responseKind\":{\"group\":\"\",\"version\":\"\",\"kind\":\"K\"},"                \
    "\"scope\":\"Cluster\",\"singularResource\":\"\",\"verbs\":[\"list\"]}]}]}"

/* One peer at most, without address; the local server has apps/v1 deployments, the peer batch/v1 jobs. */
enum peer { NONE, READ, PENDING, UNREAD, GONE_UNREAD };

struct knowledge {
    enum peer peer;
    bool forbidden, leases_missing, behind;
    bool jobs;       /* the local server has these instead */
    bool named;      /* a stored APIService names policy/v1 */
    bool named_apps; /* one names apps/v1 */
};

static struct served *make_served(const struct knowledge *k)
{
    static const struct slice excluded = {"example.com/v1", sizeof("example.com/v1") - 1};
    struct disco *other = disco_of_items("", GROUP("batch", "jobs"));
    struct disco *local = k->jobs ? disco_ref(other) : disco_of_items("", GROUP("apps", "deployments"));
    struct served_gv named = {SLICE_LIT("policy"), SLICE_LIT("v1")};
    struct served_gv named_apps = {SLICE_LIT("apps"), SLICE_LIT("v1")};
    struct served_peer peer = {.id = "apiserver-b",
                               .life = k->peer == GONE_UNREAD ? SERVED_LAPSED : SERVED_LIVE,
                               .discovery_known = k->peer == READ,
                               .pending = k->peer == PENDING,
                               .disco = k->peer == READ ? other : NULL};
    struct served *s = served_new(&(struct served_input){.peers_enabled = true,
                                                         .leases_synced = !k->leases_missing,
                                                         .local_id = "apiserver-a",
                                                         .local = k->forbidden ? NULL : local,
                                                         .local_refused = k->forbidden,
                                                         .behind = k->behind,
                                                         .peers = &peer,
                                                         .n_peers = k->peer != NONE,
                                                         .excluded = &excluded,
                                                         .n_excluded = 1,
                                                         .undiscovered = k->named ? &named : &named_apps,
                                                         .n_undiscovered = k->named || k->named_apps});

    disco_unref(local);
    disco_unref(other);
    if (s == NULL)
        tap_bail("no memory");
    return s;
}

#define APPS "/apis/apps/v1/deployments"
#define SCALE "/apis/apps/v1/deployments/d/scale"
#define JOBS "/apis/batch/v1/jobs"
#define POLICY "/apis/policy/v1/budgets"
#define WIDGETS "/apis/example.com/v1/widgets"
#define OTHER "/apis/x.example.com/v1/things"

/* Nobody has a Lease, as far as is known: but the Leases could not be followed a moment ago. */
static const struct {
    const char *name;
    struct knowledge knowledge;
    const char *target;
    enum route_row row;
} alone[] = {
    {"alone", {.peer = NONE}, OTHER, ROUTE_ROW_NO_PEERS},
    {"alone, and behind: who came may have anything", {.behind = true}, OTHER, ROUTE_ROW_UNKNOWN_PEER},
    {"but not what is served here", {.behind = true}, APPS, ROUTE_ROW_SERVED_LOCALLY},
    {"nor what every server has", {.behind = true}, WIDGETS, ROUTE_ROW_EXCLUDED},
    {"alone, behind for long: what nobody names", {.named = true}, OTHER, ROUTE_ROW_NO_PEERS},
    {"and what somebody does", {.named = true}, POLICY, ROUTE_ROW_UNKNOWN_PEER},
    /* Which release an unread peer has nobody knows: it may have a subresource that came with a later one. */
    {"a peer that cannot be read: of a version that all have",
     {.peer = UNREAD, .named_apps = true},
     SCALE,
     ROUTE_ROW_UNKNOWN_PEER},
    {"what is served here", {.peer = UNREAD, .named_apps = true}, APPS, ROUTE_ROW_SERVED_LOCALLY},
    {"what nobody names", {.peer = UNREAD, .named_apps = true}, OTHER, ROUTE_ROW_NOBODY},
    {"one that was read", {.peer = READ}, SCALE, ROUTE_ROW_NOBODY},
};

/* Whether a 404 of a server whose discovery we may not read is the truth. */
static const struct {
    const char *name;
    struct knowledge knowledge;
    const char *target;
    bool nobody;
} forbidden[] = {
    {"no peers", {.forbidden = true}, OTHER, true},
    {"Leases not listed", {.forbidden = true, .leases_missing = true}, OTHER, false},
    {"behind", {.forbidden = true, .behind = true}, OTHER, false},
    {"a peer has it", {.forbidden = true, .peer = READ}, JOBS, false},
    {"a peer, which has it not", {.forbidden = true, .peer = READ}, OTHER, true},
    {"one that may have it", {.forbidden = true, .peer = PENDING}, OTHER, false},
    {"one that is away and was never read", {.forbidden = true, .peer = GONE_UNREAD, .named = true}, OTHER, true},
    {"the same, of what is named", {.forbidden = true, .peer = GONE_UNREAD, .named = true}, POLICY, false},
    {"what every server has", {.forbidden = true, .peer = PENDING}, WIDGETS, true},
};

/* What the local server's discovery lists, and it has denied; and its discovery could not be read since. */
static const struct {
    const char *name;
    struct knowledge knowledge;
    const char *target;
    enum route_row row, rerouted;
} unread[] = {
    {"alone", {.jobs = true}, JOBS, ROUTE_ROW_NO_PEERS, ROUTE_ROW_REROUTED},
    {"a peer has it", {.jobs = true, .peer = READ}, JOBS, ROUTE_ROW_NO_ADDRESS, ROUTE_ROW_REROUTED},
    {"a peer, which has it not", {.peer = READ}, APPS, ROUTE_ROW_NOBODY, ROUTE_ROW_REROUTED},
    {"one that may have it", {.peer = PENDING}, APPS, ROUTE_ROW_UNKNOWN_PEER, ROUTE_ROW_REROUTED},
    {"Leases not listed", {.leases_missing = true}, APPS, ROUTE_ROW_NOT_SYNCED, ROUTE_ROW_REROUTED},
    {"forbidden", {.forbidden = true, .peer = READ}, JOBS, ROUTE_ROW_FORBIDDEN, ROUTE_ROW_FORBIDDEN},
    {"what every server has", {.peer = PENDING}, WIDGETS, ROUTE_ROW_EXCLUDED, ROUTE_ROW_REROUTED},
};

static struct reqinfo parse(struct arena *a, const char *target)
{
    struct reqinfo info;

    if (reqinfo_parse(a, SLICE_LIT("GET"), slice_str(target), &info) != REQINFO_OK)
        tap_bail("request");
    return info;
}

static struct route decide(const struct served *s, const char *target, bool rerouted)
{
    struct arena *a = arena_new(1 << 20);
    struct reqinfo info = parse(a, target);
    struct route_query q = {.info = &info,
                            .get_or_head = true,
                            .rerouted = rerouted,
                            .refreshed = rerouted,
                            .local_state = READINESS_READY,
                            .served = s,
                            .dice = 1};
    struct route r;

    route_decide(&q, &r);
    arena_free(a);
    return r;
}

/* Another process, it seems, that was not read yet: who had it is asked before it is said that nobody knows. */
static void who_had_it(void)
{
    struct disco *jobs = disco_of_items("", GROUP("batch", "jobs")),
                 *apps = disco_of_items("", GROUP("apps", "deployments"));
    struct origin origins[2] = {{true}, {true}};
    struct served_peer peers[3] = {{.id = "b", .pending = true, .disco = jobs, .origin = &origins[0]},
                                   {.id = "c", .pending = true, .disco = apps, .origin = &origins[1]},
                                   {.id = "d", .pending = true, .disco = jobs}};
    struct served *s = served_new(&(struct served_input){
        .peers_enabled = true, .leases_synced = true, .local_id = "l", .local = apps, .peers = peers, .n_peers = 3});
    struct route r;

    if (s == NULL)
        tap_bail("no memory");
    r = decide(s, JOBS, false);
    ok(r.action == ROUTE_PEER && r.row == ROUTE_ROW_PEER && r.n_candidates == 1 && r.candidates[0] == 0,
       "who had it, and can be asked, is asked");
    r = decide(s, JOBS, true);
    ok(r.action == ROUTE_REFUSE, "not by who was asked himself");
    r = decide(s, "/apis/nobody.io/v1/things", false);
    is_str(route_row_name(r.row), "unknown-peer", "what nobody had may be theirs");
    served_unref(s);
    disco_unref(jobs);
    disco_unref(apps);
}

int main(void)
{
    struct arena *a = arena_new(1 << 20);

    who_had_it();
    for (size_t i = 0; i < ROWS(alone); i++) {
        struct served *s = make_served(&alone[i].knowledge);
        struct reqinfo info = parse(a, alone[i].target);
        struct route_query q = {
            .info = &info, .get_or_head = true, .local_state = READINESS_READY, .served = s, .dice = 1};
        struct route r;

        route_decide(&q, &r);
        is_str(route_row_name(r.row), route_row_name(alone[i].row), "%s: %s", alone[i].name, alone[i].target);
        served_unref(s);
    }
    for (size_t i = 0; i < ROWS(forbidden); i++) {
        struct served *s = make_served(&forbidden[i].knowledge);
        struct reqinfo info = parse(a, forbidden[i].target);

        ok(route_nobody_else(s, &info) == forbidden[i].nobody, "%s: %s", forbidden[i].name, forbidden[i].target);
        served_unref(s);
    }
    for (size_t i = 0; i < 2 * ROWS(unread); i++) {
        struct served *s = make_served(&unread[i / 2].knowledge);
        struct reqinfo info = parse(a, unread[i / 2].target);
        struct route_query q = {.info = &info,
                                .get_or_head = true,
                                .rerouted = i % 2 == 1,
                                .refreshed = true,
                                .local_unread = true,
                                .local_state = READINESS_READY,
                                .served = s,
                                .dice = 1};
        struct route r;

        route_decide(&q, &r);
        is_str(route_row_name(r.row), route_row_name(i % 2 == 1 ? unread[i / 2].rerouted : unread[i / 2].row),
               "unread, %s: %s%s", unread[i / 2].name, unread[i / 2].target, i % 2 == 1 ? ", rerouted" : "");
        if (i % 2 == 1 && r.row == ROUTE_ROW_REROUTED)
            is_int(r.action, ROUTE_REFUSE, "503, which is no 404");
        served_unref(s);
    }
    arena_free(a);
    return tap_end();
}
