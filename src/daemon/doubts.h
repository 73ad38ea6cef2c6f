/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is valid, and dangerous, without effect, or unlikely to be meant: warnings of `mvproxy -t`, from the values
 * alone.
 */
#ifndef MVPROXY_DAEMON_DOUBTS_H
#define MVPROXY_DAEMON_DOUBTS_H

#include "base/buf.h"
#include "daemon/config.h"

/* Appends "warning: file:line:column: option: what is wrong: what to do" for each. */
void doubts_say(const struct config *c, struct buf *out);

#endif
