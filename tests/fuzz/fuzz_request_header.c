/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a server says of front proxies and of clients' CAs (a ConfigMap), compared with what we believe. Whatever it
 * says, a difference is told in words, and what agrees has no more than its words.
 */
#include "fuzz/fuzz.h"
#include "kube/request_header.h"

#define CA "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"front-proxy-client", NULL};
    struct slice in = slice_of((const char *)data, size);
    struct request_header ours = {.headers = user_headers_default(), .names = names, .ca = SLICE_LIT(CA)};
    struct err err;

    err_clear(&err);
    must_hold((request_header_compare(&ours, in, &err) == REQUEST_HEADER_AGREES) == !err_is_set(&err));
    err_clear(&err);
    must_hold(request_header_client_ca(SLICE_LIT(CA), in, &err) != REQUEST_HEADER_DIFFERS || err_is_set(&err));
    return 0;
}
