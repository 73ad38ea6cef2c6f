/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client of etcd's v3 API in its JSON form (the gRPC gateway on the client port of etcd 3.4 and later). Of several
 * endpoints one is used until a request fails, then the next; a request is tried at each endpoint at most once.
 * Retrying after that is up to the caller.
 */
#ifndef MVPROXY_CLUSTER_ETCD_H
#define MVPROXY_CLUSTER_ETCD_H

#include "base/mem.h"
#include "kube/etcd_cut.h"

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
    ETCD_NO_LEASE, /* the lease does not exist */
    ETCD_FAILED,   /* failed at all endpoints */
};

struct etcd_answer {
    enum etcd_result result;
    const char *failure; /* of FAILED: why; valid during the call */
    struct slice body;   /* of OK: a JSON object with a header; valid during the call. Of a range: empty */
    struct etcd_header header;
};
typedef void etcd_fn(void *arg, const struct etcd_answer *a);

enum { ETCD_SERVERS_MAX = 16 };

/* Ends the process when out of memory. The metrics must outlive it. */
struct etcd *etcd_new(struct loop *l, struct back *b, struct cluster_metrics *m);
void etcd_free(struct etcd *e); /* NULL is fine; its calls must be over or cancelled */
/*
 * Sets the endpoints (at most ETCD_SERVERS_MAX; referenced), maybe of another etcd cluster. Calls under way are sent
 * again to the new ones. False: the endpoints are the same as before.
 */
bool etcd_set_servers(struct etcd *e, struct origin *const *servers, size_t n);
struct loop *etcd_loop(const struct etcd *e);

/* Neither a range nor a watch. fn is called once unless cancelled, never from inside. The body is copied. NULL when out
 * of memory. */
MEM_CHECK struct etcd_call *etcd_call(struct etcd *e, enum etcd_op op, struct slice body, etcd_fn *fn, void *arg);
/*
 * The handler gets each key as it comes in. A range that fails at an endpoint begins anew at the next, with its head:
 * what it has told until then does not count, and only where it ends with ETCD_OK was it all there is.
 */
MEM_CHECK struct etcd_call *etcd_range(struct etcd *e, struct slice body, const struct etcd_cut_handler *h, etcd_fn *fn,
                                       void *arg);
/*
 * Opens a watch at the endpoint in use only. The handler gets the head of each line, and its events. Whenever the watch
 * ends, after five minutes at the latest, fn is called with ETCD_FAILED.
 */
MEM_CHECK struct etcd_call *etcd_watch(struct etcd *e, struct slice body, const struct etcd_cut_handler *h, etcd_fn *fn,
                                       void *arg);
void etcd_cancel(struct etcd_call *c); /* also from its own callbacks; NULL is fine */
/* Uses the next endpoint from now on. */
void etcd_next_server(struct etcd *e);

/* Whether no kind of request is failing: each that failed has succeeded since, or was not tried for a while. */
bool etcd_works(const struct etcd *e);
/* Whether the last request was answered by some endpoint. */
bool etcd_answers(const struct etcd *e);
/* The result of opening a watch, told by the watcher. Only several refusals in a row count as a failure of etcd. */
void etcd_watch_opened(struct etcd *e);
void etcd_watch_refused(struct etcd *e, const char *why);
/* Why etcd_works() is false; NULL if it is true, "" before the first answer. Valid until the loop goes on. */
const char *etcd_failure(const struct etcd *e);
uint64_t etcd_failing_ms(const struct etcd *e); /* for how long; 0: it works, or was not asked yet */
/* When it last worked, on the loop's clock; 0: never. */
uint64_t etcd_worked_ms(const struct etcd *e);
/* Appends JSON members for the status page, the last without comma. */
void etcd_describe(const struct etcd *e, struct buf *out);

#endif
