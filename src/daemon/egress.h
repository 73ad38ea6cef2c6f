/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes egress proxies, through which servers are dialled, from the egress selector's file.
 */
#ifndef MVPROXY_DAEMON_EGRESS_H
#define MVPROXY_DAEMON_EGRESS_H

#include "base/err.h"
#include "daemon/egress_file.h"

struct egress_proxy;

/* Reads and parses the file, and checks that the files named in its selections, used or not, exist. False with lines in
 * *errors. */
bool egress_load(const char *path, struct arena *a, struct egress *out, struct buf *errors);

/*
 * The proxy of a selection, of which the caller gets the reference; *out is NULL for Direct and if the file has no such
 * selection. Loads certificates. False, with *err set, on failure.
 */
bool egress_make_proxy(const struct egress *e, enum egress_name name, struct egress_proxy **out, struct err *err);

#endif
