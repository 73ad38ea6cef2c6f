/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which front proxies the API servers of a cluster believe, and by which headers, as they say it themselves: the
 * ConfigMap kube-system/extension-apiserver-authentication, which every kube-apiserver keeps up (pkg/controlplane/
 * controller/clusterauthenticationtrust). Where servers have different flags it has all of their words.
 */
#ifndef MVPROXY_KUBE_REQUEST_HEADER_H
#define MVPROXY_KUBE_REQUEST_HEADER_H

#include "base/err.h"
#include "kube/user.h"

#define REQUEST_HEADER_PATH "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"

/* The same as it is configured here; everything is borrowed. */
struct request_header {
    const struct user_headers *headers;
    const char *const *names; /* of front proxies, NULL-terminated; none: every one that the CA has signed */
    struct slice ca;          /* PEM */
    struct slice client_ca;   /* PEM; empty: it is not compared */
};

enum request_header_verdict {
    REQUEST_HEADER_UNKNOWN, /* the servers have none, or it cannot be read */
    REQUEST_HEADER_AGREES,
    REQUEST_HEADER_DIFFERS,
};

/*
 * What would be wrong: a word that we send and no server knows (certificate users would be nobody), a word that servers
 * know and we do not (clients could assert an identity in it, for we would not take it away), a front proxy, or a CA of
 * front proxies, that we believe and they do not. Further words and CAs on one side are no difference where they are
 * harmless, so that both can be changed one after the other. Likewise CAs of clients' certificates: it differs where
 * the two sides share none, for then whoever gets in here is nobody there. *why says what, unless they agree.
 */
enum request_header_verdict request_header_compare(const struct request_header *ours, struct slice configmap,
                                                   struct err *why);

/*
 * The same ConfigMap about the CAs of clients' certificates: DIFFERS, with *why, if either side has one that the other
 * lacks. `ours` is PEM.
 */
enum request_header_verdict request_header_client_ca(struct slice ours, struct slice configmap, struct err *why);

#endif
