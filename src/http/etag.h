/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entity tags as kube-apiserver's discovery makes and compares them (pkg/endpoints/discovery/aggregated/etag.go).
 */
#ifndef MVPROXY_HTTP_ETAG_H
#define MVPROXY_HTTP_ETAG_H

#include "base/hash.h"
#include "http/head.h"

enum {
    ETAG_BYTES = 2 * HASH_SHA512_BYTES + 3, /* quotes and NUL included */
    ETAG_SHORT_BYTES = 12,
};

/* "\"" upper-case hex "\"", NUL-terminated. */
void etag_from_sha512(const unsigned char digest[HASH_SHA512_BYTES], char out[ETAG_BYTES]);
/* Exact equality of the first If-None-Match value with the quoted tag: no lists, no W/, no star. */
bool etag_matches(const struct http_head *request, struct slice etag);

/* The beginning of a tag without its quotes, for logs: enough to tell documents apart. */
struct slice etag_short(struct slice etag);

#endif
