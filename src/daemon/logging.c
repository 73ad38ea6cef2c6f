/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/logging.h"

#include "base/log.h"

void logging_apply(const struct config *c)
{
    log_set_verbosity((int)c->v);
    log_set_format(strcmp(c->logging_format, "json") == 0 ? LOG_JSON : LOG_TEXT);
}
