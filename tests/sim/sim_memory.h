/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is allocated by all that is linked statically (-Wl,--wrap=malloc and so on, see tests/sim/Makefile.inc).
 */
#ifndef MVPROXY_TESTS_SIM_SIM_MEMORY_H
#define MVPROXY_TESTS_SIM_SIM_MEMORY_H

#include <stddef.h>

size_t sim_blocks(void); /* allocated and not freed */

#endif
