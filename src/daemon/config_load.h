/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the effective configuration out of defaults, file and command line.
 */
#ifndef MVPROXY_DAEMON_CONFIG_LOAD_H
#define MVPROXY_DAEMON_CONFIG_LOAD_H

#include "daemon/config.h"

/*
 * Defaults, then `file` (NULL: none), then `flags` ("--name=value" without the dashes: settings made by the caller).
 * All errors are gathered in *errors, a line each, "file:line:column: what is wrong"; NULL if there was any. The caller
 * owns the result.
 */
struct config *config_load(const char *file, const struct config_setting *flags, size_t n_flags, struct buf *errors);

/*
 * The same, for who looks further all the same: a configuration of which something is wrong (*ok false, and it has been
 * said). NULL where the file cannot be read whole.
 */
struct config *config_load_doubtful(const char *file, const struct config_setting *flags, size_t n_flags,
                                    struct buf *errors, bool *ok);

#endif
