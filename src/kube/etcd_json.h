/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The JSON form of etcd's v3 API (its gRPC gateway, etcd 3.4 and later): requests as text, answers as structs. Bytes
 * are base64 and 64-bit numbers are strings there. Pure; everything read is hostile.
 */
#ifndef MVPROXY_KUBE_ETCD_JSON_H
#define MVPROXY_KUBE_ETCD_JSON_H

#include "base/buf.h"
#include "base/err.h"
#include "kube/jscan.h"

/* ---- requests; all return false only when the buffer failed ---- */

/* Every key that begins with `prefix`, at most `limit` of them. */
bool etcd_print_range(struct buf *out, struct slice prefix, uint64_t limit);
/* What happens to them from that revision on. */
bool etcd_print_watch(struct buf *out, struct slice prefix, uint64_t revision);
bool etcd_print_grant(struct buf *out, uint64_t ttl_s);
/* For keepalive and revoke. */
bool etcd_print_lease(struct buf *out, uint64_t lease);

enum etcd_if { ETCD_IF_ABSENT, ETCD_IF_LEASE, ETCD_IF_REVISION };
struct etcd_put {
    struct slice key, value;
    uint64_t lease;
    enum etcd_if condition;
    uint64_t expected; /* the key's lease or modification revision */
};
/* A transaction: puts if the condition holds, else reads the key. */
bool etcd_print_put(struct buf *out, const struct etcd_put *p);

/* ---- answers ---- */

struct etcd_header {
    uint64_t cluster, member, revision;
};
/* The header that every answer of etcd has. False with a reason: this is none. */
bool etcd_read_header(struct slice json, struct etcd_header *out, struct err *err);
/* What an error answer says, in either spelling; "" if it says nothing. `code` is gRPC's, 0 if there is none. */
enum { ETCD_CODE_NOT_FOUND = 5 };
struct slice etcd_read_error(struct slice json, uint64_t *code);
/* Of grant; of keepalive, where a TTL of 0 means that there is no such lease. */
bool etcd_read_lease(struct slice json, uint64_t *lease, uint64_t *ttl_s);

/* Keys with their values, or events: init, then next until false. */
struct etcd_kv {
    struct slice key, value; /* live until the next call */
    uint64_t lease, revision;
    bool deleted; /* an event that says so; there is no value then */
};
struct etcd_kvs {
    struct jscan scan;
    bool first, events, none;
    struct buf key, value;
    const char *error; /* why the last next was false; NULL: the end */
};
/* The lists live in the text. False: not of the right shape (`err`). free either way. */
bool etcd_kvs_of_range(struct etcd_kvs *i, struct slice json, struct err *err);
bool etcd_kvs_next(struct etcd_kvs *i, struct etcd_kv *out);
void etcd_kvs_free(struct etcd_kvs *i);

/* Of a transaction of etcd_print_put: whether it put, else the key as it is (none: i gives nothing). */
bool etcd_read_put(struct slice json, bool *put, struct etcd_kvs *i, struct err *err);

/* One line of a watch stream. */
struct etcd_frame {
    struct etcd_header header;
    bool canceled;
    uint64_t compacted;  /* not 0: what was asked for is no longer there */
    struct slice reason; /* of canceled, or of an error; JSON text without its quotes */
    struct etcd_kvs events;
};
/* Free events either way. False: no frame. An error that the stream carries counts as canceled. */
bool etcd_read_frame(struct slice line, struct etcd_frame *out, struct err *err);

#endif
