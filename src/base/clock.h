/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time through one replaceable source, so that tests can turn the clock themselves.
 */
#ifndef MVPROXY_BASE_CLOCK_H
#define MVPROXY_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "base/slice.h"

/* Monotonic, milliseconds and microseconds since an arbitrary start. */
uint64_t clock_ms(void);
uint64_t clock_us(void);
/* Wall clock, microseconds since 1970 UTC. */
int64_t clock_wall_us(void);
/* Tests only: freezes both at the given values (us); clock_real() goes back. */
void clock_fake(uint64_t monotonic_us, int64_t wall_us);
void clock_real(void);

enum { CLOCK_RFC3339_BYTES = 32 };
/* "2006-01-02T15:04:05.000000Z" (the MicroTime of Kubernetes), NUL-terminated. */
void clock_rfc3339(int64_t wall_us, char out[CLOCK_RFC3339_BYTES]);
/* Strict RFC 3339 with optional fraction and any offset; false if it is not one. */
bool clock_parse_rfc3339(struct slice s, int64_t *wall_us);
/*
 * Go's time.Duration text as Kubernetes flags take it ("30s", "1m30s", "250ms", "0"), in milliseconds.
 * False also for negative ones and for those that are no whole number of milliseconds: they would become a silent 0.
 */
bool clock_parse_duration(struct slice s, uint64_t *ms);
/* The inverse, NUL-terminated, e.g. "1m30s"; out of at least 32 bytes. */
void clock_format_duration(uint64_t ms, char out[32]);

#endif
