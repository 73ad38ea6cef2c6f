/* SPDX-License-Identifier: Apache-2.0 */
/* What rarely happens to a connection: a proxy that gives up in the middle of a call, trailers that cannot be sent,
 * time that passes while nothing is wrong, a front that drains during a handshake. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "lib/tap.h"
#include "unit/front/h2_kit.h"

/* ---- a proxy that gives up when it is given something ---- */

struct quitter {
    struct exchange *x;
    unsigned bodies, gone, ended;
};

static void quit_in_body(void *arg, struct slice data)
{
    struct quitter *q = arg;

    (void)data;
    q->bodies++;
    exchange_abort(q->x, "had enough");
}

static void note_end(void *arg, const struct http_head *trailers)
{
    struct quitter *q = arg;

    (void)trailers;
    q->ended++;
}

static void ignore_writable(void *arg)
{
    (void)arg;
}

static void note_gone(void *arg, const char *reason)
{
    struct quitter *q = arg;

    (void)reason;
    q->gone++;
}

static void on_request(struct exchange *x, void *arg)
{
    static const struct exchange_sink sink = {quit_in_body, note_end, ignore_writable, note_gone};
    struct quitter *q = arg;

    q->x = x;
    exchange_attach(x, &sink, q);
}

static void test_quit_in_body(struct front_kit *w)
{
    struct quitter q = {NULL, 0, 0, 0};
    struct front_client c;

    w->opts.on_request = on_request;
    w->opts.arg = &q;
    front_kit_start(w);
    client_open(w, &c);
    client_send(&c, "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello");
    ok(client_ended(&c) != CLIENT_OPEN, "given up in the middle of its body, a connection ends");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(front_kit_empty(w), "over");
    is_double(front_kit_closed(w, "response_aborted"), 1, "counted");
    is_u64(q.bodies, 1, "the proxy is not asked again");
    is_u64(q.gone + q.ended, 0, "nor told of an end that it has made");
}

/* ---- trailers ---- */

static struct http_head *bad_trailers(struct exchange *x)
{
    static struct http_head trailers;
    struct arena *a = exchange_arena(x);

    if (!http_head_init(&trailers, a, 1) || !http_head_add(&trailers, a, SLICE_LIT("x y"), SLICE_LIT("1")))
        tap_bail("out of memory");
    return &trailers;
}

static void test_bad_trailers(struct front_kit *w)
{
    struct exchange *x;
    struct front_client c;

    front_kit_start(w);
    client_open(w, &c);
    client_ask(&c, "/x");
    ok(front_kit_handled(w, 1), "a request");
    exchange_respond(w->x, head_of(w, 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
    respond_more(w, "abc");
    x = w->x;
    w->x = NULL;
    exchange_finish(x, bad_trailers(x));
    is_int(client_ended(&c), CLIENT_BROKEN, "an answer with a trailer that is none is cut off");
    ok(strstr(client_take(&c), "x y") == NULL, "and nothing is said of it");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(front_kit_empty(w), "over");
    is_double(front_kit_closed(w, "response_aborted"), 1, "counted");
}

static void test_h2_bad_trailers(struct front_h2_kit *k)
{
    struct held *h = &k->held[0];
    struct exchange *x;
    struct req *r;

    h2_kit_connect(k, false, false);
    r = h2_kit_get(k, "/x");
    h2_kit_held(k, 1);
    x = h->x;
    exchange_respond(x, h2_kit_head(h, 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
    exchange_body(x, SLICE_LIT("abc"));
    h->x = NULL;
    exchange_finish(x, bad_trailers(x));
    ok(h2_kit_closed(k, r) && !r->ended, "an answer with a trailer that is none has no end");
    is_int((int)r->code, NGHTTP2_INTERNAL_ERROR, "it is reset");
    r = h2_kit_get(k, "/sync");
    ok(h2_kit_closed(k, r) && r->status == 200, "the connection goes on");
}

/* A HEAD's answer has none, whatever the proxy gives. */
static void test_h2_trailers_of_head(struct front_h2_kit *k)
{
    struct held *h = &k->held[0];
    struct http_head *trailers;
    struct exchange *x;
    struct req *r;

    h2_kit_connect(k, false, false);
    r = h2_kit_ask(k, "HEAD", "/x", "h", NULL, 0);
    h2_kit_held(k, 1);
    x = h->x;
    trailers = h2_kit_head(h, 200, "x-end", "1");
    exchange_respond(x, h2_kit_head(h, 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
    h->x = NULL;
    exchange_finish(x, trailers);
    ok(h2_kit_closed(k, r) && r->ended && r->code == NGHTTP2_NO_ERROR, "an answer to HEAD ends with its head");
    is_int((int)r->status, 200, "as it was given");
    ok(!h2_kit_has(&r->fields, "x-end") && !h2_kit_has(&r->trailers, "x-end"), "without trailers");
}

static void test_h2_trailer_of_nothing(struct front_h2_kit *k)
{
    struct held *h = &k->held[0];
    struct http_head *trailers;
    struct exchange *x;
    struct req *r;

    h2_kit_connect(k, false, false);
    r = h2_kit_get(k, "/x");
    h2_kit_held(k, 1);
    x = h->x;
    trailers = h2_kit_head(h, 200, "x-end", "1");
    exchange_respond(x, h2_kit_head(h, 200, NULL, NULL), (struct http_body){HTTP_BODY_LENGTH, 0});
    h->x = NULL;
    exchange_finish(x, trailers);
    ok(h2_kit_closed(k, r) && r->ended && r->status == 200, "an answer without a body");
    ok(h2_kit_has(&r->fields, "x-end: 1"), "may have a trailer"); /* where the kit puts what has no body before it */
}

/* ---- fields ---- */

static bool has_field(struct held *h, const char *name, const char *value)
{
    const struct http_field *f = http_head_find_name(exchange_request(h->x), slice_str(name));

    return f != NULL && slice_eq(f->value, slice_str(value));
}

static void test_h2_fields(struct front_h2_kit *k)
{
    struct held *h = &k->held[0];
    const struct http_head *head;
    const char *first;
    unsigned hosts = 0;
    struct req *r;

    h2_kit_connect(k, false, false);
    r = h2_kit_ask(k, "GET", "/x", "h", "host: H\ncookie: \ncookie: a=b\n", 0);
    ok(h2_kit_held(k, 1), "Host as in :authority");
    head = exchange_request(h->x);
    for (size_t i = 0; i < head->n_fields; i++)
        hosts += head->fields[i].id == HTTP_HOST;
    is_u64(hosts, 1, "stands there once");
    ok(has_field(h, "Host", "h"), "as it was in :authority");
    ok(has_field(h, "Cookie", "; a=b"), "an empty crumb of a cookie is one");
    exchange_respond(h->x, h2_kit_head(h, 200, "Date", "then"), (struct http_body){HTTP_BODY_LENGTH, 2});
    exchange_body(h->x, SLICE_LIT("ok"));
    exchange_finish(h->x, NULL);
    h->x = NULL;
    ok(h2_kit_closed(k, r) && r->status == 200, "answered");
    first = strstr(h2_kit_text(&r->fields), "date: ");
    ok(first != NULL && strncmp(first, "date: then\n", 11) == 0 && strstr(first + 1, "date: ") == NULL,
       "with the date that the proxy gave, and no other");
}

/* What the head before has left in memory is no part of the next one, which begins with a cookie. */
static void test_h2_cookies_of_next(struct front_h2_kit *k)
{
#define LONG_CRUMB "0123456789012345678901234567890123456789"
    static const char *const cookies[] = {"cookie: " LONG_CRUMB "\ncookie: " LONG_CRUMB "\ncookie: " LONG_CRUMB "\n",
                                          "cookie: d\ncookie: e\nhost: h\n"};
    static const char *const joined[] = {LONG_CRUMB "; " LONG_CRUMB "; " LONG_CRUMB, "d; e"};

    h2_kit_connect(k, false, false);
    for (unsigned i = 0; i < ROWS(cookies); i++) {
        struct req *r = h2_kit_ask(k, "GET", "/x", i == 0 ? "h" : NULL, cookies[i], 0);

        ok(h2_kit_held(k, i + 1), "a cookie in crumbs");
        ok(has_field(&k->held[i], "Cookie", joined[i]), "is what it was");
        h2_kit_reply(&k->held[i], 200, "ok");
        ok(h2_kit_closed(k, r), "answered");
    }
}

/* Where nothing is said of it a head may have a MiB. */
static void test_long_head(struct front_kit *w)
{
    enum { FIELDS = 100, LENGTH = 1000 };
    static char head[FIELDS * (LENGTH + 20)];
    size_t at = 0;
    struct front_client c;

    w->opts.max_head_bytes = 0;
    front_kit_start(w);
    client_open(w, &c);
    client_send(&c, "GET /sync HTTP/1.1\r\nHost: h\r\n");
    for (int i = 0; i < FIELDS; i++)
        at += (size_t)snprintf(head + at, sizeof(head) - at, "X-%d: %0*d\r\n", i, LENGTH, i);
    client_send(&c, head);
    client_send(&c, "\r\n");
    ok(client_ends_in(&c, "sync"), "a long head is read");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(front_kit_empty(w), "over");
}

/* Of one small request. */
static uint64_t allocations(struct front_client *c)
{
    uint64_t before = mem_calls();

    client_ask(c, "/sync");
    client_ends_in(c, "sync");
    (void)client_take(c);
    return mem_calls() - before;
}

/* Heads are written through one buffer, which stays for the next one unless it became large. */
static void test_large_head(struct front_kit *k)
{
    enum { LENGTH = 100 << 10 };
    static char value[LENGTH + 1];
    struct front_client c;
    uint64_t usual;

    if (k->client_tls != NULL)
        return;
    front_kit_start(k);
    client_open(k, &c);
    memset(value, 'v', LENGTH);
    (void)allocations(&c);
    usual = allocations(&c);
    is_u64(allocations(&c), usual, "each answer costs as much");
    client_ask(&c, "/x");
    front_kit_handled(k, 4);
    exchange_reply(k->x, head_of(k, 200, "X-Long", value), SLICE_LIT("large"));
    ok(client_ends_in(&c, "large"), "one has a large head");
    (void)client_take(&c);
    ok(allocations(&c) > usual, "whose memory is not kept");
    is_u64(allocations(&c), usual, "as that of others is");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(front_kit_empty(k), "over");
}

/* Method and target outlive the head: what that was in is for the next one's. */
static void test_head_forgotten(struct front_kit *w)
{
    struct front_client first, second;
    struct exchange *x;

    front_kit_start(w);
    client_open(w, &first);
    client_open(w, &second);
    client_ask(&first, "/first");
    ok(front_kit_handled(w, 1), "a request");
    x = w->x;
    exchange_forget_request(x);
    client_send(&second, "DELETE /another HTTP/1.1\r\nHost: h\r\n\r\n");
    ok(front_kit_handled(w, 2), "whose head is forgotten, and another one");
    is_slice(exchange_request(x)->method, "GET", "method");
    is_slice(exchange_request(x)->target, "/first", "and target stay as they were");
    respond_whole(w, 200, "ok");
    front_kit_reply(x, 200, "ok");
    ok(client_ends_in(&first, "ok") && client_ends_in(&second, "ok"), "both are answered");
    client_close(&first, STREAM_CLOSE_NOW);
    client_close(&second, STREAM_CLOSE_NOW);
    ok(front_kit_empty(w), "over");
}

/* ---- limits ---- */

static void test_memory_limit_is_told(struct front_kit *w)
{
    w->opts.max_memory = 123 << 20;
    front_kit_start(w);
    is_double(front_kit_metric(w, "mvproxy_client_memory_limit_bytes", NULL), 123 << 20,
              "what clients may hold is told");
    w->opts.max_memory = 321 << 20;
    front_update(w->front, &w->opts);
    is_double(front_kit_metric(w, "mvproxy_client_memory_limit_bytes", NULL), 321 << 20, "as it is in force");
}

/* ---- time ---- */

static void test_rest_stalls(struct front_kit *w)
{
    struct front_client c;

    w->opts.body_timeout_ms = 20;
    front_kit_start(w);
    client_open(w, &c);
    clock_fake(clock_us(), clock_wall_us());
    client_send(&c, "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nab");
    ok(front_kit_handled(w, 1), "an upload");
    respond_whole(w, 200, "early");
    ok(client_ends_in(&c, "early"), "is answered, and its rest awaited");
    front_kit_pass(w, 15);
    client_send(&c, "c");
    front_kit_settle(w);
    front_kit_pass(w, 15);
    is_int(c.end, CLIENT_OPEN, "as long as some of it comes");
    front_kit_pass(w, 10);
    front_kit_pass(w, 10);
    ok(client_ended(&c) != CLIENT_OPEN, "and no longer");
    clock_real();
    is_double(front_kit_closed(w, "body_timeout"), 1, "counted as what it is");
    is_int(w->gone, 0, "the proxy was through with it");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(front_kit_empty(w), "over");
}

/* Nothing more may be said of a watch for hours; what it was told has been taken. */
static void test_all_taken(struct front_kit *w)
{
    struct front_client c;

    w->opts.body_timeout_ms = 20;
    front_kit_start(w);
    client_open(w, &c);
    clock_fake(clock_us(), clock_wall_us());
    client_ask(&c, "/watch");
    ok(front_kit_handled(w, 1), "a watch");
    exchange_respond(w->x, head_of(w, 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
    stream_pause(c.s, STREAM_PAUSE_LIMIT);
    front_kit_fill(w);
    stream_resume(c.s, STREAM_PAUSE_LIMIT);
    ok(front_kit_sink_has(w, "writable"), "whose client has taken all");
    front_kit_settle(w);
    for (int i = 0; i < 5; i++)
        front_kit_pass(w, 30);
    is_int(w->gone, 0, "goes on, however long it is silent");
    is_double(front_kit_closed(w, "read_timeout"), 0, "and is no slow reader");
    respond_more(w, "event");
    respond_end(w);
    ok(client_ends_in(&c, "5\r\nevent\r\n0\r\n\r\n"), "to its end");
    clock_real();
    client_close(&c, STREAM_CLOSE_NOW);
    ok(front_kit_empty(w), "over");
}

/* ---- a drain during a handshake ---- */

static bool is_there(void *arg)
{
    return front_connections(((struct front_kit *)arg)->front) == 1;
}

static void drained(void *arg)
{
    *(bool *)arg = true;
}

static void h2_opened_in_drain(void)
{
    static const char ask[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
                              "\0\0\0\4\0\0\0\0\0"
                              "\0\0\14\1\5\0\0\0\1\202\207\4\5/sync\1\1h";
    static const char told[] = "\0\0\10\7\0\0\0\0\0\177\377\377\377"; /* GOAWAY that takes nothing back */
    static const char answer[] = "\0\0\4\0\1\0\0\0\1sync";            /* DATA with END_STREAM */
    bool gone = false;
    struct front_client c;
    struct front_kit w;

    front_kit_init_http2(&w);
    front_kit_start(&w);
    client_start(&w, &c);
    ok(front_kit_until(&w, is_there, &w) && !c.opened, "one that comes");
    front_drain(w.front, drained, &gone);
    client_send_bytes(&c, slice_of(ask, sizeof(ask) - 1));
    ok(client_has(&c, "sync"), "while the front drains is served");
    ok(buf_len(&c.in) > 0 && memmem(buf_slice(&c.in).p, buf_len(&c.in), told, sizeof(told) - 1) != NULL,
       "and told at once that we leave");
    ok(memmem(buf_slice(&c.in).p, buf_len(&c.in), answer, sizeof(answer) - 1) != NULL,
       "without trailers its last bytes say that they are the last");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(front_kit_empty(&w), "over");
    front_kit_settle(&w);
    ok(gone, "drained");
    front_kit_end(&w);
}

/* A client may wait for our SETTINGS before it says anything, and must not do so for ever. */
static void h2_silent(void)
{
    static const char settings[] = "\0\0\22\4\0\0\0\0\0";
    struct front_client c;
    struct front_kit w;

    front_kit_init_http2(&w);
    w.opts.header_timeout_ms = 20;
    front_kit_start(&w);
    clock_fake(clock_us(), clock_wall_us());
    client_open(&w, &c);
    front_kit_settle(&w);
    ok(slice_has_prefix(buf_slice(&c.in), SLICE_LIT(settings)), "who says nothing is told our SETTINGS");
    is_int(c.end, CLIENT_OPEN, "and given time");
    front_kit_pass(&w, 25);
    ok(client_ended(&c) != CLIENT_OPEN, "but not for ever");
    clock_real();
    is_double(front_kit_closed(&w, "no_request"), 1, "counted");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(front_kit_empty(&w), "over");
    front_kit_end(&w);
}

/* Half a head is no request that a drain would wait for, nor does it keep a body that does not come. */
static void drain_with_half_head(bool beside_body)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
                                  "\0\0\0\4\0\0\0\0\0";
    static const char get[] = "\0\0\14\1\5\0\0\0\1\202\207\4\5/sync\1\1h";
    static const char post[] = "\0\0\11\1\4\0\0\0\3\203\207\4\2/x\1\1h";
    static const char half[] = "\0\0\1\1\1\0\0\0\5\202";
    bool gone = false;
    struct front_client c;
    struct front_kit w;

    front_kit_init_http2(&w);
    front_kit_start(&w);
    client_open(&w, &c);
    client_send_bytes(&c, slice_of(preface, sizeof(preface) - 1));
    client_send_bytes(&c, slice_of(get, sizeof(get) - 1));
    ok(client_has(&c, "sync"), "answered");
    clock_fake(clock_us(), clock_wall_us());
    if (beside_body) {
        client_send_bytes(&c, slice_of(post, sizeof(post) - 1));
        ok(front_kit_handled(&w, 2), "a body that does not come");
    }
    client_send_bytes(&c, slice_of(half, sizeof(half) - 1));
    front_kit_settle(&w);
    front_drain(w.front, drained, &gone);
    for (int i = 0; i < 60 && !gone; i++)
        front_kit_pass(&w, 200);
    ok(gone, "half a head holds no drain");
    is_double(front_kit_closed(&w, "drain"), 1, "counted");
    is_int(w.gone, beside_body, "the proxy is told");
    clock_real();
    client_close(&c, STREAM_CLOSE_NOW);
    front_kit_end(&w);
}

/* Its time goes on whatever else ends, and is over with the stream that it belongs to. */
static void h2_half_head(bool of_same)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
                                  "\0\0\0\4\0\0\0\0\0";
    static const char post[] = "\0\0\11\1\4\0\0\0\1\203\207\4\2/x\1\1h";
    static const char get[] = "\0\0\11\1\5\0\0\0\1\202\207\4\2/x\1\1h";
    static const char half[] = "\0\0\1\1\1\0\0\0\3\202", of_trailers[] = "\0\0\2\1\1\0\0\0\1\0\1";
    static const char rest[] = "\0\0\3\11\4\0\0\0\1x\1y\0\0\14\1\5\0\0\0\3\202\207\4\5/sync\1\1h";
    struct front_client c;
    struct front_kit w;

    front_kit_init_http2(&w);
    w.opts.header_timeout_ms = 20;
    front_kit_start(&w);
    clock_fake(clock_us(), clock_wall_us());
    client_open(&w, &c);
    client_send_bytes(&c, slice_of(preface, sizeof(preface) - 1));
    client_send_bytes(&c, of_same ? slice_of(post, sizeof(post) - 1) : slice_of(get, sizeof(get) - 1));
    ok(front_kit_handled(&w, 1), "a request");
    client_send_bytes(&c, of_same ? slice_of(of_trailers, sizeof(of_trailers) - 1) : slice_of(half, sizeof(half) - 1));
    front_kit_settle(&w);
    exchange_abort(w.x, "test");
    w.x = NULL;
    front_kit_settle(&w); /* is reset in the middle of its own trailers, or of another head */
    if (of_same)
        client_send_bytes(&c, slice_of(rest, sizeof(rest) - 1));
    front_kit_pass(&w, 15);
    front_kit_pass(&w, 15);
    is_double(front_kit_closed(&w, "header_timeout"), !of_same, "for which there is time, or nobody waits");
    if (of_same)
        ok(client_has(&c, "sync"), "the next one is answered");
    clock_real();
    client_close(&c, STREAM_CLOSE_NOW);
    ok(front_kit_empty(&w), "over");
    front_kit_end(&w);
}

/* ---- silent connections ---- */

/* Of all that may be there, half may be silent. */
static void test_half_may_be_silent(struct front_kit *w)
{
    enum { MOST = 180 };
    int fd[MOST / 2 + 1];

    if (w->client_tls != NULL)
        return;
    w->opts.max_connections = MOST;
    front_kit_start(w);
    is_u64(front_max_connections(w->front), MOST, "the limit is known");
    for (unsigned i = 0; i <= MOST / 2; i++) {
        fd[i] = client_raw(w);
        front_kit_settle(w);
        if (i + 1 == MOST / 2)
            is_double(front_kit_closed(w, "crowded_out"), 0, "%d of %d may be silent", MOST / 2, MOST);
    }
    is_double(front_kit_closed(w, "crowded_out"), 1, "and no more");
    for (unsigned i = 0; i <= MOST / 2; i++)
        close(fd[i]);
    ok(front_kit_empty(w), "over");
}

/* ---- what is logged where that is asked for ---- */

static void test_told(struct front_kit *w)
{
    char *said = NULL;
    size_t n_said;
    FILE *log = open_memstream(&said, &n_said);
    struct front_client c;

    log_set_stream(log);
    log_set_verbosity(5);
    front_kit_start(w);
    client_open(w, &c);
    client_ask(&c, "/sync");
    ok(client_ends_in(&c, "sync"), "answered");
    client_close(&c, STREAM_CLOSE_FLUSH);
    ok(front_kit_empty(w), "over");
    log_set_verbosity(0);
    log_set_stream(stderr);
    (void)fclose(log);
    ok(strstr(said, "\"Connection opened\"") != NULL, "a connection's beginning is logged");
    ok(strstr(said, "\"Connection closed\"") != NULL && strstr(said, "reason=\"client\"") != NULL,
       "and its end with the reason");
    free(said);
}

/* ---- heads that say little ---- */

/* As if nothing had been said of a body. */
static void test_length_of_nothing(struct front_kit *w)
{
    struct front_client c;

    front_kit_start(w);
    client_open(w, &c);
    client_send(&c, "GET /exec HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: x\r\nContent-Length: 0\r\n\r\n");
    ok(front_kit_handled(w, 1), "a request with a body of no bytes");
    ok(exchange_wants_upgrade(w->x), "may ask for another protocol");
    is_int(exchange_request_body(w->x).kind, HTTP_BODY_NONE, "it has none");
    front_kit_settle(w);
    is_str(front_kit_sunk(w), "", "of whose end nothing is said");
    respond_whole(w, 200, "no");
    ok(client_ends_in(&c, "no"), "answered");
    client_ask(&c, "/sync");
    ok(client_ends_in(&c, "sync"), "as is the next one");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(front_kit_empty(w), "over");
}

/* Each has its own parser until its head is there. */
static void test_two_heads(struct front_kit *w)
{
    struct front_client c[2];

    front_kit_start(w);
    for (int i = 0; i < 2; i++) {
        client_open(w, &c[i]);
        client_send(&c[i], i == 0 ? "GET /sync HTTP/1.1\r\nHo" : "GET /s");
    }
    front_kit_settle(w);
    client_send(&c[0], "st: a\r\n\r\n");
    ok(client_ends_in(&c[0], "sync"), "a head that came in two parts");
    client_send(&c[1], "ync HTTP/1.1\r\nHost: h\r\n\r\n");
    ok(client_ends_in(&c[1], "sync"), "and another one at the same time");
    for (int i = 0; i < 2; i++) {
        client_ask(&c[i], "/sync");
        client_send(&c[i], "GET /sync HTTP/1.0\r\nHost: h\r\n\r\n");
        is_int(client_ended(&c[i]), CLIENT_EOF, "the connection goes on, to its end");
        client_close(&c[i], STREAM_CLOSE_NOW);
    }
    ok(front_kit_empty(w), "over");
    is_int(w->handled, 6, "all of them were asked");
}

/* RFC 9110 9.3.2: an answer to HEAD has no body, ours neither. */
static void test_refused_head(struct front_kit *w)
{
    struct front_client c;

    w->keep_quiet = true;
    front_kit_start(w);
    client_open(w, &c);
    client_send(&c, "HEAD /x HTTP/1.1\r\nHost: h\r\n\r\n");
    is_int(client_ended(&c), CLIENT_EOF, "a HEAD that nobody answers");
    ok(client_ends_in(&c, "\r\n\r\n"), "ends behind its head");
    ok(strncmp(client_take(&c), "HTTP/1.1 500 ", 13) == 0, "which says what happened");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(front_kit_empty(w), "over");
}

static void long_body(struct buf *out, unsigned status, const char *message, void *arg)
{
    (void)arg;
    for (int i = 0; i < 1000; i++)
        buf_printf(out, "%u: %s\n", status, message);
}

/* Half of one would say less than none. */
static void test_long_refusal(struct front_kit *w)
{
    struct front_client c;

    w->opts.refusal_body = long_body;
    front_kit_start(w);
    client_open(w, &c);
    client_send(&c, "GET / HTTP/1.1\r\n\r\n");
    is_int(client_ended(&c), CLIENT_EOF, "a refusal");
    ok(client_has(&c, "HTTP/1.1 400 ") && client_has(&c, "Content-Length: 0\r\n") && client_ends_in(&c, "\r\n\r\n"),
       "whose text is too long has none");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(front_kit_empty(w), "over");
}

/* What is short in a drain is not so before. */
static void test_no_haste(struct front_kit *w)
{
    enum { LONGER_THAN_IN_A_DRAIN_US = 1200 * 1000 };
    struct front_client idle, half;
    uint64_t end;

    front_kit_start(w);
    client_open(w, &idle);
    client_open(w, &half);
    client_ask(&idle, "/sync");
    client_ask(&half, "/sync");
    ok(client_ends_in(&idle, "sync") && client_ends_in(&half, "sync"), "two that have asked");
    client_send(&half, "GET /sync HT");
    for (end = clock_us() + LONGER_THAN_IN_A_DRAIN_US; clock_us() < end;)
        loop_run_once(w->loop, 20);
    is_u64(front_connections(w->front), 2, "may rest, or take some time for a head");
    client_send(&half, "TP/1.1\r\nHost: h\r\n\r\n");
    ok(client_ends_in(&half, "sync"), "which is answered then");
    client_close(&idle, STREAM_CLOSE_NOW);
    client_close(&half, STREAM_CLOSE_NOW);
    ok(front_kit_empty(w), "over");
}

static bool not_taken(void *arg)
{
    return front_kit_metric(arg, "mvproxy_front_answers_not_taken_total", NULL) > 0;
}

/* An answer of our own waits for its client no longer than a server's does. */
static void test_h2_refusal_not_taken(struct front_h2_kit *k)
{
    struct req *r;

    k->front.opts.body_timeout_ms = 300;
    front_update(k->front.front, &k->front.opts);
    h2_kit_connect(k, false, true);
    nghttp2_submit_settings(k->session, NGHTTP2_FLAG_NONE,
                            &(nghttp2_settings_entry){NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0}, 1);
    r = h2_kit_ask(k, "BREW", "/", "h", NULL, 0);
    ok(h2_kit_until(k, not_taken, &k->front), "a refusal that its client has no window for is given up");
    ok(h2_kit_closed(k, r) && r->code == NGHTTP2_CANCEL, "with its stream");
    is_int((int)r->status, 501, "of which the head came");
    is_u64(r->body_bytes, 0, "and no more");
    is_int(k->end, CLIENT_OPEN, "the connection goes on");
}

/* It has asked: what holds for one that has not is over. */
static void test_h2_idle_after_one(struct front_h2_kit *k)
{
    struct req *r;

    k->front.opts.header_timeout_ms = 20;
    front_update(k->front.front, &k->front.opts);
    clock_fake(clock_us(), clock_wall_us());
    h2_kit_connect(k, false, false);
    r = h2_kit_get(k, "/sync");
    ok(h2_kit_closed(k, r), "one request");
    for (int i = 0; i < 3; i++)
        h2_kit_later(k, 15);
    is_int(k->end, CLIENT_OPEN, "and its client may be idle");
    clock_real();
}

/* A client that does not say that it has heard so is given a second. */
static void test_sent_away_unheard(struct front_h2_kit *k)
{
    static const char first[] = "\0\0\14\1\5\0\0\0\1\202\207\4\5/held\1\1h";
    static const char again[] = "\0\0\14\1\5\0\0\0\5\202\207\4\5/held\1\1h";
    static const char late[] = "\0\0\14\1\5\0\0\0\7\202\207\4\5/held\1\1h";
    static const char away[] = "\0\0\14\1\5\0\0\0\3\202\207\4\5/away\1\1h";
    uint64_t end;

    h2_kit_connect(k, true, false);
    h2_kit_raw(k, KIT_PREFACE, sizeof(KIT_PREFACE) - 1);
    h2_kit_raw(k, first, sizeof(first) - 1);
    ok(h2_kit_held(k, 1), "a request under way");
    h2_kit_raw(k, away, sizeof(away) - 1);
    h2_kit_raw(k, again, sizeof(again) - 1);
    ok(h2_kit_held(k, 2), "one that comes before its client could know is served");
    for (end = clock_us() + 1300000; clock_us() < end;)
        loop_run_once(k->front.loop, 20);
    h2_kit_raw(k, late, sizeof(late) - 1);
    h2_kit_settle(k);
    is_u64(k->n_held, 2, "after a second no more is");
    is_int(k->held[0].gone + k->held[1].gone, 0, "the others go on");
}

static const struct front_kit_story h1_stories[] = {
    {"told", test_told},
    {"given up in the body", test_quit_in_body},
    {"bad trailers", test_bad_trailers},
    {"the rest of a body stalls", test_rest_stalls},
    {"all is taken", test_all_taken},
    {"half may be silent", test_half_may_be_silent},
    {"length of nothing", test_length_of_nothing},
    {"two heads", test_two_heads},
    {"refused HEAD", test_refused_head},
    {"long head", test_long_head},
    {"long refusal", test_long_refusal},
    {"no haste", test_no_haste},
    {"a head is forgotten", test_head_forgotten},
    {"a large head of an answer", test_large_head},
    {"the limit of memory is told", test_memory_limit_is_told},
};

static const struct h2_kit_story h2_stories[] = {
    {"sent away, unheard", test_sent_away_unheard},
    {"idle after one", test_h2_idle_after_one},
    {"bad trailers", test_h2_bad_trailers},
    {"trailers of HEAD", test_h2_trailers_of_head},
    {"a trailer of nothing", test_h2_trailer_of_nothing},
    {"fields", test_h2_fields},
    {"cookies of the next one", test_h2_cookies_of_next},
    {"a refusal that is not taken", test_h2_refusal_not_taken},
};

int main(void)
{
    front_kit_run(h1_stories, ROWS(h1_stories));
    h2_kit_run(h2_stories, ROWS(h2_stories), NULL);
    h2_opened_in_drain();
    h2_silent();
    h2_half_head(false);
    h2_half_head(true);
    drain_with_half_head(false);
    drain_with_half_head(true);
    return tap_end();
}
