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

#include "base/buf.h"
#include "base/err.h"
#include "kube/disco.h"

struct disco_proto;

/* Takes a reference to the document. NULL when out of memory. */
MEM_CHECK struct disco_proto *disco_proto_new(const struct disco_doc *doc);
void disco_proto_free(struct disco_proto *p); /* NULL is fine */
/* Spends about the bytes that it reads (256 Ki take about 3 ms). False, with *err set: out of memory, given up, or over
 * LIMIT_DISCOVERY_BYTES. */
bool disco_proto_make(struct disco_proto *p, struct fiber *f, struct err *err);

/* The following after that, any number of times, for either form. The size in bytes. */
size_t disco_proto_bytes(const struct disco_proto *p, enum disco_form form);
/* False when given up, or when `out` has failed. */
MEM_CHECK bool disco_proto_write(const struct disco_proto *p, enum disco_form form, struct buf *out, struct fiber *f);

#endif
