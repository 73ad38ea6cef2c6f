/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The few things that every piece of an HTML page needs. Every text that comes from elsewhere goes through html_text(),
 * so that no name from the cluster can become markup.
 */
#ifndef MVPROXY_ADMIN_HTML_H
#define MVPROXY_ADMIN_HTML_H

#include "base/buf.h"

/* Markup of ours: literals only. */
void html_raw(struct buf *out, const char *markup);
/* Escaped; control characters become spaces. */
void html_text(struct buf *out, struct slice text);
void html_str(struct buf *out, const char *text); /* NULL: nothing */
/* The same set apart, so that text that runs from right to left, or says that it does, changes nothing around it. */
void html_name(struct buf *out, const char *text);
/* "3 d 4 h", "5 m 10 s", "0.4 s". */
void html_duration(struct buf *out, uint64_t ms);

#endif
