/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What stands in a result of the daemon, whatever is missing of it and whatever its shape is.
 */
#ifndef MVPROXY_CTL_FIELDS_H
#define MVPROXY_CTL_FIELDS_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>

/* NULL, "", 0, false: there is none of that name; `o` may be NULL, or no object. */
struct json_object *field(struct json_object *o, const char *name);
const char *field_text(struct json_object *o, const char *name);
double field_number(struct json_object *o, const char *name);
bool field_truth(struct json_object *o, const char *name);
/* Of a list; what is none is an empty one. */
size_t field_count(struct json_object *list);
/* Of such a list. NULL: it is no text. */
const char *field_item(struct json_object *list, size_t i);
/* An object or a list is no text: as one it would bring the names of its members along, whatever is in them. */
bool field_composed(struct json_object *o);
/* "3d4h", "5m10s", "0.4s": what a person wants of a duration. Returns `out`. */
const char *field_duration(double seconds, char *out, size_t size);

#endif
