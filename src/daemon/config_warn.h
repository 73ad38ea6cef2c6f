/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Warnings of `mvproxy -t` about values that are valid, but dangerous, without effect, or unlikely to be meant. Looks
 * at the values only.
 */
#ifndef MVPROXY_DAEMON_CONFIG_WARN_H
#define MVPROXY_DAEMON_CONFIG_WARN_H

#include "base/buf.h"
#include "daemon/config.h"

/* Appends "warning: file:line:column: option: what is wrong: what to do" for each. */
void config_warn(const struct config *c, struct buf *out);
/* Logs the same, but for certificates that are not given (trust_say_missing()), and serving_pair_warn(). */
void config_warn_log(const struct config *c);

#endif
