/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks that the options of a configuration fit together. Each value is well-formed already; no file that they name is
 * opened.
 */
#ifndef MVPROXY_DAEMON_CONFIG_CHECK_H
#define MVPROXY_DAEMON_CONFIG_CHECK_H

#include "daemon/config.h"

/* False, with a line in *errors for each error. */
bool config_check(const struct config *c, struct buf *errors);

#endif
