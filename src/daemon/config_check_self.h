/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks whether this proxy's own listeners overlap, and whether an address that it is to connect to is one of them,
 * which would make an endless loop of connections.
 */
#ifndef MVPROXY_DAEMON_CONFIG_CHECK_SELF_H
#define MVPROXY_DAEMON_CONFIG_CHECK_SELF_H

#include "daemon/remarks.h"

void config_check_self(struct remarks *r);
/* Whether that name of a peer is this server's own host name or ID; true if the host name cannot be read. */
bool config_check_self_is_named(const struct config *c, const char *peer);

#endif
