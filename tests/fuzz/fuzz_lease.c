/* SPDX-License-Identifier: Apache-2.0 */
/* Lease objects and lists: what is taken can be printed, and reads the same again. */
#include "fuzz/fuzz.h"
#include "kube/lease.h"
#include "kube/list_cut.h"

static void round_trip(struct arena *a, const struct lease *l)
{
    struct buf out;
    struct lease again;
    struct err err;

    err_clear(&err);
    buf_init(&out, 1 << 20);
    (void)lease_refusal(l);
    (void)lease_expired(l, 0);
    if (lease_print(l, &out)) {
        must_hold(lease_parse(a, buf_slice(&out), &again, &err));
        must_hold(slice_eq(again.name, l->name));
        must_hold(slice_eq(again.holder, l->holder));
        must_hold(slice_eq(again.advertise, l->advertise));
        must_hold(again.has_renew_time == l->has_renew_time && (!l->has_renew_time || again.renew_us == l->renew_us));
    }
    buf_reset(&out);
    (void)lease_print_renewal(l, &out);
    buf_reset(&out);
    (void)lease_print_delete(l, &out);
    buf_free(&out);
}

/* However a list comes in pieces, it has the items that it has as a whole. */
static void in_pieces(struct slice in)
{
    const struct list_cut_opts o = {.item_limit = 1 << 20, .ceiling = 1 << 20};
    size_t piece = in.n == 0 ? 1 : 1 + (unsigned char)in.p[in.n / 2] % 7;
    struct object_list whole, cut;
    struct slice item, same;
    struct list_cut c;
    struct err err;
    bool good = true;

    err_clear(&err);
    list_cut_begin(&c, &o);
    for (size_t at = 0; at < in.n && good; at += piece)
        good = list_cut_feed(&c, slice_of(in.p + at, in.n - at < piece ? in.n - at : piece));
    good = list_cut_end(&c, &cut, &err);
    must_hold(good || err_is_set(&err));
    if (good) {
        must_hold(object_list_begin(&whole, in, &err));
        must_hold(slice_eq(whole.resource_version, cut.resource_version) && slice_eq(whole.more, cut.more));
        while (object_list_next(&whole, &item))
            must_hold(object_list_next(&cut, &same) && slice_eq(item, same));
        must_hold(!object_list_next(&cut, &same));
    }
    list_cut_free(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice in = slice_of((const char *)data, size), item;
    struct arena *a = arena_new(8 << 20);
    struct object_list list;
    struct lease l;
    struct err err;

    must_hold(a != NULL);
    err_clear(&err);
    if (lease_parse(a, in, &l, &err))
        round_trip(a, &l);
    else
        must_hold(err_is_set(&err));
    err_clear(&err);
    if (object_list_begin(&list, in, &err)) {
        while (object_list_next(&list, &item)) {
            must_hold(item.p >= in.p && item.p + item.n <= in.p + in.n);
            if (lease_parse(a, item, &l, NULL))
                round_trip(a, &l);
        }
    } else {
        must_hold(err_is_set(&err));
    }
    in_pieces(in);
    arena_free(a);
    return 0;
}
