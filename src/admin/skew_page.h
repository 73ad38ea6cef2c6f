/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The skew of versions as a section of the status page: which server serves which group/version, those first that are
 * not the same everywhere, each opened to what differs. In pieces of some 2 ms.
 */
#ifndef MVPROXY_ADMIN_SKEW_PAGE_H
#define MVPROXY_ADMIN_SKEW_PAGE_H

#include "base/buf.h"
#include "base/mem.h"

struct served;
struct skew_page;

/*
 * References the snapshot; `summary` (how far the servers serve the same) and `skewed_resources` (the option) are
 * copied. NULL when out of memory.
 */
MEM_CHECK struct skew_page *skew_page_new(struct served *s, const char *summary, const char *skewed_resources);
/* False: that was the last piece. */
bool skew_page_more(struct skew_page *p, struct buf *out);
void skew_page_free(struct skew_page *p);

#endif
