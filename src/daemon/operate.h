/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commands of the control socket (admin/control.h), which mvproxyctl sends.
 */
#ifndef MVPROXY_DAEMON_OPERATE_H
#define MVPROXY_DAEMON_OPERATE_H

struct app;

/*
 * Opens the control socket if one is configured. A failure is logged, and clients are served all the same: the API must
 * not depend on a directory for operators.
 */
void operate_open(struct app *a);
/* To be called from time to time: makes the socket's file again if it was removed. */
void operate_keep(struct app *a);
void operate_close(struct app *a);

#endif
