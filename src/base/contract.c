#include "base/contract.h"

#include <stdlib.h>

#include "base/log.h"

void contract_broken(const char *file, int line, const char *what)
{
    log_emit(LOG_FATAL, 0, file, line, "An invariant does not hold", LOG_KVS(LT("condition", what)));
    log_flush();
    abort();
}
