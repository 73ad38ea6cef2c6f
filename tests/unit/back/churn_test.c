/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cancelled requests and what they cost the server: short answers are read to their end and the connection is kept,
 * what cannot be kept counts against its client, and who wastes too many gets no new ones. Handshakes are counted at
 * the server.
 */
#include "base/churn.h"

#include "base/clock.h"
#include "unit/back/h2_kit.h"

#define OK5 "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
#define ENDLESS "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"

/* Time that stands still, so that budgets do not recover while the test works; timers of a length still take it. */
static uint64_t stopped_us;

static void stop_clock(void)
{
    stopped_us = clock_us();
    clock_fake(stopped_us, clock_wall_us());
}

static void turn_clock(unsigned ms)
{
    stopped_us += (uint64_t)ms * 1000;
    clock_fake(stopped_us, clock_wall_us());
}

/* ---- the accounts ---- */

/* Who has been beyond is watched until all is settled. */
static void strain(void)
{
    static struct churn ch;

    ch.rate = (struct churn_rate){.cost_ms = 100, .burst_ms = 1000, .together = 4};
    for (unsigned i = 0; i < 10; i++)
        churn_charge(&ch, 1, 5000);
    ok(!churn_strained(&ch, 1, 5000), "nobody who keeps to his burst");
    churn_charge(&ch, 1, 5000);
    ok(churn_strained(&ch, 1, 5000) && churn_strained(&ch, 1, 6050), "who has been beyond it");
    ok(!churn_strained(&ch, 2, 5000) && !churn_strained(&ch, 1 + LIMIT_CHURN_ACCOUNTS, 5000), "nobody else");
    ok(!churn_strained(&ch, 0, 5000), "nor we");
    ok(!churn_strained(&ch, 1, 6100), "until it is settled");
    churn_charge(&ch, 1, 6100);
    ok(!churn_strained(&ch, 1, 6100), "and then he begins anew");
}

static void accounts(void)
{
    static struct churn ch;
    unsigned spent = 0, all = 0;

    ch = (struct churn){.rate = {.cost_ms = 100, .burst_ms = 1000, .together = 4}};
    while (churn_allows(&ch, 1, 5000) && spent < 100)
        churn_charge(&ch, 1, (spent++, 5000));
    is_u64(spent, 11, "the burst, and the one that exceeds it");
    ok(churn_allows(&ch, 2, 5000), "another client is not concerned");
    ok(churn_allows(&ch, 0, 5000), "nor are we");
    ok(churn_allows(&ch, 1 + LIMIT_CHURN_ACCOUNTS, 5000), "nor one of the same slot");
    churn_charge(&ch, 1 + LIMIT_CHURN_ACCOUNTS, 5000);
    ok(!churn_allows(&ch, 1, 5000), "who does not clear it either");
    ok(churn_allows(&ch, 1, 5100), "time heals");
    churn_charge(&ch, 1, 5100);
    churn_refund(&ch, 1, 5100);
    ok(churn_allows(&ch, 1, 5100), "and so does a refund");
    for (unsigned i = 0; i < 1000; i++)
        churn_charge(&ch, 1, 5100);
    ok(!churn_allows(&ch, 1, 6050) && churn_allows(&ch, 1, 6100), "debt has an end");

    for (uint64_t client = 1; client <= 100; client++)
        for (unsigned i = 0; i < 5 && churn_allows(&ch, client, 100000); i++, all++)
            churn_charge(&ch, client, 100000);
    ok(all > 40 && all <= 150, "all together have a budget as well: %u", all);
    ok(churn_allows(&ch, 1000, 100000), "which is not held against who wasted nothing");
    for (unsigned i = 0; i < 1000; i++)
        churn_charge(&ch, 0, 200000);
    ok(churn_allows(&ch, 1, 200000), "what we cancel ourselves is on nobody's account");
}

/* ---- HTTP/1.1 ---- */

static void call_from(struct call *c, struct back_kit *k, const char *client)
{
    call_init(c, k, "GET", "/x");
    c->opts.client = client;
    call_send(c);
}

static void cancel(struct call *c)
{
    back_cancel(c->r);
    c->r = NULL;
}

static bool is_idle(struct back_kit *k, double n)
{
    return run_until(k->loop, back_kit_metric(k, "mvproxy_back_connections", "idle") >= n);
}

/* Before the answer, in its head, in its body: the connection serves the next. */
static void kept(bool tls)
{
    static const char *const events[] = {NULL, "interim", "head", "body"};
    static struct back_kit k;
    struct server_conn *s;
    struct call c;

    back_kit_open(&k, tls, 0);
    for (size_t i = 0; i < ROWS(events); i++) {
        call_init(&c, &k, i % 2 == 0 ? "GET" : "DELETE", "/x");
        c.cancel_at = events[i];
        call_send(&c);
        s = back_kit_conn(&k, 0);
        ok(conn_has(s, "/x"), "request");
        if (events[i] == NULL)
            cancel(&c);
        is_u64(origin_in_flight(k.origin), events[i] != NULL, "what is cancelled is not in flight");
        conn_take(s);
        conn_say(s, "HTTP/1.1 103 x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel");
        ok(run_until(k.loop, c.cancel_at == NULL), "cancelled in %s", events[i] == NULL ? "silence" : events[i]);
        settle(k.loop);
        c.r = NULL;
        conn_say(s, "lo");
        ok(is_idle(&k, 1), "its answer is read to its end");
        ok(!buf_has(&c.log, "end"), "and nobody hears of it");
        call_free(&c);
    }
    /* paused */
    call_init(&c, &k, "GET", "/x");
    c.pause_at = "head";
    call_send(&c);
    ok(conn_has(s, "/x"), "request");
    conn_take(s);
    conn_say(s, OK5);
    settle(k.loop);
    cancel(&c);
    ok(is_idle(&k, 1), "also what its owner had paused");
    call_free(&c);
    k.auto_reply = OK5;
    call_start(&c, &k, "GET", "/next");
    ok(call_is(&c, "head(200) end"), "the next one has its own answer");
    call_free(&c);
    is_u64(k.n_conns, 1, "one handshake for all of them");
    back_kit_close(&k);
}

static void closed(void)
{
    static const char *const answers[] = {
        ENDLESS,
        "HTTP/1.1 200 OK\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nContent-Length: 65537\r\n\r\n",
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhel",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\n",
        "nonsense\r\n\r\n",
    };
    static struct back_kit k;
    struct call c;

    back_kit_open(&k, false, 0);
    for (size_t i = 0; i < ROWS(answers); i++) {
        call_start(&c, &k, "GET", "/x");
        ok(conn_has(back_kit_conn(&k, i), "/x"), "request");
        cancel(&c);
        conn_say(&k.conns[i], answers[i]);
        ok(conn_closed(&k.conns[i]), "what is long, has no end or is odd ends the connection, %zu", i);
        call_free(&c);
    }
    call_init(&c, &k, "POST", "/x");
    c.opts.body = (struct http_body){HTTP_BODY_LENGTH, 5};
    call_send(&c);
    ok(run_until(k.loop, c.writable > 0), "a body");
    cancel(&c);
    ok(conn_closed(&k.conns[k.n_conns - 1]), "nobody knows its end");
    call_free(&c);
    call_start(&c, &k, "GET", "/x");
    ok(conn_has(back_kit_conn(&k, k.n_conns), "/x"), "request");
    cancel(&c);
    conn_close(&k.conns[k.n_conns - 1], STREAM_CLOSE_ABORT);
    ok(run_until(k.loop, back_kit_metric(&k, "mvproxy_back_connections", "busy") == 0), "the server may leave");
    is_u64((uint64_t)back_kit_metric(&k, "mvproxy_back_retries_total", NULL), 0, "nothing is sent again for nobody");
    call_free(&c);
    back_kit_close(&k);
}

/* A server that does not answer is not waited for. */
static void in_time(void)
{
    static struct back_kit k;
    struct call c;

    back_kit_open(&k, false, 0);
    call_start(&c, &k, "GET", "/x");
    ok(conn_has(back_kit_conn(&k, 0), "/x"), "request");
    cancel(&c);
    settle(k.loop);
    ok(!k.conns[0].eof, "the connection is held");
    ok(conn_closed(&k.conns[0]), "not for long");
    call_free(&c);
    call_start(&c, &k, "GET", "/x");
    ok(conn_has(back_kit_conn(&k, 1), "/x"), "request");
    cancel(&c);
    conn_say(&k.conns[1], "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel");
    settle(k.loop);
    ok(conn_closed(&k.conns[1]), "nor for the rest of a body");
    call_free(&c);
    call_start(&c, &k, "GET", "/x");
    ok(conn_has(back_kit_conn(&k, 2), "/x"), "request");
    cancel(&c);
    call_free(&c);
    back_free(k.back);
    k.back = back_new(k.loop, NULL);
    back_kit_close(&k);
}

static void answer_all(struct back_kit *k)
{
    for (size_t i = 0; i < k->n_conns; i++)
        if (buf_has(&k->conns[i].got, "\r\n\r\n")) {
            conn_take(&k->conns[i]);
            conn_say(&k->conns[i], "HTTP/1.1 403 Forbidden\r\nContent-Length: 5\r\n\r\nhello");
        }
}

static bool are_asked(struct back_kit *k, size_t n)
{
    size_t asked = 0;

    for (size_t i = 0; i < k->n_conns; i++)
        asked += buf_has(&k->conns[i].got, "\r\n\r\n");
    return asked >= n;
}

/* As a client does that lives on resets: many at once, each cancelled before its answer. */
static void storm(void)
{
    enum { ROUNDS = 40, AT_ONCE = 20 };
    static struct back_kit k;
    static struct call c[AT_ONCE];
    struct call other;

    back_kit_open(&k, true, 0);
    for (size_t round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < AT_ONCE; i++)
            call_from(&c[i], &k, "10.0.0.1");
        ok(run_until(k.loop, are_asked(&k, AT_ONCE)), "under way");
        for (size_t i = 0; i < AT_ONCE; i++) {
            cancel(&c[i]);
            call_free(&c[i]);
        }
        answer_all(&k);
        ok(is_idle(&k, AT_ONCE), "read to their ends");
    }
    is_u64(k.n_conns, AT_ONCE, "%u cancelled requests cost so many handshakes", ROUNDS * AT_ONCE);
    k.auto_reply = OK5;
    call_from(&other, &k, "10.0.0.2");
    ok(call_is(&other, "head(200) end"), "another client is served");
    call_free(&other);
    call_init(&other, &k, "GET", "/exec");
    other.opts.client = "10.0.0.1";
    other.opts.upgrade = true;
    call_send(&other);
    ok(call_is(&other, "head(200) end"), "and what was read to its end is not held against this one");
    call_free(&other);
    back_kit_close(&k);
}

/* Answers that cannot be read to their end: the budget holds. */
static void waste(void)
{
    enum { BUDGET = LIMIT_CHURN_DIALS + 1 };
    static struct back_kit k;
    struct call c, other;
    size_t before;

    stop_clock();
    back_kit_open(&k, true, 0);
    k.auto_reply = ENDLESS;
    for (size_t i = 0; i < BUDGET; i++) {
        call_from(&c, &k, "10.0.0.1");
        ok(run_until(k.loop, buf_has(&c.log, "head(200)")), "%zu", i);
        cancel(&c);
        call_free(&c);
    }
    settle(k.loop);
    before = k.n_conns;
    is_u64(before, BUDGET, "a handshake for each");
    call_from(&c, &k, "10.0.0.1");
    settle(k.loop);
    is_u64(k.n_conns, before, "no more of them for him");
    k.auto_reply = OK5;
    call_from(&other, &k, "10.0.0.2");
    ok(call_is(&other, "head(200) end"), "for others, there are");
    call_free(&other);
    ok(call_is(&c, "head(200) end"), "and what becomes free is for everybody");
    call_free(&c);
    is_u64(k.n_conns, before + 1, "one more handshake");

    call_init(&c, &k, "GET", "/exec");
    c.opts.client = "10.0.0.1";
    c.opts.upgrade = true;
    call_send(&c);
    ok(call_is(&c, "failed: client"), "what needs a connection of its own is refused");
    ok(!c.failure.request_sent, "unsent");
    call_free(&c);
    back_kit_origin(&k, &(struct origin_opts){0});
    call_from(&c, &k, "10.0.0.1");
    turn_clock(150);
    settle(k.loop);
    ok(call_is(&c, "head(200) end"), "in time he gets one again");
    call_free(&c);
    back_kit_close(&k);
    clock_real();
}

/* Refused upgrades, and bodies that never come, end connections as well. */
static void other_waste(void)
{
    static struct back_kit k;
    struct call c;
    size_t n = 0;

    stop_clock();
    back_kit_open(&k, false, 0);
    k.auto_reply = OK5;
    do {
        call_init(&c, &k, "GET", "/exec");
        c.opts.client = "10.0.0.1";
        c.opts.upgrade = n % 2 == 1;
        if (!c.opts.upgrade)
            c.opts.body = (struct http_body){HTTP_BODY_LENGTH, 5};
        call_send(&c);
        ok(call_over(&c), "%zu", n++);

        if (c.failure_text[0] != '\0')
            break;
        call_free(&c);
    } while (n < 300);
    ok(n > LIMIT_CHURN_DIALS && n <= LIMIT_CHURN_DIALS + 3, "after so many: %zu", n);
    is_str(c.failure_text, "its client has wasted too many connections", "his");
    call_free(&c);
    back_kit_close(&k);
    clock_real();
}

/* Who waits in vain hears whose fault it is. */
static void held_for_ever(void)
{
    static struct back_kit k;
    struct call c;

    stop_clock();
    back_kit_open(&k, false, 0);
    back_kit_origin(&k, &(struct origin_opts){.connect_timeout_ms = 20});
    k.auto_reply = ENDLESS;
    do {
        call_from(&c, &k, "10.0.0.1");
        ok(run_until(k.loop, buf_len(&c.log) > 0 || back_kit_metric(&k, "mvproxy_back_connections", "dialling") == 0),
           "asked");
        settle(k.loop);
        if (buf_len(&c.log) == 0)
            break;
        cancel(&c);
        call_free(&c);
    } while (k.n_conns < 300);
    turn_clock(60);
    ok(call_is(&c, "failed: client"), "refused in the end");
    call_free(&c);
    back_kit_close(&k);
    clock_real();
}

/* Who has come out of debt waits with the others, each no longer than his time. */
static void held_for_a_while(void)
{
    static struct back_kit k;
    struct call busy, early, late;

    stop_clock();
    back_kit_open(&k, false, 0);
    back_kit_origin(&k, &(struct origin_opts){.connect_timeout_ms = 250, .max_connections = 1});
    k.auto_reply = ENDLESS;
    for (size_t i = 0; i <= LIMIT_CHURN_DIALS; i++) {
        call_from(&early, &k, "10.0.0.1");
        if (!run_until(k.loop, buf_has(&early.log, "head(200)")))
            tap_bail("request %zu has no answer", i);
        cancel(&early);
        call_free(&early);
        settle(k.loop);
    }
    call_from(&busy, &k, "10.0.0.2");
    ok(run_until(k.loop, buf_has(&busy.log, "head(200)")), "the only connection is busy");
    call_from(&early, &k, "10.0.0.1");
    turn_clock(150);
    call_from(&late, &k, "10.0.0.2");
    for (unsigned i = 0; i < 30; i++)
        loop_run_once(k.loop, 10);
    turn_clock(360);
    for (unsigned i = 0; i < 200 && early.r != NULL; i++)
        loop_run_once(k.loop, 10);
    ok(early.r == NULL, "whose time is over first is told first");
    ok(late.r != NULL, "who came later waits on");
    for (struct call *c = &busy; c != NULL; c = c == &busy ? &late : c == &late ? &early : NULL) {
        if (c->r != NULL)
            cancel(c);
        call_free(c);
    }
    back_kit_close(&k);
    clock_real();
}

/* What a dial costs shows only when it was used: those who were held get theirs a few at a time. */
static void released(void)
{
    enum { HELD = 9, AT_ONCE = 4 };
    static struct back_kit k;
    struct call c, held[HELD];
    size_t before;

    stop_clock();
    back_kit_open(&k, false, 0);
    back_kit_origin(&k, &(struct origin_opts){.connect_timeout_ms = 60000});
    k.auto_reply = ENDLESS;
    for (size_t i = 0; i <= LIMIT_CHURN_DIALS; i++) {
        call_from(&c, &k, "10.0.0.1");
        if (!run_until(k.loop, buf_has(&c.log, "head(200)")))
            tap_bail("request %zu has no answer", i);
        cancel(&c);
        call_free(&c);
        settle(k.loop);
    }
    before = k.n_conns;
    k.auto_reply = NULL;
    for (size_t i = 0; i < HELD; i++)
        call_from(&held[i], &k, "10.0.0.1");
    settle(k.loop);
    is_u64(k.n_conns, before, "no dial for whoever is in debt");
    turn_clock(150);
    ok(run_until(k.loop, back_kit_metric(&k, "mvproxy_back_connections", "dialling") > 0), "out of debt");
    is_double(back_kit_metric(&k, "mvproxy_back_connections", "dialling"), AT_ONCE, "so many dials at once");
    for (size_t n = AT_ONCE; n < HELD + AT_ONCE; n += AT_ONCE, turn_clock(110))
        ok(run_until(k.loop, k.n_conns == before + (n < HELD ? n : HELD)), "in the end one for each");
    for (size_t i = 0; i < HELD; i++) {
        if (held[i].r != NULL)
            cancel(&held[i]);
        call_free(&held[i]);
    }
    back_kit_close(&k);
    clock_real();
}

/* ---- HTTP/2 ---- */

/* A request of that client, which the server is asked for, `n` in number on the one connection. */
static struct h2_conn *ask_h2(struct call *c, struct back_h2_kit *k, size_t n, const char *client)
{
    struct h2_conn *s;

    h2_call_init(c, k, "/x", NULL);
    c->opts.client = client;
    call_send(c);
    s = h2_conn(k, 0);
    (void)h2_asked(s, n);
    return s;
}

/* Resets are passed on as long as the client does not live on them; then its streams are read to their ends. */
static void streams(void)
{
    static struct back_h2_kit k;
    struct h2_conn *s = NULL;
    struct call c;
    size_t n;

    stop_clock();
    h2_open(&k);
    for (n = 0; n <= LIMIT_CHURN_RESETS; n++) {
        s = ask_h2(&c, &k, n, "10.0.0.1");
        cancel(&c);
        ok(h2_was_reset(s, n), "reset %zu", n);
        call_free(&c);
    }
    (void)ask_h2(&c, &k, n, "10.0.0.1");
    h2_headers(s, s->asked[n].id, ":status: 200\ncontent-length: 65537\n", false);
    ok(run_until(k.k.loop, buf_has(&c.log, "head(200)")), "a long answer");
    cancel(&c);
    ok(h2_was_reset(s, n++), "is not begun to be read");
    call_free(&c);
    for (size_t i = 0; i < 4; i++, n++) {
        (void)ask_h2(&c, &k, n, "10.0.0.1");
        cancel(&c);
        call_free(&c);
        settle(k.k.loop);
        ok(!s->asked[n].reset, "no more resets of his");
        h2_headers(s, s->asked[n].id, ":status: 200\n", false);
        settle(k.k.loop);
        if (i == 0) {
            h2_data(s, s->asked[n].id, "hello", true);
            ok(run_until(k.k.loop, back_kit_metric(&k.k, "mvproxy_back_streams", NULL) == 0), "read to its end");
            ok(!s->asked[n].reset, "and not reset");
        } else if (i == 1) {
            h2_bulk(s, s->asked[n].id, LIMIT_DRAIN_BYTES + 1);
            ok(h2_was_reset(s, n), "but not if it is long");
        } else if (i == 2) {
            h2_rst(s, s->asked[n].id, NGHTTP2_INTERNAL_ERROR);
            ok(run_until(k.k.loop, back_kit_metric(&k.k, "mvproxy_back_streams", NULL) == 0), "the server may end it");
        } else {
            turn_clock(TIMEOUT_DRAIN_MS + 1);
            ok(h2_was_reset(s, n), "nor for long");
        }
    }
    (void)ask_h2(&c, &k, n, "10.0.0.2");
    cancel(&c);
    ok(h2_was_reset(s, n), "another client's are passed on");
    call_free(&c);
    is_u64(k.n_conns, 1, "on the one connection");
    h2_close(&k);
    clock_real();
}

/* A long answer cannot be read to its end: that it is reset late does not make it free. */
static void late_resets(void)
{
    static struct back_h2_kit k;
    struct h2_conn *s = NULL;
    struct call c;
    size_t n;

    stop_clock();
    h2_open(&k);
    for (n = 0; n < LIMIT_CHURN_RESETS + 40; n++) {
        s = ask_h2(&c, &k, n, "10.0.0.1");
        cancel(&c);
        call_free(&c);
        settle(k.k.loop);
        if (s->asked[n].reset)
            continue;
        h2_headers(s, s->asked[n].id, ":status: 200\n", false);
        h2_bulk(s, s->asked[n].id, LIMIT_DRAIN_BYTES + 1);
        ok(h2_was_reset(s, n), "reset late, %zu", n);
    }
    turn_clock(20 * 1000 / LIMIT_CHURN_RESETS_SECOND);
    (void)ask_h2(&c, &k, n, "10.0.0.1");
    cancel(&c);
    call_free(&c);
    settle(k.k.loop);
    ok(!s->asked[n].reset, "those have been on his account as well");
    h2_close(&k);
    clock_real();
}

int main(void)
{
    accounts();
    strain();
    kept(false);
    kept(true);
    closed();
    in_time();
    storm();
    waste();
    other_waste();
    held_for_ever();
    held_for_a_while();
    released();
    streams();
    late_resets();
    return tap_end();
}
