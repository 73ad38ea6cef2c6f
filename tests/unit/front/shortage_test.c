/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests and answers for which memory is missing at one point after the other: the proxy sees a request as it was
 * sent or none, the client an answer as it was given or that there is none.
 */
#include "base/quota.h"
#include "front/front_conn.h"
#include "lib/arena_fails.h"
#include "lib/tap.h"
#include "unit/front/h2_kit.h"

/* ---- nghttp2 ---- */

static const char *without_memory; /* the function of nghttp2 that finds none; NULL: none */

#define WRAPPED(name, params, args)                                                                                    \
    int __real_##name params;                                                                                          \
    int __wrap_##name params;                                                                                          \
    int __wrap_##name params                                                                                           \
    {                                                                                                                  \
        return without_memory != NULL && strcmp(without_memory, #name) == 0 ? NGHTTP2_ERR_NOMEM : __real_##name args;  \
    }

WRAPPED(nghttp2_submit_response,
        (nghttp2_session * s, int32_t id, const nghttp2_nv *nva, size_t n, const nghttp2_data_provider *p),
        (s, id, nva, n, p))
WRAPPED(nghttp2_submit_headers,
        (nghttp2_session * s, uint8_t flags, int32_t id, const nghttp2_priority_spec *p, const nghttp2_nv *nva,
         size_t n, void *arg),
        (s, flags, id, p, nva, n, arg))
WRAPPED(nghttp2_submit_rst_stream, (nghttp2_session * s, uint8_t flags, int32_t id, uint32_t code),
        (s, flags, id, code))
WRAPPED(nghttp2_submit_shutdown_notice, (nghttp2_session * s), (s))
WRAPPED(nghttp2_submit_goaway,
        (nghttp2_session * s, uint8_t flags, int32_t last, uint32_t code, const uint8_t *data, size_t n),
        (s, flags, last, code, data, n))
WRAPPED(nghttp2_session_resume_data, (nghttp2_session * s, int32_t id), (s, id))
WRAPPED(nghttp2_session_consume_stream, (nghttp2_session * s, int32_t id, size_t n), (s, id, n))
WRAPPED(nghttp2_session_consume_connection, (nghttp2_session * s, size_t n), (s, n))

/* More fields than there is room for at first. */
#define MORE(end)                                                                                                      \
    "x-1: a" end "x-2: a" end "x-3: a" end "x-4: a" end "x-5: a" end "x-6: a" end "x-7: a" end "x-8: a" end            \
    "x-9: a" end "x-10: ten" end

/* ---- HTTP/2 ---- */

static bool is_over(void *arg)
{
    struct front_h2_kit *k = arg;

    return k->end != CLIENT_OPEN || k->req[0].closed || k->held[0].ended || k->held[0].gone > 0;
}

static bool asked_field(const struct http_head *h, const char *name, const char *value)
{
    const struct http_field *f = http_head_find_name(h, slice_str(name));

    return f != NULL && slice_eq(f->value, slice_str(value));
}

static bool is_whole(struct exchange *x, bool http2)
{
    const struct http_head *h = exchange_request(x);

    return slice_eq(h->method, SLICE_LIT("POST")) && slice_eq(h->target, SLICE_LIT("/a?trailer")) &&
           asked_field(h, "Host", "h") && asked_field(h, "Cookie", "a; b; c") && asked_field(h, "X-One", "1") &&
           asked_field(h, "Content-Type", "t") && asked_field(h, "x-10", "ten") && h->n_fields == (http2 ? 14 : 15);
}

/* The proxy's part, whose own memory is there. */
static void respond(struct exchange *x, struct http_head *head, struct http_head *trailers)
{
    struct arena *a = exchange_arena(x);

    arena_holds = true;
    if (!http_head_init(head, a, 2) || !http_head_init(trailers, a, 1) ||
        !http_head_add(head, a, SLICE_LIT("x-answer"), SLICE_LIT("yes")) ||
        !http_head_add(trailers, a, SLICE_LIT("x-end"), SLICE_LIT("1")))
        tap_bail("out of memory");
    head->status = 103;
    head->minor = 1;
    head->reason = SLICE_LIT("x");
    arena_holds = false;
}

static void answer(struct front_h2_kit *k, bool empty)
{
    struct held *h = &k->held[0];
    struct http_head head, trailers;

    respond(h->x, &head, &trailers);
    if (h->x != NULL)
        exchange_interim(h->x, &head);
    head.status = 200;
    if (h->x != NULL)
        exchange_respond(h->x, &head, (struct http_body){empty ? HTTP_BODY_LENGTH : HTTP_BODY_CHUNKED, 0});
    h2_kit_settle(k);
    if (h->x != NULL && !empty)
        exchange_body(h->x, SLICE_LIT("answer"));
    h2_kit_settle(k);
    if (h->x != NULL)
        exchange_finish(h->x, empty ? NULL : &trailers);
    h->x = NULL;
}

struct outcome {
    unsigned whole, refused, gone; /* gone: the proxy was told so */
};

/* One request, from its connection's first byte on. */
static void over_http2(struct front_h2_kit *k, bool empty, struct outcome *o)
{
    struct req *r;
    bool asked, answered;

    k->n_held = 0;
    h2_kit_connect(k, false, false);
    arena_holds = false;
    r = h2_kit_ask(k, "POST", "/a?trailer", "h",
                   "cookie: a\ncookie: b\ncookie: c\nx-one: 1\ncontent-type: t\n" MORE("\n"), 5);
    memset(&k->held[0], 0, sizeof(k->held[0]));
    buf_init(&k->held[0].told, 1000);
    (void)h2_kit_until(k, is_over, k);
    asked = k->n_held > 0;
    if (asked && k->held[0].x != NULL && k->held[0].ended) {
        ok(is_whole(k->held[0].x, true), "the request is what was sent");
        is_str(h2_kit_text(&k->held[0].told), "body() end x-sum=abc ", "and its trailers");
        answer(k, empty);
    }
    (void)h2_kit_closed(k, r);
    arena_holds = true;
    without_memory = NULL;
    answered = r->status == 200 && r->ended && r->code == 0;
    if (answered)
        ok(r->interim == 103 && h2_kit_has(&r->fields, "x-answer: yes") &&
               (empty || (h2_kit_has(&r->body, "answer") && h2_kit_has(&r->trailers, "x-end: 1"))),
           "the answer is what was given");
    ok(answered || r->code != 0 || r->status >= 500 || k->end != CLIENT_OPEN, "or it is none");
    o->whole += answered;
    o->refused += !answered;
    o->gone += k->held[0].gone;
    h2_kit_disconnect(k);
    front_kit_empty(&k->front);
    buf_free(&k->held[0].told);
    k->n_held = 0;
}

static void http2(void)
{
    static const char *const functions[] = {"nghttp2_submit_response",        "nghttp2_submit_headers",
                                            "nghttp2_submit_rst_stream",      "nghttp2_session_resume_data",
                                            "nghttp2_session_consume_stream", "nghttp2_session_consume_connection"};
    static struct front_h2_kit k;
    struct outcome o = {0, 0, 0}, of_function;

    arena_holds = true;
    h2_kit_init(&k);
    h2_kit_start(&k);
    for (int empty = 0; empty < 2; empty++) {
        o = (struct outcome){0, 0, 0};
        arena_fails_at = 0;
        over_http2(&k, empty, &o);
        is_u64(o.whole, 1, "with all memory");
        for (arena_fails_at = 1; arena_fails_at < 200; arena_fails_at++) {
            arena_calls = 0;
            over_http2(&k, empty, &o);
            if (arena_calls < arena_fails_at)
                break;
        }
        ok(o.refused > 8 && o.whole == 2, "HTTP/2: %u allocations, each of which fails", o.refused);
    }
    arena_fails_at = 0;
    for (size_t i = 0; i < ROWS(functions); i++) {
        of_function = (struct outcome){0, 0, 0};
        without_memory = functions[i];
        over_http2(&k, false, &of_function);
        is_u64(of_function.whole, i == 2, "%s", functions[i]);
        is_u64(of_function.gone, i != 2, "the proxy is told");
    }
    h2_kit_end(&k);
}

static void drained(void *arg)
{
    *(bool *)arg = true;
}

/* Who cannot be told that we leave, or that his request is over, is left without a word. */
static void end_without_memory(const char *function, bool abort)
{
    static struct front_h2_kit k;
    bool gone = false;

    h2_kit_init(&k);
    h2_kit_start(&k);
    h2_kit_connect(&k, false, false);
    h2_kit_get(&k, "/x");
    h2_kit_held(&k, 1);
    without_memory = function;
    if (abort) {
        exchange_abort(k.held[0].x, "test");
        k.held[0].gone = 1;
    } else {
        front_drain(k.front.front, drained, &gone);
    }
    ok(h2_kit_ended(&k), "%s: the connection ends", function);
    without_memory = NULL;
    h2_kit_settle(&k);
    ok(gone || abort, "nothing holds the drain");
    is_u64(k.held[0].gone, 1, "the proxy is told");
    is_double(front_kit_closed(&k.front, "no_memory"), 1, "counted");
    h2_kit_end(&k);
}

/* Who cannot even be refused sees that there is no answer; the others on the connection have theirs. */
static void refusal_without_memory(void)
{
    static struct front_h2_kit k;
    struct req *r;

    h2_kit_init(&k);
    h2_kit_start(&k);
    h2_kit_connect(&k, false, false);
    for (int short_of = 0; short_of < 2; short_of++) {
        without_memory = short_of ? "nghttp2_submit_response" : NULL;
        r = h2_kit_ask(&k, "FOO", "/x", "h", NULL, 0);
        ok(h2_kit_closed(&k, r), "a request that is refused ends");
        is_int(r->status, short_of ? 0 : 501, "with the refusal, or without memory for it");
        is_int(r->code, short_of ? NGHTTP2_INTERNAL_ERROR : NGHTTP2_NO_ERROR, "is reset");
    }
    without_memory = NULL;
    r = h2_kit_get(&k, "/sync");
    ok(h2_kit_closed(&k, r) && r->status == 200, "the next one is answered");
    h2_kit_disconnect(&k);
    h2_kit_end(&k);
}

/* What nghttp2 says to the next bytes of a client; 0: what it thinks of them. */
static ssize_t says_to_input;

ssize_t __real_nghttp2_session_mem_recv(nghttp2_session *s, const uint8_t *in, size_t n);
ssize_t __wrap_nghttp2_session_mem_recv(nghttp2_session *s, const uint8_t *in, size_t n);

ssize_t __wrap_nghttp2_session_mem_recv(nghttp2_session *s, const uint8_t *in, size_t n)
{
    ssize_t error = says_to_input;

    if (error == 0 || nghttp2_session_check_server_session(s) == 0)
        return __real_nghttp2_session_mem_recv(s, in, n);
    says_to_input = 0;
    return error;
}

static void refused_by_nghttp2(ssize_t error, const char *reason)
{
    static struct front_h2_kit k;

    h2_kit_init(&k);
    h2_kit_start(&k);
    h2_kit_connect(&k, false, false);
    h2_kit_get(&k, "/x");
    h2_kit_held(&k, 1);
    h2_kit_settle(&k);
    says_to_input = error;
    h2_kit_get(&k, "/y");
    ok(h2_kit_ended(&k), "%s: the connection ends", nghttp2_strerror((int)error));
    h2_kit_settle(&k);
    is_u64(k.held[0].gone, 1, "the proxy is told");
    is_double(front_kit_closed(&k.front, reason), 1, "counted as %s", reason);
    h2_kit_end(&k);
}

/* ---- HTTP/1.1 ---- */

struct h1_goal {
    struct front_kit *w;
    struct front_client *c;
};

static bool h1_is_over(void *arg)
{
    struct h1_goal *g = arg;

    return g->c->end != CLIENT_OPEN || buf_len(&g->c->in) > 0 || g->w->gone > 0 ||
           (buf_len(&g->w->sink) > 0 && memmem(buf_slice(&g->w->sink).p, buf_len(&g->w->sink), "end trailer", 11));
}

static void over_http1(struct front_kit *w, struct outcome *o)
{
    static const char request[] =
        "POST /a?trailer HTTP/1.1\r\nHost: h\r\nCookie: a; b; c\r\nX-One: 1\r\n"
        "Content-Type: t\r\n" MORE("\r\n") "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n"
                                           "X-Sum: abc\r\n\r\n";
    struct http_head head, trailers;
    struct front_client c;
    struct h1_goal g = {w, &c};
    bool answered;
    const char *got;

    w->gone = 0;
    (void)front_kit_sunk(w);
    client_open(w, &c);
    arena_holds = false;
    client_send(&c, request);
    (void)front_kit_until(w, h1_is_over, &g);
    if (w->x != NULL && buf_len(&w->sink) > 0 &&
        memmem(buf_slice(&w->sink).p, buf_len(&w->sink), "end trailer", 11) != NULL) {
        ok(is_whole(w->x, false), "the request is what was sent");
        is_str(front_kit_sunk(w), "body(hello) end trailer:X-Sum ", "and its body");
        respond(w->x, &head, &trailers);
        head.status = 200;
        exchange_respond(w->x, &head, (struct http_body){HTTP_BODY_CHUNKED, 0});
        if (w->x != NULL)
            exchange_body(w->x, SLICE_LIT("answer"));
        if (w->x != NULL)
            exchange_finish(w->x, &trailers);
        w->x = NULL;
    }
    front_kit_settle(w);
    arena_holds = true;
    got = client_take(&c);
    answered = strncmp(got, "HTTP/1.1 200 ", 13) == 0 && strstr(got, "\r\n0\r\n") != NULL;
    if (answered)
        ok(strstr(got, "x-answer: yes\r\n") != NULL && strstr(got, "6\r\nanswer\r\n0\r\nx-end: 1\r\n\r\n") != NULL,
           "the answer is what was given");
    else
        ok(strncmp(got, "HTTP/1.1 503 ", 13) == 0 || client_ended(&c) != CLIENT_OPEN, "or it is none: %s", got);
    o->whole += answered;
    o->refused += !answered;
    client_close(&c, STREAM_CLOSE_NOW);
    front_kit_empty(w);
    w->x = NULL;
}

static void http1(void)
{
    struct outcome o = {0, 0, 0};
    struct front_kit w;

    arena_holds = true;
    arena_fails_at = 0;
    front_kit_init(&w, false);
    front_kit_start(&w);
    over_http1(&w, &o);
    is_u64(o.whole, 1, "with all memory");
    for (arena_fails_at = 1; arena_fails_at < 200; arena_fails_at++) {
        arena_calls = 0;
        over_http1(&w, &o);
        if (arena_calls < arena_fails_at)
            break;
    }
    ok(o.refused > 4 && o.whole == 2, "HTTP/1.1: %u allocations, each of which fails", o.refused);
    arena_fails_at = 0;
    front_kit_end(&w);
}

/* ---- who is told what ---- */

/* Of the looks at a quota, or at whether a head has to wait, the one of this number finds nothing free; 0: none. */
static unsigned quota_full_at, waits_at, quota_looks, wait_looks;

bool __real_quota_has_room(const struct quota *q, size_t n);
bool __wrap_quota_has_room(const struct quota *q, size_t n);
bool __real_front_conn_must_wait(const struct front_conn *fc);
bool __wrap_front_conn_must_wait(const struct front_conn *fc);

bool __wrap_quota_has_room(const struct quota *q, size_t n)
{
    return ++quota_looks != quota_full_at && __real_quota_has_room(q, n);
}

bool __wrap_front_conn_must_wait(const struct front_conn *fc)
{
    return ++wait_looks == waits_at || __real_front_conn_must_wait(fc);
}

/* An allocation for a head fails; 0: none. */
static void begin_shortage(uint64_t allocation, unsigned quota, unsigned wait)
{
    arena_calls = 0;
    arena_fails_at = allocation;
    arena_holds = allocation == 0;
    quota_looks = wait_looks = 0;
    quota_full_at = quota;
    waits_at = wait;
}

static void end_shortage(void)
{
    arena_holds = true;
    arena_fails_at = 0;
    quota_full_at = waits_at = 0;
}

#define CLIENTS_TEXT "clients hold too much memory\n"
#define HEADS_TEXT "heads of too many bytes at once\n"

static const struct {
    uint64_t allocation;
    unsigned quota, wait, http2, http1; /* the last: what it is answered, there, and here; 0: nothing is asked */
    const char *text;
} shortages[] = {
    {2, 0, 0, 503, 0, "out of memory\n"}, {2, 1, 0, 429, 0, CLIENTS_TEXT},   {2, 2, 0, 429, 0, HEADS_TEXT},
    {3, 0, 0, 503, 0, "out of memory\n"}, {3, 1, 0, 429, 0, CLIENTS_TEXT},   {3, 2, 0, 429, 0, HEADS_TEXT},
    {1, 1, 0, 0, 429, CLIENTS_TEXT},      {0, 0, 1, 429, 429, CLIENTS_TEXT}, {0, 0, 2, 429, 0, CLIENTS_TEXT},
    {0, 0, 3, 429, 0, CLIENTS_TEXT},      {0, 0, 4, 429, 0, CLIENTS_TEXT},   {0, 0, 5, 429, 0, CLIENTS_TEXT},
};

static void told_over_http2(size_t i)
{
    static struct front_h2_kit k;
    struct req *r;

    h2_kit_init(&k);
    h2_kit_start(&k);
    h2_kit_connect(&k, false, false);
    h2_kit_settle(&k);
    begin_shortage(shortages[i].allocation, shortages[i].quota, shortages[i].wait);
    r = h2_kit_get(&k, "/x");
    ok(h2_kit_closed(&k, r), "HTTP/2, shortage %zu: over", i);
    end_shortage();
    is_u64(r->status, shortages[i].http2, "refused");
    is_str(h2_kit_text(&r->body), shortages[i].text, "and told why");
    is_u64(k.n_held, 0, "the proxy hears nothing of it");
    r = h2_kit_get(&k, "/sync");
    ok(h2_kit_closed(&k, r) && r->status == 200, "the next one is answered");
    h2_kit_end(&k);
}

static void told_over_http1(size_t i, bool in_pieces)
{
    struct front_client c;
    struct front_kit w;

    front_kit_init(&w, false);
    front_kit_start(&w);
    client_open(&w, &c);
    client_ask(&c, "/sync");
    ok(client_ends_in(&c, "sync"), "answered");
    begin_shortage(shortages[i].allocation, shortages[i].quota, shortages[i].wait);
    client_send(&c, in_pieces ? "GET /x HTTP/1.1\r\nHos" : "GET /x HTTP/1.1\r\nHost: h\r\n\r\n");
    ok(client_ended(&c) != CLIENT_OPEN, "HTTP/1.1, shortage %zu: over", i);
    end_shortage();
    ok(strstr(client_take(&c), "HTTP/1.1 429 ") != NULL, "refused");
    is_u64(w.handled, 1, "the proxy hears nothing of it");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(front_kit_empty(&w), "over");
    is_double(front_kit_closed(&w, "memory"), 1, "for the memory of clients");
    front_kit_end(&w);
}

static void who_is_told_what(void)
{
    for (size_t i = 0; i < ROWS(shortages); i++) {
        if (shortages[i].http2 != 0)
            told_over_http2(i);
        if (shortages[i].http1 != 0)
            told_over_http1(i, false);
        if (shortages[i].http1 != 0 && shortages[i].wait != 0)
            told_over_http1(i, true);
    }
}

int main(void)
{
    http2();
    end_without_memory("nghttp2_submit_shutdown_notice", false);
    end_without_memory("nghttp2_submit_goaway", false);
    end_without_memory("nghttp2_submit_rst_stream", true);
    refusal_without_memory();
    refused_by_nghttp2(NGHTTP2_ERR_NOMEM, "no_memory");
    refused_by_nghttp2(NGHTTP2_ERR_FLOODED, "flood");
    refused_by_nghttp2(NGHTTP2_ERR_CALLBACK_FAILURE, "bad_request");
    http1();
    who_is_told_what();
    return tap_end();
}
