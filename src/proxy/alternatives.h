/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a request that one server refused or failed can be sent to another one: whether it can be sent again, which
 * servers are left, and whether the retry budget allows it. Sends nothing; proxy/forward does.
 */
#ifndef MVPROXY_PROXY_ALTERNATIVES_H
#define MVPROXY_PROXY_ALTERNATIVES_H

#include "back/retry.h"
#include "proxy/job.h"

/* Whether other servers may take the request if one does not, so that the client's body is kept. */
bool alternatives_exist(const struct job *j);
/* Whether the mvproxy that sent it on asks another one, if it hears that the server here is not ready. */
bool alternatives_of_sender(const struct job *j);
/* Whether part of the client's body was sent to a server and not kept, so that no other server can get it. */
bool alternatives_body_gone(const struct job *j);
/* Whether a server is left to be asked. Order: the route's candidates, the local server, candidates that were only
 * starting. */
bool alternatives_left(const struct job *j);
bool alternatives_local_left(const struct job *j);    /* it serves this as well, and was not tried yet */
bool alternatives_starting_left(const struct job *j); /* a candidate was starting, and was not asked again */
/* Whether a peer may be asked after the local server refused the request because it is stopping or starting. */
bool alternatives_may_pass_on(const struct job *j);
/* Whether the target's retry budget allows this client a retry, and taking one from it. */
bool alternatives_affordable(const struct job *j);
void alternatives_spend(const struct job *j);
/* The verdict on a request that failed, by the rules of docs/internals/retry.md. Counts a retry that the budget
 * refuses. */
enum retry_verdict alternatives_after(const struct job *j, const struct back_failure_info *f);

#endif
