/* SPDX-License-Identifier: Apache-2.0 */
/* The local server is away: which peers are asked in its place, by what is known of each. */
#include <stdio.h>

#include "back/back.h"
#include "kube/disco_parse.h"
#include "lib/tap.h"
#include "proxy/route.h"

#define HEAD "{\"kind\":\"APIGroupDiscoveryList\",\"apiVersion\":\"apidiscovery.k8s.io/v2\",\"metadata\":{},\"items\":["
#define JOBS                                                                                                           \
    "{\"metadata\":{\"name\":\"batch\"},\"versions\":[{\"version\":\"v1\",\"freshness\":\"Current\",\"resources\":["   \
    "{\"resource\":\"jobs\",\"responseKind\":{\"group\":\"\",\"version\":\"\",\"kind\":\"Job\"},\"scope\":"            \
    "\"Cluster\","                                                                                                     \
    "\"singularResource\":\"job\",\"verbs\":[\"list\"]}]}]}"

/* Origins are only compared and counted here: the real ones would drag sockets in. */
struct origin {
    bool healthy;
};

struct origin *origin_ref(struct origin *o)
{
    return o;
}

void origin_unref(struct origin *o)
{
    (void)o;
}

static struct disco *make_disco(struct slice apis_text)
{
    struct err err = {""};
    struct disco_doc *core = disco_parse(SLICE_LIT(HEAD "]}"), &err), *apis = disco_parse(apis_text, &err);
    struct disco *d = core == NULL || apis == NULL ? NULL : disco_new(core, apis);

    disco_doc_unref(core);
    disco_doc_unref(apis);
    if (d == NULL)
        tap_bail("test document: %s", err.text);
    return d;
}

static bool is_healthy(const struct served_peer *p, void *arg)
{
    (void)arg;
    return p->origin->healthy;
}

/* L live, G gone (lapsed); lower case: an outlier. Then D: drained, A: without address. */
static struct served *make_served(const char *peers, bool local_has, struct disco *with, struct disco *without)
{
    static struct origin well = {true}, sick = {false};
    struct served_peer rows[3] = {{.id = "apiserver-b"}, {.id = "apiserver-c"}, {.id = "apiserver-d"}};
    struct served_input in = {.peers_enabled = true,
                              .leases_synced = true,
                              .local_id = "apiserver-a",
                              .local = local_has ? with : without,
                              .peers = rows};
    struct served *s;

    for (const char *c = peers; *c != '\0'; c++) {
        struct served_peer *p = &rows[in.n_peers];

        if (*c != ' ') {
            p->discovery_known = true;
            p->disco = with;
            p->life = *c == 'L' || *c == 'l' ? SERVED_LIVE : SERVED_LAPSED;
            p->origin = *c == 'L' || *c == 'G' ? &well : &sick;
        }
        for (; c[1] == 'D' || c[1] == 'A'; c++) {
            p->drained |= c[1] == 'D';
            p->origin = c[1] == 'A' ? NULL : p->origin;
        }
        in.n_peers += *c != ' ';
    }
    s = served_new(&in);
    if (s == NULL)
        tap_bail("out of memory");
    return s;
}

static void decide(const struct served *s, uint64_t dice, struct route *r)
{
    struct arena *a = arena_new(1 << 16);
    struct reqinfo info;
    struct route_query q = {.info = &info,
                            .get_or_head = true,
                            .failover = true,
                            .local_state = READINESS_UNREACHABLE,
                            .served = s,
                            .healthy = is_healthy,
                            .dice = dice};

    if (a == NULL || reqinfo_parse(a, SLICE_LIT("GET"), SLICE_LIT("/apis/batch/v1/jobs"), &info) != REQINFO_OK)
        tap_bail("test request");
    route_decide(&q, r);
    arena_free(a);
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
        {"G L", true, ROUTE_ROW_LOCAL_FAILOVER, "1", "where one is live, it is asked alone, and nobody who has lapsed"},
        {"G l", true, ROUTE_ROW_LOCAL_FAILOVER, "01", "unless it is an outlier: then behind who may be back"},
        {"G LD", true, ROUTE_ROW_LOCAL_FAILOVER, "01", "or drained"},
        {"G LA", true, ROUTE_ROW_LOCAL_FAILOVER, "0", "unless nobody knows where it is"},
        {"LD L l", true, ROUTE_ROW_LOCAL_FAILOVER, "120", "outliers behind the others, the drained behind them"},
        {"G", true, ROUTE_ROW_LOCAL_FAILOVER, "0", "who has lapsed may be back, and who is away cannot tell"},
        {"g", true, ROUTE_ROW_SERVED_LOCALLY, "", "a lapsed outlier is not asked"},
        {"g G", true, ROUTE_ROW_LOCAL_FAILOVER, "1", "but another one"},
        {"GD", true, ROUTE_ROW_SERVED_LOCALLY, "", "a lapsed one that is drained is not asked"},
        {"GA", true, ROUTE_ROW_SERVED_LOCALLY, "", "nor one without address"},
        {"G", false, ROUTE_ROW_PEER, "0", "what the local server lacks is a peer's, as ever"},
    };
    struct disco *with = make_disco(SLICE_LIT(HEAD JOBS "]}")), *without = make_disco(SLICE_LIT(HEAD "]}"));

    for (size_t i = 0; i < ROWS(rows); i++) {
        struct served *s = make_served(rows[i].peers, rows[i].local_has, with, without);

        for (uint64_t dice = 1; dice < 4; dice++) {
            char asked[ROUTE_MAX_CANDIDATES + 1] = "";
            struct route r;

            decide(s, dice * 0x9e3779b97f4a7c15U, &r);
            for (size_t k = 0; k < r.n_candidates; k++)
                asked[k] = (char)('0' + r.candidates[k]);
            is_str(route_row_name(r.row), route_row_name(rows[i].row), "%s: %s", rows[i].peers, rows[i].what);
            is_str(asked, rows[i].asked, "these are asked");
        }
        served_unref(s);
    }
    disco_unref(with);
    disco_unref(without);
    return tap_end();
}
