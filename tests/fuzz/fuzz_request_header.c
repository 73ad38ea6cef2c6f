/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a server says of front proxies and of clients' CAs (a ConfigMap), compared with what we believe. Whatever it
 * says, a difference is told in words, and what agrees has no more than its words.
 */
#include "fuzz/fuzz.h"
#include "kube/request_header.h"

#define CA "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"

static bool has_ended(struct slice certificate)
{
    return slice_has_suffix(certificate, SLICE_LIT("-----END CERTIFICATE-----")) && certificate.n % 2 == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"front-proxy-client", NULL};
    struct slice in = slice_of((const char *)data, size);
    struct request_header ours = {.headers = user_headers_default(),
                                  .names = names,
                                  .ca = SLICE_LIT(CA),
                                  .client_ca = SLICE_LIT(CA),
                                  .ended = has_ended};
    struct arena *a = arena_new(1 << 20);
    struct user_headers named = {0};
    struct err err;

    err_clear(&err);
    must_hold((request_header_compare(&ours, in, &err) == REQUEST_HEADER_AGREES) == !err_is_set(&err));
    err_clear(&err);
    must_hold(request_header_client_ca(&ours, in, &err) < REQUEST_HEADER_MORE || err_is_set(&err));
    if (a != NULL && request_header_named(in, a, &named))
        must_hold(named.username != NULL && named.group != NULL && named.extra_prefix != NULL && named.uid != NULL);
    arena_free(a);
    return 0;
}
