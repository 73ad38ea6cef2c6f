/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What has to be so before this process is ready, each with where to look when it is not.
 */
#ifndef MVPROXY_DAEMON_READINESS_CHECKS_H
#define MVPROXY_DAEMON_READINESS_CHECKS_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

struct app;
struct health;

struct health *readiness_checks_new(struct app *a);
/* Where to look when this check fails. Static. */
const char *readiness_checks_look(const char *check);
/* All that readiness depends on, but for shutting down; `reason` is filled when false. */
bool readiness_checks_pass(struct app *a, char *reason, size_t n);
/* False with *why: the front-proxy certificate has expired, so no server accepts our word for a user. */
bool readiness_checks_front_proxy(const struct app *a, struct err *why);
/* The service manager's status line, when it changed. */
void readiness_checks_tell(struct app *a);

#endif
