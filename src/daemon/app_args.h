/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arguments of the program.
 */
#ifndef MVPROXY_DAEMON_APP_ARGS_H
#define MVPROXY_DAEMON_APP_ARGS_H

#include <stddef.h>

struct config_setting;

/* The command line, which a reload reads again. Everything must outlive the app. */
struct app_args {
    const char *config_file; /* NULL: none */
    const struct config_setting *flags;
    size_t n_flags;
    const char *version;
};

#endif
