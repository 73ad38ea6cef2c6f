/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Merging whatever parses: up to five documents, with bytes 0xff between them. The same bytes in any order and in any
 * steps; the result parses, can be put into protobuf form, and has everything that somebody serves.
 */
#include "base/buf.h"
#include "fuzz/fuzz.h"
#include "kube/disco_merge.h"
#include "lib/merge_steps.h"
#include "lib/proto_check.h"

enum { SERVERS = 5 };

struct servers {
    struct disco_doc *docs[SERVERS];
    unsigned flags[SERVERS];
    size_t n;
    bool exclude; /* the first version of the second document */
};

static void exclude_one(struct disco_merge *m, const struct servers *s)
{
    const struct disco_group *g = s->n < 2 ? NULL : disco_doc_groups(s->docs[1]);

    if (s->exclude && g != NULL && g->versions != NULL)
        must_hold(disco_merge_exclude(m, g->name, g->versions->name));
}

static struct disco_merge *merge(const struct servers *s, size_t first, size_t budget)
{
    struct disco_merge *m = disco_merge_new();
    struct err err;

    must_hold(m != NULL);
    err_clear(&err);
    for (size_t k = 0; k < s->n; k++) {
        size_t i = (first + k) % s->n;
        const char id[] = {'s', (char)('0' + i), '\0'};

        must_hold(disco_merge_add(m, slice_str(id), s->docs[i], s->flags[i]));
    }
    exclude_one(m, s);
    (void)merge_in_steps(m, budget, &err);
    must_hold(!err_is_set(&err));
    return m;
}

/* Each verb of the one is among the other's. */
static bool has_verbs(const struct disco_resource *r, const struct disco_resource *all)
{
    for (size_t i = 0; i < r->n_verbs; i++) {
        size_t k = 0;

        while (k < all->n_verbs && !slice_eq(r->verbs[i], all->verbs[k]))
            k++;
        if (k == all->n_verbs)
            return false;
    }
    return true;
}

static bool has_subresources(const struct disco_resource *r, const struct disco_resource *all)
{
    for (const struct disco_subresource *s = r->subresources; s != NULL; s = s->next) {
        const struct disco_subresource *t = all->subresources;

        while (t != NULL && !slice_eq(s->name, t->name))
            t = t->next;
        if (t == NULL)
            return false;
    }
    return true;
}

static void nothing_lost(const struct disco_doc *from, const struct disco_doc *merged)
{
    for (const struct disco_group *g = disco_doc_groups(from); g != NULL; g = g->next) {
        must_hold(disco_doc_group(merged, g->name) != NULL);
        for (const struct disco_version *v = g->versions; v != NULL; v = v->next) {
            must_hold(disco_doc_version(merged, g->name, v->name) != NULL);
            for (const struct disco_resource *r = v->resources; r != NULL; r = r->next) {
                struct gvr name = {g->name, v->name, r->name};
                const struct disco_resource *all = disco_doc_resource(merged, &name);

                must_hold(all != NULL && has_verbs(r, all) && has_subresources(r, all));
            }
        }
    }
}

static void check(const struct servers *s, struct slice v2, struct slice v2beta1)
{
    struct disco_doc *merged, *other;
    struct buf proto;
    struct err err;

    err_clear(&err);
    merged = disco_parse(v2, &err);
    must_hold(merged != NULL && disco_doc_form(merged) == DISCO_V2);
    other = disco_parse(v2beta1, &err);
    must_hold(other != NULL && disco_doc_form(other) == DISCO_V2BETA1);
    must_hold(disco_doc_n_resources(merged) == disco_doc_n_resources(other));
    for (size_t i = 0; i < s->n && !s->exclude; i++)
        nothing_lost(s->docs[i], merged);
    buf_init(&proto, 64 << 20);
    must_hold(pb_encode(merged, 1000, DISCO_V2, &proto) && pb_agrees(buf_slice(&proto), merged, DISCO_GROUP "/v2"));
    buf_free(&proto);
    disco_doc_unref(merged);
    disco_doc_unref(other);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice in = slice_of((const char *)data, size), part;
    unsigned knobs = fuzz_byte(&in), flags = fuzz_byte(&in);
    struct servers s = {.exclude = knobs & 1};
    struct disco_merge *one, *two;
    struct disco_merged a, b;
    struct err err;

    while (s.n < SERVERS && slice_split(&in, '\xff', &part)) {
        err_clear(&err);
        s.flags[s.n] = (flags >> s.n) & 1 ? DISCO_SERVER_LAPSED : 0;
        if (s.n == (knobs >> 1) % 6)
            s.flags[s.n] = DISCO_SERVER_LOCAL;
        s.docs[s.n] = disco_parse(part, &err);
        s.n += s.docs[s.n] != NULL;
    }
    if (s.n > 0) {
        one = merge(&s, 0, SIZE_MAX);
        two = merge(&s, (knobs >> 4) % s.n, 1);
        disco_merge_result(one, &a);
        disco_merge_result(two, &b);
        must_hold(slice_eq(a.v2, b.v2) && slice_eq(a.v2beta1, b.v2beta1) && a.is_local == b.is_local);
        check(&s, a.v2, a.v2beta1);
        disco_merge_free(one);
        disco_merge_free(two);
    }
    for (size_t i = 0; i < s.n; i++)
        disco_doc_unref(s.docs[i]);
    return 0;
}
