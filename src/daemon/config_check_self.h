/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether this proxy's own listeners stand in each other's way, and whether an address that it is to connect to is one
 * of them: said before it can become an endless loop of connections.
 */
#ifndef MVPROXY_DAEMON_CONFIG_CHECK_SELF_H
#define MVPROXY_DAEMON_CONFIG_CHECK_SELF_H

#include "daemon/remarks.h"

void config_check_self(struct remarks *r);
/* Whether that name of a peer is this server's own; true where its host name is not known. */
bool config_check_self_is_named(const struct config *c, const char *peer);

#endif
