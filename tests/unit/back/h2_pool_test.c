/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which HTTP/2 connection a request gets: identities, streams that fill up, waiting, servers that speak HTTP/1.1 only,
 * the ends of idle connections; and each allocation failing in turn.
 */
#include <stdio.h>

#include "back/bearers.h"
#include "base/clock.h"
#include "net/listener.h"
#include "unit/back/h2_kit.h"

#define OK_HEAD ":status: 200\n"
#define OK5 "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"

/* ---- identities ---- */

static void identities(void)
{
    static struct back_h2_kit k;
    static struct call c[6];
    static const struct {
        const char *bearer; /* NULL: with the certificate */
        size_t conn, nth;
    } rows[] = {
        {NULL, 0, 0}, {NULL, 0, 1}, {"Bearer a", 1, 0}, {"Bearer b", 2, 0}, {"Bearer aa", 3, 0}, {"Bearer a", 1, 1},
    };

    h2_open(&k);
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct h2_conn *s;

        if (rows[i].bearer != NULL)
            h2_judge_bearer(&k, rows[i].bearer, 403);

        h2_call_send(&c[i], &k, "/x", rows[i].bearer);
        s = h2_conn(&k, rows[i].conn);
        h2_headers(s, h2_asked(s, rows[i].nth)->id, OK_HEAD, false);
        ok(call_is(&c[i], "head(200)"), "%s: connection %zu", rows[i].bearer == NULL ? "certificate" : rows[i].bearer,
           rows[i].conn);
    }
    is_u64(k.n_conns, 4, "so many connections for so many identities");
    for (size_t i = 0; i < ROWS(rows); i++)
        call_free(&c[i]);
    h2_close(&k);
}

/* Whoever the server does not know shares nothing with anybody. */
static void unauthorized(void)
{
    static struct back_h2_kit k;
    struct h2_conn *s;
    struct call c;

    h2_open(&k);
    h2_judge_bearer(&k, "Bearer bad", 200);
    h2_call_send(&c, &k, "/x", "Bearer bad");
    s = h2_conn(&k, 0);
    h2_headers(s, h2_asked(s, 0)->id, ":status: 401\n", true);
    ok(call_is(&c, "head(401) end"), "401");
    ok(h2_ended(s), "ends the connection");
    call_free(&c);
    h2_call_send(&c, &k, "/x", "Bearer bad");
    ok(run_until(k.k.loop, k.n_conns == 2), "there is no second one");
    settle(k.k.loop);
    is_u64(k.conns[1]->n_asked, 0, "the request goes over HTTP/1.1");
    call_free(&c);
    h2_close(&k);
}

/* Whoever shares a connection must not lose it by what another one sends. */
static void long_head(void)
{
    static char target[LIMIT_H2_BACK_HEAD];
    static struct back_h2_kit k;
    struct call c;

    h2_open(&k);
    h2_call_send(&c, &k, "/x", NULL);
    h2_headers(h2_conn(&k, 0), h2_asked(h2_conn(&k, 0), 0)->id, OK_HEAD, true);
    ok(call_is(&c, "head(200) end"), "over HTTP/2");
    call_free(&c);
    memset(target, 'x', sizeof(target) - 1);
    target[0] = '/';
    h2_call_send(&c, &k, target, NULL);
    ok(run_until(k.k.loop, k.n_conns == 2), "a head of more than one frame gets a connection of its own");
    settle(k.k.loop);
    is_u64(k.conns[0]->n_asked, 1, "and does not go over HTTP/2");
    call_free(&c);
    h2_close(&k);
}

/* A server that refuses uploads before it has read them resets each: no flood. */
static void early_answers(void)
{
    enum { BATCH = 50 };
    static struct back_h2_kit k;
    static struct call c[BATCH];
    size_t refused = 0;

    h2_open(&k);
    k.max_streams = H2_KIT_STREAMS; /* to the session of the kit, none of them ends */
    for (size_t i = 0; i <= LIMIT_H2_CONTROL_FRAMES; i += BATCH) {
        for (size_t j = 0; j < BATCH; j++)
            h2_call_send(&c[j], &k, "/x", NULL);
        for (size_t j = 0; j < BATCH; j++) {
            int32_t id = h2_asked(h2_conn(&k, 0), i + j)->id;

            h2_headers(h2_conn(&k, 0), id, ":status: 403\n", true);
            h2_rst(h2_conn(&k, 0), id, NGHTTP2_NO_ERROR);
            refused += call_is(&c[j], "head(403) end");
            call_free(&c[j]);
        }
    }
    ok(refused > LIMIT_H2_CONTROL_FRAMES, "%zu uploads are refused and reset", refused);
    settle(k.k.loop);
    is_u64(k.n_conns, 1, "all on one connection");
    is_double(back_kit_metric(&k.k, "mvproxy_back_connections_closed_total", "flood"), 0, "which goes on");
    h2_close(&k);
}

/* Who invents tokens does not make us make connections. */
static void unknown_bearers(void)
{
    /* Besides 401 what kube-apiserver says before it looks at the token: to a bad timeout, or while it stops. */
    static const unsigned statuses[] = {401, 400, 429, 500, 503};
    static struct back_kit k;
    struct call c;

    back_kit_open(&k, true, 0);
    tls_ctx_unref(k.server_tls);
    k.server_tls = server_ctx(true);
    for (size_t i = 0; i < 3 * ROWS(statuses); i++) {
        unsigned status = statuses[i / 3];
        char bearer[32], reply[80];

        (void)snprintf(bearer, sizeof(bearer), "Bearer %u", status);
        (void)snprintf(reply, sizeof(reply), "HTTP/1.1 %u No\r\nContent-Length: 0\r\n\r\n", status);
        k.auto_reply = reply;
        call_init(&c, &k, "GET", "/x");
        c.opts.http2 = BACK_HTTP2_SAME_BEARER;
        if (!http_head_add_id(&c.head, c.arena, HTTP_AUTHORIZATION, slice_str(bearer)))
            tap_bail("no memory");
        call_send(&c);
        ok(call_over(&c) && c.failure_text[0] == '\0', "%u for an invented token", status);
        call_free(&c);
    }
    is_u64(k.n_conns, 1, "on one HTTP/1.1 connection");
    k.auto_reply = OK5;
    call_init(&c, &k, "GET", "/x");
    c.opts.http2 = BACK_HTTP2_SAME_BEARER;
    if (!http_head_add_id(&c.head, c.arena, HTTP_AUTHORIZATION, SLICE_LIT("Bearer good")))
        tap_bail("no memory");
    call_send(&c);
    ok(call_is(&c, "head(200) end"), "one that is taken there");
    ok(!back_is_stranger(k.back, &c.head), "is known then");
    call_free(&c);
    back_kit_close(&k);
}

/* What may not go over HTTP/2 goes over HTTP/1.1. */
static void not_for_h2(void)
{
    static struct back_kit k;
    struct call c[5];
    struct back_request known = {.response = {.status = 200}};

    back_kit_open(&k, true, 0);
    tls_ctx_unref(k.server_tls);
    k.server_tls = server_ctx(true);
    k.auto_reply = OK5;
    for (size_t i = 0; i < ROWS(c); i++) {
        call_init(&c[i], &k, "GET", "/x");
        c[i].opts.http2 = i == 2 ? BACK_HTTP2_SHARED : BACK_HTTP2_SAME_BEARER;
    }
    /* 0: without credential; 1: two of them; 2: shared, but without the certificate; 3: Expect; 4: a body of unknown
     * length */
    if (!http_head_add_id(&c[1].head, c[1].arena, HTTP_AUTHORIZATION, SLICE_LIT("Bearer a")) ||
        !http_head_add_id(&c[1].head, c[1].arena, HTTP_AUTHORIZATION, SLICE_LIT("Bearer b")) ||
        !http_head_add_id(&c[3].head, c[3].arena, HTTP_AUTHORIZATION, SLICE_LIT("Bearer a")) ||
        !http_head_add_id(&c[4].head, c[4].arena, HTTP_AUTHORIZATION, SLICE_LIT("Bearer a")) ||
        !http_head_add_id(&c[3].head, c[3].arena, HTTP_EXPECT, SLICE_LIT("200-ok")))
        tap_bail("no memory");
    c[4].opts.body = (struct http_body){HTTP_BODY_CHUNKED, 0};
    known.back = k.back;
    known.opts = c[3].opts;
    known.opts.lasting = true;
    bearer_count(&known, NULL);
    (void)bearer_answered(&known);
    for (size_t i = 0; i < ROWS(c); i++) {
        call_send(&c[i]);
        back_finish(c[i].r, NULL);
        ok(call_is(&c[i], "head(200) end"), "request %zu", i);
        call_free(&c[i]);
    }
    is_u64(k.n_conns, 1, "on one HTTP/1.1 connection");
    ok(buf_has(&k.conns[0].got, "GET /x HTTP/1.1"), "which it is");
    back_kit_close(&k);
}

/* Nor what goes there without TLS: no ALPN could tell what the server speaks. */
static void not_without_tls(void)
{
    static struct back_kit k;
    struct call c;

    back_kit_open(&k, false, 0);
    k.auto_reply = OK5;
    call_init(&c, &k, "GET", "/x");
    c.opts.http2 = BACK_HTTP2_SHARED;
    c.opts.with_cert = true;
    call_send(&c);
    ok(call_is(&c, "head(200) end"), "plain text is HTTP/1.1");
    is_u64(k.n_conns, 1, "at once");
    call_free(&c);
    back_kit_close(&k);
}

/* ---- streams that fill up ---- */

static void filling(void)
{
    enum { N = 25 };
    static struct back_h2_kit k;
    static struct call c[N];
    size_t seen = 0;

    h2_open(&k);
    k.max_streams = 10;
    for (size_t i = 0; i < N; i++)
        h2_call_send(&c[i], &k, "/x", NULL);
    for (size_t n = 0; seen < N; n++) {
        struct h2_conn *s = h2_conn(&k, n);
        size_t mine = N - seen < 10 ? N - seen : 10;

        for (size_t i = 0; i < mine; i++)
            h2_headers(s, h2_asked(s, i)->id, OK_HEAD, false);
        settle(k.k.loop);
        is_u64(s->n_asked, mine, "no more streams than the server allows");
        seen += mine;
    }
    for (size_t i = 0; i < N; i++)
        ok(call_is(&c[i], "head(200)"), "request %zu", i);
    is_u64(k.n_conns, 3, "no more connections than are needed");
    is_double(back_kit_metric(&k.k, "mvproxy_back_streams", NULL), N, "counted");
    back_cancel(c[0].r);
    c[0].r = NULL;
    ok(h2_was_reset(k.conns[0], 0), "one ends");
    call_free(&c[0]);
    h2_settings(k.conns[0], NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 9);
    h2_settings(k.conns[2], NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 5);
    settle(k.k.loop);
    h2_call_send(&c[0], &k, "/x", NULL);
    h2_headers(h2_conn(&k, 3), h2_asked(h2_conn(&k, 3), 0)->id, OK_HEAD, true);
    ok(call_is(&c[0], "head(200) end"), "a changed limit is heeded");
    for (size_t i = 0; i < N; i++)
        call_free(&c[i]);
    h2_close(&k);
}

static bool all_asked(const struct back_h2_kit *k, size_t n)
{
    size_t asked = 0;

    for (size_t i = 0; i < k->n_conns; i++)
        asked += k->conns[i]->n_asked;
    return asked == n;
}

/* More than wait for all connections that may be made at once; and more than these have room for afterwards. */
static void burst(void)
{
    enum { N = 600, FULL = 3 * LIMIT_H2_BACK_STREAMS };
    static struct back_h2_kit k;
    static struct call c[FULL + 1];

    h2_open(&k);
    k.max_streams = 1000;
    for (size_t i = 0; i < N; i++)
        h2_call_send(&c[i], &k, "/x", NULL);
    ok(run_until(k.k.loop, all_asked(&k, N)), "all are asked");
    is_u64(k.n_conns, 3, "within our own limit of streams");
    for (size_t i = N; i <= FULL; i++)
        h2_call_send(&c[i], &k, "/x", NULL);
    ok(run_until(k.k.loop, all_asked(&k, FULL + 1)), "more are asked");
    is_u64(k.n_conns, 4, "where a connection is open as well");
    for (size_t i = 0; i <= FULL; i++)
        call_free(&c[i]);
    h2_close(&k);
}

/* ---- servers without HTTP/2 ---- */

static void http1_server(void)
{
    enum { N = 5 };
    static struct back_kit k;
    struct call c[N];

    back_kit_open(&k, true, 0);
    k.auto_reply = OK5;
    for (size_t i = 0; i < N; i++) {
        call_init(&c[i], &k, "GET", "/x");
        c[i].opts.with_cert = true;
        c[i].opts.http2 = BACK_HTTP2_SHARED;
        call_send(&c[i]);
    }
    for (size_t i = 0; i < N; i++) {
        ok(call_is(&c[i], "head(200) end"), "request %zu", i);
        call_free(&c[i]);
    }
    is_double(back_kit_metric(&k, "mvproxy_back_failures_total", NULL), 0, "nothing failed");
    is_double(back_kit_metric(&k, "mvproxy_back_connections_closed_total", NULL), 1, "only the HTTP/2 shell is gone");
    is_double(back_kit_metric(&k, "mvproxy_back_connections_closed_total", "no_http2"), 1, "with its reason");
    ok(buf_has(&k.conns[0].got, "GET /x HTTP/1.1"), "the connection itself is used");
    call_init(&c[0], &k, "GET", "/x");
    c[0].opts.with_cert = true;
    c[0].opts.http2 = BACK_HTTP2_SHARED;
    call_send(&c[0]);
    ok(call_is(&c[0], "head(200) end"), "later ones know");
    is_double(back_kit_metric(&k, "mvproxy_back_connections_closed_total", "no_http2"), 1, "without asking again");
    call_free(&c[0]);
    back_kit_close(&k);
}

static void no_streams_at_all(void)
{
    static struct back_h2_kit k;
    struct call c;

    h2_open(&k);
    k.max_streams = 0;
    h2_call_send(&c, &k, "/x", NULL);
    ok(run_until(k.k.loop, k.n_conns == 2), "HTTP/1.1 is tried instead");
    is_double(back_kit_metric(&k.k, "mvproxy_back_connections_closed_total", "no_http2"), 1, "and the other closed");
    is_double(back_kit_metric(&k.k, "mvproxy_back_failures_total", NULL), 0, "nothing failed");
    call_free(&c);
    h2_close(&k);
}

static void http_1_1_required(void)
{
    static struct back_h2_kit k;
    struct h2_conn *s;
    struct call c;

    h2_open(&k);
    h2_call_send(&c, &k, "/x", NULL);
    s = h2_conn(&k, 0);
    h2_rst(s, h2_asked(s, 0)->id, NGHTTP2_HTTP_1_1_REQUIRED);
    ok(run_until(k.k.loop, k.n_conns == 2), "goes over HTTP/1.1");
    settle(k.k.loop);
    is_u64(s->n_asked, 1, "not over HTTP/2 again");
    call_free(&c);
    h2_close(&k);
}

/* ---- connections that never become one ---- */

static void unreachable(void)
{
    enum { N = 3 };
    static struct back_h2_kit k;
    struct call c[N];

    h2_open(&k);
    listener_close(k.k.listener);
    k.k.listener = NULL;
    for (size_t i = 0; i < N; i++)
        h2_call_send(&c[i], &k, "/x", NULL);
    for (size_t i = 0; i < N; i++) {
        ok(call_is(&c[i], "failed: connect"), "refused");
        ok(!c[i].failure.request_sent, "not sent");
        call_free(&c[i]);
    }
    ok(!origin_healthy(k.k.origin), "the origin's health suffers");
    h2_close(&k);
}

static void never_opens(bool closes)
{
    static struct back_h2_kit k;
    struct origin_opts o = {.connect_timeout_ms = closes ? 5000 : 200};
    struct call c;

    h2_open(&k);
    k.silent = true;
    back_kit_origin(&k.k, &o);
    h2_call_send(&c, &k, "/x", NULL);
    if (closes) {
        ok(run_until(k.k.loop, h2_conn(&k, 0)->window > NGHTTP2_INITIAL_WINDOW_SIZE), "its first frames have come");
        h2_conn_close(h2_conn(&k, 0), STREAM_CLOSE_FLUSH);
    }
    ok(call_is(&c, "failed: connect"), "no SETTINGS");
    ok(!c.failure.request_sent, "so nothing was sent");
    ok(!origin_healthy(k.k.origin), "the origin's health suffers");
    is_double(back_kit_metric(&k.k, "mvproxy_back_connections_closed_total", "connect_failed"), 1, "counted");
    is_double(back_kit_metric(&k.k, "mvproxy_back_connections_closed_total", "closed_by_server"), 0,
              "as no connection");
    is_double(back_kit_metric(&k.k, "mvproxy_back_connections", "dialling"), 0, "none is dialling");
    call_free(&c);
    h2_close(&k);
}

/* The server takes one request at a time, and lets us wait until it says so for longer than a request has. */
static void opens_late(bool late)
{
    static struct back_h2_kit k;
    struct origin_opts o = {.connect_timeout_ms = 10000};
    struct call c[2];

    h2_open(&k);
    k.silent = true;
    back_kit_origin(&k.k, &o);
    clock_fake(clock_us(), clock_wall_us());
    h2_call_send(&c[0], &k, "/x", NULL);
    h2_call_send(&c[1], &k, "/y", NULL);
    (void)run_until(k.k.loop, h2_conn(&k, 0)->window > NGHTTP2_INITIAL_WINDOW_SIZE);
    is_u64(k.n_conns, 1, "both wait for one connection");
    clock_fake(clock_us() + (late ? UINT64_C(20000) : UINT64_C(19999)) * 1000, clock_wall_us());
    h2_settings(h2_conn(&k, 0), NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 1);
    if (late)
        ok(call_is(&c[1], "failed: busy"), "who found no room in all that time is refused");
    else
        ok(run_until(k.k.loop, k.n_conns == 2), "who found none goes over another");
    ok(c[0].r != NULL, "the first one has it");
    clock_real();
    call_free(&c[1]);
    call_free(&c[0]);
    h2_close(&k);
}

/* The server has left a question unanswered, and is asked by each connection, long before it would be its turn. */
static void suspected(void)
{
    static struct back_h2_kit k;
    struct call c[2];
    struct h2_conn *s;

    h2_open(&k);
    h2_call_send(&c[0], &k, "/x", NULL);
    s = h2_conn(&k, 0);
    h2_headers(s, h2_asked(s, 0)->id, OK_HEAD, false);
    ok(call_is(&c[0], "head(200)"), "a watch");
    origin_suspect(k.k.origin);
    ok(run_until(k.k.loop, s->pings == 1), "it is asked at once");
    settle(k.k.loop);
    h2_call_send(&c[1], &k, "/y", NULL);
    h2_headers(s, h2_asked(s, 1)->id, OK_HEAD, true);
    ok(call_is(&c[1], "head(200) end"), "it has answered: the connection is as good as before");
    is_u64(k.n_conns, 1, "the only one");
    call_free(&c[1]);
    origin_suspect(k.k.origin);
    settle(k.k.loop);
    is_u64(s->pings, 1, "soon again: it is not asked");
    call_free(&c[0]);
    h2_close(&k);
}

/* It is frozen. */
static void suspected_rightly(void)
{
    static struct back_h2_kit k;
    struct origin_opts o = {.ping_after_ms = 300, .ping_timeout_ms = 500, .connect_timeout_ms = 200};
    struct call c[2];
    struct h2_conn *s;

    h2_open(&k);
    back_kit_origin(&k.k, &o);
    h2_call_send(&c[0], &k, "/x", NULL);
    s = h2_conn(&k, 0);
    h2_headers(s, h2_asked(s, 0)->id, OK_HEAD, false);
    ok(call_is(&c[0], "head(200)"), "a watch");
    k.silent = true;
    origin_suspect(k.k.origin);
    h2_call_send(&c[1], &k, "/y", NULL);
    ok(call_is(&c[1], "failed: connect"), "who comes now is told as soon as no connection can be made");
    ok(!c[1].failure.request_sent, "nothing of it was sent: it may go elsewhere");
    is_u64(s->n_asked, 1, "not on the connection in doubt");
    ok(call_is(&c[0], "head(200) failed: body"),
       "who was there before, when nothing came for longer than a client of its own would wait");
    is_double(back_kit_metric(&k.k, "mvproxy_back_connections_closed_total", "ping_timeout"), 1, "counted");
    for (size_t i = 0; i < ROWS(c); i++)
        call_free(&c[i]);
    h2_close(&k);
}

/* It wakes up before its time is over. */
static void suspected_wrongly(void)
{
    static struct back_h2_kit k;
    struct call c[2];
    struct h2_conn *s;

    h2_open(&k);
    h2_call_send(&c[0], &k, "/x", NULL);
    s = h2_conn(&k, 0);
    (void)h2_asked(s, 0);
    k.silent = true;
    origin_suspect(k.k.origin);
    settle(k.k.loop);
    h2_headers(s, h2_asked(s, 0)->id, OK_HEAD, true); /* whatever it says */
    ok(call_is(&c[0], "head(200) end"), "a late answer");
    h2_call_send(&c[1], &k, "/y", NULL);
    (void)h2_asked(s, 1);
    is_u64(k.n_conns, 1, "the connection is used again");
    for (size_t i = 0; i < ROWS(c); i++)
        call_free(&c[i]);
    h2_close(&k);
}

/* One that is being made has its own time; one that takes no more requests is asked as well. */
static void suspected_early_and_late(void)
{
    static struct back_h2_kit k;
    struct call c;
    struct h2_conn *s;

    h2_open(&k);
    h2_call_send(&c, &k, "/x", NULL);
    origin_suspect(k.k.origin);
    s = h2_conn(&k, 0);
    h2_headers(s, h2_asked(s, 0)->id, OK_HEAD, false);
    ok(call_is(&c, "head(200)"), "made, and used");
    is_u64(s->pings, 0, "without being asked");
    h2_goaway(s, INT32_MAX, NGHTTP2_NO_ERROR);
    settle(k.k.loop);
    clock_fake(clock_us() + TIMEOUT_SUSPECT_MS * 1000ULL, clock_wall_us());
    settle(k.k.loop);
    origin_suspect(k.k.origin);
    ok(run_until(k.k.loop, s->pings == 1), "asked while it is leaving");
    clock_real();
    call_free(&c);
    h2_close(&k);
}

/* Whoever cannot be asked is no longer used. */
static void suspected_without_memory(void)
{
    static struct back_h2_kit k;
    struct call c;
    struct h2_conn *s;

    h2_open(&k);
    h2_call_send(&c, &k, "/x", NULL);
    s = h2_conn(&k, 0);
    h2_headers(s, h2_asked(s, 0)->id, OK_HEAD, false);
    ok(call_is(&c, "head(200)"), "a watch");
    mem_fail_nth(1);
    origin_suspect(k.k.origin);
    mem_fail_nth(0);
    ok(call_is(&c, "head(200) failed: body"), "it ends");
    is_double(back_kit_metric(&k.k, "mvproxy_back_connections_closed_total", "no_memory"), 1, "for that reason");
    call_free(&c);
    h2_close(&k);
}

/* The last request on a connection ends; in that very call its owner wants another, for which it would make room. */
static void room_from_inside(void)
{
    static struct back_h2_kit k;
    struct call first, second;
    struct h2_conn *s;

    h2_open(&k);
    back_kit_origin(&k.k, &(struct origin_opts){.max_connections = 1});
    h2_judge_bearer(&k, "Bearer a", 200);
    h2_judge_bearer(&k, "Bearer b", 200);
    h2_call_init(&second, &k, "/y", "Bearer b");
    second.opts.origin = k.k.origin;
    h2_call_init(&first, &k, "/x", "Bearer a");
    first.follow = &second;
    call_send(&first);
    s = h2_conn(&k, 0);
    h2_headers(s, h2_asked(s, 0)->id, OK_HEAD, true);
    ok(call_is(&first, "head(200) end"), "answered");
    settle(k.k.loop);
    ok(!s->eof && !s->failed, "a connection is not closed while it is at work");
    call_free(&second);
    call_free(&first);
    h2_judge_bearer(&k, "Bearer b", 200);
    h2_call_send(&second, &k, "/y", "Bearer b");
    ok(h2_ended(s), "later it makes room");
    is_double(back_kit_metric(&k.k, "mvproxy_back_connections_closed_total", "make_room"), 1, "and is counted");
    call_free(&second);
    h2_close(&k);
}

static void cancelled_in_time(void)
{
    static struct back_h2_kit k;
    struct h2_conn *s;
    struct call c;

    h2_open(&k);
    h2_call_send(&c, &k, "/x", NULL);
    back_cancel(c.r);
    c.r = NULL;
    call_free(&c);
    s = h2_conn(&k, 0);
    settle(k.k.loop);
    is_u64(s->n_asked, 0, "a request that was cancelled while it waited is never sent");
    h2_call_send(&c, &k, "/y", NULL);
    h2_headers(s, h2_asked(s, 0)->id, OK_HEAD, true);
    ok(call_is(&c, "head(200) end"), "the connection serves the next");
    call_free(&c);
    h2_close(&k);
}

/* ---- the end of those that are idle ---- */

static void idle(bool origin_gone)
{
    static struct back_h2_kit k;
    struct origin_opts o = {.idle_timeout_ms = origin_gone ? 60000 : 50};
    struct h2_conn *s;
    struct call c;

    h2_open(&k);
    back_kit_origin(&k.k, &o);
    h2_call_send(&c, &k, "/x", NULL);
    s = h2_conn(&k, 0);
    h2_headers(s, h2_asked(s, 0)->id, OK_HEAD, false);
    ok(call_is(&c, "head(200)"), "in use");
    if (origin_gone) {
        back_kit_origin(&k.k, &o);
        settle(k.k.loop);
        ok(stream_is_open(s->s) && !s->eof, "an origin that is let go of serves what it has");
    }
    h2_data(s, s->asked[0].id, "", true);
    ok(call_is(&c, "head(200) end"), "the end");
    ok(h2_ended(s), "then it is closed");
    is_double(
        back_kit_metric(&k.k, "mvproxy_back_connections_closed_total", origin_gone ? "origin_gone" : "idle_timeout"), 1,
        "with its reason");
    call_free(&c);
    h2_close(&k);
}

static void freed_in_the_middle(void)
{
    static struct back_h2_kit k;
    struct call waiting, active;

    h2_open(&k);
    h2_call_send(&active, &k, "/x", NULL);
    (void)h2_asked(h2_conn(&k, 0), 0);
    h2_judge_bearer(&k, "Bearer a", 200);
    h2_call_send(&waiting, &k, "/x", "Bearer a");
    origin_unref(k.k.origin);
    back_free(k.k.back);
    ok(h2_ended(k.conns[0]), "all connections are closed with the whole");
    is_u64(buf_len(&waiting.log) + buf_len(&active.log), 0, "nobody is told");
    waiting.r = active.r = NULL;
    call_free(&waiting);
    call_free(&active);
    k.k.back = back_new(k.k.loop, k.k.metrics);
    k.k.origin = origin_new(k.k.back, &(struct origin_opts){.name = "server", .host = "127.0.0.1", .port = 1});
    if (k.k.origin == NULL)
        tap_bail("no memory");
    h2_close(&k);
}

/* ---- memory ---- */

/* The nth allocation of a request's life fails; 0: none. */
static void scene(struct back_h2_kit *k, uint64_t nth)
{
    struct call c;
    struct h2_conn *s;

    h2_judge_bearer(k, "Bearer a", 200);
    h2_call_init(&c, k, "/x", "Bearer a");
    c.opts.head_timeout_ms = 200; /* the server may have lost the request */
    c.pause_at = "head";
    mem_fail_nth(nth);
    c.r = back_start(k->k.back, &c.opts);
    if (c.r != NULL)
        (void)run_until(k->k.loop, c.r == NULL || (k->n_conns > 0 && k->conns[0]->n_asked > 0));
    s = k->n_conns == 0 ? NULL : k->conns[0];
    if (s != NULL && s->n_asked > 0 && s->s != NULL) {
        h2_headers(s, s->asked[0].id, OK_HEAD "x-a: b\n", false);
        h2_data(s, s->asked[0].id, "hello", false);
        h2_headers(s, s->asked[0].id, "x-sum: 1\n", true);
        settle(k->k.loop);
        if (c.r != NULL)
            back_resume(c.r);
        for (int i = 0; i < 20 && c.r != NULL; i++)
            loop_run_once(k->k.loop, 10);
    }
    if (c.r != NULL)
        back_cancel(c.r);
    c.r = NULL;
    mem_fail_nth(0);
    call_free(&c);
}

static void fails_once(uint64_t nth)
{
    static struct back_h2_kit k;
    struct origin_opts o = {.connect_timeout_ms = 300};

    h2_open(&k);
    back_kit_origin(&k.k, &o);
    k.k.short_of_memory = true;
    scene(&k, nth);
    h2_close(&k);
}

/* An answer whose table of fields finds no memory fails: it does not arrive with fewer. */
static void no_memory_for_a_field(void)
{
    enum { FIELDS = 15 }; /* more than there is room for at first; a watch has a small arena */
    static const char fifteen[] = ":status: 200\nx-a: 1\nx-b: 1\nx-c: 1\nx-d: 1\nx-e: 1\nx-f: 1\nx-g: 1\nx-h: 1\nx-i: "
                                  "1\nx-j: 1\nx-k: 1\nx-l: 1\nx-m: 1\nx-n: 1\nx-o: 1\n";
    static struct back_h2_kit k;
    unsigned whole = 0, failed = 0, cut = 0;

    for (uint64_t nth = 1; nth <= 40; nth++) {
        struct h2_conn *s;
        struct call c;

        h2_open(&k);
        k.k.short_of_memory = true;
        call_init(&c, &k.k, "POST", "/x"); /* not sent again */
        c.opts.with_cert = c.opts.lasting = true;
        c.opts.http2 = BACK_HTTP2_SHARED;
        call_send(&c);
        s = h2_conn(&k, 0);
        h2_headers(s, h2_asked(s, 0)->id, fifteen, true);
        mem_fail_nth(nth);
        for (int i = 0; i < 100 && c.r != NULL; i++) /* or it was the server's memory */
            loop_run_once(k.k.loop, 5);
        mem_fail_nth(0);
        if (c.r != NULL)
            back_cancel(c.r);
        whole += buf_has(&c.log, "head(200)") && c.n_fields == FIELDS;
        cut += buf_has(&c.log, "head(200)") && c.n_fields < FIELDS;
        failed += buf_has(&c.log, "failed");
        call_free(&c);
        h2_close(&k);
    }
    is_int((int)cut, 0, "no answer has lost a field");
    ok(whole > 0 && failed > 0, "%u are whole, %u have failed", whole, failed);
}

static void short_of_memory(void)
{
    static struct back_h2_kit k;
    uint64_t calls;

    h2_open(&k);
    calls = mem_calls();
    scene(&k, 0);
    calls = mem_calls() - calls;
    h2_close(&k);
    ok(calls > 40, "a request makes %llu allocations, the server's included", (unsigned long long)calls);
    for (uint64_t nth = 1; nth <= calls + 5; nth++)
        fails_once(nth);
    ok(true, "each may fail");
}

int main(void)
{
    identities();
    unauthorized();
    long_head();
    early_answers();
    unknown_bearers();
    not_for_h2();
    not_without_tls();
    filling();
    burst();
    http1_server();
    no_streams_at_all();
    http_1_1_required();
    unreachable();
    never_opens(true);
    never_opens(false);
    cancelled_in_time();
    opens_late(true);
    opens_late(false);
    suspected();
    suspected_rightly();
    suspected_wrongly();
    suspected_early_and_late();
    suspected_without_memory();
    room_from_inside();
    idle(false);
    idle(true);
    freed_in_the_middle();
    short_of_memory();
    no_memory_for_a_field();
    return tap_end();
}
