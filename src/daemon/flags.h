/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses the command line.
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

/* "--name=value", "--name value", "-v=2", "-t". Texts point into argv, arrays into the arena. False, with lines in
 * *errors, on failure. */
bool flags_parse(int argc, char *const *argv, struct arena *a, struct flags *out, struct buf *errors);

#endif
