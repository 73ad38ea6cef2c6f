/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/disco.h"

#include "base/contract.h"
#include "base/hash.h"
#include "base/limits.h"
#include "kube/disco_doc.h"

/* ---- documents ---- */

struct disco_doc *disco_doc_new(struct buf *body)
{
    struct disco_doc *d = mem_zalloc(sizeof(*d));

    if (d == NULL)
        return NULL;
    d->arena = arena_new(LIMIT_DISCOVERY_INDEX_BYTES);
    if (d->arena == NULL) {
        mem_free(d);
        return NULL;
    }
    d->refs = 1;
    d->left_out = SLICE_LIT("");
    d->body = *body;
    buf_init(body, 0);
    return d;
}

/* Counting references does not change what a document says: const in, the only place where it is dropped. */
struct disco_doc *disco_doc_ref(const struct disco_doc *d)
{
    struct disco_doc *mine = (struct disco_doc *)(uintptr_t)d;

    must_hold(d->refs > 0);
    mine->refs++;
    return mine;
}

void disco_doc_unref(struct disco_doc *d)
{
    must_hold(d == NULL || d->refs > 0);
    if (d == NULL || --d->refs > 0)
        return;
    buf_free(&d->body);
    arena_free(d->arena);
    mem_free(d->entries);
    mem_free(d);
}

const struct disco_group *disco_doc_groups(const struct disco_doc *d)
{
    return d->groups;
}

size_t disco_doc_n_groups(const struct disco_doc *d)
{
    return d->n_groups;
}

size_t disco_doc_n_resources(const struct disco_doc *d)
{
    return d->n_resources;
}

size_t disco_doc_bytes(const struct disco_doc *d)
{
    return sizeof(*d) + buf_len(&d->body) + arena_used(d->arena) + d->n_entries * sizeof(*d->entries);
}

enum disco_form disco_doc_form(const struct disco_doc *d)
{
    return d->form;
}

size_t disco_doc_left_out(const struct disco_doc *d, struct slice *first)
{
    *first = d == NULL ? SLICE_LIT("") : d->left_out;
    return d == NULL ? 0 : d->n_left_out;
}

struct slice disco_doc_raw(const struct disco_doc *d)
{
    return buf_slice(&d->body);
}

struct slice disco_doc_api_version(const struct disco_doc *d)
{
    return d->api_version;
}

uint64_t disco_doc_hash(const struct disco_doc *d)
{
    uint64_t sum = 1;

    for (const struct disco_group *g = d == NULL ? NULL : disco_doc_groups(d); g != NULL; g = g->next)
        sum = sum * 31 + g->hash;
    return sum;
}

/* ---- index ---- */

bool disco_doc_index_init(struct disco_doc *d)
{
    size_t wanted = 2 * (d->n_groups + d->n_versions + d->n_resources + 1), n = 16;

    while (n < wanted)
        n *= 2;
    d->entries = mem_array(n, sizeof(*d->entries));
    d->n_entries = d->entries == NULL ? 0 : n;
    return d->entries != NULL;
}

static struct gvr entry_name(const struct disco_entry *e)
{
    const struct slice none = SLICE_LIT("");
    const struct disco_resource *r = e->item;
    const struct disco_version *v = e->kind == DISCO_ENTRY_RESOURCE ? r->version : e->item;
    const struct disco_group *g = e->kind == DISCO_ENTRY_GROUP ? e->item : v->group;

    if (e->kind == DISCO_ENTRY_GROUP)
        return (struct gvr){g->name, none, none};
    return (struct gvr){g->name, v->name, e->kind == DISCO_ENTRY_RESOURCE ? r->name : none};
}

/* The entry with this name, or the free place where it belongs; NULL if the name cannot be one. */
static struct disco_entry *find(const struct disco_doc *d, enum disco_entry_kind kind, const struct gvr *name,
                                uint64_t *hash)
{
    char text[GVR_KEY_BYTES];
    struct slice key = gvr_key(name, text);

    if (key.p == NULL || d->n_entries == 0)
        return NULL;
    *hash = hash_seeded(key);
    for (size_t i = *hash & (d->n_entries - 1);; i = (i + 1) & (d->n_entries - 1)) {
        struct disco_entry *e = &d->entries[i];
        struct gvr there;

        if (e->kind == DISCO_ENTRY_NONE)
            return e;
        if (e->hash != *hash || e->kind != kind)
            continue;
        there = entry_name(e);
        if (gvr_eq(&there, name))
            return e;
    }
}

bool disco_doc_index_add(struct disco_doc *d, enum disco_entry_kind kind, const struct gvr *name, const void *item)
{
    uint64_t hash;
    struct disco_entry *e = find(d, kind, name, &hash);

    if (e == NULL || e->kind != DISCO_ENTRY_NONE)
        return false;
    *e = (struct disco_entry){hash, kind, item};
    return true;
}

static const void *look_up(const struct disco_doc *d, enum disco_entry_kind kind, const struct gvr *name)
{
    uint64_t hash;
    const struct disco_entry *e = find(d, kind, name, &hash);

    return e == NULL ? NULL : e->item;
}

const struct disco_group *disco_doc_group(const struct disco_doc *d, struct slice group)
{
    const struct gvr name = {group, SLICE_LIT(""), SLICE_LIT("")};

    return look_up(d, DISCO_ENTRY_GROUP, &name);
}

const struct disco_version *disco_doc_version(const struct disco_doc *d, struct slice group, struct slice version)
{
    const struct gvr name = {group, version, SLICE_LIT("")};

    return look_up(d, DISCO_ENTRY_VERSION, &name);
}

const struct disco_resource *disco_doc_resource(const struct disco_doc *d, const struct gvr *g)
{
    return look_up(d, DISCO_ENTRY_RESOURCE, g);
}

/* ---- one server ---- */

struct disco {
    unsigned refs;
    struct disco_doc *core, *apis;
};

struct disco *disco_new(const struct disco_doc *core, const struct disco_doc *apis)
{
    struct disco *d = mem_zalloc(sizeof(*d));

    if (d == NULL)
        return NULL;
    d->refs = 1;
    d->core = core == NULL ? NULL : disco_doc_ref(core);
    d->apis = disco_doc_ref(apis);
    return d;
}

struct disco *disco_ref(const struct disco *d)
{
    struct disco *mine = (struct disco *)(uintptr_t)d;

    must_hold(d->refs > 0);
    mine->refs++;
    return mine;
}

void disco_unref(struct disco *d)
{
    must_hold(d == NULL || d->refs > 0);
    if (d == NULL || --d->refs > 0)
        return;
    disco_doc_unref(d->core);
    disco_doc_unref(d->apis);
    mem_free(d);
}

const struct disco_doc *disco_core(const struct disco *d)
{
    return d->core;
}

const struct disco_doc *disco_apis(const struct disco *d)
{
    return d->apis;
}

const struct disco_doc *disco_half(const struct disco *d, bool core)
{
    if (d == NULL)
        return NULL;
    return core ? d->core : d->apis;
}

const struct disco_resource *disco_resource(const struct disco *d, const struct gvr *g)
{
    const struct disco_doc *doc = disco_half(d, g->group.n == 0);

    return doc == NULL ? NULL : disco_doc_resource(doc, g);
}

static bool has_verb(const struct slice *verbs, size_t n, struct slice verb)
{
    for (size_t i = 0; i < n; i++)
        if (slice_eq(verbs[i], verb))
            return true;
    return verb.n == 0;
}

static const struct disco_subresource *find_subresource(const struct disco_resource *r, struct slice name)
{
    const struct disco_subresource *s = r->subresources;

    while (s != NULL && !slice_eq(s->name, name))
        s = s->next;
    return s;
}

enum disco_answer disco_lookup(const struct disco *d, const struct gvr *g, struct slice subresource, struct slice verb)
{
    const struct disco_resource *r = disco_resource(d, g);
    const struct disco_subresource *s;

    if (r == NULL)
        return DISCO_NO_RESOURCE;
    if (subresource.n == 0) {
        if (r->n_verbs == 0)
            return DISCO_NO_RESOURCE;
        return has_verb(r->verbs, r->n_verbs, verb) ? DISCO_SERVED : DISCO_NO_VERB;
    }
    s = find_subresource(r, subresource);
    if (s == NULL)
        return DISCO_NO_SUBRESOURCE;
    return has_verb(s->verbs, s->n_verbs, verb) ? DISCO_SERVED : DISCO_NO_VERB;
}

enum disco_gv disco_gv(const struct disco *d, struct slice group, struct slice version)
{
    const struct disco_doc *doc = disco_half(d, group.n == 0);
    const struct disco_version *v = doc == NULL ? NULL : disco_doc_version(doc, group, version);

    if (v == NULL)
        return DISCO_GV_ABSENT;
    return v->stale ? DISCO_GV_STALE : DISCO_GV_CURRENT;
}
