/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/control_request.h"

#include <json-c/json.h>

#include "base/nearest.h"

enum { JSON_DEPTH = 8 };

/*
 * json-c gives names and texts as C strings: one with a NUL would be taken for its beginning. In well-formed JSON a
 * backslash stands in a string only, and a NUL cannot be there but by its escape.
 */
static bool escapes_nul(struct slice line)
{
    static const struct slice nul = SLICE_LIT("u0000");

    for (size_t i = 0; i + 1 < line.n; i++) {
        if (line.p[i] != '\\')
            continue;
        if (slice_has_prefix(slice_from(line, i + 1), nul))
            return true;
        i++;
    }
    return false;
}

/* One object and nothing behind it. */
struct json_object *control_request_parse(struct slice line, struct err *err)
{
    struct json_tokener *t = json_tokener_new_ex(JSON_DEPTH);
    struct json_object *o;

    if (t == NULL) {
        (void)err_set(err, "out of memory");
        return NULL;
    }
    json_tokener_set_flags(t, JSON_TOKENER_STRICT);
    o = json_tokener_parse_ex(t, line.p, (int)line.n);
    if (o == NULL || json_tokener_get_parse_end(t) != line.n || !json_object_is_type(o, json_type_object))
        (void)err_set(err, "a request is one line with a JSON object");
    else if (escapes_nul(line))
        (void)err_set(err, "a request has no NUL character (\\u0000) in its names and texts");
    json_tokener_free(t);
    if (!err_is_set(err))
        return o;
    json_object_put(o);
    return NULL;
}

/* False: it is there, and of another type. *out is NULL if it is missing. */
static bool member(const struct json_object *request, const char *name, enum json_type type, struct json_object **out)
{
    *out = NULL;
    return !json_object_object_get_ex(request, name, out) || json_object_is_type(*out, type);
}

bool control_text(const struct json_object *request, const char *name, const char **out, struct err *err)
{
    struct json_object *v;

    if (!member(request, name, json_type_string, &v))
        return err_set(err, "\"%s\" has to be text", name);
    if (v != NULL)
        *out = json_object_get_string(v);
    return true;
}

bool control_number(const struct json_object *request, const char *name, int64_t *out, struct err *err)
{
    struct json_object *v;

    if (!member(request, name, json_type_int, &v))
        return err_set(err, "\"%s\" has to be a whole number", name);
    if (v != NULL)
        *out = json_object_get_int64(v);
    return true;
}

bool control_flag(const struct json_object *request, const char *name, bool *out, struct err *err)
{
    struct json_object *v;

    if (!member(request, name, json_type_boolean, &v))
        return err_set(err, "\"%s\" has to be true or false", name);
    if (v != NULL)
        *out = json_object_get_boolean(v);
    return true;
}

static const struct control_command *find(const struct control_command *commands, const char *name, struct err *err)
{
    struct nearest n = nearest_to(slice_str(name));

    for (const struct control_command *k = commands; k->name != NULL; k++) {
        if (strcmp(k->name, name) == 0)
            return k;
        nearest_try(&n, k->name);
    }
    (void)err_set(err, n.best == NULL ? "unknown command \"%.64s\"" : "unknown command \"%.64s\": did you mean %s?",
                  name, n.best);
    return NULL;
}

const struct control_command *control_request_command(const struct json_object *request,
                                                      const struct control_command *commands, struct err *err)
{
    const char *name = NULL;
    int64_t version = 0;

    if (!control_number(request, "v", &version, NULL) || version != 1) {
        (void)err_set(err, "only version 1 of the protocol is spoken here");
        return NULL;
    }
    if (!control_text(request, "command", &name, err))
        return NULL;
    if (name != NULL)
        return find(commands, name, err);
    (void)err_set(err, "the request names no command (\"command\")");
    return NULL;
}
