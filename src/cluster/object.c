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

struct slice object_continue(struct slice list)
{
    struct slice token = object_text(list, SLICE_LIT("metadata"), SLICE_LIT("continue"));

    return token.n == 0 ? SLICE_NONE : token;
}
