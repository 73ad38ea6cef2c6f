/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collects the state of the process (admin/status.h), and writes what the control socket, and through it mvproxyctl,
 * shows.
 */
#ifndef MVPROXY_DAEMON_STATUS_H
#define MVPROXY_DAEMON_STATUS_H

#include "admin/status.h"

struct app;

/* False when out of memory; else to be ended with status_end() before the loop goes on. */
MEM_CHECK bool status_collect(struct app *a, struct status *out);
/* Why no peer is ever asked, and by which option; "" if they are. */
void status_peers_off(const struct app *a, char *text, size_t n);
/* As JSON, with what the parts say of themselves. False when out of memory. */
MEM_CHECK bool status_write(struct app *a, struct buf *out);
/* The certificates in force and when they end, as a JSON array. */
void status_write_certificates(struct app *a, struct buf *out);
/* Every option with its value, its default and where the value came from. */
void status_write_config(struct app *a, struct buf *out);

#endif
