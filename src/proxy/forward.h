/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exchange ⇄ request to a server: bytes both ways with back-pressure, the next candidate while nothing was relayed.
 */
#ifndef MVPROXY_PROXY_FORWARD_H
#define MVPROXY_PROXY_FORWARD_H

#include "proxy/job.h"

/* To the local server. */
void forward_local(struct job *j);
/* To the route's candidates, from the first. */
void forward_peers(struct job *j);
/* The sink every job attaches. */
const struct exchange_sink *forward_sink(void);
/*
 * Starts `j->request` (which the caller has made) towards j->target with a handler of its own.
 * False when out of memory: the job is over.
 */
bool forward_start(struct job *j, const struct back_handler *handler, struct http_body body);
/* Relays a response's head to the client; used by whoever decided to pass an answer on. */
void forward_relay_head(struct job *j, const struct http_head *head, struct http_body body);
/* The local server denies what we believed of it, for the first time: reads its discovery, then decides anew. */
void forward_look_again(struct job *j, const struct gvr *denied);
/* The local server denies, for the first time, what we believed of it: reads its discovery, then decides anew. */
void forward_look_again(struct job *j, const struct gvr *denied);
/* Handlers for the rest of a relayed response. */
void forward_on_body(void *arg, struct slice data);
void forward_on_end(void *arg, const struct http_head *trailers);

#endif
