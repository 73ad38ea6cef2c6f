/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many descriptors are open: what forgets to close one is no leak of memory, and nobody else says it.
 */
#ifndef MVPROXY_TESTS_LIB_DESCRIPTORS_H
#define MVPROXY_TESTS_LIB_DESCRIPTORS_H

#include <fcntl.h>

enum { DESCRIPTORS_LOOKED_AT = 256 };

/* Of the first ones. */
static inline unsigned descriptors_open(void)
{
    unsigned n = 0;

    for (int fd = 0; fd < DESCRIPTORS_LOOKED_AT; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

#endif
