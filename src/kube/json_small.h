/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses small JSON documents strictly, by json-c. A tree takes 20 ms per MB, and a malicious document ten times as
 * long, so there is a limit, LIMIT_JSON_SMALL_BYTES, and callers have lower ones. Large documents, and those of which
 * little is read, are for jscan.h.
 */
#ifndef MVPROXY_KUBE_JSON_SMALL_H
#define MVPROXY_KUBE_JSON_SMALL_H

#include <json-c/json.h>

#include "base/err.h"
#include "base/slice.h"

/* The whole text must be one value in valid UTF-8, nested no deeper than `depth`. The caller releases the result with
 * json_object_put(). NULL with *err set on failure. */
struct json_object *json_small_read(struct slice text, int depth, struct err *err);
/* A member of this type; NULL if there is none, also if `object` is NULL or not an object. */
struct json_object *json_small_get(struct json_object *object, const char *key, enum json_type type);
/* A string member, "" if there is none; lives as long as the tree. */
struct slice json_small_text(struct json_object *object, const char *key);

#endif
