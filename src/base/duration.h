/* SPDX-License-Identifier: Apache-2.0 */
/* A time for people, in the one way that all views have: "0.4s", "69s", "4m12s", "3h5m", "2d7h". */
#ifndef MVPROXY_BASE_DURATION_H
#define MVPROXY_BASE_DURATION_H

#include <stdint.h>

enum { DURATION_BYTES = 32 };

/* Returns `out`. */
const char *duration_text(uint64_t ms, char out[DURATION_BYTES]);
/* What is left until something ends: "29 days", below two days "47 hours", "less than an hour". Returns `out`. */
const char *duration_left(int64_t seconds, char out[DURATION_BYTES]);

#endif
