/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joins a client's exchange and a request to a server: rewrites heads, and passes bodies both ways with back-pressure.
 * Callers choose the server and judge its answer.
 */
#ifndef MVPROXY_PROXY_RELAY_H
#define MVPROXY_PROXY_RELAY_H

#include "proxy/job.h"

/* The exchange_sink of every job. Static. */
const struct exchange_sink *relay_sink(void);
/*
 * Makes j->request from the client's request, for a peer or (NULL) the local server. `if_ready`: asks the peer's
 * mvproxy to refuse if its server is only starting. False: the job is over.
 */
bool relay_rewrite(struct job *j, const struct served_peer *to, bool if_ready);
/* Sends j->request there; if that fails, the job is over. */
void relay_start(struct job *j, const struct served_peer *to, const struct back_handler *handler,
                 struct http_body body);
/* Relays a response's head, after which the state is JOB_RELAYING and the rest goes to the client as well. False: the
 * job is over. */
bool relay_head(struct job *j, const struct http_head *head, struct http_body body);
/* Relays a response that was held back, with the part of its body that has arrived. False: the job is over. */
bool relay_held(struct job *j, const struct http_head *head, struct http_body body, struct slice bytes);
/* Functions for a back_handler; arg is the job. */
void relay_interim(void *arg, const struct http_head *head);
void relay_body(void *arg, struct slice data);
void relay_end(void *arg, const struct http_head *trailers);
void relay_writable(void *arg);

#endif
