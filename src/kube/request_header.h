/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which front proxies the API servers of a cluster believe, and by which headers, as they say it themselves: the
 * ConfigMap kube-system/extension-apiserver-authentication, which every kube-apiserver keeps up (pkg/controlplane/
 * controller/clusterauthenticationtrust). Each server adds its own words to what is there, and none takes one away: it
 * has what servers with different flags believe, and also what no server believes any more, until somebody deletes it
 * and they write it anew. Only certificates that have ended are left out.
 */
#ifndef MVPROXY_KUBE_REQUEST_HEADER_H
#define MVPROXY_KUBE_REQUEST_HEADER_H

#include "base/err.h"
#include "kube/user.h"

#define REQUEST_HEADER_PATH "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"

/* Whether a certificate (a whole block of PEM) has ended. */
typedef bool request_header_ended_fn(struct slice certificate);

/* The same as it is configured here; everything is borrowed. */
struct request_header {
    const struct user_headers *headers;
    const char *const *names;           /* of front proxies, NULL-terminated; none: every one that the CA has signed */
    struct slice ca;                    /* PEM */
    struct slice client_ca;             /* PEM; empty: it is not compared */
    request_header_ended_fn *ended;     /* NULL: none has */
    bool (*fixed)(struct slice header); /* this name is not removed from requests; NULL: every name is */
};

enum request_header_verdict {
    REQUEST_HEADER_UNKNOWN, /* the servers have none, or it cannot be read */
    REQUEST_HEADER_AGREES,
    REQUEST_HEADER_MORE, /* they name more than we do, which does no harm where request_header_named() is removed */
    REQUEST_HEADER_DIFFERS,
};

/*
 * What would be wrong: a word that we send and no server knows (certificate users would be nobody), a front proxy, or a
 * CA of front proxies, that we believe and they do not. Further words and CAs on one side are no difference where they
 * are harmless, so that both can be changed one after the other. Likewise CAs of clients' certificates: it differs
 * where the two sides share none, for then whoever gets in here is nobody there. *why says what, unless they agree.
 */
enum request_header_verdict request_header_compare(const struct request_header *ours, struct slice configmap,
                                                   struct err *why);
/*
 * The headers that the ConfigMap names. Clients could assert an identity in those that we do not know, if servers
 * believe them: they have to be removed as well. False when out of memory, or if it cannot be read.
 */
MEM_CHECK bool request_header_named(struct slice configmap, struct arena *a, struct user_headers *out);

/*
 * The same ConfigMap about the CAs of clients' certificates (ours->client_ca): DIFFERS, with *why, if they lack one
 * that we have, MORE if we lack one.
 */
enum request_header_verdict request_header_client_ca(const struct request_header *ours, struct slice configmap,
                                                     struct err *why);

#endif
