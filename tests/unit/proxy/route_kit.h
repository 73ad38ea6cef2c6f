/* SPDX-License-Identifier: Apache-2.0 */
/* In place of back/origin.h, for what only compares origins and asks whether they are healthy: the real ones would drag
 * sockets in. */
#ifndef MVPROXY_TESTS_UNIT_PROXY_ROUTE_KIT_H
#define MVPROXY_TESTS_UNIT_PROXY_ROUTE_KIT_H

#include "back/back.h"
#include "cluster/served.h"

struct origin {
    bool healthy;
};

/* For struct route_query. */
bool route_kit_is_healthy(const struct served_peer *p, void *arg);

#endif
