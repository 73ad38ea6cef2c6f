/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/request_labels.h"

#include "http/negotiate.h"
#include "kube/query.h"
#include "kube/surface.h"

static bool is_one_of(struct slice s, const char *const *words)
{
    for (; *words != NULL; words++)
        if (slice_eq(s, slice_str(*words)))
            return true;
    return false;
}

/* Of a built-in resource by the route that was registered, of a custom one by what the request means. */
static struct slice scope_of(const struct request_labels_query *q)
{
    const struct reqinfo *i = q->info;
    bool named = i->name.n > 0 && (q->custom || !i->name_selected);

    if (!i->is_resource)
        return SLICE_LIT("");
    if (named || q->method == HTTP_POST)
        return SLICE_LIT("resource");
    return i->ns.n > 0 ? SLICE_LIT("namespace") : SLICE_LIT("cluster");
}

static bool is_collection(struct slice scope)
{
    return scope.n > 0 && !slice_eq(scope, SLICE_LIT("resource"));
}

static struct slice method_label(enum http_method method, struct slice scope)
{
    switch (method) {
    case HTTP_GET:
    case HTTP_HEAD:
        return is_collection(scope) ? SLICE_LIT("LIST") : SLICE_LIT("GET");
    case HTTP_POST:
        return SLICE_LIT("POST");
    case HTTP_PUT:
        return SLICE_LIT("PUT");
    case HTTP_PATCH:
        return SLICE_LIT("PATCH");
    case HTTP_DELETE:
        return SLICE_LIT("DELETE");
    default:
        return SLICE_LIT("other");
    }
}

struct asked {
    bool watch;
    struct slice dry_run;
};

/* Only what the query may well say is decoded: of most requests nothing is. */
static struct asked read_query(const struct reqinfo *info, struct arena *a)
{
    struct asked asked = {false, SLICE_LIT("")};
    struct slice key, value;
    struct query_iter it;
    bool watch_seen = false;

    if (info->raw_query.n == 0)
        return asked;
    query_begin(&it, a, info->raw_query);
    while (query_next(&it, &key, &value)) {
        if (slice_eq(key, SLICE_LIT("watch")) && !watch_seen) {
            watch_seen = true;
            asked.watch = !slice_eq(value, SLICE_LIT("0")) && !slice_ieq(value, SLICE_LIT("false"));
        } else if (slice_eq(key, SLICE_LIT("dryRun"))) {
            bool legal = slice_eq(value, SLICE_LIT("All")) && !slice_eq(asked.dry_run, SLICE_LIT("invalid"));

            asked.dry_run = legal ? SLICE_LIT("All") : SLICE_LIT("invalid");
        }
    }
    return asked;
}

static struct slice verb_of(const struct request_labels_query *q, bool watch, struct slice scope)
{
    static const char *const connects[] = {"log", "exec", "portforward", "attach", "proxy", NULL};

    if (q->method == HTTP_GET && slice_eq(q->info->verb, SLICE_LIT("watch")))
        return SLICE_LIT("WATCH");
    if (q->info->is_resource && is_one_of(q->info->subresource, connects))
        return SLICE_LIT("CONNECT");
    if (q->method == HTTP_PATCH && q->apply)
        return SLICE_LIT("APPLY");
    if (q->method == HTTP_GET && watch)
        return SLICE_LIT("WATCH");
    return method_label(q->method, scope);
}

/* The paths that kube-apiserver counts by name; it does not count legacy discovery at all. */
static struct slice path_of(const struct reqinfo *info, bool aggregated)
{
    static const struct {
        const char *path, *label;
    } counted[] = {
        {"/healthz", "/healthz"},
        {"/livez", "/livez"},
        {"/readyz", "/readyz"},
        {"/openapi/v3", "openapi/v3"},
    };

    if (info->is_resource)
        return SLICE_LIT("");
    if (aggregated)
        return surface_of(info->path).kind == SURFACE_CORE ? SLICE_LIT("api") : SLICE_LIT("apis");
    for (size_t i = 0; i < sizeof(counted) / sizeof(counted[0]); i++)
        if (slice_eq(info->path, slice_str(counted[i].path)))
            return slice_str(counted[i].label);
    return slice_has_prefix(info->path, SLICE_LIT("/openapi/v3/")) ? SLICE_LIT("openapi/v3/") : SLICE_LIT("");
}

void request_labels_of(const struct request_labels_query *q, struct arena *a, struct request_labels *out)
{
    struct asked asked = read_query(q->info, a);

    out->scope = scope_of(q);
    out->verb = verb_of(q, asked.watch, out->scope);
    out->dry_run = asked.dry_run;
    out->path = path_of(q->info, q->aggregated);
}

bool request_is_aggregated(const struct http_head *h)
{
    unsigned all = NEGOTIATE_OFFER_YAML | NEGOTIATE_OFFER_PROTOBUF | NEGOTIATE_OFFER_V2BETA1;

    return negotiate_discovery(http_head_value(h, HTTP_ACCEPT), all).document != NEGOTIATE_LEGACY;
}

bool request_is_apply(const struct http_head *h)
{
    return slice_eq(http_head_value(h, HTTP_CONTENT_TYPE), SLICE_LIT("application/apply-patch+yaml"));
}
