/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Discovery documents: parsing in any steps gives the same index, and lookups agree with it. Where names are
 * judged, there is no other one.
 */
#include "fuzz/fuzz.h"
#include "kube/disco_parse.h"

enum judges { JUDGES_NOT, JUDGES_APIS, JUDGES_CORE };

static struct disco_doc *parse_in_steps(struct slice in, unsigned pieces, enum judges judges)
{
    struct disco_parser *p = disco_parser_new();
    struct disco_doc *doc = NULL;
    enum step step = STEP_MORE;
    struct err err;

    must_hold(p != NULL);
    if (judges != JUDGES_NOT)
        disco_parser_judge(p, judges == JUDGES_CORE);
    err_clear(&err);
    for (size_t at = 0; at < in.n;) {
        size_t n = fuzz_piece(&pieces, in.n - at);

        must_hold(disco_parser_feed(p, slice_of(in.p + at, n), &err));
        at += n;
    }
    while (step == STEP_MORE)
        step = disco_parser_step(p, 1 + pieces % 64, &doc, &err);
    must_hold((step == STEP_DONE) == (doc != NULL));
    must_hold(doc != NULL || err_is_set(&err));
    disco_parser_free(p);
    return doc;
}

static bool inside(struct slice part, struct slice whole)
{
    return part.p >= whole.p && part.p + part.n <= whole.p + whole.n;
}

static void check_group(const struct disco_doc *d, const struct disco_group *g)
{
    must_hold(inside(g->raw, disco_doc_raw(d)));
    for (const struct disco_version *v = g->versions; v != NULL; v = v->next) {
        must_hold(v->group == g && inside(v->raw, g->raw));
        must_hold(disco_doc_version(d, g->name, v->name) != NULL);
        for (const struct disco_resource *r = v->resources; r != NULL; r = r->next) {
            struct gvr name = {g->name, v->name, r->name};

            must_hold(r->version == v && inside(r->raw, v->raw));
            must_hold(disco_doc_resource(d, &name) != NULL || r->name.n > GVR_NAME_BYTES);
        }
    }
}

static void check_judged(struct slice in, unsigned pieces, enum judges judges, const struct disco_doc *whole)
{
    struct disco_doc *d = parse_in_steps(in, pieces, judges);
    size_t n_resources = 0;
    struct slice first;

    must_hold((d == NULL) == (whole == NULL));
    if (d == NULL)
        return;
    must_hold(slice_eq(disco_doc_raw(d), in));
    must_hold(disco_doc_left_out(d, &first) > 0 || disco_doc_n_resources(d) == disco_doc_n_resources(whole));
    for (const struct disco_group *g = disco_doc_groups(d); g != NULL; g = g->next) {
        must_hold(judges == JUDGES_CORE ? g->name.n == 0 : gvr_is_group(g->name));
        for (const struct disco_version *v = g->versions; v != NULL; v = v->next) {
            must_hold(gvr_is_version(v->name) && (!v->reduced || g->reduced));
            n_resources += v->n_resources;
            for (const struct disco_resource *r = v->resources; r != NULL; r = r->next)
                must_hold(gvr_is_resource(r->name) && !r->odd && (!r->reduced || v->reduced));
        }
        check_group(d, g);
    }
    must_hold(n_resources == disco_doc_n_resources(d));
    disco_doc_unref(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice in = slice_of((const char *)data, size);
    unsigned pieces = fuzz_byte(&in) + 1u;
    struct disco_doc *whole, *cut;
    struct err err;

    err_clear(&err);
    whole = disco_parse(in, &err);
    must_hold(whole != NULL || err_is_set(&err));
    cut = parse_in_steps(in, pieces, JUDGES_NOT);
    must_hold((whole == NULL) == (cut == NULL));
    if (whole != NULL) {
        must_hold(slice_eq(disco_doc_raw(whole), in));
        must_hold(inside(disco_doc_api_version(whole), disco_doc_raw(whole)));
        must_hold(disco_doc_n_groups(whole) == disco_doc_n_groups(cut));
        must_hold(disco_doc_n_resources(whole) == disco_doc_n_resources(cut));
        for (const struct disco_group *g = disco_doc_groups(whole); g != NULL; g = g->next)
            check_group(whole, g);
    }
    check_judged(in, pieces, JUDGES_APIS, whole);
    check_judged(in, pieces, JUDGES_CORE, whole);
    disco_doc_unref(whole);
    disco_doc_unref(cut);
    return 0;
}
