/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of etcd's JSON gateway: whole ones, and such as are cut into keys while they arrive. */
#include "fuzz/fuzz.h"
#include "kube/etcd_cut.h"

/* A key that is there is bounded. */
static void put(struct slice in)
{
    struct etcd_kv_text text;
    struct etcd_kv kv;
    struct err err;
    enum etcd_put_result r;

    err_clear(&err);
    etcd_kv_text_init(&text);
    r = etcd_read_put(in, &text, &kv, &err);
    must_hold(err_is_set(&err) == (r == ETCD_PUT_MALFORMED));
    must_hold(r != ETCD_PUT_OTHER || kv.key.n + kv.value.n < in.n);
    etcd_kv_text_free(&text);
}

struct told {
    size_t heads, keys, bytes;
    uint64_t revisions;
};

static bool on_head(void *arg, const struct etcd_head *h)
{
    struct told *t = arg;

    must_hold(t->keys == 0 && t->heads++ == 0);
    must_hold(h->header.cluster != 0 || h->canceled);
    return true;
}

static bool on_kv(void *arg, const struct etcd_kv *kv)
{
    struct told *t = arg;

    must_hold(t->heads == 1);
    t->keys++;
    t->bytes += kv->key.n + kv->value.n;
    t->revisions += kv->revision;
    return true;
}

static const struct etcd_cut_handler handler = {.on_head = on_head, .on_kv = on_kv};

static bool cut(struct slice in, bool watch, size_t piece, struct told *t)
{
    struct etcd_cut c;
    bool good = true;

    memset(t, 0, sizeof(*t));
    etcd_cut_begin(&c, watch, &handler, t);
    for (size_t at = 0, n; good && at < in.n; at += n) {
        n = in.n - at < piece ? in.n - at : piece;
        good = etcd_cut_feed(&c, slice_of(in.p + at, n));
    }
    good = good && etcd_cut_end(&c);
    must_hold(good != err_is_set(&c.err));
    must_hold(t->bytes <= in.n);
    etcd_cut_free(&c);
    return good;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice in = slice_of((const char *)data, size), said;
    struct etcd_header header;
    struct err err;
    uint64_t lease, ttl;

    err_clear(&err);
    must_hold(etcd_read_header(in, &header, &err) ? header.cluster != 0 : err_is_set(&err));
    said = etcd_read_error(in, &lease);
    must_hold(said.n <= in.n);
    must_hold(!etcd_read_lease(in, &lease, &ttl) || lease != 0);
    put(in);
    for (int watch = 0; watch <= 1; watch++) {
        struct told whole, pieces;

        must_hold(cut(in, watch != 0, in.n + 1, &whole) == cut(in, watch != 0, 1 + size % 7, &pieces));
        must_hold(memcmp(&whole, &pieces, sizeof(whole)) == 0);
    }
    return 0;
}
