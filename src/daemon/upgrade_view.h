/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an upgrade takes away and brings, and who asks for it, as JSON (mvproxyctl skew --upgrade).
 */
#ifndef MVPROXY_DAEMON_UPGRADE_VIEW_H
#define MVPROXY_DAEMON_UPGRADE_VIEW_H

#include "base/buf.h"

struct insight;
struct served;

/* False when out of memory. */
bool upgrade_view_write(const struct served *s, const struct insight *i, struct buf *out);

#endif
