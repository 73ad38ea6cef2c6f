/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's request goes to a server as it is, and the answer to the client, if it is the truth; else to the next
 * server, as long as nothing was relayed.
 */
#ifndef MVPROXY_PROXY_FORWARD_H
#define MVPROXY_PROXY_FORWARD_H

#include "proxy/job.h"

/* To the local server. */
void forward_local(struct job *j);
/* To the route's candidates, from the first. */
void forward_peers(struct job *j);

#endif
