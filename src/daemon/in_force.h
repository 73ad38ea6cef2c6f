/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is new takes the place of what was in force: of a reload, and of files that have changed.
 */
#ifndef MVPROXY_DAEMON_IN_FORCE_H
#define MVPROXY_DAEMON_IN_FORCE_H

#include "base/buf.h"
#include "daemon/trust.h"
#include "daemon/wire.h"

struct app;

/* The same local server, reached in the same way: its connections, and whoever watches it, go on undisturbed. */
void in_force_keep_local(const struct app *a, struct wire_surroundings *s);
/*
 * Tells everybody. What may fail comes first: then all is as it was, with a line in *errors. What a->config, a->trust
 * and a->around hold is the caller's to replace.
 */
MEM_CHECK bool in_force_put(struct app *a, const struct config *c, const struct trust *t, struct wire_surroundings *s,
                            struct buf *errors);
/* Takes *t over; says what is missing and was not. */
void in_force_trust(struct app *a, const struct trust *t);

#endif
