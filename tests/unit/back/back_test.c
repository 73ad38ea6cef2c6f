/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests over real sockets against a scripted server: framing, reuse, losses at every step, cancellation, upgrades.
 */
#include "back/health.h"
#include "unit/back/kit.h"

#define OK5 "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"

static bool body_is(const struct call *c, const char *text)
{
    return slice_eq(buf_slice(&c->body), slice_str(text)) || (text[0] == '\0' && buf_len(&c->body) == 0);
}

/* ---- answers as they should be, and as they should not ---- */

static const struct {
    const char *name, *method, *reply;
    bool close; /* the server closes (orderly) after it */
    const char *log, *body;
    size_t conns_after; /* idle connections left */
} answers[] = {
    {"length", "GET", OK5, false, "head(200) end", "hello", 1},
    {"length 0", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", false, "head(200) end", "", 1},
    {"chunked", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n", false,
     "head(200) end", "hello", 1},
    {"trailers", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nA: b\r\n\r\n", false,
     "head(200) end(1)", "hello", 1},
    {"until the end", "GET", "HTTP/1.1 200 OK\r\n\r\nhello", true, "head(200) end", "hello", 0},
    {"until the end, empty", "GET", "HTTP/1.1 200 OK\r\n\r\n", true, "head(200) end", "", 0},
    {"HEAD", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", false, "head(200) end", "", 1},
    {"HEAD, chunked", "HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", false, "head(200) end", "", 1},
    {"204", "DELETE", "HTTP/1.1 204 No Content\r\n\r\n", false, "head(204) end", "", 1},
    {"304", "GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", false, "head(304) end", "", 1},
    {"Connection: close", "GET", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello", false,
     "head(200) end", "hello", 0},
    {"HTTP/1.0", "GET", "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", false, "head(200) end", "hello", 0},
    {"interim", "GET", "HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" OK5, false,
     "interim(103) interim(100) head(200) end", "hello", 1},
    {"bytes behind the body", "GET", OK5 "x", false, "head(200) end", "hello", 0},
    {"a second answer", "GET", OK5 OK5, false, "head(200) end", "hello", 0},
    {"a body behind 204", "GET", "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello", false, "head(204) end",
     "", 0},
    {"a body behind HEAD", "HEAD", OK5, false, "head(200) end", "", 0},

    {"truncated length", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello", true, "head(200) failed: body",
     "hello", 0},
    {"truncated at once", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n", true, "head(200) failed: body", "", 0},
    {"truncated chunk", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nhello", true,
     "head(200) failed: body", "hello", 0},
    {"no last chunk", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", true,
     "head(200) failed: body", "hello", 0},
    {"truncated trailers", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: b\r\n", true,
     "head(200) failed: body", "", 0},
    {"broken chunk", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloX", false,
     "head(200) failed: body", "hello", 0},
    {"chunk extension", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a\r\nhello\r\n", false,
     "head(200) failed: body", "", 0},
    {"truncated head", "GET", "HTTP/1.1 200 OK\r\nContent-", true, "failed: head", "", 0},
    {"garbage", "GET", "SSH-2.0-OpenSSH_9.2\r\n", false, "failed: head", "", 0},
    {"two lengths", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello", false,
     "failed: head", "", 0},
    {"length and chunked", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", false,
     "failed: head", "", 0},
    {"gone after an interim", "GET", "HTTP/1.1 100 Continue\r\n\r\n", true, "interim(100) failed: head", "", 0},
    {"101 unasked", "GET", "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", false,
     "failed: head", "", 0},
    {"no answer to a POST", "POST", "", true, "failed: unanswered", "", 0},
};

static void answer_table(bool tls, bool bytewise)
{
    for (size_t i = 0; i < ROWS(answers); i++) {
        static struct back_kit k;
        struct server_conn *s;
        struct call c;

        back_kit_open(&k, tls, 0);
        call_start(&c, &k, answers[i].method, "/x");
        s = back_kit_conn(&k, 0);
        if (!conn_has(s, "\r\n\r\n"))
            tap_bail("no request");
        for (const char *p = answers[i].reply; *p != '\0' && s->s != NULL; p++) {
            if (!bytewise) {
                conn_say(s, p);
                break;
            }
            if (!stream_write(s->s, slice_of(p, 1)))
                break;
            loop_run_once(k.loop, 0);
        }
        if (answers[i].close)
            conn_close(s, STREAM_CLOSE_FLUSH);
        ok(call_is(&c, answers[i].log), "%s%s: %s", tls ? "TLS: " : "", bytewise ? "bytewise" : "at once",
           answers[i].name);
        ok(body_is(&c, answers[i].body), "its body");
        settle(k.loop);
        is_double(back_kit_metric(&k, "mvproxy_back_connections", "idle"), (double)answers[i].conns_after,
                  "kept connections");
        is_double(back_kit_metric(&k, "mvproxy_back_connections", "busy"), 0, "busy connections");
        call_free(&c);
        back_kit_close(&k);
    }
}

/* ---- reuse and losses ---- */

static void reuse(bool tls)
{
    static struct back_kit k;
    struct server_conn *s;
    struct call c[3];

    back_kit_open(&k, tls, 0);
    k.auto_reply = OK5;
    for (size_t i = 0; i < 3; i++) {
        call_start(&c[i], &k, "GET", "/a");
        ok(call_is(&c[i], "head(200) end"), "request %zu", i);
        call_free(&c[i]);
    }
    is_u64(k.n_conns, 1, "one connection for all");
    is_double(back_kit_metric(&k, "mvproxy_back_connection_reuses_total", NULL), 2, "reused twice");
    s = back_kit_conn(&k, 0);
    is_str(conn_take(s),
           "GET /a HTTP/1.1\r\nHost: h\r\n\r\nGET /a HTTP/1.1\r\nHost: h\r\n\r\nGET /a HTTP/1.1\r\nHost: h\r\n\r\n",
           "and nothing but the requests");
    conn_say(s, "HTTP/1.1 408 Request Timeout\r\n\r\n");
    ok(conn_closed(s), "unsolicited bytes close an idle connection");
    call_start(&c[0], &k, "GET", "/a");
    ok(call_is(&c[0], "head(200) end"), "on a new connection");
    call_free(&c[0]);
    conn_close(back_kit_conn(&k, 1), STREAM_CLOSE_FLUSH);
    ok(run_until(k.loop, back_kit_metric(&k, "mvproxy_back_connections", "idle") == 0),
       "the server's close is noticed");
    is_double(back_kit_metric(&k, "mvproxy_back_connections_closed_total", "closed_by_server"), 1, "and counted");
    back_kit_close(&k);
}

/* From inside on_end the connection that just became free is used. */
static void follow_up(void)
{
    static struct back_kit k;
    struct call a, b;

    back_kit_open(&k, false, 0);
    k.auto_reply = OK5;
    call_init(&a, &k, "GET", "/a");
    call_init(&b, &k, "GET", "/b");
    a.follow = &b;
    call_send(&a);
    ok(call_is(&a, "head(200) end"), "the first");
    ok(call_is(&b, "head(200) end"), "and the one from inside its end");
    is_u64(k.n_conns, 1, "on the same connection");
    call_free(&a);
    call_free(&b);
    back_kit_close(&k);
}

/* The server closes just as the request goes out: a safe method is repeated, others are reported. */
static void race(void)
{
    static const struct {
        const char *method;
        const char *log;
        size_t conns;
    } rows[] = {{"GET", "head(200) end", 2}, {"POST", "failed: unanswered", 1}};

    for (size_t i = 0; i < ROWS(rows); i++) {
        static struct back_kit k;
        struct server_conn *s;
        struct call c;

        back_kit_open(&k, false, 0);
        k.auto_reply = OK5;
        call_start(&c, &k, "GET", "/warm");
        ok(call_is(&c, "head(200) end"), "warm");
        call_free(&c);
        k.auto_reply = NULL;
        call_start(&c, &k, rows[i].method, "/race");
        s = back_kit_conn(&k, 0);
        ok(conn_has(s, "/race"), "the request went out on the old connection");
        k.auto_reply = OK5;
        conn_close(s, STREAM_CLOSE_NOW);
        ok(call_is(&c, rows[i].log), "%s: %s", rows[i].method, rows[i].log);
        is_u64(k.n_conns, rows[i].conns, "connections");
        if (buf_has(&c.log, "failed"))
            ok(c.failure.reused && c.failure.request_sent && !c.failure.body_sent, "the owner learns why");
        call_free(&c);
        back_kit_close(&k);
    }
}

static void retries_end(void)
{
    static struct back_kit k;
    struct call c;

    back_kit_open(&k, false, 0);
    k.close_at_once = true;
    call_start(&c, &k, "GET", "/");
    ok(call_is(&c, "failed: unanswered"), "a server that always hangs up");
    is_u64(k.n_conns, 3, "is tried three times");
    is_double(back_kit_metric(&k, "mvproxy_back_retries_total", NULL), 2, "two of them retries");
    call_free(&c);
    back_kit_close(&k);
}

/* A machine may take that much time away before anybody can look. */
static bool out_for(struct back_kit *k, uint64_t since_ms, uint64_t ms)
{
    return !origin_healthy(k->origin) || loop_now_ms(k->loop) - since_ms >= ms;
}

static void dead_server(void)
{
    static struct back_kit k;
    struct call c[3];
    uint64_t began;

    back_kit_open(&k, false, 0);
    listener_close(k.listener);
    k.listener = NULL;
    ok(origin_healthy(k.origin), "healthy until proved otherwise");
    began = loop_now_ms(k.loop);
    for (size_t i = 0; i < 3; i++)
        call_start(&c[i], &k, "POST", "/");
    for (size_t i = 0; i < 3; i++) {
        ok(call_is(&c[i], "failed: connect"), "refused");
        ok(!c[i].failure.request_sent && !c[i].failure.reused, "nothing was sent");
        call_free(&c[i]);
    }
    ok(out_for(&k, began, HEALTH_CONNECT_OUT_MS), "not healthy now");
    ok(run_until(k.loop, origin_healthy(k.origin)), "until the next trial");
    began = loop_now_ms(k.loop);
    call_start(&c[0], &k, "GET", "/");
    ok(call_is(&c[0], "failed: connect"), "refused again");
    call_free(&c[0]);
    ok(out_for(&k, began, 2 * HEALTH_CONNECT_OUT_MS), "and waits longer");
    back_kit_close(&k);
}

/* The connection goes while the head waits: each in its own way. */
static void resets(void)
{
    static struct back_kit k;
    struct server_conn *s;
    struct call c;

    back_kit_open(&k, false, 0);
    call_start(&c, &k, "POST", "/");
    s = back_kit_conn(&k, 0);
    ok(conn_has(s, "\r\n\r\n"), "request");
    conn_close(s, STREAM_CLOSE_ABORT);
    ok(call_is(&c, "failed: unanswered"), "reset before the answer");
    ok(!c.failure.reused, "on a fresh connection");
    call_free(&c);
    call_start(&c, &k, "POST", "/");
    s = back_kit_conn(&k, 1);
    ok(conn_has(s, "\r\n\r\n"), "request");
    conn_say(s, "HTTP/1.1 200 OK\r\n\r\nhel");
    ok(run_until(k.loop, buf_has(&c.body, "hel")), "some of the body");
    conn_close(s, STREAM_CLOSE_ABORT);
    ok(call_is(&c, "head(200) failed: body"), "a reset is no end of a body");
    call_free(&c);
    back_kit_close(&k);
}

/* ---- cancellation ---- */

static void cancellation(bool tls)
{
    static const char chunked[] = "HTTP/1.1 103 x\r\n\r\n"
                                  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n";
    static const char *const events[] = {"interim", "head", "body"};
    static struct back_kit k;
    struct server_conn *s;
    struct call c, d;

    for (size_t i = 0; i < ROWS(events); i++) {
        back_kit_open(&k, tls, 0);
        call_init(&c, &k, "GET", "/");
        c.cancel_at = events[i];
        call_send(&c);
        s = back_kit_conn(&k, 0);
        ok(conn_has(s, "\r\n\r\n"), "request");
        conn_say(s, chunked);
        ok(conn_closed(s), "cancelled in %s of an answer without end: the connection closes", events[i]);
        ok(buf_has(&c.log, "cancel") && !buf_has(&c.log, "end"), "and nothing is told any more");
        call_free(&c);
        back_kit_close(&k);
    }
    back_kit_open(&k, tls, 1);
    call_start(&c, &k, "GET", "/dialling");
    call_free(&c);
    call_start(&c, &k, "GET", "/first");
    s = back_kit_conn(&k, k.n_conns);
    ok(conn_has(s, "/first"), "the one after a cancelled one");
    call_start(&d, &k, "GET", "/waiting");
    settle(k.loop);
    is_int(buf_len(&d.log), 0, "waits");
    call_free(&d);
    conn_say(s, OK5);
    ok(call_is(&c, "head(200) end"), "cancelling who waits hurts nobody");
    call_free(&c);
    settle(k.loop);
    ok(!buf_has(&s->got, "/waiting"), "and is never sent");
    back_kit_close(&k);

    back_kit_open(&k, tls, 0);
    listener_close(k.listener);
    k.listener = NULL;
    call_start(&c, &k, "GET", "/");
    ok(run_until(k.loop, back_kit_metric(&k, "mvproxy_back_connections", "dialling") == 0 || buf_len(&c.log) > 0),
       "fails");
    call_free(&c);
    back_kit_close(&k);
}

/* ---- upgrades ---- */

static void upgrades(bool tls)
{
    static struct back_kit k;
    struct server_conn *s;
    struct call c;
    double seconds;

    back_kit_open(&k, tls, 0);
    k.auto_reply = OK5;
    call_start(&c, &k, "GET", "/warm");
    ok(call_is(&c, "head(200) end"), "warm");
    call_free(&c);
    k.auto_reply = NULL;
    for (size_t i = 0; i < 2; i++) {
        call_init(&c, &k, "POST", "/exec");
        if (!http_head_add_id(&c.head, c.arena, HTTP_UPGRADE, SLICE_LIT("SPDY/3.1")))
            tap_bail("no memory");
        c.opts.upgrade = true;
        seconds = back_kit_metric(&k, "mvproxy_back_request_duration_seconds", NULL);
        call_send(&c);
        s = back_kit_conn(&k, i + 1);
        ok(conn_has(s, "\r\n\r\n"), "on a connection of its own");
        is_str(
            conn_take(s),
            "POST /exec HTTP/1.1\r\nHost: h\r\nUpgrade: SPDY/3.1\r\nContent-Length: 0\r\nConnection: Upgrade\r\n\r\n",
            "as it should be");
        if (i == 0) {
            conn_say(s, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: SPDY/3.1\r\nConnection: Upgrade\r\n\r\nraw");
            ok(call_is(&c, "upgraded(101)"), "upgraded");
            is_slice(stream_peek(c.upgraded), "raw", "bytes behind the head wait in the stream");
            stream_close(c.upgraded, STREAM_CLOSE_NOW);
            ok(conn_closed(s), "the stream is the owner's");
        } else {
            conn_say(s, "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno");
            ok(call_is(&c, "head(403) end"), "refused");
            ok(conn_closed(s), "and never pooled");
        }
        ok(back_kit_metric(&k, "mvproxy_back_request_duration_seconds", NULL) > seconds, "an answer like any other");
        call_free(&c);
    }
    back_kit_close(&k);
}

static void timeouts(void)
{
    static struct back_kit k;
    struct server_conn *s;
    struct call c;

    back_kit_open(&k, false, 0);
    call_init(&c, &k, "GET", "/");
    c.opts.head_timeout_ms = 50;
    call_send(&c);
    s = back_kit_conn(&k, 0);
    ok(call_is(&c, "failed: timeout"), "no head in time");
    ok(conn_closed(s), "the connection goes with it");
    call_free(&c);
    call_init(&c, &k, "GET", "/");
    c.opts.head_timeout_ms = 1000;
    call_send(&c);
    s = back_kit_conn(&k, 1);
    ok(conn_has(s, "\r\n\r\n"), "request");
    conn_say(s, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel");
    ok(run_until(k.loop, buf_has(&c.body, "hel")), "a head in time");
    for (uint64_t end = loop_now_ms(k.loop) + 1100; loop_now_ms(k.loop) < end;)
        loop_run_once(k.loop, 50);
    conn_say(s, "lo");
    ok(call_is(&c, "head(200) end"), "then the body may take its time");
    call_free(&c);
    back_kit_close(&k);
}

static void interim_flood(void)
{
    static struct back_kit k;
    struct server_conn *s;
    struct call c;

    back_kit_open(&k, false, 0);
    call_start(&c, &k, "GET", "/");
    s = back_kit_conn(&k, 0);
    ok(conn_has(s, "\r\n\r\n"), "request");
    for (size_t i = 0; i <= LIMIT_INTERIM_RESPONSES; i++)
        conn_say(s, "HTTP/1.1 102 Processing\r\n\r\n");
    ok(call_over(&c), "a flood of interim responses ends it");
    is_int(c.failure.why, BACK_FAIL_HEAD, "as a bad head");
    call_free(&c);
    back_kit_close(&k);
}

static void identities(void)
{
    static struct back_kit k;
    struct call c;

    back_kit_open(&k, true, 0);
    k.auto_reply = OK5;
    for (size_t i = 0; i < 4; i++) {
        call_init(&c, &k, "GET", "/");
        c.opts.with_cert = i % 2 == 1;
        call_send(&c);
        ok(call_is(&c, "head(200) end"), "request %zu", i);
        call_free(&c);
    }
    is_u64(k.n_conns, 2, "one connection per identity");
    ok(!stream_tls_peer(k.conns[0].s)->present, "the first shows no certificate");
    is_slice(stream_tls_peer(k.conns[1].s)->common_name, "alice", "the second does");
    back_kit_close(&k);
}

/* An origin that must speak TLS and has no context for it: a token in the clear would be everybody's. */
static void never_in_the_clear(void)
{
    struct back_kit k;
    struct call c;

    back_kit_open(&k, false, 0);
    back_kit_origin(&k, &(struct origin_opts){.tls_required = true});
    call_start(&c, &k, "GET", "/a");
    ok(call_over(&c) && strcmp(c.failure_text, "peer-ca-file or proxy-client-cert-file is not configured") == 0,
       "without a context nothing is sent");
    is_u64(k.n_conns, 0, "not even a connection is made");
    call_free(&c);
    back_kit_close(&k);
}

struct series {
    const char *server;
    unsigned n;
};

static void count_series(const struct metric_view *v, void *arg)
{
    struct series *s = arg;

    s->n += v->n_labels > 0 && strcmp(v->label_names[0], "server") == 0 &&
            slice_eq(v->label_values[0], slice_str(s->server));
}

static unsigned series_of(struct back_kit *k, const char *server)
{
    struct series s = {server, 0};

    metrics_walk(k->metrics, count_series, &s);
    return s.n;
}

/* More servers in the course of time than have room at once. */
static void servers_come_and_go(void)
{
    struct origin *one, *same;
    struct back_kit k;
    char name[32];

    back_kit_open(&k, false, 0);
    for (unsigned i = 0; i < 600; i++) {
        (void)snprintf(name, sizeof(name), "gone-%u", i);
        origin_unref(origin_new(k.back, &(struct origin_opts){.name = name, .host = "127.0.0.1", .port = 1}));
    }
    is_u64(series_of(&k, "gone-0") + series_of(&k, "gone-599"), 0, "who is gone has no series");
    one = origin_new(k.back, &(struct origin_opts){.name = "late", .host = "127.0.0.1", .port = 1});
    same = origin_new(k.back, &(struct origin_opts){.name = "late", .host = "127.0.0.2", .port = 1});
    if (one == NULL || same == NULL)
        tap_bail("out of memory");
    ok(series_of(&k, "late") > 10, "who comes late has his own");
    is_u64(series_of(&k, "other"), 0, "and nobody shares");
    origin_unref(one);
    ok(series_of(&k, "late") > 10, "they stay while another address of that server is used");
    origin_unref(same);
    is_u64(series_of(&k, "late"), 0, "and go with the last");
    back_kit_close(&k);
}

/* Nobody above should ask for this; if somebody does, nothing of it is sent. */
static void unsendable(void)
{
    struct back_kit k;
    struct call c;

    back_kit_open(&k, false, 0);
    call_init(&c, &k, "GET", "/x");
    if (!http_head_add(&c.head, c.arena, SLICE_LIT("X-A"), SLICE_LIT("a\r\nX-B: b")))
        tap_bail("no memory");
    call_send(&c);
    ok(call_is(&c, "failed: head"), "a head that would be two");
    is_str(conn_take(back_kit_conn(&k, 0)), "", "nothing of it is sent");
    call_free(&c);
    back_kit_close(&k);
}

int main(void)
{
    unsendable();
    never_in_the_clear();
    answer_table(false, false);
    answer_table(false, true);
    answer_table(true, false);
    reuse(false);
    reuse(true);
    follow_up();
    race();
    retries_end();
    dead_server();
    resets();
    cancellation(false);
    cancellation(true);
    upgrades(false);
    upgrades(true);
    timeouts();
    interim_flood();
    identities();
    servers_come_and_go();
    return tap_end();
}
