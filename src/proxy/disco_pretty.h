/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A discovery document laid out for people (`pretty`, curl, browsers), made while it is sent: a piece per call.
 */
#ifndef MVPROXY_PROXY_DISCO_PRETTY_H
#define MVPROXY_PROXY_DISCO_PRETTY_H

#include "base/mem.h"

struct disco_pretty;
struct quota;

/* `compact` must live as long. Compresses if `gzip` and, as kube-apiserver, if the whole is over 128 KiB. What it
 * takes is charged to `quota`, which must live as long. NULL when out of memory. */
MEM_CHECK struct disco_pretty *disco_pretty_new(struct slice compact, bool gzip, struct quota *quota);
void disco_pretty_free(struct disco_pretty *p); /* NULL is fine */
bool disco_pretty_gzipped(const struct disco_pretty *p);
/*
 * The next piece, made of some 64 KiB of text, valid until the next call. It may be empty, as a compressor keeps back
 * what it can. False when out of memory.
 */
MEM_CHECK bool disco_pretty_next(struct disco_pretty *p, struct slice *piece);
bool disco_pretty_done(const struct disco_pretty *p); /* that was the last one */

#endif
