/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Talks to the service manager: readiness, reload, status, watchdog and inherited sockets, by systemd's protocols
 * (sd_notify(3), sd_listen_fds(3)), without its library. Without a service manager all functions do nothing.
 */
#ifndef MVPROXY_DAEMON_NOTIFY_H
#define MVPROXY_DAEMON_NOTIFY_H

#include "base/slice.h"

struct notify;

/* Reads the environment. Ends the process when out of memory. */
struct notify *notify_new(void);
void notify_free(struct notify *n);

/* Messages are sent at once. If the manager's socket is full, ready, reloading, status and stopping are kept, in their
 * order, for notify_again(). */
void notify_ready(struct notify *n, const char *status);
/* With MONOTONIC_USEC, which Type=notify-reload of systemd 253 requires and 252 ignores. */
void notify_reloading(struct notify *n);
void notify_status(struct notify *n, const char *status);
void notify_stopping(struct notify *n);
/* Sends the messages that were kept. */
void notify_again(struct notify *n);
void notify_watchdog(struct notify *n);
/* Asks the manager for more time to stop, in microseconds from now. */
void notify_extend_timeout(struct notify *n, uint64_t us);
/* How often notify_watchdog() must be called, in ms; 0: never. Half of what the manager allows. */
uint64_t notify_watchdog_interval_ms(const struct notify *n);

/* Fills fds with the inherited listening sockets, `max` at most, and returns how many. */
size_t notify_inherited(int fds[], size_t max);

#endif
