/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client of etcd's v3 API in its JSON form (the gRPC gateway that etcd 3.4 and later has on its client port). Several
 * endpoints: one is used until it fails a request, then the next; a request is put to each of them once. Waiting
 * between requests is the caller's.
 */
#ifndef MVPROXY_CLUSTER_ETCD_H
#define MVPROXY_CLUSTER_ETCD_H

#include "base/mem.h"
#include "kube/etcd_json.h"

struct back;
struct buf;
struct cluster_metrics;
struct etcd;
struct etcd_call;
struct loop;
struct origin;

enum etcd_op { ETCD_RANGE, ETCD_PUT, ETCD_GRANT, ETCD_KEEPALIVE, ETCD_REVOKE, ETCD_WATCH, ETCD_OPS };
enum etcd_result {
    ETCD_OK,
    ETCD_NO_LEASE, /* it answered that there is no such lease */
    ETCD_FAILED,   /* no endpoint could do it */
};

struct etcd_answer {
    enum etcd_result result;
    const char *failure; /* of FAILED; valid during the call */
    struct slice body;   /* of OK; an object with a header; valid during the call */
    struct etcd_header header;
};
typedef void etcd_fn(void *arg, const struct etcd_answer *a);
/* A line of a watch that is open; false ends it as a failure of the endpoint. */
typedef bool etcd_line_fn(void *arg, struct slice line);

enum { ETCD_SERVERS_MAX = 16 };

/* Ends the process when out of memory. The metrics must outlive it. */
struct etcd *etcd_new(struct loop *l, struct back *b, struct cluster_metrics *m);
void etcd_free(struct etcd *e); /* its calls must be over or cancelled */
/*
 * Requests from now on go to these (at most ETCD_SERVERS_MAX; referenced), to which cluster ever they belong. What is
 * under way at others is asked again. False: they are the same as before.
 */
bool etcd_set_servers(struct etcd *e, struct origin *const *servers, size_t n);
struct loop *etcd_loop(const struct etcd *e);

/* fn is called once unless cancelled, never from inside. The body is copied. NULL when out of memory. */
MEM_CHECK struct etcd_call *etcd_call(struct etcd *e, enum etcd_op op, struct slice body, etcd_fn *fn, void *arg);
/*
 * ETCD_WATCH at the endpoint in use, and at no other. It is over (fn, with FAILED) whenever it ends, at the latest
 * after five minutes. Lines are bounded by LIMIT_ETCD_ANSWER_BYTES.
 */
MEM_CHECK struct etcd_call *etcd_watch(struct etcd *e, struct slice body, etcd_line_fn *on_line, etcd_fn *fn,
                                       void *arg);
void etcd_cancel(struct etcd_call *c); /* also from its own callbacks; NULL is fine */
/* The endpoint in use is of no good: the next one from now on. */
void etcd_next_server(struct etcd *e);

/* Nothing fails: what did, by kind of request, has succeeded since, or was not tried for a while. */
bool etcd_works(const struct etcd *e);
/* Some endpoint answered what was asked last. */
bool etcd_answers(const struct etcd *e);
/* Who watches says how it went: several refused in a row are trouble, although all else works. */
void etcd_watch_opened(struct etcd *e);
void etcd_watch_refused(struct etcd *e, const char *why);
/* Why not, in the end; NULL: it works. "" before the first answer. Valid until the loop goes on. */
const char *etcd_failure(const struct etcd *e);
uint64_t etcd_failing_ms(const struct etcd *e); /* for how long that has been so; 0: it works, or was not asked yet */
/* When that was so last, on the loop's clock; 0: never. */
uint64_t etcd_worked_ms(const struct etcd *e);
/* Appends JSON members for the status page, the last without comma. */
void etcd_describe(const struct etcd *e, struct buf *out);

#endif
