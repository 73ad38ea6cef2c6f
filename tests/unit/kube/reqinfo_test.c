/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How Kubernetes reads requests: the rows follow k8s.io/apiserver's RequestInfo, its tests and the facts around it.
 */
#include "kube/reqinfo.h"

#include <stdio.h>

#include "base/limits.h"
#include "lib/tap.h"

/* A resource request: method and target → verb group/version namespace resource/subresource name. "" where nothing. */
static const struct row {
    const char *method, *target;
    const char *verb, *group, *version, *ns, *resource, *subresource, *name;
} resources[] = {
    /* the plain forms, core group */
    {"GET", "/api/v1/namespaces", "list", "", "v1", "", "namespaces", "", ""},
    {"GET", "/api/v1/namespaces/other", "get", "", "v1", "other", "namespaces", "", "other"},
    {"GET", "/api/v1/namespaces/other/pods", "list", "", "v1", "other", "pods", "", ""},
    {"GET", "/api/v1/namespaces/other/pods/foo", "get", "", "v1", "other", "pods", "", "foo"},
    {"HEAD", "/api/v1/namespaces/other/pods/foo", "get", "", "v1", "other", "pods", "", "foo"},
    {"GET", "/api/v1/pods", "list", "", "v1", "", "pods", "", ""},
    {"HEAD", "/api/v1/pods", "list", "", "v1", "", "pods", "", ""},
    {"GET", "/api/v1/nodes/n1", "get", "", "v1", "", "nodes", "", "n1"},
    {"GET", "/api/v1/nodes/n1/status", "get", "", "v1", "", "nodes", "status", "n1"},
    /* the plain forms, other groups */
    {"GET", "/apis/apps/v1/deployments", "list", "apps", "v1", "", "deployments", "", ""},
    {"GET", "/apis/apps/v1/namespaces/d/deployments", "list", "apps", "v1", "d", "deployments", "", ""},
    {"GET", "/apis/apps/v1/namespaces/d/deployments/x", "get", "apps", "v1", "d", "deployments", "", "x"},
    {"GET", "/apis/apps/v1/namespaces/d/deployments/x/scale", "get", "apps", "v1", "d", "deployments", "scale", "x"},
    {"PUT", "/apis/apps/v1/namespaces/d/deployments/x/scale", "update", "apps", "v1", "d", "deployments", "scale", "x"},
    {"PATCH", "/apis/apps/v1/namespaces/d/deployments/x/status", "patch", "apps", "v1", "d", "deployments", "status",
     "x"},
    {"GET", "/apis/resource.k8s.io/v1/deviceclasses", "list", "resource.k8s.io", "v1", "", "deviceclasses", "", ""},
    {"GET", "/apis/group/version/resource/name/subresource", "get", "group", "version", "", "resource", "subresource",
     "name"},
    {"GET", "/apis/batch/v1/job", "list", "batch", "v1", "", "job", "", ""},
    {"GET", "/apis/batch/v1/job/foo/scale", "get", "batch", "v1", "", "job", "scale", "foo"},
    {"GET", "/api/version/resource", "list", "", "version", "", "resource", "", ""},
    {"GET", "/api/version/resource/name/subresource", "get", "", "version", "", "resource", "subresource", "name"},
    /* verbs of methods */
    {"POST", "/api/v1/namespaces/other/pods", "create", "", "v1", "other", "pods", "", ""},
    {"POST", "/api/v1/namespaces", "create", "", "v1", "", "namespaces", "", ""},
    {"POST", "/apis/extensions/v1beta3/namespaces/other/pods", "create", "extensions", "v1beta3", "other", "pods", "",
     ""},
    {"PUT", "/api/v1/namespaces/other/pods/foo", "update", "", "v1", "other", "pods", "", "foo"},
    {"PATCH", "/api/v1/namespaces/other/pods/foo", "patch", "", "v1", "other", "pods", "", "foo"},
    {"DELETE", "/api/v1/namespaces/other/pods/foo", "delete", "", "v1", "other", "pods", "", "foo"},
    {"OPTIONS", "/api/v1/pods", "", "", "v1", "", "pods", "", ""},
    {"TRACE", "/api/v1/pods/x", "", "", "v1", "", "pods", "", "x"},
    {"CONNECT", "/api/v1/namespaces/a/pods/x/portforward", "", "", "v1", "a", "pods", "portforward", "x"},
    {"get", "/api/v1/pods", "", "", "v1", "", "pods", "", ""},
    {"Get", "/api/v1/pods?watch=1", "", "", "v1", "", "pods", "", ""},
    {"QUERY", "/apis/apps/v1/deployments", "", "apps", "v1", "", "deployments", "", ""},
    {"POST", "/api/v1/namespaces/a/pods/x/eviction", "create", "", "v1", "a", "pods", "eviction", "x"},
    {"POST", "/api/v1/namespaces/a/serviceaccounts/x/token", "create", "", "v1", "a", "serviceaccounts", "token", "x"},
    {"POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "create", "authorization.k8s.io", "v1", "",
     "selfsubjectaccessreviews", "", ""},
    /* deletecollection */
    {"DELETE", "/api/v1/nodes", "deletecollection", "", "v1", "", "nodes", "", ""},
    {"DELETE", "/api/v1/namespaces", "deletecollection", "", "v1", "", "namespaces", "", ""},
    {"DELETE", "/api/v1/namespaces/other/pods", "deletecollection", "", "v1", "other", "pods", "", ""},
    {"DELETE", "/apis/extensions/v1/namespaces/other/pods", "deletecollection", "extensions", "v1", "other", "pods", "",
     ""},
    {"DELETE", "/apis/a/v1/r?fieldSelector=metadata.name%3Dx", "deletecollection", "a", "v1", "", "r", "", ""},
    {"DELETE", "/apis/a/v1/r?watch=true", "deletecollection", "a", "v1", "", "r", "", ""},
    {"DELETE", "/apis/a/v1/namespaces/n/r/", "deletecollection", "a", "v1", "n", "r", "", ""},
    /* namespaces and what belongs to them */
    {"DELETE", "/api/v1/namespaces/other", "delete", "", "v1", "other", "namespaces", "", "other"},
    {"PUT", "/api/v1/namespaces/other/finalize", "update", "", "v1", "other", "namespaces", "finalize", "other"},
    {"PUT", "/api/v1/namespaces/other/status", "update", "", "v1", "other", "namespaces", "status", "other"},
    {"GET", "/api/v1/namespaces/other/status/deeper", "get", "", "v1", "other", "namespaces", "status", "other"},
    {"GET", "/api/v1/namespaces/other/statuses", "list", "", "v1", "other", "statuses", "", ""},
    {"GET", "/api/v1/namespaces/other/Status", "list", "", "v1", "other", "Status", "", ""},
    {"GET", "/api/v1/namespaces/other/finalizers/x", "get", "", "v1", "other", "finalizers", "", "x"},
    {"GET", "/apis/g/v/namespaces/n/status", "get", "g", "v", "n", "namespaces", "status", "n"},
    {"GET", "/apis/g/v/namespaces", "list", "g", "v", "", "namespaces", "", ""},
    {"GET", "/apis/g/v/namespaces/n", "get", "g", "v", "n", "namespaces", "", "n"},
    {"GET", "/api/v1/namespaces/n/namespaces", "list", "", "v1", "n", "namespaces", "", ""},
    {"GET", "/api/v1/namespaces/n/namespaces/m", "get", "", "v1", "n", "namespaces", "", "m"},
    {"GET", "/api/v1/namespaces/namespaces/pods", "list", "", "v1", "namespaces", "pods", "", ""},
    {"GET", "/api/v1/namespaces/status", "get", "", "v1", "status", "namespaces", "", "status"},
    {"GET", "/api/v1/namespaces/status/status", "get", "", "v1", "status", "namespaces", "status", "status"},
    {"GET", "/api/v1/nodes/namespaces", "get", "", "v1", "", "nodes", "", "namespaces"},
    {"GET", "/api/v1/Namespaces/n/pods", "get", "", "v1", "", "Namespaces", "pods", "n"},
    /* subresources and what lies deeper */
    {"GET", "/api/v1/namespaces/other/pods/foo/status", "get", "", "v1", "other", "pods", "status", "foo"},
    {"GET", "/api/v1/namespaces/other/pods/foo/proxy/subpath", "get", "", "v1", "other", "pods", "proxy", "foo"},
    {"GET", "/api/v1/namespaces/other/pods/foo/proxy/a/b/c?d=e", "get", "", "v1", "other", "pods", "proxy", "foo"},
    {"GET", "/api/v1/namespaces/other/pods/foo/log?follow=true", "get", "", "v1", "other", "pods", "log", "foo"},
    {"POST", "/api/v1/namespaces/other/pods/foo/exec?command=ls", "create", "", "v1", "other", "pods", "exec", "foo"},
    {"GET", "/api/v1/namespaces/other/pods/foo/attach", "get", "", "v1", "other", "pods", "attach", "foo"},
    {"PATCH", "/api/v1/namespaces/other/pods/foo/resize", "patch", "", "v1", "other", "pods", "resize", "foo"},
    {"PATCH", "/api/v1/namespaces/other/pods/foo/ephemeralcontainers", "patch", "", "v1", "other", "pods",
     "ephemeralcontainers", "foo"},
    {"GET", "/api/v1/namespaces/other/services/https:web:8443/proxy/", "get", "", "v1", "other", "services", "proxy",
     "https:web:8443"},
    {"GET", "/api/v1/namespaces/other/services/https:web:8443/proxy/metrics/", "get", "", "v1", "other", "services",
     "proxy", "https:web:8443"},
    {"PUT", "/apis/certificates.k8s.io/v1/certificatesigningrequests/c/approval", "update", "certificates.k8s.io", "v1",
     "", "certificatesigningrequests", "approval", "c"},
    /* verbs by path, whatever the method says */
    {"GET", "/api/v1/watch/pods", "watch", "", "v1", "", "pods", "", ""},
    {"GET", "/api/v1/watch/namespaces/other/pods", "watch", "", "v1", "other", "pods", "", ""},
    {"GET", "/api/v1/watch/namespaces/other/pods/foo", "watch", "", "v1", "other", "pods", "", "foo"},
    {"GET", "/api/v1/watch/namespaces", "watch", "", "v1", "", "namespaces", "", ""},
    {"GET", "/api/v1/watch/namespaces/other", "watch", "", "v1", "other", "namespaces", "", "other"},
    {"DELETE", "/api/v1/watch/pods", "watch", "", "v1", "", "pods", "", ""},
    {"GET", "/apis/g/v/watch/resource/name", "watch", "g", "v", "", "resource", "", "name"},
    {"GET", "/apis/g/v/watch/resource/name/sub", "watch", "g", "v", "", "resource", "sub", "name"},
    {"GET", "/apis/g/v/watch/resource?fieldSelector=metadata.name=foo", "watch", "g", "v", "", "resource", "", ""},
    {"GET", "/api/v1/watch/pods?watch=false", "watch", "", "v1", "", "pods", "", ""},
    {"GET", "/api/v1/watch/watch", "watch", "", "v1", "", "watch", "", ""},
    {"GET", "/api/v1/watch/proxy/x", "watch", "", "v1", "", "proxy", "", "x"},
    {"GET", "/api/v1/Watch/pods", "get", "", "v1", "", "Watch", "", "pods"},
    {"GET", "/api/v1/proxy/namespaces/other/pods/foo", "proxy", "", "v1", "other", "pods", "", "foo"},
    {"GET", "/api/v1/proxy/namespaces/other/pods/foo/subpath/not/a/subresource", "proxy", "", "v1", "other", "pods", "",
     "foo"},
    {"POST", "/api/v1/proxy/nodes/n1/metrics", "proxy", "", "v1", "", "nodes", "", "n1"},
    {"GET", "/api/v1/proxy/nodes", "proxy", "", "v1", "", "nodes", "", ""},
    {"GET", "/api/v1/pods/watch", "get", "", "v1", "", "pods", "", "watch"},
    {"GET", "/api/v1/namespaces/n/watch", "list", "", "v1", "n", "watch", "", ""},
    /* slashes: trimmed at both ends, kept inside */
    {"GET", "/api/v1/pods/", "list", "", "v1", "", "pods", "", ""},
    {"GET", "/api/v1/pods//", "list", "", "v1", "", "pods", "", ""},
    {"GET", "//api/v1/pods", "list", "", "v1", "", "pods", "", ""},
    {"GET", "/api/v1//pods", "get", "", "v1", "", "", "", "pods"},
    {"GET", "/api//pods", "list", "", "", "", "pods", "", ""},
    {"GET", "/apis//v1/pods", "list", "", "v1", "", "pods", "", ""},
    {"GET", "/api/v1/pods//status", "list", "", "v1", "", "pods", "status", ""},
    {"DELETE", "/api/v1/pods//status", "deletecollection", "", "v1", "", "pods", "status", ""},
    {"GET", "/api/v1/namespaces//pods", "list", "", "v1", "", "pods", "", ""},
    {"GET", "/api/v1/namespaces/n//x", "get", "", "v1", "n", "", "", "x"},
    {"GET", "/api/v1/../pods", "get", "", "v1", "", "..", "", "pods"},
    {"GET", "/api/v1/./pods", "get", "", "v1", "", ".", "", "pods"},
    {"GET", "/api/v1/namespaces/../pods", "list", "", "v1", "..", "pods", "", ""},
    /* escapes in the path are decoded before it is split */
    {"GET", "/api/v1/p%6fds", "list", "", "v1", "", "pods", "", ""},
    {"GET", "/%61pi/v1/pods", "list", "", "v1", "", "pods", "", ""},
    {"GET", "/api%2Fv1%2fpods", "list", "", "v1", "", "pods", "", ""},
    {"GET", "/api/v1/pods/a%2Fb", "get", "", "v1", "", "pods", "b", "a"},
    {"GET", "/api/v1/pods%3Fwatch=1", "list", "", "v1", "", "pods?watch=1", "", ""},
    {"GET", "/api/v1/pods/a%20b", "get", "", "v1", "", "pods", "", "a b"},
    {"GET", "/api/v1/pods/a+b", "get", "", "v1", "", "pods", "", "a+b"},
    {"GET", "/api/v1/pods/%25", "get", "", "v1", "", "pods", "", "%"},
    {"GET", "/api/v1/pods/%C3%A9", "get", "", "v1", "", "pods", "", "\xc3\xa9"},
    {"GET", "/api/v1/pods/\xc3\xa9", "get", "", "v1", "", "pods", "", "\xc3\xa9"},
    {"GET", "/api/v1/pods/a;b", "get", "", "v1", "", "pods", "", "a;b"},
    {"GET", "/api/v1/namespaces/kube%2dsystem/pods", "list", "", "v1", "kube-system", "pods", "", ""},
    {"GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node%3Aa", "get", "rbac.authorization.k8s.io", "v1",
     "", "clusterroles", "", "system:node:a"},
    /* watch in the query: absent, "0" and "false" in any case are false, all else is true */
    {"GET", "/api/v1/pods?watch=true", "watch", "", "v1", "", "pods", "", ""},
    {"GET", "/api/v1/pods?watch=false", "list", "", "v1", "", "pods", "", ""},
    {"GET", "/api/v1/pods?watch=1", "watch", "", "v1", "", "pods", "", ""},
    {"GET", "/api/v1/pods?watch=0", "list", "", "v1", "", "pods", "", ""},
    {"GET", "/api/v1/pods?watch", "watch", "", "v1", "", "pods", "", ""},
    {"GET", "/api/v1/pods?watch=", "watch", "", "v1", "", "pods", "", ""},
    {"GET", "/api/v1/pods?watch=FALSE", "list", "", "v1", "", "pods", "", ""},
    {"GET", "/api/v1/pods?watch=False", "list", "", "v1", "", "pods", "", ""},
    {"GET", "/api/v1/pods?watch=f", "watch", "", "v1", "", "pods", "", ""},
    {"GET", "/api/v1/pods?watch=no", "watch", "", "v1", "", "pods", "", ""},
    {"GET", "/api/v1/pods?watch=00", "watch", "", "v1", "", "pods", "", ""},
    {"GET", "/api/v1/pods?watch=%30", "list", "", "v1", "", "pods", "", ""},
    {"GET", "/api/v1/pods?w%61tch=1", "watch", "", "v1", "", "pods", "", ""},
    {"GET", "/api/v1/pods?Watch=1", "list", "", "v1", "", "pods", "", ""},
    {"GET", "/api/v1/pods?watch=0&watch=1", "list", "", "v1", "", "pods", "", ""},
    {"GET", "/api/v1/pods?watch=1&watch=0", "watch", "", "v1", "", "pods", "", ""},
    {"GET", "/api/v1/pods?watch=+false", "watch", "", "v1", "", "pods", "", ""},
    {"GET", "/api/v1/pods?watch=fal%C5%BFe", "list", "", "v1", "", "pods", "", ""},
    {"GET", "/api/v1/pods?watch=fal%C5%BFe&limit=x", "watch", "", "v1", "", "pods", "", ""},
    {"HEAD", "/api/v1/pods?watch=1", "watch", "", "v1", "", "pods", "", ""},
    {"POST", "/api/v1/pods?watch=1", "create", "", "v1", "", "pods", "", ""},
    {"GET", "/api/v1/pods/x?watch=1", "get", "", "v1", "", "pods", "", "x"},
    {"GET", "/api/v1/namespaces/other/pods?watch=1", "watch", "", "v1", "other", "pods", "", ""},
    {"GET", "/api/v1/namespaces?watch=1", "watch", "", "v1", "", "namespaces", "", ""},
    {"GET", "/api/v1/namespaces/other?watch=1", "get", "", "v1", "other", "namespaces", "", "other"},
    {"GET", "/api/v1/pods/?watch=1", "watch", "", "v1", "", "pods", "", ""},
    /* pairs that net/url throws away */
    {"GET", "/api/v1/pods?watch=1;x=2", "list", "", "v1", "", "pods", "", ""},
    {"GET", "/api/v1/pods?watch=%zz", "list", "", "v1", "", "pods", "", ""},
    {"GET", "/api/v1/pods?watch=%", "list", "", "v1", "", "pods", "", ""},
    {"GET", "/api/v1/pods?x=%zz&watch=1", "watch", "", "v1", "", "pods", "", ""},
    {"GET", "/api/v1/pods?&&watch=1&&", "watch", "", "v1", "", "pods", "", ""},
    {"GET", "/api/v1/pods?=watch", "list", "", "v1", "", "pods", "", ""},
    {"GET", "/api/v1/pods??watch=1", "list", "", "v1", "", "pods", "", ""},
    {"GET", "/api/v1/pods?a?&watch=1", "watch", "", "v1", "", "pods", "", ""},
    {"GET", "/api/v1/pods?", "list", "", "v1", "", "pods", "", ""},
    /* options that do not decode: the name is not taken from the selector, watch is still read */
    {"GET", "/api/v1/pods?timeoutSeconds=x&watch=1", "watch", "", "v1", "", "pods", "", ""},
    {"GET", "/api/v1/pods?limit=1.5&watch=false", "list", "", "v1", "", "pods", "", ""},
    {"GET", "/api/v1/pods?limit=1.5&watch", "watch", "", "v1", "", "pods", "", ""},
    {"GET", "/api/v1/pods?limit=500&fieldSelector=metadata.name=a", "list", "", "v1", "", "pods", "", "a"},
    {"GET", "/api/v1/pods?limit=&fieldSelector=metadata.name=a", "list", "", "v1", "", "pods", "", ""},
    {"GET", "/api/v1/pods?limit=9223372036854775808&fieldSelector=metadata.name=a", "list", "", "v1", "", "pods", "",
     ""},
    {"GET", "/api/v1/pods?limit=-9223372036854775808&fieldSelector=metadata.name=a", "list", "", "v1", "", "pods", "",
     "a"},
    {"GET", "/api/v1/pods?timeoutSeconds=%2B5&fieldSelector=metadata.name=a", "list", "", "v1", "", "pods", "", "a"},
    {"GET", "/api/v1/pods?labelSelector=a=b,c&fieldSelector=metadata.name=a", "list", "", "v1", "", "pods", "", "a"},
    {"GET", "/api/v1/pods?labelSelector=a%20b&fieldSelector=metadata.name=a", "list", "", "v1", "", "pods", "", ""},
    {"GET", "/api/v1/pods?labelSelector=a=b%20c&watch=1&fieldSelector=metadata.name=a", "watch", "", "v1", "", "pods",
     "", ""},
    /* metadata.name in fieldSelector */
    {"GET", "/apis/g/v/r?fieldSelector=metadata.name=name1", "list", "g", "v", "", "r", "", "name1"},
    {"GET", "/apis/g/v/r?fieldSelector=metadata.name%3Dname1", "list", "g", "v", "", "r", "", "name1"},
    {"GET", "/apis/g/v/r?watch=true&fieldSelector=metadata.name=name1", "watch", "g", "v", "", "r", "", "name1"},
    {"GET", "/apis/g/v/r?fieldSelector=metadata.name==name1", "list", "g", "v", "", "r", "", "name1"},
    {"GET", "/apis/g/v/r?fieldSelector=metadata.name!=name1", "list", "g", "v", "", "r", "", ""},
    {"GET", "/apis/g/v/r?fieldSelector=foo=bar&labelSelector=baz=qux", "list", "g", "v", "", "r", "", ""},
    {"GET", "/apis/g/v/r?fieldSelector=metadata.name=name1,foo", "list", "g", "v", "", "r", "", ""},
    {"GET", "/apis/g/v/r?fieldSelector=metadata.name=name1,foo&watch=true", "watch", "g", "v", "", "r", "", ""},
    {"GET", "/apis/g/v/r?fieldSelector=metadata.name=name1,foo&watch=false", "list", "g", "v", "", "r", "", ""},
    {"GET", "/apis/g/v/r?fieldSelector=metadata.name=foo&fieldSelector=metadata.name=bar", "list", "g", "v", "", "r",
     "", "foo"},
    {"GET", "/apis/g/v/r?fieldSelector=metadata.name=b,metadata.name=a", "list", "g", "v", "", "r", "", "a"},
    {"GET", "/apis/g/v/r?fieldSelector=metadata.namespace=n,metadata.name=a", "list", "g", "v", "", "r", "", "a"},
    {"GET", "/apis/g/v/r?fieldSelector=spec.x!=y,metadata.name=a,", "list", "g", "v", "", "r", "", "a"},
    {"GET", "/apis/g/v/r?fieldSelector=", "list", "g", "v", "", "r", "", ""},
    {"GET", "/apis/g/v/r?fieldSelector=metadata.name=", "list", "g", "v", "", "r", "", ""},
    {"GET", "/apis/g/v/r?fieldSelector=metadata.name=.", "list", "g", "v", "", "r", "", ""},
    {"GET", "/apis/g/v/r?fieldSelector=metadata.name=..", "list", "g", "v", "", "r", "", ""},
    {"GET", "/apis/g/v/r?fieldSelector=metadata.name=a%2Fb", "list", "g", "v", "", "r", "", ""},
    {"GET", "/apis/g/v/r?fieldSelector=metadata.name=a%2525", "list", "g", "v", "", "r", "", ""},
    {"GET", "/apis/g/v/r?fieldSelector=metadata.name=a%5C,b", "list", "g", "v", "", "r", "", "a,b"},
    {"GET", "/apis/g/v/r?fieldSelector=metadata.name=a%5C=b", "list", "g", "v", "", "r", "", "a=b"},
    {"GET", "/apis/g/v/r?fieldSelector=metadata.name=a%5Cx", "list", "g", "v", "", "r", "", ""},
    {"GET", "/apis/g/v/r?fieldSelector=metadata.name=a%5C", "list", "g", "v", "", "r", "", ""},
    {"GET", "/apis/g/v/r?fieldSelector=metadata.name=a=b", "list", "g", "v", "", "r", "", ""},
    {"GET", "/apis/g/v/r?fieldSelector=metadata.name", "list", "g", "v", "", "r", "", ""},
    {"GET", "/apis/g/v/r?fieldSelector=%20metadata.name=a", "list", "g", "v", "", "r", "", ""},
    {"GET", "/apis/g/v/r?fieldSelector=metadata.name=a+b", "list", "g", "v", "", "r", "", "a b"},
    {"GET", "/apis/g/v/r/name?fieldSelector=metadata.name=other", "get", "g", "v", "", "r", "", "name"},
    {"PUT", "/apis/g/v/r?fieldSelector=metadata.name=a", "update", "g", "v", "", "r", "", ""},
};

/* Not about resources: the verb is the lower-cased method. */
static const struct {
    const char *method, *target, *verb, *path;
} others[] = {
    {"GET", "/", "get", "/"},
    {"GET", "//", "get", "//"},
    {"GET", "/api", "get", "/api"},
    {"GET", "/api/", "get", "/api/"},
    {"GET", "/api/v1", "get", "/api/v1"},
    {"GET", "/api/v1/", "get", "/api/v1/"},
    {"GET", "/api/v1//", "get", "/api/v1//"},
    {"GET", "/apis", "get", "/apis"},
    {"GET", "/apis?timeout=32s", "get", "/apis"},
    {"GET", "/apis/", "get", "/apis/"},
    {"GET", "/apis/apps", "get", "/apis/apps"},
    {"GET", "/apis/apps/v1", "get", "/apis/apps/v1"},
    {"GET", "/apis/apps/v1/", "get", "/apis/apps/v1/"},
    {"GET", "/apis/apps/v1/?watch=1", "get", "/apis/apps/v1/"},
    {"GET", "/apis/version/resource", "get", "/apis/version/resource"},
    {"GET", "/badprefix/version/resource", "get", "/badprefix/version/resource"},
    {"GET", "/API/v1/pods", "get", "/API/v1/pods"},
    {"GET", "/apiss/apps/v1/deployments", "get", "/apiss/apps/v1/deployments"},
    {"GET", "/healthz", "get", "/healthz"},
    {"HEAD", "/healthz", "head", "/healthz"},
    {"POST", "/healthz", "post", "/healthz"},
    {"get", "/healthz", "get", "/healthz"},
    {"OPTIONS", "/version", "options", "/version"},
    {"OPTIONS", "*", "options", "*"},
    {"X-Y", "/version", "x-y", "/version"},
    {"GET", "/openapi/v3/apis/apps/v1?hash=AB", "get", "/openapi/v3/apis/apps/v1"},
    {"GET", "/api%2fv1", "get", "/api/v1"},
    {"GET", "/a%0Ab", "get", "/a\nb"},
    {"GET", "/version?x=%zz", "get", "/version"},
    {"GET", "/logs/\xff", "get", "/logs/\xff"},
};

/* Legacy verbs with nothing behind them: the parser's error, a 500. */
static const char *const errors[] = {
    "/api/v1/watch",       "/api/v1/proxy",        "/api/v1/watch/",
    "/apis/apps/v1/watch", "/apis/apps/v1/proxy/", "/api/v1/w%61tch",
};

static const struct {
    const char *name, *method, *target;
    size_t n; /* 0: strlen */
} refused[] = {
    {"no target", "GET", "", 0},
    {"no method", "", "/", 0},
    {"method with a space", "G T", "/", 0},
    {"method with a colon", "GET:", "/", 0},
    {"no leading slash", "GET", "api/v1/pods", 0},
    {"absolute-form", "GET", "http://host/api/v1/pods", 0},
    {"foreign scheme", "GET", "ftp://host/api", 0},
    {"authority-form", "CONNECT", "host:443", 0},
    {"asterisk with GET", "GET", "*", 0},
    {"asterisk and more", "OPTIONS", "*a", 0},
    {"question mark only", "GET", "?watch=1", 0},
    {"raw space", "GET", "/api/v1/pods/a b", 0},
    {"raw space in the query", "GET", "/api/v1/pods?a=b c", 0},
    {"tab", "GET", "/api/v1/pods\t", 0},
    {"newline", "GET", "/api/v1/pods\n", 0},
    {"carriage return in the query", "GET", "/api?a\r", 0},
    {"DEL", "GET", "/api/v1/\x7f", 0},
    {"raw NUL", "GET", "/api\0/v1", 8},
    {"encoded NUL", "GET", "/api/v1/pods/a%00", 0},
    {"fragment", "GET", "/api/v1/pods#x", 0},
    {"percent at the end", "GET", "/api/v1/pods%", 0},
    {"one digit", "GET", "/api/v1/pods%4", 0},
    {"bad digits", "GET", "/api/v1/%zzpods", 0},
    {"bad second digit", "GET", "/api/v1/%4gpods", 0},
    {"double percent", "GET", "/api/v1/%%41", 0},
};

static const struct {
    const char *method, *target;
    bool long_running;
} lengths[] = {
    {"GET", "/api/v1/pods?watch=1", true},
    {"GET", "/api/v1/pods", false},
    {"GET", "/api/v1/watch/pods", true},
    {"GET", "/api/v1/proxy/nodes/x", true},
    {"GET", "/api/v1/namespaces/a/pods/b/log", true},
    {"GET", "/api/v1/namespaces/a/pods/b/exec", true},
    {"POST", "/api/v1/namespaces/a/pods/b/exec", true},
    {"POST", "/api/v1/namespaces/a/pods/b/attach", true},
    {"POST", "/api/v1/namespaces/a/pods/b/portforward", true},
    {"GET", "/api/v1/namespaces/a/services/b/proxy/x", true},
    {"GET", "/api/v1/namespaces/a/pods/b/status", false},
    {"GET", "/api/v1/namespaces/a/pods/b?watch=1", false},
    {"GET", "/debug/pprof/profile", true},
    {"GET", "/debug/pprofx", false},
    {"GET", "/healthz", false},
};

/* Whether there is something behind resource, name and subresource. */
static const struct {
    const char *target;
    bool deeper;
} deep[] = {
    {"/api/v1/pods", false},
    {"/api/v1/namespaces/a/pods/x/status", false},
    {"/api/v1/namespaces/a/pods/x/status/", false},
    {"/api/v1/namespaces/a/pods/x/status/y", true},
    {"/api/v1/namespaces/a/pods/x/proxy/y/z", true},
    {"/api/v1/namespaces/a/status", false},
    {"/api/v1/namespaces/a/status/x", true},
    {"/api/v1/proxy/nodes/n", false},
    {"/api/v1/proxy/nodes/n/x", true},
    {"/api/v1/watch/pods", false},
};

static void test_resources(struct arena *a)
{
    struct reqinfo r;

    for (size_t i = 0; i < ROWS(resources); i++) {
        const struct row *row = &resources[i];
        char got[1024], want[1024];

        arena_reset(a);
        if (reqinfo_parse(a, slice_str(row->method), slice_str(row->target), &r) != REQINFO_OK) {
            ok(false, "%s %s is accepted", row->method, row->target);
            continue;
        }
#define P(s) (int)(s).n, (s).p
        snprintf(got, sizeof(got), "%s %.*s g=%.*s v=%.*s ns=%.*s r=%.*s sub=%.*s name=%.*s",
                 r.is_resource ? "resource" : "other", P(r.verb), P(r.group), P(r.version), P(r.ns), P(r.resource),
                 P(r.subresource), P(r.name));
        snprintf(want, sizeof(want), "resource %s g=%s v=%s ns=%s r=%s sub=%s name=%s", row->verb, row->group,
                 row->version, row->ns, row->resource, row->subresource, row->name);
        is_str(got, want, "%s %s", row->method, row->target);
    }
}

static void test_others(struct arena *a)
{
    struct reqinfo r;

    for (size_t i = 0; i < ROWS(others); i++) {
        arena_reset(a);
        is_int(reqinfo_parse(a, slice_str(others[i].method), slice_str(others[i].target), &r), REQINFO_OK,
               "%s %s is accepted", others[i].method, others[i].target);
        ok(!r.is_resource && r.resource.n == 0, "%s is no resource", others[i].target);
        is_slice(r.verb, others[i].verb, "%s: verb", others[i].target);
        is_slice(r.path, others[i].path, "%s: path", others[i].target);
    }
}

static void test_errors(struct arena *a)
{
    struct reqinfo r;

    for (size_t i = 0; i < ROWS(errors); i++) {
        arena_reset(a);
        is_int(reqinfo_parse(a, SLICE_LIT("GET"), slice_str(errors[i]), &r), REQINFO_OK, "%s is accepted", errors[i]);
        ok(r.is_resource && r.resource.n == 0, "%s is an error to Kubernetes", errors[i]);
    }
    for (size_t i = 0; i < ROWS(refused); i++) {
        size_t n = refused[i].n == 0 ? strlen(refused[i].target) : refused[i].n;

        arena_reset(a);
        is_int(reqinfo_parse(a, slice_str(refused[i].method), slice_of(refused[i].target, n), &r), REQINFO_BAD_TARGET,
               "refused: %s", refused[i].name);
    }
}

static void test_parts(struct arena *a)
{
    struct reqinfo r;
    struct gvr g;

    (void)reqinfo_parse(a, SLICE_LIT("GET"), SLICE_LIT("/apis/a/v1/r?x=1&y"), &r);
    is_slice(r.raw_path, "/apis/a/v1/r", "raw path");
    is_slice(r.raw_query, "x=1&y", "raw query");
    g = reqinfo_gvr(&r);
    is_slice(g.group, "a", "gvr: group");
    is_slice(g.version, "v1", "gvr: version");
    is_slice(g.resource, "r", "gvr: resource");
    (void)reqinfo_parse(a, SLICE_LIT("GET"), SLICE_LIT("/api/v1/pods"), &r);
    is_slice(r.raw_query, "", "no query");
    for (size_t i = 0; i < ROWS(deep); i++) {
        arena_reset(a);
        (void)reqinfo_parse(a, SLICE_LIT("GET"), slice_str(deep[i].target), &r);
        is_int(r.deeper, deep[i].deeper, "segments behind it: %s", deep[i].target);
    }
    for (size_t i = 0; i < ROWS(lengths); i++) {
        arena_reset(a);
        (void)reqinfo_parse(a, slice_str(lengths[i].method), slice_str(lengths[i].target), &r);
        is_int(r.long_running, lengths[i].long_running, "long-running: %s %s", lengths[i].method, lengths[i].target);
    }
}

static void test_limits(struct arena *a)
{
    struct reqinfo r;
    char *target = must_zalloc(LIMIT_TARGET_BYTES + 2);
    struct arena *small;
    enum reqinfo_result result;
    unsigned failed = 0;

    memset(target, 'a', LIMIT_TARGET_BYTES + 1);
    target[0] = '/';
    is_int(reqinfo_parse(a, SLICE_LIT("GET"), slice_of(target, LIMIT_TARGET_BYTES), &r), REQINFO_OK, "longest target");
    is_int(reqinfo_parse(a, SLICE_LIT("GET"), slice_of(target, LIMIT_TARGET_BYTES + 1), &r), REQINFO_BAD_TARGET,
           "a byte too many");
    memset(target, '/', LIMIT_TARGET_BYTES);
    is_int(reqinfo_parse(a, SLICE_LIT("GET"), slice_of(target, LIMIT_TARGET_BYTES), &r), REQINFO_OK, "slashes only");
    ok(!r.is_resource, "slashes are no resource");
    mem_free(target);
    /* Every size of arena gives the answer or says that memory is out. */
    for (size_t size = 0; size < 300; size += 3) {
        small = arena_new(size);
        if (small == NULL) {
            failed++;
            continue;
        }
        result = reqinfo_parse(small, SLICE_LIT("GET"),
                               SLICE_LIT("/%61pi/v1/pods?w%61tch=1&fieldSelector=metadata.name%3Da%5C,b"), &r);
        if (result == REQINFO_NO_MEMORY)
            failed++;
        else if (result != REQINFO_OK || !slice_eq(r.name, SLICE_LIT("a,b")) || !slice_eq(r.verb, SLICE_LIT("watch")))
            ok(false, "arena of %zu bytes", size);
        arena_free(small);
    }
    ok(failed > 0 && failed < 100, "short of memory: an answer or NO_MEMORY, never a wrong answer (%u)", failed);
}

static void namespaced(void)
{
    static const struct {
        const char *path;
        bool in_namespace;
    } paths[] = {
        {"/api/v1/pods", false},
        {"/api/v1/namespaces", false},
        {"/api/v1/namespaces/n", false},
        {"/api/v1/namespaces/n/status", false},
        {"/api/v1/namespaces/n/pods", true},
        {"/api/v1/namespaces/n/namespaces", true},
        {"/api/v1/namespaces/n%2fnamespaces/x", true},
        {"/api/v1/namespaces//nodes", true},
        {"/api/v1/watch/namespaces/n/pods", true},
    };

    for (size_t i = 0; i < ROWS(paths); i++) {
        struct arena *a = arena_new(1 << 16);
        struct reqinfo info;

        is_int(reqinfo_parse(a, SLICE_LIT("GET"), slice_str(paths[i].path), &info), REQINFO_OK, "%s", paths[i].path);
        ok(info.in_namespace == paths[i].in_namespace, "%s: before it stands %s namespace", paths[i].path,
           paths[i].in_namespace ? "a" : "no");
        arena_free(a);
    }
}

int main(void)
{
    namespaced();
    struct arena *a = arena_new(1 << 20);

    if (a == NULL)
        tap_bail("no memory");
    test_resources(a);
    test_others(a);
    test_errors(a);
    test_parts(a);
    test_limits(a);
    arena_free(a);
    return tap_end();
}
