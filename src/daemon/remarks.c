/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/remarks.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/options.h"

static struct slice name_of(const char *option)
{
    return slice_of(option, strcspn(option, "["));
}

/* NULL: neither given nor known. */
static const struct config_origin *origin_of(const struct config *c, const char *option)
{
    const struct option *o = options_find(name_of(option));

    return o == NULL || c->origins == NULL ? NULL : &c->origins[options_index(o)];
}

static const struct config_place *place_of(const struct config_origin *o, const char *option)
{
    const char *bracket = strchr(option, '[');
    size_t i = bracket == NULL ? 0 : strtoul(bracket + 1, NULL, 10);

    return bracket != NULL && i < o->n_entries ? &o->entries[i] : &o->place;
}

static void put(struct remarks *r, const char *place, const char *option, const char *fmt, va_list ap)
    __attribute__((format(printf, 4, 0)));
static void put(struct remarks *r, const char *place, const char *option, const char *fmt, va_list ap)
{
    const struct config_origin *at = origin_of(r->c, place);
    struct slice name = name_of(option);

    if (at != NULL && at->given)
        config_put_place(r->text, place_of(at, place));
    buf_printf(r->text, "%.*s: ", (int)name.n, name.p);
    buf_vprintf(r->text, fmt, ap);
    buf_append_char(r->text, '\n');
}

bool remarks_is_given(const struct remarks *r, const char *option)
{
    const struct config_origin *o = origin_of(r->c, option);

    return o != NULL && o->given;
}

bool remarks_is_read(const struct remarks *r, const char *option)
{
    const struct config_origin *o = origin_of(r->c, option);

    return o == NULL || !o->unread;
}

void remarks_wrong(struct remarks *r, const char *option, const char *fmt, ...)
{
    va_list ap;

    r->ok = false;
    if (!remarks_is_read(r, option))
        return;
    va_start(ap, fmt);
    put(r, option, option, fmt, ap);
    va_end(ap);
}

void remarks_warn(struct remarks *r, const char *option, const char *fmt, ...)
{
    va_list ap;

    if (!remarks_is_read(r, option))
        return;
    buf_append_str(r->text, "warning: ");
    va_start(ap, fmt);
    put(r, option, option, fmt, ap);
    va_end(ap);
}

void remarks_lacks(struct remarks *r, const char *option, const char *wanted_by, const char *fmt, ...)
{
    va_list ap;

    r->ok = false;
    if (!remarks_is_read(r, option))
        return;
    va_start(ap, fmt);
    put(r, wanted_by, option, fmt, ap);
    va_end(ap);
}

const char *remarks_entry(char out[REMARKS_NAME_BYTES], const char *option, size_t i)
{
    (void)snprintf(out, REMARKS_NAME_BYTES, "%s[%zu]", option, i);
    return out;
}
