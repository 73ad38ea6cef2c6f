/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An answer to a scraper: all metrics as text, compressed for who wants that, made in steps that each take part of a
 * millisecond. What cannot be compressed for want of memory goes out as it is.
 */
#ifndef MVPROXY_ADMIN_EXPOSITION_H
#define MVPROXY_ADMIN_EXPOSITION_H

#include "admin/metrics_text.h"

struct exposition;

/* `most`: bytes. NULL when out of memory. */
MEM_CHECK struct exposition *exposition_new(struct metrics *m, enum metrics_format format, bool gzip, size_t most);
void exposition_free(struct exposition *e); /* NULL is fine */
/* False: all is made. */
bool exposition_step(struct exposition *e);
/* Once it is made: moves it to `body`, which is empty and has failed if there was no room or memory. True: as gzip. */
bool exposition_take(struct exposition *e, struct buf *body);

#endif
