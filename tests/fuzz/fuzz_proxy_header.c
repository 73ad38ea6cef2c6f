/* SPDX-License-Identifier: Apache-2.0 */
/* The PROXY protocol: however it is cut it says the same, and nothing behind it is taken. */
#include "fuzz/fuzz.h"
#include "net/proxy_header.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice in = slice_of((const char *)data, size);
    struct proxy_header whole, part;
    enum proxy_header_verdict v = proxy_header_parse(in, &whole);

    must_hold(v != PROXY_HEADER_MORE || size < PROXY_HEADER_MAX);
    must_hold(v != PROXY_HEADER_OK || (whole.bytes <= size && whole.bytes >= 15 && whole.bytes <= PROXY_HEADER_MAX));
    for (size_t n = 0; n < size && n < 200; n++) {
        enum proxy_header_verdict early = proxy_header_parse(slice_of(in.p, n), &part);

        if (early == PROXY_HEADER_MORE)
            must_hold(v != PROXY_HEADER_OK || n < whole.bytes);
        else
            must_hold(early == v && (v != PROXY_HEADER_OK || memcmp(&part, &whole, sizeof(part)) == 0));
    }
    return 0;
}
