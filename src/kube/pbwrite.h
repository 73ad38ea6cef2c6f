/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A writer of the Protocol Buffers wire format, as far as discovery needs it: fields of known length (strings, bytes,
 * messages). The caller decides on the order of fields, and which empty ones are written.
 */
#ifndef MVPROXY_KUBE_PBWRITE_H
#define MVPROXY_KUBE_PBWRITE_H

#include "base/buf.h"

/* Field numbers are at most 15 here: a tag is one byte. */

/* The size of a field with a content of n bytes, tag and length included. */
size_t pb_field_bytes(size_t n);
/* Both return false once the buffer has failed. The first appends tag and length of a field whose n bytes follow. */
bool pb_put_header(struct buf *out, unsigned field, size_t n);
bool pb_put(struct buf *out, unsigned field, struct slice content);

#endif
