/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request of an HTTP/2 connection on its way in: to the proxy, or to an answer of ours.
 */
#ifndef MVPROXY_FRONT_H2_REQUEST_H
#define MVPROXY_FRONT_H2_REQUEST_H

#include "front/h2_state.h"

/* The head is complete; `ended`: so is the request. */
void h2_request_begin(struct h2_stream *st, bool ended);
void h2_request_body(struct h2_stream *st, struct slice data);
/* The body is complete, and the trailers, if there are any. */
void h2_request_end(struct h2_stream *st);
/* Gives the proxy what waits for it. */
void h2_request_deliver(struct h2_stream *st);
/* The body is overdue. */
void h2_request_stalled(struct h2_stream *st);

#endif
