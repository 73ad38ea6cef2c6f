/* SPDX-License-Identifier: Apache-2.0 */
/* The rules that no connection may interpret for itself: order of calls, announced length, who is told what, and when.
 */
#include "front/exchange_conn.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/metric.h"
#include "front/clients.h"
#include "lib/tap.h"

enum { MS_EACH = 1000 / LIMIT_CHURN_REQUESTS_SECOND };

/* A connection that writes down what it is asked to do. */
struct fake {
    struct exchange x;
    struct buf log;
    bool broken; /* nothing can be written any more */
};

static struct fake *fake_of(const struct exchange *x)
{
    return (struct fake *)(void *)(uintptr_t)x;
}

static bool fake_interim(struct exchange *x, const struct http_head *head)
{
    buf_printf(&fake_of(x)->log, "interim(%u) ", head->status);
    return !fake_of(x)->broken;
}

static bool fake_respond(struct exchange *x, const struct http_head *head)
{
    static const char *const kinds[] = {"none", "length", "chunked", "close"};

    buf_printf(&fake_of(x)->log, "respond(%u %s %llu%s) ", head->status, kinds[x->answer.kind],
               (unsigned long long)x->answer.length, x->bodyless ? " bodyless" : "");
    return !fake_of(x)->broken;
}

static bool fake_body(struct exchange *x, struct slice data)
{
    buf_printf(&fake_of(x)->log, "body(%.*s) ", (int)data.n, data.p);
    return !fake_of(x)->broken;
}

static bool fake_congested(const struct exchange *x)
{
    (void)x;
    return true;
}

static void fake_finish(struct exchange *x, const struct http_head *trailers)
{
    buf_append_str(&fake_of(x)->log, trailers == NULL ? "finish " : "finish+trailers ");
}

static void fake_abort(struct exchange *x, const char *reason)
{
    buf_printf(&fake_of(x)->log, "abort(%s) ", reason);
}

static struct stream *fake_upgrade(struct exchange *x, const struct http_head *head)
{
    buf_printf(&fake_of(x)->log, "upgrade(%u) ", head->status);
    return (struct stream *)x; /* anything that is not NULL */
}

static void fake_doomed(struct exchange *x)
{
    buf_printf(&fake_of(x)->log, "doomed(%s) ", x->doom_reason);
}

static void fake_pause(struct exchange *x)
{
    buf_append_str(&fake_of(x)->log, "pause ");
}

static void fake_resume(struct exchange *x)
{
    buf_append_str(&fake_of(x)->log, "resume ");
}

static const struct exchange_ops ops = {fake_interim, fake_respond, fake_body,   fake_congested, fake_finish,
                                        fake_abort,   fake_upgrade, fake_doomed, fake_pause,     fake_resume};

static void on_body(void *arg, struct slice data)
{
    buf_printf(&((struct fake *)arg)->log, "<body(%.*s) ", (int)data.n, data.p);
}

static void on_body_end(void *arg, const struct http_head *trailers)
{
    (void)trailers;
    buf_append_str(&((struct fake *)arg)->log, "<end ");
}

static void on_writable(void *arg)
{
    buf_append_str(&((struct fake *)arg)->log, "<writable ");
}

/* Does what a careless proxy might do. */
static void on_gone(void *arg, const char *reason)
{
    struct fake *f = arg;

    buf_printf(&f->log, "<gone(%s) ", reason);
    exchange_body(&f->x, SLICE_LIT("x"));
    exchange_resume_body(&f->x);
    exchange_finish(&f->x, NULL);
    exchange_abort(&f->x, "again");
}

static const struct exchange_sink sink = {on_body, on_body_end, on_writable, on_gone};

static void begin(struct fake *f, const char *method, bool attach)
{
    f->x.request.method = slice_str(method);
    f->x.request.method_id = http_method_of(f->x.request.method);
    f->broken = false;
    exchange_give_gone(&f->x, "the next one begins");
    buf_reset(&f->log);
    exchange_begin(&f->x);
    if (attach)
        exchange_attach(&f->x, &sink, f);
}

static void log_is(struct fake *f, const char *want, const char *name)
{
    is_slice(slice_of(buf_len(&f->log) == 0 ? "" : buf_slice(&f->log).p, buf_len(&f->log)), want, "%s", name);
    buf_reset(&f->log);
}

static bool respond(struct fake *f, unsigned status, enum http_body_kind kind, uint64_t length)
{
    struct http_head h = {.status = status, .minor = 1};

    return exchange_respond(&f->x, &h, (struct http_body){kind, length});
}

static bool interim(struct fake *f, unsigned status)
{
    struct http_head h = {.status = status, .minor = 1};

    return exchange_interim(&f->x, &h);
}

static bool body(struct fake *f, const char *text)
{
    return exchange_body(&f->x, slice_str(text));
}

/* ---- how a response's body is settled ---- */

static const struct {
    const char *method;
    unsigned status;
    enum http_body_kind kind;
    uint64_t length;
    const char *want;
} settled[] = {
    {"GET", 200, HTTP_BODY_LENGTH, 5, "respond(200 length 5) "},
    {"GET", 200, HTTP_BODY_CHUNKED, 0, "respond(200 chunked 0) "},
    {"GET", 200, HTTP_BODY_CLOSE, 0, "respond(200 chunked 0) "},
    {"GET", 200, HTTP_BODY_NONE, 0, "respond(200 length 0) "},
    {"HEAD", 200, HTTP_BODY_LENGTH, 5, "respond(200 length 5 bodyless) "},
    {"HEAD", 200, HTTP_BODY_NONE, 0, "respond(200 none 0 bodyless) "},
    {"HEAD", 200, HTTP_BODY_CHUNKED, 0, "respond(200 chunked 0 bodyless) "},
    {"GET", 304, HTTP_BODY_LENGTH, 7, "respond(304 length 7 bodyless) "},
    {"GET", 304, HTTP_BODY_NONE, 0, "respond(304 none 0 bodyless) "},
    {"GET", 204, HTTP_BODY_LENGTH, 0, "respond(204 none 0 bodyless) "},
    {"DELETE", 204, HTTP_BODY_NONE, 0, "respond(204 none 0 bodyless) "},
};

static void test_settled(struct fake *f)
{
    for (size_t i = 0; i < ROWS(settled); i++) {
        begin(f, settled[i].method, true);
        ok(respond(f, settled[i].status, settled[i].kind, settled[i].length), "%s, %u: accepted", settled[i].method,
           settled[i].status);
        log_is(f, settled[i].want, settled[i].want);
        exchange_abort(&f->x, "");
    }
}

/* ---- the order of calls ---- */

static void test_order(struct fake *f)
{
    begin(f, "GET", true);
    ok(interim(f, 103) && respond(f, 200, HTTP_BODY_LENGTH, 3) && body(f, "ab") && body(f, "") && body(f, "c"),
       "the usual");
    exchange_finish(&f->x, NULL);
    log_is(f, "interim(103) respond(200 length 3) body(ab) body(c) finish ", "is passed on");
    ok(!exchange_held(&f->x), "and over");
    begin(f, "GET", true);
    ok(!body(f, "ab"), "a body before its head");
    log_is(f, "doomed(response body before its head) ", "dooms");
    begin(f, "GET", true);
    respond(f, 200, HTTP_BODY_CHUNKED, 0);
    ok(!respond(f, 200, HTTP_BODY_CHUNKED, 0), "a second head");
    log_is(f, "respond(200 chunked 0) doomed(second response to one request) ", "dooms");
    begin(f, "GET", true);
    respond(f, 200, HTTP_BODY_CHUNKED, 0);
    ok(!interim(f, 103), "an interim response after the final one");
    log_is(f, "respond(200 chunked 0) ", "is not written, and harms nobody");
    begin(f, "GET", true);
    ok(!interim(f, 101), "101 as an interim response");
    log_is(f, "doomed(impossible interim response) ", "dooms");
    begin(f, "GET", true);
    ok(!respond(f, 100, HTTP_BODY_NONE, 0), "100 as a final response");
    log_is(f, "doomed(impossible response status) ", "dooms");
    begin(f, "GET", true);
    exchange_finish(&f->x, NULL);
    log_is(f, "abort(response finished before its head) ", "an end without a beginning aborts");
}

static void test_length(struct fake *f)
{
    begin(f, "GET", true);
    respond(f, 200, HTTP_BODY_LENGTH, 3);
    body(f, "ab");
    exchange_finish(&f->x, NULL);
    log_is(f, "respond(200 length 3) body(ab) abort(response shorter than announced) ", "too short");
    begin(f, "GET", true);
    respond(f, 200, HTTP_BODY_LENGTH, 3);
    body(f, "ab");
    ok(!body(f, "cd"), "too long");
    log_is(f, "respond(200 length 3) body(ab) doomed(response longer than announced) ",
           "not a byte of the excess is written");
    ok(!body(f, "c"), "nothing more is taken");
    exchange_finish(&f->x, NULL);
    log_is(f, "abort(response longer than announced) ", "and finishing does not mend it");
    begin(f, "HEAD", true);
    respond(f, 200, HTTP_BODY_LENGTH, 3);
    ok(!body(f, "abc"), "a body for HEAD");
    log_is(f, "respond(200 length 3 bodyless) doomed(body on a response that has none) ", "dooms");
    begin(f, "HEAD", true);
    respond(f, 200, HTTP_BODY_LENGTH, 3);
    exchange_finish(&f->x, NULL);
    log_is(f, "respond(200 length 3 bodyless) finish ", "its announced length need not come");
}

static void test_reply(struct fake *f)
{
    struct http_head h = {.status = 200, .minor = 1};

    begin(f, "GET", true);
    exchange_reply(&f->x, &h, SLICE_LIT("abc"));
    log_is(f, "respond(200 length 3) body(abc) finish ", "a reply in one call");
    begin(f, "HEAD", true);
    exchange_reply(&f->x, &h, SLICE_LIT("abc"));
    log_is(f, "respond(200 length 3 bodyless) finish ", "to HEAD");
    h.status = 304;
    begin(f, "GET", true);
    exchange_reply(&f->x, &h, SLICE_NONE);
    log_is(f, "respond(304 none 0 bodyless) finish ", "304");
    h.status = 200;
    begin(f, "GET", true);
    f->broken = true;
    exchange_reply(&f->x, &h, SLICE_LIT("abc"));
    log_is(f, "respond(200 length 3) doomed(client cannot be written to) abort(client cannot be written to) ",
           "to a client that is gone: over, and nobody is told");
    exchange_give_gone(&f->x, "late");
    log_is(f, "", "not later either");
}

/* ---- the client's side ---- */

static void test_gone(struct fake *f)
{
    begin(f, "POST", true);
    exchange_give_body(&f->x, SLICE_LIT("ab"));
    exchange_give_end(&f->x, &f->x.request);
    exchange_give_writable(&f->x);
    is_u64(exchange_request_bytes(&f->x), 2, "bytes are counted");
    log_is(f, "<body(ab) <end <writable ", "what comes in is handed on");
    exchange_give_gone(&f->x, "left");
    log_is(f, "<gone(left) ", "gone: whatever the proxy does then goes nowhere");
    exchange_give_gone(&f->x, "left again");
    exchange_give_body(&f->x, SLICE_LIT("ab"));
    exchange_give_end(&f->x, &f->x.request);
    exchange_give_writable(&f->x);
    log_is(f, "", "once, and nothing after it");
    begin(f, "POST", true);
    respond(f, 200, HTTP_BODY_CHUNKED, 0);
    f->broken = true;
    ok(!body(f, "x"), "a client that cannot be written to");
    exchange_give_body(&f->x, SLICE_LIT("ab"));
    exchange_give_writable(&f->x);
    log_is(f, "respond(200 chunked 0) body(x) doomed(client cannot be written to) ", "gets no word in any more");
    exchange_give_gone(&f->x, f->x.doom_reason);
    log_is(f, "<gone(client cannot be written to) ", "then the proxy is told");
    begin(f, "POST", true);
    exchange_abort(&f->x, "enough");
    exchange_give_gone(&f->x, "left");
    log_is(f, "abort(enough) ", "who aborts is not told");
}

static void test_pause(struct fake *f)
{
    begin(f, "POST", true);
    exchange_pause_body(&f->x);
    exchange_resume_body(&f->x);
    exchange_abort(&f->x, "");
    exchange_pause_body(&f->x);
    exchange_resume_body(&f->x);
    ok(!exchange_congested(&f->x), "nothing is congested once it is over");
    log_is(f, "pause resume abort() ", "pause and resume, while it lasts");
}

static void test_upgrade(struct fake *f)
{
    struct http_head h = {.status = 101, .minor = 1};

    begin(f, "GET", true);
    f->x.wants_upgrade = false;
    ok(exchange_upgrade(&f->x, &h) == NULL, "nobody asked for an upgrade");
    log_is(f, "abort(impossible upgrade) ", "aborted");
    f->x.wants_upgrade = true;
    begin(f, "GET", true);
    ok(exchange_upgrade(&f->x, &h) != NULL, "an upgrade");
    log_is(f, "upgrade(101) ", "is passed on");
    ok(!exchange_held(&f->x), "and over");
    begin(f, "GET", true);
    respond(f, 200, HTTP_BODY_CHUNKED, 0);
    ok(exchange_upgrade(&f->x, &h) == NULL, "not after a response");
    h.status = 200;
    begin(f, "GET", true);
    ok(exchange_upgrade(&f->x, &h) == NULL, "not with another status");
    h.status = 101;
    begin(f, "GET", true);
    body(f, "ab");
    ok(exchange_upgrade(&f->x, &h) == NULL, "not what is doomed");
    log_is(f, "doomed(response body before its head) abort(response body before its head) ", "for its own reason");
    f->x.wants_upgrade = false;
}

static void test_taken(struct fake *f)
{
    begin(f, "GET", false);
    ok(!exchange_taken(&f->x), "neither attached nor answered");
    exchange_give_gone(&f->x, "left");
    log_is(f, "", "nobody to tell");
    begin(f, "GET", true);
    ok(exchange_taken(&f->x), "attached");
    exchange_abort(&f->x, "");
    ok(exchange_taken(&f->x), "answered");
}

/* ---- the edges ---- */

static void test_statuses(struct fake *f)
{
    static const struct {
        unsigned status;
        bool interim, taken;
    } rows[] = {{99, true, false},   {100, true, true},  {199, true, true},  {200, true, false},
                {199, false, false}, {200, false, true}, {999, false, true}, {1000, false, false}};

    for (size_t i = 0; i < ROWS(rows); i++) {
        unsigned status = rows[i].status;

        begin(f, "GET", true);
        is_int(rows[i].interim ? interim(f, status) : respond(f, status, HTTP_BODY_LENGTH, 0), rows[i].taken,
               "%u as %s response", status, rows[i].interim ? "an interim" : "a final");
        is_int(f->x.phase == EXCHANGE_DOOMED, !rows[i].taken, "dooms, or does not");
        exchange_abort(&f->x, "");
    }
}

/* A connection need not know that it is doomed to stop telling the proxy. */
static void test_given_to_doomed(struct fake *f)
{
    struct http_head trailers = {.status = 0};

    begin(f, "GET", true);
    ok(!body(f, "ab"), "doomed");
    log_is(f, "doomed(response body before its head) ", "as is said once");
    exchange_give_body(&f->x, SLICE_LIT("x"));
    exchange_give_end(&f->x, &trailers);
    exchange_give_writable(&f->x);
    log_is(f, "", "nothing more is told then");
    exchange_give_gone(&f->x, "left");
    log_is(f, "<gone(left) ", "but its end");
    begin(f, "GET", false);
    exchange_give_body(&f->x, SLICE_LIT("x"));
    exchange_give_end(&f->x, &trailers);
    exchange_give_writable(&f->x);
    log_is(f, "", "nor is anything told to who has not attached himself");
    exchange_give_gone(&f->x, "left");
}

static void test_asked(struct fake *f)
{
    static struct arena_pool pool = {.ceiling = 1000};
    struct quota quota;
    uint64_t now = clock_us();

    clock_fake(now + 5, clock_wall_us());
    begin(f, "GET", true);
    clock_fake(now + 9, clock_wall_us());
    is_u64(exchange_started_us(&f->x), now + 5, "when it came");
    f->x.quota = &quota;
    ok(exchange_quota(&f->x) == &quota, "who pays for it");
    f->x.arenas = &pool;
    f->x.request_arena = arena_pool_take(&pool, NULL);
    ok(f->x.request_arena != NULL && exchange_request_arena(&f->x) == f->x.request_arena, "where its head is");
    ok(exchange_for_client(&f->x, SLICE_LIT("1.2.3.4")), "nobody judges clients here");
    exchange_give_gone(&f->x, "left");
    ok(exchange_request_arena(&f->x) == NULL && pool.n == 1, "which nobody needs once its client has left");
    arena_pool_free(&pool);
    f->x.arenas = NULL;
    f->x.quota = NULL;
    clock_real();
}

/* What was said of one request says nothing of the next. */
static void test_next(struct fake *f)
{
    begin(f, "GET", true);
    exchange_send_away(&f->x);
    ok(exchange_for_client(&f->x, SLICE_LIT("1.2.3.4")) && f->x.sent_away && f->x.behind != 0, "somebody's last one");
    respond(f, 200, HTTP_BODY_CHUNKED, 0);
    body(f, "abc");
    exchange_give_body(&f->x, SLICE_LIT("ab"));
    begin(f, "GET", false);
    ok(!f->x.sent_away && f->x.behind == 0, "the next one is neither");
    ok(!exchange_taken(&f->x), "and nobody's yet");
    is_u64(exchange_response_bytes(&f->x) + exchange_request_bytes(&f->x), 0, "of which nothing has come or gone");
    exchange_abort(&f->x, "");
}

/* Of a body that a client may not send before 100 (Continue) the time begins with its first byte, and with no other. */
static void test_continued(struct fake *f)
{
    uint64_t now = clock_us();

    for (int expects = 0; expects < 2; expects++) {
        clock_fake(now, clock_wall_us());
        begin(f, "POST", true);
        f->x.expects_continue = expects;
        clock_fake(now + 20000000, clock_wall_us());
        exchange_give_body(&f->x, SLICE_LIT("x"));
        is_int(exchange_is_slow(&f->x, 10000, true), !expects, "%s", expects ? "it expected to be told" : "it is late");
        clock_fake(now + 40000000, clock_wall_us());
        exchange_give_body(&f->x, SLICE_LIT("x"));
        ok(exchange_is_slow(&f->x, 10000, true), "two bytes in a long time are few");
        f->x.request_bytes += 1 << 20;
        ok(!exchange_is_slow(&f->x, 10000, true) && exchange_is_slow(&f->x, 10000, false),
           "a megabyte is enough, of who is indulged");
        f->x.expects_continue = false;
        exchange_abort(&f->x, "");
    }
    clock_real();
}

/* ---- what is given up ---- */

static void give_up(struct fake *f, unsigned n, uint64_t account)
{
    for (unsigned i = 0; i < n; i++) {
        begin(f, "GET", true);
        (void)exchange_may_ask(&f->x, account);
        exchange_give_gone(&f->x, "left");
    }
}

static bool may_ask(struct fake *f, uint64_t account)
{
    bool may;

    begin(f, "GET", true);
    may = exchange_may_ask(&f->x, account);
    exchange_abort(&f->x, "");
    return may;
}

static void turn(uint64_t *now_us, unsigned ms)
{
    *now_us += (uint64_t)ms * 1000;
    clock_fake(*now_us, clock_wall_us());
}

/* As many as are begun before the first of them ends. */
static void give_up_together(struct fake *f, struct fake *many, unsigned n, uint64_t account, unsigned *let)
{
    *let = 0;
    for (unsigned i = 0; i < n; i++) {
        many[i] = (struct fake){.x = {.ops = &ops, .stats = f->x.stats, .clients = f->x.clients}};
        buf_init(&many[i].log, 1 << 10);
        begin(&many[i], "GET", true);
        if (exchange_may_ask(&many[i].x, account))
            ++*let;
        else
            exchange_abort(&many[i].x, "refused");
    }
    for (unsigned i = 0; i < n; i++) {
        exchange_give_gone(&many[i].x, "left");
        buf_free(&many[i].log);
    }
}

static void test_given_up(struct fake *f)
{
    uint64_t now = clock_us();

    turn(&now, 0);
    f->x.clients = clients_new(NULL);
    if (f->x.clients == NULL)
        tap_bail("no memory");
    give_up(f, LIMIT_CHURN_REQUESTS, 1);
    ok(may_ask(f, 1), "as many as a program with that many watches gives up when it is restarted");
    give_up(f, 1, 1);
    ok(!may_ask(f, 1), "who gives up more is refused");
    ok(may_ask(f, 3), "nobody else");
    ok(may_ask(f, 0), "who has no account has no bounds");
    turn(&now, 2 * MS_EACH);
    ok(may_ask(f, 1), "soon he may ask again");
    for (unsigned i = 0; i < 100; i++)
        if (!may_ask(f, 1))
            ok(false, "%u: what ends well is on nobody's account", i);
    turn(&now, 3600000);
    for (unsigned i = 0; i < LIMIT_CHURN_REQUESTS + 100; i++) {
        begin(f, "GET", true);
        (void)exchange_may_ask(&f->x, 1);
        turn(&now, i == 0 ? TIMEOUT_SOON_MS : 0);
        f->x.started_us = now - (uint64_t)TIMEOUT_SOON_MS * 1000;
        exchange_give_gone(&f->x, "left");
    }
    ok(may_ask(f, 1), "watches that have been there for long end whenever their client likes");
    clients_free(f->x.clients);
    f->x.clients = NULL;
    clock_real();
}

/* Asking again is no way to have as many under way as before. */
static void test_given_up_again(struct fake *f)
{
    enum { AT_ONCE = LIMIT_CHURN_REQUESTS + 400, TURNS = 20 };
    static struct fake many[AT_ONCE];
    uint64_t now = clock_us();
    unsigned let, in_all = 0;

    turn(&now, 0);
    f->x.clients = clients_new(NULL);
    if (f->x.clients == NULL)
        tap_bail("no memory");
    give_up_together(f, many, AT_ONCE, 1, &let);
    is_u64(let, AT_ONCE, "who has given up nothing is not bounded");
    for (unsigned i = 0; i < TURNS; i++) {
        turn(&now, 1000);
        give_up_together(f, many, AT_ONCE, 1, &let);
        in_all += let;
    }
    ok(in_all > 0 && in_all <= TURNS * LIMIT_CHURN_REQUESTS_SECOND, "then so many in a second: %u in %u", in_all,
       (unsigned)TURNS);
    clients_free(f->x.clients);
    f->x.clients = NULL;
    clock_real();
}

int main(void)
{
    struct metrics *m = metrics_new();
    struct front_stats *stats = front_stats_new(m);
    struct fake f = {.x = {.ops = &ops, .stats = stats}};

    buf_init(&f.log, 1 << 16);
    test_settled(&f);
    test_order(&f);
    test_length(&f);
    test_reply(&f);
    test_gone(&f);
    test_pause(&f);
    test_upgrade(&f);
    test_taken(&f);
    test_statuses(&f);
    test_given_to_doomed(&f);
    test_asked(&f);
    test_next(&f);
    test_continued(&f);
    test_given_up(&f);
    test_given_up_again(&f);
    buf_free(&f.log);
    front_stats_free(stats);
    metrics_free(m);
    return tap_end();
}
