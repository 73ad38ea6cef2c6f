/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bodies that never end hold connections to a server, one each: whoever holds many leaves some to others, does not keep
 * them waiting, and has 429 for what goes beyond.
 */
#include "back/shares.h"

#include "unit/back/kit.h"

#define OK5 "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"

enum { MOST = 120, HOARDED = 60, OTHERS_LEFT = 30 };

static size_t take_all(struct shares *s, uint64_t client)
{
    size_t n = 0;

    while (n < 10 * MOST && shares_take(s, client))
        n++;
    return n;
}

static void counts(void)
{
    static struct shares s;

    s.most = MOST;
    is_u64(take_all(&s, 1), HOARDED, "one client alone has half");
    ok(shares_take(&s, 0) && s.taken == HOARDED, "we are not counted");
    shares_give(&s, 0);
    is_u64(take_all(&s, 2), OTHERS_LEFT, "the next one half of what is left");
    ok(shares_take(&s, 3), "somebody else is served");
    shares_give(&s, 3);
    ok(!shares_take(&s, 1), "who has much gets no more");
    is_u64(shares_of(&s, 1), HOARDED, "and keeps what he has");
    while (shares_of(&s, 1) > 0)
        shares_give(&s, 1);
    ok(shares_take(&s, 2), "what was given back is for all");
    while (shares_of(&s, 2) > 0)
        shares_give(&s, 2);
    is_u64(s.taken, 0, "nothing is left behind");
    s.taken = MOST + 1;
    ok(!shares_take(&s, 4), "there may be fewer than there were");
}

static void upload_from(struct call *c, struct back_kit *k, const char *client)
{
    call_init(c, k, "POST", "/x");
    c->opts.client = client;
    c->opts.body = (struct http_body){HTTP_BODY_LENGTH, 1000};
    call_send(c);
}

static void get_from(struct call *c, struct back_kit *k, const char *client)
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

/* Of one client, until he has his share. */
static void hoard(void)
{
    static struct back_kit k;
    static struct call c[HOARDED];
    struct call more, other;

    back_kit_open(&k, false, 0);
    back_set_connections(k.back, MOST);
    for (size_t i = 0; i < HOARDED; i++)
        upload_from(&c[i], &k, "10.0.0.1");
    ok(run_until(k.loop, k.n_conns == HOARDED), "as many connections as bodies that do not end");
    upload_from(&more, &k, "10.0.0.1");
    ok(call_is(&more, "failed: client"), "one more is refused");
    ok(!more.failure.request_sent, "and was not sent");
    call_free(&more);
    get_from(&other, &k, "10.0.0.2");
    ok(conn_has(back_kit_conn(&k, HOARDED), "GET /x"), "another client has a connection");
    conn_say(&k.conns[HOARDED], OK5);
    ok(call_is(&other, "head(200) end"), "and an answer");
    call_free(&other);
    get_from(&other, &k, NULL);
    ok(conn_has(&k.conns[HOARDED], "GET /x"), "and so have we");
    conn_say(&k.conns[HOARDED], OK5);
    ok(call_is(&other, "head(200) end"), "as ever");
    call_free(&other);
    cancel(&c[0]);
    settle(k.loop);
    get_from(&more, &k, "10.0.0.1");
    ok(conn_has(&k.conns[HOARDED], "GET /x"), "who ends one has another");
    conn_say(&k.conns[HOARDED], OK5);
    ok(call_is(&more, "head(200) end"), "like everybody");
    call_free(&more);
    for (size_t i = 0; i < HOARDED; i++) {
        if (i > 0)
            cancel(&c[i]);
        call_free(&c[i]);
    }
    back_kit_close(&k);
}

/* The pool is full, and a client waits with very many requests. */
static void in_turns(void)
{
    enum { N = 200, AMONG = 80 };
    static struct back_kit k;
    static struct call c[N];
    struct call other;
    size_t before = 0;

    back_kit_open(&k, false, 1);
    for (size_t i = 0; i < N; i++)
        get_from(&c[i], &k, "10.0.0.1");
    ok(conn_has(back_kit_conn(&k, 0), "GET /x"), "one connection for all of them");
    get_from(&other, &k, "10.0.0.2");
    while (other.r != NULL && before < N) {
        conn_say(&k.conns[0], OK5);
        settle(k.loop);
        before++;
    }
    ok(before < AMONG, "who comes last is served after %zu of %u", before, N);
    call_free(&other);
    k.auto_reply = OK5;
    conn_say(&k.conns[0], OK5);
    for (size_t i = 0; i < N; i++) {
        ok(call_is(&c[i], "head(200) end"), "and so are the others");
        call_free(&c[i]);
    }
    back_kit_close(&k);
}

int main(void)
{
    counts();
    hoard();
    in_turns();
    return tap_end();
}
