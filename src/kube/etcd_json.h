/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The JSON form of etcd's v3 API (its gRPC gateway, etcd 3.4 and later), in which bytes are base64 and 64-bit numbers
 * are strings: prints requests and parses answers. Pure; answers are not trusted.
 */
#ifndef MVPROXY_KUBE_ETCD_JSON_H
#define MVPROXY_KUBE_ETCD_JSON_H

#include "base/buf.h"
#include "base/err.h"
#include "kube/jscan.h"

/* ---- requests; all return false only when the buffer failed ---- */

/* Every key that begins with `prefix`, at most `limit` of them. */
bool etcd_print_range(struct buf *out, struct slice prefix, uint64_t limit);
/* Changes of those keys from this revision on. */
bool etcd_print_watch(struct buf *out, struct slice prefix, uint64_t revision);
bool etcd_print_grant(struct buf *out, uint64_t ttl_s);
/* For keepalive and revoke. */
bool etcd_print_lease(struct buf *out, uint64_t lease);

enum etcd_if { ETCD_IF_ABSENT, ETCD_IF_LEASE, ETCD_IF_REVISION };
struct etcd_put {
    struct slice key, value;
    uint64_t lease;
    enum etcd_if condition;
    uint64_t expected; /* the key's lease, or its modification revision */
};
/* A transaction that puts the value if the condition holds, and else reads the key. */
bool etcd_print_put(struct buf *out, const struct etcd_put *p);

/* ---- answers ---- */

struct etcd_header {
    uint64_t cluster, member, revision;
};
/* The header, which every answer of etcd has. False, with *err set: this is not one of etcd. */
bool etcd_read_header(struct slice json, struct etcd_header *out, struct err *err);
/* The message of an error answer, in either spelling of its fields; "" if there is none. *code is gRPC's; 0: none. */
enum { ETCD_CODE_NOT_FOUND = 5 };
struct slice etcd_read_error(struct slice json, uint64_t *code);
/* The answer to grant, or to keepalive, where a TTL of 0 means that the lease does not exist. */
bool etcd_read_lease(struct slice json, uint64_t *lease, uint64_t *ttl_s);

struct etcd_kv {
    struct slice key, value; /* the key "": it is longer than any of ours */
    uint64_t lease, revision;
    bool deleted;   /* an event of deletion; there is no value then */
    bool too_large; /* only its beginning was read: there is no value, and no lease */
};
/* Where a key and its value are decoded. */
struct etcd_kv_text {
    struct buf key, value;
};
void etcd_kv_text_init(struct etcd_kv_text *t);
void etcd_kv_text_free(struct etcd_kv_text *t);
/* Reads a key with its value from valid JSON, or an event with one. NULL, or what is wrong with it. *out is valid until
 * the next. */
const char *etcd_read_kv(struct slice json, bool event, struct etcd_kv_text *t, struct etcd_kv *out);
/* The same of the first bytes of one, as far as they go. NULL, or: there is no key, at least not the beginning of one.
 */
const char *etcd_read_kv_begun(struct slice beginning, bool event, struct etcd_kv_text *t, struct etcd_kv *out);

enum etcd_put_result { ETCD_PUT_DONE, ETCD_PUT_NO_KEY, ETCD_PUT_OTHER, ETCD_PUT_MALFORMED };
/* The answer to etcd_print_put(): the value was put; or there is no such key; or it is as *out says, valid until `t` is
 * used again; or, with *err set, the answer is not of the right form. */
enum etcd_put_result etcd_read_put(struct slice json, struct etcd_kv_text *t, struct etcd_kv *out, struct err *err);

/* What stands around the keys in the answer to a range, or around the events in a line of a watch. */
struct etcd_head {
    struct etcd_header header;
    bool canceled;
    uint64_t compacted;  /* not 0: the requested revision was compacted */
    struct slice reason; /* why canceled, or the error; JSON text without its quotes */
};
/* `json` may have an empty list of them, or none. False, with *err set: not of the right form. An error in the stream
 * counts as canceled. */
bool etcd_read_head(struct slice json, bool watch, struct etcd_head *out, struct err *err);

#endif
