/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/object.h"

#include "kube/jscan.h"

/* Names, groups and versions never need escapes; a text that has some is not one. */
struct slice object_plain(const struct jscan_value *v)
{
    if (v->type != JSCAN_STRING || v->escaped)
        return SLICE_NONE;
    return slice_of(v->raw.p + 1, v->raw.n - 2);
}

struct slice object_text(struct slice json, struct slice outer, struct slice inner)
{
    struct jscan_value o, i;

    if (!jscan_get(json, outer, &o) || o.type != JSCAN_OBJECT || !jscan_get(o.raw, inner, &i))
        return SLICE_NONE;
    return object_plain(&i);
}

struct slice object_join(struct slice ns, struct slice name, char out[OBJECT_KEY_BYTES])
{
    size_t n = 0;

    if (name.p == NULL || name.n == 0 || ns.n + 1 + name.n > OBJECT_KEY_BYTES)
        return SLICE_NONE;
    if (ns.p != NULL && ns.n > 0) {
        memcpy(out, ns.p, ns.n);
        out[ns.n] = '/';
        n = ns.n + 1;
    }
    memcpy(out + n, name.p, name.n);
    return slice_of(out, n + name.n);
}

struct slice object_key(struct slice json, char out[OBJECT_KEY_BYTES])
{
    return object_join(object_text(json, SLICE_LIT("metadata"), SLICE_LIT("namespace")),
                       object_text(json, SLICE_LIT("metadata"), SLICE_LIT("name")), out);
}

struct slice object_key_begun(struct slice json, bool unscoped, char out[OBJECT_KEY_BYTES])
{
    struct slice name = SLICE_NONE, ns = SLICE_NONE;
    struct jscan s;
    struct jscan_value key, value;
    bool first;

    jscan_init(&s, json, JSCAN_MAX_DEPTH);
    if (!jscan_enter_object(&s, &first))
        return SLICE_NONE;
    while (jscan_member(&s, &first, &key)) {
        if (jscan_text_eq(&key, SLICE_LIT("metadata")))
            break;
        if (!jscan_value(&s, &value))
            return SLICE_NONE;
    }
    if (!jscan_enter_object(&s, &first)) /* also at the end of the other one */
        return SLICE_NONE;
    while ((name.p == NULL || (ns.p == NULL && !unscoped)) && jscan_member(&s, &first, &key) && jscan_value(&s, &value))
        if (jscan_text_eq(&key, SLICE_LIT("name")))
            name = object_plain(&value);
        else if (jscan_text_eq(&key, SLICE_LIT("namespace")))
            ns = object_plain(&value);
    return ns.n == 0 && !unscoped ? SLICE_NONE : object_join(ns, name, out);
}

/* A list is told by its kind, so that nothing else (a Status, a single object) passes for an empty one. */
static bool is_list_kind(const struct jscan_value *v)
{
    return slice_has_suffix(object_plain(v), SLICE_LIT("List"));
}

static bool list_metadata(struct object_list *l, const struct jscan_value *metadata, struct err *err)
{
    struct jscan_value v;

    if (metadata->type != JSCAN_OBJECT)
        return err_set(err, "metadata is not an object");
    if (jscan_get(metadata->raw, SLICE_LIT("resourceVersion"), &v))
        l->resource_version = object_plain(&v);
    if (jscan_get(metadata->raw, SLICE_LIT("continue"), &v) && object_plain(&v).n > 0)
        l->more = object_plain(&v);
    return true;
}

static bool list_items(struct object_list *l, const struct jscan_value *items, struct err *err)
{
    if (items->type == JSCAN_NULL)
        return true;
    if (items->type != JSCAN_ARRAY || l->items.p != NULL)
        return err_set(err, "items is not one array");
    l->items = items->raw;
    return true;
}

static bool list_member(struct object_list *l, const struct jscan_value *key, const struct jscan_value *v,
                        bool *is_list, struct err *err)
{
    if (jscan_text_eq(key, SLICE_LIT("items")))
        return list_items(l, v, err);
    if (jscan_text_eq(key, SLICE_LIT("metadata")))
        return list_metadata(l, v, err);
    if (jscan_text_eq(key, SLICE_LIT("kind")))
        *is_list = is_list_kind(v);
    return true;
}

bool object_list_begin(struct object_list *l, struct slice body, struct err *err)
{
    struct jscan s;
    struct jscan_value key, value;
    bool first, is_list = false;

    *l = (struct object_list){.pos = 1}; /* behind the bracket */
    jscan_init(&s, body, JSCAN_MAX_DEPTH);
    if (jscan_enter_object(&s, &first))
        while (jscan_member(&s, &first, &key) && jscan_value(&s, &value))
            if (!list_member(l, &key, &value, &is_list, err))
                return false;
    if (s.error != NULL || !jscan_end(&s))
        return err_set(err, "not a JSON object: %s at byte %zu", s.error, s.pos);
    if (!is_list)
        return err_set(err, "not a list");
    if (l->items.p == NULL)
        l->items = SLICE_LIT("[]");
    return true;
}

bool object_list_next(struct object_list *l, struct slice *json)
{
    struct jscan s;
    struct jscan_value value;
    bool first = l->pos == 1;

    jscan_init(&s, l->items, JSCAN_MAX_DEPTH);
    s.pos = l->pos;
    s.depth = 1;
    if (!jscan_element(&s, &first) || !jscan_value(&s, &value))
        return false;
    l->pos = s.pos;
    *json = value.raw;
    return true;
}
