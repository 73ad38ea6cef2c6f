/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every TCP socket of ours gets, listening (for what it accepts) or dialled, and what is asked of it.
 */
#ifndef MVPROXY_NET_SOCKOPT_H
#define MVPROXY_NET_SOCKOPT_H

#include <netinet/in.h>

struct sockaddr;

/*
 * No Nagle (we gather ourselves); keepalive after 30 s, every 15 s, 4 times: a vanished peer of an idle connection is
 * noticed within about 90 s. Failures are ignored: not every socket has them.
 */
void sockopt_tune(int fd);

/* The port that a bound socket has; 0 if it has none. */
unsigned sockopt_port(int fd);

/*
 * The address as text without its port; "" of what has none, as a Unix socket. An IPv4 client of a dual-stack socket is
 * shown, and counted, as what it is.
 */
void sockopt_ip(const struct sockaddr *addr, char out[INET6_ADDRSTRLEN]);

#endif
