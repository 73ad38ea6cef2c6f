/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Applies the options for logging to the logger.
 */
#ifndef MVPROXY_DAEMON_LOGGING_H
#define MVPROXY_DAEMON_LOGGING_H

#include "daemon/config.h"

void logging_apply(const struct config *c);

#endif
