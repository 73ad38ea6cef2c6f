/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON for people, laid out as Go's json.Indent with two spaces does it (kube-apiserver's `pretty`), piece by piece: a
 * document of many megabytes never stands in memory in this form, nor holds up the loop.
 */
#ifndef MVPROXY_KUBE_JSON_INDENT_H
#define MVPROXY_KUBE_JSON_INDENT_H

#include "base/buf.h"

struct json_indenter {
    struct slice rest; /* valid, compact JSON, not yet laid out; must live as long. Empty: all is done */
    size_t depth;      /* 0 at the start */
};

/* Appends the next `most` bytes, or somewhat more: it stops between two parts of the text. False when the buffer fails
 * or nesting exceeds LIMIT_DISCOVERY_DEPTH. */
bool json_indent_some(struct json_indenter *j, size_t most, struct buf *out);

#endif
