/*
 * The query part of a URL as Go's url.ParseQuery reads it: the health endpoints promise Kubernetes' behaviour.
 */
#ifndef MVPROXY_ADMIN_QUERY_H
#define MVPROXY_ADMIN_QUERY_H

#include "base/buf.h"

/*
 * Takes the next name=value off *rest and puts both, unescaped, NUL-terminated, into buffers of `size` bytes (longer
 * ones and bad escapes are skipped). A name without = has an empty value. False at the end.
 */
bool admin_query_next(struct slice *rest, char *name, char *value, size_t size);
bool admin_query_has(struct slice query, const char *name);

#endif
