/* SPDX-License-Identifier: Apache-2.0 */
/*
 * API server identity Leases (coordination.k8s.io/v1): parses and prints their JSON. Pure.
 */
#ifndef MVPROXY_KUBE_LEASE_H
#define MVPROXY_KUBE_LEASE_H

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"

#define LEASE_NAMESPACE "kube-system"
#define LEASE_IDENTITY_LABEL "apiserver.kubernetes.io/identity"
#define LEASE_IDENTITY_VALUE "kube-apiserver"
/* The identity label of 1.26, with the same value. */
#define LEASE_COMPONENT_LABEL "k8s.io/component"
#define LEASE_HOSTNAME_LABEL "kubernetes.io/hostname"
#define LEASE_ADVERTISE_ANNOTATION "kubernetes.io/peer-advertise-address"
/* mvproxy's own: the address that mvproxy wrote into the annotation above. If both are equal, a later process may
 * change them. */
#define LEASE_WRITTEN_ANNOTATION "mvproxy/peer-advertise-address"
/* mvproxy's own: the tag of what the server serves now (cluster/lease_news.h). */
#define LEASE_DISCOVERY_ANNOTATION "mvproxy/discovery"
#define LEASE_COLLECTION_PATH "/apis/coordination.k8s.io/v1/namespaces/" LEASE_NAMESPACE "/leases"
enum { LEASE_DURATION_SECONDS = 3600, LEASE_NAME_BYTES = 64, LEASE_TAG_BYTES = 32, LEASE_TAG_DISCOVERY = 26 };

/* Absent texts are "" (p not NULL). Texts live in the arena given to lease_parse(), or are the caller's for
 * lease_print(). */
struct lease {
    struct slice ns, name, uid, resource_version;
    struct slice identity_label;  /* value of LEASE_IDENTITY_LABEL */
    struct slice component_label; /* of LEASE_COMPONENT_LABEL, which lease_print leaves out */
    struct slice hostname_label;
    struct slice advertise; /* of LEASE_ADVERTISE_ANNOTATION, unchecked */
    struct slice written;   /* of LEASE_WRITTEN_ANNOTATION, which lease_print leaves out */
    struct slice discovery; /* of LEASE_DISCOVERY_ANNOTATION, likewise */
    struct slice holder;
    bool has_duration, has_renew_time;
    int64_t duration_s;
    int64_t renew_us; /* wall clock, microseconds since 1970 UTC */
};

/* Parses a Lease. False, with *err set: not JSON, not a Lease, no name, a field of the wrong type, out of memory. */
bool lease_parse(struct arena *a, struct slice json, struct lease *out, struct err *err);

/*
 * NULL if this is a valid identity Lease: in namespace kube-system, with the identity label, a name of the form that
 * API servers use, and a holder that begins with the name (kube-apiserver: "<id>_<uuid>"), or whatever holder if the
 * name is made of the host name in its label: a holder that somebody has changed stays, as kube-apiserver's renewals
 * leave it alone. Else why not (static text).
 */
const char *lease_refusal(const struct lease *l);
/* The holder begins with the Lease's name, as those of kube-apiserver and mvproxy do. */
bool lease_holder_by_name(const struct lease *l);
/*
 * The server ID of such a Lease: its name; for one of 1.26 the ID that the same host has in every later version, so
 * that a server stays the same through its upgrade.
 */
void lease_server_id(const struct lease *l, char out[LEASE_NAME_BYTES]);
/* Whether it is one of 1.26, with the form of name of that version. */
bool lease_is_126(const struct lease *l);
/* Whether renewTime + duration has passed at `now_us` or one of them is missing: the rule of kube-apiserver's GC. */
bool lease_expired(const struct lease *l, int64_t now_us);

/*
 * Prints the whole object for create (POST) or replace (PUT) as compact JSON. uid and resourceVersion are
 * preconditions, left out if empty; renewTime is printed if has_renew_time. False: the buffer failed.
 */
bool lease_print(const struct lease *l, struct buf *out);
/* Prints a merge patch that renews the Lease and leaves what others put into it: renewTime, holder, annotation, label,
 * with resourceVersion as precondition. */
bool lease_print_renewal(const struct lease *l, struct buf *out);
/* Prints DeleteOptions with uid and resourceVersion as preconditions (those that are not empty). */
bool lease_print_delete(const struct lease *l, struct buf *out);

#endif
