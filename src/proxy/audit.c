/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/audit.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/contract.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/metric.h"
#include "http/hop.h"
#include "kube/status.h"
#include "net/loop.h"
#include "proxy/redact.h"

#define AUTHENTICATED "system:authenticated"

/* Addresses share a place by chance, and may then leave out each other's. */
enum { AUDIT_FIELDS = 26, AUDIT_SOURCES = 32, PLACES = 256, LIST_BYTES = 3 /* quotes and comma of each */ };
enum sort { SORT_DOCUMENT, SORT_UNAUTHORIZED, SORT_FAILED, SORTS };

struct window {
    uint64_t since_ms;
    unsigned written, left_out;
    unsigned char of_one[PLACES]; /* written, by address */
};

struct audit {
    struct window windows[SORTS];
    struct loop_timer *told; /* when the log says what was left out, should no other line come */
    struct metric *left_out;
};

static const char *const sort_names[SORTS] = {
    [SORT_DOCUMENT] = "documents",
    [SORT_UNAUTHORIZED] = "unauthorized",
    [SORT_FAILED] = "failed",
};

static void tell(struct window *w, const char *name)
{
    if (w->left_out > 0)
        log_warning("Audit lines left out", LT("answers", name), LU("count", w->left_out));
    w->left_out = 0;
}

static void on_told(void *arg)
{
    struct audit *a = arg;

    for (size_t i = 0; i < SORTS; i++)
        tell(&a->windows[i], sort_names[i]);
}

struct audit *audit_new(struct loop *l, struct metrics *m)
{
    struct audit *a = must_zalloc(sizeof(*a));

    a->told = loop_timer_new(l, on_told, a);
    must_hold(a->told != NULL);
    a->left_out = metric_single(m, METRIC_COUNTER, "mvproxy_audit_lines_left_out_total",
                                "Answers of mvproxy's own without an audit line in the log: too many at once.");
    return a;
}

void audit_free(struct audit *a)
{
    on_told(a);
    loop_timer_free(a->told);
    mem_free(a);
}

static struct slice keep(struct slice text, struct arena *a)
{
    return text.n == 0 ? SLICE_NONE
                       : arena_copy(a, slice_of(text.p, text.n <= LIMIT_LOG_VALUE ? text.n : LIMIT_LOG_VALUE + 1));
}

/* Of a list, the end. */
static struct slice keep_last(struct slice list, struct arena *a)
{
    struct slice cut;

    if (list.n > LIMIT_LOG_VALUE) {
        list = slice_from(list, list.n - LIMIT_LOG_VALUE);
        (void)slice_split(&list, ',', &cut);
    }
    return keep(list, a);
}

/* The group that the API server adds (k8s.io/apiserver pkg/authentication/group), unless it has an answer already. */
static bool lacks_authenticated(const struct user *u)
{
    if (slice_eq(u->name, SLICE_LIT("system:anonymous")))
        return false;
    for (size_t i = 0; i < u->n_groups; i++)
        if (slice_eq(u->groups[i], SLICE_LIT(AUTHENTICATED)) ||
            slice_eq(u->groups[i], SLICE_LIT("system:unauthenticated")))
            return false;
    return true;
}

/* No more than the log writes, and one beyond, for which it says that there were more. */
static void keep_groups(struct audit_entry *e, const struct user *u, struct arena *a)
{
    struct slice *kept = arena_zalloc(a, (u->n_groups + 1) * sizeof(kept[0]));
    size_t bytes = 0;

    e->groups = kept;
    for (e->n_groups = 0; kept != NULL && e->n_groups < u->n_groups && bytes <= LIMIT_LOG_VALUE; e->n_groups++) {
        kept[e->n_groups] = keep(u->groups[e->n_groups], a);
        bytes += kept[e->n_groups].n + LIST_BYTES;
    }
    if (kept != NULL && e->n_groups == u->n_groups && lacks_authenticated(u))
        kept[e->n_groups++] = SLICE_LIT(AUTHENTICATED);
}

void audit_note(struct audit_entry *e, struct exchange *x, const struct authn *au, bool believed)
{
    const struct http_head *h = exchange_request(x);
    struct slice ip = slice_str(exchange_client(x)->ip);
    struct arena *a = exchange_arena(x);

    e->own = true;
    e->why = au->why;
    e->sources = believed ? keep_last(hop_forwarded_for(h, ip, exchange_request_arena(x)), a) : ip;
    if (au->kind == AUTHN_ASSERT) {
        e->user = keep(au->user.name, a);
        keep_groups(e, &au->user, a);
    }
    for (size_t i = 0; i < h->n_fields && e->impersonated.p == NULL; i++) /* of several the first counts, as with Go */
        if (h->fields[i].id == HTTP_NAME_OTHER && slice_ieq(h->fields[i].name, SLICE_LIT("Impersonate-User")))
            e->impersonated = keep(h->fields[i].value, a);
}

static enum sort sort_of(unsigned status)
{
    if (status == 401 || status == 403)
        return SORT_UNAUTHORIZED;
    return status < 400 ? SORT_DOCUMENT : SORT_FAILED;
}

/* Whom a line counts for: behind a proxy that is believed, the client that this one names. */
static struct slice client_of(const struct slice *sources, size_t n, struct slice ip)
{
    return n < 2 ? ip : sources[n - 2];
}

/* Whether there is room for a line more about that client. */
static bool admit(struct audit *a, enum sort sort, struct slice ip)
{
    struct window *w = &a->windows[sort];
    unsigned char *of_one = &w->of_one[hash_seeded(ip) % PLACES];
    uint64_t now = clock_ms();

    if (w->written == 0 || now - w->since_ms >= AUDIT_WINDOW_MS) {
        tell(w, sort_names[sort]);
        *w = (struct window){.since_ms = now};
    }
    if (*of_one == 0 || (w->written < AUDIT_LINES && *of_one < AUDIT_LINES_OF_ONE)) {
        w->written++;
        ++*of_one;
        return true;
    }
    if (!loop_timer_pending(a->told))
        loop_timer_set(a->told, AUDIT_WINDOW_MS);
    w->left_out++;
    metric_inc(a->left_out);
    return false;
}

static bool is_empty(const struct log_kv *kv)
{
    return kv->kind == LOG_KV_TEXT ? kv->text.n == 0 : kv->kind == LOG_KV_LIST && kv->u == 0;
}

/* An Event leaves out what it has nothing to say of. */
static void emit(const struct log_kv *kv)
{
    struct log_kv some[AUDIT_FIELDS + 1] = {{.key = NULL}};
    size_t n = 0;

    for (; kv->key != NULL; kv++)
        if (n < AUDIT_FIELDS && !is_empty(kv))
            some[n++] = *kv;
    log_emit(LOG_INFO, 0, __FILE__, __LINE__, "Audit", some);
}

/* Of more than there is room for the nearest, which are the last: the others are anybody's word. */
static size_t split_sources(struct slice text, struct slice out[AUDIT_SOURCES])
{
    size_t n = 0;
    struct slice one;

    while (slice_split(&text, ',', &one)) {
        one = slice_trim(one);
        if (one.n == 0)
            continue;
        if (n == AUDIT_SOURCES)
            memmove(out, out + 1, (--n) * sizeof(out[0]));
        out[n++] = one;
    }
    return n;
}

void audit_write(struct audit *a, struct exchange *x, const struct reqinfo *info, const struct audit_entry *e,
                 const struct request_summary *ended)
{
    char received[CLOCK_RFC3339_BYTES], now[CLOCK_RFC3339_BYTES];
    struct slice sources[AUDIT_SOURCES];
    int64_t wall = clock_wall_us();
    const struct log_kv *kv;
    bool refused = ended->status >= 400;
    size_t n_sources;
    struct buf uri;

    n_sources = split_sources(e->sources, sources);
    if (!e->unbounded &&
        !admit(a, sort_of(ended->status), client_of(sources, n_sources, slice_str(exchange_client(x)->ip))))
        return;
    clock_rfc3339(wall - (int64_t)(clock_us() - exchange_started_us(x)), received);
    clock_rfc3339(wall, now);
    buf_init(&uri, 2 * LIMIT_LOG_VALUE);
    redact_target(exchange_request(x)->target, info, &uri);
    kv = LOG_KVS(
        LT("level", "Metadata"), LS("auditID", ended->audit_id),
        LT("stage", ended->status == 401 ? "ResponseStarted" : "ResponseComplete"), LS("requestURI", buf_slice(&uri)),
        LS("verb", info->verb), LS("user.username", e->user), LL("user.groups", e->groups, e->n_groups),
        LS("impersonatedUser.username", e->impersonated), LL("sourceIPs", sources, n_sources),
        LS("userAgent", ended->user_agent), LS("objectRef.apiGroup", redact_path(info->group)),
        LS("objectRef.apiVersion", redact_path(info->version)), LS("objectRef.resource", redact_path(info->resource)),
        LS("objectRef.subresource", redact_path(info->subresource)), LS("objectRef.namespace", redact_path(info->ns)),
        LS("objectRef.name", redact_path(info->name)), LU("responseStatus.code", ended->status),
        LT("responseStatus.status", refused ? "Failure" : NULL),
        LT("responseStatus.reason", refused ? status_reason(ended->status) : NULL),
        LT("responseStatus.message", ended->why), LT("requestReceivedTimestamp", received), LT("stageTimestamp", now),
        LT("identity", ended->user_kind), LT("why", e->why), LT("route", e->route), LS("verdictAuditID", e->verdict));
    emit(kv);
    buf_free(&uri);
}
