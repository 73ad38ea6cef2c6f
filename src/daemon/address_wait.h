/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Binds the addresses for clients at the start. While another process listens on them it is tried again, for
 * TIMEOUT_ADDRESS_IN_USE_MS: when mvproxy is installed on a node, that is kube-apiserver, which is about to be moved to
 * another address. Everything else runs meanwhile: discovery is read, and the status says what is waited for.
 */
#ifndef MVPROXY_DAEMON_ADDRESS_WAIT_H
#define MVPROXY_DAEMON_ADDRESS_WAIT_H

#include "base/err.h"

struct app;

enum { ADDRESS_WAIT_BEATS = 10, ADDRESS_WAIT_SETTLES_MS = 1500 };

/* False, with *err set, on other errors than an address in use. If that lasts too long, the process drains and fails.
 */
bool address_wait_begin(struct app *a, struct err *err);
/*
 * After a wait: the process that had the address is about to end and to start again on another one, perhaps as the
 * local server. New connections wait in the kernel's queue until that is ready (true), ADDRESS_WAIT_BEATS heartbeats at
 * most: a kube-apiserver that is starting would answer them with 403.
 */
bool address_wait_is_over(const struct app *a);
/* The same, but true if peers answer in place of the local server, so that there is no need to wait for it. */
bool address_wait_has_peers(const struct app *a);
/* Logs each address. */
void address_wait_say(const struct app *a);

#endif
