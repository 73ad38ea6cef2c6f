/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps of what is compiled once more for libsteps.a: one for each basic block, and one for each eight bytes that the C
 * library's functions walk over (-Wl,--wrap, see Makefile.inc).
 */
#ifndef MVPROXY_TESTS_UNIT_PROXY_STEPS_H
#define MVPROXY_TESTS_UNIT_PROXY_STEPS_H

#include <stdint.h>

uint64_t steps_taken(void);
void steps_reset(void);

#endif
