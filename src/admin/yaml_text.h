/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON of ours as YAML, for people: block style, members in the order in which they are, strings quoted where YAML 1.1
 * or 1.2 would read something else in them. libyaml writes it.
 */
#ifndef MVPROXY_ADMIN_YAML_TEXT_H
#define MVPROXY_ADMIN_YAML_TEXT_H

#include "base/buf.h"

enum { YAML_TEXT_DEPTH = 32 };

/* Appends one document. False, and `out` has failed: that is no JSON, it is nested deeper than YAML_TEXT_DEPTH, or
 * there is no memory or no room. */
bool yaml_text_from_json(struct slice json, struct buf *out);

#endif
