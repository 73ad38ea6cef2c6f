/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RFC 4648 base64, the standard alphabet with padding.
 */
#ifndef MVPROXY_BASE_BASE64_H
#define MVPROXY_BASE_BASE64_H

#include "base/buf.h"

/* Appends the text; false: the buffer failed. */
bool base64_append(struct buf *out, struct slice data);
/*
 * Appends what the text stands for. Strict: whole groups of four, padding at the end only, no white space, no bits that
 * are not used. False: it is none (what was appended before is there), or the buffer failed.
 */
bool base64_decode(struct slice text, struct buf *out);

#endif
