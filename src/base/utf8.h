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
/* Characters that a terminal acts upon or that hide text: controls (C0, C1), and the invisible and direction marks. */
bool utf8_unprintable(uint32_t code);
/* In place, for a terminal: each of those, and each byte that is of no character, becomes a question mark. */
void utf8_make_printable(char *text);

#endif
