/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides where a job goes, by route_decide(), and again when a server's answer or failure shows that what was known is
 * outdated.
 */
#ifndef MVPROXY_PROXY_DECIDE_H
#define MVPROXY_PROXY_DECIDE_H

#include "proxy/job.h"

/* For route_query: whether a peer takes connections and answers, as far as is known. */
bool decide_reachable(const struct served_peer *p, void *arg);
/* Fills j->route. */
void decide_route(struct job *j);
/* The same for what a peer has sent on, and is answered at once that another one may be asked: nothing is done with it,
 * but what it was for is counted and told like that of others. */
void decide_sent_back(struct job *j);
/* The local server failed this request. True: it goes to peers now, by j->route (row 5a). False: j->route is
 * unchanged. */
bool decide_fail_over(struct job *j);
/*
 * Polls local discovery (coalesced), after which proxy->act is called for the job. False: that is not possible (out of
 * memory), and nothing is called.
 */
bool decide_later(struct job *j);
/* What was known when the request came is outdated: has proxy->act decide by what is known now, as if it had just come.
 * Once for a job. */
void decide_anew(struct job *j);
/* The local server denied for the first time what its discovery lists: polls that, and then has proxy->act decide
 * anew. */
void decide_again(struct job *j, const struct gvr *denied);

#endif
