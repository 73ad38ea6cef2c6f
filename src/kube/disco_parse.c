/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recursive descent over containers whose nesting is fixed. A unit of work, behind which it may be put aside, is one
 * member of an object, one element of an array, or one whole subresource; a unit looks at no more than
 * LIMIT_DISCOVERY_PART_BYTES. How many of each are read is bounded by their bytes alone: an aggregated API may have
 * thousands of resources, one resource thousands of subresources (metrics), and a CRD hundreds of versions, and what is
 * over a limit would cost everybody's discovery. How many of them stay, of a peer: disco_index.c.
 */
#include "kube/disco_parse.h"

#include "base/hash.h"
#include "base/limits.h"
#include "kube/disco_doc.h"
#include "kube/disco_index.h"
#include "kube/jscan.h"

enum { EXTRA_KEY_BYTES = 256 /* of a field that we do not know; no API server has longer ones */ };
enum { UNIT_COST = 32 }; /* what it takes to begin one, and to keep what was read, in bytes that are read */
enum { HASHED_AT_ONCE = 1 << 20, BYTES_HASHED = 8 /* while one is read */ };
enum { MAX_VERBS = 64 }; /* that are looked at; what is listed beyond them goes on, and can not be asked for */

struct disco_parser {
    struct fiber fiber;  /* of who reads in steps */
    struct fiber *other; /* in which it reads; may be that one */
    struct buf body;
    struct disco_doc *doc; /* from when it begins to read */
    bool begun;
    struct jscan s;
    size_t unit_start;
    struct jscan_value key; /* of the member whose value is to be read */
    bool judges, core;      /* disco_parser_judge() */
    size_t singulars;       /* bytes of the singular names of the version that is read */
    bool odd;               /* a text was read that is more than printing ASCII; only where that is asked */
};

static bool read_all(void *arg, struct fiber *f);

struct disco_parser *disco_parser_new(void)
{
    struct disco_parser *p = mem_zalloc(sizeof(*p));

    if (p == NULL)
        return NULL;
    buf_init(&p->body, LIMIT_DISCOVERY_BYTES);
    fiber_init(&p->fiber, read_all, p, NULL);
    return p;
}

void disco_parser_free(struct disco_parser *p)
{
    if (p == NULL)
        return;
    fiber_close(&p->fiber);
    buf_free(&p->body);
    disco_doc_unref(p->doc);
    mem_free(p);
}

void disco_parser_judge(struct disco_parser *p, bool core)
{
    p->judges = true;
    p->core = core;
}

bool disco_parser_feed(struct disco_parser *p, struct slice bytes, struct err *err)
{
    size_t most = p->judges ? LIMIT_DISCOVERY_PEER_BYTES : LIMIT_DISCOVERY_BYTES;

    if (p->begun)
        return err_set(err, "bytes after the end of the document");
    if (bytes.n > most - buf_len(&p->body))
        return err_set(err, "the document is over %zu bytes", most);
    return buf_append(&p->body, bytes) || err_set(err, "out of memory");
}

/* ---- helpers ---- */

static bool bad(struct disco_parser *p, const char *why)
{
    if (p->s.error == NULL)
        p->s.error = why;
    return false;
}

static void *node(struct disco_parser *p, size_t size)
{
    void *n = arena_zalloc(p->doc->arena, size);

    if (n == NULL)
        bad(p, "out of memory, or too many parts");
    return n;
}

/*
 * Whether other readers may take it for that name: Go's, and so every client's, do not look at the case, and fold some
 * letters beyond ASCII into it.
 */
static bool is_taken_for(const struct jscan_value *key, struct slice name)
{
    struct slice text = slice_of(key->raw.p + 1, key->raw.n - 2);

    for (size_t i = 0; i < text.n; i++)
        if ((unsigned char)text.p[i] >= 0x80 || text.p[i] == '\\')
            return true;
    return slice_ieq(text, name);
}

/*
 * Number of the key among `names`, n if it is none of them. A known key must not come twice, nor in another spelling:
 * readers would disagree.
 */
static unsigned key_number(struct disco_parser *p, const struct jscan_value *key, const struct slice *names, unsigned n,
                           unsigned *seen)
{
    unsigned i = 0;

    while (i < n && !jscan_text_eq(key, names[i]))
        i++;
    if (i < n && (*seen & (1U << i)) != 0)
        bad(p, "a field comes twice");
    for (unsigned k = 0; i == n && k < n; k++)
        if (is_taken_for(key, names[k]))
            bad(p, "a field in another spelling");
    *seen |= 1U << i;
    return i;
}

/* Kinds, short names and verbs are words of ASCII; others could be escapes for the terminals of those who list them. */
static void look_at(struct disco_parser *p, const struct jscan_value *v)
{
    if (!p->judges || p->odd)
        return;
    p->odd = v->escaped;
    for (size_t i = 0; i < v->raw.n && !p->odd; i++)
        p->odd = (unsigned char)v->raw.p[i] >= 0x7f;
}

static bool read_text(struct disco_parser *p, struct slice *out)
{
    struct jscan_value v;

    if (!jscan_value(&p->s, &v))
        return false;
    if (v.type == JSCAN_NULL)
        return true;
    if (v.type != JSCAN_STRING)
        return bad(p, "a string was expected");
    look_at(p, &v);
    return jscan_text(p->doc->arena, &v, out) || bad(p, "out of memory, or too many parts");
}

static bool skip(struct disco_parser *p)
{
    struct jscan_value v;

    return jscan_value(&p->s, &v);
}

/* What goes on as it stands must have its type, or be null: clients read a document with another one not at all. */
static bool skip_typed(struct disco_parser *p, enum jscan_type type, const char *otherwise)
{
    struct jscan_value v;

    return jscan_value(&p->s, &v) && (v.type == type || v.type == JSCAN_NULL || bad(p, otherwise));
}

static bool skip_text(struct disco_parser *p)
{
    struct jscan_value v;

    if (!jscan_value(&p->s, &v))
        return false;
    look_at(p, &v);
    return v.type == JSCAN_STRING || v.type == JSCAN_NULL || bad(p, "a string was expected");
}

static bool is_null(struct disco_parser *p)
{
    enum jscan_type type;

    return jscan_peek(&p->s, &type) && type == JSCAN_NULL;
}

/* False with no error if there is null instead. */
static bool enter_array(struct disco_parser *p, bool *first)
{
    if (!is_null(p))
        return jscan_enter_array(&p->s, first);
    (void)skip(p);
    return false;
}

/* What may be in an object, and what reads the value of the member with this number; `n` is that of all others. */
struct members {
    const struct slice *keys;
    unsigned n;
    bool (*read)(struct disco_parser *p, void *item, unsigned number);
};

static bool read_members(struct disco_parser *p, const struct members *m, void *item)
{
    struct jscan_value key;
    unsigned seen = 0;
    bool first;

    if (!jscan_enter_object(&p->s, &first))
        return false;
    while (jscan_member(&p->s, &first, &key)) {
        p->key = key;
        if (!m->read(p, item, key_number(p, &key, m->keys, m->n, &seen)))
            return false;
    }
    return p->s.error == NULL;
}

/* Passes over the value of a field that we do not know, and keeps it as it stands. */
static bool keep_extra(struct disco_parser *p, struct disco_extras *extras, bool is_text)
{
    const struct disco_extra **last = &extras->first;
    struct slice key = p->key.raw;
    struct disco_extra *e;
    struct jscan_value v;

    if (!jscan_value(&p->s, &v))
        return false;
    if (is_text && v.type != JSCAN_STRING && v.type != JSCAN_NULL)
        return bad(p, "a string was expected");
    if (extras->n == DISCO_EXTRAS || key.n > EXTRA_KEY_BYTES)
        return true;
    e = node(p, sizeof(*e));
    if (e == NULL)
        return false;
    *e = (struct disco_extra){.key = key, .value = v.raw};
    while (*last != NULL)
        last = &((struct disco_extra *)(uintptr_t)*last)->next;
    *last = e;
    extras->n++;
    return true;
}

static bool skip_each(struct disco_parser *p, bool (*skip_one)(struct disco_parser *p))
{
    bool first;

    if (!enter_array(p, &first))
        return p->s.error == NULL;
    while (jscan_element(&p->s, &first))
        if (!skip_one(p))
            return false;
    return p->s.error == NULL;
}

static bool read_verbs(struct disco_parser *p, const struct slice **out, size_t *n)
{
    struct slice verbs[MAX_VERBS + 1], *copy;
    size_t count = 0;
    bool first;

    if (!enter_array(p, &first))
        return p->s.error == NULL;
    while (jscan_element(&p->s, &first)) {
        struct slice *verb = &verbs[count < MAX_VERBS ? count++ : MAX_VERBS];

        *verb = SLICE_LIT("");
        if (!read_text(p, verb))
            return false;
    }
    if (p->s.error != NULL || count == 0)
        return p->s.error == NULL;
    copy = node(p, count * sizeof(*copy));
    if (copy == NULL)
        return false;
    memcpy(copy, verbs, count * sizeof(*copy));
    *out = copy;
    *n = count;
    return true;
}

/* Where the next value starts. */
static size_t value_start(struct disco_parser *p)
{
    enum jscan_type type;

    (void)jscan_peek(&p->s, &type);
    return p->s.pos;
}

static struct slice text_since(const struct disco_parser *p, size_t start)
{
    return slice_of(p->s.text.p + start, p->s.pos - start);
}

static bool read_kind_member(struct disco_parser *p, void *kind, unsigned number)
{
    if (number == 0 && kind != NULL)
        return read_text(p, kind);
    return number < 3 ? skip_text(p) : skip(p);
}

/* A group, version and kind; `kind` may be NULL. */
static bool read_kind(struct disco_parser *p, struct slice *kind)
{
    static const struct slice keys[] = {SLICE_LIT("kind"), SLICE_LIT("group"), SLICE_LIT("version")};
    static const struct members members = {keys, 3, read_kind_member};

    return is_null(p) ? skip(p) : read_members(p, &members, kind);
}

static bool skip_kind(struct disco_parser *p)
{
    return read_kind(p, NULL);
}

/* What comes now is bounded; what came before is spent. */
static bool begin_unit(struct disco_parser *p)
{
    size_t before = p->unit_start, rest = p->s.text.n - p->s.pos;

    p->unit_start = p->s.pos;
    p->s.limit = p->s.pos + (rest < LIMIT_DISCOVERY_PART_BYTES ? rest : LIMIT_DISCOVERY_PART_BYTES);
    return fiber_spend(p->other, UNIT_COST + p->unit_start - before) || bad(p, "given up");
}

static bool next_element(struct disco_parser *p, bool *first)
{
    return begin_unit(p) && jscan_element(&p->s, first);
}

/* ---- resources ---- */

static bool read_subresource_member(struct disco_parser *p, void *item, unsigned number)
{
    struct disco_subresource *sub = item;

    switch (number) {
    case 0:
        return read_text(p, &sub->name);
    case 1:
        return read_verbs(p, &sub->verbs, &sub->n_verbs);
    case 2:
        return skip_kind(p);
    case 3:
        return skip_each(p, skip_kind);
    default:
        return skip(p);
    }
}

static bool read_subresource(struct disco_parser *p, struct disco_subresource *sub)
{
    static const struct slice keys[] = {SLICE_LIT("subresource"), SLICE_LIT("verbs"), SLICE_LIT("responseKind"),
                                        SLICE_LIT("acceptedTypes")};
    static const struct members members = {keys, 4, read_subresource_member};
    size_t start = value_start(p);

    sub->name = SLICE_LIT("");
    if (!read_members(p, &members, sub))
        return false;
    sub->raw = text_since(p, start);
    return true;
}

/* Versions and groups are not looked at once more: theirs is made of their names and of what their resources have. */
static uint64_t combine(uint64_t hash, uint64_t part)
{
    return (hash ^ part) * 0x9e3779b97f4a7c15 + 1;
}

static bool read_subresources(struct disco_parser *p, struct disco_resource *r)
{
    const struct disco_subresource **next = &r->subresources;
    bool first;

    if (!enter_array(p, &first))
        return p->s.error == NULL;
    while (next_element(p, &first)) {
        struct disco_subresource *sub = node(p, sizeof(*sub));

        if (sub == NULL || !read_subresource(p, sub))
            return false;
        if (sub->name.n == 0 && !p->judges)
            continue;
        *next = sub;
        next = &sub->next;
        r->n_subresources++;
    }
    return p->s.error == NULL;
}

enum { RESOURCE_NAME = DISCO_FIELDS, RESOURCE_KEYS };

static bool read_resource_value(struct disco_parser *p, struct disco_resource *r, unsigned number)
{
    switch (number) {
    case DISCO_FIELD_SUBRESOURCES:
        return read_subresources(p, r);
    case DISCO_FIELD_KIND:
        return read_kind(p, &r->kind);
    case DISCO_FIELD_SINGULAR:
        return skip_text(p);
    case DISCO_FIELD_SHORT_NAMES:
    case DISCO_FIELD_CATEGORIES:
        return skip_each(p, skip_text);
    case DISCO_FIELD_SCOPE:
        return read_text(p, &r->scope);
    case DISCO_FIELD_VERBS:
        return read_verbs(p, &r->verbs, &r->n_verbs);
    case RESOURCE_NAME:
        return read_text(p, &r->name);
    default:
        return keep_extra(p, &r->extras, false);
    }
}

static bool read_resource_member(struct disco_parser *p, void *item, unsigned number)
{
    struct disco_resource *r = item;
    size_t start = value_start(p);

    if (!begin_unit(p) || !read_resource_value(p, r, number))
        return false;
    if (number < DISCO_FIELDS)
        r->fields[number] = text_since(p, start);
    return true;
}

static bool hash_text(struct disco_parser *p, struct slice rest, uint64_t *hash)
{
    for (; rest.n > HASHED_AT_ONCE; rest = slice_from(rest, HASHED_AT_ONCE)) {
        *hash = combine(*hash, hash_quick(slice_of(rest.p, HASHED_AT_ONCE)));
        if (!fiber_spend(p->other, HASHED_AT_ONCE / BYTES_HASHED))
            return bad(p, "given up");
    }
    *hash = combine(*hash, hash_quick(rest));
    return true;
}

/* What is before the singular name, what is behind it, and then that. */
static bool hash_resource(struct disco_parser *p, struct disco_resource *r)
{
    struct slice singular = r->fields[DISCO_FIELD_SINGULAR];
    size_t before = singular.p == NULL ? r->raw.n : (size_t)(singular.p - r->raw.p);

    if (!hash_text(p, slice_of(r->raw.p, before), &r->said) ||
        !hash_text(p, slice_from(r->raw, before + singular.n), &r->said))
        return false;
    r->hash = r->said;
    return hash_text(p, singular.p == NULL ? SLICE_LIT("") : singular, &r->hash);
}

static struct disco_resource *read_resource(struct disco_parser *p, const struct disco_version *v)
{
    static const struct slice keys[] = {
        [DISCO_FIELD_VERBS] = SLICE_LIT("verbs"),
        [DISCO_FIELD_SHORT_NAMES] = SLICE_LIT("shortNames"),
        [DISCO_FIELD_CATEGORIES] = SLICE_LIT("categories"),
        [DISCO_FIELD_SUBRESOURCES] = SLICE_LIT("subresources"),
        [DISCO_FIELD_KIND] = SLICE_LIT("responseKind"),
        [DISCO_FIELD_SCOPE] = SLICE_LIT("scope"),
        [DISCO_FIELD_SINGULAR] = SLICE_LIT("singularResource"),
        [RESOURCE_NAME] = SLICE_LIT("resource"),
    };
    static const struct members members = {keys, RESOURCE_KEYS, read_resource_member};
    struct disco_resource *r = node(p, sizeof(*r));
    size_t start = value_start(p);

    if (r == NULL)
        return NULL;
    r->name = r->scope = r->kind = SLICE_LIT("");
    r->version = v;
    p->odd = false;
    if (!read_members(p, &members, r))
        return NULL;
    r->odd = p->odd;
    r->raw = text_since(p, start);
    return hash_resource(p, r) ? r : NULL;
}

static bool read_resources(struct disco_parser *p, struct disco_version *v)
{
    const struct disco_resource **next = &v->resources;
    bool first;

    if (!enter_array(p, &first))
        return p->s.error == NULL;
    while (next_element(p, &first)) {
        struct disco_resource *r = read_resource(p, v);

        if (r == NULL)
            return false;
        *next = r;
        next = &r->next;
        v->hash = combine(v->hash, r->hash);
        v->said = combine(v->said, r->said);
        p->singulars += r->fields[DISCO_FIELD_SINGULAR].n;
        v->n_resources++;
        p->doc->n_resources++;
    }
    return p->s.error == NULL;
}

/* ---- versions ---- */

static bool read_version_member(struct disco_parser *p, void *item, unsigned number)
{
    struct disco_version *v = item;

    if (!begin_unit(p))
        return false;
    switch (number) {
    case 0:
        return read_text(p, &v->name);
    case 1:
        return read_text(p, &v->freshness);
    case 2:
        return read_resources(p, v);
    default:
        return keep_extra(p, &v->extras, false);
    }
}

static struct disco_version *read_version(struct disco_parser *p, const struct disco_group *g)
{
    static const struct slice keys[] = {SLICE_LIT("version"), SLICE_LIT("freshness"), SLICE_LIT("resources")};
    static const struct members members = {keys, 3, read_version_member};
    struct disco_version *v = node(p, sizeof(*v));
    size_t start = value_start(p);

    if (v == NULL)
        return NULL;
    v->name = v->freshness = SLICE_LIT("");
    v->group = g;
    p->singulars = 0;
    if (!read_members(p, &members, v))
        return NULL;
    v->stale = slice_eq(v->freshness, SLICE_LIT("Stale"));
    v->raw = text_since(p, start);
    v->hash = combine(v->hash, hash_quick(v->name) + v->raw.n);
    v->said = combine(v->said, hash_quick(v->name) + v->raw.n - p->singulars);
    return v;
}

static bool read_versions(struct disco_parser *p, struct disco_group *g)
{
    const struct disco_version **next = &g->versions;
    bool first;

    if (!enter_array(p, &first))
        return p->s.error == NULL;
    while (next_element(p, &first)) {
        struct disco_version *v = read_version(p, g);

        if (v == NULL)
            return false;
        *next = v;
        next = &v->next;
        g->hash = combine(g->hash, v->hash);
        g->n_versions++;
        p->doc->n_versions++;
    }
    return p->s.error == NULL;
}

/* ---- groups ---- */

enum { METADATA_TEXTS = 6, METADATA_KEYS = 15 };

static bool read_metadata_member(struct disco_parser *p, void *item, unsigned number)
{
    struct disco_group *g = item;

    if (number == 0)
        return read_text(p, &g->name);
    if (number < METADATA_TEXTS)
        return skip_text(p);
    return number < METADATA_KEYS ? skip_typed(p, JSCAN_NULL, "more than a name was not expected") : skip(p);
}

/* Only the name is ever set. Clients read all of it: what has another type than text must not be there. */
static bool read_metadata(struct disco_parser *p, struct disco_group *g)
{
    /* clang-format off */
    static const struct slice keys[METADATA_KEYS] = {
        SLICE_LIT("name"), SLICE_LIT("generateName"), SLICE_LIT("namespace"), SLICE_LIT("selfLink"), SLICE_LIT("uid"),
        SLICE_LIT("resourceVersion"), SLICE_LIT("creationTimestamp"), SLICE_LIT("deletionTimestamp"),
        SLICE_LIT("generation"), SLICE_LIT("deletionGracePeriodSeconds"), SLICE_LIT("labels"), SLICE_LIT("annotations"),
        SLICE_LIT("ownerReferences"), SLICE_LIT("finalizers"), SLICE_LIT("managedFields")};
    /* clang-format on */
    static const struct members members = {keys, METADATA_KEYS, read_metadata_member};
    size_t start = value_start(p);

    if (is_null(p))
        return skip(p);
    if (!read_members(p, &members, g))
        return false;
    g->metadata = text_since(p, start);
    return true;
}

static bool read_group_member(struct disco_parser *p, void *item, unsigned number)
{
    struct disco_group *g = item;

    if (!begin_unit(p))
        return false;
    switch (number) {
    case 0:
        return read_metadata(p, g);
    case 1:
        return read_versions(p, g);
    case 2:
    case 3:
        return keep_extra(p, &g->extras, true);
    default:
        return keep_extra(p, &g->extras, false);
    }
}

static struct disco_group *read_group(struct disco_parser *p)
{
    static const struct slice keys[] = {SLICE_LIT("metadata"), SLICE_LIT("versions"), SLICE_LIT("kind"),
                                        SLICE_LIT("apiVersion")};
    static const struct members members = {keys, 4, read_group_member};
    struct disco_group *g = node(p, sizeof(*g));
    size_t start = value_start(p);

    if (g == NULL)
        return NULL;
    g->name = g->metadata = SLICE_LIT("");
    if (!read_members(p, &members, g))
        return NULL;
    g->raw = text_since(p, start);
    g->hash = combine(g->hash, hash_quick(g->name) + g->raw.n);
    return g;
}

static bool read_groups(struct disco_parser *p)
{
    const struct disco_group **next = &p->doc->groups;
    bool first;

    if (!enter_array(p, &first))
        return p->s.error == NULL;
    while (next_element(p, &first)) {
        struct disco_group *g = read_group(p);

        if (g == NULL)
            return false;
        *next = g;
        next = &g->next;
        p->doc->n_groups++;
    }
    return p->s.error == NULL;
}

/* ---- the document ---- */

enum { DOCUMENT_KEYS = 3 };

static bool read_list_kind(struct disco_parser *p)
{
    struct jscan_value v;

    return jscan_value(&p->s, &v) &&
           (jscan_text_eq(&v, SLICE_LIT(DISCO_LIST_KIND)) || bad(p, "not an " DISCO_LIST_KIND));
}

static bool read_api_version(struct disco_parser *p)
{
    struct jscan_value v;

    if (!jscan_value(&p->s, &v))
        return false;
    if (jscan_text_eq(&v, SLICE_LIT(DISCO_GROUP "/v2")))
        p->doc->form = DISCO_V2;
    else if (jscan_text_eq(&v, SLICE_LIT(DISCO_GROUP "/v2beta1")))
        p->doc->form = DISCO_V2BETA1;
    else
        return bad(p, "not a version of " DISCO_GROUP " that is known");
    p->doc->api_version = slice_of(v.raw.p + 1, v.raw.n - 2);
    return true;
}

static bool read_document_member(struct disco_parser *p, void *item, unsigned number)
{
    bool *has = item;

    if (!begin_unit(p))
        return false;
    if (number < DOCUMENT_KEYS)
        has[number] = true;
    switch (number) {
    case 0:
        return read_list_kind(p);
    case 1:
        return read_api_version(p);
    case 2:
        return read_groups(p);
    default:
        return skip(p);
    }
}

static bool read_document(struct disco_parser *p)
{
    static const struct slice keys[DOCUMENT_KEYS] = {SLICE_LIT("kind"), SLICE_LIT("apiVersion"), SLICE_LIT("items")};
    static const struct members members = {keys, DOCUMENT_KEYS, read_document_member};
    bool has[DOCUMENT_KEYS] = {false};

    if (!begin_unit(p) || !read_members(p, &members, has) || !jscan_end(&p->s))
        return false;
    return (has[0] && has[1] && has[2]) || bad(p, "kind, apiVersion or items is missing");
}

static bool read_all(void *arg, struct fiber *f)
{
    struct disco_parser *p = arg;
    struct disco_index index = {.judges = p->judges, .core = p->core, .fiber = f};

    p->other = f;
    p->begun = true;
    p->doc = disco_doc_new(&p->body);
    if (p->doc == NULL)
        return bad(p, "out of memory");
    jscan_init(&p->s, disco_doc_raw(p->doc), LIMIT_DISCOVERY_DEPTH);
    return read_document(p) && (disco_index_fill(&index, p->doc) || bad(p, "out of memory"));
}

static struct disco_doc *take(struct disco_parser *p)
{
    struct disco_doc *doc = p->doc;

    p->doc = NULL;
    return doc;
}

static void say_why(const struct disco_parser *p, struct err *err)
{
    if (p->begun)
        err_set(err, "%s at byte %zu", p->s.error, p->s.pos);
    else
        err_set(err, "out of memory");
}

struct disco_doc *disco_parser_read(struct disco_parser *p, struct fiber *f, struct err *err)
{
    if (read_all(p, f))
        return take(p);
    say_why(p, err);
    return NULL;
}

enum step disco_parser_step(struct disco_parser *p, size_t max_bytes, struct disco_doc **out, struct err *err)
{
    enum step s = fiber_step(&p->fiber, max_bytes);

    *out = s == STEP_DONE ? take(p) : NULL;
    if (s == STEP_FAILED)
        say_why(p, err);
    return s;
}

struct disco_doc *disco_parse(struct slice body, struct err *err)
{
    struct disco_parser *p = disco_parser_new();
    struct disco_doc *doc = NULL;

    if (p == NULL) {
        err_set(err, "out of memory");
        return NULL;
    }
    if (disco_parser_feed(p, body, err))
        doc = disco_parser_read(p, NULL, err);
    disco_parser_free(p);
    return doc;
}
