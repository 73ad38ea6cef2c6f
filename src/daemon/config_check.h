/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What must hold between the options of a configuration whose values are each well-formed: before any file that it
 * names is opened.
 */
#ifndef MVPROXY_DAEMON_CONFIG_CHECK_H
#define MVPROXY_DAEMON_CONFIG_CHECK_H

#include "daemon/config.h"

/* False with a line in *errors for each thing that is wrong. */
bool config_check(const struct config *c, struct buf *errors);

#endif
