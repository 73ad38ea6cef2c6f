/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses the configuration file: a flat YAML mapping whose values are scalars or sequences of scalars.
 */
#ifndef MVPROXY_DAEMON_YAML_FILE_H
#define MVPROXY_DAEMON_YAML_FILE_H

#include "daemon/config.h"

enum { YAML_FILE_MAX_SETTINGS = 1000 };

struct yaml_file {
    struct config_setting *settings;
    size_t n;
    bool whole; /* it was read to its end, and is a mapping: nothing is left out */
};

/*
 * Parses `text`, called `name` in messages. False, with lines in *errors, on syntax errors, nesting, aliases and
 * repeated keys; *out then has the settings read before, so that their errors can be reported together. Everything
 * lives in the arena.
 */
bool yaml_file_parse(const char *name, struct slice text, struct arena *a, struct yaml_file *out, struct buf *errors);

#endif
