/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether two servers describe something alike. Servers before 1.27 give their own resources no singular name in legacy
 * discovery, which is all that there is of those before 1.26: one that is not given is no difference.
 */
#ifndef MVPROXY_KUBE_DISCO_SAME_H
#define MVPROXY_KUBE_DISCO_SAME_H

#include "kube/disco.h"

bool disco_resource_same(const struct disco_resource *a, const struct disco_resource *b);
/* All of their resources, in the same order. Looks at these only where nothing but singular names differs. */
bool disco_version_same(const struct disco_version *a, const struct disco_version *b);

#endif
