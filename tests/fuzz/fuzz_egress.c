/* SPDX-License-Identifier: Apache-2.0 */
/* The egress selector's file: a refusal says why, with a place; what is accepted can be used. */
#include "daemon/egress_file.h"
#include "fuzz/fuzz.h"

static void check_selection(const struct egress_selection *s, enum egress_name name)
{
    if (!s->given)
        return;
    must_hold(s->ca_bundle.text != NULL && s->client_cert.text != NULL && s->client_key.text != NULL);
    must_hold(s->server_name.text != NULL);
    must_hold(s->protocol != EGRESS_GRPC || name == EGRESS_CLUSTER);
    if (s->protocol != EGRESS_HTTP_CONNECT)
        return;
    must_hold(s->host != NULL && s->host[0] != '\0');
    must_hold(strncmp(s->host, "unix:", 5) == 0 ? !s->tls && strlen(s->host) < 113 : s->port > 0 && s->port < 65536);
    must_hold(!s->tls || (s->client_cert.text[0] != '\0' && s->client_key.text[0] != '\0'));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *a = arena_new(16 << 20);
    struct egress e;
    struct buf errors;
    bool good;

    must_hold(a != NULL);
    buf_init(&errors, 8 << 20);
    good = egress_file_parse("F", slice_of((const char *)data, size), a, &e, &errors);
    must_hold(good == (buf_len(&errors) == 0));
    must_hold(good || memcmp(buf_slice(&errors).p, "F:", 2) == 0);
    for (unsigned i = 0; good && i < EGRESS_NAMES; i++)
        check_selection(&e.of[i], (enum egress_name)i);
    buf_free(&errors);
    arena_free(a);
    return 0;
}
