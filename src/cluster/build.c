/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/build.h"

#include <stdlib.h>

#include "base/buf.h"
#include "base/log.h"
#include "cluster/documents.h"
#include "kube/disco_merge.h"

enum { MERGE_BUDGET = 10000 /* resources in a step: some 2 ms */, PLACEHOLDER_CEILING = 4 << 20 };

struct build {
    struct fiber fiber;
    size_t budget; /* of a step, in what is counted now */
    bool protobuf;
    struct disco_merge *merge[SERVED_HALVES]; /* NULL: no server has that half */
    struct served_documents *made[SERVED_HALVES];
    struct err err;
};

/* ---- placeholders ---- */

/*
 * Placeholders in the merged document. First, for peers whose discovery was never read, since an unknown API must not
 * look like one that does not exist. The namespace controller takes a document without a group as proof that no objects
 * of it exist, and leaves them behind (KEP-4020, motivation); a group/version marked `Stale` makes it wait, and makes
 * the garbage collector keep what it watches (client-go: ErrGroupDiscoveryFailed).
 *
 * A group/version of a stored APIService that no known server serves most likely belongs to the unknown peer. Resources
 * that it has in group/versions of others cannot be known.
 *
 * Second, for custom resources and aggregated APIs while nobody who can be believed says what there is of them.
 *
 * They sort after every server ID.
 */
#define PLACEHOLDER_ID "~unknown"
#define PLACEHOLDER_EXCLUDED_ID "~unknown-excluded"

static int by_name(const void *a, const void *b)
{
    const struct served_gv *x = a, *y = b;
    int order = slice_cmp(x->group, y->group);

    return order != 0 ? order : slice_cmp(x->version, y->version);
}

static void print_version(struct buf *b, struct slice version)
{
    buf_append_quoted(b, "{\"version\":", version);
    buf_append_str(b, ",\"freshness\":\"Stale\"}");
}

static void print_group(struct buf *b, struct slice group)
{
    buf_append_quoted(b, "{\"metadata\":{\"name\":", group);
    buf_append_str(b, "},\"versions\":[");
}

static void print_placeholder(struct buf *b, const struct served_gv *gvs, size_t n)
{
    buf_append_str(b, "{\"kind\":\"APIGroupDiscoveryList\",\"apiVersion\":\"apidiscovery.k8s.io/v2\",\"metadata\":{},"
                      "\"items\":[");
    for (size_t i = 0; i < n; i++) {
        if (gvs[i].group.n == 0) /* not of /apis; sorted, they stand in front */
            continue;
        bool first = i == 0 || !slice_eq(gvs[i].group, gvs[i - 1].group);
        bool last = i + 1 == n || !slice_eq(gvs[i].group, gvs[i + 1].group);

        if (first)
            print_group(b, gvs[i].group);
        print_version(b, gvs[i].version);
        if (last)
            buf_append_str(b, "]}");
        if (i + 1 < n)
            buf_append_char(b, ',');
    }
    buf_append_str(b, "]}");
}

/* A server with all these group/versions, without resources. Sorts `gvs`; n is at least 1. */
static bool add_placeholder(struct disco_merge *m, struct slice id, struct served_gv *gvs, size_t n)
{
    struct disco_doc *doc = NULL;
    struct err err = {.text = ""};
    struct buf b;
    bool fine;

    qsort(gvs, n, sizeof(*gvs), by_name);
    buf_init(&b, PLACEHOLDER_CEILING);
    print_placeholder(&b, gvs, n);
    if (!b.failed)
        doc = disco_parse(buf_slice(&b), &err);
    if (err_is_set(&err))
        log_error("Could not make a placeholder for unknown peers", LT("err", err.text));
    buf_free(&b);
    fine = doc != NULL && disco_merge_add(m, id, doc, DISCO_SERVER_LAPSED);
    disco_doc_unref(doc);
    return fine;
}

/* ---- what is merged ---- */

static unsigned flags_of(const struct served_peer *p)
{
    return (p->stale ? DISCO_SERVER_LAPSED : 0) | (p->vouches ? DISCO_SERVER_VOUCHES : 0);
}

/* A server without this half (a hostile one, or one that is no kube-apiserver) has no say in it. */
static bool add_servers(struct disco_merge *m, const struct served_input *in, enum served_half half)
{
    unsigned local = DISCO_SERVER_LOCAL | (in->local_stale ? DISCO_SERVER_LAPSED : 0);

    if (!disco_merge_add(m, slice_str(in->local_id), disco_half(in->local, half == SERVED_CORE), local))
        return false;
    for (size_t i = 0; in->peers_enabled && i < in->n_peers; i++) {
        const struct disco_doc *doc = disco_half(in->peers[i].disco, half == SERVED_CORE);

        if (doc != NULL && !disco_merge_add(m, slice_str(in->peers[i].id), doc, flags_of(&in->peers[i])))
            return false;
    }
    return true;
}

/* Each of them is there, though perhaps no document has it. */
static bool add_doubt(struct disco_merge *m, const struct served_input *in)
{
    struct served_gv *gvs = mem_array(in->n_excluded + 1, sizeof(*gvs));
    size_t n = 0;
    bool fine = gvs != NULL;

    for (size_t i = 0; fine && i < in->n_excluded; i++) {
        struct slice version = in->excluded[i], group;

        if (slice_split(&version, '/', &group))
            gvs[n++] = (struct served_gv){group, version};
    }
    fine = fine && (n == 0 || add_placeholder(m, SLICE_LIT(PLACEHOLDER_EXCLUDED_ID), gvs, n));
    mem_free(gvs);
    disco_merge_doubt(m);
    return fine;
}

static bool add_inputs(struct build *b, const struct served_input *in)
{
    for (size_t i = 0; i < SERVED_HALVES; i++) {
        if (disco_half(in->local, i == SERVED_CORE) == NULL)
            continue;
        b->merge[i] = disco_merge_new();
        if (b->merge[i] == NULL || !add_servers(b->merge[i], in, (enum served_half)i))
            return false;
    }
    if (in->incomplete && in->n_undiscovered > 0 &&
        !add_placeholder(b->merge[SERVED_APIS], SLICE_LIT(PLACEHOLDER_ID), in->undiscovered, in->n_undiscovered))
        return false;
    if (in->doubtful && !add_doubt(b->merge[SERVED_APIS], in))
        return false;
    for (size_t i = 0; i < in->n_excluded; i++) {
        struct slice version = in->excluded[i], group;

        if (slice_split(&version, '/', &group) && !disco_merge_exclude(b->merge[SERVED_APIS], group, version))
            return false;
    }
    return true;
}

/* ---- the whole ---- */

/* A step ends where something else begins to be counted. */
static bool count_anew(struct build *b, size_t budget, struct fiber *f)
{
    b->budget = budget;
    return fiber_pause(f);
}

static bool make_half(struct build *b, enum served_half half, struct fiber *f)
{
    struct documents_input in = {.protobuf = b->protobuf};
    struct disco_merged m;

    if (!disco_merge_run(b->merge[half], f, &b->err) || !count_anew(b, DOCUMENTS_BUDGET, f))
        return false;
    disco_merge_result(b->merge[half], &m);
    in.text[SERVED_V2] = m.v2;
    in.text[SERVED_V2BETA1] = m.v2beta1;
    in.parsed = m.parsed;
    b->made[half] = documents_make(&in, f);
    return b->made[half] != NULL;
}

static bool make(void *arg, struct fiber *f)
{
    struct build *b = arg;

    return make_half(b, SERVED_APIS, f) &&
           (b->merge[SERVED_CORE] == NULL || (count_anew(b, MERGE_BUDGET, f) && make_half(b, SERVED_CORE, f)));
}

struct build *build_new(const struct served_input *in, bool protobuf)
{
    struct build *b = mem_zalloc(sizeof(*b));

    if (b == NULL)
        return NULL;
    fiber_init(&b->fiber, make, b, NULL);
    b->budget = MERGE_BUDGET;
    b->protobuf = protobuf;
    if (add_inputs(b, in))
        return b;
    build_free(b);
    return NULL;
}

void build_free(struct build *b)
{
    if (b == NULL)
        return;
    fiber_close(&b->fiber);
    for (size_t i = 0; i < SERVED_HALVES; i++) {
        disco_merge_free(b->merge[i]);
        served_documents_unref(b->made[i]);
    }
    mem_free(b);
}

enum step build_step(struct build *b, struct err *err)
{
    enum step s = fiber_step(&b->fiber, b->budget);

    if (s == STEP_FAILED)
        *err = b->err;
    return s;
}

struct served_documents *build_take(struct build *b, enum served_half half)
{
    struct served_documents *d = b->made[half];

    b->made[half] = NULL;
    return d;
}

bool build_has_protobuf(const struct build *b)
{
    return b->protobuf;
}
