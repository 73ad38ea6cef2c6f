/* SPDX-License-Identifier: Apache-2.0 */
/* What the index of schemas (/openapi/v3) of all servers is made of. */
#ifndef MVPROXY_PROXY_HEAL_SCHEMAS_H
#define MVPROXY_PROXY_HEAL_SCHEMAS_H

#include "kube/schema_merge.h"

struct job;

/* The indexes of everybody, those who say the same once. The array lives in the exchange's arena. False: no memory. */
bool heal_schemas_gather(const struct job *j, struct schema_merge *m);
/* Whether the local server's own may lack something. Of many it is not known before they are merged, in steps. */
bool heal_schemas_lacking(const struct job *j);

#endif
