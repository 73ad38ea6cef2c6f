/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SIGTERM to exit: unready at once, shutdown-delay-duration, listener closed, short requests finish, watches end spread
 * over shutdown-grace-period; a second signal ends it now.
 */
#ifndef MVPROXY_DAEMON_DRAIN_H
#define MVPROXY_DAEMON_DRAIN_H

struct app;

void drain_begin(struct app *a);

#endif
