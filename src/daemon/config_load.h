/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the effective configuration from defaults, file and command line.
 */
#ifndef MVPROXY_DAEMON_CONFIG_LOAD_H
#define MVPROXY_DAEMON_CONFIG_LOAD_H

#include "daemon/config.h"

/*
 * Takes the defaults, then `file` (NULL: none), then `flags` ("--name=value" as settings made by the caller). NULL on
 * errors, each of which is a line in *errors, "file:line:column: what is wrong". The caller owns the result.
 */
struct config *config_load(const char *file, const struct config_setting *flags, size_t n_flags, struct buf *errors);

/*
 * The same for callers that look for further errors: returns the configuration even if it has errors (*ok is false,
 * lines in *errors). NULL if the file cannot be read to its end.
 */
struct config *config_load_doubtful(const char *file, const struct config_setting *flags, size_t n_flags,
                                    struct buf *errors, bool *ok);

/* False only of what is known not to be there: who may not look is to read it, and told why he cannot. */
bool config_is_there(const char *file);

#endif
