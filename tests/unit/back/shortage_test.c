/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to servers for whose head, answer or trailers memory is missing at one point after the other: whole, or
 * said to have failed for that, and the next one is served.
 */
#include <stdio.h>

#include "lib/arena_fails.h"
#include "unit/back/h2_kit.h"

/* More fields than there is room for at first. */
#define FIELDS                                                                                                         \
    "x-1: a\nx-2: b\nx-3: c\nx-4: d\nx-5: e\nx-6: f\nx-7: g\nx-8: h\nx-9: i\nx-10: j\nx-11: k\nx-12: l\nx-13: m\n"     \
    "x-14: n\nx-15: o\nx-16: p\nx-17: q\nx-18: r\nx-19: s\nx-20: t\nx-21: u\nx-22: v\nx-23: w\nx-24: x\nx-25: y\n"     \
    "x-26: z\nx-27: a\nx-28: b\nx-29: c\nx-30: d\nx-31: e\nx-32: f\nx-33: g\n"
#define WHOLE "interim(103) head(200) end(2)"

enum { MOST = 300 };

/* ---- HTTP/2 ---- */

static void answer(struct back_h2_kit *k, size_t nth)
{
    struct h2_conn *s = k->conns[0];
    int32_t id = s->asked[nth].id;

    h2_headers(s, id, ":status: 103\nlink: a\n", false);
    h2_headers(s, id, ":status: 200\n" FIELDS, false);
    h2_data(s, id, "hello", false);
    h2_headers(s, id, "x-sum: 1\nx-more: 2\n", true);
}

static bool is_asked(const struct back_h2_kit *k, size_t nth)
{
    return k->n_conns > 0 && k->conns[0]->n_asked > nth && k->conns[0]->asked[nth].ended;
}

/* True: whole. *asked: how many requests the server has seen. */
static bool over_http2(struct back_h2_kit *k, uint64_t nth, size_t *asked)
{
    struct call c;
    bool whole;

    arena_holds = true;
    h2_call_init(&c, k, "/x", NULL);
    arena_holds = false;
    arena_calls = 0;
    arena_fails_at = nth;
    call_send(&c);
    ok(run_until(k->k.loop, c.r == NULL || is_asked(k, *asked)), "allocation %u", (unsigned)nth);
    if (c.r != NULL) {
        answer(k, (*asked)++);
        ok(call_over(&c), "is over");
    }
    arena_fails_at = 0;
    whole = slice_eq(buf_slice(&c.log), SLICE_LIT(WHOLE));
    if (whole) {
        is_u64(c.n_fields, 33, "with all its fields");
        is_slice(buf_slice(&c.body), "hello", "and its body");
    } else {
        ok(nth > 0, "only without memory: %.*s", (int)buf_len(&c.log), buf_slice(&c.log).p);
        is_str(c.failure_text, "out of memory", "which is said");
        ok(c.failure.why == BACK_FAIL_MEMORY || (c.failure.why == BACK_FAIL_BODY && buf_has(&c.log, "head(200)")), "%s",
           back_failure_name(c.failure.why));
    }
    settle(k->k.loop);
    if (*asked > 0 && k->conns[0]->asked[*asked - 1].reset)
        is_u64(k->conns[0]->asked[*asked - 1].code, NGHTTP2_INTERNAL_ERROR, "nor is it the server's fault");
    call_free(&c);
    return whole;
}

static void http2(void)
{
    static struct back_h2_kit k;
    uint64_t calls = MOST, nth;
    unsigned failed = 0;
    size_t asked = 0;

    h2_open(&k);
    for (nth = 0; nth <= calls && nth < MOST; nth++) {
        bool whole = over_http2(&k, nth, &asked);

        failed += !whole;
        if (whole)
            calls = arena_calls;
    }
    ok(nth < MOST && failed > 50, "HTTP/2: %u of %u allocations are missed", failed, (unsigned)calls);
    is_u64(k.n_conns, 1, "others on the connection go on");
    is_double(back_kit_metric(&k.k, "mvproxy_back_streams", NULL), 0, "no stream is left");
    h2_close(&k);
}

/* ---- HTTP/1.1, as we ask for ourselves ---- */

/* True: whole. */
static bool fetch_it(struct back_kit *k, uint64_t nth)
{
    static const struct http_field fields[] = {{SLICE_LIT("Accept"), SLICE_LIT("x/y"), HTTP_ACCEPT},
                                               {SLICE_LIT("X-More"), SLICE_LIT("more"), HTTP_NAME_OTHER}};
    struct fetch_opts o = {.origin = k->origin,
                           .method = SLICE_LIT("PUT"),
                           .target = SLICE_LIT("/x"),
                           .body = SLICE_LIT("1"),
                           .fields = fields,
                           .n_fields = 2,
                           .ceiling = 1000,
                           .timeout_ms = 10000};
    struct back_kit_fetched g = {0};

    arena_holds = false;
    arena_calls = 0;
    arena_fails_at = nth;
    if (fetch_start(k->back, k->loop, &o, back_kit_fetched, &g) != NULL)
        ok(run_until(k->loop, g.calls > 0), "allocation %u: over", (unsigned)nth);
    arena_fails_at = 0;
    arena_holds = true;
    settle(k->loop);
    if (g.ok)
        is_str(g.said, "hello", "whole");
    else if (g.calls > 0)
        ok(strstr(g.said, "memory") != NULL, "or not for want of memory: %s", g.said);
    return g.ok;
}

static void http1(void)
{
    static struct back_kit k;
    char want[256];
    uint64_t calls = MOST, nth;
    unsigned failed = 0;
    struct slice rest;

    back_kit_open(&k, false, 0);
    k.auto_reply = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n" /* and a body that is no part of it */
                   "X-1: a\r\nX-2: a\r\nX-3: a\r\nX-4: a\r\nX-5: a\r\nX-6: a\r\nX-7: a\r\nX-8: a\r\nX-9: a\r\n"
                   "\r\n5\r\nhello\r\n0\r\nX-Sum: b\r\n\r\n";
    for (nth = 0; nth <= calls && nth < MOST; nth++) {
        bool whole = fetch_it(&k, nth);

        failed += !whole;
        if (whole)
            calls = arena_calls;
    }
    ok(nth < MOST && failed > 5, "HTTP/1.1: %u of %u allocations are missed", failed, (unsigned)calls);
    (void)snprintf(want, sizeof(want),
                   "PUT /x HTTP/1.1\r\nAccept: x/y\r\nX-More: more\r\nAccept-Encoding: identity\r\nHost: "
                   "127.0.0.1:%u\r\nContent-Length: 1\r\n\r\n1",
                   k.port);
    for (size_t i = 0; i < k.n_conns; i++) {
        rest = buf_slice(&k.conns[i].got);
        while (rest.n >= strlen(want) && memcmp(rest.p, want, strlen(want)) == 0)
            rest = slice_from(rest, strlen(want));
        is_u64(rest.n, 0, "what the server sees is a whole request");
    }
    back_kit_close(&k);
}

int main(void)
{
    http2();
    http1();
    return tap_end();
}
