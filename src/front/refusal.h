/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a connection answers by itself, before or without the proxy (400, 408, 431, 503 …): the same for every protocol.
 */
#ifndef MVPROXY_FRONT_REFUSAL_H
#define MVPROXY_FRONT_REFUSAL_H

#include "front/front_conn.h"

enum { REFUSAL_FIELDS = 2 };

/*
 * Fills in a head over `fields` (REFUSAL_FIELDS of them, which must live as long) and appends the body. 429 and 503
 * carry Retry-After: nothing was done for the request yet.
 */
void refusal_make(const struct front_host *h, unsigned status, const char *message, struct http_field *fields,
                  struct http_head *head, struct buf *body);

#endif
