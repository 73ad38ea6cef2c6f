/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/fields.h"

#include <stdio.h>

enum { DAY_S = 86400 };

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

/* "3d4h", "5m10s", "0.4s": what a person wants of a duration. */
const char *field_duration(double seconds, char *out, size_t size)
{
    long long s = (long long)seconds;

    if (seconds < 10)
        (void)snprintf(out, size, "%.1fs", seconds);
    else if (s < 120)
        (void)snprintf(out, size, "%llds", s);
    else if (s < 7200)
        (void)snprintf(out, size, "%lldm%llds", s / 60, s % 60);
    else if (s < 2 * DAY_S)
        (void)snprintf(out, size, "%lldh%lldm", s / 3600, s / 60 % 60);
    else
        (void)snprintf(out, size, "%lldd%lldh", s / DAY_S, s / 3600 % 24);
    return out;
}
