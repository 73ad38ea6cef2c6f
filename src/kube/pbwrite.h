/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wire format of Protocol Buffers, as much of it as discovery needs: fields of a known length (strings, bytes,
 * messages). Writes what it is told: the order of fields and which empty ones are
 * written are the caller's business.
 */
#ifndef MVPROXY_KUBE_PBWRITE_H
#define MVPROXY_KUBE_PBWRITE_H

#include "base/buf.h"

/* Field numbers are at most 15 here: a tag is one byte. */

/* Bytes that a field with a content of n bytes takes, tag and length included. */
size_t pb_field_bytes(size_t n);
/* All of these return false once the buffer has failed. */
/* Tag and length of a field whose n bytes follow. */
bool pb_put_header(struct buf *out, unsigned field, size_t n);
bool pb_put(struct buf *out, unsigned field, struct slice content);

#endif
