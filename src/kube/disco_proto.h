/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encodes a discovery document in Kubernetes' protobuf form: `k8s\0`, then a runtime.Unknown around an
 * apidiscovery.k8s.io APIGroupDiscoveryList (k8s.io/apimachinery pkg/runtime/serializer/protobuf; generated.proto of
 * k8s.io/api/apidiscovery/v2, of which v2beta1 has the same field numbers). The bytes are those that kube-apiserver
 * writes for the same document: fields in order of number, empty strings written, empty lists not.
 *
 * Fields of the JSON form that generated.proto does not have are left out, and so are those of metadata except for the
 * name.
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
/* To be called until it does not return STEP_MORE. One call processes about `max_bytes` of the document (256 KiB take
 * about 3 ms). STEP_FAILED, with *err set: out of memory, or over LIMIT_DISCOVERY_BYTES. */
enum step disco_proto_step(struct disco_proto *p, size_t max_bytes, struct err *err);

/* The following after STEP_DONE, any number of times, for either form. The size in bytes. */
size_t disco_proto_bytes(const struct disco_proto *p, enum disco_form form);
/* Begins to return the bytes in pieces. False when out of memory. */
MEM_CHECK bool disco_proto_rewind(struct disco_proto *p, enum disco_form form);
/* The next piece, never empty, valid until the next call. False at the end, or when out of memory (then the pieces do
 * not add up to the size). */
bool disco_proto_next(struct disco_proto *p, struct slice *piece);

#endif
