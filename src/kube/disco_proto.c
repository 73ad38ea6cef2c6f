/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A message is preceded by its length, so it is written when all of it is known. Each version's message is made
 * resource by resource, and they stand one after the other in one buffer; groups and the list only add headers between
 * them, whose lengths are sums. Those are made while the whole is written.
 */
#include "kube/disco_proto.h"

#include "base/buf.h"
#include "base/limits.h"
#include "kube/jscan.h"
#include "kube/pbwrite.h"

enum {
    RESOURCE_ARENA_BYTES = LIMIT_DISCOVERY_BYTES, /* decoded texts of one resource */
    UNIT_COST = 256,                              /* of a message, beside the bytes that it is made of */
    COPIED_BYTES = 4                              /* for each that is made */
};

/* Field numbers of generated.proto. */
enum { LIST_METADATA = 1, LIST_ITEMS };
enum { GROUP_METADATA = 1, GROUP_VERSIONS };
enum { VERSION_VERSION = 1, VERSION_RESOURCES, VERSION_FRESHNESS };
enum {
    RESOURCE_RESOURCE = 1,
    RESOURCE_KIND,
    RESOURCE_SCOPE,
    RESOURCE_SINGULAR,
    RESOURCE_VERBS,
    RESOURCE_SHORT_NAMES,
    RESOURCE_CATEGORIES,
    RESOURCE_SUBRESOURCES,
};
enum { SUB_SUBRESOURCE = 1, SUB_KIND, SUB_ACCEPTED, SUB_VERBS };
enum { KIND_GROUP = 1, KIND_VERSION, KIND_KIND };
enum { OBJECT_META_NAME = 1 };

/* generateName, namespace, selfLink, uid, resourceVersion: ""; generation: 0; creationTimestamp: of no length. */
#define REST_OF_OBJECT_META SLICE_LIT("\x12\0\x1a\0\x22\0\x2a\0\x32\0\x38\0\x42\0")
/* selfLink, resourceVersion, continue: "". */
#define LIST_META SLICE_LIT("\x0a\0\x12\0\x1a\0")

struct disco_proto {
    struct disco_doc *doc;
    struct buf versions; /* their messages */
    size_t *version_bytes, *group_bytes, list_bytes;
    struct buf resource_out, sub_out; /* one message */
    struct arena *scratch;
    struct fiber *fiber;
};

struct disco_proto *disco_proto_new(const struct disco_doc *doc)
{
    struct disco_proto *p = mem_zalloc(sizeof(*p));
    size_t versions = 0;

    if (p == NULL)
        return NULL;
    for (const struct disco_group *g = disco_doc_groups(doc); g != NULL; g = g->next)
        versions += g->n_versions;
    p->doc = disco_doc_ref(doc);
    buf_init(&p->versions, LIMIT_DISCOVERY_BYTES);
    buf_init(&p->resource_out, RESOURCE_ARENA_BYTES);
    buf_init(&p->sub_out, RESOURCE_ARENA_BYTES);
    p->version_bytes = mem_array(versions + 1, sizeof(*p->version_bytes));
    p->group_bytes = mem_array(disco_doc_n_groups(doc) + 1, sizeof(*p->group_bytes));
    p->scratch = arena_new(RESOURCE_ARENA_BYTES);
    if (p->version_bytes != NULL && p->group_bytes != NULL && p->scratch != NULL)
        return p;
    disco_proto_free(p);
    return NULL;
}

void disco_proto_free(struct disco_proto *p)
{
    if (p == NULL)
        return;
    arena_free(p->scratch);
    disco_doc_unref(p->doc);
    buf_free(&p->versions);
    buf_free(&p->resource_out);
    buf_free(&p->sub_out);
    mem_free(p->version_bytes);
    mem_free(p->group_bytes);
    mem_free(p);
}

/* ---- reading an object ---- */

/* Of a field as it was sent; without text if it is not there. */
static struct jscan_value read_value(struct slice raw)
{
    struct jscan_value v = {.type = JSCAN_NULL};
    struct jscan s;

    jscan_init(&s, raw, JSCAN_MAX_DEPTH);
    return raw.p != NULL && jscan_value(&s, &v) ? v : (struct jscan_value){.type = JSCAN_NULL};
}

/* Fails the buffer when out of memory; what is not a text is an empty one. */
static bool put_text(struct disco_proto *p, struct buf *out, unsigned field, const struct jscan_value *v)
{
    struct slice text = SLICE_LIT("");

    if (v->raw.p != NULL && v->type == JSCAN_STRING && !jscan_text(p->scratch, v, &text))
        return false;
    return pb_put(out, field, text);
}

typedef bool put_fn(struct disco_proto *p, struct buf *out, unsigned field, const struct jscan_value *v);

/* One field for each element; nothing if it is no array. */
static bool put_each(struct disco_proto *p, struct buf *out, unsigned field, const struct jscan_value *v, put_fn *put)
{
    struct jscan_value element;
    struct jscan s;
    bool first;

    jscan_init(&s, v->raw, JSCAN_MAX_DEPTH);
    if (v->raw.p == NULL || v->type != JSCAN_ARRAY || !jscan_enter_array(&s, &first))
        return true;
    while (jscan_element(&s, &first) && jscan_value(&s, &element))
        if (!put(p, out, field, &element))
            return false;
    return true;
}

/* A GroupVersionKind; nothing if there is null or no object. */
static bool put_kind(struct disco_proto *p, struct buf *out, unsigned field, const struct jscan_value *v)
{
    static const struct slice keys[] = {SLICE_LIT("group"), SLICE_LIT("version"), SLICE_LIT("kind")};
    struct jscan_value values[3];
    struct slice texts[3];
    size_t n = 0;

    if (v->raw.p == NULL || v->type != JSCAN_OBJECT)
        return true;
    jscan_get_each(v->raw, keys, values, 3);
    for (size_t i = 0; i < 3; i++) {
        texts[i] = SLICE_LIT("");
        if (values[i].raw.p != NULL && values[i].type == JSCAN_STRING && !jscan_text(p->scratch, &values[i], &texts[i]))
            return false;
        n += pb_field_bytes(texts[i].n);
    }
    pb_put_header(out, field, n);
    pb_put(out, KIND_GROUP, texts[0]);
    pb_put(out, KIND_VERSION, texts[1]);
    return pb_put(out, KIND_KIND, texts[2]);
}

/* An element of an array, where Go reads null as an empty one. */
static bool put_kind_of_many(struct disco_proto *p, struct buf *out, unsigned field, const struct jscan_value *v)
{
    static const struct jscan_value empty = {.type = JSCAN_OBJECT, .raw = SLICE_LIT("{}")};

    return put_kind(p, out, field, v->type == JSCAN_NULL ? &empty : v);
}

/* ---- messages ---- */

static bool put_verbs(struct buf *out, unsigned field, const struct slice *verbs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        pb_put(out, field, verbs[i]);
    return !out->failed;
}

static bool put_subresource(struct disco_proto *p, const struct disco_subresource *sub)
{
    static const struct slice keys[] = {SLICE_LIT("responseKind"), SLICE_LIT("acceptedTypes")};
    struct jscan_value values[2];
    struct buf *out = &p->sub_out;

    buf_reset(out);
    jscan_get_each(sub->raw, keys, values, 2);
    pb_put(out, SUB_SUBRESOURCE, sub->name);
    return put_kind(p, out, SUB_KIND, &values[0]) && put_each(p, out, SUB_ACCEPTED, &values[1], put_kind_of_many) &&
           put_verbs(out, SUB_VERBS, sub->verbs, sub->n_verbs) &&
           pb_put(&p->resource_out, RESOURCE_SUBRESOURCES, buf_slice(out)) && fiber_spend(p->fiber, sub->raw.n);
}

static bool make_resource(struct disco_proto *p, const struct disco_resource *r)
{
    static const enum disco_field fields[] = {DISCO_FIELD_KIND, DISCO_FIELD_SINGULAR, DISCO_FIELD_SHORT_NAMES,
                                              DISCO_FIELD_CATEGORIES};
    struct jscan_value values[4];
    struct buf *out = &p->resource_out;

    buf_reset(out);
    for (size_t i = 0; i < 4; i++)
        values[i] = read_value(r->fields[fields[i]]);
    pb_put(out, RESOURCE_RESOURCE, r->name);
    if (!put_kind(p, out, RESOURCE_KIND, &values[0]))
        return false;
    pb_put(out, RESOURCE_SCOPE, r->scope);
    if (!put_text(p, out, RESOURCE_SINGULAR, &values[1]) || !put_verbs(out, RESOURCE_VERBS, r->verbs, r->n_verbs) ||
        !put_each(p, out, RESOURCE_SHORT_NAMES, &values[2], put_text) ||
        !put_each(p, out, RESOURCE_CATEGORIES, &values[3], put_text))
        return false;
    for (const struct disco_subresource *sub = r->subresources; sub != NULL; sub = sub->next)
        if (!put_subresource(p, sub))
            return false;
    return !out->failed;
}

/* ---- all of them ---- */

static size_t object_meta_bytes(const struct disco_group *g)
{
    return pb_field_bytes(g->name.n) + REST_OF_OBJECT_META.n;
}

static bool make_version(struct disco_proto *p, const struct disco_version *v)
{
    pb_put(&p->versions, VERSION_VERSION, v->name);
    for (const struct disco_resource *r = v->resources; r != NULL; r = r->next) {
        bool good = make_resource(p, r) && pb_put_header(&p->versions, VERSION_RESOURCES, buf_len(&p->resource_out)) &&
                    buf_append_long(&p->versions, buf_slice(&p->resource_out), p->fiber, COPIED_BYTES);

        arena_reset(p->scratch);
        if (!good || !fiber_spend(p->fiber, UNIT_COST + r->raw.n - r->fields[DISCO_FIELD_SUBRESOURCES].n))
            return false;
    }
    return pb_put(&p->versions, VERSION_FRESHNESS, v->freshness) && fiber_spend(p->fiber, UNIT_COST);
}

static bool make_all(struct disco_proto *p)
{
    size_t *version = p->version_bytes, *group = p->group_bytes, start;

    p->list_bytes = pb_field_bytes(LIST_META.n);
    for (const struct disco_group *g = disco_doc_groups(p->doc); g != NULL; g = g->next) {
        *group = pb_field_bytes(object_meta_bytes(g));
        for (const struct disco_version *v = g->versions; v != NULL; v = v->next) {
            start = buf_len(&p->versions);
            if (!make_version(p, v))
                return false;
            *version = buf_len(&p->versions) - start;
            *group += pb_field_bytes(*version++);
        }
        p->list_bytes += pb_field_bytes(*group++);
        if (!fiber_spend(p->fiber, UNIT_COST))
            return false;
    }
    return true;
}

bool disco_proto_make(struct disco_proto *p, struct fiber *f, struct err *err)
{
    p->fiber = f;
    return make_all(p) || err_set(err, "out of memory, or the protobuf form is over %d bytes", LIMIT_DISCOVERY_BYTES);
}

/* ---- the whole ---- */

static struct slice api_version(enum disco_form form)
{
    return form == DISCO_V2 ? SLICE_LIT(DISCO_GROUP "/v2") : SLICE_LIT(DISCO_GROUP "/v2beta1");
}

static const struct slice list_kind = SLICE_LIT(DISCO_LIST_KIND);

size_t disco_proto_bytes(const struct disco_proto *p, enum disco_form form)
{
    return pb_envelope_bytes(api_version(form), list_kind, p->list_bytes);
}

static void put_group_head(const struct disco_group *g, size_t bytes, struct buf *out)
{
    pb_put_header(out, LIST_ITEMS, bytes);
    pb_put_header(out, GROUP_METADATA, object_meta_bytes(g));
    pb_put(out, OBJECT_META_NAME, g->name);
    buf_append(out, REST_OF_OBJECT_META);
}

bool disco_proto_write(const struct disco_proto *p, enum disco_form form, struct buf *out, struct fiber *f)
{
    const size_t *version = p->version_bytes, *group = p->group_bytes;
    struct slice rest = buf_slice(&p->versions);

    pb_open_envelope(out, api_version(form), list_kind, p->list_bytes);
    pb_put(out, LIST_METADATA, LIST_META);
    for (const struct disco_group *g = disco_doc_groups(p->doc); g != NULL; g = g->next) {
        put_group_head(g, *group++, out);
        for (const struct disco_version *v = g->versions; v != NULL; v = v->next) {
            pb_put_header(out, GROUP_VERSIONS, *version);
            if (!buf_append_long(out, slice_of(rest.p, *version), f, COPIED_BYTES))
                return false;
            rest = slice_from(rest, *version++);
        }
    }
    return pb_close_envelope(out);
}
