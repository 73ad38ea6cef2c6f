/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this machine knows of host names by itself, without asking anybody: what stands in /etc/hosts, where our dialler
 * looks before it asks DNS, and its own name.
 */
#ifndef MVPROXY_DAEMON_LOCAL_NAMES_H
#define MVPROXY_DAEMON_LOCAL_NAMES_H

#include <stdbool.h>
#include <stddef.h>

enum { LOCAL_NAMES_MAX = 8, LOCAL_NAMES_BYTES = 64 };

/* The addresses that `file`, in the form of /etc/hosts, has for a name; their number, 0 if there are none. */
size_t local_names_find(const char *file, const char *name, char out[LOCAL_NAMES_MAX][LOCAL_NAMES_BYTES]);
/* Whether it is this machine's host name, or the first label of that. */
bool local_names_is_own(const char *name);

#endif
