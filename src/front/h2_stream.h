/*
 * One request of an HTTP/2 connection on its way in, and its life.
 */
#ifndef MVPROXY_FRONT_H2_STREAM_H
#define MVPROXY_FRONT_H2_STREAM_H

#include "front/h2_state.h"

MEM_CHECK struct h2_stream *h2_stream_new(struct h2_conn *c, int32_t id);
/* At the end of the turn. */
void h2_stream_free_later(struct h2_stream *st);
/* The head is complete; `ended`: so is the request. */
void h2_stream_request(struct h2_stream *st, bool ended);
void h2_stream_body(struct h2_stream *st, struct slice data);
/* The body is complete, and the trailers, if there are any. */
void h2_stream_end(struct h2_stream *st);
/* Gives the proxy what waits for it. */
void h2_stream_deliver(struct h2_stream *st);
/* The body is overdue. */
void h2_stream_stalled(struct h2_stream *st);
/* The client takes nothing of the answer. */
void h2_stream_not_taken(struct h2_stream *st);
/* What there is in st->out has become more or less. */
void h2_stream_out_changed(struct h2_stream *st);
/* nghttp2 has closed it. */
void h2_stream_closed(struct h2_stream *st, uint32_t code);
void h2_stream_reset(struct h2_stream *st, uint32_t code);

#endif
