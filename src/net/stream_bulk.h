/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of streams: the order of those that move much (docs/internals/stream.md).
 */
#ifndef MVPROXY_NET_STREAM_BULK_H
#define MVPROXY_NET_STREAM_BULK_H

#include "net/stream_internal.h"

/* To be asked before a look into the kernel. True: not now; read_now() follows when it is this stream's turn. */
bool stream_read_later(struct stream *s);
/* A look has brought n bytes. */
void stream_received(struct stream *s, size_t n);
void stream_bulk_init(struct stream *s);

#endif
