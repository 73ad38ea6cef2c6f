/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/sim_etcd.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/base64.h"
#include "kube/jscan.h"
#include "net/loop.h"

enum { BODY_BYTES = 1 << 20, KEY_BYTES = 1 << 10, FIRST_REVISION = 10, HISTORY = 100 };

struct pair {
    struct list_node node;
    char *key, *value;
    size_t value_n;
    uint64_t lease, created, modified;
};

struct lease {
    struct list_node node;
    struct sim_etcd *etcd;
    uint64_t id, ttl_s;
    struct loop_timer *timer;
};

struct watcher {
    struct list_node node;
    struct sim_request *request;
};

/* What has happened, for watches from an earlier revision on. */
struct happened {
    struct list_node node;
    uint64_t revision;
    char *line;
};

struct sim_etcd {
    struct loop *loop;
    uint64_t cluster, revision, compacted, next_lease, ranges, writes;
    struct list pairs, leases, watchers, history;
    bool leaderless, deaf;
    bool ends_watches, holds_watches;
    unsigned answer_status;
    const char *refused; /* path */
    const char *answer;
};

/* ---- texts ---- */

static void put_base64(struct buf *b, const char *before, struct slice bytes)
{
    buf_append_str(b, before);
    (void)base64_append(b, bytes);
    buf_append_char(b, '"');
}

static void put_header(const struct sim_etcd *e, struct buf *b)
{
    buf_printf(b, "\"header\":{\"cluster_id\":\"%llu\",\"member_id\":\"1\",\"revision\":\"%llu\",\"raft_term\":\"2\"}",
               (unsigned long long)e->cluster, (unsigned long long)e->revision);
}

static void put_pair(const struct pair *p, struct buf *b)
{
    put_base64(b, "{\"key\":\"", slice_str(p->key));
    buf_printf(b, ",\"create_revision\":\"%llu\",\"mod_revision\":\"%llu\"", (unsigned long long)p->created,
               (unsigned long long)p->modified);
    put_base64(b, ",\"value\":\"", slice_of(p->value, p->value_n));
    if (p->lease != 0)
        buf_printf(b, ",\"lease\":\"%llu\"", (unsigned long long)p->lease);
    buf_append_char(b, '}');
}

/* Memory may fail once, by order of a test: then etcd has some trouble. */
static void reply(struct sim_request *q, unsigned status, struct buf *b)
{
    sim_reply(q, b->failed ? 500 : status, "application/json", NULL, b->failed ? SLICE_LIT("{}") : buf_slice(b));
}

static void refuse(struct sim_request *q, unsigned status, unsigned code, const char *why)
{
    struct buf b;

    buf_init(&b, KEY_BYTES);
    buf_printf(&b, "{\"error\":\"%s\",\"message\":\"%s\",\"code\":%u}", why, why, code);
    reply(q, status, &b);
    buf_free(&b);
}

static bool number(struct slice json, const char *key, uint64_t *out)
{
    struct jscan_value v;

    *out = 0;
    return jscan_get(json, slice_str(key), &v) && v.type == JSCAN_STRING &&
           slice_u64(slice_of(v.raw.p + 1, v.raw.n - 2), out);
}

static struct slice inner(struct slice json, const char *key)
{
    struct jscan_value v;

    return jscan_get(json, slice_str(key), &v) ? v.raw : SLICE_LIT("{}");
}

/* The first element of a list. */
static struct slice first_of(struct slice json, const char *key)
{
    struct slice list = inner(json, key);

    return list.n > 2 ? slice_of(list.p + 1, list.n - 2) : SLICE_LIT("{}");
}

/* Decoded; the caller frees. */
static char *bytes(struct slice json, const char *key, size_t *n)
{
    struct slice text = inner(json, key);
    struct buf b;
    char *copy;

    buf_init(&b, BODY_BYTES);
    do {
        buf_release(&b);
        if ((text.n < 2 || text.p[0] != '"' || !base64_decode(slice_of(text.p + 1, text.n - 2), &b)) && !b.failed)
            buf_reset(&b);
    } while (b.failed);
    copy = must_slicedup(buf_slice(&b));
    if (n != NULL)
        *n = buf_len(&b);
    buf_free(&b);
    return copy;
}

/* ---- store ---- */

static struct pair *find(const struct sim_etcd *e, const char *key)
{
    for (struct list_node *n = list_first(&e->pairs); n != NULL; n = list_next(&e->pairs, n))
        if (strcmp(list_entry(n, struct pair, node)->key, key) == 0)
            return list_entry(n, struct pair, node);
    return NULL;
}

static void broadcast(struct sim_etcd *e, struct buf *line)
{
    if (e->deaf || e->holds_watches)
        return;
    for (struct list_node *n = list_first(&e->watchers); n != NULL; n = list_next(&e->watchers, n))
        sim_write(list_entry(n, struct watcher, node)->request, buf_slice(line));
}

static void remember(struct sim_etcd *e, struct buf *line)
{
    struct happened *h = must_zalloc(sizeof(*h));

    h->revision = e->revision;
    h->line = must_slicedup(buf_slice(line));
    list_push_back(&e->history, &h->node);
    if (e->history.count > HISTORY) {
        h = list_entry(list_pop_front(&e->history), struct happened, node);
        e->compacted = h->revision;
        mem_free(h->line);
        mem_free(h);
    }
}

static void forget_history(struct sim_etcd *e)
{
    struct list_node *n;

    while ((n = list_pop_front(&e->history)) != NULL) {
        struct happened *h = list_entry(n, struct happened, node);

        mem_free(h->line);
        mem_free(h);
    }
}

static void print_event(struct sim_etcd *e, const struct pair *p, bool deleted, struct buf *b)
{
    buf_append_str(b, "{\"result\":{");
    put_header(e, b);
    buf_append_str(b, ",\"events\":[{");
    if (deleted) {
        put_base64(b, "\"type\":\"DELETE\",\"kv\":{\"key\":\"", slice_str(p->key));
        buf_printf(b, ",\"mod_revision\":\"%llu\"}", (unsigned long long)e->revision);
    } else {
        buf_append_str(b, "\"kv\":");
        put_pair(p, b);
    }
    buf_append_str(b, "}]}}\n");
}

static void tell(struct sim_etcd *e, const struct pair *p, bool deleted)
{
    struct buf b;

    buf_init(&b, BODY_BYTES);
    do {
        buf_release(&b);
        print_event(e, p, deleted, &b);
    } while (b.failed);
    broadcast(e, &b);
    remember(e, &b);
    buf_free(&b);
}

static void remove_pair(struct sim_etcd *e, struct pair *p)
{
    list_remove(&e->pairs, &p->node);
    mem_free(p->key);
    mem_free(p->value);
    mem_free(p);
}

static void put(struct sim_etcd *e, const char *key, struct slice value, uint64_t lease)
{
    struct pair *p = find(e, key);

    e->revision++;
    if (p == NULL) {
        p = must_zalloc(sizeof(*p));
        p->key = must_strdup(key);
        p->created = e->revision;
        list_push_back(&e->pairs, &p->node);
    }
    mem_free(p->value);
    p->value = must_slicedup(value);
    p->value_n = value.n;
    p->lease = lease;
    p->modified = e->revision;
    tell(e, p, false);
}

static void delete_pair(struct sim_etcd *e, struct pair *p)
{
    e->revision++;
    tell(e, p, true);
    remove_pair(e, p);
}

static void end_lease(struct lease *l, bool speak)
{
    struct sim_etcd *e = l->etcd;
    struct list_node *next;

    for (struct list_node *n = list_first(&e->pairs); n != NULL; n = next) {
        struct pair *p = list_entry(n, struct pair, node);

        next = list_next(&e->pairs, n);
        if (p->lease == l->id && speak)
            delete_pair(e, p);
    }
    list_remove(&e->leases, &l->node);
    loop_timer_free(l->timer);
    mem_free(l);
}

static void on_expired(void *arg)
{
    end_lease(arg, true);
}

static struct lease *grant(struct sim_etcd *e, uint64_t ttl_s)
{
    struct lease *l = must_zalloc(sizeof(*l));

    l->etcd = e;
    l->id = e->next_lease++;
    l->ttl_s = ttl_s;
    l->timer = loop_timer_new(e->loop, on_expired, l);
    if (l->timer == NULL) /* a test may have meant this allocation to fail: not ours */
        l->timer = loop_timer_new(e->loop, on_expired, l);
    if (l->timer == NULL)
        abort();
    loop_timer_set(l->timer, ttl_s * 1000);
    list_push_back(&e->leases, &l->node);
    return l;
}

static struct lease *find_lease(const struct sim_etcd *e, uint64_t id)
{
    for (struct list_node *n = list_first(&e->leases); n != NULL; n = list_next(&e->leases, n))
        if (list_entry(n, struct lease, node)->id == id)
            return list_entry(n, struct lease, node);
    return NULL;
}

/* ---- requests ---- */

static void put_range(const struct sim_etcd *e, const char *from, const char *to, struct buf *b)
{
    bool any = false;

    put_header(e, b);
    for (struct list_node *n = list_first(&e->pairs); n != NULL; n = list_next(&e->pairs, n)) {
        const struct pair *p = list_entry(n, struct pair, node);
        bool in = to[0] == '\0' ? strcmp(p->key, from) == 0 : strcmp(p->key, from) >= 0 && strcmp(p->key, to) < 0;

        if (!in)
            continue;
        buf_append_str(b, any ? "," : ",\"kvs\":[");
        put_pair(p, b);
        any = true;
    }
    if (any)
        buf_append_char(b, ']');
}

static void serve_range(struct sim_etcd *e, struct sim_request *q)
{
    char *from = bytes(sim_body(q), "key", NULL), *to = bytes(sim_body(q), "range_end", NULL);
    struct buf b;

    e->ranges++;
    buf_init(&b, 8 * BODY_BYTES);
    buf_append_char(&b, '{');
    put_range(e, from, to, &b);
    buf_append_char(&b, '}');
    reply(q, 200, &b);
    buf_free(&b);
    mem_free(from);
    mem_free(to);
}

static bool holds(const struct sim_etcd *e, struct slice compare, const char *key)
{
    const struct pair *p = find(e, key);
    struct jscan_value target;
    uint64_t want;

    if (!jscan_get(compare, SLICE_LIT("target"), &target))
        return false;
    if (jscan_text_eq(&target, SLICE_LIT("CREATE")))
        return number(compare, "create_revision", &want) && (p == NULL ? 0 : p->created) == want;
    if (jscan_text_eq(&target, SLICE_LIT("LEASE")))
        return number(compare, "lease", &want) && p != NULL && p->lease == want;
    return number(compare, "mod_revision", &want) && p != NULL && p->modified == want;
}

static void serve_txn(struct sim_etcd *e, struct sim_request *q)
{
    struct slice compare = first_of(sim_body(q), "compare");
    struct slice success = inner(first_of(sim_body(q), "success"), "request_put");
    char *key = bytes(compare, "key", NULL), *value;
    uint64_t lease;
    size_t n;
    struct buf b;

    buf_init(&b, BODY_BYTES);
    value = bytes(success, "value", &n);
    buf_append_char(&b, '{');
    if (!holds(e, compare, key)) {
        put_header(e, &b);
        buf_append_str(&b, ",\"responses\":[{\"response_range\":{");
        put_range(e, key, "", &b);
        buf_append_str(&b, "}}]}");
        reply(q, 200, &b);
    } else if (number(success, "lease", &lease) && lease != 0 && find_lease(e, lease) == NULL) {
        refuse(q, 404, 5, "etcdserver: requested lease not found");
    } else {
        e->writes++;
        put(e, key, slice_of(value, n), lease);
        put_header(e, &b);
        buf_append_str(&b, ",\"succeeded\":true,\"responses\":[{\"response_put\":{}}]}");
        reply(q, 200, &b);
    }
    buf_free(&b);
    mem_free(key);
    mem_free(value);
}

static void serve_lease(struct sim_etcd *e, struct sim_request *q, const char *what)
{
    uint64_t id, ttl;
    struct lease *l;
    struct buf b;

    buf_init(&b, KEY_BYTES);
    if (strcmp(what, "grant") == 0) {
        (void)number(sim_body(q), "TTL", &ttl);
        l = grant(e, ttl);
        id = l->id;
    } else {
        (void)number(sim_body(q), "ID", &id);
        l = find_lease(e, id);
        ttl = l == NULL ? 0 : l->ttl_s;
    }
    if (strcmp(what, "revoke") == 0 && l == NULL) {
        refuse(q, 404, 5, "etcdserver: requested lease not found");
        buf_free(&b);
        return;
    }
    if (strcmp(what, "revoke") == 0)
        end_lease(l, true);
    else if (l != NULL)
        loop_timer_set(l->timer, ttl * 1000);
    buf_append_str(&b, strcmp(what, "keepalive") == 0 ? "{\"result\":{" : "{");
    put_header(e, &b);
    if (strcmp(what, "revoke") != 0)
        buf_printf(&b, ",\"ID\":\"%llu\"", (unsigned long long)id);
    if (strcmp(what, "revoke") != 0 && ttl > 0)
        buf_printf(&b, ",\"TTL\":\"%llu\"", (unsigned long long)ttl);
    buf_append_str(&b, strcmp(what, "keepalive") == 0 ? "}}\n" : "}");
    reply(q, 200, &b);
    buf_free(&b);
}

static void put_compacted(const struct sim_etcd *e, struct buf *b)
{
    buf_append_str(b, "{\"result\":{");
    put_header(e, b);
    buf_printf(b, ",\"canceled\":true,\"compact_revision\":\"%llu\"}}\n", (unsigned long long)e->compacted);
}

static void serve_watch(struct sim_etcd *e, struct sim_request *q)
{
    struct watcher *w = must_zalloc(sizeof(*w));
    uint64_t from;
    struct buf b;

    (void)number(inner(sim_body(q), "create_request"), "start_revision", &from);
    w->request = q;
    sim_set_note(q, w);
    list_push_back(&e->watchers, &w->node);
    sim_head(q, 200, "application/json", NULL);
    if (e->holds_watches)
        return;
    buf_init(&b, KEY_BYTES);
    do {
        buf_release(&b);
        buf_append_str(&b, "{\"result\":{");
        put_header(e, &b);
        buf_append_str(&b, e->ends_watches ? ",\"created\":true,\"canceled\":true}}\n" : ",\"created\":true}}\n");
        if (from <= e->compacted)
            put_compacted(e, &b);
    } while (b.failed);
    sim_write(q, buf_slice(&b));
    buf_free(&b);
    for (struct list_node *n = list_first(&e->history); n != NULL && !e->deaf; n = list_next(&e->history, n))
        if (from > e->compacted && list_entry(n, struct happened, node)->revision >= from)
            sim_write(q, slice_str(list_entry(n, struct happened, node)->line));
}

static void serve(void *arg, struct sim_request *q)
{
    struct sim_etcd *e = arg;
    struct slice path = sim_path(q);

    if (e->answer != NULL)
        sim_reply(q, e->answer_status, "application/json", NULL, slice_str(e->answer));
    else if (!slice_eq(sim_method(q), SLICE_LIT("POST")))
        refuse(q, 405, 12, "Method Not Allowed");
    else if (e->leaderless)
        refuse(q, 503, 14, "etcdserver: no leader");
    else if (e->refused != NULL && slice_eq(path, slice_str(e->refused)))
        refuse(q, 500, 8, "etcdserver: mvcc: database space exceeded");
    else if (slice_eq(path, SLICE_LIT("/v3/kv/range")))
        serve_range(e, q);
    else if (slice_eq(path, SLICE_LIT("/v3/kv/txn")))
        serve_txn(e, q);
    else if (slice_eq(path, SLICE_LIT("/v3/lease/grant")))
        serve_lease(e, q, "grant");
    else if (slice_eq(path, SLICE_LIT("/v3/lease/keepalive")))
        serve_lease(e, q, "keepalive");
    else if (slice_eq(path, SLICE_LIT("/v3/lease/revoke")))
        serve_lease(e, q, "revoke");
    else if (slice_eq(path, SLICE_LIT("/v3/watch")))
        serve_watch(e, q);
    else
        sim_reply(q, 404, "text/plain", NULL, SLICE_LIT("Not Found\n"));
}

static void gone(void *arg, struct sim_request *q)
{
    struct sim_etcd *e = arg;
    struct watcher *w = sim_note(q);

    if (w == NULL)
        return;
    list_remove(&e->watchers, &w->node);
    mem_free(w);
}

/* ---- whole ---- */

struct sim_etcd *sim_etcd_new(struct loop *l, uint64_t cluster)
{
    struct sim_etcd *e = must_zalloc(sizeof(*e));

    e->loop = l;
    e->cluster = cluster;
    e->revision = FIRST_REVISION;
    e->next_lease = 7000000000000000001;
    list_init(&e->pairs);
    list_init(&e->leases);
    list_init(&e->watchers);
    list_init(&e->history);
    return e;
}

static void clear(struct sim_etcd *e)
{
    struct list_node *n;

    forget_history(e);
    while ((n = list_first(&e->pairs)) != NULL)
        remove_pair(e, list_entry(n, struct pair, node));
    while ((n = list_first(&e->leases)) != NULL)
        end_lease(list_entry(n, struct lease, node), false);
}

void sim_etcd_free(struct sim_etcd *e)
{
    clear(e);
    mem_free(e);
}

struct sim_server *sim_etcd_member(struct sim_etcd *e, struct back *b, const char *address)
{
    struct sim_server *s = sim_server_new(b, e->loop, address, serve, e);

    s->gone = gone;
    return s;
}

void sim_etcd_put(struct sim_etcd *e, const char *key, struct slice value, uint64_t ttl_s)
{
    put(e, key, value, ttl_s == 0 ? 0 : grant(e, ttl_s)->id);
}

void sim_etcd_delete(struct sim_etcd *e, const char *key)
{
    struct pair *p = find(e, key);

    if (p != NULL)
        delete_pair(e, p);
}

const char *sim_etcd_get(const struct sim_etcd *e, const char *key)
{
    const struct pair *p = find(e, key);

    return p == NULL ? NULL : p->value;
}

uint64_t sim_etcd_lease_of(const struct sim_etcd *e, const char *key)
{
    const struct pair *p = find(e, key);

    return p == NULL ? 0 : p->lease;
}

void sim_etcd_drop_watches(struct sim_etcd *e)
{
    for (struct list_node *n = list_first(&e->watchers); n != NULL; n = list_next(&e->watchers, n))
        sim_end(list_entry(n, struct watcher, node)->request);
}

/* Whoever hears it may end its watch and open another. */
static void end_watches(struct sim_etcd *e, struct buf *line)
{
    broadcast(e, line);
    sim_etcd_drop_watches(e);
}

void sim_etcd_compact(struct sim_etcd *e)
{
    struct buf b;

    e->compacted = e->revision;
    forget_history(e);
    buf_init(&b, KEY_BYTES);
    put_compacted(e, &b);
    end_watches(e, &b);
    buf_free(&b);
}

void sim_etcd_set_leader(struct sim_etcd *e, bool there)
{
    struct buf b;

    e->leaderless = !there;
    /* No lease runs out without a leader, and a new one gives each its whole time. */
    for (struct list_node *n = list_first(&e->leases); n != NULL; n = list_next(&e->leases, n)) {
        const struct lease *l = list_entry(n, struct lease, node);

        if (there)
            loop_timer_set(l->timer, l->ttl_s * 1000);
        else
            loop_timer_cancel(l->timer);
    }
    if (there)
        return;
    buf_init(&b, KEY_BYTES);
    buf_append_str(&b, "{\"error\":{\"grpc_code\":14,\"http_code\":503,\"message\":\"etcdserver: no leader\"}}\n");
    end_watches(e, &b);
    buf_free(&b);
}

void sim_etcd_set_deaf(struct sim_etcd *e, bool deaf)
{
    e->deaf = deaf;
}

void sim_etcd_say(struct sim_etcd *e, const char *text)
{
    struct buf b;

    buf_init(&b, BODY_BYTES);
    buf_append_str(&b, text);
    broadcast(e, &b);
    buf_free(&b);
}

void sim_etcd_answer(struct sim_etcd *e, unsigned status, const char *body)
{
    e->answer_status = status;
    e->answer = body;
}

void sim_etcd_refuse(struct sim_etcd *e, const char *path)
{
    e->refused = path;
}

void sim_etcd_end_watches(struct sim_etcd *e, bool at_once)
{
    e->ends_watches = at_once;
}

void sim_etcd_hold_watches(struct sim_etcd *e, bool hold)
{
    e->holds_watches = hold;
}

void sim_etcd_reset(struct sim_etcd *e, uint64_t cluster)
{
    clear(e);
    e->cluster = cluster;
    e->revision = 1;
    e->compacted = 0;
}

size_t sim_etcd_watches(const struct sim_etcd *e)
{
    size_t n = 0;

    for (struct list_node *w = list_first(&e->watchers); w != NULL; w = list_next(&e->watchers, w))
        n++;
    return n;
}

size_t sim_etcd_leases(const struct sim_etcd *e)
{
    size_t n = 0;

    for (struct list_node *l = list_first(&e->leases); l != NULL; l = list_next(&e->leases, l))
        n++;
    return n;
}

uint64_t sim_etcd_ranges(const struct sim_etcd *e)
{
    return e->ranges;
}

uint64_t sim_etcd_writes(const struct sim_etcd *e)
{
    return e->writes;
}
