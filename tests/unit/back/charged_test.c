/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection to a server over HTTP/1.1, and all that waits in it, is charged to whoever's request it serves: from the
 * first byte to the last, and to nobody in between.
 */
#include "unit/back/kit.h"

#define OK2 "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

enum {
    BIG = 16 << 20,
    STATE = 20 << 10, /* less than a connection with TLS holds */
};

static void begin(struct back_kit *k, struct call *c, struct quota *q, const char *method)
{
    call_init(c, k, method, "/");
    c->opts.quota = q;
}

/* As much as goes out and waits; false: the request has ended. */
static bool give_all(struct back_kit *k, struct call *c)
{
    static char piece[16 << 10];
    unsigned idle = 0;

    memset(piece, 'x', sizeof(piece));
    for (uint64_t end = deadline(); c->r != NULL && idle < 20 && !passed(end); loop_run_once(k->loop, 5))
        if (back_congested(c->r) || !back_write(c->r, slice_of(piece, sizeof(piece))))
            idle++;
        else
            idle = 0;
    return c->r != NULL;
}

static struct server_conn *begin_upload(struct back_kit *k, struct call *c, struct quota *q)
{
    struct server_conn *s;

    begin(k, c, q, "PUT");
    c->opts.body = (struct http_body){HTTP_BODY_LENGTH, BIG};
    call_send(c);
    s = back_kit_conn(k, 0);
    ok(conn_has(s, "\r\n\r\n"), "request");
    stream_pause(s->s, STREAM_PAUSE_LIMIT);
    return s;
}

static void upload(bool tls, bool cancelled)
{
    static struct back_kit k;
    struct server_conn *s;
    struct quota q;
    struct call c;
    size_t before;

    quota_init(&q, NULL, 0);
    back_kit_open(&k, tls, 0);
    s = begin_upload(&k, &c, &q);
    before = q.held;
    ok(give_all(&k, &c), "a server takes no more of a body");
    ok(q.held >= before + LIMIT_STREAM_OUTPUT_HIGH, "what waits for it is charged (%zu bytes, %zu before)", q.held,
       before);
    if (cancelled) {
        back_cancel(c.r);
        c.r = NULL;
    } else {
        conn_close(s, STREAM_CLOSE_ABORT);
        ok(call_over(&c), "the server goes");
    }
    is_u64(q.held, 0, "nothing is left, at once");
    call_free(&c);
    back_kit_close(&k);
}

static void no_room(bool tls)
{
    static struct back_kit k;
    struct quota q;
    struct call c;

    quota_init(&q, NULL, 100 << 10);
    back_kit_open(&k, tls, 0);
    (void)begin_upload(&k, &c, &q);
    ok(!give_all(&k, &c), "a body that there is no room for ends");
    is_int(c.failure.why, BACK_FAIL_MEMORY, "for want of memory (%s), which is not the server's fault", c.failure_text);
    is_u64(k.n_conns, 1, "it is not sent again");
    is_u64(q.held, 0, "nothing is left");
    call_free(&c);
    back_kit_close(&k);
}

/* Not even for a connection. */
static void no_room_for_another(void)
{
    static struct back_kit k;
    struct quota q;
    struct call first, c, next;

    quota_init(&q, NULL, 20 << 10);
    back_kit_open(&k, true, 1);
    begin(&k, &c, &q, "GET");
    call_send(&c);
    ok(call_is(&c, "failed: client"), "no room for a connection");
    is_u64(k.n_conns, 0, "none is made");
    call_free(&c);
    call_start(&first, &k, "GET", "/");
    ok(conn_has(back_kit_conn(&k, 0), "\r\n\r\n"), "somebody else's request");
    q.most = 60 << 10;
    begin(&k, &c, &q, "GET");
    call_send(&c);
    call_start(&next, &k, "GET", "/next");
    settle(k.loop);
    is_u64(buf_len(&c.log), 0, "one with room enough waits for its connection");
    quota_add(&q, 40 << 10);
    conn_say(&k.conns[0], OK2);
    ok(call_is(&c, "failed: client"), "meanwhile the room has gone");
    ok(conn_has(&k.conns[0], "/next"), "the next has the connection");
    quota_give(&q, 40 << 10);
    conn_say(&k.conns[0], OK2);
    ok(call_is(&next, "head(200) end") && call_is(&first, "head(200) end"), "answered");
    is_u64(q.held, 0, "nothing is left");
    call_free(&first);
    call_free(&c);
    call_free(&next);
    back_kit_close(&k);
}

/* So many that not all of them fail in one turn. */
static void no_room_for_many(void)
{
    enum { MANY = 40 };
    static struct back_kit k;
    static struct call many[MANY];
    struct quota q;
    struct call first, last;
    unsigned failed = 0;
    size_t taken;

    quota_init(&q, NULL, 4 << 20);
    back_kit_open(&k, true, 1);
    call_start(&first, &k, "GET", "/");
    ok(conn_has(back_kit_conn(&k, 0), "\r\n\r\n"), "somebody's request");
    for (size_t i = 0; i < MANY; i++) {
        begin(&k, &many[i], &q, "GET");
        call_send(&many[i]);
    }
    call_start(&last, &k, "GET", "/last");
    settle(k.loop);
    taken = q.most - q.held + (1 << 20); /* also when those who fail have given back what they hold */
    quota_add(&q, taken);
    conn_say(&k.conns[0], OK2);
    ok(conn_has(&k.conns[0], "/last"), "who waits behind many that have no room any more gets the connection");
    quota_give(&q, taken);
    is_u64(k.n_conns, 1, "and no other one is made");
    conn_say(&k.conns[0], OK2);
    ok(call_is(&last, "head(200) end"), "answered");
    for (size_t i = 0; i < MANY; i++) {
        failed += call_is(&many[i], "failed: client");
        call_free(&many[i]);
    }
    is_u64(failed, MANY, "they have failed");
    is_u64(q.held, 0, "nothing is left");
    call_free(&first);
    call_free(&last);
    back_kit_close(&k);
}

static void in_use(bool abandoned)
{
    static struct back_kit k;
    struct server_conn *s;
    struct quota q[2];
    struct call c;

    quota_init(&q[0], NULL, 0);
    quota_init(&q[1], NULL, 0);
    back_kit_open(&k, true, 0);
    for (size_t i = 0; i < 2; i++) {
        begin(&k, &c, &q[i], "GET");
        call_send(&c);
        s = back_kit_conn(&k, 0);
        ok(conn_has(s, "\r\n\r\n"), "request %zu", i + 1);
        ok(q[i].held >= STATE, "who uses a connection holds it (%zu bytes)", q[i].held);
        (void)conn_take(s);
        if (abandoned) {
            back_cancel(c.r);
            c.r = NULL;
            is_u64(q[i].held, 0, "who has given up holds nothing, whoever reads the answer");
            ok(!s->eof && !s->failed, "it is still open");
        }
        conn_say(s, OK2);
        if (!abandoned)
            ok(call_is(&c, "head(200) end"), "answered");
        ok(run_until(k.loop, back_kit_metric(&k, "mvproxy_back_connections", "idle") == 1), "the connection is kept");
        is_u64(q[i].held, 0, "an idle one is nobody's");
        call_free(&c);
    }
    is_u64(k.n_conns, 1, "one connection");
    back_kit_close(&k);
}

/* One that dials for a request alone, of which there may be as many as there are requests. */
static void dialled_for_it(bool cancelled)
{
    static struct back_kit k;
    struct server_conn *s;
    struct quota q;
    struct call c;

    quota_init(&q, NULL, 0);
    back_kit_open(&k, true, 0);
    begin(&k, &c, &q, "GET");
    c.opts.upgrade = true;
    if (!http_head_add_id(&c.head, c.arena, HTTP_CONNECTION, SLICE_LIT("Upgrade")) ||
        !http_head_add_id(&c.head, c.arena, HTTP_UPGRADE, SLICE_LIT("x")))
        tap_bail("no memory");
    call_send(&c);
    is_u64(k.n_conns, 0, "a connection is being made");
    ok(q.held >= STATE, "and is charged (%zu bytes)", q.held);
    if (cancelled) {
        back_cancel(c.r);
        c.r = NULL;
    } else {
        s = back_kit_conn(&k, 0);
        ok(conn_has(s, "\r\n\r\n"), "request");
        ok(q.held >= STATE && q.held < 3 * STATE, "once (%zu bytes)", q.held);
        conn_say(s, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n");
        ok(call_is(&c, "upgraded(101)"), "a stream for another owner");
        stream_close(c.upgraded, STREAM_CLOSE_NOW);
    }
    is_u64(q.held, 0, "nothing is left");
    call_free(&c);
    back_kit_close(&k);
}

int main(void)
{
    for (int i = 0; i < 4; i++)
        upload((i & 1) != 0, (i & 2) != 0);
    no_room(false);
    no_room(true);
    no_room_for_another();
    no_room_for_many();
    in_use(false);
    in_use(true);
    dialled_for_it(false);
    dialled_for_it(true);
    return tap_end();
}
