/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cuts the answer to a range, or a line of a watch, into its keys while it arrives, in pieces of any size: a turn of
 * the loop has to read only the bytes that came in, however many keys there are. A key with a value that is longer than
 * any record is told of without it.
 */
#ifndef MVPROXY_KUBE_ETCD_CUT_H
#define MVPROXY_KUBE_ETCD_CUT_H

#include "kube/etcd_json.h"
#include "kube/list_cut.h"

/* Both get what is valid during the call, and return false to get no more. */
struct etcd_cut_handler {
    /* What stands around the keys: before the first of them, or at the end where there is none. etcd writes its header
     * first; who does not is none. NULL: not told. */
    bool (*on_head)(void *arg, const struct etcd_head *h);
    bool (*on_kv)(void *arg, const struct etcd_kv *kv);
};

struct etcd_cut {
    struct list_cut list;
    struct etcd_kv_text text;
    const struct etcd_cut_handler *handler;
    void *arg;
    bool watch, any, headed, stopped;
    struct err err; /* what is wrong; empty after false: the handler wants no more */
};

/* To be freed, after which it may begin again. */
void etcd_cut_begin(struct etcd_cut *c, bool watch, const struct etcd_cut_handler *h, void *arg);
void etcd_cut_free(struct etcd_cut *c);
/* False from the first error on. */
bool etcd_cut_feed(struct etcd_cut *c, struct slice bytes);
/* To be called at the end; fine where nothing came, if it is a watch: an empty line. */
bool etcd_cut_end(struct etcd_cut *c);

#endif
