/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/config.h"

#include <stdarg.h>

void config_put_place(struct buf *errors, const struct config_place *place)
{
    if (place->file != NULL)
        buf_printf(errors, "%s:%zu:%zu: ", place->file, place->line, place->column);
    else
        buf_append_str(errors, "command line: ");
}

void config_complain(struct buf *errors, const struct config_place *place, const char *fmt, ...)
{
    va_list ap;

    config_put_place(errors, place);
    va_start(ap, fmt);
    buf_vprintf(errors, fmt, ap);
    va_end(ap);
    buf_append_char(errors, '\n');
}

void config_free(struct config *c)
{
    if (c == NULL)
        return;
    if (c->arena != NULL)
        arena_free(c->arena);
    mem_free(c);
}
