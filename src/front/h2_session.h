/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What nghttp2 calls: the frames of one HTTP/2 connection, in and out.
 */
#ifndef MVPROXY_FRONT_H2_SESSION_H
#define MVPROXY_FRONT_H2_SESSION_H

#include "front/h2_state.h"

/* NULL when out of memory. The connection preface is queued. */
MEM_CHECK nghttp2_session *h2_session_new(struct h2_conn *c);

#endif
