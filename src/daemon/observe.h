/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What operators see: health checks and the admin listener, fed from the parts of the app.
 */
#ifndef MVPROXY_DAEMON_OBSERVE_H
#define MVPROXY_DAEMON_OBSERVE_H

#include "base/buf.h"

struct app;

/*
 * After everything else has been built. False with a line in *errors. While a process before us, from which we take
 * over an inherited socket, still has the admin listener's address, that is no error: observe_retry() opens it later.
 */
bool observe_build(struct app *a, struct buf *errors);
/* To be called from time to time. */
void observe_retry(struct app *a);
/* Whatever of it exists. */
void observe_free(struct app *a);

#endif
