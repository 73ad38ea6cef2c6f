/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small documents, read strictly by json-c: a tree costs 20 ms per MB, and ten times that where
 * somebody wants it to. So it has a ceiling, LIMIT_JSON_SMALL_BYTES, and callers have lower ones. What is large, and
 * what is only passed over, is for jscan.h.
 */
#ifndef MVPROXY_KUBE_JSON_SMALL_H
#define MVPROXY_KUBE_JSON_SMALL_H

#include <json-c/json.h>

#include "base/err.h"
#include "base/slice.h"

/* The whole text is one value of valid UTF-8, no deeper than this. NULL with a reason; to be json_object_put(). */
struct json_object *json_small_read(struct slice text, int depth, struct err *err);
/* A member of this type; NULL if there is none, also of NULL or what is no object. */
struct json_object *json_small_get(struct json_object *object, const char *key, enum json_type type);
/* A text, "" if there is none; lives with the tree. */
struct slice json_small_text(struct json_object *object, const char *key);

#endif
