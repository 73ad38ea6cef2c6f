/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What of a request target may stand in a log.
 */
#ifndef MVPROXY_PROXY_REDACT_H
#define MVPROXY_PROXY_REDACT_H

#include "base/buf.h"
#include "kube/reqinfo.h"

/*
 * Appends the target as the client sent it, but with the values of query parameters that are not kube-apiserver's own
 * left out, what has no value or looks like no name as well, and what stands behind a ';': exec's commands hold
 * passwords. Behind the proxy subresource, and where no resource is asked for, any program may be given a token by
 * whatever name: all values are left out there.
 * Cut off at the buffer's ceiling.
 */
void redact_target(struct slice target, const struct reqinfo *info, struct buf *out);

#endif
