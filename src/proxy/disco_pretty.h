/*
 * A discovery document laid out for people (`pretty`, curl, browsers), made while it is sent: a piece per call.
 */
#ifndef MVPROXY_PROXY_DISCO_PRETTY_H
#define MVPROXY_PROXY_DISCO_PRETTY_H

#include "base/mem.h"

struct disco_pretty;

/* `compact` must live as long. Compresses if `gzip` and, as kube-apiserver, if the whole is over 128 KiB. NULL when out
 * of memory. */
MEM_CHECK struct disco_pretty *disco_pretty_new(struct slice compact, bool gzip);
void disco_pretty_free(struct disco_pretty *p); /* NULL is fine */
bool disco_pretty_gzipped(const struct disco_pretty *p);
/* The next piece, some 64 KiB, valid until the next call; empty: that was all. False when out of memory. */
MEM_CHECK bool disco_pretty_next(struct disco_pretty *p, struct slice *piece);

#endif
