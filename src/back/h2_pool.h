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

struct h2_client;

/* May the request go over HTTP/2? Its body is not too long, and it does not change protocols. */
bool h2_pool_serves(const struct back_request *r);
/* Gives the request a stream, or has it wait for a connection; over HTTP/1.1 if that cannot be. Failures come later. */
void h2_pool_take(struct pool *p, struct back_request *r);
/* A new request: what it has to do with others, before it is placed. */
void h2_pool_count(struct back_request *r);
/* The request's final head is here: remembers whether its token was taken. */
void h2_pool_answered(const struct back_request *r);
/* The server has spoken: those who wait get their streams. */
void h2_pool_opened(struct h2_client *c);
/* The server does not speak HTTP/2, or takes no streams: those who wait, and who come soon, go over HTTP/1.1. */
void h2_pool_refused(struct h2_client *c);
/* No mvproxy is there: those who wait go over another connection, without certificate. */
void h2_pool_not_a_hop(struct h2_client *c);
/* Never became usable: those who wait fail. */
void h2_pool_failed(struct h2_client *c, const char *failure);
/* The connection is over: counts it, logs why. */
void h2_pool_forget(struct h2_client *c, enum close_reason why, const char *detail);
/* Closes connections without streams. */
void h2_pool_close_idle(struct pool *p, enum close_reason why);
/* Cancels all requests, closes all connections. */
void h2_pool_drop_all(struct pool *p);

#endif
