/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shutdown, from SIGTERM to exit: not ready at once; after shutdown-delay-duration the listener is closed; short
 * requests finish, and watches are ended spread over shutdown-grace-period. A second signal ends the process at once.
 */
#ifndef MVPROXY_DAEMON_DRAIN_H
#define MVPROXY_DAEMON_DRAIN_H

struct app;

void drain_begin(struct app *a);

#endif
