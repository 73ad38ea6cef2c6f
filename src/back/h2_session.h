/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What nghttp2 calls, for one HTTP/2 connection to a server.
 */
#ifndef MVPROXY_BACK_H2_SESSION_H
#define MVPROXY_BACK_H2_SESSION_H

#include "back/h2_call.h"

/* NULL when out of memory. The connection preface is queued. */
MEM_CHECK nghttp2_session *h2_client_session_new(struct h2_client *c);

#endif
