/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the header fields of HTTP/2 and the heads that everybody else knows.
 */
#ifndef MVPROXY_FRONT_H2_HEAD_H
#define MVPROXY_FRONT_H2_HEAD_H

#include "front/h2_state.h"

/* One field of the request's head or of its trailers. What is wrong is kept for h2_head_check(). */
void h2_head_field(struct h2_stream *st, struct slice name, struct slice value);
void h2_head_trailer(struct h2_stream *st, struct slice name, struct slice value);
/* There was no memory for a part of the request: it is refused, and told whose fault that is. */
void h2_head_no_room(struct h2_stream *st);
/* NULL if all is well, else what is wrong, with the status to answer. */
const char *h2_head_check(struct h2_stream *st, unsigned *status);
/* The fields of a response head in the arena, text shared; NULL: unfit to be sent, or out of memory. `n` becomes their
 * number. `body`: NONE adds no length. */
nghttp2_nv *h2_head_response(struct h2_stream *st, const struct http_head *head, struct http_body body, size_t *n);
nghttp2_nv *h2_head_trailers(struct h2_stream *st, const struct http_head *trailers, size_t *n);
/* Makes the text the arena's too. */
MEM_CHECK bool h2_head_keep(struct h2_stream *st, nghttp2_nv *nva, size_t n);

#endif
