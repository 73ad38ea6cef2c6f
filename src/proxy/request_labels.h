/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The labels under which kube-apiserver counts a request in apiserver_request_total, as far as they follow from the
 * request (k8s.io/apiserver pkg/endpoints/metrics: CanonicalVerb, CleanVerb, CleanScope, cleanDryRun;
 * pkg/endpoints/installer.go: the scopes of routes). Its verbs are neither RBAC's nor HTTP's: HTTP's methods and LIST,
 * WATCH, APPLY and CONNECT; a deletecollection is DELETE.
 */
#ifndef MVPROXY_PROXY_REQUEST_LABELS_H
#define MVPROXY_PROXY_REQUEST_LABELS_H

#include "http/head.h"
#include "kube/reqinfo.h"

struct request_labels_query {
    enum http_method method;
    const struct reqinfo *info;
    bool custom;     /* of a CRD or an aggregated API server: the scope is told in another way */
    bool apply;      /* its Content-Type is that of server-side apply */
    bool aggregated; /* it asks for the aggregated form of discovery */
};

struct request_labels {
    struct slice verb, scope, dry_run;
    struct slice path; /* the label `subresource` of non-resource requests */
};

/* Static text. The arena is for what the query decodes to. */
void request_labels_of(const struct request_labels_query *q, struct arena *a, struct request_labels *out);
/* Whether a request's Accept is for the aggregated form of discovery. Not cheap: for paths of discovery. */
bool request_is_aggregated(const struct http_head *h);
/* Whether a Content-Type is that of server-side apply, exactly. */
bool request_is_apply(const struct http_head *h);

#endif
