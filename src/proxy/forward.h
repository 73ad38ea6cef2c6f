/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forwards the client's request to a server and relays the answer. If the answer is not to be believed
 * (proxy/answer.h), or there is none, the request is sent to the next server, as long as nothing was relayed to the
 * client.
 */
#ifndef MVPROXY_PROXY_FORWARD_H
#define MVPROXY_PROXY_FORWARD_H

#include "proxy/job.h"

/* To the local server. */
void forward_local(struct job *j);
/* To the route's candidates, from the first. */
void forward_peers(struct job *j);

#endif
