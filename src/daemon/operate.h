/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What mvproxyctl can ask of the process: the commands of the control socket (admin/control.h).
 */
#ifndef MVPROXY_DAEMON_OPERATE_H
#define MVPROXY_DAEMON_OPERATE_H

struct app;

/*
 * Opens the control socket if one is configured. A failure is said in the log and is no reason not to serve: the API
 * must not depend on a directory for operators.
 */
void operate_open(struct app *a);
/* Now and then: makes the socket's file again if somebody has removed it. */
void operate_keep(struct app *a);
void operate_close(struct app *a);

#endif
