/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The conditions for this process to be ready, each with a hint where to look when it fails.
 */
#ifndef MVPROXY_DAEMON_READINESS_CHECKS_H
#define MVPROXY_DAEMON_READINESS_CHECKS_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

struct app;
struct health;

struct health *readiness_checks_new(struct app *a);
/* The hint for this check, which says why it fails. Static. */
const char *readiness_checks_look(const char *check, const char *why);
/* All conditions of readiness, except that the process is not shutting down. `reason` is filled when false. */
bool readiness_checks_pass(struct app *a, char *reason, size_t n);
/* False, with *why set: the front-proxy certificate has expired, so no server accepts identities that we assert. */
bool readiness_checks_front_proxy(const struct app *a, struct err *why);
/* Sends the status line to the service manager if it changed. */
void readiness_checks_tell(struct app *a);

#endif
