/* SPDX-License-Identifier: Apache-2.0 */
/* Documents of OpenAPI: who is asked for one, by whose index names it, or whose discovery lists what it is about. */
#include "kube/disco.h"
#include "lib/disco_text.h"
#include "lib/tap.h"
#include "proxy/route.h"
#include "unit/proxy/route_kit.h"

#define GROUP                                                                                                          \
    "{\"metadata\":{\"name\":\"new.io\"},\"versions\":[{\"version\":\"v1\",\"freshness\":\"Current\",\"resources\":["  \
    "{\"resource\":\"things\",\"responseKind\":{\"group\":\"\",\"version\":\"\",\"kind\":\"K\"},"                      \
    "\"scope\":\"Cluster\",\"singularResource\":\"\",\"verbs\":[\"list\"]}]}]}"
#define NAMES(path, hash) "{\"paths\":{\"" path "\":{\"serverRelativeURL\":\"/openapi/v3/" path "?hash=" hash "\"}}}"
#define NEW NAMES("apis/new.io/v1", "7")
#define OTHER NAMES("apis/apps/v1", "33")
#define VERSION NAMES("version", "1")
#define CUSTOM NAMES("apis/custom.io/v1", "1")
#define DOC "/openapi/v3/apis/new.io/v1"

/* A server: by its first letter which index it has (n, o, v, c: the above; -: not known); L: its discovery lists the
 * group/version; G: it has lapsed. */
struct world {
    const char *local, *peers[3];
    bool leases_missing;
};

static struct schema_index *index_of(const char *server)
{
    const char *text = server[0] == 'n'   ? NEW
                       : server[0] == 'o' ? OTHER
                       : server[0] == 'v' ? VERSION
                       : server[0] == 'c' ? CUSTOM
                                          : NULL;

    return text == NULL ? NULL : schema_index_parse(slice_str(text));
}

static struct served *make_served(const struct world *w)
{
    static const struct slice excluded = {"custom.io/v1", sizeof("custom.io/v1") - 1};
    static struct origin well = {true};
    struct disco *lists = disco_of_items("", GROUP), *lacks = disco_of_items("", "");
    struct schema_index *local = index_of(w->local);
    struct served_peer peers[2] = {{.id = "b"}, {.id = "c"}};
    struct served_input in = {.peers_enabled = true,
                              .leases_synced = !w->leases_missing,
                              .local_id = "a",
                              .local = strchr(w->local, 'L') != NULL ? lists : lacks,
                              .local_schemas = local,
                              .peers = peers,
                              .excluded = &excluded,
                              .n_excluded = 1};
    struct served *s;

    for (; w->peers[in.n_peers] != NULL; in.n_peers++) {
        const char *server = w->peers[in.n_peers];
        struct served_peer *p = &peers[in.n_peers];

        p->life = strchr(server, 'G') != NULL ? SERVED_LAPSED : SERVED_LIVE;
        p->discovery_known = true;
        p->disco = strchr(server, 'L') != NULL ? lists : lacks;
        p->schemas = index_of(server);
        p->origin = &well;
    }
    s = served_new(&in);
    for (size_t i = 0; i < in.n_peers; i++)
        schema_index_unref(peers[i].schemas);
    schema_index_unref(local);
    disco_unref(lists);
    disco_unref(lacks);
    if (s == NULL)
        tap_bail("out of memory");
    return s;
}

static struct reqinfo parse(struct arena *a, const char *target)
{
    struct reqinfo info;

    if (reqinfo_parse(a, SLICE_LIT("GET"), slice_str(target), &info) != REQINFO_OK)
        tap_bail("test request");
    return info;
}

static void who_is_asked(struct arena *a)
{
    static const struct {
        const char *what, *target;
        struct world w;
        enum readiness_state state;
        enum route_row row;
        size_t n; /* candidates */
    } rows[] = {
#define HERE READINESS_READY
#define AWAY READINESS_UNREACHABLE
#define OWN ROUTE_ROW_NON_RESOURCE
#define STAND_IN ROUTE_ROW_LOCAL_FAILOVER
        {"both have it", DOC "?hash=7", {"o", {"n", "n"}, false}, HERE, ROUTE_ROW_PEER, 2},
        {"one names it, and one lists it", DOC "?hash=7", {"o", {"n", "-L"}, false}, HERE, ROUTE_ROW_PEER, 1},
        {"with another hash as well", DOC "?hash=6", {"o", {"n", "-L"}, false}, HERE, ROUTE_ROW_PEER, 1},
        {"one that has lapsed, another hash", DOC "?hash=6", {"o", {"nG"}, false}, HERE, ROUTE_ROW_PEER, 1},
        {"here with another hash, Leases not read", DOC "?hash=6", {"n", {NULL}, true}, HERE, OWN, 0},
        {"nobody's path, Leases not read", "/openapi/v3/apis/new.io/", {"o", {NULL}, true}, HERE, OWN, 0},
        {"of no group, here not known", "/openapi/v3/version", {"-", {"v"}, false}, HERE, OWN, 0},
        {"of no group, not here", "/openapi/v3/version", {"o", {"v"}, false}, HERE, ROUTE_ROW_PEER, 1},
        {"away: one that is there", DOC, {"n", {"n", "nG"}, false}, AWAY, STAND_IN, 1},
        {"away: one that lists it", DOC, {"n", {"-L", "-LG"}, false}, AWAY, STAND_IN, 1},
        {"away: who names it, not who lists it", DOC, {"n", {"n", "-L"}, false}, AWAY, STAND_IN, 1},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        struct served *s = make_served(&rows[i].w);
        struct reqinfo info = parse(a, rows[i].target);
        unsigned first[2] = {0, 0};
        struct route_query q = {.info = &info,
                                .get_or_head = true,
                                .failover = true,
                                .local_state = rows[i].state,
                                .served = s,
                                .healthy = route_kit_is_healthy};
        struct route r;

        for (unsigned n = 1; n <= 64; n++) {
            q.dice = n * 0x9e3779b97f4a7c15;
            route_decide(&q, &r);
            first[r.n_candidates > 0 ? r.candidates[0] : 0]++;
        }
        is_str(route_row_name(r.row), route_row_name(rows[i].row), "%s", rows[i].what);
        is_u64(r.n_candidates, rows[i].n, "%s: candidates", rows[i].what);
        ok(rows[i].n != 2 || (first[0] > 8 && first[1] > 8), "%s: in turn", rows[i].what);
        served_unref(s);
    }
}

/* Whether a 404 denies what the index of who answers names. */
static void what_an_index_has(struct arena *a)
{
    static const struct {
        const char *what, *target, *server;
        bool has;
    } rows[] = {
        {"a document", DOC "?hash=7", "n", true},
        {"whatever the hash", DOC "?hash=6", "n", true},
        {"not another one", "/openapi/v3/apis/apps/v1", "n", false},
        {"nothing, if it is not known", DOC, "-", false},
        {"not OpenAPI v2", "/openapi/v2", "n", false},
        {"not a resource", "/apis/new.io/v1/things", "n", false},
        {"of no group", "/openapi/v3/version", "v", true},
        {"not a custom resource's", "/openapi/v3/apis/custom.io/v1", "c", false},
    };
    static const struct world w = {"o", {NULL}, false};
    struct served *s = make_served(&w);

    for (size_t i = 0; i < ROWS(rows); i++) {
        struct schema_index *x = index_of(rows[i].server);
        struct reqinfo info = parse(a, rows[i].target);

        ok(route_has_schema(s, &info, x) == rows[i].has, "an index has %s", rows[i].what);
        schema_index_unref(x);
    }
    served_unref(s);
}

int main(void)
{
    struct arena *a = arena_new(1 << 20);

    who_is_asked(a);
    what_an_index_has(a);
    arena_free(a);
    return tap_end();
}
