/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/json_small.h"

#include "base/limits.h"

struct json_object *json_small_read(struct slice text, int depth, struct err *err)
{
    struct json_tokener *t;
    struct json_object *root;
    bool good;

    if (text.n > LIMIT_JSON_SMALL_BYTES) {
        (void)err_set(err, "more than %u KiB", LIMIT_JSON_SMALL_BYTES >> 10);
        return NULL;
    }
    t = json_tokener_new_ex(depth);
    if (t == NULL) {
        (void)err_set(err, "out of memory");
        return NULL;
    }
    json_tokener_set_flags(t, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
    root = json_tokener_parse_ex(t, text.p, (int)text.n);
    if (json_tokener_get_error(t) != json_tokener_success)
        good = err_set(err, "not JSON: %s", json_tokener_error_desc(json_tokener_get_error(t)));
    else if (slice_trim(slice_from(text, json_tokener_get_parse_end(t))).n > 0)
        good = err_set(err, "something follows the JSON document");
    else
        good = root != NULL || err_set(err, "null");
    json_tokener_free(t);
    if (good)
        return root;
    json_object_put(root);
    return NULL;
}

struct json_object *json_small_get(struct json_object *object, const char *key, enum json_type type)
{
    struct json_object *v;

    if (!json_object_is_type(object, json_type_object) || !json_object_object_get_ex(object, key, &v) ||
        !json_object_is_type(v, type))
        return NULL;
    return v;
}

struct slice json_small_text(struct json_object *object, const char *key)
{
    struct json_object *v = json_small_get(object, key, json_type_string);

    return v == NULL ? SLICE_LIT("") : slice_of(json_object_get_string(v), (size_t)json_object_get_string_len(v));
}
