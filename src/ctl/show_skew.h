/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which server serves what, as people read it: as show.h has it.
 */
#ifndef MVPROXY_CTL_SHOW_SKEW_H
#define MVPROXY_CTL_SHOW_SKEW_H

#include <json-c/json.h>
#include <stdbool.h>

/*
 * Says, after `margin`, that requests leave for newer servers (skewed-resources: newest), if `skew` has that. `whole`
 * is where it stands whether peers are used.
 */
void show_newest(struct json_object *skew, struct json_object *whole, const char *margin);
/* False: what some server serves is not known. */
bool show_skew(struct json_object *result);
/* False: somebody asked for what the old servers alone serve, or it is not known that nobody did. */
bool show_upgrade(struct json_object *result);

#endif
