/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many connections to servers each client has in use or waits for, where each serves one request at a time: a body
 * that never ends costs its sender a byte now and then, and holds one all the time. Pure. A client is a seeded hash of
 * its address; 0 is ourselves, and never counted.
 *
 * A client gets another one while it has fewer than are left for all (dynamic thresholds, Choudhury and Hahne). So one
 * client alone has half of them at most, and N that want all leave the N+1st part to the others; who comes alone behind
 * a load balancer is not held to any share of his.
 */
#ifndef MVPROXY_BACK_SHARES_H
#define MVPROXY_BACK_SHARES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SHARES_CLIENTS = 16384 }; /* addresses that are told apart */

/* Zeroed but for `most`. */
struct shares {
    size_t most, taken;
    uint32_t of[SHARES_CLIENTS]; /* by hash: two that meet count as one */
};

/* False: it has its share. */
bool shares_take(struct shares *s, uint64_t client);
void shares_give(struct shares *s, uint64_t client);
size_t shares_of(const struct shares *s, uint64_t client);

struct back;
/* How many there may be to all servers together; 0: as many as LIMIT_POOL_CONNECTIONS, which is the most. */
void back_set_connections(struct back *b, size_t most);

#endif
