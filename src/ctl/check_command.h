/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `mvproxyctl check`.
 */
#ifndef MVPROXY_CTL_CHECK_COMMAND_H
#define MVPROXY_CTL_CHECK_COMMAND_H

#include <stdbool.h>

struct check_command {
    const char *socket;      /* of the process that runs */
    const char *config_file; /* NULL: that of the process, or else_file if it is there */
    const char *else_file;
    bool before; /* no process is asked */
    bool json;
};

/* Prints what it finds. The exit status: 0 well, 1 warnings only, 2 something is wrong. */
int check_command(const struct check_command *o);

#endif
