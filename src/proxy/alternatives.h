/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a request that one server did not take, or failed, may be another's: what of it can be sent again, who is
 * left to be asked, and what that would cost. Asks only; proxy/forward acts.
 */
#ifndef MVPROXY_PROXY_ALTERNATIVES_H
#define MVPROXY_PROXY_ALTERNATIVES_H

#include "back/retry.h"
#include "proxy/job.h"

/* There are servers that might take what one did not: the client's body is worth keeping. */
bool alternatives_exist(const struct job *j);
/* What was taken of the client's body cannot be given to another server. */
bool alternatives_body_gone(const struct job *j);
/* Somebody has not been asked yet. The route's order: its candidates, the local server, those who are only starting. */
bool alternatives_left(const struct job *j);
bool alternatives_local_left(const struct job *j);    /* where it would serve this as well, and has not had it yet */
bool alternatives_starting_left(const struct job *j); /* a candidate has refused it for that, and was not asked again */
/* Peers may have what the local server refuses because it stops or only starts. */
bool alternatives_may_pass_on(const struct job *j);
/* The target's retry budget, as far as this client has a part in it: asked, and taken from. */
bool alternatives_affordable(const struct job *j);
void alternatives_spend(const struct job *j);
/* What becomes of a request that failed: docs/internals/retry.md. Counts a repetition that the budget refuses. */
enum retry_verdict alternatives_after(const struct job *j, const struct back_failure_info *f);

#endif
