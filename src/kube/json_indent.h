/*
 * JSON for people, laid out as Go's json.Indent with two spaces does it (kube-apiserver's `pretty`).
 */
#ifndef MVPROXY_KUBE_JSON_INDENT_H
#define MVPROXY_KUBE_JSON_INDENT_H

#include "base/buf.h"

/* Appends the indented form of valid, compact JSON. False when the buffer fails or nesting exceeds
 * LIMIT_DISCOVERY_DEPTH. */
bool json_indent(struct slice compact, struct buf *out);

#endif
