/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is valid, and dangerous, without effect, or unlikely to be meant: warnings of `mvproxy -t`, from the values
 * alone.
 */
#ifndef MVPROXY_DAEMON_CONFIG_WARN_H
#define MVPROXY_DAEMON_CONFIG_WARN_H

#include "base/buf.h"
#include "daemon/config.h"

/* Appends "warning: file:line:column: option: what is wrong: what to do" for each. */
void config_warn(const struct config *c, struct buf *out);

#endif
