/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scanner is resumable because all of its state is here: where it stands in the text, which containers are open
 * (the stage says so, the nesting of the interesting ones being fixed), and the group and version being filled. A unit
 * of work is one member of an open object, one element of an open array, or one whole subresource; a unit looks at no
 * more than LIMIT_DISCOVERY_PART_BYTES. How many of each are read is bounded by their bytes alone: an aggregated API
 * may have thousands of resources, one resource thousands of subresources (metrics), and a CRD hundreds of versions,
 * and what is over a limit would cost everybody's discovery. How many of them stay, of a peer: disco_index.c.
 */
#include "kube/disco_parse.h"

#include "base/hash.h"
#include "base/limits.h"
#include "kube/disco_doc.h"
#include "kube/disco_index.h"
#include "kube/jscan.h"

enum stage {
    STAGE_FEEDING,   /* waits for the first step */
    STAGE_TOP,       /* in the document's object */
    STAGE_GROUPS,    /* in items */
    STAGE_GROUP,     /* in a group's object */
    STAGE_VERSIONS,  /* in its versions */
    STAGE_VERSION,   /* in a version's object */
    STAGE_RESOURCES, /* in its resources */
    STAGE_RESOURCE,  /* in a resource's object */
    STAGE_SUBS,      /* in its subresources */
    STAGE_INDEX,     /* all read, names being entered into the table */
    STAGE_DONE,
};

enum { MAX_VERBS = 64 }; /* that are looked at; what is listed beyond them goes on, and can not be asked for */

struct disco_parser {
    struct buf body;
    struct disco_doc *doc; /* from the first step on */
    struct jscan s;
    enum stage stage;
    bool first[STAGE_INDEX];    /* per stage: no member seen yet */
    unsigned seen[STAGE_INDEX]; /* per stage: known fields met, by number */
    size_t start_group, start_version, start_resource, start_subs;
    struct disco_group *group;
    struct disco_version *version;
    struct disco_resource *resource;
    /* Where the next group, version, resource, subresource is linked, or is to be. */
    const struct disco_group **next_group;
    const struct disco_version **next_version;
    const struct disco_resource **next_resource;
    const struct disco_subresource **next_sub;
    struct disco_index index;
    bool odd; /* a text was read that is more than printing ASCII; only where that is asked */
};

struct disco_parser *disco_parser_new(void)
{
    struct disco_parser *p = mem_zalloc(sizeof(*p));

    if (p != NULL)
        buf_init(&p->body, LIMIT_DISCOVERY_BYTES);
    return p;
}

void disco_parser_free(struct disco_parser *p)
{
    if (p == NULL)
        return;
    buf_free(&p->body);
    disco_doc_unref(p->doc);
    mem_free(p);
}

void disco_parser_judge(struct disco_parser *p, bool core)
{
    p->index.judges = true;
    p->index.core = core;
}

bool disco_parser_feed(struct disco_parser *p, struct slice bytes, struct err *err)
{
    if (p->stage != STAGE_FEEDING)
        return err_set(err, "bytes after the end of the document");
    if (bytes.n > LIMIT_DISCOVERY_BYTES - buf_len(&p->body))
        return err_set(err, "the document is over %d bytes", LIMIT_DISCOVERY_BYTES);
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
    if (!p->index.judges || p->odd)
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

/* Opens an array or object; false with no error if there is null instead. */
static bool enter_or_null(struct disco_parser *p, bool (*enter)(struct jscan *s, bool *first), bool *first)
{
    enum jscan_type type;

    if (!jscan_peek(&p->s, &type))
        return false;
    if (type != JSCAN_NULL)
        return enter(&p->s, first);
    (void)skip(p);
    return false;
}

static bool skip_each(struct disco_parser *p, bool (*skip_one)(struct disco_parser *p))
{
    bool first;

    if (!enter_or_null(p, jscan_enter_array, &first))
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

    if (!enter_or_null(p, jscan_enter_array, &first))
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

/* A group, version and kind; `kind` may be NULL. */
static bool read_kind(struct disco_parser *p, struct slice *kind)
{
    static const struct slice keys[] = {SLICE_LIT("kind"), SLICE_LIT("group"), SLICE_LIT("version")};
    struct jscan_value key;
    unsigned seen = 0, number;
    bool first, good;

    if (!enter_or_null(p, jscan_enter_object, &first))
        return p->s.error == NULL;
    while (jscan_member(&p->s, &first, &key)) {
        number = key_number(p, &key, keys, 3, &seen);
        if (number == 0 && kind != NULL)
            good = read_text(p, kind);
        else
            good = number < 3 ? skip_text(p) : skip(p);
        if (!good)
            return false;
    }
    return p->s.error == NULL;
}

static bool skip_kind(struct disco_parser *p)
{
    return read_kind(p, NULL);
}

static void open_stage(struct disco_parser *p, enum stage stage)
{
    p->stage = stage;
    p->seen[stage] = 0;
}

/* An array of interest begins (or null stands there, and the stage stays). */
static bool open_array(struct disco_parser *p, enum stage stage)
{
    if (enter_or_null(p, jscan_enter_array, &p->first[stage]))
        open_stage(p, stage);
    return p->s.error == NULL;
}

/* ---- resources ---- */

static bool read_subresource(struct disco_parser *p, struct disco_subresource *sub)
{
    static const struct slice keys[] = {SLICE_LIT("subresource"), SLICE_LIT("verbs"), SLICE_LIT("responseKind"),
                                        SLICE_LIT("acceptedTypes")};
    struct jscan_value key;
    size_t start = value_start(p);
    unsigned seen = 0;
    bool first, good = true;

    sub->name = SLICE_LIT("");
    if (!jscan_enter_object(&p->s, &first))
        return false;
    while (good && jscan_member(&p->s, &first, &key)) {
        switch (key_number(p, &key, keys, 4, &seen)) {
        case 0:
            good = read_text(p, &sub->name);
            break;
        case 1:
            good = read_verbs(p, &sub->verbs, &sub->n_verbs);
            break;
        case 2:
            good = skip_kind(p);
            break;
        case 3:
            good = skip_each(p, skip_kind);
            break;
        default:
            good = skip(p);
        }
    }
    sub->raw = text_since(p, start);
    return p->s.error == NULL;
}

/* Versions and groups are not looked at once more: theirs is made of their names and of what their resources have. */
static uint64_t combine(uint64_t hash, uint64_t part)
{
    return (hash ^ part) * 0x9e3779b97f4a7c15 + 1;
}

/* One field; of subresources the beginning. */
static bool read_resource_member(struct disco_parser *p, enum disco_field field)
{
    struct disco_resource *r = p->resource;

    switch (field) {
    case DISCO_FIELD_SUBRESOURCES:
        p->start_subs = value_start(p);
        p->next_sub = &r->subresources;
        return open_array(p, STAGE_SUBS);
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
    case DISCO_FIELDS:
        break;
    }
    r->extra = true;
    return skip(p);
}

static void close_resource(struct disco_parser *p)
{
    struct disco_resource *r = p->resource;

    r->odd = p->odd;
    r->raw = text_since(p, p->start_resource);
    r->hash = hash_quick(r->raw);
    p->version->hash = combine(p->version->hash, r->hash);
    *p->next_resource = r;
    p->next_resource = &r->next;
    p->version->n_resources++;
    p->doc->n_resources++;
    p->stage = STAGE_RESOURCES;
}

/* ---- units of work ---- */

static void unit_subresources(struct disco_parser *p)
{
    struct disco_subresource *sub;

    if (!jscan_element(&p->s, &p->first[STAGE_SUBS])) {
        p->resource->fields[DISCO_FIELD_SUBRESOURCES] = text_since(p, p->start_subs);
        p->stage = STAGE_RESOURCE;
        return;
    }
    sub = node(p, sizeof(*sub));
    if (sub == NULL || !read_subresource(p, sub) || (sub->name.n == 0 && !p->index.judges))
        return;
    *p->next_sub = sub;
    p->next_sub = &sub->next;
    p->resource->n_subresources++;
}

static void unit_resource(struct disco_parser *p)
{
    static const struct slice keys[] = {
        [DISCO_FIELD_VERBS] = SLICE_LIT("verbs"),
        [DISCO_FIELD_SHORT_NAMES] = SLICE_LIT("shortNames"),
        [DISCO_FIELD_CATEGORIES] = SLICE_LIT("categories"),
        [DISCO_FIELD_SUBRESOURCES] = SLICE_LIT("subresources"),
        [DISCO_FIELD_KIND] = SLICE_LIT("responseKind"),
        [DISCO_FIELD_SCOPE] = SLICE_LIT("scope"),
        [DISCO_FIELD_SINGULAR] = SLICE_LIT("singularResource"),
        [DISCO_FIELDS] = SLICE_LIT("resource"),
    };
    enum { NAME = DISCO_FIELDS, KEYS };
    struct jscan_value key;
    unsigned number;
    size_t start;

    if (!jscan_member(&p->s, &p->first[STAGE_RESOURCE], &key)) {
        close_resource(p);
        return;
    }
    number = key_number(p, &key, keys, KEYS, &p->seen[STAGE_RESOURCE]);
    start = value_start(p);
    if (number == NAME)
        (void)read_text(p, &p->resource->name);
    else if (read_resource_member(p, number < NAME ? (enum disco_field)number : DISCO_FIELDS) && number < NAME)
        p->resource->fields[number] = text_since(p, start);
}

static void unit_resources(struct disco_parser *p)
{
    struct disco_resource *r;

    if (!jscan_element(&p->s, &p->first[STAGE_RESOURCES])) {
        p->stage = STAGE_VERSION;
        return;
    }
    r = node(p, sizeof(*r));
    p->start_resource = value_start(p);
    if (r == NULL || !jscan_enter_object(&p->s, &p->first[STAGE_RESOURCE]))
        return;
    r->name = r->scope = r->kind = SLICE_LIT("");
    r->version = p->version;
    p->resource = r;
    p->odd = false;
    open_stage(p, STAGE_RESOURCE);
}

static void unit_version(struct disco_parser *p)
{
    static const struct slice keys[] = {SLICE_LIT("version"), SLICE_LIT("freshness"), SLICE_LIT("resources")};
    struct jscan_value key;

    if (!jscan_member(&p->s, &p->first[STAGE_VERSION], &key)) {
        p->version->raw = text_since(p, p->start_version);
        p->version->hash = combine(p->version->hash, hash_quick(p->version->name) + p->version->raw.n);
        p->group->hash = combine(p->group->hash, p->version->hash);
        p->stage = STAGE_VERSIONS;
        return;
    }
    switch (key_number(p, &key, keys, 3, &p->seen[STAGE_VERSION])) {
    case 0:
        (void)read_text(p, &p->version->name);
        break;
    case 1:
        (void)read_text(p, &p->version->freshness);
        p->version->stale = slice_eq(p->version->freshness, SLICE_LIT("Stale"));
        break;
    case 2:
        p->next_resource = &p->version->resources;
        (void)open_array(p, STAGE_RESOURCES);
        break;
    default:
        p->version->extra = true;
        (void)skip(p);
    }
}

static void unit_versions(struct disco_parser *p)
{
    struct disco_version *v;

    if (!jscan_element(&p->s, &p->first[STAGE_VERSIONS])) {
        p->stage = STAGE_GROUP;
        return;
    }
    v = node(p, sizeof(*v));
    p->start_version = value_start(p);
    if (v == NULL || !jscan_enter_object(&p->s, &p->first[STAGE_VERSION]))
        return;
    v->name = v->freshness = SLICE_LIT("");
    v->group = p->group;
    *p->next_version = p->version = v;
    p->next_version = &v->next;
    p->group->n_versions++;
    p->doc->n_versions++;
    open_stage(p, STAGE_VERSION);
}

/* Only the name is ever set. Clients read all of it: what has another type than text must not be there. */
static bool read_metadata(struct disco_parser *p)
{
    enum { TEXTS = 6, KEYS = 15 };
    /* clang-format off */
    static const struct slice keys[KEYS] = {
        SLICE_LIT("name"), SLICE_LIT("generateName"), SLICE_LIT("namespace"), SLICE_LIT("selfLink"), SLICE_LIT("uid"),
        SLICE_LIT("resourceVersion"), SLICE_LIT("creationTimestamp"), SLICE_LIT("deletionTimestamp"),
        SLICE_LIT("generation"), SLICE_LIT("deletionGracePeriodSeconds"), SLICE_LIT("labels"), SLICE_LIT("annotations"),
        SLICE_LIT("ownerReferences"), SLICE_LIT("finalizers"), SLICE_LIT("managedFields")};
    /* clang-format on */
    size_t start = value_start(p);
    unsigned seen = 0, number;
    struct jscan_value key;
    bool first, good;

    if (!enter_or_null(p, jscan_enter_object, &first))
        return p->s.error == NULL;
    while (jscan_member(&p->s, &first, &key)) {
        number = key_number(p, &key, keys, KEYS, &seen);
        if (number == 0)
            good = read_text(p, &p->group->name);
        else if (number < TEXTS)
            good = skip_text(p);
        else
            good = number < KEYS ? skip_typed(p, JSCAN_NULL, "more than a name was not expected") : skip(p);
        if (!good)
            return false;
    }
    p->group->metadata = text_since(p, start);
    return p->s.error == NULL;
}

static void unit_group(struct disco_parser *p)
{
    static const struct slice keys[] = {SLICE_LIT("metadata"), SLICE_LIT("versions"), SLICE_LIT("kind"),
                                        SLICE_LIT("apiVersion")};
    struct jscan_value key;

    if (!jscan_member(&p->s, &p->first[STAGE_GROUP], &key)) {
        p->group->raw = text_since(p, p->start_group);
        p->group->hash = combine(p->group->hash, hash_quick(p->group->name) + p->group->raw.n);
        p->stage = STAGE_GROUPS;
        return;
    }
    switch (key_number(p, &key, keys, 4, &p->seen[STAGE_GROUP])) {
    case 0:
        (void)read_metadata(p);
        break;
    case 1:
        p->next_version = &p->group->versions;
        (void)open_array(p, STAGE_VERSIONS);
        break;
    case 2:
    case 3:
        p->group->extra = true;
        (void)skip_text(p);
        break;
    default:
        p->group->extra = true;
        (void)skip(p);
    }
}

static void unit_groups(struct disco_parser *p)
{
    struct disco_group *g;

    if (!jscan_element(&p->s, &p->first[STAGE_GROUPS])) {
        p->stage = STAGE_TOP;
        return;
    }
    g = node(p, sizeof(*g));
    p->start_group = value_start(p);
    if (g == NULL || !jscan_enter_object(&p->s, &p->first[STAGE_GROUP]))
        return;
    g->name = g->metadata = SLICE_LIT("");
    *p->next_group = p->group = g;
    p->next_group = &g->next;
    p->doc->n_groups++;
    open_stage(p, STAGE_GROUP);
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

static void end_of_document(struct disco_parser *p)
{
    const unsigned all = 7;

    if (!jscan_end(&p->s))
        return;
    if ((p->seen[STAGE_TOP] & all) != all)
        bad(p, "kind, apiVersion or items is missing");
    else if (!disco_index_start(&p->index, p->doc))
        bad(p, "out of memory");
    else
        p->stage = STAGE_INDEX;
}

static void unit_top(struct disco_parser *p)
{
    static const struct slice keys[] = {SLICE_LIT("kind"), SLICE_LIT("apiVersion"), SLICE_LIT("items")};
    struct jscan_value key, v;

    if (!jscan_member(&p->s, &p->first[STAGE_TOP], &key)) {
        if (p->s.error == NULL)
            end_of_document(p);
        return;
    }
    switch (key_number(p, &key, keys, 3, &p->seen[STAGE_TOP])) {
    case 0:
        if (jscan_value(&p->s, &v) && !jscan_text_eq(&v, SLICE_LIT(DISCO_LIST_KIND)))
            bad(p, "not an " DISCO_LIST_KIND);
        break;
    case 1:
        (void)read_api_version(p);
        break;
    case 2:
        (void)open_array(p, STAGE_GROUPS);
        break;
    default:
        (void)skip(p);
    }
}

/* ---- stepping ---- */

static void unit_index(struct disco_parser *p)
{
    if (!disco_index_step(&p->index))
        p->stage = STAGE_DONE;
}

static void limit_unit(struct disco_parser *p)
{
    size_t rest = p->s.text.n - p->s.pos;

    p->s.limit = p->s.pos + (rest < LIMIT_DISCOVERY_PART_BYTES ? rest : LIMIT_DISCOVERY_PART_BYTES);
}

static void unit(struct disco_parser *p)
{
    limit_unit(p);
    switch (p->stage) {
    case STAGE_TOP:
        unit_top(p);
        break;
    case STAGE_GROUPS:
        unit_groups(p);
        break;
    case STAGE_GROUP:
        unit_group(p);
        break;
    case STAGE_VERSIONS:
        unit_versions(p);
        break;
    case STAGE_VERSION:
        unit_version(p);
        break;
    case STAGE_RESOURCES:
        unit_resources(p);
        break;
    case STAGE_RESOURCE:
        unit_resource(p);
        break;
    case STAGE_SUBS:
        unit_subresources(p);
        break;
    case STAGE_INDEX:
        unit_index(p);
        break;
    case STAGE_FEEDING:
    case STAGE_DONE:
        break;
    }
}

static bool start(struct disco_parser *p)
{
    p->doc = disco_doc_new(&p->body);
    if (p->doc == NULL)
        return false;
    p->next_group = &p->doc->groups;
    jscan_init(&p->s, disco_doc_raw(p->doc), LIMIT_DISCOVERY_DEPTH);
    limit_unit(p);
    if (jscan_enter_object(&p->s, &p->first[STAGE_TOP]))
        open_stage(p, STAGE_TOP);
    return true;
}

enum step disco_parser_step(struct disco_parser *p, size_t max_bytes, struct disco_doc **out, struct err *err)
{
    /* Entering a name costs about as much as reading this many bytes. */
    const size_t index_cost = 64;
    size_t spent = 0;

    *out = NULL;
    if (p->stage == STAGE_FEEDING && (p->doc != NULL || !start(p))) {
        err_set(err, "out of memory");
        return STEP_FAILED;
    }
    while (p->s.error == NULL && p->stage != STAGE_DONE && spent < max_bytes) {
        size_t before = p->s.pos;

        unit(p);
        spent += p->stage == STAGE_INDEX ? index_cost : p->s.pos - before;
    }
    if (p->s.error != NULL) {
        err_set(err, "%s at byte %zu", p->s.error, p->s.pos);
        return STEP_FAILED;
    }
    if (p->stage != STAGE_DONE)
        return STEP_MORE;
    *out = p->doc;
    p->doc = NULL;
    return STEP_DONE;
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
        while (disco_parser_step(p, SIZE_MAX, &doc, err) == STEP_MORE)
            continue;
    disco_parser_free(p);
    return doc;
}
