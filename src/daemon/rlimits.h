/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The resource limits of this process.
 */
#ifndef MVPROXY_DAEMON_RLIMITS_H
#define MVPROXY_DAEMON_RLIMITS_H

#include <stddef.h>

/*
 * To be called once, at the start. Raises the limit on descriptors to the hard limit (a client may need a second one,
 * towards a server), and forbids core dumps, which would contain private keys; for the same reason the process is made
 * undumpable, so that other processes of its user cannot read its memory.
 */
void rlimits_prepare(void);
/* The limit on descriptors; 0: none. */
size_t rlimits_descriptors(void);

#endif
