/* SPDX-License-Identifier: Apache-2.0 */
/* The local server is away: which peers are asked in its place, by what is known of each. */
#include <stdio.h>

#include "kube/disco.h"
#include "lib/disco_text.h"
#include "lib/tap.h"
#include "proxy/route.h"
#include "unit/proxy/route_kit.h"

#define JOBS                                                                                                           \
    "{\"metadata\":{\"name\":\"batch\"},\"versions\":[{\"version\":\"v1\",\"freshness\":\"Current\",\"resources\":["   \
    "{\"resource\":\"jobs\",\"responseKind\":{\"group\":\"\",\"version\":\"\",\"kind\":\"Job\"},\"scope\":"            \
    "\"Cluster\","                                                                                                     \
    "\"singularResource\":\"job\",\"verbs\":[\"list\"]}]}]}"

#define LISTED "/apis/batch/v1/jobs"

enum { MOST_PEERS = 18 };

static struct schema_index *make_schemas(const char *hash)
{
    char text[128];
    struct schema_index *x;

    (void)snprintf(text, sizeof(text),
                   "{\"paths\":{\"apis/batch/v1\":{\"serverRelativeURL\":\"/openapi/v3/apis/batch/v1?hash=%s\"}}}",
                   hash);
    x = schema_index_parse(slice_str(text));
    if (x == NULL)
        tap_bail("test index");
    return x;
}

/* L live, G gone (lapsed); lower case: an outlier. Then D: drained, A: without address, O: older than the local one, F:
 * it cannot be read. */
static struct served *make_served(const char *peers, bool local_has, bool aggregated, struct disco *with,
                                  struct disco *without)
{
    static const struct slice jobs = {"batch/v1", sizeof("batch/v1") - 1};
    static struct origin well = {true}, sick = {false};
    static const char *const ids[MOST_PEERS] = {"b", "c", "d", "e", "f", "g", "h", "i", "j",
                                                "k", "l", "m", "n", "o", "p", "q", "r", "s"};
    struct served_peer rows[MOST_PEERS] = {{.id = NULL}};
    struct served_input in = {.peers_enabled = true,
                              .leases_synced = true,
                              .local_id = "a",
                              .local = local_has ? with : without,
                              .local_release = 34,
                              .local_schemas = make_schemas("34"),
                              .peers = rows,
                              .excluded = &jobs,
                              .n_excluded = aggregated,
                              .aggregated = &jobs,
                              .n_aggregated = aggregated};
    struct schema_index *older = make_schemas("33");
    struct served *s;

    for (const char *c = peers; *c != '\0'; c++) {
        struct served_peer *p = &rows[in.n_peers];

        if (*c != ' ') {
            p->id = ids[in.n_peers];
            p->discovery_known = true;
            p->disco = with;
            p->life = *c == 'L' || *c == 'l' ? SERVED_LIVE : SERVED_LAPSED;
            p->origin = *c == 'L' || *c == 'G' ? &well : &sick;
            p->release = 34;
            p->schemas = in.local_schemas;
        }
        for (; c[1] == 'D' || c[1] == 'A' || c[1] == 'O' || c[1] == 'F'; c++) {
            p->drained |= c[1] == 'D';
            p->silent |= c[1] == 'F';
            p->origin = c[1] == 'A' ? NULL : p->origin;
            p->release = c[1] == 'O' ? 33 : p->release;
            p->schemas = c[1] == 'O' ? older : p->schemas;
        }
        in.n_peers += *c != ' ';
    }
    s = served_new(&in);
    schema_index_unref(in.local_schemas);
    schema_index_unref(older);
    if (s == NULL)
        tap_bail("out of memory");
    return s;
}

static void decide(const struct served *s, const char *target, bool rerouted, uint64_t dice, struct route *r)
{
    struct arena *a = arena_new(1 << 16);
    struct reqinfo info;
    struct route_query q = {.info = &info,
                            .get_or_head = true,
                            .failover = true,
                            .rerouted = rerouted,
                            .local_state = READINESS_UNREACHABLE,
                            .served = s,
                            .healthy = route_kit_is_healthy,
                            .dice = dice};

    if (a == NULL || reqinfo_parse(a, SLICE_LIT("GET"), slice_str(target), &info) != REQINFO_OK)
        tap_bail("test request");
    route_decide(&q, r);
    arena_free(a);
}

/* The local server is ready. */
static void decide_here(const struct served *s, bool newest, uint64_t dice, struct route *r)
{
    struct arena *a = arena_new(1 << 16);
    struct reqinfo info;
    struct route_query q = {.info = &info,
                            .newest = newest,
                            .failover = true,
                            .local_state = READINESS_READY,
                            .served = s,
                            .healthy = route_kit_is_healthy,
                            .dice = dice};

    if (a == NULL || reqinfo_parse(a, SLICE_LIT("GET"), SLICE_LIT(LISTED), &info) != REQINFO_OK)
        tap_bail("test request");
    route_decide(&q, r);
    arena_free(a);
}

/* The local server is ready, and lacks it; those of the latest release mean more by it than others. */
static void newest(struct disco *with, struct disco *without)
{
    static const struct {
        const char *peers, *asked;
        uint64_t release;
        const char *what;
    } rows[] = {
        {"LO L LO", "1", 34, "the latest release first, then the others"},
        {"LO lD L", "2", 34, "who is drained comes behind"},
        {"L LO GO", "0", 34, "who has lapsed as well"},
        {"LO GO", "0", 33, "the latest that is there"},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        struct served *s = make_served(rows[i].peers, false, false, with, without);

        for (uint64_t dice = 1; dice < 6; dice++) {
            struct route r;

            decide_here(s, true, dice, &r);
            is_str(route_row_name(r.row), route_row_name(ROUTE_ROW_PEER), "%s: %s", rows[i].peers, rows[i].what);
            ok(r.n_candidates == served_n_peers(s) && r.candidates[0] == (uint16_t)(rows[i].asked[0] - '0'),
               "all of them, in that order");
            is_u64(r.release, rows[i].release, "with a Warning where it is an older one");
        }
        served_unref(s);
    }
}

/* How many of the candidates have the letter of these peers, which stand there without spaces. */
static size_t count(const struct route *r, const char *peers, char letter)
{
    size_t n = 0;

    for (size_t i = 0; i < r->n_candidates; i++)
        n += peers[r->candidates[i]] == letter;
    return n;
}

/* There are more than a request can be sent to. */
static void too_many(struct disco *with)
{
    static const char *const peers[] = {"GGGGGGGGllllllllll", "LLLLLLLLLLLLLLLLGG"};
    struct served *s[] = {make_served(peers[0], true, false, with, with),
                          make_served(peers[1], true, false, with, with)};
    struct route r;

    decide(s[0], LISTED, false, 1, &r);
    is_u64(r.n_candidates, ROUTE_MAX_CANDIDATES, "as many as can be");
    is_u64(count(&r, peers[0], 'G'), 8, "who may be back is not left out for outliers");
    r.n_candidates = 8;
    is_u64(count(&r, peers[0], 'G'), 8, "and comes first");
    decide(s[1], LISTED, false, 1, &r);
    is_u64(count(&r, peers[1], 'L'), ROUTE_MAX_CANDIDATES, "nor anybody for him");
    served_unref(s[0]);
    served_unref(s[1]);
}

/* The local server lacks it: no more than can be, with older ones behind those of the latest release, and each once. */
static void too_many_of_latest(struct disco *with, struct disco *without)
{
    static const char *const peers[] = {"LLLLLLLLLLLLLLLLLL", "L L L L L L L L L L L L L L L L LO LO",
                                        "L L L L L L L L L L L L L L L LO LO LO"};

    for (size_t i = 0; i < ROWS(peers); i++) {
        struct served *s = make_served(peers[i], false, false, with, without);
        uint32_t seen = 0;
        struct route r;

        decide_here(s, true, 3, &r);
        is_u64(r.n_candidates, ROUTE_MAX_CANDIDATES, "%s: as many as can be", peers[i]);
        for (size_t k = 0; k < ROUTE_MAX_CANDIDATES; k++)
            seen |= 1U << r.candidates[k];
        is_int(__builtin_popcount(seen), ROUTE_MAX_CANDIDATES, "%s: each is somebody else", peers[i]);
        ok(seen < 1U << served_n_peers(s), "%s: who is there", peers[i]);
        served_unref(s);
    }
}

/* Of those who are as good as each other each comes first now and then: of outliers and of drained peers, too. */
static void spread(struct disco *with, struct disco *without)
{
    static const struct {
        const char *peers;
        bool local_has, away, newest;
        size_t at; /* which two candidates */
        const char *what;
    } rows[] = {
        {"L L", false, false, false, 0, "peers that are well"},
        {"L l l", false, false, false, 1, "outliers"},
        {"L LD LD", false, false, false, 1, "drained ones"},
        {"LO L LO", false, false, true, 1, "older ones"},
        {"L L", true, true, false, 0, "stand-ins"},
        {"L L", false, true, false, 0, "who is asked for what nobody has"},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        bool nobody = !rows[i].local_has && rows[i].away;
        struct served *s = make_served(rows[i].peers, rows[i].local_has, false, nobody ? without : with, without);
        unsigned first = 0;

        for (uint64_t dice = 1; dice <= 64; dice++) {
            struct route r;

            if (rows[i].away)
                decide(s, LISTED, false, dice * 0x9e3779b97f4a7c15, &r);
            else
                decide_here(s, rows[i].newest, dice * 0x9e3779b97f4a7c15, &r);
            if (r.n_candidates < rows[i].at + 2)
                tap_bail("%s: %zu candidates", rows[i].what, r.n_candidates);
            first += r.candidates[rows[i].at] < r.candidates[rows[i].at + 1];
        }
        ok(first > 8 && first < 56, "%s take turns (%u of 64)", rows[i].what, first);
        served_unref(s);
    }
}

/* A document of OpenAPI, as any other request: spread, and from outliers last. */
static void documents(struct disco *with)
{
    struct served *s = make_served("lLL", true, false, with, with);
    unsigned first[3] = {0, 0, 0};
    struct route r;

    for (uint64_t dice = 0; dice < 64; dice++) {
        decide(s, "/openapi/v3/apis/batch/v1?hash=34", false, dice * 0x9e3779b97f4a7c15, &r);
        is_str(route_row_name(r.row), route_row_name(ROUTE_ROW_LOCAL_FAILOVER), "a document of a peer's");
        is_u64(r.n_candidates, 3, "any of them");
        is_u64(r.candidates[2], 0, "the outlier last");
        first[r.candidates[0]]++;
    }
    ok(first[1] > 8 && first[2] > 8, "the others in turn: %u and %u times", first[1], first[2]);
    served_unref(s);
}

/* Those of metrics list nothing, and answer for resources of any name. */
static void aggregated(struct disco *with, struct disco *without)
{
    static const struct {
        const char *peers;
        bool local_has, peers_have, rerouted;
        enum route_row row;
        size_t n; /* candidates */
        const char *what;
    } rows[] = {
        {"L", true, true, false, ROUTE_ROW_LOCAL_FAILOVER, 1, "a live peer that lists the group/version"},
        {"L", false, true, false, ROUTE_ROW_LOCAL_FAILOVER, 1, "even if the local one does not yet"},
        {"L G", true, true, false, ROUTE_ROW_LOCAL_FAILOVER, 2, "behind it one that has lapsed"},
        {"L", true, false, false, ROUTE_ROW_NOBODY, 1, "where none lists it they are asked whether it is gone"},
        {"G", true, false, false, ROUTE_ROW_EXCLUDED, 0, "the live ones"},
        {"L", true, true, true, ROUTE_ROW_REROUTED, 0, "what was sent on goes to the local one"},
        {"L", false, true, true, ROUTE_ROW_REROUTED, 0, "whatever that lists"},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        struct served *s = make_served(rows[i].peers, rows[i].local_has == rows[i].peers_have, true,
                                       rows[i].peers_have ? with : without, rows[i].peers_have ? without : with);
        struct route r;

        decide(s, "/apis/batch/v1/namespaces/d/queue-length", rows[i].rerouted, 1, &r);
        is_str(route_row_name(r.row), route_row_name(rows[i].row), "aggregated: %s", rows[i].what);
        is_u64(r.n_candidates, rows[i].n, "candidates");
        ok(r.action == (rows[i].n > 0 ? ROUTE_PEER : ROUTE_LOCAL), "not refused");
        served_unref(s);
    }
}

/* What nobody is known to serve: live peers say it in the local server's place, or because they know who is there. */
static void nobodys(struct disco *without)
{
    static const struct {
        const char *peers;
        enum readiness_state state;
        bool local_read, behind, unread, named, rerouted, may_deny;
        enum route_row row;
        size_t n;
        bool untold;
        const char *what;
    } rows[] = {
#define AWAY READINESS_UNREACHABLE
#define STARTS READINESS_STARTING
#define READY READINESS_READY
#define NOBODY ROUTE_ROW_NOBODY
#define UNKNOWN ROUTE_ROW_UNKNOWN_PEER
        {"L L", AWAY, false, false, false, false, false, false, NOBODY, 2, false, "all live ones"},
        {"L G", AWAY, false, false, false, false, false, false, NOBODY, 1, false, "not who has lapsed"},
        {"G", AWAY, false, false, false, false, false, false, NOBODY, 0, false, "nobody is there"},
        {"L LA", AWAY, false, false, false, false, false, false, NOBODY, 1, true, "one cannot be asked"},
        {"L", AWAY, false, true, false, false, false, false, NOBODY, 1, true, "Leases not followed: who knows"},
        {"L", AWAY, false, true, false, true, false, false, NOBODY, 1, true, "also of what is named for want of them"},
        {"L", AWAY, false, true, true, true, false, false, UNKNOWN, 0, false, "not if it may be an unread one's"},
        {"L", AWAY, false, true, true, false, false, false, NOBODY, 1, true, "which it is not where nothing names it"},
        {"L LF", AWAY, false, true, false, true, false, false, UNKNOWN, 0, false, "nor of one that may be another now"},
        {"LF L", AWAY, false, true, false, true, false, false, UNKNOWN, 0, false, "whichever it is"},
        {"L LF", AWAY, false, true, false, false, false, false, NOBODY, 2, true, "nor that"},
        {"L LF", READY, true, false, false, true, false, false, NOBODY, 2, true, "whose Lease is followed"},
        {"L", STARTS, false, false, false, false, false, false, NOBODY, 0, false, "back with who knows what"},
        {"L", STARTS, true, false, false, false, false, false, NOBODY, 1, false, "which has been read"},
        {"L", READY, true, false, false, false, false, false, NOBODY, 0, false, "there, and knows best"},
        {"L", READY, true, true, false, false, false, false, NOBODY, 1, true, "there, but who else is?"},
        {"L", READY, false, true, false, false, false, false, UNKNOWN, 0, false, "back, and not read yet"},
        {"L", READY, true, false, false, false, true, false, ROUTE_ROW_REROUTED, 0, false, "sent on: 503 as ever"},
        {"L", READY, true, false, false, false, true, true, NOBODY, 0, false, "unless we may deny it"},
        {"L", READY, true, true, false, false, true, true, ROUTE_ROW_REROUTED, 0, false, "and know"},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        struct served_gv gv = {SLICE_LIT("batch"), SLICE_LIT("v1")};
        struct served *s = make_served(rows[i].peers, false, false, without, without), *with;
        struct served_peer peers[MOST_PEERS];
        struct served_input in = {.peers_enabled = true,
                                  .leases_synced = true,
                                  .local_id = "a",
                                  .local = without,
                                  .local_read = rows[i].local_read,
                                  .behind = rows[i].behind,
                                  .peers_read = !rows[i].unread,
                                  .undiscovered = &gv,
                                  .n_undiscovered = rows[i].named,
                                  .peers = peers,
                                  .n_peers = served_n_peers(s)};
        struct arena *a = arena_new(1 << 16);
        struct reqinfo info;
        struct route_query q = {.info = &info,
                                .get_or_head = true,
                                .failover = true,
                                .rerouted = rows[i].rerouted,
                                .refreshed = true,
                                .may_deny = rows[i].may_deny,
                                .local_state = rows[i].state,
                                .healthy = route_kit_is_healthy};
        struct route r;

        for (size_t k = 0; k < in.n_peers; k++)
            peers[k] = *served_peer_at(s, k);
        q.served = with = served_new(&in);
        if (a == NULL || with == NULL || reqinfo_parse(a, SLICE_LIT("GET"), slice_str(LISTED), &info) != REQINFO_OK)
            tap_bail("out of memory");
        route_decide(&q, &r);
        is_str(route_row_name(r.row), route_row_name(rows[i].row), "nobody's: %s", rows[i].what);
        is_u64(r.n_candidates, rows[i].n, "candidates");
        ok(r.unserved == (rows[i].n > 0) && r.untold == rows[i].untold, "whose denial counts");
        q.local_unread = true;
        route_decide(&q, &r);
        ok(!r.unserved && r.n_candidates == 0, "nobody's if the local server denied it and cannot be read");
        arena_free(a);
        served_unref(with);
        served_unref(s);
    }
}

int main(void)
{
    static const struct {
        const char *peers;
        bool local_has;
        enum route_row row;
        const char *asked; /* peers by number, in the order of the candidates */
        const char *what;
    } rows[] = {
        {"L", true, ROUTE_ROW_LOCAL_FAILOVER, "0", "a live peer"},
        {"l", true, ROUTE_ROW_LOCAL_FAILOVER, "0", "a live one that is an outlier: there is no other"},
        {"G L", true, ROUTE_ROW_LOCAL_FAILOVER, "10", "a live one before who has lapsed and may be back"},
        {"G l", true, ROUTE_ROW_LOCAL_FAILOVER, "01", "unless it is an outlier: then behind him"},
        {"G LD", true, ROUTE_ROW_LOCAL_FAILOVER, "01", "or drained"},
        {"G l L", true, ROUTE_ROW_LOCAL_FAILOVER, "201", "who may be back is in between"},
        {"g L", true, ROUTE_ROW_LOCAL_FAILOVER, "1", "a lapsed outlier is not asked beside a live one"},
        {"GD L", true, ROUTE_ROW_LOCAL_FAILOVER, "1", "nor a lapsed one that is drained"},
        {"G LA", true, ROUTE_ROW_LOCAL_FAILOVER, "0", "unless nobody knows where it is"},
        {"LD L l", true, ROUTE_ROW_LOCAL_FAILOVER, "120", "outliers behind the others, the drained behind them"},
        {"G", true, ROUTE_ROW_LOCAL_FAILOVER, "0", "who has lapsed may be back, and who is away cannot tell"},
        {"g", true, ROUTE_ROW_SERVED_LOCALLY, "", "a lapsed outlier is not asked"},
        {"g G", true, ROUTE_ROW_LOCAL_FAILOVER, "1", "but another one"},
        {"GD", true, ROUTE_ROW_SERVED_LOCALLY, "", "a lapsed one that is drained is not asked"},
        {"GA", true, ROUTE_ROW_SERVED_LOCALLY, "", "nor one without address"},
        {"LO L", true, ROUTE_ROW_LOCAL_FAILOVER, "10", "older ones last, where that matters"},
        {"G LO GO", true, ROUTE_ROW_LOCAL_FAILOVER, "102", "but before all who have lapsed"},
        {"GO G LO", true, ROUTE_ROW_LOCAL_FAILOVER, "210", "of whom older ones are last, too"},
        {"G", false, ROUTE_ROW_PEER, "0", "what the local server lacks is a peer's, as ever"},
    };
    struct disco *with = disco_of_items("", JOBS), *without = disco_of_items("", "");

    for (size_t i = 0; i < ROWS(rows); i++) {
        struct served *s = make_served(rows[i].peers, rows[i].local_has, false, with, without);

        for (uint64_t dice = 1; dice < 4; dice++) {
            char asked[ROUTE_MAX_CANDIDATES + 1] = "";
            struct route r;

            decide(s, LISTED, false, dice * 0x9e3779b97f4a7c15U, &r);
            for (size_t k = 0; k < r.n_candidates; k++)
                asked[k] = (char)('0' + r.candidates[k]);
            is_str(route_row_name(r.row), route_row_name(rows[i].row), "%s: %s", rows[i].peers, rows[i].what);
            is_str(asked, rows[i].asked, "these are asked");
        }
        served_unref(s);
    }
    too_many(with);
    too_many_of_latest(with, without);
    spread(with, without);
    documents(with);
    aggregated(with, without);
    nobodys(without);
    newest(with, without);
    disco_unref(with);
    disco_unref(without);
    return tap_end();
}
