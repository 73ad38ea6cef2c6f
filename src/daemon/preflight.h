/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks of `mvproxy -t` beyond what a start would notice: files that exist but do not fit together, or that the
 * service's user cannot read.
 */
#ifndef MVPROXY_DAEMON_PREFLIGHT_H
#define MVPROXY_DAEMON_PREFLIGHT_H

#include "base/buf.h"
#include "daemon/config.h"

/*
 * Appends a line for each finding, "file:line:column: option: what is wrong: what to do"; a line that begins with
 * "warning: " is about what is not wrong, or not yet. False if there is anything but warnings. `user`: the user of the
 * service, who must be able to read the files; NULL: the user of this process.
 */
bool preflight_files(const struct config *c, const char *user, struct buf *findings);
/* The same, without warnings if anything is wrong, and else nothing but them; warnings NULL: not wanted. */
bool preflight_wrong(const struct config *c, struct buf *errors, struct buf *warnings);
/* Of those, the one that a start looks for as well: something that is no socket where the control socket is to be. */
bool preflight_control_socket(const struct config *c, struct buf *errors);
/* The same for the configuration file itself: whether that user can read it. */
bool preflight_itself(const struct config *c, const char *file, const char *user, struct buf *findings);

#endif
