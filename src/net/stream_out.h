/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of streams: what was written, until the kernel has it.
 */
#ifndef MVPROXY_NET_STREAM_OUT_H
#define MVPROXY_NET_STREAM_OUT_H

#include "net/stream_internal.h"

void stream_out_init(struct stream *s);
/* Waits until the kernel has connected, or takes bytes again, and calls fn once. False when out of memory. */
bool stream_await_writable(struct stream *s, void (*fn)(evutil_socket_t fd, short what, void *arg));
/* Encodes what was gathered and sends what the kernel takes. */
void stream_flush(struct stream *s);
void stream_send_out(struct stream *s); /* only the sending */
/* Drops what is queued: the other side cannot take it any more. */
void stream_send_failed(struct stream *s, int error);

#endif
