/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/2 connections to one origin of one kind (pool.h).
 *
 * A connection belongs to a class: one with the front-proxy certificate to all users, because who asks stands in the
 * request; one without only to requests with the same Authorization, compared in full. A request without either goes
 * over HTTP/1.1 (kube-apiserver ends HTTP/2 connections on 401: UnauthenticatedHTTP2DOSMitigation), and so does one for
 * which there is no HTTP/2 connection to be had, as the first one of a token. Connections are opened as the streams of
 * those that are there fill up.
 */
#ifndef MVPROXY_BACK_H2_POOL_H
#define MVPROXY_BACK_H2_POOL_H

#include "back/pool.h"

/* May the request go over HTTP/2? Its body is not too long, and it does not change protocols. */
bool h2_pool_serves(const struct back_request *r);
/* Gives the request a stream, or has it wait for a connection. Failures come later. False: over HTTP/1.1, then. */
bool h2_pool_take(struct pool *p, struct back_request *r);
/* Gives some of those who wait what there is for them, and more of them in the next turn. */
void h2_pool_place_waiting(struct pool *p);
/* Closes connections without streams. */
void h2_pool_close_idle(struct pool *p, enum close_reason why);
/* Has each connection prove that the server is there. */
void h2_pool_doubt(struct pool *p);
/* As request_give_up(), of those over HTTP/2 or that wait for it. */
void h2_pool_give_up(struct pool *p, struct giving_up *g);
/* Cancels all requests, closes all connections. */
void h2_pool_drop_all(struct pool *p);

#endif
