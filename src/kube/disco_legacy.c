/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/disco_legacy.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/limits.h"
#include "base/strmap.h"
#include "kube/jscan.h"

enum {
    WALK_MAX = 5000, /* a server with more would take too many requests to walk */
    ALSO_MAX = 100,  /* group/versions that the root document does not name */
};

/* One group/version of the root document. */
struct leaf {
    struct slice group, version, path; /* in the walk's arena */
    enum { LEAF_UNAVAILABLE, LEAF_ABSENT, LEAF_READ } state;
    struct buf resources; /* the text of the converted resources */
};

struct disco_walk {
    enum disco_walk_kind kind;
    struct arena *arena;
    struct leaf *leaves; /* the versions of a group stand together */
    size_t n, cap;
    struct strmap *paths; /* of the leaves, once it has to be asked which there are */
    size_t n_also;
};

struct disco_walk *disco_walk_new(enum disco_walk_kind kind)
{
    struct disco_walk *w = mem_zalloc(sizeof(*w));

    if (w == NULL)
        return NULL;
    w->kind = kind;
    w->arena = arena_new(LIMIT_DISCOVERY_INDEX_BYTES);
    if (w->arena == NULL) {
        mem_free(w);
        return NULL;
    }
    return w;
}

void disco_walk_free(struct disco_walk *w)
{
    if (w == NULL)
        return;
    for (size_t i = 0; i < w->n; i++)
        buf_free(&w->leaves[i].resources);
    mem_free(w->leaves);
    strmap_free(w->paths);
    arena_free(w->arena);
    mem_free(w);
}

size_t disco_walk_count(const struct disco_walk *w)
{
    return w->n;
}

struct slice disco_walk_path(const struct disco_walk *w, size_t i)
{
    return w->leaves[i].path;
}

void disco_walk_absent(struct disco_walk *w, size_t i)
{
    w->leaves[i].state = LEAF_ABSENT;
}

bool disco_walk_is_unavailable(const struct disco_walk *w, size_t i)
{
    return w->leaves[i].state == LEAF_UNAVAILABLE;
}

void disco_walk_unavailable(struct disco_walk *w, size_t i)
{
    buf_release(&w->leaves[i].resources);
    w->leaves[i].state = LEAF_UNAVAILABLE;
}

/* ---- reading objects ---- */

/* A member that we want: where its value goes. Absent or null leaves the value as it was. */
struct field {
    const char *key;
    enum jscan_type type; /* JSCAN_TRUE: true or false */
    struct jscan_value *value;
};

static bool type_fits(enum jscan_type type, enum jscan_type got)
{
    return got == type || (type == JSCAN_TRUE && got == JSCAN_FALSE);
}

static bool take_member(struct jscan *s, const struct jscan_value *key, const struct field *fields, size_t n)
{
    struct jscan_value v;

    if (!jscan_value(s, &v))
        return false;
    for (size_t i = 0; i < n; i++) {
        if (v.type == JSCAN_NULL || !jscan_text_eq(key, slice_str(fields[i].key)))
            continue;
        if (!type_fits(fields[i].type, v.type) || fields[i].value->raw.p != NULL) {
            s->error = "a field of the wrong type, or twice";
            return false;
        }
        *fields[i].value = v;
    }
    return true;
}

/* Reads the object at s; false with s->error set. */
static bool take_object(struct jscan *s, const struct field *fields, size_t n)
{
    struct jscan_value key;
    bool first;

    if (!jscan_enter_object(s, &first))
        return false;
    while (jscan_member(s, &first, &key))
        if (!take_member(s, &key, fields, n))
            return false;
    return s->error == NULL;
}

static bool take_document(struct slice body, const char *kind, struct field list, struct err *err)
{
    struct jscan_value kind_value = {.type = JSCAN_NULL};
    const struct field fields[] = {{"kind", JSCAN_STRING, &kind_value}, list};
    struct jscan s;

    jscan_init(&s, body, LIMIT_DISCOVERY_DEPTH);
    if (!take_object(&s, fields, 2) || !jscan_end(&s))
        return err_set(err, "%s at byte %zu", s.error, s.pos);
    return jscan_text_eq(&kind_value, slice_str(kind)) || err_set(err, "not an %s", kind);
}

/* An array value's scanner, standing behind its bracket; of an absent one, before nothing. */
static void open_array(struct jscan *s, const struct jscan_value *v, bool *first)
{
    jscan_init(s, v->raw.p == NULL ? SLICE_LIT("[]") : v->raw, LIMIT_DISCOVERY_DEPTH);
    (void)jscan_enter_array(s, first);
}

/* ---- root ---- */

/* May stand in a path as it is, and is what Kubernetes allows in names of groups and versions. */
static bool is_segment(struct slice s)
{
    return slice_is_of(s, "-._") && s.n <= GVR_NAME_BYTES && s.p[0] != '.';
}

static bool add_leaf(struct disco_walk *w, struct slice group, const struct jscan_value *version, struct err *err)
{
    struct leaf leaf = {.group = group}, *grown;

    if (!jscan_text(w->arena, version, &leaf.version) || !is_segment(leaf.version))
        return err_set(err, "a version without a usable name");
    leaf.version = arena_copy(w->arena, leaf.version);
    if (w->n == WALK_MAX)
        return err_set(err, "more than %d versions", WALK_MAX);
    if (w->n == w->cap) {
        grown = mem_realloc(w->leaves, (w->cap + 64) * sizeof(*grown));
        if (grown == NULL)
            return err_set(err, "out of memory");
        w->leaves = grown;
        w->cap += 64;
    }
    leaf.path = w->kind == DISCO_WALK_API ? arena_printf(w->arena, "/api/%.*s", (int)leaf.version.n, leaf.version.p)
                                          : arena_printf(w->arena, "/apis/%.*s/%.*s", (int)group.n, group.p,
                                                         (int)leaf.version.n, leaf.version.p);
    if (leaf.path.p == NULL || leaf.version.p == NULL)
        return err_set(err, "out of memory");
    buf_init(&leaf.resources, LIMIT_DISCOVERY_BYTES);
    w->leaves[w->n++] = leaf;
    return true;
}

static bool core_versions(struct disco_walk *w, const struct jscan_value *versions, struct err *err)
{
    struct jscan s;
    struct jscan_value v;
    bool first;

    open_array(&s, versions, &first);
    while (jscan_element(&s, &first))
        if (!jscan_value(&s, &v) || !add_leaf(w, SLICE_LIT(""), &v, err))
            return err_set(err, "%s", s.error == NULL ? "a bad version" : s.error);
    return true;
}

/* The preferred version comes first: in the aggregated form, order is all that says so. */
static void prefer(struct disco_walk *w, size_t from, const struct jscan_value *preferred)
{
    struct leaf leaf;

    for (size_t i = from; i < w->n; i++) {
        if (!jscan_text_eq(preferred, w->leaves[i].version))
            continue;
        leaf = w->leaves[i];
        memmove(&w->leaves[from + 1], &w->leaves[from], (i - from) * sizeof(leaf));
        w->leaves[from] = leaf;
        return;
    }
}

static bool read_group(struct disco_walk *w, struct jscan *s, struct err *err)
{
    struct jscan_value name = {.type = JSCAN_NULL}, versions = name, preferred = name, version;
    const struct field fields[] = {{"name", JSCAN_STRING, &name},
                                   {"versions", JSCAN_ARRAY, &versions},
                                   {"preferredVersion", JSCAN_OBJECT, &preferred}};
    struct slice group;
    struct jscan list;
    size_t from = w->n;
    bool first;

    if (!take_object(s, fields, 3))
        return err_set(err, "%s at byte %zu", s->error, s->pos);
    if (!jscan_text(w->arena, &name, &group) || !is_segment(group))
        return err_set(err, "a group without a usable name");
    group = arena_copy(w->arena, group);
    if (group.p == NULL)
        return err_set(err, "out of memory");
    open_array(&list, &versions, &first);
    while (jscan_element(&list, &first)) {
        const struct field inner = {"version", JSCAN_STRING, &version};

        version = (struct jscan_value){.type = JSCAN_NULL};
        if (!take_object(&list, &inner, 1))
            return err_set(err, "a version: %s", list.error);
        if (!add_leaf(w, group, &version, err))
            return false;
    }
    if (preferred.raw.p != NULL && jscan_get(preferred.raw, SLICE_LIT("version"), &version))
        prefer(w, from, &version);
    return true;
}

bool disco_walk_root(struct disco_walk *w, struct slice body, struct err *err)
{
    struct jscan_value list = {.type = JSCAN_NULL};
    struct jscan s;
    bool first;

    if (w->kind == DISCO_WALK_API)
        return take_document(body, "APIVersions", (struct field){"versions", JSCAN_ARRAY, &list}, err) &&
               core_versions(w, &list, err);
    if (!take_document(body, "APIGroupList", (struct field){"groups", JSCAN_ARRAY, &list}, err))
        return false;
    open_array(&s, &list, &first);
    while (jscan_element(&s, &first))
        if (!read_group(w, &s, err))
            return false;
    return true;
}

static bool note_path(struct disco_walk *w, size_t i)
{
    return strmap_put(w->paths, w->leaves[i].path, w, NULL);
}

static bool note_paths(struct disco_walk *w)
{
    w->paths = strmap_new();
    for (size_t i = 0; w->paths != NULL && i < w->n; i++)
        if (!note_path(w, i))
            return false;
    return w->paths != NULL;
}

/* The last leaf goes behind the others of its group. */
static void join_group(struct disco_walk *w)
{
    struct leaf leaf = w->leaves[w->n - 1];
    size_t at = w->n - 1;

    while (at > 0 && !slice_eq(w->leaves[at - 1].group, leaf.group))
        at--;
    if (at == 0)
        return;
    memmove(&w->leaves[at + 1], &w->leaves[at], (w->n - 1 - at) * sizeof(leaf));
    w->leaves[at] = leaf;
}

bool disco_walk_also(struct disco_walk *w, struct slice group, struct slice version, struct err *err)
{
    char raw[GVR_NAME_BYTES + 2], path[2 * GVR_NAME_BYTES + 10];
    struct jscan_value v = {.type = JSCAN_STRING};

    if (!is_segment(group) || !is_segment(version) || w->n_also == ALSO_MAX || w->n == WALK_MAX)
        return true;
    (void)snprintf(path, sizeof(path), "/apis/%.*s/%.*s", (int)group.n, group.p, (int)version.n, version.p);
    if (w->paths == NULL && !note_paths(w))
        return err_set(err, "out of memory");
    if (strmap_get(w->paths, slice_str(path)) != NULL)
        return true;
    group = arena_copy(w->arena, group);
    v.raw = slice_of(raw, (size_t)snprintf(raw, sizeof(raw), "\"%.*s\"", (int)version.n, version.p));
    if (group.p == NULL || !add_leaf(w, group, &v, err) || !note_path(w, w->n - 1))
        return err_set(err, "out of memory");
    join_group(w);
    w->n_also++;
    return true;
}

/* ---- resources ---- */

/* One entry of an APIResourceList: a resource, or "parent/subresource". Values stay the server's own text. */
struct entry {
    struct entry *next;
    struct entry *subs, **last_sub; /* of a parent */
    struct slice parent, sub;       /* decoded */
    struct jscan_value name, kind, group, version, singular, namespaced, verbs, short_names, categories;
};

struct entries {
    struct entry *first, **last;
};

struct conversion {
    struct arena *arena;
    struct strmap *by_name; /* parents */
    struct entries parents, subs;
};

static void append(struct entries *list, struct entry *e)
{
    *list->last = e;
    list->last = &e->next;
}

static bool add_parent(struct conversion *c, struct entry *e)
{
    e->last_sub = &e->subs;
    append(&c->parents, e);
    return strmap_put(c->by_name, e->parent, e, NULL);
}

static bool file_entry(struct conversion *c, struct entry *e, struct err *err)
{
    struct slice name;
    size_t slash;

    if (!jscan_text(c->arena, &e->name, &name) || name.n == 0)
        return err_set(err, "a resource without a usable name");
    slash = slice_index(name, '/');
    e->parent = slice_of(name.p, slash);
    e->sub = slice_from(name, slash + 1);
    if (slash < name.n)
        append(&c->subs, e);
    else if (strmap_get(c->by_name, e->parent) == NULL && !add_parent(c, e))
        return err_set(err, "out of memory");
    return true;
}

static bool take_entry(struct conversion *c, struct jscan *s, struct err *err)
{
    struct entry *e = arena_zalloc(c->arena, sizeof(*e));

    if (e == NULL)
        return err_set(err, "out of memory, or too many resources");
    {
        const struct field fields[] = {
            {"name", JSCAN_STRING, &e->name},
            {"kind", JSCAN_STRING, &e->kind},
            {"group", JSCAN_STRING, &e->group},
            {"version", JSCAN_STRING, &e->version},
            {"singularName", JSCAN_STRING, &e->singular},
            {"namespaced", JSCAN_TRUE, &e->namespaced},
            {"verbs", JSCAN_ARRAY, &e->verbs},
            {"shortNames", JSCAN_ARRAY, &e->short_names},
            {"categories", JSCAN_ARRAY, &e->categories},
        };

        if (!take_object(s, fields, sizeof(fields) / sizeof(fields[0])))
            return err_set(err, "%s at byte %zu", s->error, s->pos);
    }
    return file_entry(c, e, err);
}

/* Hangs the subresources under their parents, which are made where they are missing (kube-apiserver does the same). */
static bool adopt(struct conversion *c)
{
    struct entry *after, *parent;

    for (struct entry *e = c->subs.first; e != NULL; e = after) {
        after = e->next;
        e->next = NULL;
        parent = strmap_get(c->by_name, e->parent);
        if (parent == NULL) {
            parent = arena_zalloc(c->arena, sizeof(*parent));
            if (parent == NULL)
                return false;
            parent->parent = e->parent;
            parent->namespaced = e->namespaced;
            if (!add_parent(c, parent))
                return false;
        }
        *parent->last_sub = e;
        parent->last_sub = &e->next;
    }
    return true;
}

/* The value as the server wrote it, or `absent` ("" leaves the whole field out). */
static void put_raw(struct buf *out, const char *key, const struct jscan_value *v, const char *absent)
{
    if (v->raw.p == NULL && absent[0] == '\0')
        return;
    buf_append_str(out, key);
    buf_append(out, v->raw.p == NULL ? slice_str(absent) : v->raw);
}

/* An empty object where there is no kind: client-go 0.26.0 to 0.26.3 panics without one. */
static void put_kind(struct buf *out, const struct entry *e)
{
    put_raw(out, ",\"responseKind\":{\"group\":", &e->group, "\"\"");
    put_raw(out, ",\"version\":", &e->version, "\"\"");
    put_raw(out, ",\"kind\":", &e->kind, "\"\"");
    buf_append_char(out, '}');
}

static void put_entry(struct buf *out, const struct entry *e)
{
    buf_append_quoted(out, "{\"resource\":", e->parent);
    put_kind(out, e);
    buf_append_str(out, e->namespaced.type == JSCAN_TRUE ? ",\"scope\":\"Namespaced\"" : ",\"scope\":\"Cluster\"");
    put_raw(out, ",\"singularResource\":", &e->singular, "\"\"");
    put_raw(out, ",\"verbs\":", &e->verbs, "[]");
    put_raw(out, ",\"shortNames\":", &e->short_names, "");
    put_raw(out, ",\"categories\":", &e->categories, "");
    for (const struct entry *s = e->subs; s != NULL; s = s->next) {
        buf_append_quoted(out, s == e->subs ? ",\"subresources\":[{\"subresource\":" : ",{\"subresource\":", s->sub);
        put_kind(out, s);
        put_raw(out, ",\"verbs\":", &s->verbs, "[]");
        buf_append_char(out, '}');
    }
    buf_append_str(out, e->subs == NULL ? "}" : "]}");
}

static bool convert(struct conversion *c, struct slice body, struct buf *out, struct err *err)
{
    struct jscan_value list = {.type = JSCAN_NULL};
    struct jscan s;
    bool first;

    if (!take_document(body, "APIResourceList", (struct field){"resources", JSCAN_ARRAY, &list}, err))
        return false;
    open_array(&s, &list, &first);
    while (jscan_element(&s, &first))
        if (!take_entry(c, &s, err))
            return false;
    if (!adopt(c))
        return err_set(err, "out of memory");
    for (const struct entry *e = c->parents.first; e != NULL; e = e->next) {
        if (e != c->parents.first)
            buf_append_char(out, ',');
        put_entry(out, e);
    }
    return !out->failed || err_set(err, "out of memory");
}

bool disco_walk_resources(struct disco_walk *w, size_t i, struct slice body, struct err *err)
{
    struct conversion c = {.arena = arena_new(LIMIT_DISCOVERY_INDEX_BYTES), .by_name = strmap_new()};
    bool good = false;

    c.parents.last = &c.parents.first;
    c.subs.last = &c.subs.first;
    disco_walk_unavailable(w, i);
    if (c.arena == NULL || c.by_name == NULL)
        err_set(err, "out of memory");
    else
        good = convert(&c, body, &w->leaves[i].resources, err);
    if (good)
        w->leaves[i].state = LEAF_READ;
    else
        disco_walk_unavailable(w, i);
    arena_free(c.arena);
    strmap_free(c.by_name);
    return good;
}

/* ---- result ---- */

static void put_leaf(struct buf *out, const struct leaf *leaf)
{
    buf_append_quoted(out, "{\"version\":", leaf->version);
    if (leaf->state == LEAF_READ && buf_len(&leaf->resources) > 0) {
        buf_append_str(out, ",\"resources\":[");
        buf_append(out, buf_slice(&leaf->resources));
        buf_append_char(out, ']');
    }
    buf_append_str(out, leaf->state == LEAF_READ ? ",\"freshness\":\"Current\"}" : ",\"freshness\":\"Stale\"}");
}

static void put_groups(const struct disco_walk *w, struct buf *out)
{
    const struct leaf *open = NULL;

    for (size_t i = 0; i < w->n; i++) {
        const struct leaf *leaf = &w->leaves[i];

        if (leaf->state == LEAF_ABSENT)
            continue;
        if (open != NULL && slice_eq(open->group, leaf->group)) {
            buf_append_char(out, ',');
        } else {
            buf_append_str(out, open == NULL ? "{\"metadata\":{" : "]},{\"metadata\":{");
            if (leaf->group.n > 0)
                buf_append_quoted(out, "\"name\":", leaf->group);
            buf_append_str(out, "},\"versions\":[");
        }
        open = leaf;
        put_leaf(out, leaf);
    }
    if (open != NULL)
        buf_append_str(out, "]}");
}

bool disco_walk_finish(struct disco_walk *w, struct disco_parser *p, struct err *err)
{
    struct buf out;
    bool good;

    buf_init(&out, LIMIT_DISCOVERY_BYTES);
    buf_append_str(&out, "{\"kind\":\"" DISCO_LIST_KIND "\",\"apiVersion\":\"" DISCO_GROUP
                         "/v2\",\"metadata\":{},\"items\":[");
    put_groups(w, &out);
    if (buf_append_str(&out, "]}\n"))
        good = disco_parser_feed(p, buf_slice(&out), err);
    else
        good = err_set(err, "out of memory, or the converted document is too big");
    buf_free(&out);
    return good;
}
