/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of what generated.proto has, and one function that goes along them. A message is preceded by its length, so
 * each is made in a buffer of its level, and then copied into the one that it is part of.
 */
#include "kube/legacy_proto.h"

#include "base/mem.h"
#include "kube/jscan.h"
#include "kube/pbwrite.h"

enum { LEVELS = 3, MOST_FIELDS = 10, TEXTS_BYTES = 1 << 20 };

enum type {
    TEXT,    /* these four are always written */
    FLAG,    /* bool */
    NUMBER,  /* int32 */
    PART,    /* a message */
    POINTER, /* a message, if there is an object */
    TEXTS,   /* a field for each element */
    PARTS,
    SET /* a message with one of TEXTS, if there is an array, also an empty one */
};

struct message {
    const char *kind; /* of what stands alone */
    size_t n;
    struct slice keys[MOST_FIELDS];
    struct {
        unsigned number;
        enum type type;
        const struct message *of;
    } fields[MOST_FIELDS]; /* in order of number */
};

static const struct message group_version = {
    .n = 2,
    .keys = {SLICE_LIT("groupVersion"), SLICE_LIT("version")},
    .fields = {{1, TEXT, NULL}, {2, TEXT, NULL}},
};
static const struct message address_by_client = {
    .n = 2,
    .keys = {SLICE_LIT("clientCIDR"), SLICE_LIT("serverAddress")},
    .fields = {{1, TEXT, NULL}, {2, TEXT, NULL}},
};
static const struct message group = {
    .kind = "APIGroup",
    .n = 4,
    .keys = {SLICE_LIT("name"), SLICE_LIT("versions"), SLICE_LIT("preferredVersion"),
             SLICE_LIT("serverAddressByClientCIDRs")},
    .fields = {{1, TEXT, NULL}, {2, PARTS, &group_version}, {3, PART, &group_version}, {4, PARTS, &address_by_client}},
};
static const struct message group_list = {
    .kind = "APIGroupList",
    .n = 1,
    .keys = {SLICE_LIT("groups")},
    .fields = {{1, PARTS, &group}},
};
static const struct message resource = {
    .n = 10,
    .keys = {SLICE_LIT("name"), SLICE_LIT("namespaced"), SLICE_LIT("kind"), SLICE_LIT("verbs"), SLICE_LIT("shortNames"),
             SLICE_LIT("singularName"), SLICE_LIT("categories"), SLICE_LIT("group"), SLICE_LIT("version"),
             SLICE_LIT("storageVersionHash")},
    .fields = {{1, TEXT, NULL},
               {2, FLAG, NULL},
               {3, TEXT, NULL},
               {4, SET, NULL},
               {5, TEXTS, NULL},
               {6, TEXT, NULL},
               {7, TEXTS, NULL},
               {8, TEXT, NULL},
               {9, TEXT, NULL},
               {10, TEXT, NULL}},
};
static const struct message resource_list = {
    .kind = "APIResourceList",
    .n = 2,
    .keys = {SLICE_LIT("groupVersion"), SLICE_LIT("resources")},
    .fields = {{1, TEXT, NULL}, {2, PARTS, &resource}},
};
static const struct message list_meta = {
    .n = 3,
    .keys = {SLICE_LIT("selfLink"), SLICE_LIT("resourceVersion"), SLICE_LIT("continue")},
    .fields = {{1, TEXT, NULL}, {2, TEXT, NULL}, {3, TEXT, NULL}},
};
static const struct message status_cause = {
    .n = 3,
    .keys = {SLICE_LIT("reason"), SLICE_LIT("message"), SLICE_LIT("field")},
    .fields = {{1, TEXT, NULL}, {2, TEXT, NULL}, {3, TEXT, NULL}},
};
static const struct message status_details = {
    .n = 6,
    .keys = {SLICE_LIT("name"), SLICE_LIT("group"), SLICE_LIT("kind"), SLICE_LIT("causes"),
             SLICE_LIT("retryAfterSeconds"), SLICE_LIT("uid")},
    .fields = {{1, TEXT, NULL},
               {2, TEXT, NULL},
               {3, TEXT, NULL},
               {4, PARTS, &status_cause},
               {5, NUMBER, NULL},
               {6, TEXT, NULL}},
};
static const struct message status = {
    .kind = "Status",
    .n = 6,
    .keys = {SLICE_LIT("metadata"), SLICE_LIT("status"), SLICE_LIT("message"), SLICE_LIT("reason"),
             SLICE_LIT("details"), SLICE_LIT("code")},
    .fields = {{1, PART, &list_meta},
               {2, TEXT, NULL},
               {3, TEXT, NULL},
               {4, TEXT, NULL},
               {5, POINTER, &status_details},
               {6, NUMBER, NULL}},
};

struct encoder {
    struct arena *texts;       /* those that are escaped */
    struct buf levels[LEVELS]; /* the message in hand, and those that it is in */
};

static bool is_a(const struct jscan_value *v, enum jscan_type type)
{
    return v->raw.p != NULL && v->type == type;
}

/* What is no text is an empty one. */
static bool put_text(struct encoder *e, struct buf *out, unsigned number, const struct jscan_value *v)
{
    struct slice text = SLICE_LIT("");

    return (!is_a(v, JSCAN_STRING) || jscan_text(e->texts, v, &text)) && pb_put(out, number, text);
}

static bool put_number(struct buf *out, unsigned number, const struct jscan_value *v)
{
    uint64_t n = 0;

    if (is_a(v, JSCAN_NUMBER) && (!slice_u64(v->raw, &n) || n > INT32_MAX))
        n = 0;
    return pb_put_number(out, number, n);
}

static bool make(struct encoder *e, unsigned level, const struct message *m, struct slice object);

/* Into the message of `level`; `m` is NULL for texts. */
static bool put_part(struct encoder *e, unsigned level, unsigned number, const struct message *m,
                     const struct jscan_value *v)
{
    if (m == NULL)
        return put_text(e, &e->levels[level], number, v);
    return make(e, level + 1, m, v->raw) && pb_put(&e->levels[level], number, buf_slice(&e->levels[level + 1]));
}

/* Nothing if it is no array. */
static bool put_each(struct encoder *e, unsigned level, unsigned number, const struct message *m,
                     const struct jscan_value *v)
{
    struct jscan_value element;
    struct jscan s;
    bool first;

    if (!is_a(v, JSCAN_ARRAY))
        return true;
    jscan_init(&s, v->raw, JSCAN_MAX_DEPTH);
    if (!jscan_enter_array(&s, &first))
        return false;
    while (jscan_element(&s, &first))
        if (!jscan_value(&s, &element) || !put_part(e, level, number, m, &element))
            return false;
    return s.error == NULL;
}

static bool put_set(struct encoder *e, unsigned level, unsigned number, const struct jscan_value *v)
{
    if (!is_a(v, JSCAN_ARRAY))
        return true;
    buf_reset(&e->levels[level + 1]);
    return put_each(e, level + 1, 1, NULL, v) && pb_put(&e->levels[level], number, buf_slice(&e->levels[level + 1]));
}

static bool put_field(struct encoder *e, unsigned level, const struct message *m, size_t i, const struct jscan_value *v)
{
    struct buf *out = &e->levels[level];
    unsigned number = m->fields[i].number;

    switch (m->fields[i].type) {
    case TEXT:
        return put_text(e, out, number, v);
    case FLAG:
        return pb_put_number(out, number, is_a(v, JSCAN_TRUE));
    case NUMBER:
        return put_number(out, number, v);
    case PART:
        return put_part(e, level, number, m->fields[i].of, v);
    case POINTER:
        return !is_a(v, JSCAN_OBJECT) || put_part(e, level, number, m->fields[i].of, v);
    case TEXTS:
    case PARTS:
        return put_each(e, level, number, m->fields[i].of, v);
    case SET:
        return put_set(e, level, number, v);
    }
    return false;
}

/* What is no object is an empty one. The tables nest no deeper than there are levels. */
static bool make(struct encoder *e, unsigned level, const struct message *m, struct slice object)
{
    struct jscan_value values[MOST_FIELDS];

    buf_reset(&e->levels[level]);
    jscan_get_each(object, m->keys, values, m->n);
    for (size_t i = 0; i < m->n; i++)
        if (!put_field(e, level, m, i, &values[i]))
            return false;
    return true;
}

static const struct message *message_of(const struct jscan_value *kind)
{
    static const struct message *const all[] = {&group_list, &group, &resource_list, &status};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (jscan_text_eq(kind, slice_str(all[i]->kind)))
            return all[i];
    return NULL;
}

static bool encode(struct encoder *e, struct slice object, struct buf *out)
{
    struct slice api_version = SLICE_LIT("");
    const struct message *m = NULL;
    struct jscan_value v;

    if (jscan_get(object, SLICE_LIT("kind"), &v) && v.type == JSCAN_STRING)
        m = message_of(&v);
    if (m == NULL)
        return false;
    /* /api/v1 has none. */
    if (jscan_get(object, SLICE_LIT("apiVersion"), &v) && v.type == JSCAN_STRING &&
        !jscan_text(e->texts, &v, &api_version))
        return false;
    if (!make(e, 0, m, object))
        return false;
    pb_open_envelope(out, api_version, slice_str(m->kind), buf_len(&e->levels[0]));
    buf_append(out, buf_slice(&e->levels[0]));
    return pb_close_envelope(out);
}

bool legacy_proto_encode(struct slice json, struct buf *out)
{
    struct encoder e = {.texts = arena_new(TEXTS_BYTES)};
    struct slice object;
    bool good;

    for (unsigned i = 0; i < LEVELS; i++)
        buf_init(&e.levels[i], out->ceiling);
    good = e.texts != NULL && jscan_object(json, JSCAN_MAX_DEPTH, &object, NULL) && encode(&e, object, out);
    for (unsigned i = 0; i < LEVELS; i++)
        buf_free(&e.levels[i]);
    arena_free(e.texts);
    return good;
}
