/* SPDX-License-Identifier: Apache-2.0 */
#include "base/state.h"

#include <stdio.h>

#include "base/contract.h"

static const char *name_of(const struct state_table *t, unsigned s)
{
    return s < t->count && t->names[s] != NULL ? t->names[s] : "unknown";
}

void state_illegal(const struct state_table *t, unsigned from, unsigned to, const char *file, int line)
{
    char what[160];

    (void)snprintf(what, sizeof(what), "%s: a change of state from %s to %s", t->what, name_of(t, from),
                   name_of(t, to));
    contract_broken(file, line, what);
}
