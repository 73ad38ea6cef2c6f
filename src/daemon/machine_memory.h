/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much memory this process may use.
 */
#ifndef MVPROXY_DAEMON_MACHINE_MEMORY_H
#define MVPROXY_DAEMON_MACHINE_MEMORY_H

#include <stdint.h>

/* In bytes: the machine's memory, or less by the limits of this process's control groups (version 2 or 1; groups that
 * are not visible inside a container do not count). */
uint64_t machine_memory(void);
/* The same with the control group files at these paths, for a machine with `machine` bytes. */
uint64_t machine_memory_of(const char *cgroup_file, const char *cgroup_root, uint64_t machine);
/* The limit on memory that clients cause (max-client-memory): `bytes`, or if that is 0 a quarter of `all`, but at least
 * 256 MiB, or half of `all` where that is less. */
uint64_t machine_memory_for_clients(uint64_t bytes, uint64_t all);

#endif
