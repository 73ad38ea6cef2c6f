/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel lets this process have.
 */
#ifndef MVPROXY_DAEMON_RLIMITS_H
#define MVPROXY_DAEMON_RLIMITS_H

#include <stddef.h>

/*
 * Once, at the start: as many descriptors as the hard limit allows (every client may need one towards a server, too),
 * and no core dumps, which would hold private keys; for the same reason the process is not dumpable, so that its memory
 * is closed to other processes of its user.
 */
void rlimits_prepare(void);
/* How many descriptors there may be; 0: no limit. */
size_t rlimits_descriptors(void);

#endif
