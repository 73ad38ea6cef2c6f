/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For what must end the process: runs it in a child.
 */
#ifndef MVPROXY_TESTS_LIB_DIED_H
#define MVPROXY_TESTS_LIB_DIED_H

#include <stdbool.h>
#include <stddef.h>

/* Whether fn(arg) ended with SIGABRT; `said` gets what it wrote to stderr, cut to the size and terminated. */
bool died(void (*fn)(void *arg), void *arg, char *said, size_t size);

#endif
