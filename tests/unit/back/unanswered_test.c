/* SPDX-License-Identifier: Apache-2.0 */
/* No answer will come from a server: what of it may be asked elsewhere ends, and everything else has its time. */
#include "unit/back/h2_kit.h"

#define GAVE_UP "failed: given_up"

static void ask(struct call *c, struct kit *k, const char *method, const char *target, bool others)
{
    call_init(c, k, method, target);
    c->opts.others = others;
    call_send(c);
}

static void give_up(struct kit *k)
{
    origin_fail_unanswered(k->origin, "its etcd is away");
    settle(k->loop);
}

/* The connection with this request. */
static struct server_conn *with(struct kit *k, const char *target)
{
    for (size_t i = 0; i < k->n_conns; i++)
        if (buf_has(&k->conns[i].got, target))
            return &k->conns[i];
    tap_bail("no such request");
}

static void over_http1(void)
{
    static struct kit k;
    struct call get, put, sole, half, own;

    kit_open(&k, false, 0);
    ask(&get, &k, "GET", "/get", true);
    ask(&put, &k, "PUT", "/put", true);
    ask(&sole, &k, "GET", "/sole", false);
    ask(&half, &k, "GET", "/half", true);
    call_init(&own, &k, "GET", "/own");
    own.opts.others = own.opts.once = true;
    call_send(&own);
    for (size_t i = 0; i < 5; i++)
        ok(conn_has(kit_conn(&k, i), "\r\n\r\n"), "under way");
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
    kit_close(&k);
}

/* Nothing of it was sent, so it may be a write. */
static void in_line(void)
{
    static struct kit k;
    struct call first, waits, sole;

    kit_open(&k, false, 1);
    ask(&first, &k, "GET", "/first", false);
    ok(conn_has(kit_conn(&k, 0), "/first"), "the only connection");
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
    kit_close(&k);
}

static void over_http2(void)
{
    static struct h2_kit k;
    struct call get, late, answered;

    h2_open(&k);
    h2_call_init(&get, &k, "/get", NULL);
    h2_call_init(&answered, &k, "/answered", NULL);
    get.opts.others = answered.opts.others = true;
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
    static struct h2_kit k;
    struct call get, sole;

    h2_open(&k);
    k.silent = true;
    h2_call_init(&get, &k, "/get", NULL);
    get.opts.others = true;
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
    static struct kit k;
    static struct call call[MANY];
    size_t turns = 0, over;
    bool more;

    kit_open(&k, false, 1);
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
    kit_close(&k);
}

/* Who stays does not count: a turn is what is given up in it. */
static void behind_many(void)
{
    enum { MANY = 200 };
    static struct kit k;
    static struct call call[MANY + 1];

    kit_open(&k, false, 1);
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
    kit_close(&k);
}

int main(void)
{
    over_http1();
    in_line();
    over_http2();
    before_http2();
    many();
    behind_many();
    return tap_end();
}
