/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/fields.h"

#include <stdio.h>

#include "base/duration.h"

#define MOST_SECONDS 1e15 /* 32 million years: in milliseconds a number of 64 bits still */

struct json_object *field(struct json_object *o, const char *name)
{
    struct json_object *v = NULL;

    return json_object_is_type(o, json_type_object) && json_object_object_get_ex(o, name, &v) ? v : NULL;
}

bool field_composed(struct json_object *o)
{
    return json_object_is_type(o, json_type_object) || json_object_is_type(o, json_type_array);
}

const char *field_text(struct json_object *o, const char *name)
{
    struct json_object *v = field(o, name);

    return v == NULL || field_composed(v) ? "" : json_object_get_string(v);
}

double field_number(struct json_object *o, const char *name)
{
    struct json_object *v = field(o, name);

    return v == NULL ? 0 : json_object_get_double(v);
}

bool field_truth(struct json_object *o, const char *name)
{
    struct json_object *v = field(o, name);

    return v != NULL && json_object_get_boolean(v);
}

size_t field_count(struct json_object *list)
{
    return json_object_is_type(list, json_type_array) ? json_object_array_length(list) : 0;
}

const char *field_item(struct json_object *list, size_t i)
{
    struct json_object *o = i < field_count(list) ? json_object_array_get_idx(list, i) : NULL;

    return o == NULL || field_composed(o) ? NULL : json_object_get_string(o);
}

const char *field_duration(double seconds, char *out, size_t size)
{
    char text[DURATION_BYTES];

    if (!(seconds > 0)) /* nor is it a number */
        seconds = 0;
    if (seconds > MOST_SECONDS)
        seconds = MOST_SECONDS;
    (void)snprintf(out, size, "%s", duration_text((uint64_t)(seconds * 1000 + 0.5), text));
    return out;
}
