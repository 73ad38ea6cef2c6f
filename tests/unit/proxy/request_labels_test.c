/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/request_labels.h"

#include <stdio.h>

#include "lib/tap.h"

struct row {
    const char *method, *target, *want; /* verb scope dry_run path */
    bool apply, custom, aggregated;
};

/* As a real kube-apiserver counts them: tests/cluster/test_metrics.py asks one. */
static const struct row rows[] = {
    {"GET", "/api/v1/pods", "LIST cluster  ", false, false, false},
    {"GET", "/api/v1/namespaces/n/pods", "LIST namespace  ", false, false, false},
    {"GET", "/api/v1/namespaces/n/pods/p", "GET resource  ", false, false, false},
    {"HEAD", "/api/v1/namespaces/n/pods/p", "GET resource  ", false, false, false},
    {"HEAD", "/api/v1/namespaces/n/pods", "LIST namespace  ", false, false, false},
    {"GET", "/api/v1/namespaces", "LIST cluster  ", false, false, false},
    {"GET", "/api/v1/namespaces/n", "GET resource  ", false, false, false},
    {"GET", "/api/v1/pods?watch=1", "WATCH cluster  ", false, false, false},
    {"GET", "/api/v1/pods?watch=", "WATCH cluster  ", false, false, false},
    {"GET", "/api/v1/pods?watch=0", "LIST cluster  ", false, false, false},
    {"GET", "/api/v1/pods?watch=FALSE", "LIST cluster  ", false, false, false},
    {"GET", "/api/v1/pods?watch=0&watch=1", "LIST cluster  ", false, false, false},
    {"HEAD", "/api/v1/pods?watch=1", "LIST cluster  ", false, false, false},
    {"GET", "/version?watch=1", "WATCH   ", false, false, false},
    {"GET", "/api/v1/watch/pods", "WATCH cluster  ", false, false, false},
    {"GET", "/api/v1/watch/namespaces/n/pods", "WATCH namespace  ", false, false, false},
    {"GET", "/api/v1/watch/namespaces/n/pods/p", "WATCH resource  ", false, false, false},
    {"GET", "/api/v1/pods?fieldSelector=metadata.name%3Dp", "LIST cluster  ", false, false, false},
    {"GET", "/apis/e.com/v1/things?fieldSelector=metadata.name%3Dp", "GET resource  ", false, true, false},
    {"GET", "/apis/e.com/v1/things?watch=1&fieldSelector=metadata.name%3Dp", "WATCH resource  ", false, true, false},
    {"POST", "/api/v1/namespaces/n/pods", "POST resource  ", false, false, false},
    {"POST", "/api/v1/namespaces", "POST resource  ", false, false, false},
    {"POST", "/api/v1/namespaces/n/pods?dryRun=All", "POST resource All ", false, false, false},
    {"POST", "/api/v1/namespaces/n/pods?dryRun=All&dryRun=All", "POST resource All ", false, false, false},
    {"POST", "/api/v1/namespaces/n/pods?dryRun=All&dryRun=Some", "POST resource invalid ", false, false, false},
    {"POST", "/api/v1/namespaces/n/pods?dryRun=Some&dryRun=All", "POST resource invalid ", false, false, false},
    {"POST", "/api/v1/namespaces/n/pods?dryRun=", "POST resource invalid ", false, false, false},
    {"POST", "/api/v1/namespaces/n/pods/p/eviction", "POST resource  ", false, false, false},
    {"POST", "/api/v1/namespaces/n/pods/p/exec?command=ls", "CONNECT resource  ", false, false, false},
    {"GET", "/api/v1/namespaces/n/pods/p/exec?command=ls", "CONNECT resource  ", false, false, false},
    {"GET", "/api/v1/namespaces/n/pods/p/log", "CONNECT resource  ", false, false, false},
    {"GET", "/api/v1/namespaces/n/services/s/proxy/path", "CONNECT resource  ", false, false, false},
    {"PUT", "/api/v1/namespaces/n/pods/p/status", "PUT resource  ", false, false, false},
    {"PATCH", "/api/v1/namespaces/n/pods/p", "PATCH resource  ", false, false, false},
    {"PATCH", "/api/v1/namespaces/n/pods/p", "APPLY resource  ", true, false, false},
    {"PUT", "/api/v1/namespaces/n/pods/p", "PUT resource  ", true, false, false},
    {"DELETE", "/api/v1/namespaces/n/pods/p", "DELETE resource  ", false, false, false},
    {"DELETE", "/api/v1/namespaces/n/pods", "DELETE namespace  ", false, false, false},
    {"OPTIONS", "/api/v1/pods", "other cluster  ", false, false, false},
    {"BREW", "/coffee", "other   ", false, false, false},
    {"GET", "/healthz", "GET   /healthz", false, false, false},
    {"HEAD", "/livez", "GET   /livez", false, false, false},
    {"GET", "/readyz?verbose", "GET   /readyz", false, false, false},
    {"GET", "/readyz/etcd", "GET   ", false, false, false},
    {"GET", "/apis", "GET   ", false, false, false},
    {"GET", "/apis", "GET   apis", false, false, true},
    {"GET", "/api", "GET   api", false, false, true},
    {"GET", "/openapi/v3", "GET   openapi/v3", false, false, false},
    {"GET", "/openapi/v3/apis/apps/v1?hash=1", "GET   openapi/v3/", false, false, false},
    {"GET", "/version", "GET   ", false, false, false},
};

static void each(void)
{
    for (size_t i = 0; i < ROWS(rows); i++) {
        const struct row *r = &rows[i];
        struct arena *a = arena_new(1 << 20);
        struct request_labels l;
        struct reqinfo info;
        char text[128];

        is_int(reqinfo_parse(a, slice_str(r->method), slice_str(r->target), &info), REQINFO_OK, "%s", r->target);
        request_labels_of(&(struct request_labels_query){http_method_of(slice_str(r->method)), &info, r->custom,
                                                         r->apply, r->aggregated},
                          a, &l);
        snprintf(text, sizeof(text), "%.*s %.*s %.*s %.*s", (int)l.verb.n, l.verb.p, (int)l.scope.n, l.scope.p,
                 (int)l.dry_run.n, l.dry_run.p, (int)l.path.n, l.path.p);
        is_str(text, r->want, "%s %s", r->method, r->target);
        arena_free(a);
    }
}

/* What ended before anybody knew what it means is counted as well. */
static void unread(void)
{
    struct request_labels l;
    struct arena *a = arena_new(1 << 20);

    request_labels_of(
        &(struct request_labels_query){HTTP_GET, &(struct reqinfo){.is_resource = false}, false, false, false}, a, &l);
    is_slice(l.verb, "GET", "a request that was never parsed");
    is_slice(l.scope, "", "has no scope");
    arena_free(a);
}

int main(void)
{
    each();
    unread();
    return tap_end();
}
