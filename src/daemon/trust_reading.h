/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses what trust_load() and the checks of files will read, some certificates in each turn of the loop, and holds it
 * for them: a CA takes a quarter of a millisecond, and there may be hundreds. What cannot be read is theirs to say.
 */
#ifndef MVPROXY_DAEMON_TRUST_READING_H
#define MVPROXY_DAEMON_TRUST_READING_H

#include "daemon/config.h"

struct loop;
struct trust_reading;

/* Calls done once, not from here; it may free *r. NULL: out of memory. */
struct trust_reading *trust_reading_begin(struct loop *l, const struct config *c, void (*done)(void *arg), void *arg);
/* Before `done` it is given up. Certificates that no context has are forgotten. */
void trust_reading_free(struct trust_reading *r);

#endif
