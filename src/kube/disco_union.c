#include "kube/disco_union.h"

#include <stdlib.h>

#include "kube/jscan.h"

enum { MAX_UNKNOWN = 64 };

struct value {
    struct value *next;
    struct slice raw;
};

struct disco_member {
    struct disco_member *next; /* of unknown ones */
    struct slice key;          /* with its quotes; unknown ones only */
    struct value *values, **last;
};

/* -------------------------------------------------------------------------------------------- members of objects */

static bool add_value(struct arena *scratch, struct disco_member *m, struct slice raw)
{
    struct value *v = arena_zalloc(scratch, sizeof(*v));

    if (v == NULL)
        return false;
    v->raw = raw;
    *m->last = v;
    m->last = &v->next;
    return true;
}

static bool add_unknown(struct disco_union *u, struct arena *scratch, const struct jscan_value *key, struct slice raw)
{
    struct disco_member **m = &u->unknown;

    while (*m != NULL && !slice_eq((*m)->key, key->raw))
        m = &(*m)->next;
    if (*m != NULL)
        return true; /* the first one has decided */
    if (u->n_unknown == MAX_UNKNOWN)
        return true;
    *m = arena_zalloc(scratch, sizeof(**m));
    if (*m == NULL)
        return false;
    (*m)->key = key->raw;
    (*m)->last = &(*m)->values;
    u->n_unknown++;
    return add_value(scratch, *m, raw);
}

static bool add_object(struct disco_union *u, struct arena *scratch, struct slice object, const struct slice *keys)
{
    struct jscan_value key, v;
    struct jscan s;
    bool first, good = true;
    size_t i;

    jscan_init(&s, object, JSCAN_MAX_DEPTH);
    if (!jscan_enter_object(&s, &first))
        return true;
    while (good && jscan_member(&s, &first, &key) && jscan_value(&s, &v)) {
        for (i = 0; i < u->n_known && !jscan_text_eq(&key, keys[i]); i++)
            continue;
        good = i < u->n_known ? add_value(scratch, &u->known[i], v.raw) : add_unknown(u, scratch, &key, v.raw);
    }
    return good;
}

bool disco_union_init(struct disco_union *u, struct arena *scratch, const struct slice *raws, size_t n,
                      const struct slice *keys, size_t n_keys)
{
    *u = (struct disco_union){.n_known = n_keys};
    u->known = arena_zalloc(scratch, n_keys * sizeof(*u->known));
    if (u->known == NULL)
        return false;
    for (size_t i = 0; i < n_keys; i++)
        u->known[i].last = &u->known[i].values;
    for (size_t i = 0; i < n; i++)
        if (!add_object(u, scratch, raws[i], keys))
            return false;
    return true;
}

static bool says_something(struct slice raw)
{
    return raw.n > 2 && !slice_eq(raw, SLICE_LIT("null"));
}

struct slice disco_union_first(const struct disco_union *u, size_t key)
{
    const struct value *first = u->known[key].values;

    for (const struct value *v = first; v != NULL; v = v->next)
        if (says_something(v->raw))
            return v->raw;
    return first == NULL ? SLICE_NONE : first->raw;
}

void disco_union_put_unknown(const struct disco_union *u, struct buf *out)
{
    for (const struct disco_member *m = u->unknown; m != NULL; m = m->next) {
        buf_append_char(out, ',');
        buf_append(out, m->key);
        buf_append_char(out, ':');
        buf_append(out, m->values->raw);
    }
}

/* ---------------------------------------------------------------------------------------------------- text lists */

static void put_text(struct buf *out, struct slice text)
{
    buf_append_char(out, '"');
    buf_append_json(out, text);
    buf_append_char(out, '"');
}

static int by_text(const void *a, const void *b)
{
    return slice_cmp(*(const struct slice *)a, *(const struct slice *)b);
}

/* Sorts, drops doubles, prints as an array. */
static void put_sorted_texts(struct buf *out, struct slice *texts, size_t n)
{
    bool first = true;

    qsort(texts, n, sizeof(*texts), by_text);
    buf_append_char(out, '[');
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && slice_eq(texts[i], texts[i - 1]))
            continue;
        if (!first)
            buf_append_char(out, ',');
        first = false;
        put_text(out, texts[i]);
    }
    buf_append_char(out, ']');
}

/* Elements that stand in none of the arrays before; arrays and elements stay in their order, as the servers wrote them.
 */
static bool seen_before(const struct value *values, const struct value *here, const struct jscan *at, struct slice raw)
{
    for (const struct value *v = values; v != NULL; v = v->next) {
        struct jscan s;
        struct jscan_value element;
        bool first;

        jscan_init(&s, v->raw, JSCAN_MAX_DEPTH);
        if (jscan_enter_array(&s, &first))
            while (jscan_element(&s, &first) && jscan_value(&s, &element)) {
                if (v == here && s.pos >= at->pos)
                    return false;
                if (slice_eq(element.raw, raw))
                    return true;
            }
        if (v == here)
            return false;
    }
    return false;
}

/* Short names and categories are a handful; an array longer than this is left out of the union. */
enum { MAX_NAMES_BYTES = 2048 };

static void put_united_arrays(struct buf *out, const struct value *values)
{
    bool any = false;

    buf_append_char(out, '[');
    for (const struct value *v = values; v != NULL; v = v->next) {
        struct jscan s;
        struct jscan_value element;
        bool first;

        jscan_init(&s, v->raw, JSCAN_MAX_DEPTH);
        if (v->raw.n > MAX_NAMES_BYTES || v->raw.p[0] != '[' || !jscan_enter_array(&s, &first))
            continue;
        while (jscan_element(&s, &first) && jscan_value(&s, &element)) {
            if (seen_before(values, v, &s, element.raw))
                continue;
            if (any)
                buf_append_char(out, ',');
            any = true;
            buf_append(out, element.raw);
        }
    }
    buf_append_char(out, ']');
}

/* -------------------------------------------------------------------------------------------------- subresources */

/* One server's subresource; a later place takes precedence (as in kube-apiserver, where it overwrites). */
struct sub_part {
    const struct disco_subresource *sub;
    size_t last;  /* number of the last server that gives this description of the resource */
    size_t index; /* within the resource */
};

static int by_name_latest_first(const void *a, const void *b)
{
    const struct sub_part *x = a, *y = b;
    int cmp = slice_cmp(x->sub->name, y->sub->name);

    if (cmp != 0)
        return cmp;
    if (x->last != y->last)
        return x->last > y->last ? -1 : 1;
    return x->index > y->index ? -1 : 1;
}

static bool put_field(struct buf *out, const char *key, const struct disco_union *u, size_t number)
{
    struct slice raw = disco_union_first(u, number);

    if (raw.p == NULL)
        return false;
    buf_append_str(out, key);
    buf_append(out, raw);
    return true;
}

/* The united verbs, or whatever empty value somebody gave. */
static void put_verbs(struct buf *out, struct slice *verbs, size_t n, const struct disco_union *u, size_t number)
{
    if (n == 0) {
        put_field(out, ",\"verbs\":", u, number);
        return;
    }
    buf_append_str(out, ",\"verbs\":");
    put_sorted_texts(out, verbs, n);
}

/* n descriptions of one subresource, the one that takes precedence first. */
static bool put_subresource(struct arena *scratch, const struct sub_part *parts, size_t n, struct buf *out)
{
    static const struct slice keys[] = {SLICE_LIT("subresource"), SLICE_LIT("responseKind"), SLICE_LIT("acceptedTypes"),
                                        SLICE_LIT("verbs")};
    struct slice *raws, *verbs;
    struct disco_union u;
    size_t n_verbs = 0, distinct = 0;

    raws = arena_alloc(scratch, n * sizeof(*raws));
    if (raws == NULL)
        return false;
    for (size_t i = 0; i < n; i++) {
        n_verbs += parts[i].sub->n_verbs;
        if (i == 0 || !slice_eq(parts[i].sub->raw, raws[distinct - 1]))
            raws[distinct++] = parts[i].sub->raw;
    }
    if (distinct == 1)
        return buf_append(out, raws[0]);
    verbs = arena_alloc(scratch, n_verbs * sizeof(*verbs));
    if (verbs == NULL || !disco_union_init(&u, scratch, raws, distinct, keys, sizeof(keys) / sizeof(keys[0])))
        return false;
    n_verbs = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t v = 0; v < parts[i].sub->n_verbs; v++)
            verbs[n_verbs++] = parts[i].sub->verbs[v];
    buf_append_str(out, "{\"subresource\":");
    put_text(out, parts[0].sub->name);
    put_field(out, ",\"responseKind\":", &u, 1);
    put_field(out, ",\"acceptedTypes\":", &u, 2);
    put_verbs(out, verbs, n_verbs, &u, 3);
    disco_union_put_unknown(&u, out);
    return buf_append_char(out, '}');
}

static bool put_subresources(struct arena *scratch, const struct disco_union_part *parts, size_t n, struct buf *out)
{
    struct sub_part *subs;
    size_t total = 0, count = 0, same;

    for (size_t i = 0; i < n; i++)
        total += parts[i].resource->n_subresources;
    if (total == 0)
        return true;
    subs = arena_alloc(scratch, total * sizeof(*subs));
    if (subs == NULL)
        return false;
    for (size_t i = 0; i < n; i++) {
        size_t index = 0;

        for (const struct disco_subresource *s = parts[i].resource->subresources; s != NULL; s = s->next)
            subs[count++] = (struct sub_part){s, parts[i].last, index++};
    }
    qsort(subs, count, sizeof(*subs), by_name_latest_first);
    buf_append_str(out, ",\"subresources\":");
    for (size_t i = 0; i < count; i += same) {
        for (same = 1; i + same < count && slice_eq(subs[i].sub->name, subs[i + same].sub->name); same++)
            continue;
        buf_append_char(out, i == 0 ? '[' : ',');
        if (!put_subresource(scratch, subs + i, same, out))
            return false;
    }
    return buf_append_char(out, ']');
}

/* ----------------------------------------------------------------------------------------------------- resources */

enum resource_key { KEY_RESOURCE, KEY_KIND, KEY_SCOPE, KEY_SINGULAR, KEY_VERBS, KEY_SHORT, KEY_CATEGORIES, KEY_SUBS };

static bool gather_verbs(struct arena *scratch, const struct disco_union_part *parts, size_t n, struct slice **verbs,
                         size_t *n_verbs)
{
    size_t total = 0, count = 0;

    for (size_t i = 0; i < n; i++)
        total += parts[i].resource->n_verbs;
    *verbs = arena_alloc(scratch, total * sizeof(**verbs));
    if (*verbs == NULL)
        return false;
    for (size_t i = 0; i < n; i++)
        for (size_t v = 0; v < parts[i].resource->n_verbs; v++)
            (*verbs)[count++] = parts[i].resource->verbs[v];
    *n_verbs = count;
    return true;
}

bool disco_union_resource(struct arena *scratch, const struct disco_union_part *parts, size_t n, struct buf *out)
{
    static const struct slice keys[] = {
        [KEY_RESOURCE] = SLICE_LIT("resource"),     [KEY_KIND] = SLICE_LIT("responseKind"),
        [KEY_SCOPE] = SLICE_LIT("scope"),           [KEY_SINGULAR] = SLICE_LIT("singularResource"),
        [KEY_VERBS] = SLICE_LIT("verbs"),           [KEY_SHORT] = SLICE_LIT("shortNames"),
        [KEY_CATEGORIES] = SLICE_LIT("categories"), [KEY_SUBS] = SLICE_LIT("subresources"),
    };
    struct slice *raws = arena_alloc(scratch, n * sizeof(*raws)), *verbs;
    struct disco_union u;
    size_t n_verbs;

    if (raws == NULL)
        return false;
    for (size_t i = 0; i < n; i++)
        raws[i] = parts[i].resource->raw;
    if (!gather_verbs(scratch, parts, n, &verbs, &n_verbs) ||
        !disco_union_init(&u, scratch, raws, n, keys, sizeof(keys) / sizeof(keys[0])))
        return false;
    buf_append_str(out, "{\"resource\":");
    put_text(out, parts[0].resource->name);
    put_field(out, ",\"responseKind\":", &u, KEY_KIND);
    put_field(out, ",\"scope\":", &u, KEY_SCOPE);
    put_field(out, ",\"singularResource\":", &u, KEY_SINGULAR);
    put_verbs(out, verbs, n_verbs, &u, KEY_VERBS);
    if (u.known[KEY_SHORT].values != NULL) {
        buf_append_str(out, ",\"shortNames\":");
        put_united_arrays(out, u.known[KEY_SHORT].values);
    }
    if (u.known[KEY_CATEGORIES].values != NULL) {
        buf_append_str(out, ",\"categories\":");
        put_united_arrays(out, u.known[KEY_CATEGORIES].values);
    }
    if (!put_subresources(scratch, parts, n, out))
        return false;
    disco_union_put_unknown(&u, out);
    return buf_append_char(out, '}');
}
