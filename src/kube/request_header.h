/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the front proxies and headers that the API servers of a cluster accept with those that are configured here.
 * The servers publish theirs in the ConfigMap kube-system/extension-apiserver-authentication, which every
 * kube-apiserver keeps up to date (pkg/controlplane/controller/clusterauthenticationtrust). Each server adds its own
 * entries, and none removes any: it has the entries of servers with different flags, and also those that no server
 * accepts any more, until it is deleted and the servers write it anew. Only expired certificates are removed.
 */
#ifndef MVPROXY_KUBE_REQUEST_HEADER_H
#define MVPROXY_KUBE_REQUEST_HEADER_H

#include "base/err.h"
#include "kube/user.h"

#define REQUEST_HEADER_PATH "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"

/* Whether a certificate (a whole PEM block) has expired. */
typedef bool request_header_ended_fn(struct slice certificate);

/* The same from our configuration; everything is borrowed. */
struct request_header {
    const struct user_headers *headers;
    const char *const *names;           /* of front proxies, NULL-terminated; none: any that the CA has signed */
    struct slice ca;                    /* PEM */
    struct slice client_ca;             /* PEM; empty: it is not compared */
    request_header_ended_fn *ended;     /* NULL: none has expired */
    bool (*fixed)(struct slice header); /* this header is never removed from requests; NULL: every one can be */
};

enum request_header_verdict {
    REQUEST_HEADER_UNKNOWN, /* the servers have no front proxies, or the ConfigMap cannot be read */
    REQUEST_HEADER_AGREES,
    REQUEST_HEADER_MORE, /* they name more headers than we do: harmless if request_header_named() are removed */
    REQUEST_HEADER_DIFFERS,
};

/*
 * DIFFERS: no server knows a header that we send (users with certificates would be unknown there), or we accept a front
 * proxy or a CA of front proxies that no server accepts, or the servers name a header that we do not remove (`fixed`,
 * user_name_judge(), user_name_is_used()), or too many. Other entries that only one side has are no difference, so that
 * both sides can be changed one after the other. CAs of clients differ if the two sides have none in common: then all
 * users accepted here would be unknown there. *why is set unless they agree.
 */
enum request_header_verdict request_header_compare(const struct request_header *ours, struct slice configmap,
                                                   struct err *why);
/*
 * The headers that the ConfigMap names. They must be removed from requests as well: if servers accept one that is not
 * configured here, clients could assert an identity in it. Without those that user_name_judge() is against, or that are
 * in use: they would take away what means something else. False when out of memory or if it cannot be read.
 */
MEM_CHECK bool request_header_named(struct slice configmap, struct arena *a, struct user_headers *out);

/*
 * Only the CAs of clients, as request_header_compare() does: DIFFERS if the servers have none of ours->client_ca.
 * UNKNOWN if the ConfigMap has none, or cannot be read.
 */
enum request_header_verdict request_header_clients(const struct request_header *ours, struct slice configmap);

/*
 * Compares the CAs of clients (ours->client_ca) with those in the ConfigMap: DIFFERS if the servers lack one that we
 * have, MORE if we lack one; *why is set for both. UNKNOWN if the ConfigMap has none.
 */
enum request_header_verdict request_header_client_ca(const struct request_header *ours, struct slice configmap,
                                                     struct err *why);

#endif
