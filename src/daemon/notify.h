/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The service manager: readiness, reload, status, watchdog and inherited sockets, by systemd's protocols (sd_notify(3),
 * sd_listen_fds(3)), without its library. Everything does nothing when no manager is there.
 */
#ifndef MVPROXY_DAEMON_NOTIFY_H
#define MVPROXY_DAEMON_NOTIFY_H

#include "base/slice.h"

struct notify;

/* Reads the environment. Ends the process when out of memory. */
struct notify *notify_new(void);
void notify_free(struct notify *n);

/* What follows is sent at once, if the manager has room for it. Else ready, reloading, status and stopping are kept, in
 * their order, for notify_again(). */
void notify_ready(struct notify *n, const char *status);
/* With MONOTONIC_USEC, as Type=notify-reload of systemd 253 wants it and 252 ignores it. */
void notify_reloading(struct notify *n);
void notify_status(struct notify *n, const char *status);
void notify_stopping(struct notify *n);
/* Sends what the manager had no room for. */
void notify_again(struct notify *n);
void notify_watchdog(struct notify *n);
/* Asks the manager for more time to stop, in microseconds from now. */
void notify_extend_timeout(struct notify *n, uint64_t us);
/* How often notify_watchdog() must be called, in ms; 0: never. Half of what the manager allows. */
uint64_t notify_watchdog_interval_ms(const struct notify *n);

/* The inherited listening sockets, the first `max` of them; how many there are. */
size_t notify_inherited(int fds[], size_t max);

#endif
