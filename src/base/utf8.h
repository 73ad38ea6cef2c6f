/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing above U+10FFFF.
 */
#ifndef MVPROXY_BASE_UTF8_H
#define MVPROXY_BASE_UTF8_H

#include "base/slice.h"

/* Bytes of the character at the front of s (1 to 4), its code in *code; 0 if s is empty or does not start with one. */
size_t utf8_next(struct slice s, uint32_t *code);
bool utf8_valid(struct slice s);

#endif
