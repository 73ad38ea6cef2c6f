/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests over HTTP/2 against a scripted server: answers as they should be and as they should not, resets, GOAWAY,
 * windows, floods, dead servers.
 */
#include <stdio.h>

#include "back/h2_call.h"
#include "base/clock.h"
#include "net/stream_out.h"
#include "unit/back/h2_kit.h"

#define OK_HEAD ":status: 200\n"

static bool body_is(const struct call *c, const char *text)
{
    return slice_eq(buf_slice(&c->body), slice_str(text));
}

/* ---- answers ---- */

static void well_formed(void)
{
    static struct back_h2_kit k;
    struct h2_conn *s;
    struct h2_asked *a;
    struct call c, d;

    h2_open(&k);
    h2_call_init(&c, &k, "/x?watch=1", NULL);
    if (!http_head_add(&c.head, c.arena, SLICE_LIT("X-Remote-User"), SLICE_LIT("alice")) ||
        !http_head_add_id(&c.head, c.arena, HTTP_CONNECTION, SLICE_LIT("close")))
        tap_bail("no memory");
    call_send(&c);
    s = h2_conn(&k, 0);
    a = h2_asked(s, 0);
    is_slice(buf_slice(&a->head),
             ":method: GET\n:scheme: https\n:authority: h\n:path: /x?watch=1\nx-remote-user: alice\n", "the request");
    h2_headers(s, a->id, ":status: 103\nlink: a\n", false);
    h2_headers(s, a->id, OK_HEAD "content-type: text/plain\nx-a: b\n", false);
    h2_data(s, a->id, "hel", false);
    h2_data(s, a->id, "lo", false);
    h2_headers(s, a->id, "x-sum: 1\nauthorization: 9\n", true);
    ok(call_is(&c, "interim(103) head(200) end(1)"), "interim, head, trailers without those that may not be there");
    ok(body_is(&c, "hello"), "body");
    h2_call_send(&d, &k, "/y", NULL);
    a = h2_asked(s, 1);
    h2_headers(s, a->id, ":status: 404\n", true);
    ok(call_is(&d, "head(404) end"), "a head that is all");
    is_u64(k.n_conns, 1, "on the same connection");
    is_double(back_kit_metric(&k.k, "mvproxy_back_connection_reuses_total", NULL), 1, "counted as reuse");
    is_double(back_kit_metric(&k.k, "mvproxy_back_connections", "idle"), 1, "idle now");
    is_double(back_kit_metric(&k.k, "mvproxy_back_streams", NULL), 0, "no streams");
    call_free(&c);
    call_free(&d);
    h2_close(&k);
}

/* nghttp2 by itself sends no block of header fields of more than 64 KiB. */
static void long_head(void)
{
    static struct back_h2_kit k;
    static char value[15001]; /* LIMIT_H2_BACK_HEAD */
    struct h2_conn *s;
    struct h2_asked *a;
    struct call c;

    memset(value, 'v', sizeof(value) - 1);
    h2_open(&k);
    h2_call_init(&c, &k, "/x?watch=1", NULL);
    if (!http_head_add(&c.head, c.arena, SLICE_LIT("X-Long"), slice_str(value)))
        tap_bail("no memory");
    call_send(&c);
    s = h2_conn(&k, 0);
    a = h2_asked(s, 0);
    ok(buf_len(&a->head) > 15000, "a request with 15 KB of head arrives");
    h2_headers(s, a->id, ":status: 204\n", true);
    ok(call_is(&c, "head(204) end"), "and is answered");
    call_free(&c);
    h2_close(&k);
}

static size_t lines_of(struct slice text)
{
    size_t n = 0;

    for (size_t i = 0; i < text.n; i++)
        n += text.p[i] == '\n';
    return n;
}

/* As many as fit into what goes over HTTP/2: a client's, and what the proxy adds. */
static void many_fields(void)
{
    static const size_t numbers[] = {1, 16, 17, 256, 257, 400};
    static struct back_h2_kit k;
    struct http_head small;
    struct h2_conn *s;
    struct h2_asked *a;
    struct call c;

    h2_open(&k);
    for (size_t i = 0; i < ROWS(numbers); i++) {
        h2_call_init(&c, &k, "/x?watch=1", NULL);
        small = c.head;
        if (!http_head_init(&c.head, c.arena, numbers[i]))
            tap_bail("no memory");
        c.head.method = small.method;
        c.head.method_id = small.method_id;
        c.head.target = small.target;
        while (c.head.n_fields < numbers[i])
            if (!http_head_add(&c.head, c.arena, c.head.n_fields == 0 ? SLICE_LIT("Host") : SLICE_LIT("X-Group"),
                               SLICE_LIT("h")))
                tap_bail("no memory");
        call_send(&c);
        s = h2_conn(&k, 0);
        a = h2_asked(s, i);
        is_u64(lines_of(buf_slice(&a->head)), 4 + numbers[i] - 1, "%zu fields arrive", numbers[i]);
        h2_headers(s, a->id, ":status: 204\n", true);
        ok(call_is(&c, "head(204) end"), "and are answered");
        call_free(&c);
    }
    h2_close(&k);
}

static void say_bad_head(struct h2_conn *s, int32_t id)
{
    h2_headers(s, id, OK_HEAD "connection: close\n", false);
}

static void say_no_status(struct h2_conn *s, int32_t id)
{
    h2_headers(s, id, "content-type: a\n", false);
}

static void say_two_statuses(struct h2_conn *s, int32_t id)
{
    h2_headers(s, id, OK_HEAD OK_HEAD, false);
}

static void say_status_599(struct h2_conn *s, int32_t id)
{
    h2_headers(s, id, ":status: 999\n", false);
}

static void say_101(struct h2_conn *s, int32_t id)
{
    h2_headers(s, id, ":status: 101\n", false);
}

static void say_upper_case(struct h2_conn *s, int32_t id)
{
    h2_headers(s, id, OK_HEAD "X-Upper: a\n", false);
}

static void say_bad_name(struct h2_conn *s, int32_t id)
{
    h2_headers(s, id, OK_HEAD "x(a: a\n", false);
}

static void say_bad_value(struct h2_conn *s, int32_t id)
{
    h2_headers(s, id, OK_HEAD "x-a: a\x01z\n", false);
}

static void say_transfer_encoding(struct h2_conn *s, int32_t id)
{
    h2_headers(s, id, OK_HEAD "transfer-encoding: chunked\n", false);
}

static void say_two_lengths(struct h2_conn *s, int32_t id)
{
    h2_headers(s, id, OK_HEAD "content-length: 3\ncontent-length: 3\n", false);
}

static void say_long_field(struct h2_conn *s, int32_t id)
{
    static char text[LIMIT_HEAD_FIELDS * 8 + 64];
    size_t n = (size_t)snprintf(text, sizeof(text), OK_HEAD);

    for (unsigned i = 0; i < LIMIT_HEAD_FIELDS + 1; i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "a: b\n");
    h2_headers(s, id, text, false);
}

static void say_interims(struct h2_conn *s, int32_t id)
{
    for (unsigned i = 0; i <= LIMIT_INTERIM_RESPONSES; i++)
        h2_headers(s, id, ":status: 102\n", false);
}

static void say_end_in_interim(struct h2_conn *s, int32_t id)
{
    h2_headers(s, id, ":status: 100\n", true);
}

static void say_reset_first(struct h2_conn *s, int32_t id)
{
    h2_rst(s, id, NGHTTP2_INTERNAL_ERROR);
}

static void say_too_long(struct h2_conn *s, int32_t id)
{
    h2_headers(s, id, OK_HEAD "content-length: 3\n", false);
    h2_data(s, id, "abcd", true);
}

static void say_too_short(struct h2_conn *s, int32_t id)
{
    h2_headers(s, id, OK_HEAD "content-length: 5\n", false);
    h2_data(s, id, "abcd", true);
}

static void say_body_of_204(struct h2_conn *s, int32_t id)
{
    h2_headers(s, id, ":status: 204\n", false);
    h2_data(s, id, "a", true);
}

static void say_reset(struct h2_conn *s, int32_t id)
{
    h2_headers(s, id, OK_HEAD, false);
    h2_data(s, id, "abc", false);
    h2_rst(s, id, NGHTTP2_INTERNAL_ERROR);
}

static void say_open_trailers(struct h2_conn *s, int32_t id)
{
    h2_headers(s, id, OK_HEAD, false);
    h2_headers(s, id, "x-sum: 1\n", false);
}

static void say_pseudo_trailers(struct h2_conn *s, int32_t id)
{
    h2_headers(s, id, OK_HEAD, false);
    h2_headers(s, id, ":status: 200\n", true);
}

static const struct {
    const char *name;
    void (*say)(struct h2_conn *s, int32_t id);
    const char *log, *body;
} lies[] = {
    {"a field of connections", say_bad_head, "failed: head", ""},
    {"no status", say_no_status, "failed: head", ""},
    {"two statuses", say_two_statuses, "failed: head", ""},
    {"status 999", say_status_599, "failed: head", ""},
    {"101", say_101, "failed: head", ""},
    {"upper case", say_upper_case, "failed: head", ""},
    {"a name that is none", say_bad_name, "failed: head", ""},
    {"a control byte", say_bad_value, "failed: head", ""},
    {"transfer-encoding", say_transfer_encoding, "failed: head", ""},
    {"two lengths", say_two_lengths, "failed: head", ""},
    {"too many fields", say_long_field, "failed: head", ""},
    {"too many interim responses", say_interims, NULL, ""},
    {"an interim response that ends", say_end_in_interim, "failed: head", ""},
    {"reset before the head", say_reset_first, NULL, ""},
    {"longer than its length", say_too_long, "head(200) failed: body", ""},
    {"shorter than its length", say_too_short, "head(200) failed: body", "abcd"},
    {"a body of 204", say_body_of_204, "head(204) failed: body", ""},
    {"reset in the body", say_reset, "head(200) failed: body", "abc"},
    {"trailers without end", say_open_trailers, "head(200) failed: body", ""},
    {"pseudo-header field in trailers", say_pseudo_trailers, "head(200) failed: body", ""},
};

/* Each lie ends its request, and nobody else's. */
static void malformed(void)
{
    static struct back_h2_kit k;
    struct call other, c;
    struct h2_conn *s;
    size_t n = 1;

    h2_open(&k);
    h2_call_send(&other, &k, "/other", NULL);
    s = h2_conn(&k, 0);
    h2_headers(s, h2_asked(s, 0)->id, OK_HEAD, false);
    ok(call_is(&other, "head(200)"), "a watch");
    for (size_t i = 0; i < ROWS(lies); i++) {
        h2_call_init(&c, &k, "/x", NULL);
        c.head.method = SLICE_LIT("POST"); /* nobody would try that again */
        c.head.method_id = HTTP_POST;
        call_send(&c);
        lies[i].say(s, h2_asked(s, n++)->id);
        if (lies[i].log != NULL)
            ok(call_is(&c, lies[i].log), "%s", lies[i].name);
        else
            ok(call_over(&c) && (buf_has(&c.log, "failed: head") || buf_has(&c.log, "failed: unanswered")), "%s",
               lies[i].name);
        ok(body_is(&c, lies[i].body), "%s: body", lies[i].name);
        ok(c.failure.request_sent, "%s: was sent", lies[i].name);
        call_free(&c);
    }
    h2_data(s, s->asked[0].id, "on", true);
    ok(call_is(&other, "head(200) end"), "the watch beside them goes on");
    is_u64(k.n_conns, 1, "on the one connection");
    call_free(&other);
    h2_close(&k);
}

/* ---- ends of requests ---- */

static void cancelled(void)
{
    static struct back_h2_kit k;
    static const char *const events[] = {"head", "body"};
    struct h2_conn *s = NULL;
    struct call c;

    h2_open(&k);
    for (size_t i = 0; i < ROWS(events); i++) {
        h2_call_init(&c, &k, "/x", NULL);
        c.cancel_at = events[i];
        call_send(&c);
        s = h2_conn(&k, 0);
        h2_headers(s, h2_asked(s, i)->id, OK_HEAD, false);
        h2_data(s, s->asked[i].id, "abc", i == 1);
        if (i == 0)
            ok(h2_was_reset(s, i) && s->asked[i].code == NGHTTP2_CANCEL, "RST_STREAM CANCEL");
        ok(call_is(&c, "head(200) cancel"), "cancelled in %s", events[i]);
        call_free(&c);
    }
    h2_call_send(&c, &k, "/x", NULL);
    (void)h2_asked(s, 2);
    back_cancel(c.r);
    c.r = NULL;
    ok(h2_was_reset(s, 2), "before the head");
    call_free(&c);
    h2_call_send(&c, &k, "/x", NULL);
    back_cancel(c.r);
    c.r = NULL;
    call_free(&c);
    h2_call_send(&c, &k, "/x", NULL);
    (void)h2_asked(s, s->n_asked);
    ok(stream_is_open(s->s) && k.n_conns == 1, "the connection stays");
    back_cancel(c.r);
    c.r = NULL;
    call_free(&c);
    h2_close(&k);
}

static void head_timeout(void)
{
    static struct back_h2_kit k;
    struct call c;

    h2_open(&k);
    h2_call_init(&c, &k, "/x", NULL);
    c.opts.head_timeout_ms = 50;
    call_send(&c);
    (void)h2_asked(h2_conn(&k, 0), 0);
    ok(call_is(&c, "failed: timeout"), "no head in time");
    ok(h2_was_reset(k.conns[0], 0), "and the stream is reset");
    call_free(&c);
    h2_close(&k);
}

/* ---- GOAWAY, REFUSED_STREAM, lost connections ---- */

static void goaway(void)
{
    static struct back_h2_kit k;
    struct h2_conn *s, *t;
    struct call c[3];

    h2_open(&k);
    for (int i = 0; i < 3; i++) {
        h2_call_init(&c[i], &k, "/x", NULL);
        c[i].head.method = SLICE_LIT("POST"); /* may be sent again only because the server says so */
        c[i].head.method_id = HTTP_POST;
        call_send(&c[i]);
    }
    s = h2_conn(&k, 0);
    for (int i = 0; i < 2; i++)
        h2_headers(s, h2_asked(s, (size_t)i)->id, OK_HEAD, false);
    (void)h2_asked(s, 2);
    h2_goaway(s, s->asked[1].id, NGHTTP2_NO_ERROR);
    t = h2_conn(&k, 1);
    h2_headers(t, h2_asked(t, 0)->id, ":status: 201\n", true);
    ok(call_is(&c[2], "head(201) end"), "what was not processed goes elsewhere");
    is_double(back_kit_metric(&k.k, "mvproxy_back_retries_total", NULL), 1, "counted");
    h2_data(s, s->asked[0].id, "a", true);
    h2_data(s, s->asked[1].id, "b", true);
    ok(call_is(&c[0], "head(200) end") && call_is(&c[1], "head(200) end"), "the others to their end");
    ok(h2_ended(s), "then the connection is closed");
    is_double(back_kit_metric(&k.k, "mvproxy_back_connections_closed_total", "goaway"), 1, "with its reason");
    for (int i = 0; i < 3; i++)
        call_free(&c[i]);
    h2_close(&k);
}

static void refused(void)
{
    static struct back_h2_kit k;
    struct h2_conn *s;
    struct call c;

    h2_open(&k);
    h2_call_init(&c, &k, "/x", NULL);
    c.head.method = SLICE_LIT("POST");
    c.head.method_id = HTTP_POST;
    call_send(&c);
    s = h2_conn(&k, 0);
    h2_rst(s, h2_asked(s, 0)->id, NGHTTP2_REFUSED_STREAM);
    h2_headers(s, h2_asked(s, 1)->id, ":status: 200\n", true);
    ok(call_is(&c, "head(200) end"), "REFUSED_STREAM is sent again");
    call_free(&c);
    h2_close(&k);
}

static void lost(void)
{
    static struct back_h2_kit k;
    struct h2_conn *s;
    struct call waiting, reading, paused, posted;

    h2_open(&k);
    h2_call_send(&reading, &k, "/a", NULL);
    s = h2_conn(&k, 0);
    h2_headers(s, h2_asked(s, 0)->id, OK_HEAD, false);
    h2_call_init(&paused, &k, "/b", NULL);
    paused.pause_at = "head";
    call_send(&paused);
    h2_headers(s, h2_asked(s, 1)->id, OK_HEAD, false);
    h2_data(s, s->asked[1].id, "kept", false);
    ok(call_is(&paused, "head(200)"), "paused");
    h2_call_send(&waiting, &k, "/c", NULL);
    (void)h2_asked(s, 2);
    h2_call_init(&posted, &k, "/d", NULL);
    posted.head.method = SLICE_LIT("POST");
    posted.head.method_id = HTTP_POST;
    call_send(&posted);
    (void)h2_asked(s, 3);
    h2_conn_close(s, STREAM_CLOSE_ABORT);
    ok(call_is(&reading, "head(200) failed: body"), "in the body");
    ok(call_is(&posted, "failed: unanswered"), "unanswered, not to be repeated");
    s = h2_conn(&k, 1);
    h2_headers(s, h2_asked(s, 0)->id, OK_HEAD, true);
    ok(call_is(&waiting, "head(200) end"), "unanswered, repeated on another connection");
    ok(call_is(&paused, "head(200)"), "what is paused stays so");
    back_resume(paused.r);
    ok(call_is(&paused, "head(200) failed: body"), "and fails behind");
    ok(body_is(&paused, "kept"), "what had come");
    is_double(back_kit_metric(&k.k, "mvproxy_back_connections_closed_total", "broken"), 1, "counted");
    call_free(&reading);
    call_free(&waiting);
    call_free(&paused);
    call_free(&posted);
    h2_close(&k);
}

/* A server that is killed: what we write finds nobody, but what it had said before is here, behind a PING as well. */
static void heard_out(void)
{
    static struct back_h2_kit k;
    struct h2_conn *s;
    struct stream *ours;
    struct call c, d;

    h2_open(&k);
    h2_call_send(&c, &k, "/bulk", NULL);
    h2_call_init(&d, &k, "/done", NULL);
    d.head.method = SLICE_LIT("POST");
    d.head.method_id = HTTP_POST;
    call_send(&d);
    s = h2_conn(&k, 0);
    (void)h2_asked(s, 0);
    (void)h2_asked(s, 1);
    h2_frame(s, NGHTTP2_PING, 0, 0, SLICE_LIT("12345678"));
    h2_headers(s, s->asked[0].id, OK_HEAD, false);
    h2_bulk(s, s->asked[0].id, 40000);
    h2_headers(s, s->asked[1].id, ":status: 201\n", true);
    stream_flush(s->s);
    h2_conn_close(s, STREAM_CLOSE_ABORT);
    ours = d.r->call->c->stream;
    if (!stream_write(ours, SLICE_LIT("lost")))
        tap_bail("the connection is known to be broken");
    stream_flush(ours);
    ok(call_is(&d, "head(201) end"), "an answer that had come is told");
    ok(call_over(&c) && buf_len(&c.body) == 40000, "and all of the one that had not ended");
    call_free(&c);
    call_free(&d);
    h2_close(&k);
}

/* A whole answer that waits for its reader survives its connection. */
static void kept_answer(void)
{
    static struct back_h2_kit k;
    struct h2_conn *s;
    struct call c, d;

    h2_open(&k);
    h2_call_init(&c, &k, "/a", NULL);
    c.pause_at = "head";
    call_send(&c);
    s = h2_conn(&k, 0);
    h2_headers(s, h2_asked(s, 0)->id, OK_HEAD, false);
    h2_data(s, s->asked[0].id, "kept", true);
    ok(call_is(&c, "head(200)"), "paused");
    h2_call_init(&d, &k, "/b", NULL);
    d.pause_at = "head";
    call_send(&d);
    h2_headers(s, h2_asked(s, 1)->id, OK_HEAD, false);
    h2_data(s, s->asked[1].id, "gone", true);
    ok(call_is(&d, "head(200)"), "another");
    h2_conn_close(s, STREAM_CLOSE_NOW);
    settle(k.k.loop);
    back_cancel(d.r);
    d.r = NULL;
    back_resume(c.r);
    ok(call_is(&c, "head(200) end") && body_is(&c, "kept"), "delivered when its reader goes on");
    call_free(&c);
    call_free(&d);
    h2_close(&k);
}

/* ---- windows ---- */

static void windows(void)
{
    static struct back_h2_kit k;
    struct h2_conn *s;
    struct call slow, fast;
    uint64_t given = 0;

    h2_open(&k);
    h2_call_init(&slow, &k, "/slow", NULL);
    slow.pause_at = "head";
    call_send(&slow);
    s = h2_conn(&k, 0);
    h2_headers(s, h2_asked(s, 0)->id, OK_HEAD, false);
    ok(call_is(&slow, "head(200)"), "a reader that has paused");
    is_u64((uint64_t)s->asked[0].window, LIMIT_H2_BACK_WINDOW, "the stream's first window");
    h2_bulk(s, s->asked[0].id, LIMIT_H2_BACK_WINDOW);
    s->asked[0].window -= LIMIT_H2_BACK_WINDOW;
    settle(k.k.loop);
    is_u64((uint64_t)s->asked[0].window, 0, "is not opened again for him");
    h2_call_send(&fast, &k, "/fast", NULL);
    h2_headers(s, h2_asked(s, 1)->id, OK_HEAD, false);
    ok(call_is(&fast, "head(200)"), "another");
    clock_fake(clock_us() + 1000000, clock_wall_us()); /* he has not been quick from the beginning */
    while (given < 16 << 20) {                         /* beyond every window there is */
        size_t n = s->asked[1].window > 65536 ? 65536 : (size_t)s->asked[1].window;

        h2_bulk(s, s->asked[1].id, n);
        given += n;
        s->asked[1].window -= (int64_t)n;
        s->window -= (int64_t)n;
        if (!run_until(k.k.loop, buf_len(&fast.body) == given) ||
            !run_until(k.k.loop, s->asked[1].window > 0 && s->window > 0))
            break;
    }
    is_u64(given >= 16 << 20, 1, "the reader beside him gets all he wants");
    ok(s->asked[1].window > LIMIT_H2_BACK_WINDOW, "with a window that has grown");
    ok(s->asked[1].window <= LIMIT_H2_BACK_WINDOW_MAX, "within its limit");
    back_resume(slow.r);
    ok(run_until(k.k.loop, buf_len(&slow.body) == LIMIT_H2_BACK_WINDOW), "the slow one gets what waited");
    ok(run_until(k.k.loop, s->asked[0].window >= LIMIT_H2_BACK_WINDOW / 2), "and his window opens");
    back_pause(fast.r);
    h2_data(s, s->asked[1].id, "", true);
    h2_data(s, s->asked[0].id, "", true);
    ok(call_is(&slow, "head(200) end"), "end");
    back_resume(fast.r);
    ok(call_is(&fast, "head(200) end"), "end");
    call_free(&slow);
    call_free(&fast);
    clock_real();
    h2_close(&k);
}

static void ignored_windows(bool whole)
{
    static struct back_h2_kit k;
    struct h2_conn *s;
    struct call c, other;

    h2_open(&k);
    h2_call_send(&other, &k, "/b", NULL);
    h2_call_init(&c, &k, "/a", NULL);
    c.pause_at = "head";
    call_send(&c);
    s = h2_conn(&k, 0);
    h2_headers(s, h2_asked(s, 0)->id, OK_HEAD, false);
    h2_headers(s, h2_asked(s, 1)->id, OK_HEAD, false);
    ok(call_is(&c, "head(200)"), "paused");
    if (whole) {
        h2_rst(s, s->asked[1].id, NGHTTP2_NO_ERROR);
        h2_frame(s, NGHTTP2_WINDOW_UPDATE, 0, 0, slice_of("\x7f\xff\xff\xff", 4));
    } else {
        h2_bulk(s, s->asked[1].id, LIMIT_H2_BACK_WINDOW + 1);
    }
    ok(run_until(k.k.loop, s->goaways > 0), "GOAWAY");
    is_u64(s->goaway_code, NGHTTP2_FLOW_CONTROL_ERROR, "FLOW_CONTROL_ERROR");
    ok(h2_ended(s), "the connection is closed");
    ok(call_is(&other, "head(200) failed: body"), "its requests end");
    is_double(back_kit_metric(&k.k, "mvproxy_back_connections_closed_total", "flow_control"), 1, "counted");
    if (c.r != NULL)
        back_resume(c.r);
    ok(call_is(&c, "head(200) failed: body"), "all of them");
    call_free(&c);
    call_free(&other);
    h2_close(&k);
}

/* ---- hostile connections ---- */

static void flood_pings(struct h2_conn *s, int32_t id)
{
    (void)id;
    for (unsigned i = 0; i <= LIMIT_H2_CONTROL_FRAMES; i++)
        h2_frame(s, NGHTTP2_PING, 0, 0, SLICE_LIT("12345678"));
}

static void flood_settings(struct h2_conn *s, int32_t id)
{
    (void)id;
    for (unsigned i = 0; i <= LIMIT_H2_CONTROL_FRAMES; i++)
        h2_settings(s, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 100);
}

static void flood_resets(struct h2_conn *s, int32_t id)
{
    for (unsigned i = 0; i <= LIMIT_H2_CONTROL_FRAMES; i++)
        h2_rst(s, id, NGHTTP2_CANCEL);
}

static void flood_empty_data(struct h2_conn *s, int32_t id)
{
    h2_headers(s, id, OK_HEAD, false);
    for (unsigned i = 0; i <= LIMIT_H2_CONTROL_FRAMES; i++)
        h2_data(s, id, "", false);
}

static void flood_continuation(struct h2_conn *s, int32_t id)
{
    h2_frame(s, NGHTTP2_HEADERS, 0, id, SLICE_LIT("\x88"));
    for (unsigned i = 0; i < 1100; i++)
        h2_frame(s, NGHTTP2_CONTINUATION, 0, id, SLICE_NONE);
}

static void push(struct h2_conn *s, int32_t id)
{
    h2_frame(s, NGHTTP2_PUSH_PROMISE, NGHTTP2_FLAG_END_HEADERS, id, SLICE_LIT("\0\0\0\2\x82"));
}

static void oversized(struct h2_conn *s, int32_t id)
{
    static char bytes[16385];

    h2_frame(s, NGHTTP2_DATA, 0, id, slice_of(bytes, sizeof(bytes)));
}

static void bad_hpack(struct h2_conn *s, int32_t id)
{
    h2_frame(s, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, id, SLICE_LIT("\xff\xff\xff\xff\xff\xff"));
}

static void data_on_idle(struct h2_conn *s, int32_t id)
{
    h2_data(s, id + 100, "x", false);
}

static void server_opens(struct h2_conn *s, int32_t id)
{
    (void)id;
    h2_headers(s, 2, OK_HEAD, false);
}

static void bad_settings(struct h2_conn *s, int32_t id)
{
    (void)id;
    h2_settings(s, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0xffffffff);
}

static void http1_answer(struct h2_conn *s, int32_t id)
{
    (void)id;
    if (!stream_write(s->s, SLICE_LIT("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")))
        tap_bail("cannot write");
}

static const struct {
    const char *name;
    void (*say)(struct h2_conn *s, int32_t id);
    const char *reason;
    uint32_t code;
} attacks[] = {
    {"PING flood", flood_pings, "flood", NGHTTP2_ENHANCE_YOUR_CALM},
    {"SETTINGS flood", flood_settings, "flood", 0}, /* the kit's own session stumbles over the acknowledgements */
    {"RST_STREAM flood", flood_resets, "flood", NGHTTP2_ENHANCE_YOUR_CALM},
    {"empty DATA flood", flood_empty_data, "flood", NGHTTP2_ENHANCE_YOUR_CALM},
    {"CONTINUATION flood", flood_continuation, NULL, 0},
    {"PUSH_PROMISE", push, "protocol_error", NGHTTP2_PROTOCOL_ERROR},
    {"frame too large", oversized, "protocol_error", NGHTTP2_FRAME_SIZE_ERROR},
    {"bad header compression", bad_hpack, "protocol_error", NGHTTP2_COMPRESSION_ERROR},
    {"DATA on an idle stream", data_on_idle, "protocol_error", NGHTTP2_PROTOCOL_ERROR},
    {"a stream of the server's", server_opens, "protocol_error", NGHTTP2_PROTOCOL_ERROR},
    {"impossible SETTINGS", bad_settings, "flow_control", NGHTTP2_FLOW_CONTROL_ERROR},
    {"HTTP/1.1", http1_answer, "protocol_error", NGHTTP2_FRAME_SIZE_ERROR},
};

static void hostile(void)
{
    for (size_t i = 0; i < ROWS(attacks); i++) {
        static struct back_h2_kit k;
        struct h2_conn *s;
        struct call c;

        h2_open(&k);
        h2_call_init(&c, &k, "/x", NULL);
        c.head.method = SLICE_LIT("POST");
        c.head.method_id = HTTP_POST;
        call_send(&c);
        s = h2_conn(&k, 0);
        attacks[i].say(s, h2_asked(s, 0)->id);
        ok(h2_ended(s), "%s: the connection ends", attacks[i].name);
        ok(call_over(&c) && buf_has(&c.log, "failed"), "%s: so does its request", attacks[i].name);
        if (attacks[i].reason != NULL)
            is_double(back_kit_metric(&k.k, "mvproxy_back_connections_closed_total", attacks[i].reason), 1,
                      "%s: counted", attacks[i].name);
        if (attacks[i].code != 0)
            is_u64(s->goaway_code, attacks[i].code, "%s: error code", attacks[i].name);
        call_free(&c);
        h2_close(&k);
    }
}

static void dead_server(void)
{
    static struct back_h2_kit k;
    struct origin_opts o = {.ping_after_ms = 30, .ping_timeout_ms = 500};
    struct h2_conn *s;
    struct call c;

    h2_open(&k);
    back_kit_origin(&k.k, &o);
    h2_call_send(&c, &k, "/x", NULL);
    s = h2_conn(&k, 0);
    h2_headers(s, h2_asked(s, 0)->id, OK_HEAD, false);
    ok(run_until(k.k.loop, s->pings >= 3), "a silent server is asked, and answers");
    ok(call_is(&c, "head(200)"), "the watch goes on");
    k.silent = true;
    ok(call_is(&c, "head(200) failed: body"), "one that does not is dead");
    is_double(back_kit_metric(&k.k, "mvproxy_back_connections_closed_total", "ping_timeout"), 1, "counted");
    call_free(&c);
    h2_close(&k);
}

/* Whoever cannot ask whether the server is there says so. */
static void no_memory_to_ask(void)
{
    static struct back_h2_kit k;
    struct origin_opts o = {.ping_after_ms = 30, .ping_timeout_ms = 60000};
    struct h2_conn *s;
    struct call c;

    h2_open(&k);
    back_kit_origin(&k.k, &o);
    h2_call_send(&c, &k, "/x", NULL);
    s = h2_conn(&k, 0);
    h2_headers(s, h2_asked(s, 0)->id, OK_HEAD, false);
    ok(run_until(k.k.loop, s->pings >= 1), "it is asked");
    for (unsigned i = 0; i < 100 && c.r != NULL; i++) {
        mem_fail_nth(1);
        for (unsigned turn = 0; turn < 10; turn++)
            loop_run_once(k.k.loop, 5);
    }
    mem_fail_nth(0);
    ok(call_is(&c, "head(200) failed: body"), "no memory for it ends the connection");
    is_double(back_kit_metric(&k.k, "mvproxy_back_connections_closed_total", "no_memory"), 1, "counted");
    call_free(&c);
    h2_close(&k);
}

int main(void)
{
    well_formed();
    long_head();
    many_fields();
    malformed();
    cancelled();
    head_timeout();
    goaway();
    refused();
    lost();
    heard_out();
    kept_answer();
    windows();
    ignored_windows(false);
    ignored_windows(true);
    hostile();
    dead_server();
    no_memory_to_ask();
    return tap_end();
}
