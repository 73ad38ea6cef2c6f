/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collects for a snapshot what is known of all servers together, and says of what is not known what that means: whose
 * APIs may be anybody's (503) or nobody's (404), what is Stale, who vouches for custom resources while the local server
 * cannot. Nothing unknown counts for ever: each has its time, and there is another snapshot when one is over.
 */
#ifndef MVPROXY_CLUSTER_SURVEY_H
#define MVPROXY_CLUSTER_SURVEY_H

#include "cluster/cluster_env.h"
#include "cluster/served.h"

struct local;
struct peer_side;
struct survey;

/* Ends the process when out of memory. */
struct survey *survey_new(const struct cluster_env *env, const struct local *local, const struct peer_side *side);
void survey_free(struct survey *s);                          /* NULL is fine */
bool survey_take(struct survey *s, struct served_input *in); /* publish_opts.collect */
/* The Leases can be followed from now on, or cannot, for all that the watch or readiness says. */
void survey_note_leases(struct survey *s);
uint64_t survey_leases_ms(const struct survey *s); /* since that changed */
/* In the last one nobody knew what CRDs and aggregated APIs there are. */
bool survey_doubtful(const struct survey *s);

#endif
