/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts a new configuration, or changed certificate files, in force in the running process.
 */
#ifndef MVPROXY_DAEMON_IN_FORCE_H
#define MVPROXY_DAEMON_IN_FORCE_H

#include "base/buf.h"
#include "daemon/trust.h"
#include "daemon/wire.h"

struct app;

/* If the local server is reached in the same way as before, keeps its origin: connections and watches go on. */
void in_force_keep_local(const struct app *a, struct wire_surroundings *s);
/*
 * Passes them to all parts of the app. False, with a line in *errors and nothing changed, on failure. The caller
 * replaces the contents of a->config, a->trust and a->around.
 */
MEM_CHECK bool in_force_put(struct app *a, const struct config *c, const struct trust *t, struct wire_surroundings *s,
                            struct buf *errors);
/* Takes over *t as a->trust; logs what is missing in it and was not before. */
void in_force_trust(struct app *a, const struct trust *t);

#endif
