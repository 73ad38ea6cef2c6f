/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random numbers of the kernel (getrandom(2)). Simulations put their own in place of all four (-Wl,--wrap), so that a
 * seed is the same story each time.
 */
#ifndef MVPROXY_BASE_RANDOM_H
#define MVPROXY_BASE_RANDOM_H

#include <stddef.h>
#include <stdint.h>

/* At most 256, which the kernel gives whole. */
void random_bytes(void *p, size_t n);
uint64_t random_u64(void);
/* Uniform in [0, bound); bound > 0. */
uint64_t random_below(uint64_t bound);
/* RFC 4122 version 4, lower case, 36 characters + NUL. */
void random_uuid(char out[37]);

#endif
