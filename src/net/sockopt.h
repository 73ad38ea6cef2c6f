/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every TCP socket of ours gets, listening (for what it accepts) or dialled, and what is asked of it.
 */
#ifndef MVPROXY_NET_SOCKOPT_H
#define MVPROXY_NET_SOCKOPT_H

/*
 * No Nagle (we gather ourselves); keepalive after 30 s, every 15 s, 4 times; unacknowledged data for 60 s ends the
 * connection: a vanished peer is noticed within about 90 s in both cases. Failures are ignored: not every socket has
 * them.
 */
void sockopt_tune(int fd);

/* The port that a bound socket has; 0 if it has none. */
unsigned sockopt_port(int fd);

#endif
