/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walk over a server before 1.26. The input is its answers, with bytes 0xff between them: the root, then one per
 * group/version, whose first character says what became of it. Whatever a server says, what comes out is a document
 * that parses, and names nothing but what the root names.
 */
#include "base/buf.h"
#include "fuzz/fuzz.h"
#include "kube/disco_legacy.h"

static bool is_path(struct slice p)
{
    if (!slice_has_prefix(p, SLICE_LIT("/api/")) && !slice_has_prefix(p, SLICE_LIT("/apis/")))
        return false;
    for (size_t i = 0; i < p.n; i++)
        if ((unsigned char)p.p[i] <= ' ' || (unsigned char)p.p[i] >= 0x7f || p.p[i] == '?' || p.p[i] == '#' ||
            p.p[i] == '%')
            return false;
    return true;
}

static void answer(struct disco_walk *w, size_t i, struct slice body)
{
    struct err err;

    err_clear(&err);
    switch (fuzz_byte(&body)) {
    case 'a':
        disco_walk_absent(w, i);
        break;
    case 'u':
        disco_walk_unavailable(w, i);
        break;
    case 'n':
        break; /* never answered */
    default:
        if (!disco_walk_resources(w, i, body, &err)) {
            must_hold(err_is_set(&err));
            disco_walk_unavailable(w, i);
        }
    }
}

/* Each group/version of the document was walked. */
static void check(const struct disco_walk *w, const struct disco_doc *doc)
{
    struct buf path;

    buf_init(&path, 4096);
    for (const struct disco_group *g = disco_doc_groups(doc); g != NULL; g = g->next)
        for (const struct disco_version *v = g->versions; v != NULL; v = v->next) {
            size_t i = 0;

            buf_reset(&path);
            buf_append_str(&path, g->name.n == 0 ? "/api" : "/apis/");
            buf_append(&path, g->name);
            buf_append_char(&path, '/');
            buf_append(&path, v->name);
            while (i < disco_walk_count(w) && !slice_eq(disco_walk_path(w, i), buf_slice(&path)))
                i++;
            must_hold(i < disco_walk_count(w));
        }
    buf_free(&path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice in = slice_of((const char *)data, size), part;
    enum disco_walk_kind kind = fuzz_byte(&in) % 2 == 0 ? DISCO_WALK_API : DISCO_WALK_APIS;
    struct disco_walk *w = disco_walk_new(kind);
    struct disco_parser *p = disco_parser_new();
    enum step step = STEP_MORE;
    struct disco_doc *doc = NULL;
    struct err err;

    must_hold(w != NULL && p != NULL);
    err_clear(&err);
    part = SLICE_LIT("");
    (void)slice_split(&in, '\xff', &part);
    if (disco_walk_root(w, part, &err)) {
        for (size_t i = 0; i < disco_walk_count(w); i++) {
            must_hold(is_path(disco_walk_path(w, i)));
            if (slice_split(&in, '\xff', &part))
                answer(w, i, part);
        }
        must_hold(disco_walk_finish(w, p, &err));
        while (step == STEP_MORE)
            step = disco_parser_step(p, 64, &doc, &err);
        must_hold(step == STEP_DONE);
        check(w, doc);
    } else {
        must_hold(err_is_set(&err));
    }
    disco_doc_unref(doc);
    disco_parser_free(p);
    disco_walk_free(w);
    return 0;
}
