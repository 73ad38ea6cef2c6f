#include "cluster/object.h"

#include "kube/jscan.h"

/* Names, groups and versions never need escapes; a text that has some is not one. */
static struct slice plain_text(const struct jscan_value *v)
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
    return plain_text(&i);
}

struct slice object_key(struct slice json, char out[OBJECT_KEY_BYTES])
{
    struct slice name = object_text(json, SLICE_LIT("metadata"), SLICE_LIT("name"));
    struct slice ns = object_text(json, SLICE_LIT("metadata"), SLICE_LIT("namespace"));
    size_t n = 0;

    if (name.n == 0 || ns.n + 1 + name.n > OBJECT_KEY_BYTES)
        return SLICE_NONE;
    if (ns.n > 0) {
        memcpy(out, ns.p, ns.n);
        out[ns.n] = '/';
        n = ns.n + 1;
    }
    memcpy(out + n, name.p, name.n);
    return slice_of(out, n + name.n);
}

/* A list is told by its kind, so that nothing else (a Status, a single object) passes for an empty one. */
static bool is_list_kind(const struct jscan_value *v)
{
    return slice_has_suffix(plain_text(v), SLICE_LIT("List"));
}

static void list_metadata(struct object_list *l, const struct jscan_value *metadata)
{
    struct jscan_value v;

    if (metadata->type != JSCAN_OBJECT)
        return;
    if (jscan_get(metadata->raw, SLICE_LIT("resourceVersion"), &v))
        l->resource_version = plain_text(&v);
    if (jscan_get(metadata->raw, SLICE_LIT("continue"), &v) && plain_text(&v).n > 0)
        l->more = plain_text(&v);
}

bool object_list_begin(struct object_list *l, struct slice body, struct err *err)
{
    struct jscan s;
    struct jscan_value key, value;
    bool first, kind = false;

    *l = (struct object_list){.items = SLICE_LIT("[]")};
    jscan_init(&s, body, JSCAN_MAX_DEPTH);
    if (jscan_enter_object(&s, &first))
        while (jscan_member(&s, &first, &key) && jscan_value(&s, &value)) {
            if (jscan_text_eq(&key, SLICE_LIT("kind")))
                kind = is_list_kind(&value);
            else if (jscan_text_eq(&key, SLICE_LIT("metadata")))
                list_metadata(l, &value);
            else if (jscan_text_eq(&key, SLICE_LIT("items")) && value.type == JSCAN_ARRAY)
                l->items = value.raw;
            else if (jscan_text_eq(&key, SLICE_LIT("items")) && value.type != JSCAN_NULL)
                return err_set(err, "items is no array");
        }
    if (s.error != NULL || !jscan_end(&s))
        return err_set(err, "not a JSON object: %s at byte %zu", s.error == NULL ? "more follows" : s.error, s.pos);
    if (!kind)
        return err_set(err, "not a list");
    l->pos = 1; /* behind the bracket */
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
