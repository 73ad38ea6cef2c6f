/* SPDX-License-Identifier: Apache-2.0 */
#include "base/state.h"

#include <stdlib.h>

#include "base/log.h"

static const char *name_of(const struct state_table *t, unsigned s)
{
    return s < t->count && t->names[s] != NULL ? t->names[s] : "unknown";
}

void state_illegal(const struct state_table *t, unsigned from, unsigned to, const char *file, int line)
{
    log_emit(LOG_FATAL, 0, file, line, "An illegal change of state",
             LOG_KVS(LT("of", t->what), LT("from", name_of(t, from)), LT("to", name_of(t, to))));
    abort();
}
