/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration file: a flat YAML mapping whose values are scalars or sequences of scalars.
 */
#ifndef MVPROXY_DAEMON_YAML_FILE_H
#define MVPROXY_DAEMON_YAML_FILE_H

#include "daemon/config.h"

enum { YAML_FILE_MAX_SETTINGS = 1000 };

struct yaml_file {
    struct config_setting *settings;
    size_t n;
    bool whole; /* nothing is left out of it because it was not understood */
};

/*
 * Reads `text`, called `name` in messages. Syntax errors, nesting, aliases and repeated keys are complaints in *errors
 * (false); the settings read before are in *out all the same, so that their errors can be said in one go. Everything
 * lives in the arena.
 */
bool yaml_file_parse(const char *name, struct slice text, struct arena *a, struct yaml_file *out, struct buf *errors);

#endif
