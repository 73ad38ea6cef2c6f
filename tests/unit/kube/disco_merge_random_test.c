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
#include "lib/merge_steps.h"
#include "lib/proto_check.h"
#include "lib/tap.h"

#ifdef MVPROXY_SANITIZED
enum { DEFAULT_CASES = 2000 };
#else
enum { DEFAULT_CASES = 10000 };
#endif
enum { MAX_SERVERS = 5 };

struct merge_case {
    uint64_t state;
    size_t n;
    struct disco_doc *docs[MAX_SERVERS];
    char ids[MAX_SERVERS][24];
    unsigned flags[MAX_SERVERS];
    bool exclude;
};

static uint64_t below(struct merge_case *c, uint64_t n)
{
    c->state ^= c->state << 13;
    c->state ^= c->state >> 7;
    c->state ^= c->state << 17;
    return (c->state >> 11) % n;
}

/* ---- documents ---- */

/* Calls `put` for a random subset of `names`, now and then shuffled, with commas between. */
typedef void put_fn(struct merge_case *c, struct buf *out, const char *name);

static void put_some(struct merge_case *c, struct buf *out, const char *const *names, put_fn *put)
{
    const char *chosen[8];
    size_t n = 0;

    for (; *names != NULL; names++)
        if (below(c, 3) != 0)
            chosen[n++] = *names;
    for (size_t i = n; i > 1 && below(c, 4) == 0; i--) {
        size_t j = (size_t)below(c, i);
        const char *swap = chosen[i - 1];

        chosen[i - 1] = chosen[j];
        chosen[j] = swap;
    }
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            buf_append_char(out, ',');
        put(c, out, chosen[i]);
    }
}

static void put_name(struct merge_case *c, struct buf *out, const char *name)
{
    (void)c;
    buf_printf(out, "\"%s\"", name);
}

static const char *const verbs[] = {"get", "list", "watch", "create", NULL};

static void put_subresource(struct merge_case *c, struct buf *out, const char *name)
{
    buf_printf(out, "{\"subresource\":\"%s\",\"responseKind\":{\"kind\":\"K%u\"},\"verbs\":[", name,
               (unsigned)below(c, 2));
    put_some(c, out, verbs, put_name);
    buf_append_str(out, below(c, 6) == 0 ? "],\"odd\":true}" : "]}");
}

static void put_resource(struct merge_case *c, struct buf *out, const char *name)
{
    static const char *const subs[] = {"status", "scale", NULL};
    static const char *const shorts[] = {"a", "b", NULL};

    buf_printf(out, "{\"resource\":\"%s\",\"scope\":\"%s\",\"verbs\":[", name,
               below(c, 8) == 0 ? "Cluster" : "Namespaced");
    put_some(c, out, verbs, put_name);
    buf_append_char(out, ']');
    if (below(c, 3) == 0) {
        buf_append_str(out, ",\"shortNames\":[");
        put_some(c, out, shorts, put_name);
        buf_append_char(out, ']');
    }
    if (below(c, 2) == 0) {
        buf_append_str(out, ",\"subresources\":[");
        put_some(c, out, subs, put_subresource);
        buf_append_char(out, ']');
    }
    buf_append_str(out, below(c, 8) == 0 ? ",\"odd\":{\"x\":[1]}}" : "}");
}

static void put_version(struct merge_case *c, struct buf *out, const char *name)
{
    static const char *const resources[] = {"apples", "pears", "plums", NULL};

    buf_printf(out, "{\"version\":\"%s\",\"resources\":[", name);
    put_some(c, out, resources, put_resource);
    buf_append_str(out, below(c, 10) == 0 ? "],\"freshness\":\"Stale\"}" : "],\"freshness\":\"Current\"}");
}

static void put_group(struct merge_case *c, struct buf *out, const char *name)
{
    static const char *const versions[] = {"v2", "v1", "v1beta1", NULL};

    buf_printf(out, "{\"metadata\":{\"name\":\"%s\"},\"versions\":[", name);
    put_some(c, out, versions, put_version);
    buf_append_str(out, "]}");
}

static void make_document(struct merge_case *c, struct buf *out)
{
    static const char *const groups[] = {"fruit", "apps", "trees.example.com", NULL};

    buf_reset(out);
    buf_append_str(
        out,
        "{\"kind\":\"APIGroupDiscoveryList\",\"apiVersion\":\"apidiscovery.k8s.io/v2\",\"metadata\":{},\"items\":[");
    put_some(c, out, groups, put_group);
    buf_append_str(out, "]}\n");
}

static void make_case(struct merge_case *c, uint64_t seed)
{
    struct err err = {""};
    struct buf out;

    *c = (struct merge_case){.state = seed * 0x9e3779b97f4a7c15ULL + 1};
    buf_init(&out, 1 << 20);
    c->n = 1 + (size_t)below(c, MAX_SERVERS);
    c->exclude = below(c, 4) == 0;
    for (size_t i = 0; i < c->n; i++) {
        snprintf(c->ids[i], sizeof(c->ids[i]), "s%zu", i);
        c->flags[i] = below(c, 5) == 0 ? DISCO_SERVER_LAPSED : 0;
        if (i > 0 && below(c, 3) == 0) {
            c->docs[i] = disco_doc_ref(c->docs[below(c, i)]);
            continue;
        }
        make_document(c, &out);
        c->docs[i] = disco_parse(buf_slice(&out), &err);
        if (c->docs[i] == NULL)
            tap_bail("seed %llu: %s", (unsigned long long)seed, err.text);
    }
    buf_free(&out);
}

static void free_case(struct merge_case *c)
{
    for (size_t i = 0; i < c->n; i++)
        disco_doc_unref(c->docs[i]);
}

/* ---- merging ---- */

/* Merges with server `local` as ours (c->n: none), added from `turn` on, in steps of `budget`. */
static struct disco_merge *merge(const struct merge_case *c, size_t local, size_t turn, size_t budget)
{
    struct disco_merge *m = disco_merge_new();
    struct err err = {""};

    for (size_t k = 0; k < c->n; k++) {
        size_t i = (k + turn) % c->n;
        unsigned flags = c->flags[i] | (i == local ? DISCO_SERVER_LOCAL : 0U);

        if (!disco_merge_add(m, slice_str(c->ids[i]), c->docs[i], flags))
            tap_bail("no memory");
    }
    if (c->exclude && !disco_merge_exclude(m, SLICE_LIT("apps"), SLICE_LIT("v1")))
        tap_bail("no memory");
    (void)merge_in_steps(m, budget, &err);
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

static bool excluded(const struct merge_case *c, const struct disco_version *v, bool local)
{
    return !local && c->exclude && slice_eq(v->group->name, SLICE_LIT("apps")) && slice_eq(v->name, SLICE_LIT("v1"));
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
    const struct merge_case *c;
    struct disco *each[MAX_SERVERS];
    size_t local;
};

static bool somebody_serves(const struct servers *s, const struct gvr *g, struct slice subresource, struct slice verb)
{
    for (size_t i = 0; i < s->c->n; i++) {
        const struct disco_version *v = disco_doc_version(s->c->docs[i], g->group, g->version);

        if (v != NULL && !excluded(s->c, v, i == s->local) &&
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

static bool nothing_invented(const struct merge_case *c, const struct disco_doc *merged, size_t local)
{
    struct servers s = {.c = c, .local = local};
    bool good = true;

    for (size_t i = 0; i < c->n; i++)
        s.each[i] = disco_new(NULL, c->docs[i]);
    for (const struct disco_group *g = disco_doc_groups(merged); g != NULL; g = g->next)
        for (const struct disco_version *v = g->versions; v != NULL; v = v->next)
            for (const struct disco_resource *r = v->resources; r != NULL; r = r->next)
                good = good && all_served(&s, r);
    for (size_t i = 0; i < c->n; i++)
        disco_unref(s.each[i]);
    return good;
}

static const char *check_content(const struct merge_case *c, struct slice merged, size_t local)
{
    struct err err = {""};
    struct disco_doc *d = disco_parse(merged, &err);
    struct disco *whole = d == NULL ? NULL : disco_new(NULL, d);
    const char *wrong = whole == NULL ? "it does not parse" : NULL;

    disco_doc_unref(d);
    for (size_t i = 0; wrong == NULL && i < c->n; i++)
        for (const struct disco_group *g = disco_doc_groups(c->docs[i]); g != NULL; g = g->next)
            for (const struct disco_version *v = g->versions; v != NULL; v = v->next)
                for (const struct disco_resource *r = v->resources; r != NULL; r = r->next)
                    if (!excluded(c, v, i == local) && !contains(whole, r))
                        wrong = "something is missing";
    if (wrong == NULL && !nothing_invented(c, d, local))
        wrong = "something is in it that nobody serves";
    disco_unref(whole);
    return wrong;
}

static bool has_excluded(const struct merge_case *c, const struct disco_group *g)
{
    for (const struct disco_version *v = g == NULL ? NULL : g->versions; v != NULL; v = v->next)
        if (excluded(c, v, false))
            return true;
    return false;
}

/* A group/version is Current exactly if a live server that counts says so. */
static const char *check_freshness(const struct merge_case *c, struct slice merged, size_t local)
{
    struct err err = {""};
    struct disco_doc *d = disco_parse(merged, &err);
    const char *wrong = NULL;

    for (const struct disco_group *g = disco_doc_groups(d); g != NULL; g = g->next)
        for (const struct disco_version *v = g->versions; v != NULL; v = v->next) {
            bool current = false;

            for (size_t i = 0; i < c->n; i++) {
                const struct disco_version *there = disco_doc_version(c->docs[i], g->name, v->name);
                bool live = (c->flags[i] & DISCO_SERVER_LAPSED) == 0 ||
                            (i == local && has_excluded(c, disco_doc_group(c->docs[i], g->name)));

                current = current || (there != NULL && live && !there->stale && !excluded(c, there, i == local));
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

static const char *check_case(const struct merge_case *c)
{
    struct disco_merge *first = merge(c, 0, 0, SIZE_MAX), *again;
    const char *wrong = is_json(result(first)) ? NULL : "it is no JSON";

    for (size_t turn = 0; wrong == NULL && turn < c->n; turn++) {
        again = merge(c, 0, turn, 1 + turn);
        if (!slice_eq(result(first), result(again)))
            wrong = "other bytes in another order";
        else
            wrong = check_protobuf(first, again);
        disco_merge_free(again);
    }
    /* Who merges matters only through exclusions. */
    for (size_t local = 1; wrong == NULL && local <= c->n && !c->exclude; local++) {
        again = merge(c, local, 0, 7);
        if (!slice_eq(result(first), result(again)))
            wrong = "other bytes on another instance";
        else
            wrong = check_protobuf(first, again);
        disco_merge_free(again);
    }
    if (wrong == NULL)
        wrong = check_content(c, result(first), 0);
    if (wrong == NULL)
        wrong = check_freshness(c, result(first), 0);
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
        struct merge_case c;
        const char *why;

        make_case(&c, seed);
        why = check_case(&c);
        if (why != NULL) {
            diag("MVPROXY_MERGE_SEED=%llu: %s", (unsigned long long)seed, why);
            wrong++;
        }
        merged += c.n > 1 ? 1 : 0;
        excluding += c.exclude ? 1 : 0;
        free_case(&c);
    }
    is_u64(wrong, 0, "seeds 1 to %llu", (unsigned long long)cases);
    ok(one != 0 || (merged > cases / 2 && excluding > cases / 10), "%u of them merged, %u with exclusions", merged,
       excluding);
    return tap_end();
}
