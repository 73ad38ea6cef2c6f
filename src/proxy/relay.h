/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exchange ⇄ request to a server: its head rewritten, bytes both ways with back-pressure. Which server, and what its
 * answer means, is for those above.
 */
#ifndef MVPROXY_PROXY_RELAY_H
#define MVPROXY_PROXY_RELAY_H

#include "proxy/job.h"

/* The sink that every job attaches. */
const struct exchange_sink *relay_sink(void);
/*
 * Makes j->request of the client's, for a peer or (NULL) the local server. `if_ready`: the peer shall rather refuse
 * than let a server answer that is only starting. False: the job is over.
 */
bool relay_rewrite(struct job *j, const struct served_peer *to, bool if_ready);
/* Sends j->request there, or the job is over. */
void relay_start(struct job *j, const struct served_peer *to, const struct back_handler *handler,
                 struct http_body body);
/* Relays a response's head to the client, who gets the rest as well then: JOB_RELAYING, or the job is over. */
void relay_head(struct job *j, const struct http_head *head, struct http_body body);
/* A response that was held back, and what came of its body so far. False: the job is over. */
bool relay_held(struct job *j, const struct http_head *head, struct http_body body, struct slice bytes);
/* Of a back_handler; arg is the job. */
void relay_interim(void *arg, const struct http_head *head);
void relay_body(void *arg, struct slice data);
void relay_end(void *arg, const struct http_head *trailers);
void relay_writable(void *arg);

#endif
