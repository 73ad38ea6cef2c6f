/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The status page: struct status and the skew matrix as one HTML document, without scripts and without anything that is
 * loaded from elsewhere. It is made in pieces, none of which takes long, for any number of servers and APIs.
 */
#ifndef MVPROXY_ADMIN_STATUS_PAGE_H
#define MVPROXY_ADMIN_STATUS_PAGE_H

#include "base/buf.h"
#include "base/mem.h"

struct status;
struct status_page;

enum { STATUS_PAGE_REFRESH_MIN = 2, STATUS_PAGE_REFRESH_MAX = 3600 };

/*
 * Writes the first piece; takes from the status what the others need. `refresh_s`: the browser loads it anew after so
 * many seconds; 0: never. NULL when out of memory.
 */
MEM_CHECK struct status_page *status_page_begin(const struct status *s, unsigned refresh_s, struct buf *out);
/* Another piece. False: that was the last. */
bool status_page_more(struct status_page *p, struct buf *out);
void status_page_free(struct status_page *p); /* NULL is fine */
/* What the page may load and do: the value of Content-Security-Policy, with the style's digest. */
void status_page_policy(struct buf *out);

#endif
