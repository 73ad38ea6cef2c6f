/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completes the other documents about APIs than aggregated discovery: legacy discovery (`/api`, `/apis`, `/api/v1`,
 * `/apis/GROUP`, `/apis/GROUP/VERSION`) and the index of schemas (`/openapi/v3`). The client gets the local server's
 * answer with what only peers have added, or unchanged if it lacks nothing. While the local server is away, a peer's
 * answer is completed instead.
 */
#ifndef MVPROXY_PROXY_HEAL_H
#define MVPROXY_PROXY_HEAL_H

#include "proxy/job.h"

/* Answers the request, if it is for one of these paths; anything else is forwarded to the local server. Only for GET
 * and HEAD. */
void heal(struct job *j);
/* Whether the path is legacy discovery, which `legacy-discovery: off` leaves to the local server alone, also while that
 * is away: a peer's answer would be about what the peer serves. */
bool heal_is_legacy_discovery(struct slice path);
/* It is 503 until all peers have been asked once. */
bool heal_waits_for_peers(struct slice path);

#endif
