/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `mvproxy -t`, and a reload, where the local API server runs already: does it show what apiserver-ca-file has signed?
 */
#ifndef MVPROXY_DAEMON_TRY_LOCAL_H
#define MVPROXY_DAEMON_TRY_LOCAL_H

#include "back/back.h"
#include "base/err.h"
#include "daemon/config.h"
#include "daemon/trust.h"

/* The option that is wrong, with *err, if its certificate is refused or an mvproxy answers; else NULL: a server that
 * does not answer, for whatever reason, says nothing of the configuration. Waits for three seconds at most. Logs. */
const char *try_local(const struct config *c, const struct trust *t, struct err *err);

/*
 * The same with a loop and an origin that are there: fn is called once, never from inside this call, unless it is ended
 * before. The configuration must live until then. NULL when out of memory.
 */
struct local_trial;
typedef void local_trial_fn(void *arg, const char *option, const struct err *err);
MEM_CHECK struct local_trial *local_trial_begin(struct back *b, struct loop *l, const struct config *c,
                                                struct origin *local, local_trial_fn *fn, void *arg);
void local_trial_end(struct local_trial *t); /* NULL is nothing */

#endif
