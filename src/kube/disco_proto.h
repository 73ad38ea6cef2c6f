/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A discovery document → Kubernetes' protobuf form of it: `k8s\0`, then a runtime.Unknown around an
 * apidiscovery.k8s.io APIGroupDiscoveryList (k8s.io/apimachinery pkg/runtime/serializer/protobuf; generated.proto of
 * k8s.io/api/apidiscovery/v2, whose field numbers v2beta1 shares). The bytes are those that kube-apiserver writes for
 * the same document: fields in order of number, empty strings written, empty lists not.
 *
 * Fields of the JSON form that generated.proto does not have cannot be said in this one: they are left out, as are
 * those of metadata but for the name.
 */
#ifndef MVPROXY_KUBE_DISCO_PROTO_H
#define MVPROXY_KUBE_DISCO_PROTO_H

#include "base/err.h"
#include "kube/disco.h"
#include "kube/disco_parse.h"

struct disco_proto;

/* Takes a reference to the document. NULL when out of memory. */
MEM_CHECK struct disco_proto *disco_proto_new(const struct disco_doc *doc);
void disco_proto_free(struct disco_proto *p); /* NULL is fine */
/* Call until it is not MORE. One call looks at about `max_bytes` of the document (256 KiB is some 3 ms). FAILED: out of
 * memory, or over LIMIT_DISCOVERY_BYTES; the reason is in err. */
enum step disco_proto_step(struct disco_proto *p, size_t max_bytes, struct err *err);

/* After DONE, for each form as often as wanted. The size of the whole. */
size_t disco_proto_bytes(const struct disco_proto *p, enum disco_form form);
/* Begins to hand out the whole in pieces. False when out of memory. */
MEM_CHECK bool disco_proto_rewind(struct disco_proto *p, enum disco_form form);
/* The next piece, never empty, valid until the next call; false at the end, or out of memory (then the pieces do not
 * add up to the size). */
bool disco_proto_next(struct disco_proto *p, struct slice *piece);

#endif
