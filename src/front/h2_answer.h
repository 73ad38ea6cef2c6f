/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What goes out on one stream of an HTTP/2 connection.
 */
#ifndef MVPROXY_FRONT_H2_ANSWER_H
#define MVPROXY_FRONT_H2_ANSWER_H

#include "front/h2_state.h"

const struct exchange_ops *h2_answer_ops(void);
/* Answers a request that the proxy does not hold (any more). */
void h2_answer_refuse(struct h2_stream *st, unsigned status, const char *message);
/* nghttp2_data_source_read_callback and nghttp2_send_data_callback. */
ssize_t h2_answer_read(nghttp2_session *session, int32_t id, uint8_t *buf, size_t length, uint32_t *flags,
                       nghttp2_data_source *source, void *arg);
int h2_answer_send(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *head, size_t length,
                   nghttp2_data_source *source, void *arg);

#endif
