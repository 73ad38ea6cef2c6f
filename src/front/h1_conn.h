/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server side of one HTTP/1.1 connection (RFC 9112): requests one after the other, each as an exchange.
 *
 * While a request is being served the next one waits unread in the stream's bounded input; the stream itself is never
 * paused, so that a client that leaves is noticed at once (it cannot be only when it has sent LIMIT_STREAM_INPUT bytes
 * ahead). As in Go's server, the end of the client's direction during a request means that the client is gone.
 */
#ifndef MVPROXY_FRONT_H1_CONN_H
#define MVPROXY_FRONT_H1_CONN_H

#include "front/front_conn.h"

/* Takes over fc->stream, which is open, and sets fc->ops and fc->protocol. False when out of memory. */
MEM_CHECK bool h1_conn_start(struct front_conn *fc);

#endif
