/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/etcd_cut.h"

enum {
    ITEM_BYTES = 64 << 10, /* a record has 16 KiB, which are 22 in base64, and its key as many as etcd-prefix */
    HEAD_BYTES = 80 << 10,
};

/* `rest`: what is still to come when it was fine until here. */
static bool give_head(struct etcd_cut *c, const char *rest)
{
    struct etcd_head head;
    struct buf json;
    bool fine;

    buf_init(&json, HEAD_BYTES);
    buf_append(&json, buf_slice(&c->list.frame));
    if (!buf_append_str(&json, rest))
        fine = err_set(&c->err, "out of memory");
    else
        fine = etcd_read_head(buf_slice(&json), c->watch, &head, &c->err);
    if (fine && !c->headed && c->handler->on_head != NULL && !c->handler->on_head(c->arg, &head)) {
        c->stopped = true;
        fine = false;
    }
    c->headed = true;
    buf_free(&json);
    return fine;
}

static bool give_kv(struct etcd_cut *c, const char *wrong, const struct etcd_kv *kv)
{
    if (c->stopped || err_is_set(&c->err))
        return false; /* the rest of the piece */
    if (wrong != NULL)
        return err_set(&c->err, "not an answer of etcd: %s", wrong);
    if (!c->headed && !give_head(c, c->watch ? "]}}" : "]}"))
        return false;
    c->stopped = !c->handler->on_kv(c->arg, kv);
    return !c->stopped;
}

static bool on_item(void *arg, struct slice item)
{
    struct etcd_cut *c = arg;
    struct etcd_kv kv;
    const char *wrong = item.p[0] != '{' ? "an element is no object" : etcd_read_kv(item, c->watch, &c->text, &kv);

    return give_kv(c, wrong, &kv);
}

static void on_too_large(void *arg, struct slice beginning)
{
    struct etcd_cut *c = arg;
    struct etcd_kv kv;
    const char *wrong = etcd_read_kv_begun(beginning, c->watch, &c->text, &kv);

    (void)give_kv(c, wrong, &kv);
}

void etcd_cut_begin(struct etcd_cut *c, bool watch, const struct etcd_cut_handler *h, void *arg)
{
    const struct list_cut_opts o = {.item_limit = ITEM_BYTES,
                                    .too_large = on_too_large,
                                    .on_item = on_item,
                                    .arg = c,
                                    .key = watch ? SLICE_LIT("\"events\"") : SLICE_LIT("\"kvs\""),
                                    .depth = watch ? 2 : 1};

    *c = (struct etcd_cut){.handler = h, .arg = arg, .watch = watch};
    etcd_kv_text_init(&c->text);
    list_cut_begin(&c->list, &o);
}

void etcd_cut_free(struct etcd_cut *c)
{
    etcd_kv_text_free(&c->text);
    list_cut_free(&c->list);
}

static bool is_fine(struct etcd_cut *c)
{
    if (c->list.error != NULL && !c->stopped && !err_is_set(&c->err))
        (void)err_set(&c->err, "not an answer of etcd: %s", c->list.error);
    return !c->stopped && !err_is_set(&c->err);
}

bool etcd_cut_feed(struct etcd_cut *c, struct slice bytes)
{
    c->any = c->any || bytes.n > 0;
    (void)list_cut_feed(&c->list, bytes);
    return is_fine(c);
}

bool etcd_cut_end(struct etcd_cut *c)
{
    if (c->watch && !c->any)
        return true;
    return is_fine(c) && give_head(c, "");
}
