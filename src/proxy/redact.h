/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removes what may be secret from request targets, for logs.
 */
#ifndef MVPROXY_PROXY_REDACT_H
#define MVPROXY_PROXY_REDACT_H

#include "base/buf.h"
#include "kube/reqinfo.h"

/*
 * Appends the target as the client sent it, without the values of query parameters other than kube-apiserver's own
 * harmless ones (exec's commands may hold passwords), without parameters that have no value or no plain name, and
 * without what follows a ';', '?' or '#', as it is or encoded. For the proxy subresource and non-resource paths all
 * values are left out, since any program may get a token there under any name. Truncated at the buffer's ceiling.
 */
void redact_target(struct slice target, const struct reqinfo *info, struct buf *out);
/* The beginning of a path, or of a part of one, that is no secret, decoded or not: up to a ';', '?' or '#'. */
struct slice redact_path(struct slice s);

#endif
