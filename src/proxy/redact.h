/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What of a request target may stand in a log.
 */
#ifndef MVPROXY_PROXY_REDACT_H
#define MVPROXY_PROXY_REDACT_H

#include "base/buf.h"

/*
 * Appends the target as the client sent it, but with the values of query parameters that are not kube-apiserver's own
 * left out, what has no value or looks like no name as well, and what stands behind a ';': behind the proxy subresource
 * any program may be given a token there, and exec's commands hold passwords.
 * Cut off at the buffer's ceiling.
 */
void redact_target(struct slice target, struct buf *out);

#endif
