/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much memory there is for us.
 */
#ifndef MVPROXY_DAEMON_MACHINE_MEMORY_H
#define MVPROXY_DAEMON_MACHINE_MEMORY_H

#include <stdint.h>

/* Bytes: the machine's, or what the control groups that this process is in leave of it (version 2 or 1; those that a
 * container does not show cannot be seen). */
uint64_t machine_memory(void);
/* The same with the files of another machine, which has so much. */
uint64_t machine_memory_of(const char *cgroup_file, const char *cgroup_root, uint64_t machine);
/* What clients may make us hold (max-client-memory): `bytes`, or if 0 a quarter of what there is, at least 256 MiB. */
uint64_t machine_memory_for_clients(uint64_t bytes, uint64_t all);

#endif
