/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds what operators see over HTTP: health checks and the admin listener, with data from the parts of the app.
 */
#ifndef MVPROXY_DAEMON_OBSERVE_H
#define MVPROXY_DAEMON_OBSERVE_H

#include "base/buf.h"

struct app;

/*
 * To be called after everything else has been built. False, with a line in *errors, on failure. If another process has
 * the admin listener's address, that is not an error, unless one has clients' as well: observe_retry() opens it later.
 */
bool observe_build(struct app *a, struct buf *errors);
/* To be called at every heartbeat. */
void observe_retry(struct app *a);
/* Fine if only some of it exists. */
void observe_free(struct app *a);

#endif
