/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does the way to the API server lead back here? That an mvproxy answers shows in the handshake (origin_refuses()), but
 * not through what ends TLS itself: a load balancer, a sidecar. So our own questions to an origin that is to be the
 * last carry a token of this process, which kube-apiserver ignores, and other mvproxies pass on. Requests of clients
 * never do: kube-apiserver hands unknown fields on to servers that could play them back.
 */
#ifndef MVPROXY_BACK_LOOP_TOKEN_H
#define MVPROXY_BACK_LOOP_TOKEN_H

#include "base/slice.h"

struct back;
struct origin;

#define LOOP_TOKEN_FIELD "X-Mvproxy-Loop-Check"
enum { LOOP_TOKEN_QUIET_MS = 5000 };

/* For a question of ours to it: the field's value, or "". None where aggregated API servers may get to see it. */
const char *loop_token_of(const struct origin *o, struct slice target);
/*
 * A request has come in with this value. True: it is ours. From then on clients' requests to the origin fail
 * (BACK_FAIL_LOOP), until a question of ours is answered by somebody else and none has come back for
 * LOOP_TOKEN_QUIET_MS.
 */
bool loop_token_came_back(struct origin *o, struct slice value);

/* For back/: once for each process; must a request (own: a question of ours) not be sent? */
void loop_token_make(struct back *b);
bool loop_token_refuses(const struct origin *o, bool own);
/* A question of ours was answered. 508 comes from an mvproxy on the way that goes round in it: kube-apiserver has none.
 */
void loop_token_answered(struct origin *o, unsigned status);

#endif
