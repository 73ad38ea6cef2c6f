/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bounded error text for code that reports to people (configuration, start-up, parsing of files). The first text
 * wins: what is added later is context, not cause.
 */
#ifndef MVPROXY_BASE_ERR_H
#define MVPROXY_BASE_ERR_H

#include <stdbool.h>

struct err {
    char text[512];
};

static inline void err_clear(struct err *e)
{
    e->text[0] = '\0';
}
static inline bool err_is_set(const struct err *e)
{
    return e->text[0] != '\0';
}
/* Sets the text unless one is set; e may be NULL. Always returns false, so that `return err_set(...)` reads well. */
bool err_set(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
