/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the egress selector's file to proxies that can be dialled through.
 */
#ifndef MVPROXY_DAEMON_EGRESS_H
#define MVPROXY_DAEMON_EGRESS_H

#include "base/err.h"
#include "daemon/egress_file.h"

struct egress_proxy;

/* Reads and parses the file, and looks whether the files that it names exist, in every selection. */
bool egress_load(const char *path, struct arena *a, struct egress *out, struct buf *errors);

/*
 * The proxy of a selection: *out is NULL for Direct, and where the file has no such selection. Loads certificates;
 * false with *err. The caller gets the reference.
 */
bool egress_make_proxy(const struct egress *e, enum egress_name name, struct egress_proxy **out, struct err *err);

#endif
