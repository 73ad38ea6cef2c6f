/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests with a body over HTTP/2: framing, windows, what the server refuses unread and what it may have read, answers
 * that come early; and each allocation failing in turn.
 */
#include <stdio.h>

#include "unit/back/h2_kit.h"

#define CREATED ":status: 201\n"

static void upload_init(struct call *c, struct back_h2_kit *k, uint64_t length)
{
    h2_call_init(c, k, "/things", NULL);
    c->head.method = SLICE_LIT("POST");
    c->head.method_id = HTTP_POST;
    c->opts.body = (struct http_body){HTTP_BODY_LENGTH, length};
}

static void upload(struct call *c, struct back_h2_kit *k, const char *body)
{
    upload_init(c, k, strlen(body));
    call_send(c);
    if (body[0] != '\0' && !back_write(c->r, slice_str(body)))
        tap_bail("the body is not taken");
}

static void well_formed(void)
{
    static struct back_h2_kit k;
    struct h2_asked *a;
    struct h2_conn *s;
    struct call c;

    h2_open(&k);
    upload(&c, &k, "hello");
    s = h2_conn(&k, 0);
    a = h2_asked(s, 0);
    is_slice(buf_slice(&a->head), ":method: POST\n:scheme: https\n:authority: h\n:path: /things\ncontent-length: 5\n",
             "the head");
    is_slice(buf_slice(&a->body), "hello", "a body that was there before the connection");
    h2_headers(s, a->id, CREATED, true);
    ok(call_is(&c, "head(201) end"), "answered");
    call_free(&c);

    upload_init(&c, &k, 10);
    call_send(&c);
    ok(run_until(k.k.loop, c.writable == 1), "on a connection that is there the owner is told to write");
    ok(back_write(c.r, SLICE_LIT("01234")), "first half");
    a = h2_asked_body(s, 1, 5);
    ok(!a->ended, "without the other half it is not over");
    ok(back_write(c.r, SLICE_LIT("56789")), "second half");
    a = h2_asked(s, 1);
    is_slice(buf_slice(&a->body), "0123456789", "all of it");
    h2_headers(s, a->id, CREATED, true);
    ok(call_is(&c, "head(201) end"), "answered");
    call_free(&c);

    upload(&c, &k, "");
    a = h2_asked(s, 2);
    ok(buf_has(&a->head, "content-length: 0\n"), "a body of nothing");
    h2_headers(s, a->id, CREATED, true);
    ok(call_is(&c, "head(201) end"), "answered");
    call_free(&c);
    is_u64(k.n_conns, 1, "all on one connection");
    h2_close(&k);
}

/* ---- what was not looked at is sent again, whatever it is ---- */

static void refuse_by_goaway(struct h2_conn *s, int32_t id)
{
    h2_goaway(s, id - 2 < 0 ? 0 : id - 2, NGHTTP2_NO_ERROR);
}

static void refuse_by_reset(struct h2_conn *s, int32_t id)
{
    h2_rst(s, id, NGHTTP2_REFUSED_STREAM);
}

static void refused(const char *name, void (*refuse)(struct h2_conn *s, int32_t id))
{
    static struct back_h2_kit k;
    struct h2_conn *s;
    struct h2_asked *a;
    struct call c;

    h2_open(&k);
    upload(&c, &k, "hello");
    s = h2_conn(&k, 0);
    refuse(s, h2_asked(s, 0)->id);
    if (refuse == refuse_by_goaway) {
        s = h2_conn(&k, 1);
        a = h2_asked(s, 0);
    } else {
        a = h2_asked(s, 1);
    }
    is_slice(buf_slice(&a->body), "hello", "%s: sent again with its body", name);
    h2_headers(s, a->id, CREATED, true);
    ok(call_is(&c, "head(201) end"), "%s: answered", name);
    is_double(back_kit_metric(&k.k, "mvproxy_back_retries_total", NULL), 1, "%s: counted", name);
    call_free(&c);
    h2_close(&k);
}

/* What was half given when the server went. */
static void half_given(void)
{
    static struct back_h2_kit k;
    struct h2_conn *s;
    struct call c;

    h2_open(&k);
    upload_init(&c, &k, 10);
    call_send(&c);
    ok(back_write(c.r, SLICE_LIT("01234")), "half of the body");
    s = h2_conn(&k, 0);
    (void)h2_asked_body(s, 0, 5);
    refuse_by_goaway(s, s->asked[0].id);
    s = h2_conn(&k, 1);
    (void)h2_asked_body(s, 0, 5);
    ok(back_write(c.r, SLICE_LIT("56789")), "the other half");
    is_slice(buf_slice(&h2_asked(s, 0)->body), "0123456789", "goes where the first went");
    h2_headers(s, s->asked[0].id, CREATED, true);
    ok(call_is(&c, "head(201) end"), "answered");
    call_free(&c);
    h2_close(&k);
}

static void refused_twice(void)
{
    static struct back_h2_kit k;
    struct call c;

    h2_open(&k);
    upload(&c, &k, "hello");
    for (size_t i = 0; i < 2; i++) {
        struct h2_conn *s = h2_conn(&k, i);

        refuse_by_goaway(s, h2_asked(s, 0)->id);
    }
    (void)h2_conn(&k, 2);
    settle(k.k.loop);
    is_u64(k.conns[2]->n_asked, 0, "the last attempt is over HTTP/1.1");
    call_free(&c);
    h2_close(&k);
}

/* A body of which no copy is kept: the owner must know that it cannot be sent again, but that it was not read. */
static void long_body(void)
{
    static struct back_h2_kit k;
    static char body[LIMIT_REPLAY_BYTES + 1];
    struct h2_conn *s;
    struct call c;

    memset(body, 'b', sizeof(body));
    h2_open(&k);
    upload_init(&c, &k, sizeof(body));
    call_send(&c);
    ok(back_write(c.r, slice_of(body, sizeof(body))), "a long body is taken");
    s = h2_conn(&k, 0);
    refuse_by_goaway(s, h2_asked(s, 0)->id);
    ok(call_is(&c, "failed: unanswered"), "and not sent again");
    ok(c.failure.body_sent && !c.failure.request_sent, "though nobody has looked at it");
    call_free(&c);
    h2_close(&k);
}

/* ---- what may have been carried out is not ---- */

static void say_reset(struct h2_conn *s, int32_t id)
{
    h2_rst(s, id, NGHTTP2_INTERNAL_ERROR);
}

static void say_nothing(struct h2_conn *s, int32_t id)
{
    (void)id;
    h2_conn_close(s, STREAM_CLOSE_NOW);
}

static void keep_and_go(struct h2_conn *s, int32_t id)
{
    h2_goaway(s, id, NGHTTP2_NO_ERROR);
    h2_conn_close(s, STREAM_CLOSE_FLUSH);
}

static void perhaps_done(const char *name, void (*end)(struct h2_conn *s, int32_t id))
{
    static struct back_h2_kit k;
    struct h2_conn *s;
    struct call c;

    h2_open(&k);
    upload(&c, &k, "hello");
    s = h2_conn(&k, 0);
    end(s, h2_asked(s, 0)->id);
    ok(call_is(&c, "failed: unanswered"), "%s: fails", name);
    ok(c.failure.request_sent && c.failure.body_sent, "%s: it may have been carried out", name);
    is_u64(k.n_conns, 1, "%s: nothing is sent again", name);
    call_free(&c);
    h2_close(&k);
}

/* ---- windows ---- */

static void windows(void)
{
    enum { LENGTH = 2 << 20, PIECE = 40000 };
    static struct back_h2_kit k;
    static char body[LENGTH];
    struct h2_conn *s;
    struct call c, other;
    size_t given = 0, most = 0;
    unsigned told;

    for (size_t i = 0; i < LENGTH; i++)
        body[i] = (char)(i * 31 + i / 251);
    h2_open(&k);
    k.holds = true;
    upload_init(&c, &k, LENGTH);
    call_send(&c);
    s = h2_conn(&k, 0);
    ok(run_until(k.k.loop, c.writable == 1), "it may be written");
    while (given < LENGTH) {
        size_t seen = s->n_asked == 0 ? 0 : buf_len(&s->asked[0].body);

        if (!back_congested(c.r)) {
            size_t n = LENGTH - given < PIECE ? LENGTH - given : PIECE;

            if (!back_write(c.r, slice_of(body + given, n)))
                break;
            given += n;
            most = given - seen > most ? given - seen : most;
            loop_run_once(k.k.loop, 0);
            continue;
        }
        told = c.writable;
        (void)h2_asked_body(s, 0, 65535);
        h2_open_windows(s, s->asked[0].id, (uint32_t)(given - buf_len(&s->asked[0].body)));
        if (!run_until(k.k.loop, c.writable > told))
            break;
    }
    is_u64(given, LENGTH, "all of it was given");
    ok(most < 65535 + LIMIT_H2_OUTPUT_HIGH + 2 * PIECE, "never more than windows and one buffer hold: %zu", most);
    for (size_t i = 0; i < 4; i++)
        h2_open_windows(s, s->asked[0].id, 65535);
    ok(slice_eq(buf_slice(&h2_asked(s, 0)->body), slice_of(body, LENGTH)), "and arrived as it was");
    upload(&other, &k, "hello");
    h2_headers(s, s->asked[0].id, CREATED, true);
    ok(call_is(&c, "head(201) end"), "answered");
    h2_headers(s, h2_asked(s, 1)->id, CREATED, true);
    ok(call_is(&other, "head(201) end"), "another beside it, too");
    call_free(&c);
    call_free(&other);
    h2_close(&k);
}

/* A body whose stream has no window left holds up nobody else's. */
static void stalled(void)
{
    static struct back_h2_kit k;
    static char body[LIMIT_H2_OUTPUT_HIGH];
    struct h2_conn *s;
    struct call slow, fast;

    memset(body, 's', sizeof(body));
    h2_open(&k);
    k.holds = true;
    upload_init(&slow, &k, sizeof(body) * 3);
    call_send(&slow);
    s = h2_conn(&k, 0);
    for (size_t i = 0; i < 2; i++)
        if (!back_write(slow.r, slice_of(body, sizeof(body))))
            tap_bail("the body is not taken");
    (void)h2_asked_body(s, 0, 65535);
    if (nghttp2_submit_window_update(s->session, NGHTTP2_FLAG_NONE, 0, 65535) != 0)
        tap_bail("nghttp2");
    upload(&fast, &k, "hello");
    h2_headers(s, h2_asked(s, 1)->id, CREATED, true);
    ok(call_is(&fast, "head(201) end"), "a short one goes past a long one that is held back");
    ok(back_congested(slow.r), "which has been told to wait");
    call_free(&slow);
    ok(h2_was_reset(s, 0), "and can be given up");
    is_u64(s->asked[0].code, NGHTTP2_CANCEL, "CANCEL");
    call_free(&fast);
    h2_close(&k);
}

/* Go's servers say for each read of a body that two windows are open again: no flood, but what bodies do not account
 * for. */
static void updates(bool accounted)
{
    static struct back_h2_kit k;
    static char body[LIMIT_H2_OUTPUT_HIGH];
    struct h2_conn *s;
    struct call c;

    memset(body, 'b', sizeof(body));
    h2_open(&k);
    upload_init(&c, &k, accounted ? sizeof(body) * 4 : 1);
    call_send(&c);
    s = h2_conn(&k, 0);
    (void)h2_asked_body(s, 0, 0);
    for (size_t i = 1; i <= (accounted ? 4 : 0); i++) {
        if (!back_write(c.r, slice_of(body, sizeof(body))))
            tap_bail("the body is not taken");
        (void)h2_asked_body(s, 0, i * sizeof(body));
    }
    for (unsigned i = 0; i < LIMIT_H2_CONTROL_FRAMES + 100; i++)
        h2_frame(s, NGHTTP2_WINDOW_UPDATE, 0, 0, SLICE_LIT("\0\0\0\1"));
    if (accounted) {
        h2_headers(s, s->asked[0].id, CREATED, true);
        ok(call_is(&c, "head(201) end"), "windows that open because of a body are no flood");
    } else {
        ok(call_is(&c, "failed: unanswered"), "others are");
        is_double(back_kit_metric(&k.k, "mvproxy_back_connections_closed_total", "flood"), 1, "counted");
    }
    call_free(&c);
    h2_close(&k);
}

/* ---- ends in the middle ---- */

/* Five bytes of a body of a thousand, on the first connection. */
static struct h2_conn *upload_begin(struct call *c, struct back_h2_kit *k)
{
    upload_init(c, k, 1000);
    call_send(c);
    if (!back_write(c->r, SLICE_LIT("hello")))
        tap_bail("the body is not taken");
    return h2_conn(k, 0);
}

static void early_answer(void)
{
    static struct back_h2_kit k;
    struct h2_conn *s;
    struct call c;

    h2_open(&k);
    s = upload_begin(&c, &k);
    h2_headers(s, h2_asked_body(s, 0, 5)->id, ":status: 413\n", false);
    h2_data(s, s->asked[0].id, "too much", true);
    ok(call_is(&c, "head(413) end"), "an answer that does not wait for the rest");
    ok(h2_was_reset(s, 0), "which is not sent");
    is_u64(s->asked[0].code, NGHTTP2_NO_ERROR, "NO_ERROR");
    call_free(&c);
    upload(&c, &k, "next");
    h2_headers(s, h2_asked(s, 1)->id, CREATED, true);
    ok(call_is(&c, "head(201) end"), "the connection serves the next");
    call_free(&c);
    h2_close(&k);
}

static void too_short(void)
{
    static struct back_h2_kit k;
    struct h2_conn *s;
    struct call c;

    h2_open(&k);
    s = upload_begin(&c, &k);
    (void)h2_asked_body(s, 0, 5);
    back_finish(c.r, NULL);
    ok(call_is(&c, "failed: body"), "a body that ends early");
    ok(h2_was_reset(s, 0), "never looks complete to the server");
    ok(!s->asked[0].ended, "which has not seen its end");
    call_free(&c);
    h2_close(&k);
}

/* The answer has its time from the beginning, however long its question takes. */
static void head_timeout(void)
{
    static struct back_h2_kit k;
    struct call c;

    h2_open(&k);
    upload_init(&c, &k, 5);
    c.opts.head_timeout_ms = 50;
    call_send(&c);
    (void)h2_conn(&k, 0);
    ok(call_is(&c, "failed: timeout"), "an upload that does not end has no answer in time");
    call_free(&c);
    upload_init(&c, &k, 5);
    c.opts.head_timeout_ms = 50;
    call_send(&c);
    if (!back_write(c.r, SLICE_LIT("hello")))
        tap_bail("the body is not taken");
    ok(call_is(&c, "failed: timeout"), "nor has one that has ended");
    call_free(&c);
    h2_close(&k);
}

/* The server opens no window any more; `answering`: after its answer has begun. */
static void not_taken(bool answering)
{
    static struct back_h2_kit k;
    static char body[LIMIT_H2_OUTPUT_HIGH];
    struct call slow, waits;

    memset(body, 's', sizeof(body));
    h2_open(&k);
    back_kit_origin(&k.k, &(struct origin_opts){.stall_timeout_ms = 100});
    k.holds = true;
    upload_init(&waits, &k, 5);
    call_send(&waits);
    upload_init(&slow, &k, sizeof(body) * 3);
    call_send(&slow);
    (void)h2_conn(&k, 0);
    for (size_t i = 0; i < 2; i++)
        if (!back_write(slow.r, slice_of(body, sizeof(body))))
            tap_bail("the body is not taken");
    (void)h2_asked_body(k.conns[0], 1, 65535);
    if (answering)
        h2_headers(k.conns[0], k.conns[0]->asked[1].id, ":status: 200\n", false);
    ok(call_is(&slow, answering ? "head(200) failed: timeout" : "failed: timeout"), "a body that is not taken ends");
    is_str(slow.failure_text, "server does not take the request's body", "and says so");
    ok(h2_was_reset(k.conns[0], 1), "with its stream");
    ok(waits.r != NULL, "one that its owner does not give is his own business");
    call_free(&slow);
    call_free(&waits);
    is_u64(k.n_conns, 1, "the connection stays");
    h2_close(&k);
}

/* ---- memory ---- */

/* Of a body that the server's window does not take, and of an answer that its owner does not take. */
static void charged(bool cancelled)
{
    static struct back_h2_kit k;
    static char text[40 << 10];
    struct quota quota;
    struct h2_conn *s;
    struct call c;
    size_t body;

    quota_init(&quota, NULL, 0);
    memset(text, 'x', sizeof(text) - 1);
    h2_open(&k);
    k.holds = true;
    upload_init(&c, &k, 4 * sizeof(text));
    c.opts.quota = &quota;
    c.pause_at = "head";
    call_send(&c);
    s = h2_conn(&k, 0);
    for (size_t i = 0; i < 4; i++)
        if (!back_write(c.r, slice_of(text, sizeof(text))))
            tap_bail("the body is not taken");
    (void)h2_asked_body(s, 0, 65535);
    body = quota.held;
    ok(body >= 4 * sizeof(text) - 65535, "what the window does not take is charged (%zu bytes)", body);
    h2_headers(s, s->asked[0].id, ":status: 200\n", false);
    h2_bulk(s, s->asked[0].id, sizeof(text));
    ok(run_until(k.k.loop, quota.held >= body + sizeof(text)), "and so is what the owner does not take");
    if (cancelled)
        back_cancel(c.r);
    else
        h2_conn_close(s, STREAM_CLOSE_ABORT);
    if (!cancelled) {
        settle(k.k.loop);
        back_resume(c.r);
        ok(call_over(&c), "broken off");
    }
    c.r = NULL;
    is_u64(quota.held, 0, "nothing is left, at once");
    call_free(&c);
    h2_close(&k);
}

/* What is not sent any more of a body is given back before its owner is told of the end. */
static void charged_until_answered(void)
{
    static struct back_h2_kit k;
    static char text[40 << 10];
    struct quota quota;
    struct h2_conn *s;
    struct call c;

    quota_init(&quota, NULL, 0);
    memset(text, 'x', sizeof(text));
    h2_open(&k);
    k.holds = true;
    upload_init(&c, &k, 4 * sizeof(text));
    c.opts.quota = &quota;
    call_send(&c);
    s = h2_conn(&k, 0);
    for (size_t i = 0; i < 4; i++)
        if (!back_write(c.r, slice_of(text, sizeof(text))))
            tap_bail("the body is not taken");
    (void)h2_asked_body(s, 0, 65535);
    ok(quota.held >= sizeof(text), "a body waits (%zu bytes)", quota.held);
    h2_headers(s, s->asked[0].id, ":status: 413\n", true);
    ok(call_is(&c, "head(413) end"), "its answer does not");
    is_u64(c.charged_at_end, 0, "nothing is charged any more by then");
    call_free(&c);
    h2_close(&k);
}

/* The nth allocation of a request's life fails; 0: none. */
static void scene(struct back_h2_kit *k, uint64_t nth)
{
    struct call c;
    struct h2_conn *s;

    upload_init(&c, k, 10);
    c.opts.head_timeout_ms = 200; /* the server may have lost the request */
    mem_fail_nth(nth);
    c.r = back_start(k->k.back, &c.opts);
    if (c.r != NULL)
        (void)back_write(c.r, SLICE_LIT("01234"));
    if (c.r != NULL)
        (void)run_until(k->k.loop, c.r == NULL || (k->n_conns > 0 && k->conns[0]->n_asked > 0));
    if (c.r != NULL)
        (void)back_write(c.r, SLICE_LIT("56789"));
    s = k->n_conns == 0 ? NULL : k->conns[0];
    if (s != NULL && s->n_asked > 0 && s->s != NULL) {
        (void)run_until(k->k.loop, c.r == NULL || s->asked[0].ended || s->asked[0].reset);
        if (s->s != NULL)
            h2_headers(s, s->asked[0].id, CREATED, true);
        for (int i = 0; i < 20 && c.r != NULL; i++)
            loop_run_once(k->k.loop, 10);
    }
    if (c.r != NULL)
        back_cancel(c.r);
    c.r = NULL;
    mem_fail_nth(0);
    call_free(&c);
}

static void short_of_memory(void)
{
    uint64_t calls = 0;

    for (uint64_t nth = 0; nth <= calls + 5; nth++) {
        static struct back_h2_kit k;
        struct origin_opts o = {.connect_timeout_ms = 300};

        h2_open(&k);
        back_kit_origin(&k.k, &o);
        k.k.short_of_memory = nth > 0;
        if (nth == 0)
            calls = mem_calls();
        scene(&k, nth);
        if (nth == 0)
            calls = mem_calls() - calls;
        h2_close(&k);
    }
    ok(calls > 40, "a request makes %llu allocations, the server's included, and each may fail",
       (unsigned long long)calls);
}

/* What the owner is told of an answer's body. */
static void kinds_of_answers(void)
{
    static const struct {
        const char *method, *head;
        bool end;
        struct http_body body;
    } rows[] = {
        {"GET", ":status: 200\n", false, {HTTP_BODY_CHUNKED, 0}},
        {"GET", ":status: 200\n", true, {HTTP_BODY_LENGTH, 0}},
        {"GET", ":status: 200\ncontent-length: 5\n", false, {HTTP_BODY_LENGTH, 5}},
        {"GET", ":status: 204\n", true, {HTTP_BODY_NONE, 0}},
        {"GET", ":status: 304\ncontent-length: 5\n", true, {HTTP_BODY_NONE, 0}},
        {"HEAD", ":status: 200\ncontent-length: 5\n", true, {HTTP_BODY_NONE, 0}},
    };
    static struct back_h2_kit k;

    h2_open(&k);
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct h2_conn *s;
        struct call c;

        call_init(&c, &k.k, rows[i].method, "/x");
        c.opts.with_cert = true;
        c.opts.http2 = BACK_HTTP2_SHARED;
        call_send(&c);
        s = h2_conn(&k, 0);
        h2_headers(s, h2_asked(s, i)->id, rows[i].head, rows[i].end);
        ok(run_until(k.k.loop, buf_has(&c.log, "head(")), "row %zu is answered", i);
        is_int((int)c.answer_body.kind, (int)rows[i].body.kind, "kind, row %zu", i);
        is_u64(c.answer_body.length, rows[i].body.length, "length, row %zu", i);
        call_free(&c);
    }
    h2_close(&k);
}

int main(void)
{
    kinds_of_answers();
    well_formed();
    refused("GOAWAY", refuse_by_goaway);
    refused("REFUSED_STREAM", refuse_by_reset);
    half_given();
    refused_twice();
    long_body();
    perhaps_done("reset", say_reset);
    perhaps_done("closed", say_nothing);
    perhaps_done("kept beyond GOAWAY, and lost", keep_and_go);
    windows();
    stalled();
    updates(true);
    updates(false);
    early_answer();
    too_short();
    head_timeout();
    not_taken(false);
    not_taken(true);
    charged(true);
    charged_until_answered();
    charged(false);
    short_of_memory();
    return tap_end();
}
