/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A writer of the Protocol Buffers wire format, as far as discovery needs it: fields of known length (strings, bytes,
 * messages) and numbers. The caller decides on the order of fields, and which empty ones are written.
 *
 * And of what Kubernetes puts around each object: `k8s\0` and a runtime.Unknown (k8s.io/apimachinery
 * pkg/runtime/serializer/protobuf).
 */
#ifndef MVPROXY_KUBE_PBWRITE_H
#define MVPROXY_KUBE_PBWRITE_H

#include "base/buf.h"

/* Field numbers are at most 15 here: a tag is one byte. */

/* The size of a field with a content of n bytes, tag and length included. */
size_t pb_field_bytes(size_t n);
/* All of these return false once the buffer has failed. The first appends tag and length of a field whose n bytes
 * follow. */
bool pb_put_header(struct buf *out, unsigned field, size_t n);
bool pb_put(struct buf *out, unsigned field, struct slice content);
bool pb_put_number(struct buf *out, unsigned field, uint64_t v); /* bool, int32 */

/* The size of an object of n bytes with what is around it; what is before it; what is behind it. */
size_t pb_envelope_bytes(struct slice api_version, struct slice kind, size_t n);
bool pb_open_envelope(struct buf *out, struct slice api_version, struct slice kind, size_t n);
bool pb_close_envelope(struct buf *out);

#endif
