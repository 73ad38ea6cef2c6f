/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The results of the commands, as people read them.
 */
#ifndef MVPROXY_CTL_SHOW_H
#define MVPROXY_CTL_SHOW_H

#include <stdio.h>

#include <json-c/json.h>
#include <stdbool.h>

#include "base/slice.h"

/* What a terminal would obey, or what hides text (utf8_unprintable()), in the texts of a result, which may be others'
 * words, becomes '?'. Not in a result that is one text. To be called before the others. */
void show_printable(struct json_object *result);
/* JSON to standard output: there the same becomes an escape, so that it still is the same JSON. */
void show_json(struct slice text, FILE *out);

/* Each prints one command's result to standard output; the exit status is 0 if true, 1 if false (not ready, refused,
 * something is about to end). */
bool show_status(struct json_object *result);
bool show_peers(struct json_object *result);
bool show_explain(struct json_object *result);
bool show_requests(struct json_object *result);
bool show_reload(struct json_object *result);
bool show_level(struct json_object *result);
bool show_config(struct json_object *result);
bool show_certs(struct json_object *result);
bool show_drain(struct json_object *result);
bool show_version(struct json_object *result);
/* The rows of servers whose discovery was read again; not all_read: some have not answered. Whether all is well. */
bool show_refreshed(struct json_object *servers, bool all_read, bool json);
bool show_metrics(struct json_object *result);

#endif
