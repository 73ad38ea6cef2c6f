/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `mvproxy -t` where the local API server runs already: does it show what apiserver-ca-file has signed?
 */
#ifndef MVPROXY_DAEMON_TRY_LOCAL_H
#define MVPROXY_DAEMON_TRY_LOCAL_H

#include "base/err.h"
#include "daemon/config.h"
#include "daemon/trust.h"

/* The option that is wrong, with *err, if its certificate is refused or an mvproxy answers; else NULL: a server that
 * does not answer, for whatever reason, says nothing of the configuration. Waits for three seconds at most. Logs. */
const char *try_local(const struct config *c, const struct trust *t, struct err *err);

#endif
