/* SPDX-License-Identifier: Apache-2.0 */
/* What a support bundle says of the machine, and the last lines of the log: read here, not asked of the daemon. */
#ifndef MVPROXY_CTL_HOST_H
#define MVPROXY_CTL_HOST_H

#include <json-c/json.h>
#include <stdint.h>

#include "base/err.h"

/* Kernel, clock, memory and load of the machine; limits and control group of the process. Never NULL. */
struct json_object *host_facts(int64_t pid);
/* The last lines of the service's journal, as one text. NULL with *err: there is no journal here, or none may be read.
 */
struct json_object *host_log(struct err *err);

#endif
