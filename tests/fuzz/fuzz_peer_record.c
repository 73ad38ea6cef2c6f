/* SPDX-License-Identifier: Apache-2.0 */
/* Peer endpoint records: what is taken is an address, whatever it was written as, and reads the same when it is
 * printed. */
#include <arpa/inet.h>

#include "fuzz/fuzz.h"
#include "kube/pbread.h"
#include "kube/peer_record.h"

static void walk(struct slice in)
{
    struct pbread r;
    struct pb_field f;

    pbread_init(&r, in);
    while (pbread_next(&r, &f)) {
        must_hold(f.number > 0 && f.number < 1u << 29);
        must_hold(f.wire != PB_BYTES || (f.bytes.p >= in.p && f.bytes.p + f.bytes.n <= in.p + in.n) || f.bytes.n == 0);
    }
    must_hold(r.error != NULL || r.rest.n == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice in = slice_of((const char *)data, size), id;
    struct peer_record r, again;
    unsigned char bytes[16];
    struct err err;
    struct buf out;

    walk(in);
    id = peer_record_key_id(SLICE_LIT("/registry"), in);
    must_hold(id.p == NULL || server_id_valid(id));
    err_clear(&err);
    if (!peer_record_parse(in, &r, &err)) {
        must_hold(err_is_set(&err));
        return 0;
    }
    must_hold(server_id_valid(slice_str(r.id)) && r.port != 0);
    must_hold(inet_pton(strchr(r.ip, ':') != NULL ? AF_INET6 : AF_INET, r.ip, bytes) == 1);
    buf_init(&out, PEER_RECORD_BYTES);
    must_hold(peer_record_print(&r, &out) && peer_record_parse(buf_slice(&out), &again, NULL));
    must_hold(peer_record_same_address(&r, &again) && strcmp(r.id, again.id) == 0);
    buf_free(&out);
    return 0;
}
