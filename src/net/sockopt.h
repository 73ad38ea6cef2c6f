/*
 * What every TCP socket of ours gets, accepted or dialled.
 */
#ifndef MVPROXY_NET_SOCKOPT_H
#define MVPROXY_NET_SOCKOPT_H

/*
 * No Nagle (we gather ourselves); keepalive after 30 s, every 15 s, 4 times; unacknowledged data for 60 s ends the
 * connection: a vanished peer is noticed within about 90 s in both cases. Failures are ignored: not every socket has
 * them.
 */
void sockopt_tune(int fd);

#endif
