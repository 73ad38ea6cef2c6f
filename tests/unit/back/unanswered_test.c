/* SPDX-License-Identifier: Apache-2.0 */
/* No answer will come from a server: what of it may be asked elsewhere ends, and everything else has its time. */
#include "base/clock.h"
#include "base/limits.h"
#include "unit/back/h2_kit.h"

#define GAVE_UP "failed: given_up"

static void ask(struct call *c, struct back_kit *k, const char *method, const char *target, bool others)
{
    call_init(c, k, method, target);
    c->opts.others = c->opts.movable = others;
    call_send(c);
}

static void give_up(struct back_kit *k)
{
    origin_fail_unanswered(k->origin, "its etcd is away");
    settle(k->loop);
}

/* The connection with this request. */
static struct server_conn *with(struct back_kit *k, const char *target)
{
    for (size_t i = 0; i < k->n_conns; i++)
        if (buf_has(&k->conns[i].got, target))
            return &k->conns[i];
    tap_bail("no such request");
}

static void over_http1(void)
{
    static struct back_kit k;
    struct call get, put, sole, half, own;

    back_kit_open(&k, false, 0);
    ask(&get, &k, "GET", "/get", true);
    ask(&put, &k, "PUT", "/put", true);
    ask(&sole, &k, "GET", "/sole", false);
    ask(&half, &k, "GET", "/half", true);
    call_init(&own, &k, "GET", "/own");
    own.opts.others = own.opts.movable = own.opts.once = true;
    call_send(&own);
    for (size_t i = 0; i < 5; i++)
        ok(conn_has(back_kit_conn(&k, i), "\r\n\r\n"), "under way");
    conn_say(with(&k, "/half"), "HTTP/1.1 200");
    settle(k.loop);
    give_up(&k);
    ok(call_is(&get, GAVE_UP), "what only reads");
    ok(strcmp(get.failure_text, "its etcd is away") == 0 && get.failure.request_sent,
       "for that reason, and it was sent");
    ok(conn_closed(with(&k, "/get")), "its connection ends");
    conn_say(with(&k, "/half"), " OK\r\nContent-Length: 2\r\n\r\nok");
    conn_say(with(&k, "/put"), "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    conn_say(with(&k, "/sole"), "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    conn_say(with(&k, "/own"), "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    ok(call_is(&half, "head(200) end"), "not what is being answered");
    ok(call_is(&put, "head(200) end"), "not what may have been done");
    ok(call_is(&sole, "head(200) end"), "not what nobody else could answer");
    ok(call_is(&own, "head(200) end"), "not what another program has");
    call_free(&get);
    call_free(&put);
    call_free(&sole);
    call_free(&half);
    call_free(&own);
    back_kit_close(&k);
}

/* Nothing of it was sent, so it may be a write. */
static void in_line(void)
{
    static struct back_kit k;
    struct call first, waits, sole;

    back_kit_open(&k, false, 1);
    ask(&first, &k, "GET", "/first", false);
    ok(conn_has(back_kit_conn(&k, 0), "/first"), "the only connection");
    ask(&waits, &k, "DELETE", "/waits", true);
    ask(&sole, &k, "GET", "/sole", false);
    settle(k.loop);
    give_up(&k);
    ok(call_is(&waits, GAVE_UP) && !waits.failure.request_sent, "what waits for a connection");
    conn_say(&k.conns[0], "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    ok(call_is(&first, "head(200) end") && conn_has(&k.conns[0], "/sole"), "the next in line gets it");
    conn_say(&k.conns[0], "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    ok(call_is(&sole, "head(200) end") && !buf_has(&k.conns[0].got, "/waits"), "as ever");
    call_free(&first);
    call_free(&waits);
    call_free(&sole);
    back_kit_close(&k);
}

static void over_http2(void)
{
    static struct back_h2_kit k;
    struct call get, late, answered;

    h2_open(&k);
    h2_call_init(&get, &k, "/get", NULL);
    h2_call_init(&answered, &k, "/answered", NULL);
    get.opts.movable = answered.opts.movable = true;
    call_send(&get);
    call_send(&answered);
    ok(h2_asked(h2_conn(&k, 0), 1) != NULL, "two requests");
    h2_headers(k.conns[0], k.conns[0]->asked[1].id, ":status: 200\n", false);
    ok(call_is(&answered, "head(200)"), "the answer to one has begun");
    give_up(&k.k);
    ok(call_is(&get, GAVE_UP) && h2_was_reset(k.conns[0], 0), "the other ends, and its stream");
    h2_data(k.conns[0], k.conns[0]->asked[1].id, "ok", true);
    ok(call_is(&answered, "head(200) end"), "the connection lives");
    h2_call_send(&late, &k, "/late", NULL);
    ok(h2_asked(k.conns[0], 2) != NULL, "and takes the next");
    h2_headers(k.conns[0], k.conns[0]->asked[2].id, ":status: 200\n", true);
    ok(call_is(&late, "head(200) end"), "as ever");
    call_free(&get);
    call_free(&answered);
    call_free(&late);
    h2_close(&k);
}

/* Before the server has spoken. */
static void before_http2(void)
{
    static struct back_h2_kit k;
    struct call get, sole;

    h2_open(&k);
    k.silent = true;
    h2_call_init(&get, &k, "/get", NULL);
    get.opts.movable = true;
    call_send(&get);
    h2_call_send(&sole, &k, "/sole", NULL);
    ok(h2_conn(&k, 0) != NULL, "a connection");
    settle(k.k.loop);
    give_up(&k.k);
    ok(call_is(&get, GAVE_UP) && !get.failure.request_sent, "what waits for its SETTINGS");
    ok(call_is(&sole, ""), "not what nobody else could answer");
    back_cancel(sole.r);
    sole.r = NULL;
    call_free(&get);
    call_free(&sole);
    h2_close(&k);
}

/* Thousands may wait, and each costs its owner something: not all of them in one turn. */
static void many(void)
{
    enum { MANY = 70 };
    static struct back_kit k;
    static struct call call[MANY];
    size_t turns = 0, over;
    bool more;

    back_kit_open(&k, false, 1);
    for (size_t i = 0; i < MANY; i++)
        ask(&call[i], &k, "GET", "/many", true);
    settle(k.loop);
    do {
        more = origin_fail_unanswered(k.origin, "its etcd is away");
        settle(k.loop);
        over = 0;
        for (size_t i = 0; i < MANY; i++)
            over += buf_has(&call[i].log, GAVE_UP) ? 1 : 0;
        ok(over == MANY ? !more : more, "%zu of %d are given up", over, MANY);
    } while (more && ++turns < MANY);
    is_u64(over, MANY, "all in the end");
    ok(turns >= 2, "in several turns");
    for (size_t i = 0; i < MANY; i++)
        call_free(&call[i]);
    back_kit_close(&k);
}

/* Who stays does not count: a turn is what is given up in it. */
static void behind_many(void)
{
    enum { MANY = 200 };
    static struct back_kit k;
    static struct call call[MANY + 1];

    back_kit_open(&k, false, 1);
    for (size_t i = 0; i <= MANY; i++)
        ask(&call[i], &k, "GET", "/many", i == MANY);
    settle(k.loop);
    ok(!origin_fail_unanswered(k.origin, "its etcd is away"), "one look at all of them is enough");
    ok(call_is(&call[MANY], GAVE_UP), "for the one that may be asked elsewhere");
    for (size_t i = 0; i < MANY; i++) {
        if (call[i].r != NULL)
            back_cancel(call[i].r);
        call[i].r = NULL;
    }
    for (size_t i = 0; i <= MANY; i++)
        call_free(&call[i]);
    back_kit_close(&k);
}

static void later(struct back_h2_kit *k, uint64_t ms)
{
    clock_fake(clock_us() + ms * 1000, clock_wall_us());
    settle(k->k.loop);
    origin_suspect(k->k.origin);
    settle(k->k.loop);
}

/* Frozen, over HTTP/2: who can go on elsewhere does, and everybody else waits as long as a client of its own would. */
static void frozen_over_http2(void)
{
    static const char *const targets[] = {"/get", "/watch", "/log", "/post"};
    static struct back_h2_kit k;
    struct call c[ROWS(targets)];
    struct h2_conn *s;

    clock_fake(clock_us(), clock_wall_us());
    h2_open(&k);
    for (size_t i = 0; i < ROWS(targets); i++) {
        h2_call_init(&c[i], &k, targets[i], NULL);
        c[i].opts.movable = i == 0;
        c[i].opts.watch = i == 1;
        call_send(&c[i]);
        s = h2_conn(&k, 0);
        ok(h2_asked(s, i) != NULL, "%s", targets[i]);
        if (i == 1 || i == 2)
            h2_headers(s, s->asked[i].id, ":status: 200\n", false);
    }
    ok(call_is(&c[1], "head(200)") && call_is(&c[2], "head(200)"), "two answers have begun");
    k.silent = true;
    later(&k, 1);
    later(&k, TIMEOUT_H2_PONG_MS - 1);
    ok(call_is(&c[0], "") && call_is(&c[1], "head(200)"), "nobody is hasty");
    later(&k, 1);
    ok(call_is(&c[0], GAVE_UP) && call_is(&c[1], "head(200) failed: body"), "who can go on elsewhere");
    later(&k, TIMEOUT_H2_PING_MS - 2);
    ok(call_is(&c[2], "head(200)") && call_is(&c[3], ""), "who cannot");
    later(&k, 2);
    ok(call_is(&c[2], "head(200) failed: body") && call_is(&c[3], "failed: unanswered"), "at last");
    is_double(back_kit_metric(&k.k, "mvproxy_back_connections_closed_total", "ping_timeout"), 1, "with the connection");
    for (size_t i = 0; i < ROWS(c); i++)
        call_free(&c[i]);
    clock_real();
    h2_close(&k);
}

/* All of those who go on elsewhere go, a few in each turn; not if something comes meanwhile. */
static void frozen_for_many(bool speaks)
{
    enum { MANY = 100 };
    static struct back_kit k;
    static struct call call[MANY];
    size_t over = 0;

    clock_fake(clock_us(), clock_wall_us());
    back_kit_open(&k, false, MANY);
    for (size_t i = 0; i < MANY; i++)
        ask(&call[i], &k, "GET", "/many", true);
    ok(conn_has(back_kit_conn(&k, MANY - 1), "/many"), "all are sent");
    origin_suspect(k.origin);
    clock_fake(clock_us() + TIMEOUT_H2_PONG_MS * 1000ULL, clock_wall_us());
    settle(k.loop);
    origin_suspect(k.origin);
    if (speaks)
        conn_say(&k.conns[0], "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    settle(k.loop);
    for (size_t i = 0; i < MANY; i++)
        over += buf_has(&call[i].log, GAVE_UP) ? 1 : 0;
    ok(speaks ? over < MANY : over == MANY, "%zu of %d went", over, MANY);
    for (size_t i = 0; i < MANY; i++) {
        if (call[i].r != NULL)
            back_cancel(call[i].r);
        call[i].r = NULL;
        call_free(&call[i]);
    }
    clock_real();
    back_kit_close(&k);
}

int main(void)
{
    over_http1();
    in_line();
    over_http2();
    before_http2();
    many();
    behind_many();
    frozen_over_http2();
    frozen_for_many(false);
    frozen_for_many(true);
    return tap_end();
}
