/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collects the state of the process (admin/status.h), and writes it for the control socket, from which mvproxyctl gets
 * it.
 */
#ifndef MVPROXY_DAEMON_STATUS_H
#define MVPROXY_DAEMON_STATUS_H

#include "admin/status.h"

struct app;

/* Fills *out, to be released with status_end() before the loop goes on. False when out of memory. */
MEM_CHECK bool status_collect(struct app *a, struct status *out);
/* Why peers are never used, with the option responsible; "" if they are. */
void status_peers_off(const struct app *a, char *text, size_t n);
/* Writes it as JSON, with the internal state of the parts. False when out of memory. */
MEM_CHECK bool status_write(struct app *a, struct buf *out);
/* Writes the certificates in use and when they expire, as a JSON array. */
void status_write_certificates(struct app *a, struct buf *out);
/* Writes every option with its value, its default, and where the value came from. */
void status_write_config(struct app *a, struct buf *out);

#endif
