/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `mvproxy -t`: what is wrong with a configuration beyond what a start would notice: files that exist and do not fit
 * together, or that the service's user cannot read.
 */
#ifndef MVPROXY_DAEMON_PREFLIGHT_H
#define MVPROXY_DAEMON_PREFLIGHT_H

#include "base/buf.h"
#include "daemon/config.h"

/*
 * Appends a line for each finding, "file:line:column: option: what is wrong: what to do"; those that begin with
 * "warning: " will become one. False if there is anything but warnings. `user`: as whom the service runs, of whom it is
 * asked whether he can read the files; NULL: nobody else than we.
 */
bool preflight_files(const struct config *c, const char *user, struct buf *findings);
/* The same with nothing but what is wrong. */
bool preflight_wrong(const struct config *c, struct buf *errors);
/* The configuration file, likewise: whether that user can read it. */
bool preflight_itself(const struct config *c, const char *file, const char *user, struct buf *findings);

#endif
