/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/1.1 to servers where it is rare: owners that act in the middle of an event, what cannot be sent, gaps in time.
 */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "back/fetch.h"
#include "back/request.h"
#include "base/clock.h"
#include "unit/back/kit.h"

#define OK5 "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"

/* What cannot be read to its end is closed, also from inside of what comes before the answer. */
static void cancelled_in_interim(void)
{
    static struct back_kit k;
    struct call c;

    back_kit_open(&k, false, 0);
    call_init(&c, &k, "POST", "/x");
    c.opts.body = (struct http_body){HTTP_BODY_LENGTH, 5};
    c.cancel_at = "interim";
    call_send(&c);
    ok(conn_has(back_kit_conn(&k, 0), "\r\n\r\n"), "a request whose body is to come");
    conn_say(&k.conns[0], "HTTP/1.1 103 x\r\n\r\n" OK5);
    ok(call_is(&c, "interim(103) cancel"), "is cancelled in an interim answer");
    ok(conn_closed(&k.conns[0]), "its connection ends");
    settle(k.loop);
    ok(call_is(&c, "interim(103) cancel"), "and nobody hears of the rest");
    call_free(&c);
    back_kit_close(&k);
}

/* Paused before there is an answer: its head comes, its body waits. */
static void paused_at_once(void)
{
    static struct back_kit k;
    struct server_conn *s;
    struct call c;

    back_kit_open(&k, false, 0);
    for (int i = 0; i < 2; i++) {
        call_start(&c, &k, "GET", "/x");
        s = back_kit_conn(&k, 0);
        ok(conn_has(s, "\r\n\r\n"), "request");
        conn_take(s);
        back_pause(c.r);
        if (i > 0) { /* and wanted after all */
            back_resume(c.r);
            conn_say(s, OK5);
        } else {
            conn_say(s, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel");
            ok(call_is(&c, "head(200)"), "the head of the answer comes");
            conn_say(s, "lo");
            settle(k.loop);
            is_u64(c.body_events, 0, "its body waits");
            back_resume(c.r);
        }
        ok(call_is(&c, "head(200) end") && buf_has(&c.body, "hello"), "until it is wanted");
        call_free(&c);
    }
    is_u64(k.n_conns, 1, "the connection is kept");
    back_kit_close(&k);
}

/* The buffer in which heads are put together is kept, but not at any size. */
static void long_head(void)
{
    static char target[LIMIT_STREAM_OUTPUT_HIGH + 100];
    static struct back_kit k;
    struct call c;

    memset(target, 'x', sizeof(target) - 1);
    target[0] = '/';
    back_kit_open(&k, false, 0);
    k.auto_reply = OK5;
    call_start(&c, &k, "GET", "/short");
    ok(call_is(&c, "head(200) end"), "a short head");
    ok(k.back->scratch.cap > 0, "leaves its memory to the next");
    call_free(&c);
    call_start(&c, &k, "GET", target);
    ok(call_is(&c, "head(200) end"), "a long one");
    is_u64(k.back->scratch.cap, 0, "does not");
    call_free(&c);
    back_kit_close(&k);
}

/* ---- what was not asked for comes at the last moment ---- */

static int raw = -1;

static void take_raw(struct back_kit *k, int fd)
{
    (void)k;
    if (raw >= 0)
        close(raw);
    raw = fd;
}

static void raw_says(const char *text)
{
    if (send(raw, text, strlen(text), 0) != (ssize_t)strlen(text))
        tap_bail("send");
}

static bool raw_is_asked(struct back_kit *k, const char *what)
{
    char got[1000];
    ssize_t n = 0;

    for (int i = 0; i < 1000 && (raw < 0 || (n = recv(raw, got, sizeof(got), MSG_DONTWAIT)) <= 0); i++)
        loop_run_once(k->loop, 10);
    return n > 0 && memmem(got, (size_t)n, what, strlen(what)) != NULL;
}

static void (*back_kit_on_body)(void *arg, struct slice data);

/* While the owner has the last of an answer, before the connection goes to the next. */
static void say_more(void *arg, struct slice data)
{
    back_kit_on_body(arg, data);
    raw_says(OK5);
}

static void answered_before_asked(void)
{
    static struct back_kit k;
    struct back_handler h;
    struct call a, b;

    back_kit_open(&k, false, 1);
    k.on_accept = take_raw;
    call_init(&a, &k, "GET", "/a");
    h = *a.opts.handler;
    back_kit_on_body = h.on_body;
    h.on_body = say_more;
    a.opts.handler = &h;
    call_send(&a);
    ok(raw_is_asked(&k, "/a"), "one request has the only connection");
    call_start(&b, &k, "GET", "/b");
    settle(k.loop);
    raw_says(OK5);
    ok(call_is(&a, "head(200) end"), "it is answered, and once more");
    ok(raw_is_asked(&k, "/b"), "the next one");
    is_double(back_kit_metric(&k, "mvproxy_back_connections_closed_total", "unsolicited_bytes"), 1,
              "does not get a connection that has an answer already");
    raw_says("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
    ok(call_is(&b, "head(404) end"), "and has its own");
    call_free(&a);
    call_free(&b);
    back_kit_close(&k);
    close(raw);
    raw = -1;
}

/* ---- bodies ---- */

static void trailers_cannot_be_sent(void)
{
    static struct back_kit k;
    struct http_head trailers;
    struct call c;

    back_kit_open(&k, false, 0);
    call_init(&c, &k, "POST", "/x");
    c.opts.body = (struct http_body){HTTP_BODY_CHUNKED, 0};
    call_send(&c);
    if (!http_head_init(&trailers, c.arena, 1) ||
        !http_head_add(&trailers, c.arena, SLICE_LIT("A"), SLICE_LIT("b\r\nC: d")))
        tap_bail("no memory");
    ok(run_until(k.loop, c.writable > 0) && back_write(c.r, SLICE_LIT("abc")), "a body");
    back_finish(c.r, &trailers);
    ok(call_is(&c, "failed: body"), "trailers that would be others");
    is_str(c.failure_text, "request trailers cannot be sent", "that is said");
    ok(conn_closed(back_kit_conn(&k, 0)), "the connection ends");
    ok(!buf_has(&k.conns[0].got, "C: d"), "nothing of them is sent");
    call_free(&c);
    back_kit_close(&k);
}

/* ---- time ---- */

/* What was sent while the process was suspended comes to the server only now: it has as long again, and no longer. */
static void suspended(bool answers)
{
    static struct back_kit k;
    struct call c;

    back_kit_open(&k, false, 0);
    clock_fake(clock_us(), clock_wall_us());
    call_init(&c, &k, "GET", "/x");
    c.opts.head_timeout_ms = 5; /* of a clock that stands: looked at again and again */
    call_send(&c);
    ok(conn_has(back_kit_conn(&k, 0), "\r\n\r\n"), "request");
    clock_fake(clock_us() + 20000000, clock_wall_us());
    for (int i = 0; i < 200 && loop_missed_ms(k.loop) == 0; i++)
        loop_run_once(k.loop, 5);
    settle(k.loop);
    ok(loop_missed_ms(k.loop) >= 19000, "a gap is noticed");
    is_str(c.failure_text, "", "twenty seconds are not held against the server");
    if (answers) {
        conn_say(&k.conns[0], OK5);
        ok(call_is(&c, "head(200) end"), "which answers");
    } else {
        clock_fake(clock_us() + 6000, clock_wall_us());
        for (int i = 0; i < 200 && c.r != NULL; i++)
            loop_run_once(k.loop, 5);
        clock_real();
        ok(call_is(&c, "failed: timeout"), "after which it has no longer than ever");
    }
    clock_real();
    call_free(&c);
    back_kit_close(&k);
}

/* ---- health ---- */

/* Whose time is over has a trial: not by what proves nothing. */
static void no_trial(void)
{
    static struct back_kit k;
    struct call c;

    back_kit_open(&k, false, 0);
    clock_fake(clock_us(), clock_wall_us());
    k.close_at_once = true;
    for (int i = 0; i < 20 && origin_healthy(k.origin); i++) {
        call_start(&c, &k, "POST", "/x");
        ok(call_over(&c), "fails");
        call_free(&c);
    }
    ok(!origin_healthy(k.origin), "an outlier");
    k.close_at_once = false;
    clock_fake(clock_us() + 3600000000, clock_wall_us());
    ok(origin_healthy(k.origin), "whose time is over");
    for (int proves = 0; proves < 2; proves++) {
        call_init(&c, &k, "GET", "/x");
        c.opts.proves_nothing = proves == 0;
        call_send(&c);
        is_int(origin_healthy(k.origin), proves == 0, proves == 0 ? "what proves nothing is no trial" : "a request is");
        call_free(&c);
    }
    clock_real();
    back_kit_close(&k);
}

/* ---- the end, and memory ---- */

/* What fails is told at the end of the turn; with `back` it is not told at all. */
static void freed_while_failing(void)
{
    static struct back_kit k;
    struct call c, none;

    back_kit_open(&k, false, 0);
    call_init(&c, &k, "GET", "/x");
    c.opts.body = (struct http_body){HTTP_BODY_LENGTH, 5};
    call_send(&c);
    call_start(&none, &k, "GET", "/y");
    back_finish(c.r, NULL);
    back_free(k.back);
    k.back = back_new(k.loop, NULL);
    settle(k.loop);
    is_u64(buf_len(&c.log) + buf_len(&none.log), 0, "nobody hears of what ended with all");
    c.r = none.r = NULL;
    call_free(&c);
    call_free(&none);
    back_kit_close(&k);
    back_free(NULL);
}

static void unexpected(void *arg, const struct fetch_result *r)
{
    (void)r;
    *(bool *)arg = true;
}

static void fetch_without_memory(void)
{
    static const struct http_field fields[] = {
        {.id = HTTP_ACCEPT, .name = SLICE_LIT("Accept"), .value = SLICE_LIT("a")},
        {.name = SLICE_LIT("X-Other"), .value = SLICE_LIT("b")}};
    static char body[9000];
    static struct back_kit k;
    unsigned failed = 0;
    bool told = false;

    back_kit_open(&k, false, 0);
    for (unsigned nth = 1; nth < 60; nth++) {
        const struct fetch_opts o = {.origin = k.origin,
                                     .method = SLICE_LIT("POST"),
                                     .target = SLICE_LIT("/x"),
                                     .fields = fields,
                                     .n_fields = ROWS(fields),
                                     .body = slice_of(body, nth % 2 == 0 ? sizeof(body) : 4070),
                                     .ceiling = 100,
                                     .timeout_ms = 10000};
        struct fetch *f;

        mem_fail_nth(nth / 2 + 1);
        f = fetch_start(k.back, k.loop, &o, unexpected, &told);
        mem_fail_nth(0);
        failed += f == NULL;
        fetch_cancel(&f);
    }
    settle(k.loop);
    ok(failed > 3, "%u allocations that fail: no fetch", failed);
    ok(!told, "and nobody is told");
    back_kit_close(&k);
}

int main(void)
{
    cancelled_in_interim();
    paused_at_once();
    long_head();
    answered_before_asked();
    trailers_cannot_be_sent();
    suspended(true);
    suspended(false);
    no_trial();
    freed_while_failing();
    fetch_without_memory();
    return tap_end();
}
