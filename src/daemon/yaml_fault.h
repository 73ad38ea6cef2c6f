/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Explains a syntax error of libyaml to the author of the text: where the mistake is (often a line before the one at
 * which libyaml gave up), what is wrong there, and what to write instead.
 */
#ifndef MVPROXY_DAEMON_YAML_FAULT_H
#define MVPROXY_DAEMON_YAML_FAULT_H

#include <yaml.h>

#include "base/slice.h"

enum { YAML_FAULT_BYTES = 256 };

struct yaml_fault {
    size_t line, column; /* from 1, in characters */
    char text[YAML_FAULT_BYTES];
};

/* Explains the error with which `p` has just failed on `text`. */
void yaml_fault_explain(const yaml_parser_t *p, struct slice text, struct yaml_fault *out);

#endif
