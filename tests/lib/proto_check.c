/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/proto_check.h"

static bool pb_varint(struct slice *in, uint64_t *v)
{
    *v = 0;
    for (unsigned shift = 0; in->n > 0 && shift < 64; shift += 7) {
        unsigned char c = (unsigned char)in->p[0];

        *in = slice_of(in->p + 1, in->n - 1);
        *v |= (uint64_t)(c & 0x7f) << shift;
        if (c < 0x80)
            return true;
    }
    return false;
}

bool pb_take(struct slice *in, unsigned field, struct slice *content)
{
    struct slice rest = *in;
    uint64_t tag, n;

    if (!pb_varint(&rest, &tag) || tag != (field << 3 | 2) || !pb_varint(&rest, &n) || n > rest.n)
        return false;
    *content = slice_of(rest.p, (size_t)n);
    *in = slice_of(rest.p + n, rest.n - (size_t)n);
    return true;
}

static bool pb_take_text(struct slice *in, unsigned field, struct slice want)
{
    struct slice got;

    return pb_take(in, field, &got) && slice_eq(got, want);
}

static bool pb_take_texts(struct slice *in, unsigned field, const struct slice *want, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!pb_take_text(in, field, want[i]))
            return false;
    return true;
}

/* A GroupVersionKind has three texts and nothing else; its kind goes to *kind. */
static bool pb_is_kind(struct slice in, struct slice *kind)
{
    struct slice group, version;

    return pb_take(&in, 1, &group) && pb_take(&in, 2, &version) && pb_take(&in, 3, kind) && in.n == 0;
}

static bool pb_agrees_subresource(struct slice in, const struct disco_subresource *s)
{
    struct slice content, kind;

    if (!pb_take_text(&in, 1, s->name) || (pb_take(&in, 2, &content) && !pb_is_kind(content, &kind)))
        return false;
    while (pb_take(&in, 3, &content))
        if (!pb_is_kind(content, &kind))
            return false;
    return pb_take_texts(&in, 4, s->verbs, s->n_verbs) && in.n == 0;
}

static bool pb_agrees_resource(struct slice in, const struct disco_resource *r)
{
    struct slice content, kind = SLICE_LIT("");

    if (!pb_take_text(&in, 1, r->name) || (pb_take(&in, 2, &content) && !pb_is_kind(content, &kind)))
        return false;
    if (!slice_eq(kind, r->kind) || !pb_take_text(&in, 3, r->scope) || !pb_take(&in, 4, &content) ||
        !pb_take_texts(&in, 5, r->verbs, r->n_verbs))
        return false;
    while (pb_take(&in, 6, &content) || pb_take(&in, 7, &content))
        continue;
    for (const struct disco_subresource *s = r->subresources; s != NULL; s = s->next)
        if (!pb_take(&in, 8, &content) || !pb_agrees_subresource(content, s))
            return false;
    return in.n == 0;
}

static bool pb_agrees_version(struct slice in, const struct disco_version *v)
{
    struct slice content;

    if (!pb_take_text(&in, 1, v->name))
        return false;
    for (const struct disco_resource *r = v->resources; r != NULL; r = r->next)
        if (!pb_take(&in, 2, &content) || !pb_agrees_resource(content, r))
            return false;
    return pb_take_text(&in, 3, v->freshness) && in.n == 0;
}

static bool pb_agrees_group(struct slice in, const struct disco_group *g)
{
    struct slice content, meta;

    if (!pb_take(&in, 1, &meta) || !pb_take_text(&meta, 1, g->name))
        return false;
    for (const struct disco_version *v = g->versions; v != NULL; v = v->next)
        if (!pb_take(&in, 2, &content) || !pb_agrees_version(content, v))
            return false;
    return in.n == 0;
}

bool pb_agrees(struct slice in, const struct disco_doc *doc, const char *api_version)
{
    struct slice type, list, content;

    if (in.n < 4 || memcmp(in.p, "k8s\0", 4) != 0)
        return false;
    in = slice_from(in, 4);
    if (!pb_take(&in, 1, &type) || !pb_take(&in, 2, &list) || !pb_take_text(&in, 3, SLICE_LIT("")) ||
        !pb_take_text(&in, 4, SLICE_LIT("")) || in.n != 0)
        return false;
    if (!pb_take_text(&type, 1, slice_str(api_version)) || !pb_take_text(&type, 2, SLICE_LIT(DISCO_LIST_KIND)) ||
        !pb_take(&list, 1, &content))
        return false;
    for (const struct disco_group *g = disco_doc_groups(doc); g != NULL; g = g->next)
        if (!pb_take(&list, 2, &content) || !pb_agrees_group(content, g))
            return false;
    return list.n == 0;
}

struct encoding {
    struct disco_proto *proto;
    enum disco_form form;
    struct buf *out;
};

static bool encode(void *arg, struct fiber *f)
{
    struct encoding *e = arg;
    struct err err = {.text = ""};

    return disco_proto_make(e->proto, f, &err) && disco_proto_write(e->proto, e->form, e->out, f);
}

bool pb_encode(const struct disco_doc *doc, size_t budget, enum disco_form form, struct buf *out)
{
    struct encoding e = {disco_proto_new(doc), form, out};
    struct fiber f;
    enum step step = e.proto == NULL ? STEP_FAILED : STEP_MORE;
    bool good;

    fiber_init(&f, encode, &e, NULL);
    while (step == STEP_MORE)
        step = fiber_step(&f, budget);
    good = step == STEP_DONE && buf_len(out) == disco_proto_bytes(e.proto, form);
    fiber_close(&f);
    disco_proto_free(e.proto);
    return good;
}
