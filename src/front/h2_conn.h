/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server side of one HTTP/2 connection (RFC 9113): many requests at once, each as an exchange. nghttp2 does the
 * frames, the states of streams and the header compression.
 */
#ifndef MVPROXY_FRONT_H2_CONN_H
#define MVPROXY_FRONT_H2_CONN_H

#include "front/front_conn.h"

/* Takes over fc->stream, which is open, and sets fc->ops and fc->protocol. False when out of memory. */
MEM_CHECK bool h2_conn_start(struct front_conn *fc);

#endif
