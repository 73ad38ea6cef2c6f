/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What both ends of an HTTP/2 connection (front/h2_*, back/h2_*) need of header fields.
 */
#ifndef MVPROXY_HTTP_H2_FIELDS_H
#define MVPROXY_HTTP_H2_FIELDS_H

#include <nghttp2/nghttp2.h>

#include "http/head.h"

/* RFC 9113 6.5.2: what a field counts for besides its text. */
enum { H2_FIELD_OVERHEAD = 32 };

/* nghttp2 writes names in lower case when it copies them. */
nghttp2_nv h2_nv(struct slice name, struct slice value);
/* Appends the field unless it is of an HTTP/1.1 connection or frames its messages (RFC 9113 8.2.2, Content-Length).
 * False: it must not be sent, name or value are no such thing. */
bool h2_put_field(nghttp2_nv *nva, size_t *n, const struct http_field *f);
/* All of the head's; nva must have room for them. */
bool h2_put_fields(nghttp2_nv *nva, size_t *n, const struct http_head *head);

#endif
