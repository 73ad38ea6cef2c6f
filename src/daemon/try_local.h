/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For `mvproxy -t` and reloads: if the local API server runs, checks whether apiserver-ca-file accepts its certificate.
 */
#ifndef MVPROXY_DAEMON_TRY_LOCAL_H
#define MVPROXY_DAEMON_TRY_LOCAL_H

#include "back/back.h"
#include "base/err.h"
#include "daemon/config.h"
#include "daemon/trust.h"

/* Returns the option that is wrong, with *err set, if the server's certificate is refused or an mvproxy answers. Else
 * NULL, also if the server does not answer, which may say nothing about the configuration (*err is set). Blocks for
 * three seconds at most. Logs. */
const char *try_local(const struct config *c, const struct trust *t, struct err *err);

/*
 * The same in a running loop, with an existing origin: fn is called once, never from inside, unless the trial is ended
 * before. The configuration must live until then. NULL when out of memory.
 */
struct local_trial;
typedef void local_trial_fn(void *arg, const char *option, const struct err *err);
MEM_CHECK struct local_trial *local_trial_begin(struct back *b, struct loop *l, const struct config *c,
                                                struct origin *local, local_trial_fn *fn, void *arg);
void local_trial_end(struct local_trial *t); /* NULL is fine */

#endif
