/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Upgraded requests: when the server answers 101, the exchange and the request to the server become a tunnel.
 */
#ifndef MVPROXY_PROXY_UPGRADE_H
#define MVPROXY_PROXY_UPGRADE_H

#include "proxy/job.h"

/* back_handler.on_upgraded of forwarded requests; arg is the job. */
void upgrade_on_upgraded(void *arg, const struct http_head *head, struct stream *server);
/* Ends the n oldest tunnels; returns how many. */
size_t upgrade_end_oldest(struct proxy *p, size_t n);

#endif
