/* SPDX-License-Identifier: Apache-2.0 */
/* The order in which people look for servers. */
#ifndef MVPROXY_ADMIN_SERVER_ORDER_H
#define MVPROXY_ADMIN_SERVER_ORDER_H

#include "cluster/served.h"

/*
 * The servers of a snapshot, each once: 0, the local one, then i for peer i - 1, by host name. To be freed with
 * mem_free(). NULL when out of memory.
 */
MEM_CHECK size_t *server_order(const struct served *s);

#endif
