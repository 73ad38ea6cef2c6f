/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coordination.k8s.io/v1 Leases as far as API server identity needs them. Pure: JSON to struct and back.
 */
#ifndef MVPROXY_KUBE_LEASE_H
#define MVPROXY_KUBE_LEASE_H

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"

#define LEASE_NAMESPACE "kube-system"
#define LEASE_IDENTITY_LABEL "apiserver.kubernetes.io/identity"
#define LEASE_IDENTITY_VALUE "kube-apiserver"
/* What it was in 1.26, with the same value. */
#define LEASE_COMPONENT_LABEL "k8s.io/component"
#define LEASE_HOSTNAME_LABEL "kubernetes.io/hostname"
#define LEASE_ADVERTISE_ANNOTATION "kubernetes.io/peer-advertise-address"
/* Ours: the address that an mvproxy wrote into the other one, by which a later process knows it for ours to change. */
#define LEASE_WRITTEN_ANNOTATION "mvproxy/peer-advertise-address"
/* Ours: the tag of what the server serves now (cluster/lease_news.h). */
#define LEASE_DISCOVERY_ANNOTATION "mvproxy/discovery"
#define LEASE_COLLECTION_PATH "/apis/coordination.k8s.io/v1/namespaces/" LEASE_NAMESPACE "/leases"
enum { LEASE_DURATION_SECONDS = 3600, LEASE_NAME_BYTES = 64, LEASE_TAG_BYTES = 32, LEASE_TAG_DISCOVERY = 26 };

/* Absent texts are "" (p not NULL). All text lives in the arena given to lease_parse, or is the caller's for
 * lease_print. */
struct lease {
    struct slice ns, name, uid, resource_version;
    struct slice identity_label;  /* value of LEASE_IDENTITY_LABEL */
    struct slice component_label; /* of LEASE_COMPONENT_LABEL, which lease_print leaves out */
    struct slice hostname_label;
    struct slice advertise; /* value of LEASE_ADVERTISE_ANNOTATION, as it stands */
    struct slice written;   /* of LEASE_WRITTEN_ANNOTATION, which lease_print leaves out */
    struct slice discovery; /* of LEASE_DISCOVERY_ANNOTATION, likewise */
    struct slice holder;
    bool has_duration, has_renew_time;
    int64_t duration_s;
    int64_t renew_us; /* wall clock, microseconds since 1970 UTC */
};

/* One Lease object. False with a reason: not JSON, not a Lease, no name, a field of the wrong type, out of memory. */
bool lease_parse(struct arena *a, struct slice json, struct lease *out, struct err *err);

/*
 * Whether this Lease may speak for an API server: namespace kube-system, the identity label, a name of the form that
 * API servers use, a holder, and the holder beginning with the name (kube-apiserver: "<id>_<uuid>"). NULL, or why not
 * (static text).
 */
const char *lease_refusal(const struct lease *l);
/*
 * The server ID that such a Lease is about: its name, but for one of 1.26 the ID that the same host has in every later
 * version, so that a server remains the same through its upgrade.
 */
void lease_server_id(const struct lease *l, char out[LEASE_NAME_BYTES]);
/* It is one of 1.26, with the name of that version. */
bool lease_is_126(const struct lease *l);
/* renewTime + duration has passed at `now_us`, or one of them is missing (the rule of kube-apiserver's collector). */
bool lease_expired(const struct lease *l, int64_t now_us);

/*
 * The whole object for create (POST) or replace (PUT), compact JSON; uid and resourceVersion only if not empty, i.e. as
 * preconditions. renewTime is printed if has_renew_time. False: buffer failed.
 */
bool lease_print(const struct lease *l, struct buf *out);
/* A merge patch that renews and leaves what others put into the object: renewTime, holder, annotation, label,
 * precondition resourceVersion. */
bool lease_print_renewal(const struct lease *l, struct buf *out);
/* DeleteOptions with preconditions uid and resourceVersion (those that are not empty). */
bool lease_print_delete(const struct lease *l, struct buf *out);

#endif
