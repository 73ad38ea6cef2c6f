/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When requests that may go either way go over HTTP/2, and how large answers keep away from small ones.
 */
#include "back/pool.h"
#include "unit/back/h2_kit.h"

enum { ON = 16, OFF = 7, LARGE = 16 << 10 };

#define OK_HEAD ":status: 200\n"

/* ---- the switch ---- */

static void begin(struct h2_load *l, size_t n)
{
    while (n-- > 0)
        h2_load_begin(l);
}

static void end(struct h2_load *l, size_t n, uint64_t bytes)
{
    while (n-- > 0)
        h2_load_end(l, bytes);
}

static void hysteresis(void)
{
    struct h2_load l = {0};

    begin(&l, ON - 1);
    ok(!l.on, "few requests are under way");
    begin(&l, 1);
    ok(l.on, "enough");
    end(&l, ON - OFF - 1, 1000);
    ok(l.on, "somewhat fewer");
    end(&l, 1, 1000);
    ok(!l.on, "few");
    begin(&l, ON - OFF - 1);
    ok(!l.on, "somewhat more");
    begin(&l, 1);
    ok(l.on, "enough again");
}

static void sizes(void)
{
    struct h2_load l = {0};

    begin(&l, ON + 1);
    for (size_t i = 0; i < 100; i++) {
        end(&l, 1, LARGE / 2);
        begin(&l, 1);
    }
    ok(l.on, "answers that are not large");
    for (size_t i = 0; i < 100; i++) {
        end(&l, 1, 100 << 10);
        begin(&l, 1);
    }
    ok(!l.on, "large ones");
    end(&l, 1, UINT64_MAX);
    begin(&l, 1);
    for (size_t i = 0; i < 200; i++) {
        end(&l, 1, 1000);
        begin(&l, 1);
    }
    ok(l.on, "what was once is forgotten");
}

static void bounds(void)
{
    static const struct {
        bool before;
        uint32_t under_way, mean_bytes; /* with the next */
        bool after;
    } rows[] = {
        {false, ON, LARGE - 1, true},      {false, ON, LARGE, false}, {true, OFF + 1, 2 * LARGE - 1, true},
        {true, OFF + 1, 2 * LARGE, false}, {true, OFF, LARGE, false}, {false, ON - 1, 0, false},
    };
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct h2_load l = {rows[i].under_way - 1, rows[i].mean_bytes, rows[i].before};

        h2_load_begin(&l);
        ok(l.on == rows[i].after, "bounds, row %zu", i);
    }
}

static void send_either(struct call *c, struct back_h2_kit *k, const char *bearer)
{
    h2_call_init(c, k, "/x", bearer);
    c->opts.http2_if_busy = true;
    call_send(c);
}

static size_t asked(const struct back_h2_kit *k)
{
    size_t n = 0;

    for (size_t i = 0; i < k->n_conns; i++)
        n += k->conns[i]->n_asked;
    return n;
}

/* Requests that mostly wait make no traffic, and each token has its own. */
static void switches(const char *bearer)
{
    static struct back_h2_kit k;
    static struct call c[ON + 2], lasting[2 * ON];

    h2_open(&k);
    k.max_streams = 200;
    h2_judge_bearer(&k, "Bearer a", 200);
    h2_judge_bearer(&k, "Bearer b", 200);
    for (size_t i = 0; i < 2 * ON; i++) {
        h2_call_init(&lasting[i], &k, "/watch", bearer);
        lasting[i].opts.lasting = true;
        call_send(&lasting[i]);
    }
    ok(run_until(k.k.loop, asked(&k) == 2 * ON), "watches go over HTTP/2");
    k.silent = true; /* or the server would say what it thinks of HTTP/1.1 */
    for (size_t i = 0; i < ON - 1; i++)
        send_either(&c[i], &k, bearer);
    send_either(&c[ON], &k, bearer == NULL ? "Bearer a" : "Bearer b");
    ok(run_until(k.k.loop, k.n_conns == ON + 1), "others over HTTP/1.1");
    settle(k.k.loop);
    is_u64(asked(&k), 2 * ON, "however many watches there are");
    send_either(&c[ON - 1], &k, bearer);
    ok(run_until(k.k.loop, asked(&k) == 2 * ON + 1), "until there are enough of one kind");
    send_either(&c[ON + 1], &k, bearer == NULL ? "Bearer a" : "Bearer b");
    ok(run_until(k.k.loop, k.n_conns == ON + 2), "the other kind stays on HTTP/1.1");
    is_u64(asked(&k), 2 * ON + 1, "indeed");
    for (size_t i = 0; i < ON + 2; i++)
        call_free(&c[i]);
    for (size_t i = 0; i < 2 * ON; i++)
        call_free(&lasting[i]);
    h2_close(&k);
}

/* ---- large answers ---- */

static void spread(void)
{
    static struct back_h2_kit k;
    static struct call large, beside, other, after;
    struct h2_conn *s;

    h2_open(&k);
    h2_call_send(&large, &k, "/large", NULL);
    s = h2_conn(&k, 0);
    h2_headers(s, h2_asked(s, 0)->id, OK_HEAD, false);
    h2_bulk(s, s->asked[0].id, LIMIT_H2_BACK_WINDOW);
    ok(run_until(k.k.loop, buf_len(&large.body) == LIMIT_H2_BACK_WINDOW), "much comes, and is taken");
    h2_call_send(&beside, &k, "/beside", NULL);
    (void)h2_asked(s, 1);
    ok(true, "the next request does not wait for another connection");
    (void)h2_conn(&k, 1);
    settle(k.k.loop);
    h2_call_send(&other, &k, "/other", NULL);
    (void)h2_asked(k.conns[1], 0);
    is_u64(s->n_asked, 2, "which those after it have for themselves");
    h2_data(s, s->asked[0].id, "", true);
    ok(run_until(k.k.loop, large.r == NULL), "the large one ends");
    h2_headers(k.conns[1], k.conns[1]->asked[0].id, OK_HEAD, false);
    h2_bulk(k.conns[1], k.conns[1]->asked[0].id, LIMIT_H2_BACK_WINDOW);
    ok(run_until(k.k.loop, buf_len(&other.body) == LIMIT_H2_BACK_WINDOW), "now the other connection has one");
    h2_call_send(&after, &k, "/after", NULL);
    (void)h2_asked(s, 2);
    is_u64(k.n_conns, 2, "the first is good again");
    call_free(&large);
    call_free(&beside);
    call_free(&other);
    call_free(&after);
    h2_close(&k);
}

/* Who does not read holds neither the connection nor anybody's turn. */
static void paused(void)
{
    static struct back_h2_kit k;
    static struct call large, small[3];
    struct h2_conn *s;

    h2_open(&k);
    h2_call_init(&large, &k, "/large", NULL);
    large.pause_at = "head";
    call_send(&large);
    s = h2_conn(&k, 0);
    h2_headers(s, h2_asked(s, 0)->id, OK_HEAD, false);
    h2_bulk(s, s->asked[0].id, LIMIT_H2_BACK_WINDOW);
    settle(k.k.loop);
    for (size_t i = 0; i < ROWS(small); i++) {
        h2_call_send(&small[i], &k, "/small", NULL);
        h2_headers(s, h2_asked(s, i + 1)->id, OK_HEAD, false);
        h2_data(s, s->asked[i + 1].id, "hello", true);
        ok(call_is(&small[i], "head(200) end"), "a small answer passes the large one that nobody takes");
        call_free(&small[i]);
    }
    is_u64(buf_len(&large.body), 0, "of which nothing was given");
    is_u64(k.n_conns, 1, "all on one connection");
    ok(s->window > LIMIT_H2_BACK_CONNECTION_WINDOW / 2, "whose window is as open as ever");
    call_free(&large);
    h2_close(&k);
}

/* Whoever has taken much and reads no further moves nothing large any more. */
static void paused_after_much(void)
{
    static struct back_h2_kit k;
    static struct call large, beside;
    struct h2_conn *s;

    h2_open(&k);
    h2_call_send(&large, &k, "/large", NULL);
    s = h2_conn(&k, 0);
    h2_headers(s, h2_asked(s, 0)->id, OK_HEAD, false);
    h2_bulk(s, s->asked[0].id, LIMIT_H2_BACK_WINDOW);
    ok(run_until(k.k.loop, buf_len(&large.body) == LIMIT_H2_BACK_WINDOW), "much comes, and is taken");
    back_pause(large.r);
    h2_call_send(&beside, &k, "/beside", NULL);
    (void)h2_asked(s, 1);
    settle(k.k.loop);
    is_u64(k.n_conns, 1, "no other connection is made beside one that is paused");
    call_free(&large);
    call_free(&beside);
    h2_close(&k);
}

/* A safe request whose connection is lost, or is told that it was not looked at, goes out again: nobody notices. */
static void lost(bool goaway)
{
    enum { N = 3 };
    static struct back_h2_kit k;
    static struct call c[N];
    struct h2_conn *s;

    h2_open(&k);
    for (size_t i = 0; i < N; i++)
        h2_call_send(&c[i], &k, "/x", NULL);
    s = h2_conn(&k, 0);
    (void)h2_asked(s, N - 1);
    if (goaway)
        h2_goaway(s, s->asked[0].id, NGHTTP2_NO_ERROR);
    else
        h2_conn_close(s, STREAM_CLOSE_ABORT);
    (void)h2_asked(h2_conn(&k, 1), goaway ? N - 2 : N - 1);
    if (goaway) { /* the first was looked at */
        h2_headers(s, s->asked[0].id, OK_HEAD, true);
        ok(call_is(&c[0], "head(200) end"), "what the server keeps is answered");
    }
    for (size_t i = 0; i < k.conns[1]->n_asked; i++)
        h2_headers(k.conns[1], k.conns[1]->asked[i].id, OK_HEAD, true);
    for (size_t i = 0; i < N; i++) {
        ok(call_is(&c[i], "head(200) end"), "request %zu is answered", i);
        call_free(&c[i]);
    }
    is_double(back_kit_metric(&k.k, "mvproxy_back_failures_total", NULL), 0, "nothing failed");
    h2_close(&k);
}

/* The connection that a token used last is found at once, and forgotten with its end. */
static void tokens(void)
{
    enum { N = 8 };
    static const char *const bearer[N] = {"Bearer a", "Bearer b", "Bearer c", "Bearer d",
                                          "Bearer e", "Bearer f", "Bearer g", "Bearer h"};
    static struct back_h2_kit k;
    static struct call c[2 * N + 1];
    struct h2_conn *s;

    h2_open(&k);
    for (size_t i = 0; i < 2 * N; i++) {
        h2_judge_bearer(&k, bearer[i % N], 200);
        h2_call_send(&c[i], &k, "/x", bearer[i % N]);
        (void)h2_asked(h2_conn(&k, i % N), i / N);
        is_u64(k.n_conns, i < N ? i + 1 : N, "a connection for each token");
    }
    for (size_t i = 0; i < 2 * N; i++)
        call_free(&c[i]);
    s = k.conns[0];
    h2_conn_close(s, STREAM_CLOSE_FLUSH);
    ok(run_until(k.k.loop, back_kit_metric(&k.k, "mvproxy_back_connections_closed_total", "closed_by_server") == 1),
       "one is closed");
    h2_call_send(&c[2 * N], &k, "/x", bearer[0]);
    (void)h2_asked(h2_conn(&k, N), 0);
    is_u64(k.n_conns, N + 1, "another one in the place of one that is gone");
    call_free(&c[2 * N]);
    h2_close(&k);
}

int main(void)
{
    hysteresis();
    sizes();
    bounds();
    switches(NULL);
    switches("Bearer a");
    spread();
    paused();
    paused_after_much();
    lost(true);
    lost(false);
    tokens();
    return tap_end();
}
