/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When certificates end: metrics, and warnings in the log.
 */
#ifndef MVPROXY_DAEMON_EXPIRY_H
#define MVPROXY_DAEMON_EXPIRY_H

#include "base/metric.h"
#include "daemon/config.h"

struct expiry;

struct expiry *expiry_new(struct metrics *m); /* ends the process when out of memory */
void expiry_free(struct expiry *e);
/* The certificates of these files are in force now. Says what there is to say of them. */
void expiry_read(struct expiry *e, const struct config *c);
/*
 * To be called now and then, every second or every hour. A certificate in the last quarter of its life that has fewer
 * than 30 days is said once, one with fewer than 7 days and one that is over once a day.
 */
void expiry_check(struct expiry *e);
/*
 * Whether a file now has a certificate that is not valid, where the one in force is: *errors gets a line for each,
 * "FILE: ...".
 */
bool expiry_would_end(const struct expiry *e, const struct config *c, struct buf *errors);
struct expiry_entry {
    const char *option, *path;
    int64_t not_after; /* seconds since 1970 */
    bool soon;         /* it has ended, or will: as expiry_check() says it */
};
/* True if the certificate of this option has ended: *out is that. */
bool expiry_is_over(const struct expiry *e, const char *option, struct expiry_entry *out);
void expiry_each(const struct expiry *e, void (*fn)(const struct expiry_entry *entry, void *arg), void *arg);

#endif
