/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What answers wait for their readers, all together, in bytes: a reader that takes nothing must not cost memory without
 * a bound. libevent may keep some of them for longer than their listener is there, so each holds a reference.
 */
#ifndef MVPROXY_ADMIN_UNTAKEN_H
#define MVPROXY_ADMIN_UNTAKEN_H

#include <stdbool.h>
#include <stddef.h>

struct buf;
struct evbuffer;
struct untaken;

struct untaken *untaken_new(void);
/* The listener's own reference. */
void untaken_unref(struct untaken *u);
size_t untaken_bytes(const struct untaken *u);
/* Moves the whole body, which is not empty, to `out` without copying it; `body` is not to be used after. False when out
 * of memory: it is still the caller's. */
bool untaken_add(struct untaken *u, struct evbuffer *out, struct buf *body);

#endif
