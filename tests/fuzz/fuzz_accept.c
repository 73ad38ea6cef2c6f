/* SPDX-License-Identifier: Apache-2.0 */
/* Content negotiation over hostile Accept values: a decision is always made, within what is offered, twice the same. */
#include "fuzz/fuzz.h"
#include "http/negotiate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice in = slice_of((const char *)data, size);
    unsigned offers = fuzz_byte(&in) % 8u;
    struct negotiated n = negotiate_discovery(in, offers), again = negotiate_discovery(in, offers);
    struct slice value;

    must_hold(n.document == again.document);
    if (n.document != NEGOTIATE_LEGACY) {
        must_hold(n.format == again.format && slice_eq(n.profile, again.profile));
        must_hold(n.document != NEGOTIATE_V2BETA1 || (offers & NEGOTIATE_OFFER_V2BETA1) != 0);
        must_hold(n.format != NEGOTIATE_YAML || (offers & NEGOTIATE_OFFER_YAML) != 0);
        must_hold(n.format != NEGOTIATE_PROTOBUF || (offers & NEGOTIATE_OFFER_PROTOBUF) != 0);
        must_hold(negotiate_content_type(n.document, n.format).n > 0);
        must_hold(n.profile.p == NULL || (n.profile.p >= in.p && n.profile.p + n.profile.n <= in.p + in.n));
    }
    value = negotiate_query_value(in, SLICE_LIT("pretty"));
    must_hold(value.p == NULL || (value.p >= in.p && value.p + value.n <= in.p + in.n));
    return 0;
}
