/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole small exchanges; and every allocation of a request failing once.
 */
#include "back/fetch.h"

#include <stdio.h>

#include "unit/back/kit.h"

struct got {
    struct back_kit *kit;
    unsigned calls;
    bool ok;
    unsigned status;
    uint64_t connection;
    char failure[256];
    struct buf body, pieces;
    size_t stop_after; /* pieces' bytes; 0 = never */
    struct fetch *cancel_in_piece;
    bool cancel_at_head; /* that one, too */
};

static void on_done(void *arg, const struct fetch_result *r)
{
    struct got *g = arg;

    g->calls++;
    g->ok = r->ok;
    g->status = r->ok ? r->head->status : 0;
    g->connection = r->connection;
    (void)snprintf(g->failure, sizeof(g->failure), "%s", r->ok ? "" : r->failure);
    buf_append(&g->body, r->ok ? r->body : SLICE_LIT(""));
}

static bool on_piece(void *arg, const struct http_head *head, struct slice piece)
{
    struct got *g = arg;

    if (head->status != 200)
        tap_bail("a piece without a head");
    buf_append(&g->pieces, piece);
    fetch_cancel(&g->cancel_in_piece);
    return g->stop_after == 0 || buf_len(&g->pieces) < g->stop_after;
}

static void on_head(void *arg, const struct http_head *head)
{
    struct got *g = arg;

    is_u64(buf_len(&g->pieces), 0, "told of the head, before its pieces");
    g->status = head->status;
    if (g->cancel_at_head)
        fetch_cancel(&g->cancel_in_piece);
}

static void got_init(struct got *g, struct back_kit *k)
{
    memset(g, 0, sizeof(*g));
    g->kit = k;
    buf_init(&g->body, 1 << 20);
    buf_init(&g->pieces, 1 << 20);
}

static void got_free(struct got *g)
{
    buf_free(&g->body);
    buf_free(&g->pieces);
}

static struct fetch_opts opts_of(struct back_kit *k)
{
    return (struct fetch_opts){.origin = k->origin,
                               .method = SLICE_LIT("GET"),
                               .target = SLICE_LIT("/x"),
                               .ceiling = 1000,
                               .timeout_ms = 10000};
}

static const struct {
    const char *name;
    const char *reply;
    size_t ceiling;
    bool pieces;
    size_t stop_after;
    bool ok;
    const char *text; /* body, or the failure */
} rows[] = {
    {"plain", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 1000, false, 0, true, "hello"},
    {"other status", "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno", 1000, false, 0, true, "no"},
    {"empty", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 1000, false, 0, true, ""},
    {"not modified", "HTTP/1.1 304 x\r\nContent-Encoding: gzip\r\n\r\n", 1000, false, 0, true, ""},
    {"identity", "HTTP/1.1 200 OK\r\nContent-Encoding: identity\r\nContent-Length: 2\r\n\r\nhi", 1000, false, 0, true,
     "hi"},
    {"exactly the ceiling", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 5, false, 0, true, "hello"},
    {"beyond the ceiling", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 4, false, 0, false,
     "response is too large"},
    {"pieces beyond the ceiling", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 4, true, 0, false,
     "response is too large"},
    {"pieces", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 1000, true, 0, true, ""},
    {"stopped", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 1000, true, 1, false, "stopped by its receiver"},
    {"unknown coding", "HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 2\r\n\r\nhi", 1000, false, 0, false,
     "content encoding that was not asked for"},
    {"gzip", "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello", 1000, true, 0, false,
     "content encoding that was not asked for"},
    {"gzip of unknown length", "HTTP/1.1 200 OK\r\nContent-Encoding: x-gzip\r\n\r\nhello", 1000, false, 0, false,
     "content encoding that was not asked for"},
    {"garbage", "hello\r\n\r\n", 1000, false, 0, false, "malformed head"},
};

static void table(void)
{
    for (size_t i = 0; i < ROWS(rows); i++) {
        static struct back_kit k;
        struct server_conn *s;
        struct fetch_opts o;
        struct got g;

        back_kit_open(&k, false, 0);
        got_init(&g, &k);
        o = opts_of(&k);
        o.ceiling = rows[i].ceiling;
        o.on_piece = rows[i].pieces ? on_piece : NULL;
        g.stop_after = rows[i].stop_after;
        if (fetch_start(k.back, k.loop, &o, on_done, &g) == NULL)
            tap_bail("no memory");
        s = back_kit_conn(&k, 0);
        ok(conn_has(s, "\r\n\r\n"), "request");
        conn_say(s, rows[i].reply);
        ok(run_until(k.loop, g.calls > 0), "%s: done", rows[i].name);
        settle(k.loop);
        is_int(g.calls, 1, "once");
        ok(g.ok == rows[i].ok, "as expected: %s", g.failure);
        if (rows[i].ok)
            ok(slice_eq(buf_slice(&g.body), slice_str(rows[i].text)), "body");
        else
            is_str(g.failure, rows[i].text, "failure");
        if (rows[i].pieces && rows[i].ok)
            ok(slice_eq(buf_slice(&g.pieces), SLICE_LIT("hello")), "pieces");
        if (strstr(rows[i].reply, "gzip") != NULL)
            is_u64(buf_len(&g.pieces), 0, "nothing of it is looked at");
        got_free(&g);
        back_kit_close(&k);
    }
}

static void request_text(void)
{
    static struct back_kit k;
    const struct http_field field = {SLICE_LIT("Accept"), SLICE_LIT("x/y"), HTTP_ACCEPT};
    char want[256];
    struct server_conn *s;
    struct fetch_opts o;
    struct got g;

    back_kit_open(&k, false, 0);
    got_init(&g, &k);
    o = opts_of(&k);
    o.method = SLICE_LIT("PUT");
    o.body = SLICE_LIT("1");
    o.fields = &field;
    o.n_fields = 1;
    if (fetch_start(k.back, k.loop, &o, on_done, &g) == NULL)
        tap_bail("no memory");
    s = back_kit_conn(&k, 0);
    ok(conn_has(s, "\r\n\r\n1"), "request");
    (void)snprintf(want, sizeof(want),
                   "PUT /x HTTP/1.1\r\nAccept: x/y\r\nAccept-Encoding: identity\r\nHost: "
                   "127.0.0.1:%u\r\nContent-Length: 1\r\n\r\n1",
                   k.port);
    is_str(conn_take(s), want, "with Host and body");
    conn_say(s, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    ok(run_until(k.loop, g.calls > 0) && g.ok, "done");
    o = opts_of(&k);
    o.fields = &(struct http_field){SLICE_LIT("Host"), SLICE_LIT("kubernetes"), HTTP_HOST};
    o.n_fields = 1;
    if (fetch_start(k.back, k.loop, &o, on_done, &g) == NULL)
        tap_bail("no memory");
    ok(conn_has(s, "\r\n\r\n"), "another");
    is_str(conn_take(s), "GET /x HTTP/1.1\r\nHost: kubernetes\r\nAccept-Encoding: identity\r\n\r\n",
           "with the Host that it names");
    conn_say(s, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    ok(run_until(k.loop, g.calls > 1) && g.ok, "done");
    o.method = SLICE_LIT("HEAD");
    if (fetch_start(k.back, k.loop, &o, on_done, &g) == NULL)
        tap_bail("no memory");
    ok(conn_has(s, "\r\n\r\n"), "a HEAD");
    conn_say(s, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
    ok(run_until(k.loop, g.calls > 2) && g.ok, "is answered by a head alone");
    got_free(&g);
    back_kit_close(&k);
}

static void ends(void)
{
    static struct back_kit k;
    struct server_conn *s;
    struct fetch_opts o;
    struct fetch *f;
    struct got g;

    back_kit_open(&k, false, 0);
    got_init(&g, &k);
    o = opts_of(&k);
    o.timeout_ms = 50;
    f = fetch_start(k.back, k.loop, &o, on_done, &g);
    ok(run_until(k.loop, g.calls > 0) && !g.ok, "no answer");
    is_str(g.failure, "timed out: no answer to GET /x in 0.1 s", "times out, and says what of");
    o.timeout_ms = 10000;
    f = fetch_start(k.back, k.loop, &o, on_done, &g);
    fetch_cancel(&f);
    settle(k.loop);
    is_int(g.calls, 1, "cancelled at once");
    k.auto_reply = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    o.on_piece = on_piece;
    g.cancel_in_piece = fetch_start(k.back, k.loop, &o, on_done, &g);
    s = back_kit_conn(&k, 1); /* the dial of the cancelled one was not wasted */
    ok(run_until(k.loop, back_kit_metric(&k, "mvproxy_back_connections", "idle") == 1) && !s->eof,
       "cancelled in the middle of a piece: the rest is read");
    is_int(g.calls, 1, "nothing is told");
    is_slice(buf_slice(&g.pieces), "hello", "after that piece");
    buf_reset(&g.pieces);
    o.on_head = on_head;
    g.cancel_at_head = true;
    g.cancel_in_piece = fetch_start(k.back, k.loop, &o, on_done, &g);
    ok(run_until(k.loop, g.status == 200), "the head comes");
    settle(k.loop);
    ok(g.calls == 1 && buf_len(&g.pieces) == 0, "cancelled at the head: nothing is told");
    g.cancel_at_head = false;
    ok(fetch_start(k.back, k.loop, &o, on_done, &g) != NULL && run_until(k.loop, g.calls == 2) && g.ok, "or not");
    is_slice(buf_slice(&g.pieces), "hello", "then its pieces come");
    got_free(&g);
    back_kit_close(&k);
}

/* An answer that does not end, of which the head has to come soon. */
static void lasting(void)
{
    static struct back_kit k;
    struct server_conn *s;
    struct fetch_opts o;
    struct got g;

    back_kit_open(&k, false, 0);
    got_init(&g, &k);
    o = opts_of(&k);
    o.on_head = on_head;
    o.on_piece = on_piece;
    o.ceiling = SIZE_MAX;
    o.timeout_ms = 10000;
    o.head_timeout_ms = 50;
    ok(fetch_start(k.back, k.loop, &o, on_done, &g) != NULL && run_until(k.loop, g.calls == 1) && !g.ok && !g.status,
       "no head in time: %s", g.failure);
    o.head_timeout_ms = 5000;
    ok(fetch_start(k.back, k.loop, &o, on_done, &g) != NULL, "once more");
    s = back_kit_conn(&k, 1);
    ok(conn_has(s, "\r\n\r\n"), "asked");
    conn_say(s, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    ok(run_until(k.loop, g.status == 200), "the head comes");
    conn_say(s, "5\r\nhello\r\n");
    ok(run_until(k.loop, buf_len(&g.pieces) == 5) && g.calls == 1, "and a piece");
    conn_say(s, "0\r\n\r\n");
    ok(run_until(k.loop, g.calls == 2) && g.ok, "and its end");
    got_free(&g);
    back_kit_close(&k);
}

/* Asks, and gives the number of the connection that the answer came over. */
static uint64_t number(struct back_kit *k, const struct fetch_opts *o)
{
    struct got g;

    got_init(&g, k);
    if (fetch_start(k->back, k->loop, o, on_done, &g) == NULL)
        tap_bail("no memory");
    ok(run_until(k->loop, g.calls > 0) && g.ok, "an answer");
    got_free(&g);
    return g.connection;
}

static void connections(void)
{
    static struct back_kit k;
    struct fetch_opts o;
    uint64_t first;

    back_kit_open(&k, false, 0);
    k.auto_reply = "HTTP/1.1 304 x\r\n\r\n";
    o = opts_of(&k);
    first = number(&k, &o);
    ok(first > 0, "connections have numbers");
    is_u64(number(&k, &o), first, "the same one, the same number");
    conn_close(back_kit_conn(&k, 0), STREAM_CLOSE_NOW);
    ok(number(&k, &o) > first, "a later one has a higher number");
    is_u64(k.n_conns, 2, "it is another one");
    back_kit_close(&k);
}

/*
 * Walks a failing allocation through start, dial, head, gzipped body and end: an error or success, never a crash, nor a
 * request without what did not fit.
 */
static void memory(bool tls)
{
    static char text[20000];
    const struct http_field long_field = {.name = SLICE_LIT("X-Long"), .value = slice_of(text, sizeof(text))};
    static struct back_kit k;
    bool clean = false;
    unsigned failures = 0, n;

    for (n = 1; n < 400 && !clean; n++) {
        struct fetch_opts o;
        uint64_t before;
        struct fetch *f;
        struct got g;

        back_kit_open(&k, tls, 0);
        k.short_of_memory = true;
        k.auto_reply = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nA: b\r\n\r\n";
        got_init(&g, &k);
        if (!buf_append_str(&g.body, "x")) /* have the memory beforehand */
            tap_bail("no memory");
        buf_reset(&g.body);
        o = opts_of(&k);
        memset(text, 'x', sizeof(text));
        o.fields = &long_field;
        o.n_fields = 1;
        mem_fail_nth(n);
        before = mem_calls();
        f = fetch_start(k.back, k.loop, &o, on_done, &g);
        if (f != NULL && !run_until(k.loop, g.calls > 0 || (k.n_conns > 0 && k.conns[0].failed)))
            diag("allocation %u: neither answer nor failure", n);
        if (f != NULL && g.calls == 0) /* the scripted server was the one without memory */
            fetch_cancel(&f);
        clean = f != NULL && g.ok && mem_calls() - before < n;
        failures += f == NULL || !g.ok;
        if (f != NULL && g.ok && !slice_eq(buf_slice(&g.body), SLICE_LIT("hello")))
            ok(false, "a wrong body after failure %u", n);
        mem_fail_nth(0);
        if (k.n_conns > 0 && buf_has(&k.conns[0].got, "X-Long: \r\n"))
            ok(false, "a request without its field after failure %u", n);
        settle(k.loop);
        got_free(&g);
        if (origin_in_flight(k.origin) != 0)
            ok(false, "something is left in flight after failure %u", n);
        back_kit_close(&k);
    }
    ok(clean, "%sone of %u allocations fails at a time: %u fetches fail", tls ? "TLS: " : "", n, failures);
    ok(failures > 5, "some do");
}

int main(void)
{
    table();
    request_text();
    ends();
    lasting();
    connections();
    memory(false);
    return tap_end();
}
