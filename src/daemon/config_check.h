/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What must hold between the options of a configuration whose values are each well-formed: before any file that it
 * names is opened.
 */
#ifndef MVPROXY_DAEMON_CONFIG_CHECK_H
#define MVPROXY_DAEMON_CONFIG_CHECK_H

#include "daemon/config.h"

/* Where the settings came from, for messages with the place. */
struct config_sources {
    const struct config_setting *file, *flags;
    size_t n_file, n_flags;
    struct buf *errors; /* a line for each thing that is wrong */
    bool ok;            /* becomes false */
};

/* o->ok, after all checks. */
bool config_check(struct config_sources *o, const struct config *c);

#endif
