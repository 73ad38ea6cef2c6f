/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a request means to Kubernetes, parsed from method and target exactly as kube-apiserver does (RequestInfo:
 * k8s.io/apiserver, pkg/endpoints/request/requestinfo.go).
 */
#ifndef MVPROXY_KUBE_REQINFO_H
#define MVPROXY_KUBE_REQINFO_H

#include "base/mem.h"
#include "kube/gvr.h"

enum reqinfo_result {
    REQINFO_OK,
    REQINFO_BAD_TARGET, /* ambiguous, or not in origin-form: to be answered with 400 */
    REQINFO_NO_MEMORY,
};

/* No slice has a NULL p. They live as long as the arena and the target. */
struct reqinfo {
    bool is_resource;
    bool long_running; /* watch, legacy proxy, and attach exec proxy log portforward: no total timeout */
    /*
     * get list watch create update patch delete deletecollection proxy, or "" for other methods on resources;
     * the lower-cased method on everything else. HEAD counts as get or list.
     */
    struct slice verb;
    struct slice group, version, ns, resource, subresource, name;
    bool in_namespace;                /* "namespaces/NS/" stands before the resource; NS may be empty */
    bool deeper;                      /* segments follow the subresource, which exist only behind `proxy` */
    bool name_selected;               /* the name comes from the field selector of a list or watch */
    struct slice path;                /* percent-decoded, with its leading slash */
    struct slice raw_path, raw_query; /* as sent; the query without '?' */
};

/*
 * `target` is the request-target in origin-form ("/..."), or "*" for OPTIONS (a non-resource request whose path is
 * "*"). Refused as BAD_TARGET: empty, not starting with '/', bytes <= 0x20 or 0x7f or '#', bad percent escapes in the
 * path, an escape that decodes to NUL, longer than LIMIT_TARGET_BYTES, or a method that is not a token. Bad escapes in
 * the query are not refused: kube-apiserver ignores such pairs.
 */
enum reqinfo_result reqinfo_parse(struct arena *a, struct slice method, struct slice target, struct reqinfo *out);

/*
 * Whether another program than the API server answers: any program behind a `proxy` subresource, a kubelet behind exec,
 * attach and portforward. kube-apiserver passes on its answer, which says nothing about the API server. (For `log` it
 * makes a Status of its own.)
 */
bool reqinfo_reaches_through(const struct reqinfo *r);

static inline struct gvr reqinfo_gvr(const struct reqinfo *r)
{
    return (struct gvr){r->group, r->version, r->resource};
}

#endif
