/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a job goes: the router is asked, and asked again when a server's answer or failure shows that what was known is
 * out of date.
 */
#ifndef MVPROXY_PROXY_DECIDE_H
#define MVPROXY_PROXY_DECIDE_H

#include "proxy/job.h"

/* Into j->route. */
void decide_route(struct job *j);
/* The local server failed this request: true if it goes to peers now (row 5a); else the route stays as it is. */
bool decide_fail_over(struct job *j);
/*
 * Refreshes local discovery (coalesced); then the proxy acts on the job again (proxy->act). False: there is nothing to
 * wait for.
 */
bool decide_later(struct job *j);
/* The local server denies, for the first time, what we believed of it: that is read first, and then acted again. */
void decide_again(struct job *j, const struct gvr *denied);

#endif
