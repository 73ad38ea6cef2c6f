/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a running process sees of itself that is hardly as it is meant, while it serves all the same: sockets of the
 * service manager that are elsewhere than the configuration says, an address for peers that leads nowhere, a serving
 * certificate that peers refuse, an admin listener whose address another process has.
 */
#ifndef MVPROXY_DAEMON_DOUBTS_H
#define MVPROXY_DAEMON_DOUBTS_H

#include "admin/status.h"
#include "daemon/addresses.h"

struct doubts_facts {
    const struct config *c;
    const struct addresses *ours; /* on which clients are served */
    bool inherited;               /* their sockets are the service manager's */
    const char *advertised;       /* HOST:PORT that peers are told; "": none */
    bool admin_waits;             /* for another process to release the admin listener's */
};

void doubts_collect(const struct doubts_facts *f, struct status *s);

#endif
