/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Indents JSON as Go's json.Indent does with two spaces (kube-apiserver's `pretty`), piece by piece, so that a document
 * of many megabytes is never in memory in this form, and does not hold up the loop.
 */
#ifndef MVPROXY_KUBE_JSON_INDENT_H
#define MVPROXY_KUBE_JSON_INDENT_H

#include "base/buf.h"

struct json_indenter {
    struct slice rest; /* the part not indented yet, of valid, compact JSON that must outlive this; empty: at the end */
    size_t depth;      /* 0 at the start */
};

/* Appends the next `most` bytes or somewhat more, up to the end of a token. False when the buffer fails or nesting
 * exceeds LIMIT_DISCOVERY_DEPTH. */
bool json_indent_some(struct json_indenter *j, size_t most, struct buf *out);

/* Would it be over n bytes? Lays out no more than it takes to know. False also if it cannot be laid out. */
bool json_indent_is_over(struct slice compact, size_t n);

#endif
