/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the program was started with.
 */
#ifndef MVPROXY_DAEMON_APP_ARGS_H
#define MVPROXY_DAEMON_APP_ARGS_H

#include <stddef.h>

struct config_setting;

/* The command line, as a reload needs it again. Everything must outlive the app. */
struct app_args {
    const char *config_file; /* NULL: none */
    const struct config_setting *flags;
    size_t n_flags;
    const char *version;
};

#endif
