/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of etcd's JSON gateway: whole ones and lines of a watch. */
#include "base/base64.h"
#include "fuzz/fuzz.h"
#include "kube/etcd_json.h"

/* Every pair is bounded, comes in turn, and an error is the end. */
static void walk(struct etcd_kvs *i, size_t size)
{
    struct etcd_kv kv;
    struct buf text;
    size_t n = 0;

    while (etcd_kvs_next(i, &kv)) {
        must_hold(n++ < size);
        must_hold(kv.key.n + kv.value.n < size);
        buf_init(&text, 2 * size + 8);
        must_hold(base64_append(&text, kv.value));
        buf_free(&text);
    }
    must_hold(!etcd_kvs_next(i, &kv));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice in = slice_of((const char *)data, size), said;
    struct etcd_header header;
    struct etcd_frame frame;
    struct etcd_kvs i;
    struct err err;
    uint64_t lease, ttl;
    bool put;

    err_clear(&err);
    must_hold(etcd_read_header(in, &header, &err) ? header.cluster != 0 : err_is_set(&err));
    said = etcd_read_error(in, &lease);
    must_hold(said.n <= in.n);
    must_hold(!etcd_read_lease(in, &lease, &ttl) || lease != 0);
    if (etcd_kvs_of_range(&i, in, NULL))
        walk(&i, size);
    etcd_kvs_free(&i);
    if (etcd_read_put(in, &put, &i, NULL))
        walk(&i, size);
    etcd_kvs_free(&i);
    err_clear(&err);
    if (etcd_read_frame(in, &frame, &err)) {
        must_hold(frame.header.cluster != 0 || frame.canceled);
        walk(&frame.events, size);
    } else {
        must_hold(err_is_set(&err));
    }
    etcd_kvs_free(&frame.events);
    return 0;
}
