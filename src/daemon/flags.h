/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line.
 */
#ifndef MVPROXY_DAEMON_FLAGS_H
#define MVPROXY_DAEMON_FLAGS_H

#include "daemon/config.h"

enum flags_mode { FLAGS_RUN, FLAGS_CHECK, FLAGS_DUMP, FLAGS_VERSION, FLAGS_HELP, FLAGS_MDOC, FLAGS_MARKDOWN };

struct flags {
    enum flags_mode mode;
    const char *config_file; /* NULL: not given */
    struct config_setting *settings;
    size_t n;
};

/* "--name=value", "--name value", "-v=2", "-t". Text points into argv, arrays into the arena. False with complaints. */
bool flags_parse(int argc, char *const *argv, struct arena *a, struct flags *out, struct buf *errors);

#endif
