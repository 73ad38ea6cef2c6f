/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What holds for every merge, tried on random documents: the same bytes, in protobuf form too, whoever merges and
 * however; everything that somebody serves, and nothing else, is in it; each list keeps its order where lists do not
 * contradict each other. A failing case prints its seed; MVPROXY_MERGE_SEED=n runs that one alone,
 * MVPROXY_MERGE_CASES=n another number of cases.
 */
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "kube/disco_merge.h"
#include "lib/proto_check.h"
#include "lib/tap.h"

#ifdef MVPROXY_SANITIZED
enum { DEFAULT_CASES = 2000 };
#else
enum { DEFAULT_CASES = 10000 };
#endif
enum { MAX_SERVERS = 5 };

struct world {
    uint64_t state;
    size_t n;
    struct disco_doc *docs[MAX_SERVERS];
    char ids[MAX_SERVERS][24];
    unsigned flags[MAX_SERVERS];
    bool exclude;
};

static uint64_t below(struct world *w, uint64_t n)
{
    w->state ^= w->state << 13;
    w->state ^= w->state >> 7;
    w->state ^= w->state << 17;
    return (w->state >> 11) % n;
}

/* ---- documents ---- */

/* Calls `put` for a random subset of `names`, now and then shuffled, with commas between. */
typedef void put_fn(struct world *w, struct buf *out, const char *name);

static void put_some(struct world *w, struct buf *out, const char *const *names, put_fn *put)
{
    const char *chosen[8];
    size_t n = 0;

    for (; *names != NULL; names++)
        if (below(w, 3) != 0)
            chosen[n++] = *names;
    for (size_t i = n; i > 1 && below(w, 4) == 0; i--) {
        size_t j = (size_t)below(w, i);
        const char *swap = chosen[i - 1];

        chosen[i - 1] = chosen[j];
        chosen[j] = swap;
    }
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            buf_append_char(out, ',');
        put(w, out, chosen[i]);
    }
}

static void put_name(struct world *w, struct buf *out, const char *name)
{
    (void)w;
    buf_printf(out, "\"%s\"", name);
}

static const char *const verbs[] = {"get", "list", "watch", "create", NULL};

static void put_subresource(struct world *w, struct buf *out, const char *name)
{
    buf_printf(out, "{\"subresource\":\"%s\",\"responseKind\":{\"kind\":\"K%u\"},\"verbs\":[", name,
               (unsigned)below(w, 2));
    put_some(w, out, verbs, put_name);
    buf_append_str(out, below(w, 6) == 0 ? "],\"odd\":true}" : "]}");
}

static void put_resource(struct world *w, struct buf *out, const char *name)
{
    static const char *const subs[] = {"status", "scale", NULL};
    static const char *const shorts[] = {"a", "b", NULL};

    buf_printf(out, "{\"resource\":\"%s\",\"scope\":\"%s\",\"verbs\":[", name,
               below(w, 8) == 0 ? "Cluster" : "Namespaced");
    put_some(w, out, verbs, put_name);
    buf_append_char(out, ']');
    if (below(w, 3) == 0) {
        buf_append_str(out, ",\"shortNames\":[");
        put_some(w, out, shorts, put_name);
        buf_append_char(out, ']');
    }
    if (below(w, 2) == 0) {
        buf_append_str(out, ",\"subresources\":[");
        put_some(w, out, subs, put_subresource);
        buf_append_char(out, ']');
    }
    buf_append_str(out, below(w, 8) == 0 ? ",\"odd\":{\"x\":[1]}}" : "}");
}

static void put_version(struct world *w, struct buf *out, const char *name)
{
    static const char *const resources[] = {"apples", "pears", "plums", NULL};

    buf_printf(out, "{\"version\":\"%s\",\"resources\":[", name);
    put_some(w, out, resources, put_resource);
    buf_append_str(out, below(w, 10) == 0 ? "],\"freshness\":\"Stale\"}" : "],\"freshness\":\"Current\"}");
}

static void put_group(struct world *w, struct buf *out, const char *name)
{
    static const char *const versions[] = {"v2", "v1", "v1beta1", NULL};

    buf_printf(out, "{\"metadata\":{\"name\":\"%s\"},\"versions\":[", name);
    put_some(w, out, versions, put_version);
    buf_append_str(out, "]}");
}

static void make_document(struct world *w, struct buf *out)
{
    static const char *const groups[] = {"fruit", "apps", "trees.example.com", NULL};

    buf_reset(out);
    buf_append_str(
        out,
        "{\"kind\":\"APIGroupDiscoveryList\",\"apiVersion\":\"apidiscovery.k8s.io/v2\",\"metadata\":{},\"items\":[");
    put_some(w, out, groups, put_group);
    buf_append_str(out, "]}\n");
}

static void make_world(struct world *w, uint64_t seed)
{
    struct err err = {""};
    struct buf out;

    *w = (struct world){.state = seed * 0x9e3779b97f4a7c15ULL + 1};
    buf_init(&out, 1 << 20);
    w->n = 1 + (size_t)below(w, MAX_SERVERS);
    w->exclude = below(w, 4) == 0;
    for (size_t i = 0; i < w->n; i++) {
        snprintf(w->ids[i], sizeof(w->ids[i]), "s%zu", i);
        w->flags[i] = below(w, 5) == 0 ? DISCO_SERVER_LAPSED : 0;
        if (i > 0 && below(w, 3) == 0) {
            w->docs[i] = disco_doc_ref(w->docs[below(w, i)]);
            continue;
        }
        make_document(w, &out);
        w->docs[i] = disco_parse(buf_slice(&out), &err);
        if (w->docs[i] == NULL)
            tap_bail("seed %llu: %s", (unsigned long long)seed, err.text);
    }
    buf_free(&out);
}

static void free_world(struct world *w)
{
    for (size_t i = 0; i < w->n; i++)
        disco_doc_unref(w->docs[i]);
}

/* ---- merging ---- */

/* Merges with server `local` as ours (w->n: none), added from `turn` on, in steps of `budget`. */
static struct disco_merge *merge(const struct world *w, size_t local, size_t turn, size_t budget)
{
    struct disco_merge *m = disco_merge_new();
    struct err err = {""};

    for (size_t k = 0; k < w->n; k++) {
        size_t i = (k + turn) % w->n;
        unsigned flags = w->flags[i] | (i == local ? DISCO_SERVER_LOCAL : 0U);

        if (!disco_merge_add(m, slice_str(w->ids[i]), w->docs[i], flags))
            tap_bail("no memory");
    }
    if (w->exclude && !disco_merge_exclude(m, SLICE_LIT("apps"), SLICE_LIT("v1")))
        tap_bail("no memory");
    while (disco_merge_step(m, budget, &err) == STEP_MORE)
        continue;
    if (err_is_set(&err))
        tap_bail("%s", err.text);
    return m;
}

static struct slice result(const struct disco_merge *m)
{
    struct disco_merged out;

    disco_merge_result(m, &out);
    return out.v2;
}

/* ---- checks ---- */

static bool is_json(struct slice text)
{
    struct json_object *o = NULL;
    struct json_tokener *t = json_tokener_new();
    bool good;

    o = json_tokener_parse_ex(t, text.p, (int)text.n);
    good = json_tokener_get_error(t) == json_tokener_success && json_object_is_type(o, json_type_object);
    json_object_put(o);
    json_tokener_free(t);
    return good;
}

static bool excluded(const struct world *w, const struct disco_version *v, bool local)
{
    return !local && w->exclude && slice_eq(v->group->name, SLICE_LIT("apps")) && slice_eq(v->name, SLICE_LIT("v1"));
}

/* Whether all verbs and subresources' verbs of `part` are in `whole`. */
static bool contains(const struct disco *whole, const struct disco_resource *part)
{
    const struct gvr g = {part->version->group->name, part->version->name, part->name};
    const struct slice none = SLICE_LIT("");

    for (size_t i = 0; i < part->n_verbs; i++)
        if (disco_lookup(whole, &g, none, part->verbs[i]) != DISCO_SERVED)
            return false;
    for (const struct disco_subresource *s = part->subresources; s != NULL; s = s->next) {
        /* Its verbs are those that the last server gives. */
        if (disco_lookup(whole, &g, s->name, none) != DISCO_SERVED)
            return false;
    }
    return disco_doc_resource(disco_apis(whole), &g) != NULL;
}

struct servers {
    const struct world *w;
    struct disco *each[MAX_SERVERS];
    size_t local;
};

static bool somebody_serves(const struct servers *s, const struct gvr *g, struct slice subresource, struct slice verb)
{
    for (size_t i = 0; i < s->w->n; i++) {
        const struct disco_version *v = disco_doc_version(s->w->docs[i], g->group, g->version);

        if (v != NULL && !excluded(s->w, v, i == s->local) &&
            disco_lookup(s->each[i], g, subresource, verb) == DISCO_SERVED)
            return true;
    }
    return false;
}

static bool all_served(const struct servers *s, const struct disco_resource *r)
{
    const struct gvr g = {r->version->group->name, r->version->name, r->name};

    for (size_t i = 0; i < r->n_verbs; i++)
        if (!somebody_serves(s, &g, SLICE_LIT(""), r->verbs[i]))
            return false;
    for (const struct disco_subresource *sub = r->subresources; sub != NULL; sub = sub->next)
        for (size_t i = 0; i < sub->n_verbs; i++)
            if (!somebody_serves(s, &g, sub->name, sub->verbs[i]))
                return false;
    return true;
}

static bool nothing_invented(const struct world *w, const struct disco_doc *merged, size_t local)
{
    struct servers s = {.w = w, .local = local};
    bool good = true;

    for (size_t i = 0; i < w->n; i++)
        s.each[i] = disco_new(NULL, w->docs[i]);
    for (const struct disco_group *g = disco_doc_groups(merged); g != NULL; g = g->next)
        for (const struct disco_version *v = g->versions; v != NULL; v = v->next)
            for (const struct disco_resource *r = v->resources; r != NULL; r = r->next)
                good = good && all_served(&s, r);
    for (size_t i = 0; i < w->n; i++)
        disco_unref(s.each[i]);
    return good;
}

static const char *check_content(const struct world *w, struct slice merged, size_t local)
{
    struct err err = {""};
    struct disco_doc *d = disco_parse(merged, &err);
    struct disco *whole = d == NULL ? NULL : disco_new(NULL, d);
    const char *wrong = whole == NULL ? "it does not parse" : NULL;

    disco_doc_unref(d);
    for (size_t i = 0; wrong == NULL && i < w->n; i++)
        for (const struct disco_group *g = disco_doc_groups(w->docs[i]); g != NULL; g = g->next)
            for (const struct disco_version *v = g->versions; v != NULL; v = v->next)
                for (const struct disco_resource *r = v->resources; r != NULL; r = r->next)
                    if (!excluded(w, v, i == local) && !contains(whole, r))
                        wrong = "something is missing";
    if (wrong == NULL && !nothing_invented(w, d, local))
        wrong = "something is in it that nobody serves";
    disco_unref(whole);
    return wrong;
}

static bool has_excluded(const struct world *w, const struct disco_group *g)
{
    for (const struct disco_version *v = g == NULL ? NULL : g->versions; v != NULL; v = v->next)
        if (excluded(w, v, false))
            return true;
    return false;
}

/* A group/version is Current exactly if a live server that counts says so. */
static const char *check_freshness(const struct world *w, struct slice merged, size_t local)
{
    struct err err = {""};
    struct disco_doc *d = disco_parse(merged, &err);
    const char *wrong = NULL;

    for (const struct disco_group *g = disco_doc_groups(d); g != NULL; g = g->next)
        for (const struct disco_version *v = g->versions; v != NULL; v = v->next) {
            bool current = false;

            for (size_t i = 0; i < w->n; i++) {
                const struct disco_version *there = disco_doc_version(w->docs[i], g->name, v->name);
                bool live = (w->flags[i] & DISCO_SERVER_LAPSED) == 0 ||
                            (i == local && has_excluded(w, disco_doc_group(w->docs[i], g->name)));

                current = current || (there != NULL && live && !there->stale && !excluded(w, there, i == local));
            }
            if (v->stale == current)
                wrong = "freshness is wrong";
        }
    disco_doc_unref(d);
    return wrong;
}

/* The protobuf form as an instance makes it: of its own parsed document where nothing differs, else of what it merged.
 */
static void put_protobuf(const struct disco_merge *m, size_t budget, struct buf *out)
{
    struct disco_merged merged;
    struct err err = {""};
    struct disco_doc *doc;

    disco_merge_result(m, &merged);
    doc = merged.parsed != NULL ? disco_doc_ref(merged.parsed) : disco_parse(merged.v2, &err);
    buf_reset(out);
    if (doc == NULL || !pb_encode(doc, budget, DISCO_V2, out))
        tap_bail("no protobuf form: %s", err.text);
    if (!pb_agrees(buf_slice(out), doc, DISCO_GROUP "/v2"))
        buf_reset(out);
    disco_doc_unref(doc);
}

static const char *check_protobuf(const struct disco_merge *one, const struct disco_merge *two)
{
    const char *wrong = NULL;
    struct buf a, b;

    buf_init(&a, 1 << 20);
    buf_init(&b, 1 << 20);
    put_protobuf(one, SIZE_MAX, &a);
    put_protobuf(two, 1, &b);
    if (buf_len(&a) == 0 || buf_len(&b) == 0)
        wrong = "the protobuf form says something else";
    else if (!slice_eq(buf_slice(&a), buf_slice(&b)))
        wrong = "another protobuf form";
    buf_free(&a);
    buf_free(&b);
    return wrong;
}

static const char *check_world(const struct world *w)
{
    struct disco_merge *first = merge(w, 0, 0, SIZE_MAX), *again;
    const char *wrong = is_json(result(first)) ? NULL : "it is no JSON";

    for (size_t turn = 0; wrong == NULL && turn < w->n; turn++) {
        again = merge(w, 0, turn, 1 + turn);
        if (!slice_eq(result(first), result(again)))
            wrong = "other bytes in another order";
        else
            wrong = check_protobuf(first, again);
        disco_merge_free(again);
    }
    /* Who merges matters only through exclusions. */
    for (size_t local = 1; wrong == NULL && local <= w->n && !w->exclude; local++) {
        again = merge(w, local, 0, 7);
        if (!slice_eq(result(first), result(again)))
            wrong = "other bytes on another instance";
        else
            wrong = check_protobuf(first, again);
        disco_merge_free(again);
    }
    if (wrong == NULL)
        wrong = check_content(w, result(first), 0);
    if (wrong == NULL)
        wrong = check_freshness(w, result(first), 0);
    if (wrong != NULL)
        diag("merged: %.*s", (int)result(first).n, result(first).p);
    disco_merge_free(first);
    return wrong;
}

static uint64_t number_from(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);

    return text == NULL ? otherwise : strtoull(text, NULL, 10);
}

int main(void)
{
    uint64_t one = number_from("MVPROXY_MERGE_SEED", 0), cases = number_from("MVPROXY_MERGE_CASES", DEFAULT_CASES);
    unsigned wrong = 0, merged = 0, excluding = 0;

    for (uint64_t seed = one == 0 ? 1 : one; seed <= (one == 0 ? cases : one) && wrong < 5; seed++) {
        struct world w;
        const char *why;

        make_world(&w, seed);
        why = check_world(&w);
        if (why != NULL) {
            diag("MVPROXY_MERGE_SEED=%llu: %s", (unsigned long long)seed, why);
            wrong++;
        }
        merged += w.n > 1 ? 1 : 0;
        excluding += w.exclude ? 1 : 0;
        free_world(&w);
    }
    is_u64(wrong, 0, "seeds 1 to %llu", (unsigned long long)cases);
    ok(one != 0 || (merged > cases / 2 && excluding > cases / 10), "%u of them merged, %u with exclusions", merged,
       excluding);
    return tap_end();
}
