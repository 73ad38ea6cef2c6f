/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One conversation with mvproxy over its control socket (admin/control.h says what is spoken).
 */
#ifndef MVPROXY_CTL_CLIENT_H
#define MVPROXY_CTL_CLIENT_H

#include <json-c/json.h>
#include <stdbool.h>

#include "base/err.h"
#include "ctl/answerer.h"

/*
 * Sends the request, whose reference it takes, and waits for the answer. The result is the caller's (json_object_put),
 * NULL with *err: no daemon (*silent), or what it says is wrong with the request, or its answer is none.
 */
struct json_object *client_ask(const char *socket_path, struct json_object *request, bool *silent, struct err *err);
/* The same; root reads the answer, and does all that it does after it, with the rights of *who. */
struct json_object *client_ask_as(const char *socket_path, struct json_object *request, struct answerer *who,
                                  struct err *err);
/* {"v":1,"command":NAME}, to which members may be added. */
struct json_object *client_request(const char *command);

#endif
