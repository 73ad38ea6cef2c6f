/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A discovery document as indented JSON (`?pretty`, curl, browsers), made piece by piece while it is sent.
 */
#ifndef MVPROXY_PROXY_DISCO_PRETTY_H
#define MVPROXY_PROXY_DISCO_PRETTY_H

#include "base/mem.h"

struct disco_pretty;
struct quota;

/* `compact` and `quota` must outlive it; its memory is charged to `quota`. NULL when out of memory. */
MEM_CHECK struct disco_pretty *disco_pretty_new(struct slice compact, bool gzip, struct quota *quota);
void disco_pretty_free(struct disco_pretty *p); /* NULL is fine */
/*
 * The next piece, made of about 64 KiB of text, valid until the next call. It may be empty, as the compressor may hold
 * back its output. False when out of memory.
 */
MEM_CHECK bool disco_pretty_next(struct disco_pretty *p, struct slice *piece);
bool disco_pretty_done(const struct disco_pretty *p); /* the last piece was the final one */

#endif
