/* SPDX-License-Identifier: Apache-2.0 */
/* The snapshot: what it answers, what it keeps alive. */
#include "cluster/served.h"

#include <stdio.h>

#include "cluster/served_size.h"
#include "kube/disco.h"
#include "lib/disco_text.h"
#include "lib/tap.h"
#include "sim/cluster_kit.h"

static struct disco *make_disco(const char *apis_items)
{
    static const char core[] =
        "{\"metadata\":{},\"versions\":[{\"version\":\"v1\",\"resources\":[{\"resource\":\"pods\","
        "\"responseKind\":{\"group\":\"\",\"version\":\"v1\",\"kind\":\"Pod\"},\"scope\":\"Namespaced\","
        "\"singularResource\":\"pod\",\"verbs\":[\"get\",\"list\"],\"subresources\":[{\"subresource\":"
        "\"exec\",\"verbs\":[\"create\",\"get\"]}]}]}]}";

    return disco_of_items(core, apis_items);
}

#define BATCH                                                                                                          \
    "{\"metadata\":{\"name\":\"batch\"},\"versions\":[{\"version\":\"v1\",\"resources\":[{\"resource\":\"jobs\","      \
    "\"responseKind\":"                                                                                                \
    "{\"group\":\"batch\",\"version\":\"v1\",\"kind\":\"Job\"},\"scope\":\"Namespaced\",\"singularResource\":\"job\"," \
    "\"verbs\":["                                                                                                      \
    "\"get\"]}]}]}"

static const struct gvr jobs = {{"batch", 5}, {"v1", 2}, {"jobs", 4}}, pods = {{"", 0}, {"v1", 2}, {"pods", 4}};

static void answers(void)
{
    struct disco *local = make_disco(""), *other = make_disco(BATCH);
    struct served_peer peers[] = {
        {.id = "apiserver-b", .host = "cp-b", .life = SERVED_LIVE, .discovery_known = true, .disco = other},
        {.id = "apiserver-c", .life = SERVED_LAPSED, .discovery_known = false, .disco = other},
        {.id = "apiserver-d", .life = SERVED_LAPSED, .discovery_known = false},
    };
    struct slice excluded[] = {SLICE_LIT("stable.example.com/v1"), SLICE_LIT("a/v1"),
                               SLICE_LIT("metrics.k8s.io/v1beta1")};
    struct served_input in = {.peers_enabled = true,
                              .leases_synced = true,
                              .local_id = "apiserver-a",
                              .local = local,
                              .local_etag = {SLICE_LIT("\"ABC\"")},
                              .peers = peers,
                              .n_peers = ROWS(peers),
                              .excluded = excluded,
                              .n_excluded = ROWS(excluded),
                              .aggregated = &excluded[1],
                              .n_aggregated = 2,
                              .generation = 7};
    struct served *s = served_new(&in), *again;

    disco_unref(local);
    disco_unref(other);
    ok(s != NULL && served_synced(s) && served_peers_enabled(s), "made");
    is_u64(served_generation(s), 7, "generation");
    is_str(served_local_id(s), "apiserver-a", "own ID");
    is_str(served_local_host(s), "apiserver-a", "without a host name the ID stands for it");
    is_str(served_peer_at(s, 0)->host, "cp-b", "a peer by its host name");
    is_str(served_peer_at(s, 1)->host, "apiserver-c", "and one without by its ID");
    is_slice(served_local_etag(s, SERVED_APIS), "\"ABC\"", "local tag");
    is_u64(served_n_peers(s), 3, "peers");
    is_int(served_local(s, &pods, SLICE_NONE, SLICE_LIT("list")), DISCO_SERVED, "pods are local");
    is_int(served_local(s, &pods, SLICE_LIT("exec"), SLICE_LIT("create")), DISCO_SERVED, "with exec");
    is_int(served_local(s, &pods, SLICE_LIT("resize"), SLICE_NONE), DISCO_NO_SUBRESOURCE, "without resize");
    is_int(served_local(s, &pods, SLICE_NONE, SLICE_LIT("delete")), DISCO_NO_VERB, "not to be deleted");
    is_int(served_local(s, &jobs, SLICE_NONE, SLICE_NONE), DISCO_NO_RESOURCE, "jobs are not local");
    is_int(served_by_peer(s, 0, &jobs, SLICE_NONE, SLICE_NONE), DISCO_SERVED, "jobs at b");
    is_int(served_by_peer(s, 1, &jobs, SLICE_NONE, SLICE_NONE), DISCO_NO_RESOURCE, "not at c, which is unknown again");
    is_int(served_by_peer(s, 2, &jobs, SLICE_NONE, SLICE_NONE), DISCO_NO_RESOURCE, "not at d, never asked");
    ok(!served_unknown_peer(s), "no live peer is unknown");
    ok(served_excluded(s, SLICE_LIT("stable.example.com"), SLICE_LIT("v1")), "excluded");
    ok(served_excluded(s, SLICE_LIT("a"), SLICE_LIT("v1")), "excluded, short");
    ok(!served_excluded(s, SLICE_LIT("stable.example.com"), SLICE_LIT("v2")), "another version is not");
    ok(!served_excluded(s, SLICE_LIT("stable.example"), SLICE_LIT("com/v1")), "nor another cut");
    ok(!served_excluded(s, SLICE_LIT(""), SLICE_LIT("v1")), "nor the core group");
    ok(served_aggregated(s, SLICE_LIT("metrics.k8s.io"), SLICE_LIT("v1beta1")), "aggregated");
    ok(served_aggregated(s, SLICE_LIT("a"), SLICE_LIT("v1")), "another one");
    ok(!served_aggregated(s, SLICE_LIT("stable.example.com"), SLICE_LIT("v1")), "a custom resource is not");
    ok(served_merged(s, SERVED_V2) == NULL, "no merged document yet");
    again = served_ref(s);
    served_unref(s);
    is_u64(served_n_peers(again), 3, "alive while referenced");
    served_unref(again);
}

static void syncing(void)
{
    struct disco *local = make_disco("");
    struct served_peer unknown = {.id = "apiserver-b", .life = SERVED_LIVE, .pending = true};
    struct served_input in = {.local_id = "a", .leases_synced = true};
    struct served *s = served_new(&in);

    ok(!served_synced(s), "without local discovery: not synced");
    is_int(served_local(s, &pods, SLICE_NONE, SLICE_NONE), DISCO_NO_RESOURCE, "and nothing is served");
    is_slice(served_local_etag(s, SERVED_APIS), "", "no tag");
    served_unref(s);
    in.local = local;
    in.leases_synced = false;
    in.peers = &unknown;
    in.n_peers = 1;
    s = served_new(&in);
    ok(!served_synced(s), "without Leases: not synced");
    ok(served_unknown_peer(s), "a live peer that is about to answer is unknown");
    served_unref(s);
    unknown = (struct served_peer){.id = "apiserver-b", .life = SERVED_LIVE, .disco = local};
    s = served_new(&in);
    ok(!served_unknown_peer(s), "one that does not answer is not waited for");
    ok(served_undiscovered(s, SLICE_LIT(""), SLICE_LIT("v1")), "but what it said before may be its");
    ok(!served_undiscovered(s, SLICE_LIT(""), SLICE_LIT("v2")), "and nothing else");
    served_unref(s);
    disco_unref(local);
}

static void undiscovered(void)
{
    struct served_gv gvs[] = {{SLICE_LIT(""), SLICE_LIT("v1")},
                              {SLICE_LIT("batch"), SLICE_LIT("v1")},
                              {SLICE_LIT("batch"), SLICE_LIT("v1beta1")}};
    struct served_input in = {.local_id = "a", .undiscovered = gvs, .n_undiscovered = ROWS(gvs)};
    struct served *s = served_new(&in);

    memset(gvs, 0, sizeof(gvs));
    ok(served_undiscovered(s, SLICE_LIT("batch"), SLICE_LIT("v1")) &&
           served_undiscovered(s, SLICE_LIT(""), SLICE_LIT("v1")),
       "what is named may be somebody's");
    ok(served_undiscovered(s, SLICE_LIT("batch"), SLICE_LIT("")), "so may the group");
    ok(!served_undiscovered(s, SLICE_LIT("batch"), SLICE_LIT("v2")) &&
           !served_undiscovered(s, SLICE_LIT("bat"), SLICE_LIT("")),
       "what is not named is nobody's");
    served_unref(s);
    in.n_undiscovered = 0;
    s = served_new(&in);
    ok(!served_undiscovered(s, SLICE_LIT("batch"), SLICE_LIT("v1")), "everybody has told: nothing is");
    served_unref(s);
}

static void documents(void)
{
    struct served_input in = {.local_id = "a"};
    struct served_document d[SERVED_SHAPES] = {{.body = SLICE_LIT("{}")}, {.body = SLICE_NONE}};
    char *storage[SERVED_SHAPES * 3] = {NULL};
    struct served_documents *shared = served_documents_new(d, storage, NULL);
    struct served *one, *two;

    in.documents[SERVED_APIS] = shared;
    one = served_new(&in);
    two = served_new(&in);
    served_documents_unref(shared);
    is_slice(served_merged(one, SERVED_V2)->body, "{}", "a shared document");
    ok(served_merged(one, SERVED_V2) == served_merged(two, SERVED_V2), "is one document");
    ok(served_merged(one, SERVED_V2BETA1) == NULL, "what is not there is not there");
    served_unref(one);
    is_slice(served_merged(two, SERVED_V2)->body, "{}", "and outlives the first snapshot");
    served_complete(two, (struct served_documents *const[SERVED_HALVES]){NULL, NULL}, true, 7);
    is_slice(served_merged(two, SERVED_V2)->body, "{}", "and stays where no other takes its place");
    is_u64(served_generation(two), 7, "with what goes with it");
    served_unref(two);
    in.documents[SERVED_APIS] = NULL;
    one = served_new(&in);
    ok(served_merged(one, SERVED_V2) == NULL && served_merged_doc(one, SERVED_APIS) == NULL, "none");
    served_unref(one);
}

/* What is otherwise in one thing is another. */
static void differ(const struct served *s, const struct served_input *in)
{
    struct served_input others[] = {*in, *in, *in, *in, *in, *in, *in, *in, *in, *in, *in, *in};

    others[0].n_peers = 1;
    others[1].n_excluded = 1;
    others[2].n_undiscovered = 0;
    others[3].peers_enabled = true;
    others[4].leases_synced = true;
    others[5].behind = true;
    others[6].local_refused = true;
    others[7].local_id = "b";
    others[8].local_host = "b";
    others[9].local_etag[SERVED_APIS] = SLICE_LIT("z");
    others[10].local_etag[SERVED_CORE] = SLICE_LIT("z");
    others[11].local_release = 1;
    for (size_t i = 0; i < ROWS(others); i++)
        ok(!served_is(s, &others[i]), "difference %zu", i);
}

/* Arrays end where they are said to: what stands behind them, here what nobody could copy, is not read. */
static void as_long_as_said(void)
{
    static const struct slice nowhere = {(const char *)(uintptr_t)8, SIZE_MAX / 2};
    struct served_peer peers[] = {{.id = "apiserver-b"}, {.id = "apiserver-c"}, {.id = (const char *)(uintptr_t)8}};
    struct slice excluded[] = {SLICE_LIT("a/v1"), SLICE_LIT("b/v1"), nowhere};
    struct slice aggregated[] = {SLICE_LIT("a/v1"), nowhere};
    struct served_gv gvs[] = {{SLICE_LIT("a"), SLICE_LIT("v1")}, {nowhere, nowhere}};
    struct served_input in = {.local_id = "a",
                              .local_etag = {SLICE_LIT("x"), SLICE_LIT("y")},
                              .peers = peers,
                              .n_peers = 2,
                              .excluded = excluded,
                              .n_excluded = 2,
                              .aggregated = aggregated,
                              .n_aggregated = 1,
                              .undiscovered = gvs,
                              .n_undiscovered = 1};
    struct served *s = served_new(&in);

    ok(s != NULL && served_n_peers(s) == 2, "copied");
    if (s == NULL)
        return;
    ok(served_is(s, &in), "the same again is the same");
    differ(s, &in);
    peers[1].silent = true;
    ok(!served_is(s, &in), "nor a peer that does not answer");
    peers[1].silent = false;
    excluded[0] = SLICE_LIT("c/v1");
    ok(!served_is(s, &in), "another that is excluded is not");
    excluded[0] = SLICE_LIT("a/v1");
    excluded[1] = SLICE_LIT("c/v1");
    ok(!served_is(s, &in), "another that is excluded is not");
    excluded[1] = SLICE_LIT("b/v1");
    aggregated[0] = SLICE_LIT("b/v1");
    ok(!served_is(s, &in), "nor another that is aggregated");
    in.n_aggregated = 0;
    ok(!served_is(s, &in), "nor none");
    in.n_aggregated = 1;
    aggregated[0] = SLICE_LIT("a/v1");
    gvs[0].version = SLICE_LIT("v2");
    ok(!served_is(s, &in), "nor another that is not discovered");
    gvs[0].version = SLICE_LIT("v1");
    for (size_t i = 0; i < 2; i++) {
        peers[i].drained = true;
        ok(!served_is(s, &in), "nor another peer");
        peers[i].drained = false;
    }
    ok(served_is(s, &in), "as it was");
    served_unref(s);
}

/* A cluster may have thousands of custom resources: each snapshot has its own list of them, whatever else it shares. */
static void size_of_own_lists(void)
{
    enum { NAMES = 1000 };
    static const char *const lists[] = {"excluded", "aggregated", "undiscovered"};
    static char names[NAMES][64];
    static struct slice gvs[NAMES];
    static struct served_gv apart[NAMES];
    struct disco *local = make_disco(BATCH);
    struct served_input in = {.local_id = "a", .local = local}, ins[ROWS(lists)] = {in, in, in};
    struct served *without = served_new(&in);
    size_t bytes = 0;

    for (size_t i = 0; i < NAMES; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "group%zu.example.com/v1", i);
        gvs[i] = slice_str(names[i]);
        apart[i] = (struct served_gv){slice_of(names[i], gvs[i].n - 3), SLICE_LIT("v1")};
        bytes += gvs[i].n;
    }
    ins[0].excluded = ins[1].aggregated = gvs;
    ins[2].undiscovered = apart;
    ins[0].n_excluded = ins[1].n_aggregated = ins[2].n_undiscovered = NAMES;
    for (size_t i = 0; i < ROWS(lists); i++) {
        struct served *with = served_new(&ins[i]);
        const struct schema_index *schemas = served_undiscovered_schemas(with);
        size_t least = bytes + (schemas == NULL ? 0 : schema_index_bytes(schemas));

        ok(served_bytes_besides(with, without) >= least, "the list of what is %s is counted", lists[i]);
        ok(served_bytes_besides(without, with) < bytes, "and not where it is not");
        served_unref(with);
    }
    served_unref(without);
    disco_unref(local);
}

static void no_memory(void)
{
    struct disco *local = make_disco(BATCH);
    struct served_peer peer = {.id = "apiserver-b", .disco = local};
    struct slice excluded = SLICE_LIT("a/v1");
    static char longer[64 << 10]; /* than what is left of a block, each */
    struct slice text = slice_of(longer, sizeof(longer));
    struct served_gv undiscovered = {text, text};
    struct served_input in = {.local_id = "a",
                              .local_etag = {text, text},
                              .local = local,
                              .peers = &peer,
                              .n_peers = 1,
                              .excluded = &excluded,
                              .n_excluded = 1,
                              .undiscovered = &undiscovered,
                              .n_undiscovered = 1};
    unsigned failed = 0;

    for (uint64_t n = 1; n < 50; n++) {
        struct served *s;

        mem_fail_nth(n);
        s = served_new(&in);
        mem_fail_nth(0);
        failed += s == NULL;
        served_unref(s);
    }
    ok(failed >= 8, "each allocation may fail (%u did)", failed);
    disco_unref(local);
}

int main(void)
{
    answers();
    syncing();
    undiscovered();
    documents();
    as_long_as_said();
    size_of_own_lists();
    no_memory();
    return tap_end();
}
