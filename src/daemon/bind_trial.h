/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a start could bind its addresses: tried for a moment, without listening.
 */
#ifndef MVPROXY_DAEMON_BIND_TRIAL_H
#define MVPROXY_DAEMON_BIND_TRIAL_H

#include "daemon/remarks.h"
#include "net/listener.h"

/* What to do about EACCES of bind(2). */
#define BIND_TRIAL_LOW_PORT                                                                                            \
    "a port below 1024 needs AmbientCapabilities=CAP_NET_BIND_SERVICE (with CapabilityBoundingSet=) and "              \
    "PrivateUsers=no in a drop-in of the unit, or mvproxy.socket; or choose another"

/* `free`: as for clients, also where this machine does not have the address (now). 0 or an errno; 0 also of what is no
 * IP address. */
int bind_trial(const struct listen_address *a, bool free);

/* Whether it is an address that this machine does not have (now). */
bool bind_trial_is_elsewhere(const struct listen_address *a);
/* What to do about it. */
#define BIND_TRIAL_CORRECT                                                                                             \
    "correct bind-address (`ip -brief address` lists this machine's); a virtual address that is on another node now "  \
    "is as it should be"

/* Complains of the addresses in bind-address and admin-bind-address that a start could not have, whoever else is there:
 * such as are not this machine's, if a start needs them to be. Warns of ports that who asks may not have: the unit may
 * give what he lacks. Names are not looked up. */
void bind_trial_configured(struct remarks *r);

#endif
