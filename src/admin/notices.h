/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is to be known before all else of a status, in the words that every view has: text, page and mvproxyctl.
 */
#ifndef MVPROXY_ADMIN_NOTICES_H
#define MVPROXY_ADMIN_NOTICES_H

#include "admin/status.h"

enum { NOTICES = 18, NOTICE_BYTES = 3072 };

/* Peers that are not used, Leases that cannot be read, servers that were never read or cannot be used, custom resources
 * that are Stale, clients that wait to be accepted or hold too much, what was refused of the configuration, is
 * missing in it or doubtful, certificates that end soon, servers that are drained: a sentence each. Returns how many.
 */
size_t notices_of(const struct status *s, char text[NOTICES][NOTICE_BYTES]);
/* The files that were refused for this reason are the egress configuration's, and not certificates. */
bool notices_is_egress(const char *why);
/* How far the servers serve the same, and of how many that is not known: a sentence without its full stop. */
void notices_skew(const struct status *s, char text[NOTICE_BYTES]);

#endif
