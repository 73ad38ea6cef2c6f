/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What somebody has made us hold, in bytes, and how much that may be. Memory is charged where it is allocated
 * (arena_charge(), buf_charge(), the streams of net/) with what was really taken, and given back where it is freed.
 *
 * Quotas form a chain (a connection's heads, the connection, its client's address, all clients): what is taken of one
 * is taken of its parents, too, or of none. A parent must outlive its children. Every function takes NULL for "nobody
 * counts", and to give or add nothing needs no quota that is still there.
 */
#ifndef MVPROXY_BASE_QUOTA_H
#define MVPROXY_BASE_QUOTA_H

#include <stdbool.h>
#include <stddef.h>

struct quota {
    struct quota *parent;
    size_t held;
    size_t most;
    size_t mark;                      /* reached() is told when `held` comes to so much from below */
    void (*reached)(struct quota *b); /* may be NULL; called in the middle of an allocation: only to take note */
};

/* most: 0 = no limit. Nothing is marked. */
void quota_init(struct quota *b, struct quota *parent, size_t most);
/* False: there is less room than that, here or further up, and nothing was taken. */
bool quota_take(struct quota *b, size_t n);
/* For what is there already and cannot be refused; beyond the limit if need be. */
void quota_add(struct quota *b, size_t n);
void quota_give(struct quota *b, size_t n);
/* There is room for so much. */
bool quota_has_room(const struct quota *b, size_t n);

#endif
