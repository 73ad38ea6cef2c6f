/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Taking the addresses that clients connect to, at the start: while another process listens there it is tried again,
 * for TIMEOUT_ADDRESS_IN_USE_MS. On the day that mvproxy comes to a node that is kube-apiserver, which is about to be
 * moved. Everything else is there meanwhile: what is served becomes known, and who asks hears what is waited for.
 */
#ifndef MVPROXY_DAEMON_ADDRESS_WAIT_H
#define MVPROXY_DAEMON_ADDRESS_WAIT_H

#include "base/err.h"

struct app;

enum { ADDRESS_WAIT_BEATS = 10, ADDRESS_WAIT_SETTLES_MS = 1500 };

/* False with *err: they can never be had. If it has to wait for too long, the process is drained and fails. */
bool address_wait_begin(struct app *a, struct err *err);
/*
 * Once it had to wait: who had the address is about to end, and comes back elsewhere, perhaps as the local server. What
 * connects meanwhile waits in the kernel's queue, for ADDRESS_WAIT_BEATS heartbeats at most: better than the 403 of a
 * kube-apiserver that only starts. True: that server is ready.
 */
bool address_wait_is_over(const struct app *a);
/* As that, but peers answer in place of the server that had the address: nobody needs to wait for it. */
bool address_wait_has_peers(const struct app *a);
/* A line for each address. */
void address_wait_say(const struct app *a);

#endif
