/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream of an HTTP/2 connection: its life, its end, and what is counted of it.
 */
#ifndef MVPROXY_FRONT_H2_STREAM_H
#define MVPROXY_FRONT_H2_STREAM_H

#include "front/h2_state.h"

MEM_CHECK struct h2_stream *h2_stream_new(struct h2_conn *c, int32_t id, const struct exchange_ops *ops);
/* At the end of the turn. */
void h2_stream_free_later(struct h2_stream *st);
/* Has h2_conn.c look again at this stream, later in this turn or in the next. */
void h2_stream_wake(struct h2_stream *st);
/* The functions that change st->sending and st->receiving. */
void h2_stream_send(struct h2_stream *st, enum h2_sending to);
void h2_stream_receive(struct h2_stream *st, enum h2_receiving to);
/* The client takes nothing of the answer. */
void h2_stream_not_taken(struct h2_stream *st);
/* What there is in st->out has become more or less. */
void h2_stream_out_changed(struct h2_stream *st);
/* nghttp2 has closed it. */
void h2_stream_closed(struct h2_stream *st, uint32_t code);
void h2_stream_reset(struct h2_stream *st, uint32_t code);
enum { H2_ANSWERED_MS = 100 };
/*
 * The whole answer is out, and the client may spare itself the rest of its body (RFC 9113 8.1): it is told so with a
 * reset, H2_ANSWERED_MS later. Who reads both at once may take the reset for the end of the stream and not look
 * at the answer (curl 7.88).
 */
void h2_stream_answered(struct h2_stream *st);

#endif
