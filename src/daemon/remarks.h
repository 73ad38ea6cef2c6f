/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collects errors and warnings about a configuration, a line each: "file:line:column: option: what is wrong: what to
 * do". The place is the option's, or that of one entry of its list.
 */
#ifndef MVPROXY_DAEMON_REMARKS_H
#define MVPROXY_DAEMON_REMARKS_H

#include "daemon/config.h"

struct remarks {
    const struct config *c;
    struct buf *text;
    bool ok; /* set to false by an error, not by a warning */
};

enum { REMARKS_NAME_BYTES = 64 };

/*
 * Adds an error. `option` is a name of the option table, or "NAME[I]" for entry I (from 0) of its list. Nothing is
 * added for an option with an invalid value: that has been reported already.
 */
void remarks_wrong(struct remarks *r, const char *option, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Adds a warning: the line begins with "warning: ". */
void remarks_warn(struct remarks *r, const char *option, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Adds an error about an option that is not given, at the place of the option that needs it. */
void remarks_lacks(struct remarks *r, const char *option, const char *wanted_by, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Prints "NAME[I]" into out, and returns it. */
const char *remarks_entry(char out[REMARKS_NAME_BYTES], const char *option, size_t i);
bool remarks_is_given(const struct remarks *r, const char *option);
/* Whether the option's value is valid or the default. */
bool remarks_is_read(const struct remarks *r, const char *option);

#endif
