/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A message is preceded by its length, so it is written when all of it is known. Each version's message is made in
 * one go of steps, resource by resource, and they stand one after the other in one buffer; groups and the list only
 * add headers between them, whose lengths are sums. Those are made while the whole is handed out.
 */
#include "kube/disco_proto.h"

#include "base/buf.h"
#include "base/limits.h"
#include "kube/jscan.h"
#include "kube/pbwrite.h"

enum {
    RESOURCE_ARENA_BYTES = LIMIT_DISCOVERY_BYTES, /* decoded texts of one resource */
    HEAD_BYTES = 16 * GVR_NAME_BYTES,
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
enum { UNKNOWN_TYPE = 1, UNKNOWN_RAW, UNKNOWN_ENCODING, UNKNOWN_CONTENT_TYPE };
enum { TYPE_API_VERSION = 1, TYPE_KIND };

#define MAGIC SLICE_LIT("k8s\0")
/* generateName, namespace, selfLink, uid, resourceVersion: ""; generation: 0; creationTimestamp: of no length. */
#define REST_OF_OBJECT_META SLICE_LIT("\x12\0\x1a\0\x22\0\x2a\0\x32\0\x38\0\x42\0")
/* selfLink, resourceVersion, continue: "". */
#define LIST_META SLICE_LIT("\x0a\0\x12\0\x1a\0")

enum stage {
    STAGE_GROUP,    /* a group begins, or the document ends */
    STAGE_VERSION,  /* a version begins, or the group ends */
    STAGE_RESOURCE, /* a resource begins, or the version ends */
    STAGE_DONE,
};

enum piece { PIECE_ENVELOPE, PIECE_GROUP, PIECE_VERSION_HEAD, PIECE_VERSION, PIECE_TAIL, PIECE_END };

struct disco_proto {
    struct disco_doc *doc;
    enum stage stage;
    const struct disco_group *group;
    const struct disco_version *version;
    const struct disco_resource *resource;
    size_t n_groups, n_versions; /* done */
    size_t version_start;
    struct buf versions; /* their messages */
    size_t *version_bytes, *group_bytes, list_bytes;
    struct buf resource_out, sub_out; /* one message */
    struct arena *scratch;

    enum piece piece;
    size_t at_group, at_version, at_byte;
    struct buf head;
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
    p->group = disco_doc_groups(doc);
    p->list_bytes = pb_field_bytes(LIST_META.n);
    buf_init(&p->versions, LIMIT_DISCOVERY_BYTES);
    buf_init(&p->resource_out, RESOURCE_ARENA_BYTES);
    buf_init(&p->sub_out, RESOURCE_ARENA_BYTES);
    buf_init(&p->head, HEAD_BYTES);
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
    buf_free(&p->head);
    mem_free(p->version_bytes);
    mem_free(p->group_bytes);
    mem_free(p);
}

/* ---- reading an object ---- */

/* The values of some keys of an object; those that are not there have no text. */
static void read_members(struct slice object, const struct slice *keys, struct jscan_value *values, size_t n)
{
    struct jscan_value key, v;
    struct jscan s;
    bool first;

    memset(values, 0, n * sizeof(*values));
    jscan_init(&s, object, JSCAN_MAX_DEPTH);
    if (object.n == 0 || object.p[0] != '{' || !jscan_enter_object(&s, &first))
        return;
    while (jscan_member(&s, &first, &key) && jscan_value(&s, &v))
        for (size_t i = 0; i < n; i++)
            if (values[i].raw.p == NULL && jscan_text_eq(&key, keys[i]))
                values[i] = v;
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
    read_members(v->raw, keys, values, 3);
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
    read_members(sub->raw, keys, values, 2);
    pb_put(out, SUB_SUBRESOURCE, sub->name);
    return put_kind(p, out, SUB_KIND, &values[0]) && put_each(p, out, SUB_ACCEPTED, &values[1], put_kind_of_many) &&
           put_verbs(out, SUB_VERBS, sub->verbs, sub->n_verbs) &&
           pb_put(&p->resource_out, RESOURCE_SUBRESOURCES, buf_slice(out));
}

static bool make_resource(struct disco_proto *p, const struct disco_resource *r)
{
    static const struct slice keys[] = {SLICE_LIT("responseKind"), SLICE_LIT("singularResource"),
                                        SLICE_LIT("shortNames"), SLICE_LIT("categories")};
    struct jscan_value values[4];
    struct buf *out = &p->resource_out;

    buf_reset(out);
    read_members(r->raw, keys, values, 4);
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

/* ---- steps ---- */

static size_t object_meta_bytes(const struct disco_group *g)
{
    return pb_field_bytes(g->name.n) + REST_OF_OBJECT_META.n;
}

static void unit_group(struct disco_proto *p)
{
    if (p->group == NULL) {
        p->stage = STAGE_DONE;
        return;
    }
    p->group_bytes[p->n_groups] = pb_field_bytes(object_meta_bytes(p->group));
    p->version = p->group->versions;
    p->stage = STAGE_VERSION;
}

static void unit_version(struct disco_proto *p)
{
    if (p->version == NULL) {
        p->list_bytes += pb_field_bytes(p->group_bytes[p->n_groups++]);
        p->group = p->group->next;
        p->stage = STAGE_GROUP;
        return;
    }
    p->version_start = buf_len(&p->versions);
    pb_put(&p->versions, VERSION_VERSION, p->version->name);
    p->resource = p->version->resources;
    p->stage = STAGE_RESOURCE;
}

static bool unit_resource(struct disco_proto *p)
{
    size_t bytes;

    if (p->resource != NULL) {
        bool good = make_resource(p, p->resource);

        arena_reset(p->scratch);
        p->resource = p->resource->next;
        return good && pb_put(&p->versions, VERSION_RESOURCES, buf_slice(&p->resource_out));
    }
    pb_put(&p->versions, VERSION_FRESHNESS, p->version->freshness);
    bytes = buf_len(&p->versions) - p->version_start;
    p->version_bytes[p->n_versions++] = bytes;
    p->group_bytes[p->n_groups] += pb_field_bytes(bytes);
    p->version = p->version->next;
    p->stage = STAGE_VERSION;
    return true;
}

enum step disco_proto_step(struct disco_proto *p, size_t max_bytes, struct err *err)
{
    const size_t unit_cost = 256; /* in bytes of a resource */
    size_t spent = 0;
    bool good = true;

    while (good && p->stage != STAGE_DONE && spent < max_bytes) {
        spent += unit_cost;
        switch (p->stage) {
        case STAGE_GROUP:
            unit_group(p);
            break;
        case STAGE_VERSION:
            unit_version(p);
            break;
        case STAGE_RESOURCE:
            spent += p->resource == NULL ? 0 : p->resource->raw.n;
            good = unit_resource(p);
            break;
        case STAGE_DONE:
            break;
        }
        good = good && !p->versions.failed;
    }
    if (!good) {
        err_set(err, "out of memory, or the protobuf form is over %d bytes", LIMIT_DISCOVERY_BYTES);
        return STEP_FAILED;
    }
    return p->stage == STAGE_DONE ? STEP_DONE : STEP_MORE;
}

/* ---- handing out ---- */

static struct slice api_version(enum disco_form form)
{
    return form == DISCO_V2 ? SLICE_LIT(DISCO_GROUP "/v2") : SLICE_LIT(DISCO_GROUP "/v2beta1");
}

static const struct slice list_kind = SLICE_LIT(DISCO_LIST_KIND);

static size_t type_bytes(enum disco_form form)
{
    return pb_field_bytes(api_version(form).n) + pb_field_bytes(list_kind.n);
}

size_t disco_proto_bytes(const struct disco_proto *p, enum disco_form form)
{
    return MAGIC.n + pb_field_bytes(type_bytes(form)) + pb_field_bytes(p->list_bytes) + 2 * pb_field_bytes(0);
}

bool disco_proto_rewind(struct disco_proto *p, enum disco_form form)
{
    p->piece = PIECE_ENVELOPE;
    p->group = disco_doc_groups(p->doc);
    p->at_group = p->at_version = p->at_byte = 0;
    buf_reset(&p->head);
    buf_append(&p->head, MAGIC);
    pb_put_header(&p->head, UNKNOWN_TYPE, type_bytes(form));
    pb_put(&p->head, TYPE_API_VERSION, api_version(form));
    pb_put(&p->head, TYPE_KIND, list_kind);
    pb_put_header(&p->head, UNKNOWN_RAW, p->list_bytes);
    return pb_put(&p->head, LIST_METADATA, LIST_META);
}

static void put_group_head(struct disco_proto *p)
{
    pb_put_header(&p->head, LIST_ITEMS, p->group_bytes[p->at_group++]);
    pb_put_header(&p->head, GROUP_METADATA, object_meta_bytes(p->group));
    pb_put(&p->head, OBJECT_META_NAME, p->group->name);
    buf_append(&p->head, REST_OF_OBJECT_META);
    p->version = p->group->versions;
}

static void put_tail(struct disco_proto *p)
{
    pb_put_header(&p->head, UNKNOWN_ENCODING, 0);
    pb_put_header(&p->head, UNKNOWN_CONTENT_TYPE, 0);
}

/* Behind a group's head or a version: what comes now? */
static enum piece after(struct disco_proto *p)
{
    if (p->version != NULL)
        return PIECE_VERSION_HEAD;
    p->group = p->group->next;
    return p->group != NULL ? PIECE_GROUP : PIECE_TAIL;
}

bool disco_proto_next(struct disco_proto *p, struct slice *piece)
{
    size_t bytes = p->version_bytes[p->at_version];

    if (p->piece != PIECE_ENVELOPE)
        buf_reset(&p->head);
    switch (p->piece) {
    case PIECE_ENVELOPE:
        p->piece = p->group != NULL ? PIECE_GROUP : PIECE_TAIL;
        break;
    case PIECE_GROUP:
        put_group_head(p);
        p->piece = after(p);
        break;
    case PIECE_VERSION_HEAD:
        pb_put_header(&p->head, GROUP_VERSIONS, bytes);
        p->piece = PIECE_VERSION;
        break;
    case PIECE_VERSION:
        *piece = slice_of(buf_slice(&p->versions).p + p->at_byte, bytes);
        p->at_byte += bytes;
        p->at_version++;
        p->version = p->version->next;
        p->piece = after(p);
        return true;
    case PIECE_TAIL:
        put_tail(p);
        p->piece = PIECE_END;
        break;
    case PIECE_END:
        return false;
    }
    *piece = buf_slice(&p->head);
    return !p->head.failed;
}
