/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of streams: the transport with TLS, and what can be asked about it.
 */
#ifndef MVPROXY_NET_STREAM_TLS_H
#define MVPROXY_NET_STREAM_TLS_H

#include "net/stream_internal.h"

const struct stream_ops *stream_tls_transport(void);
/* Before the transport starts. False when out of memory. */
bool stream_tls_init(struct stream *s, const struct stream_opts *o);
const char *tls_conn_alpn(const struct tls_conn *t);
bool tls_conn_is_hop(const struct tls_conn *t);
bool tls_conn_resumed(const struct tls_conn *t);
const struct tls_peer *tls_conn_peer(const struct tls_conn *t);
void tls_conn_judge_again(struct tls_conn *t, const struct tls_ctx *c);

#endif
