/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/reqinfo.h"

#include "base/limits.h"
#include "kube/query.h"

static bool target_is_plain(struct slice target)
{
    if (target.n == 0 || target.n > LIMIT_TARGET_BYTES)
        return false;
    for (size_t i = 0; i < target.n; i++) {
        unsigned char c = (unsigned char)target.p[i];

        if (c <= 0x20 || c == 0x7f || c == '#')
            return false;
    }
    return target.p[0] == '/';
}

static struct slice lower(struct arena *a, struct slice s)
{
    char *to = arena_alloc(a, s.n);

    if (to == NULL)
        return SLICE_NONE;
    for (size_t i = 0; i < s.n; i++)
        to[i] = (char)(s.p[i] >= 'A' && s.p[i] <= 'Z' ? s.p[i] + 32 : s.p[i]);
    return slice_of(to, s.n);
}

/*
 * Segments of the decoded path, slashes at both ends trimmed, inner empty segments kept. `next` says whether there is
 * another one; reading goes on as far as it is asked, so no list of segments is ever built.
 */
struct segments {
    struct slice rest;
    bool more;
};

static struct segments segments_of(struct slice path)
{
    while (path.n > 0 && path.p[0] == '/')
        path = slice_of(path.p + 1, path.n - 1);
    while (path.n > 0 && path.p[path.n - 1] == '/')
        path.n--;
    return (struct segments){path, path.n > 0};
}

static struct slice peek(const struct segments *s)
{
    return s->more ? slice_of(s->rest.p, slice_index(s->rest, '/')) : SLICE_LIT("");
}

static struct slice take(struct segments *s)
{
    struct slice first = peek(s);

    s->more = s->more && first.n < s->rest.n;
    if (s->more)
        s->rest = slice_of(s->rest.p + first.n + 1, s->rest.n - first.n - 1);
    return first;
}

/* Whether at least n segments are left; n is small. */
static bool at_least(struct segments s, unsigned n)
{
    for (; n > 0 && s.more; n--)
        (void)take(&s);
    return n == 0;
}

static struct slice method_verb(struct slice method)
{
    static const struct {
        struct slice method, verb;
    } verbs[] = {
        {SLICE_LIT("GET"), SLICE_LIT("get")},     {SLICE_LIT("HEAD"), SLICE_LIT("get")},
        {SLICE_LIT("POST"), SLICE_LIT("create")}, {SLICE_LIT("PUT"), SLICE_LIT("update")},
        {SLICE_LIT("PATCH"), SLICE_LIT("patch")}, {SLICE_LIT("DELETE"), SLICE_LIT("delete")},
    };

    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
        if (slice_eq(method, verbs[i].method))
            return verbs[i].verb;
    return SLICE_LIT("");
}

static bool is_one_of(struct slice s, const char *const *words)
{
    for (; *words != NULL; words++)
        if (slice_eq(s, slice_str(*words)))
            return true;
    return false;
}

/* namespaces/N/... : everything behind N is a resource of its own, except the subresources that a namespace has. */
static void read_namespace(struct segments *s, struct reqinfo *out)
{
    static const char *const own_subresources[] = {"status", "finalize", NULL};
    struct segments behind = *s;

    if (!slice_eq(peek(s), SLICE_LIT("namespaces")))
        return;
    (void)take(&behind);
    if (!behind.more)
        return;
    out->ns = take(&behind);
    out->in_namespace = behind.more && !is_one_of(peek(&behind), own_subresources);
    if (out->in_namespace)
        *s = behind;
}

/* resource[/name[/subresource[/...]]] */
static void read_parts(struct segments *s, struct reqinfo *out)
{
    bool proxy = slice_eq(out->verb, SLICE_LIT("proxy"));

    out->resource = take(s);
    out->name = take(s);
    if (!proxy)
        out->subresource = take(s);
    out->deeper = s->more;
}

static enum reqinfo_result refine_verb(struct arena *a, struct reqinfo *out)
{
    struct list_options options;

    if (out->name.n > 0)
        return REQINFO_OK;
    if (slice_eq(out->verb, SLICE_LIT("delete"))) {
        out->verb = SLICE_LIT("deletecollection");
    } else if (slice_eq(out->verb, SLICE_LIT("get"))) {
        if (!query_list_options(a, out->raw_query, &options))
            return REQINFO_NO_MEMORY;
        out->verb = options.watch ? SLICE_LIT("watch") : SLICE_LIT("list");
        out->name = options.name;
        out->name_selected = options.name.n > 0;
    }
    return REQINFO_OK;
}

/* False: not a resource request. */
static bool read_prefix(struct segments *s, struct reqinfo *out)
{
    struct slice prefix = peek(s);
    bool groupless = slice_eq(prefix, SLICE_LIT("api"));

    if (!groupless && !slice_eq(prefix, SLICE_LIT("apis")))
        return false;
    if (!at_least(*s, groupless ? 3 : 4))
        return false;
    out->is_resource = true;
    (void)take(s);
    if (!groupless)
        out->group = take(s);
    out->version = take(s);
    return true;
}

static enum reqinfo_result read_resource(struct arena *a, struct slice method, struct reqinfo *out)
{
    static const char *const path_verbs[] = {"proxy", "watch", NULL};
    struct segments s = segments_of(out->path);

    if (!read_prefix(&s, out))
        return REQINFO_OK;
    if (is_one_of(peek(&s), path_verbs)) {
        if (!at_least(s, 2))
            return REQINFO_OK;
        out->verb = take(&s);
    } else {
        out->verb = method_verb(method);
    }
    read_namespace(&s, out);
    read_parts(&s, out);
    return refine_verb(a, out);
}

/* kube-apiserver's BasicLongRunningRequestCheck with its default verbs and subresources. */
static bool is_long_running(const struct reqinfo *r)
{
    static const char *const verbs[] = {"watch", "proxy", NULL};
    static const char *const subresources[] = {"attach", "exec", "proxy", "log", "portforward", NULL};

    if (is_one_of(r->verb, verbs))
        return true;
    if (r->is_resource)
        return is_one_of(r->subresource, subresources);
    return slice_has_prefix(r->path, SLICE_LIT("/debug/pprof/"));
}

enum reqinfo_result reqinfo_parse(struct arena *a, struct slice method, struct slice target, struct reqinfo *out)
{
    const struct slice none = SLICE_LIT("");
    enum reqinfo_result result;
    bool asterisk = slice_eq(target, SLICE_LIT("*")) && slice_eq(method, SLICE_LIT("OPTIONS"));
    size_t query;

    *out = (struct reqinfo){
        .verb = none,
        .group = none,
        .version = none,
        .ns = none,
        .resource = none,
        .subresource = none,
        .name = none,
        .path = none,
        .raw_path = none,
        .raw_query = none,
    };
    if (!slice_is_of(method, "!#$%&'*+-.^_`|~") || (!asterisk && !target_is_plain(target)))
        return REQINFO_BAD_TARGET;
    query = slice_index(target, '?');
    out->raw_path = slice_of(target.p, query);
    if (query + 1 < target.n)
        out->raw_query = slice_from(target, query + 1);
    if (!query_unescape(a, out->raw_path, false, &out->path))
        return out->path.p == NULL ? REQINFO_NO_MEMORY : REQINFO_BAD_TARGET;
    if (slice_index(out->path, '\0') != out->path.n)
        return REQINFO_BAD_TARGET;
    out->verb = lower(a, method);
    if (out->verb.p == NULL)
        return REQINFO_NO_MEMORY;
    result = read_resource(a, method, out);
    if (result == REQINFO_OK)
        out->long_running = is_long_running(out);
    return result;
}

bool reqinfo_reaches_through(const struct reqinfo *r)
{
    static const char *const through[] = {"proxy", "exec", "attach", "portforward", NULL};

    return is_one_of(r->subresource, through) || slice_eq(r->verb, SLICE_LIT("proxy"));
}
