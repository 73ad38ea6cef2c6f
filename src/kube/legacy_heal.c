/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/legacy_heal.h"

#include <stdio.h>

#include "base/json_write.h"
#include "base/limits.h"
#include "base/strmap.h"
#include "kube/jscan.h"

enum { LEGACY_DEPTH = 32, NAME_BYTES = 2 * GVR_NAME_BYTES + 2 };

/* An element of one of the answer's lists. */
struct item {
    struct slice raw;
    bool used; /* written, or to be left out */
};

struct items {
    struct item *at;
    size_t n, room;
    struct strmap *by_name;
};

/* ---- what the server has said ---- */

static void items_free(struct items *l)
{
    mem_free(l->at);
    strmap_free(l->by_name);
}

static bool items_add(struct items *l, struct slice raw)
{
    if (l->n == l->room) {
        size_t room = l->room == 0 ? 64 : 2 * l->room;
        struct item *grown = mem_realloc(l->at, room * sizeof(*grown));

        if (grown == NULL)
            return false;
        l->at = grown;
        l->room = room;
    }
    l->at[l->n++] = (struct item){raw, false};
    return true;
}

/* Elements are known by the text of their member `key`, of two with the same the first; the array no longer moves. */
static bool items_name(struct items *l, struct slice key)
{
    struct jscan_value name;
    struct arena *texts = arena_new(1 << 20);
    bool good = texts != NULL;

    for (size_t i = 0; good && i < l->n; i++) {
        struct slice text;

        if (jscan_get(l->at[i].raw, key, &name) && name.type == JSCAN_STRING)
            good = jscan_text(texts, &name, &text) &&
                   (strmap_get(l->by_name, text) != NULL || strmap_put(l->by_name, text, &l->at[i], NULL));
    }
    arena_free(texts);
    return good;
}

/* The objects of the array at `list` in `object`; null and none are an empty array. */
static bool items_read(struct items *l, struct slice object, struct slice list, struct slice key)
{
    struct jscan_value array, element;
    struct jscan s;
    bool first;

    *l = (struct items){.by_name = strmap_new()};
    if (l->by_name == NULL)
        return false;
    if (object.n == 0 || !jscan_get(object, list, &array) || array.type == JSCAN_NULL)
        return true;
    jscan_init(&s, array.raw, LEGACY_DEPTH);
    if (!jscan_enter_array(&s, &first))
        return false;
    while (jscan_element(&s, &first))
        if (!jscan_value(&s, &element) || element.type != JSCAN_OBJECT || !items_add(l, element.raw))
            return false;
    return s.error == NULL && items_name(l, key);
}

static bool is_object(struct slice text)
{
    struct slice object;

    return jscan_object(text, LEGACY_DEPTH, &object, NULL);
}

/* ---- writing ---- */

/* A comma before all but the first. */
static void next_item(struct buf *out, bool *first)
{
    if (!*first)
        buf_append_char(out, ',');
    *first = false;
}

static void put_rest(struct buf *out, const struct items *l, bool *first)
{
    for (size_t i = 0; i < l->n; i++)
        if (!l->at[i].used) {
            next_item(out, first);
            buf_append(out, l->at[i].raw);
        }
}

static void put_raw(struct json_write *w, const char *name, struct slice raw)
{
    json_raw(w, name);
    buf_append(w->out, raw);
}

/* Writes the value of a member in another's place. False: the member is left as it is. */
typedef bool put_value_fn(void *arg, struct slice key, struct buf *out);

/* An object of the server's, some of its members with other values. */
static bool put_changed(struct buf *out, struct slice object, put_value_fn *put, void *arg)
{
    struct jscan_value key, value;
    struct jscan s;
    bool first, first_out = true;

    jscan_init(&s, object, LEGACY_DEPTH);
    if (!jscan_enter_object(&s, &first))
        return false;
    buf_append_char(out, '{');
    while (jscan_member(&s, &first, &key)) {
        if (!jscan_value(&s, &value))
            return false;
        next_item(out, &first_out);
        buf_append(out, key.raw);
        buf_append_char(out, ':');
        /* Names of Kubernetes' own fields hold nothing that is escaped. */
        if (!put(arg, slice_of(key.raw.p + 1, key.raw.n - 2), out))
            buf_append(out, value.raw);
    }
    return buf_append_char(out, '}') && s.error == NULL;
}

/* ---- groups ---- */

static void put_version(struct buf *out, const struct disco_version *v)
{
    struct json_write w = json_open(out, '{');

    json_raw(&w, "groupVersion");
    buf_append_char(out, '"');
    buf_append_json(out, v->group->name);
    buf_append_char(out, '/');
    buf_append_json(out, v->name);
    buf_append_char(out, '"');
    json_slice(&w, "version", v->name);
    json_close(&w);
}

struct group_change {
    const struct disco_group *merged;
    struct items *versions;
};

static void put_versions(const struct group_change *c, struct buf *out)
{
    bool first = true;

    buf_append_char(out, '[');
    for (const struct disco_version *v = c->merged->versions; v != NULL && !out->failed; v = v->next) {
        struct item *known = strmap_get(c->versions->by_name, v->name);

        next_item(out, &first);
        if (known == NULL) {
            put_version(out, v);
        } else {
            buf_append(out, known->raw);
            known->used = true;
        }
    }
    put_rest(out, c->versions, &first);
    buf_append_char(out, ']');
}

static bool put_group_member(void *arg, struct slice key, struct buf *out)
{
    const struct group_change *c = arg;

    if (slice_eq(key, SLICE_LIT("versions")))
        put_versions(c, out);
    else if (slice_eq(key, SLICE_LIT("preferredVersion")))
        put_version(out, c->merged->versions);
    else
        return false;
    return true;
}

/* `typed`: it stands alone. */
static void put_new_group(struct buf *out, const struct disco_group *g, bool typed)
{
    struct items none = {.by_name = strmap_new()};
    struct json_write w = json_open(out, '{');

    if (typed) {
        json_text(&w, "kind", "APIGroup");
        json_text(&w, "apiVersion", "v1");
    }
    json_slice(&w, "name", g->name);
    json_raw(&w, "versions");
    if (none.by_name != NULL)
        put_versions(&(struct group_change){g, &none}, out);
    else
        out->failed = true;
    json_raw(&w, "preferredVersion");
    put_version(out, g->versions);
    json_close(&w);
    items_free(&none);
}

static bool lacks_version(const struct disco_group *g, const struct items *versions)
{
    for (const struct disco_version *v = g->versions; v != NULL; v = v->next)
        if (strmap_get(versions->by_name, v->name) == NULL)
            return true;
    return false;
}

/* The group as the server has it, with all versions. */
static enum legacy_heal heal_group(struct slice raw, const struct disco_group *g, struct buf *out)
{
    struct items versions;
    struct jscan_value list;
    enum legacy_heal result = LEGACY_FAILED;

    if (!jscan_get(raw, SLICE_LIT("versions"), &list))
        return LEGACY_COMPLETE; /* no place to put them */
    if (items_read(&versions, raw, SLICE_LIT("versions"), SLICE_LIT("version"))) {
        if (!lacks_version(g, &versions))
            result = LEGACY_COMPLETE;
        else if (put_changed(out, raw, put_group_member, &(struct group_change){g, &versions}))
            result = LEGACY_HEALED;
    }
    items_free(&versions);
    return result;
}

enum legacy_heal legacy_heal_group(struct slice answer, const struct disco_group *merged, struct buf *out)
{
    enum legacy_heal result = LEGACY_HEALED;

    if (merged->versions == NULL)
        return LEGACY_COMPLETE;
    if (answer.n == 0) {
        put_new_group(out, merged, true);
        buf_append_char(out, '\n');
    } else {
        result = is_object(answer) ? heal_group(answer, merged, out) : LEGACY_FAILED;
    }
    return out->failed ? LEGACY_FAILED : result;
}

struct groups_change {
    const struct disco_doc *merged;
    struct items *groups;
    bool changed, failed;
};

static void put_known_group(struct groups_change *c, struct item *known, const struct disco_group *g, struct buf *out)
{
    known->used = true;
    switch (heal_group(known->raw, g, out)) {
    case LEGACY_COMPLETE:
        buf_append(out, known->raw);
        break;
    case LEGACY_HEALED:
        c->changed = true;
        break;
    case LEGACY_FAILED:
        c->failed = true;
        break;
    }
}

static bool put_groups(void *arg, struct slice key, struct buf *out)
{
    struct groups_change *c = arg;
    bool first = true;

    if (!slice_eq(key, SLICE_LIT("groups")))
        return false;
    buf_append_char(out, '[');
    for (const struct disco_group *g = disco_doc_groups(c->merged); g != NULL && !out->failed; g = g->next) {
        struct item *known = strmap_get(c->groups->by_name, g->name);

        if (g->versions == NULL)
            continue;
        next_item(out, &first);
        if (known != NULL) {
            put_known_group(c, known, g, out);
        } else {
            put_new_group(out, g, false);
            c->changed = true;
        }
    }
    put_rest(out, c->groups, &first);
    buf_append_char(out, ']');
    return true;
}

/* What has come out of it. Without a change there is nothing. */
static enum legacy_heal finish(struct buf *out, size_t start, bool good, bool changed)
{
    if (!good || out->failed)
        return LEGACY_FAILED;
    if (changed) {
        buf_append_char(out, '\n');
        return out->failed ? LEGACY_FAILED : LEGACY_HEALED;
    }
    out->end = out->start + start;
    return LEGACY_COMPLETE;
}

enum legacy_heal legacy_heal_groups(struct slice answer, const struct disco_doc *merged, struct buf *out)
{
    struct items groups;
    struct groups_change c = {.merged = merged, .groups = &groups};
    size_t start = buf_len(out);
    bool good = items_read(&groups, is_object(answer) ? answer : SLICE_NONE, SLICE_LIT("groups"), SLICE_LIT("name")) &&
                is_object(answer) && put_changed(out, answer, put_groups, &c) && !c.failed;

    items_free(&groups);
    return finish(out, start, good, c.changed);
}

/* ---- resources ---- */

/* One resource or subresource, as the merged document has it. */
struct entry {
    struct slice name;
    struct slice kind;                              /* responseKind: an object, or p is NULL */
    struct slice singular, short_names, categories; /* raw; p is NULL: none */
    struct slice scope;
    const struct slice *verbs;
    size_t n_verbs;
};

static bool put_verbs(void *arg, struct slice key, struct buf *out)
{
    const struct entry *e = arg;
    struct json_write list;

    if (!slice_eq(key, SLICE_LIT("verbs")))
        return false;
    list = json_open(out, '[');
    for (size_t i = 0; i < e->n_verbs; i++)
        json_slice(&list, NULL, e->verbs[i]);
    json_close(&list);
    return true;
}

struct resources_change {
    const struct disco_version *merged;
    struct items *resources;
    size_t left; /* of LIMIT_HEALED_WORK: what others' documents cost before any of it is written */
    bool changed, failed;
};

static bool spend(struct resources_change *c, size_t n)
{
    c->failed = c->failed || n > c->left;
    c->left -= c->failed ? 0 : n;
    return !c->failed;
}

/* Both lists are in the same order as a rule. */
static bool lacks_verb(struct resources_change *c, struct slice item, const struct entry *e)
{
    struct jscan_value verbs, v;
    struct jscan s;
    uint64_t missing = e->n_verbs < 64 ? ((uint64_t)1 << e->n_verbs) - 1 : UINT64_MAX;
    bool first;

    if (!jscan_get(item, SLICE_LIT("verbs"), &verbs))
        return false; /* no place to put them */
    jscan_init(&s, verbs.raw, LEGACY_DEPTH);
    if (!jscan_enter_array(&s, &first))
        return missing != 0;
    while (missing != 0 && jscan_element(&s, &first) && jscan_value(&s, &v)) {
        if (!spend(c, 4 * (size_t)__builtin_popcountll(missing)))
            return false;
        for (uint64_t rest = missing; rest != 0; rest &= rest - 1)
            if (jscan_text_eq(&v, e->verbs[__builtin_ctzll(rest)]))
                missing &= ~(rest & -rest);
    }
    return missing != 0;
}

/* A string of responseKind; raw with its quotes. */
static struct slice kind_text(const struct entry *e, struct slice key)
{
    struct jscan_value v;

    if (e->kind.p == NULL || !jscan_get(e->kind, key, &v) || v.type != JSCAN_STRING)
        return SLICE_LIT("\"\"");
    return v.raw;
}

static bool is_text(struct slice quoted, struct slice text)
{
    return quoted.n == text.n + 2 && slice_eq(slice_of(quoted.p + 1, text.n), text);
}

/* As kube-apiserver: the kind's group and version only where they are not the list's. */
static void put_new_resource(struct buf *out, const struct entry *e, const struct disco_version *v)
{
    struct slice group = kind_text(e, SLICE_LIT("group")), version = kind_text(e, SLICE_LIT("version"));
    struct json_write w = json_open(out, '{');

    json_slice(&w, "name", e->name);
    put_raw(&w, "singularName", e->singular.p != NULL ? e->singular : SLICE_LIT("\"\""));
    json_bool(&w, "namespaced", slice_eq(e->scope, SLICE_LIT("Namespaced")));
    if (!is_text(group, v->group->name) || !is_text(version, v->name)) {
        if (group.n > 2)
            put_raw(&w, "group", group);
        if (version.n > 2)
            put_raw(&w, "version", version);
    }
    put_raw(&w, "kind", kind_text(e, SLICE_LIT("kind")));
    json_raw(&w, "verbs");
    (void)put_verbs((void *)(uintptr_t)e, SLICE_LIT("verbs"), out);
    if (e->short_names.n > 2)
        put_raw(&w, "shortNames", e->short_names);
    if (e->categories.n > 2)
        put_raw(&w, "categories", e->categories);
    json_close(&w);
}

static void put_entry(struct resources_change *c, const struct entry *e, bool *first, struct buf *out)
{
    struct item *known = strmap_get(c->resources->by_name, e->name);

    next_item(out, first);
    if (known == NULL) {
        put_new_resource(out, e, c->merged);
        c->changed = true;
        return;
    }
    known->used = true;
    if (!lacks_verb(c, known->raw, e)) {
        buf_append(out, known->raw);
    } else {
        c->changed = true;
        c->failed = !put_changed(out, known->raw, put_verbs, (void *)(uintptr_t)e) || c->failed;
    }
}

static struct slice subresource_kind(const struct disco_subresource *s)
{
    struct jscan_value kind;

    return jscan_get(s->raw, SLICE_LIT("responseKind"), &kind) && kind.type == JSCAN_OBJECT ? kind.raw : SLICE_NONE;
}

static void put_resource(struct resources_change *c, const struct disco_resource *r, bool *first, struct buf *out)
{
    char name[NAME_BYTES];

    /* One that is there for its subresources only is not listed by itself. */
    if (r->kind.n > 0 && spend(c, r->fields[DISCO_FIELD_KIND].n)) {
        const struct entry e = {.name = r->name,
                                .kind = r->fields[DISCO_FIELD_KIND],
                                .singular = r->fields[DISCO_FIELD_SINGULAR],
                                .short_names = r->fields[DISCO_FIELD_SHORT_NAMES],
                                .categories = r->fields[DISCO_FIELD_CATEGORIES],
                                .scope = r->scope,
                                .verbs = r->verbs,
                                .n_verbs = r->n_verbs};

        put_entry(c, &e, first, out);
    }
    for (const struct disco_subresource *s = r->subresources; s != NULL && !out->failed && spend(c, s->raw.n);
         s = s->next) {
        int n = snprintf(name, sizeof(name), "%.*s/%.*s", (int)r->name.n, r->name.p, (int)s->name.n, s->name.p);
        const struct entry e = {.name = slice_of(name, (size_t)n),
                                .kind = subresource_kind(s),
                                .scope = r->scope,
                                .verbs = s->verbs,
                                .n_verbs = s->n_verbs};

        if (n > 0 && (size_t)n < sizeof(name))
            put_entry(c, &e, first, out);
    }
}

static bool put_resources(void *arg, struct slice key, struct buf *out)
{
    struct resources_change *c = arg;
    bool first = true;

    if (!slice_eq(key, SLICE_LIT("resources")))
        return false;
    buf_append_char(out, '[');
    for (const struct disco_resource *r = c->merged->resources; r != NULL && !out->failed && !c->failed; r = r->next)
        put_resource(c, r, &first, out);
    put_rest(out, c->resources, &first);
    buf_append_char(out, ']');
    return true;
}

static void put_new_list(struct resources_change *c, struct buf *out)
{
    const struct disco_version *v = c->merged;
    struct json_write w = json_open(out, '{');

    json_text(&w, "kind", "APIResourceList");
    json_text(&w, "apiVersion", "v1");
    json_raw(&w, "groupVersion");
    buf_append_char(out, '"');
    if (v->group->name.n > 0) {
        buf_append_json(out, v->group->name);
        buf_append_char(out, '/');
    }
    buf_append_json(out, v->name);
    buf_append_char(out, '"');
    json_raw(&w, "resources");
    (void)put_resources(c, SLICE_LIT("resources"), out);
    json_close(&w);
}

enum legacy_heal legacy_heal_resources(struct slice answer, const struct disco_version *merged, struct buf *out)
{
    struct items resources;
    struct resources_change c = {.merged = merged, .resources = &resources, .left = LIMIT_HEALED_WORK};
    size_t start = buf_len(out);
    bool good = answer.n == 0 || is_object(answer);

    good = items_read(&resources, good ? answer : SLICE_NONE, SLICE_LIT("resources"), SLICE_LIT("name")) && good;
    if (good && answer.n == 0) {
        put_new_list(&c, out);
        c.changed = true;
        good = !c.failed;
    } else if (good) {
        good = put_changed(out, answer, put_resources, &c) && !c.failed;
    }
    items_free(&resources);
    return finish(out, start, good, c.changed);
}
