/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How kube-apiserver counts a request in apiserver_request_total, as far as the request says it (k8s.io/apiserver
 * pkg/endpoints/metrics: CanonicalVerb, CleanVerb, CleanScope, cleanDryRun; pkg/endpoints/installer.go: the scopes of
 * routes). The verbs are neither those of RBAC nor HTTP's: LIST, WATCH, APPLY and CONNECT beside the methods, and
 * deletecollection is DELETE.
 */
#ifndef MVPROXY_PROXY_REQUEST_LABELS_H
#define MVPROXY_PROXY_REQUEST_LABELS_H

#include "http/head.h"
#include "kube/reqinfo.h"

struct request_labels_query {
    enum http_method method;
    const struct reqinfo *info;
    bool custom; /* a CRD's or of an aggregated API server: another way to tell the scope */
    bool apply;  /* its Content-Type is that of server-side apply */
};

struct request_labels {
    struct slice verb, scope, dry_run;
    struct slice path; /* the label `subresource` of what is no resource */
};

/* Static text. The arena is for what the query decodes to. */
void request_labels_of(const struct request_labels_query *q, struct arena *a, struct request_labels *out);
/* Whether a Content-Type is that of server-side apply, exactly. */
bool request_is_apply(const struct http_head *h);

#endif
