/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hop-by-hop rules: what ends at us and what goes on (RFC 9110 section 7.6.1).
 */
#ifndef MVPROXY_HTTP_HOP_H
#define MVPROXY_HTTP_HOP_H

#include "http/head.h"

/*
 * Appends the end-to-end fields of `from` to `to` (text is shared, not copied). Dropped: Connection and what it names,
 * Keep-Alive, Proxy-Connection, Proxy-Authenticate, Proxy-Authorization, TE, Trailer, Transfer-Encoding, Upgrade and
 * Content-Length (whoever writes the message frames it anew). `Connection` cannot be used to remove fields that are
 * end-to-end by their nature (Host, Authorization, Content-Type, Impersonate-* …). False when out of memory or too many
 * fields.
 */
MEM_CHECK bool hop_copy(const struct http_head *from, struct http_head *to, struct arena *a);
/* How many fields say as whom the request is to be carried out (Impersonate-*): they never end here. */
unsigned hop_impersonations(const struct http_head *head);
/* Does any Connection field list this option (case-insensitive)? */
bool hop_connection_has(const struct http_head *head, struct slice option);
/* HTTP/1.1 with Connection: upgrade and an Upgrade field of protocols other than HTTP and TLS (RFC 9110 7.8 lets us
 * ignore those; kube-apiserver has none). */
bool hop_wants_upgrade(const struct http_head *request);
/* Is this 101 what hop_wants_upgrade() means, and to nothing that the request has not offered (RFC 9110 7.8)? */
bool hop_accepts_upgrade(const struct http_head *request, const struct http_head *response);
/* May this name stand in trailers? Not framing, routing, authentication, or hop-by-hop (RFC 9110 6.5.1). */
bool hop_trailer_allowed(struct slice name);
/* The address of an element of X-Forwarded-For, which some write with brackets or a port; empty: it is none. */
struct slice hop_bare_address(struct slice element);
/*
 * The addresses of all X-Forwarded-For values in order, bare, with client_ip appended; p is NULL when out of memory. An
 * empty ip adds nothing. kube-apiserver leaves out what it cannot read, and each then seems to be the one on its left:
 * so what stands left of no address is dropped. Of more than LIMIT_FORWARDED_BYTES the nearest stay, on the right: the
 * farthest ones are anybody's word.
 */
MEM_CHECK struct slice hop_forwarded_for(const struct http_head *request, struct slice client_ip, struct arena *a);

#endif
