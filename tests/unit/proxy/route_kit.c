/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/proxy/route_kit.h"

struct origin *origin_ref(struct origin *o)
{
    return o;
}

void origin_unref(struct origin *o)
{
    (void)o;
}

bool route_kit_is_healthy(const struct served_peer *p, void *arg)
{
    (void)arg;
    return p->origin->healthy;
}
