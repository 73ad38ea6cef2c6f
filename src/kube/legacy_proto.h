/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Legacy discovery in Kubernetes' protobuf form, made of the JSON form: APIGroupList, APIGroup, APIResourceList, and
 * the Status that a server may answer instead (generated.proto of k8s.io/apimachinery pkg/apis/meta/v1). The bytes are
 * those that kube-apiserver writes: fields in order of number, empty strings, false and 0 written, empty lists not.
 *
 * Fields of the JSON form that generated.proto does not have are left out.
 */
#ifndef MVPROXY_KUBE_LEGACY_PROTO_H
#define MVPROXY_KUBE_LEGACY_PROTO_H

#include "base/buf.h"

/* Appends the object. False: none of these, no JSON, out of memory, or over the buffer's ceiling. */
bool legacy_proto_encode(struct slice json, struct buf *out);

#endif
