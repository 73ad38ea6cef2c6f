/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When requests that may as well go over HTTP/1.1 go over HTTP/2: while so many short ones are under way that each turn
 * of the loop has several for a shared connection, which then cost one record and one system call together.
 */
#ifndef MVPROXY_BACK_H2_LOAD_H
#define MVPROXY_BACK_H2_LOAD_H

#include <stdbool.h>
#include <stdint.h>

struct h2_client;

/* Requests that could share connections; zero at first. */
struct h2_load {
    uint32_t under_way;
    uint32_t mean_bytes; /* of an answer's body, the last sixteen or so */
    bool on;
};

/* A token, by its hash. */
struct bearer {
    uint64_t accepted;      /* the hash, if it was taken last time; else 0 */
    uint64_t known;         /* the hash of the last that was taken, */
    uint64_t known_ms;      /* and when */
    struct h2_client *used; /* by the last request with it, if that is still there; perhaps another token's */
    struct h2_load load;
};

void h2_load_begin(struct h2_load *l);
/* `bytes`: of the answer's body. */
void h2_load_end(struct h2_load *l, uint64_t bytes);

#endif
