/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is said of APIs elsewhere than in aggregated discovery: legacy discovery (`/api`, `/apis`, `/api/v1`,
 * `/apis/GROUP`,
 * `/apis/GROUP/VERSION`) and the index of schemas (`/openapi/v3`). It is the local server's answer, with what only
 * peers have; untouched where it lacks nothing. While the local server is away a peer's answer is completed in its
 * place.
 */
#ifndef MVPROXY_PROXY_HEAL_H
#define MVPROXY_PROXY_HEAL_H

#include "proxy/job.h"

/* Answers the request, which is a GET or HEAD for one of these paths; anything else goes to the local server. */
void heal(struct job *j);
/* What `legacy-discovery: off` leaves to the local server alone, also while it is away: a peer's answer would say what
 * the peer serves. */
bool heal_is_legacy_discovery(struct slice path);
/* For people: with which message a GET of that path is refused (503) as things stand; NULL: it is answered. `away`: the
 * local server is, and a live peer is asked in its place. */
const char *heal_outlook(const struct served *s, struct slice path, bool away);

#endif
