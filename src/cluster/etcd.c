/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/etcd.h"

#include <stdio.h>
#include <stdlib.h>

#include "back/fetch.h"
#include "base/limits.h"
#include "base/log.h"
#include "cluster/cluster_metrics.h"
#include "net/lifetime.h"

enum {
    CALL_MS = 5000,
    WATCH_MS = 300000,
    WATCH_BYTES = 256 << 20, /* of one watch in all; then the next */
    ERROR_BYTES = 4 << 10,
    /* An endpoint of another cluster is an error; but etcd may have been set up anew. */
    OTHER_CLUSTER_MS = 60000,
    /* What failed so recently fails still, whatever else succeeds: everybody who asks again waits less. */
    STILL_MS = 30000,
    WATCHES_REFUSED = 3, /* in a row: not an election, nor a compaction */
};

static const struct {
    const char *path, *name;
} ops[ETCD_OPS] = {
    [ETCD_RANGE] = {"/v3/kv/range", "range"},       [ETCD_PUT] = {"/v3/kv/txn", "put"},
    [ETCD_GRANT] = {"/v3/lease/grant", "grant"},    [ETCD_KEEPALIVE] = {"/v3/lease/keepalive", "keepalive"},
    [ETCD_REVOKE] = {"/v3/lease/revoke", "revoke"}, [ETCD_WATCH] = {"/v3/watch", "watch"},
};

#define OTHERS "other endpoints have been configured since"

enum trouble { TROUBLE_UNKNOWN, TROUBLE_NONE, TROUBLE_SAID };

struct etcd {
    struct loop *loop;
    struct back *back;
    struct cluster_metrics *metrics;
    struct origin *servers[ETCD_SERVERS_MAX];
    size_t n, current;
    enum trouble trouble;
    uint64_t failed_ms[ETCD_OPS]; /* when it did last, since it last worked; 0: it did not */
    unsigned watches_refused;     /* in a row */
    bool answers;                 /* the last request was answered */
    struct err failure;           /* the last */
    uint64_t trouble_since_ms;    /* 0: nothing was asked yet */
    unsigned failures;            /* since it answered last */
    uint64_t worked_ms;
    uint64_t cluster, cluster_ms; /* who we talk to, and when it last answered; 0: whoever answers first */
    unsigned configured;          /* how often */
};

struct etcd_call {
    struct etcd *etcd;
    enum etcd_op op;
    struct fetch *fetch; /* NULL: over, or between two endpoints */
    struct buf body;
    struct buf text;           /* of an error that comes in pieces: what it says */
    struct etcd_cut cut;       /* of a range, or of a watch: the line that is not complete */
    struct etcd_header header; /* of a range */
    size_t server;             /* that was asked, of those of this configuration: */
    unsigned configured;
    size_t tries;
    struct err why;
    const struct etcd_cut_handler *handler; /* of a range or a watch; NULL: any other */
    etcd_fn *fn;
    void *arg;
    struct lifetime life;
    struct lifetime_work unsent;
};

static void on_fetched(void *arg, const struct fetch_result *r);

/* ---- health ---- */

static void count(struct etcd *e, enum etcd_op op, const char *result)
{
    const struct slice labels[] = {slice_str(ops[op].name), slice_str(result)};

    metric_inc(metric_child(e->metrics->etcd_requests, labels));
}

static void set_trouble(struct etcd *e, enum trouble t)
{
    if (e->trouble == TROUBLE_NONE || e->trouble_since_ms == 0)
        e->trouble_since_ms = loop_now_ms(e->loop);
    e->trouble = t;
    metric_set(e->metrics->etcd_working, t == TROUBLE_NONE ? 1 : 0);
}

static bool still_failing(const struct etcd *e)
{
    uint64_t now = loop_now_ms(e->loop);
    bool found = false;

    for (size_t op = 0; !found && op < ETCD_OPS; op++)
        found = e->failed_ms[op] != 0 && now - e->failed_ms[op] < STILL_MS;
    return found;
}

/* What one request can do says nothing of the others: leases are renewed in a store that is full. */
static void works(struct etcd *e, enum etcd_op op)
{
    e->worked_ms = loop_now_ms(e->loop);
    e->answers = true;
    e->failed_ms[op] = 0;
    if (e->trouble == TROUBLE_NONE || still_failing(e))
        return;
    log_info(e->trouble == TROUBLE_SAID ? "etcd answers again" : "etcd answers",
             LT("endpoint", origin_address(e->servers[e->current])), LU("failures", e->failures));
    e->failures = 0;
    set_trouble(e, TROUBLE_NONE);
}

/* Said once: it lasts, and is tried for ever. */
static void fails(struct etcd *e, enum etcd_op op, const char *why)
{
    const char *what = ops[op].name;

    e->failed_ms[op] = loop_now_ms(e->loop);
    e->answers = false;
    err_clear(&e->failure);
    (void)err_set(&e->failure, "%s", why);
    e->failures++;
    if (e->trouble == TROUBLE_SAID) {
        log_v(3, "etcd still cannot be used", LT("operation", what), LT("err", why));
        return;
    }
    log_warning("etcd cannot be used: peer endpoint records are neither read nor written, Lease annotations still are",
                LT("operation", what), LT("err", why), LU("endpoints", e->n));
    set_trouble(e, TROUBLE_SAID);
}

void etcd_watch_opened(struct etcd *e)
{
    e->watches_refused = 0;
    works(e, ETCD_WATCH);
}

void etcd_watch_refused(struct etcd *e, const char *why)
{
    if (++e->watches_refused >= WATCHES_REFUSED)
        fails(e, ETCD_WATCH, why);
}

void etcd_next_server(struct etcd *e)
{
    if (e->n > 1)
        e->current = (e->current + 1) % e->n;
}

/* A wrong endpoint in the list must not mix the records of two clusters. */
static bool right_cluster(struct etcd *e, const struct etcd_header *h, struct err *why)
{
    uint64_t now = loop_now_ms(e->loop);

    if (e->cluster != 0 && h->cluster != e->cluster) {
        if (e->n > 1 && now - e->cluster_ms < OTHER_CLUSTER_MS)
            return err_set(why, "it belongs to another etcd cluster than the one that answered before");
        log_warning("etcd is another cluster than before", LT("endpoint", origin_address(e->servers[e->current])));
    }
    e->cluster = h->cluster;
    e->cluster_ms = now;
    return true;
}

/* ---- calls ---- */

static void call_free(void *arg)
{
    struct etcd_call *c = arg;

    buf_free(&c->body);
    buf_free(&c->text);
    etcd_cut_free(&c->cut);
    mem_free(c);
}

/* Whatever its callers still hold of it is valid to the end of the turn. */
static void bury(struct etcd_call *c)
{
    if (lifetime_over(&c->life))
        return;
    fetch_cancel(&c->fetch);
    lifetime_retire(&c->life, call_free, c);
}

void etcd_cancel(struct etcd_call *c)
{
    if (c != NULL)
        bury(c);
}

static void finish(struct etcd_call *c, const struct etcd_answer *a)
{
    bury(c);
    c->fn(c->arg, a);
}

static void give_up(struct etcd_call *c, const char *why)
{
    struct etcd_answer a = {.result = ETCD_FAILED, .failure = why, .body = SLICE_LIT("")};

    /* A watch ends for many reasons, and who watches knows which. Revoking is a courtesy that nobody repeats. */
    if (c->op != ETCD_WATCH && c->op != ETCD_REVOKE)
        fails(c->etcd, c->op, why);
    finish(c, &a);
}

static bool on_head(void *arg, const struct etcd_head *h)
{
    struct etcd_call *c = arg;

    if (c->op != ETCD_WATCH) {
        c->header = h->header;
        if (!right_cluster(c->etcd, &h->header, &c->why))
            return false;
    }
    return c->handler->on_head(c->arg, h) && !lifetime_over(&c->life);
}

static bool on_kv(void *arg, const struct etcd_kv *kv)
{
    struct etcd_call *c = arg;

    return c->handler->on_kv(c->arg, kv) && !lifetime_over(&c->life);
}

static const struct etcd_cut_handler cut_handler = {.on_head = on_head, .on_kv = on_kv};

static void begin_cut(struct etcd_call *c)
{
    etcd_cut_free(&c->cut);
    etcd_cut_begin(&c->cut, c->op == ETCD_WATCH, &cut_handler, c);
}

static bool unusable(struct etcd_call *c)
{
    if (!err_is_set(&c->why))
        (void)err_set(&c->why, "%s", err_is_set(&c->cut.err) ? c->cut.err.text : "it is of no use");
    return false;
}

/* A watch goes on as lines; anything else that a server says to it is an error. */
static bool take_lines(struct etcd_call *c, struct slice piece)
{
    while (piece.n > 0) {
        size_t n = slice_index(piece, '\n');
        bool whole = n < piece.n;

        if (!etcd_cut_feed(&c->cut, slice_of(piece.p, n)) || (whole && !etcd_cut_end(&c->cut)))
            return unusable(c);
        if (whole)
            begin_cut(c);
        piece = slice_from(piece, whole ? n + 1 : n);
    }
    return true;
}

static bool on_piece(void *arg, const struct http_head *head, struct slice piece)
{
    struct etcd_call *c = arg;

    if (head->status != 200)
        return buf_len(&c->text) + piece.n > ERROR_BYTES || buf_append(&c->text, piece);
    if (c->op == ETCD_WATCH)
        return take_lines(c, piece);
    if (c->configured != c->etcd->configured)
        return err_set(&c->why, OTHERS);
    return etcd_cut_feed(&c->cut, piece) || unusable(c);
}

static size_t ceiling_of(const struct etcd_call *c)
{
    if (c->op == ETCD_WATCH)
        return WATCH_BYTES;
    /* To a put that finds something else there etcd answers with that, whatever it is. */
    return c->op == ETCD_RANGE || c->op == ETCD_PUT ? LIMIT_ETCD_RANGE_BYTES : LIMIT_ETCD_ANSWER_BYTES;
}

static bool send(struct etcd_call *c)
{
    static const struct http_field fields[] = {
        {.name = {"Content-Type", 12}, .value = {"application/json", 16}, .id = HTTP_CONTENT_TYPE},
        /* A watch at a member that has lost its leader ends instead of going silent (etcd's client does the same). */
        {.name = {"Grpc-Metadata-hasleader", 23}, .value = {"true", 4}, .id = HTTP_NAME_OTHER},
    };
    struct etcd *e = c->etcd;
    struct fetch_opts o = {
        .origin = e->servers[e->current],
        .method = SLICE_LIT("POST"),
        .target = slice_str(ops[c->op].path),
        .fields = fields,
        .n_fields = sizeof(fields) / sizeof(fields[0]),
        .body = buf_slice(&c->body),
        .ceiling = ceiling_of(c),
        .timeout_ms = c->op == ETCD_WATCH ? WATCH_MS : CALL_MS,
        .on_piece = c->handler != NULL ? on_piece : NULL,
    };

    if (c->configured != e->configured)
        c->tries = 0;
    c->configured = e->configured;
    c->server = e->current;
    c->tries++;
    err_clear(&c->why);
    buf_reset(&c->text);
    begin_cut(c);
    c->fetch = fetch_start(e->back, e->loop, &o, on_fetched, c);
    return c->fetch != NULL;
}

/* The endpoint could not do it: the next, unless all have been asked. */
static void failed_here(struct etcd_call *c, const char *why)
{
    struct etcd *e = c->etcd;
    struct err text = {.text = ""};
    bool was_before = c->configured != e->configured;
    const char *where = !was_before && c->server < e->n ? origin_address(e->servers[c->server]) : "";

    count(e, c->op, "failed");
    /* A connection that could not be made says where. */
    (void)err_set(&text, "%s%s%s", slice_has_prefix(slice_str(why), slice_str(where)) ? "" : where,
                  slice_has_prefix(slice_str(why), slice_str(where)) ? "" : ": ", why);
    log_v(3, "Request to etcd failed", LT("operation", ops[c->op].name), LT("err", text.text));
    if (!was_before && c->server == e->current)
        etcd_next_server(e);
    if (c->op != ETCD_WATCH && e->n > 0 && (was_before || c->tries < e->n) && send(c))
        return;
    give_up(c, text.text);
}

static void refused(struct etcd_call *c, unsigned status, struct slice body)
{
    struct etcd_answer a = {.result = ETCD_NO_LEASE, .body = SLICE_LIT("")};
    struct err why = {.text = ""};
    struct slice said;
    uint64_t code;

    said = etcd_read_error(body, &code);
    if (status == 404 && code == ETCD_CODE_NOT_FOUND && c->op != ETCD_RANGE) {
        count(c->etcd, c->op, "ok");
        works(c->etcd, c->op);
        finish(c, &a);
        return;
    }
    if (said.n > 0)
        (void)err_set(&why, "answered %u: %.*s", status, (int)(said.n < 200 ? said.n : 200), said.p);
    else
        (void)err_set(&why, "answered %u%s", status, status == 404 ? ": no etcd, or one without its JSON gateway" : "");
    failed_here(c, why.text);
}

static void answered(struct etcd_call *c, struct slice body)
{
    struct etcd_answer a = {.result = ETCD_OK, .body = body};
    bool fine;

    if (c->configured != c->etcd->configured)
        fine = err_set(&c->why, OTHERS);
    else if (c->op == ETCD_RANGE)
        fine = etcd_cut_end(&c->cut) || unusable(c);
    else
        fine = etcd_read_header(body, &c->header, &c->why) && right_cluster(c->etcd, &c->header, &c->why);
    if (!fine) {
        failed_here(c, c->why.text);
        return;
    }
    a.header = c->header;
    count(c->etcd, c->op, "ok");
    works(c->etcd, c->op);
    finish(c, &a);
}

static void on_fetched(void *arg, const struct fetch_result *r)
{
    struct etcd_call *c = arg;

    c->fetch = NULL;
    if (!r->ok)
        failed_here(c, err_is_set(&c->why) ? c->why.text : r->failure);
    else if (r->head->status != 200)
        refused(c, r->head->status, c->handler != NULL ? buf_slice(&c->text) : r->body);
    else if (c->op == ETCD_WATCH)
        failed_here(c, "the watch ended");
    else
        answered(c, r->body);
}

static void on_unsent(void *arg)
{
    struct etcd_call *c = arg;

    give_up(c, c->etcd->n == 0 ? "no endpoints" : "out of memory");
}

static struct etcd_call *start(struct etcd *e, enum etcd_op op, struct slice body, const struct etcd_cut_handler *h)
{
    struct etcd_call *c = mem_zalloc(sizeof(*c));

    if (c == NULL)
        return NULL;
    c->etcd = e;
    c->op = op;
    c->handler = h;
    buf_init(&c->body, LIMIT_ETCD_ANSWER_BYTES);
    buf_init(&c->text, ERROR_BYTES);
    lifetime_init(&c->life, e->loop, "call of etcd");
    lifetime_work_init(&c->life, &c->unsent, LOOP_DEFERRED, on_unsent, c);
    if (!buf_append(&c->body, body)) {
        call_free(c);
        return NULL;
    }
    if (e->n == 0 || !send(c))
        lifetime_queue(&c->unsent);
    return c;
}

static struct etcd_call *start_for(struct etcd_call *c, etcd_fn *fn, void *arg)
{
    if (c == NULL)
        return NULL;
    c->fn = fn;
    c->arg = arg;
    return c;
}

struct etcd_call *etcd_call(struct etcd *e, enum etcd_op op, struct slice body, etcd_fn *fn, void *arg)
{
    return start_for(start(e, op, body, NULL), fn, arg);
}

struct etcd_call *etcd_range(struct etcd *e, struct slice body, const struct etcd_cut_handler *h, etcd_fn *fn,
                             void *arg)
{
    return start_for(start(e, ETCD_RANGE, body, h), fn, arg);
}

struct etcd_call *etcd_watch(struct etcd *e, struct slice body, const struct etcd_cut_handler *h, etcd_fn *fn,
                             void *arg)
{
    return start_for(start(e, ETCD_WATCH, body, h), fn, arg);
}

/* ---- whole ---- */

struct etcd *etcd_new(struct loop *l, struct back *b, struct cluster_metrics *m)
{
    struct etcd *e = must_zalloc(sizeof(*e));

    e->loop = l;
    e->back = b;
    e->metrics = m;
    return e;
}

static void drop_servers(struct etcd *e)
{
    while (e->n > 0)
        origin_unref(e->servers[--e->n]);
    e->current = 0;
}

void etcd_free(struct etcd *e)
{
    if (e == NULL)
        return;
    drop_servers(e);
    mem_free(e);
}

bool etcd_set_servers(struct etcd *e, struct origin *const *servers, size_t n)
{
    struct origin *kept[ETCD_SERVERS_MAX];
    bool same;

    /* Set up anew, or restored: another cluster from now on, also behind the same addresses. */
    e->cluster = 0;
    n = n < ETCD_SERVERS_MAX ? n : ETCD_SERVERS_MAX;
    same = n == e->n;
    for (size_t i = 0; same && i < n; i++)
        same = origin_same(servers[i], e->servers[i]);
    if (same)
        return false;
    for (size_t i = 0; i < n; i++)
        kept[i] = origin_ref(servers[i]);
    drop_servers(e);
    memcpy(e->servers, kept, n * sizeof(*kept));
    e->n = n;
    e->configured++;
    memset(e->failed_ms, 0, sizeof(e->failed_ms)); /* the others' */
    e->watches_refused = 0;
    return true;
}

struct loop *etcd_loop(const struct etcd *e)
{
    return e->loop;
}

bool etcd_works(const struct etcd *e)
{
    return e->trouble == TROUBLE_NONE;
}

bool etcd_answers(const struct etcd *e)
{
    return e->answers;
}

const char *etcd_failure(const struct etcd *e)
{
    return etcd_works(e) ? NULL : e->failure.text;
}

uint64_t etcd_failing_ms(const struct etcd *e)
{
    return etcd_works(e) || e->trouble_since_ms == 0 ? 0 : loop_now_ms(e->loop) - e->trouble_since_ms;
}

uint64_t etcd_worked_ms(const struct etcd *e)
{
    return e->worked_ms;
}

void etcd_describe(const struct etcd *e, struct buf *out)
{
    buf_printf(out, "\"working\":%s,\"endpoints\":[", etcd_works(e) ? "true" : "false");
    for (size_t i = 0; i < e->n; i++)
        buf_append_quoted(out, i == 0 ? "" : ",", slice_str(origin_address(e->servers[i])));
    buf_append_quoted(out,
                      "],\"endpoint\":", e->n == 0 ? SLICE_NONE : slice_str(origin_address(e->servers[e->current])));
    buf_append_quoted(out, ",\"failure\":", etcd_works(e) ? SLICE_NONE : slice_str(e->failure.text));
}
