/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Metrics and log lines on when certificates expire.
 */
#ifndef MVPROXY_DAEMON_EXPIRY_H
#define MVPROXY_DAEMON_EXPIRY_H

#include "base/metric.h"
#include "daemon/config.h"

struct expiry;

struct expiry *expiry_new(struct metrics *m); /* ends the process when out of memory */
void expiry_free(struct expiry *e);
/* The certificates in the files of `c` are in use now. Checks them, as expiry_check(). */
void expiry_read(struct expiry *e, const struct config *c);
/*
 * To be called from time to time, every second or every hour. Logs a certificate once when it is in the last quarter of
 * its lifetime with fewer than 30 days left, and once a day with fewer than 7 days left or when it has expired.
 */
void expiry_check(struct expiry *e);
/*
 * Whether a file now has a certificate that has expired or is not valid yet, or CAs that have all expired, while what
 * is in use is valid. A line "FILE: ..." in *errors for each.
 */
bool expiry_would_end(const struct expiry *e, const struct config *c, struct buf *errors);
struct expiry_entry {
    const char *option, *path;
    int64_t not_after; /* seconds since 1970 */
    bool soon;         /* it has expired, or will soon: expiry_check() logs it */
};
/* True, with *out filled, if the certificate of this option has expired. */
bool expiry_is_over(const struct expiry *e, const char *option, struct expiry_entry *out);
void expiry_each(const struct expiry *e, void (*fn)(const struct expiry_entry *entry, void *arg), void *arg);

#endif
