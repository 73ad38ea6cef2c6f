/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/build.h"

#include "cluster/documents.h"
#include "cluster/placeholder.h"
#include "kube/disco_merge.h"

enum { MERGE_BUDGET = 10000 /* resources in a step: some 2 ms */ };

struct build {
    struct fiber fiber;
    size_t budget; /* of a step, in what is counted now */
    bool protobuf;
    struct disco_merge *merge[SERVED_HALVES]; /* NULL: no server has that half */
    struct served_documents *made[SERVED_HALVES];
    struct err err;
};

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

static bool add_placeholder(struct disco_merge *m, struct slice id, struct served_gv *gvs, size_t n)
{
    struct disco_doc *doc = placeholder_new(gvs, n);
    bool fine = doc != NULL && disco_merge_add(m, id, doc, DISCO_SERVER_LAPSED);

    disco_doc_unref(doc);
    return fine;
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
