/* SPDX-License-Identifier: Apache-2.0 */
#include "http/etag.h"

void etag_from_sha512(const unsigned char digest[HASH_SHA512_BYTES], char out[ETAG_BYTES])
{
    out[0] = '"';
    hash_hex(digest, HASH_SHA512_BYTES, true, out + 1);
    out[ETAG_BYTES - 2] = '"';
    out[ETAG_BYTES - 1] = '\0';
}

bool etag_matches(const struct http_head *request, struct slice etag)
{
    return etag.n > 0 && slice_eq(http_head_value(request, HTTP_IF_NONE_MATCH), etag);
}

struct slice etag_short(struct slice etag)
{
    if (slice_has_prefix(etag, SLICE_LIT("\"")))
        etag = slice_from(etag, 1);
    if (slice_has_suffix(etag, SLICE_LIT("\"")))
        etag.n--;
    return slice_of(etag.p, etag.n < ETAG_SHORT_BYTES ? etag.n : ETAG_SHORT_BYTES);
}
