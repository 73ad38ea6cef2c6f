/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keep-alive race: a server closes an idle connection while a request is on its way there. The kernel's account of
 * what was acknowledged tells a request that nobody can have read from one that somebody may have.
 */
#include <errno.h>
#include <inttypes.h>
#include <sys/socket.h>
#include <unistd.h>

#include "back/origin.h"
#include "base/clock.h"
#include "base/log.h"
#include "net/stream_internal.h"
#include "unit/back/kit.h"

#define OK5 "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"

/* What the server does with an old connection while a request is on its way there. */
enum race {
    CLOSES_BEFORE, /* in order, the request not having come */
    CUTS_BEFORE,   /* with a reset */
    CLOSES_AFTER,  /* in order, having read the request */
    CUTS_AFTER,
};

static const struct {
    const char *name, *method, *body;
    enum race how;
    const char *log;
} rows[] = {
    {"GET, closed before", "GET", NULL, CLOSES_BEFORE, "head(200) end"},
    {"POST, closed before", "POST", NULL, CLOSES_BEFORE, "head(200) end"},
    {"POST with a body, closed before", "POST", "{\"a\":1}", CLOSES_BEFORE, "head(200) end"},
    {"PATCH with a body, closed before", "PATCH", "{\"a\":1}", CLOSES_BEFORE, "head(200) end"},
    {"POST, cut before", "POST", NULL, CUTS_BEFORE, "head(200) end"},
    {"PUT with a body, cut before", "PUT", "{\"a\":1}", CUTS_BEFORE, "head(200) end"},
    {"GET, read and closed", "GET", NULL, CLOSES_AFTER, "head(200) end"},
    {"POST, read and closed", "POST", NULL, CLOSES_AFTER, "failed: unanswered"},
    {"POST with a body, read and closed", "POST", "{\"a\":1}", CLOSES_AFTER, "failed: unanswered"},
    {"DELETE, read and closed", "DELETE", NULL, CLOSES_AFTER, "failed: unanswered"},
    {"GET, read and cut", "GET", NULL, CUTS_AFTER, "head(200) end"},
    {"POST, read and cut", "POST", NULL, CUTS_AFTER, "failed: unanswered"},
};

static void warm_up(struct back_kit *k)
{
    struct call c;

    k->auto_reply = OK5;
    call_start(&c, k, "GET", "/warm");
    ok(call_is(&c, "head(200) end"), "a connection in the pool");
    call_free(&c);
    (void)conn_take(back_kit_conn(k, 0));
}

/* What the owner gives leaves at the end of the turn: until then the connection can end unseen. */
static void send_request(struct call *c, const char *body, bool chunked)
{
    if (body != NULL && chunked)
        c->opts.body = (struct http_body){HTTP_BODY_CHUNKED, 0};
    else if (body != NULL)
        c->opts.body = (struct http_body){HTTP_BODY_LENGTH, strlen(body)};
    call_send(c);
    if (body == NULL)
        return;
    ok(back_write(c->r, slice_str(body)), "the body is taken");
    if (chunked)
        back_finish(c->r, NULL);
}

/* Before the turn is over: the end of a stream may come after it. */
static void reset_now(struct server_conn *c)
{
    struct sockaddr nowhere = {.sa_family = AF_UNSPEC};

    if (connect(c->s->fd, &nowhere, sizeof(nowhere)) != 0)
        tap_bail("a connection cannot be reset");
}

static void race(size_t row, bool tls, bool chunked)
{
    static struct back_kit k;
    struct server_conn *s;
    struct call c;
    bool before = rows[row].how == CLOSES_BEFORE || rows[row].how == CUTS_BEFORE;
    bool cut = rows[row].how == CUTS_BEFORE || rows[row].how == CUTS_AFTER;

    back_kit_open(&k, tls, 0);
    warm_up(&k);
    s = back_kit_conn(&k, 0);
    k.auto_reply = NULL;
    call_init(&c, &k, rows[row].method, "/race");
    send_request(&c, rows[row].body, chunked);
    if (!before && !conn_has(s, rows[row].body == NULL ? "\r\n\r\n" : rows[row].body))
        tap_bail("the request does not come");
    k.auto_reply = OK5;
    if (cut)
        reset_now(s);
    conn_close(s, cut ? STREAM_CLOSE_ABORT : STREAM_CLOSE_NOW);
    ok(call_is(&c, rows[row].log), "%s%s%s", rows[row].name, tls ? ", TLS" : "", chunked ? ", chunked" : "");
    if (buf_has(&c.log, "failed"))
        ok(c.failure.reused && c.failure.request_sent, "it may have been carried out");
    else if (rows[row].body != NULL)
        ok(conn_has(back_kit_conn(&k, 1), rows[row].body), "the body came with it");
    is_u64(k.n_conns, buf_has(&c.log, "failed") ? 1 : 2, "connections");
    is_int(buf_len(&s->got) > 0, !before, "what the first connection saw of it");
    call_free(&c);
    back_kit_close(&k);
}

/* The body waits for the server's 100 when the connection ends: it goes out once at the next one, not twice. */
static void expected(bool chunked)
{
    static struct back_kit k;
    struct server_conn *s;
    struct call c;
    struct slice text;
    const char *first;

    back_kit_open(&k, true, 0);
    warm_up(&k);
    k.auto_reply = NULL;
    call_init(&c, &k, "PUT", "/expected");
    if (!http_head_add_id(&c.head, c.arena, HTTP_EXPECT, SLICE_LIT("100-continue")))
        tap_bail("no memory");
    c.opts.expect_continue = true;
    c.opts.body = (struct http_body){chunked ? HTTP_BODY_CHUNKED : HTTP_BODY_LENGTH, chunked ? 0 : 4};
    call_send(&c);
    ok(back_write(c.r, SLICE_LIT("once")), "the body is taken");
    conn_close(back_kit_conn(&k, 0), STREAM_CLOSE_NOW);
    s = back_kit_conn(&k, 1);
    ok(conn_has(s, "\r\n\r\n"), "the head comes again");
    if (chunked) { /* else all of it is there, and nothing has to be waited for */
        ok(!buf_has(&s->got, "once"), "not the body yet");
        conn_say(s, "HTTP/1.1 100 Continue\r\n\r\n");
    }
    ok(conn_has(s, "once"), "it comes");
    settle(k.loop);
    text = buf_slice(&s->got);
    first = memmem(text.p, text.n, "once", 4);
    ok(first != NULL && memmem(first + 4, (size_t)(text.p + text.n - first) - 4, "once", 4) == NULL, "%s: once",
       chunked ? "chunked" : "length");
    if (chunked)
        back_finish(c.r, NULL);
    conn_say(s, OK5);
    ok(call_is(&c, chunked ? "interim(100) head(200) end" : "head(200) end"), "answered");
    call_free(&c);
    back_kit_close(&k);
}

/* A body of which no copy is kept: the owner must know that it cannot be sent again, but that it was not read. */
static void long_body(void)
{
    static struct back_kit k;
    static char body[LIMIT_REPLAY_BYTES + 1];
    struct call c;

    memset(body, 'b', sizeof(body));
    back_kit_open(&k, false, 0);
    warm_up(&k);
    k.auto_reply = NULL;
    call_init(&c, &k, "POST", "/long");
    c.opts.body = (struct http_body){HTTP_BODY_LENGTH, sizeof(body)};
    call_send(&c);
    ok(back_write(c.r, slice_of(body, sizeof(body))), "a long body is taken");
    conn_close(back_kit_conn(&k, 0), STREAM_CLOSE_NOW);
    ok(call_is(&c, "failed: unanswered"), "and not sent again");
    ok(c.failure.body_sent && !c.failure.request_sent, "though nobody can have read it");
    call_free(&c);
    back_kit_close(&k);
}

/* The rest of a body that was half given when the connection went. */
static void half_given(void)
{
    static struct back_kit k;
    struct call c;

    back_kit_open(&k, false, 0);
    warm_up(&k);
    call_init(&c, &k, "POST", "/half");
    c.opts.body = (struct http_body){HTTP_BODY_LENGTH, 10};
    call_send(&c);
    ok(back_write(c.r, SLICE_LIT("01234")), "half of the body");
    conn_close(back_kit_conn(&k, 0), STREAM_CLOSE_NOW);
    k.auto_reply = NULL;
    ok(conn_has(back_kit_conn(&k, 1), "01234"), "goes out again");
    ok(back_write(c.r, SLICE_LIT("56789")), "the other half");
    ok(conn_has(back_kit_conn(&k, 1), "0123456789"), "follows it");
    conn_say(back_kit_conn(&k, 1), OK5);
    ok(call_is(&c, "head(200) end"), "answered");
    call_free(&c);
    back_kit_close(&k);
}

/* A reset acknowledges nothing, yet the head was read: neither may be taken for a request that came too late. */
static void cut_in_the_middle(bool tls, enum stream_close_how how)
{
    static struct back_kit k;
    struct call c;

    back_kit_open(&k, tls, 0);
    warm_up(&k);
    k.auto_reply = NULL;
    call_init(&c, &k, "POST", "/middle");
    c.opts.body = (struct http_body){HTTP_BODY_LENGTH, 10};
    call_send(&c);
    ok(conn_has(back_kit_conn(&k, 0), "/middle"), "the head is read");
    conn_close(back_kit_conn(&k, 0), how);
    for (unsigned i = 0; i < 2 && c.r != NULL && back_write(c.r, SLICE_LIT("01234")); i++)
        loop_run_once(k.loop, 0);
    if (c.r != NULL)
        back_finish(c.r, NULL);
    ok(call_is(&c, "failed: unanswered"), "%s in the middle%s", how == STREAM_CLOSE_ABORT ? "cut" : "closed",
       tls ? ", TLS" : "");
    ok(c.failure.request_sent, "it may have been carried out");
    is_u64(k.n_conns, 1, "and is not sent again");
    call_free(&c);
    back_kit_close(&k);
}

/*
 * A server that answers early and goes at once: the rest of the body finds nobody, but the answer is here, and is what
 * the owner is to hear of.
 */
static int early_fd = -1;

static void take_raw(struct back_kit *k, int fd)
{
    (void)k;
    early_fd = fd;
}

static void early_answer(void)
{
    static const char answer[] = "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno";
    static const struct linger at_once = {.l_onoff = 1};
    static struct back_kit k;
    static char body[200 << 10];
    struct call c;

    memset(body, 'b', sizeof(body));
    back_kit_open(&k, false, 0);
    k.on_accept = take_raw;
    early_fd = -1;
    call_init(&c, &k, "POST", "/early");
    c.opts.body = (struct http_body){HTTP_BODY_LENGTH, 2 * sizeof(body)};
    call_send(&c);
    ok(run_until(k.loop, early_fd >= 0 && c.writable > 0), "a body is wanted");
    if (send(early_fd, answer, sizeof(answer) - 1, 0) != sizeof(answer) - 1)
        tap_bail("send: %s", strerror(errno));
    (void)setsockopt(early_fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    close(early_fd);
    for (unsigned i = 0; i < 2; i++)
        ok(back_write(c.r, slice_of(body, sizeof(body))), "half %u of the body comes too late", i);
    ok(call_is(&c, "head(413) end"), "the answer is told");
    is_slice(buf_slice(&c.body), "no", "all of it");
    call_free(&c);
    back_kit_close(&k);
}

static size_t count(const struct buf *b, char wanted)
{
    size_t n = 0;

    for (size_t i = 0; i < buf_len(b); i++)
        n += buf_slice(b).p[i] == wanted;
    return n;
}

enum { ONCE_BYTES = 20 << 10 };

/* Two connections in the pool; the second is the one that is taken first. */
static void warm_up_two(struct back_kit *k)
{
    struct call c[2];

    for (size_t i = 0; i < ROWS(c); i++)
        call_start(&c[i], k, "GET", "/warm");
    for (size_t i = 0; i < ROWS(c); i++)
        if (!conn_has(back_kit_conn(k, i), "/warm"))
            tap_bail("no connection");
    conn_say(&k->conns[0], OK5);
    if (!run_until(k->loop, c[0].r == NULL || c[1].r == NULL))
        tap_bail("no answer");
    conn_say(&k->conns[1], OK5);
    for (size_t i = 0; i < ROWS(c); i++) {
        if (!call_over(&c[i]))
            tap_bail("no answer");
        call_free(&c[i]);
    }
}

/* A body that goes out again, while the nth allocation from then on fails. The most of it that one connection saw. */
static size_t most_of_body(uint64_t nth, uint64_t *calls)
{
    static struct back_kit k;
    static char body[ONCE_BYTES];
    struct call c;
    size_t most = 0;

    memset(body, '~', sizeof(body));
    back_kit_open(&k, false, 0);
    warm_up_two(&k);
    k.short_of_memory = nth > 0;
    call_init(&c, &k, "PUT", "/once");
    c.opts.body = (struct http_body){HTTP_BODY_LENGTH, sizeof(body)};
    call_send(&c);
    if (!back_write(c.r, slice_of(body, sizeof(body))))
        tap_bail("the body is not taken");
    conn_close(&k.conns[1], STREAM_CLOSE_NOW);
    *calls = mem_calls();
    mem_fail_nth(nth);
    /* Where nothing fails the whole body must come; else that nothing more comes is looked for a while. */
    for (size_t turn = 0, whole = 0; turn < (nth == 0 ? 3000U : 50U) && c.r != NULL && whole < 3; turn++) {
        loop_run_once(k.loop, 20);
        for (size_t i = 0; i < k.n_conns; i++) {
            size_t n = count(&k.conns[i].got, '~');

            most = n > most ? n : most;
        }
        whole += most >= sizeof(body); /* a few turns more: nothing may follow */
    }
    *calls = mem_calls() - *calls;
    mem_fail_nth(0);
    call_free(&c);
    back_kit_close(&k);
    return most;
}

/* Bytes beyond its length would be read as the next request on the connection: as anybody whom they name. */
static void body_comes_once(void)
{
    uint64_t calls, unused;

    is_u64(most_of_body(0, &calls), ONCE_BYTES, "a body goes out again");
    for (uint64_t nth = 1; nth <= calls + 5; nth++) {
        size_t most = most_of_body(nth, &unused);

        ok(most <= ONCE_BYTES, "allocation %" PRIu64 " of %" PRIu64 " fails: %zu bytes of it", nth, calls, most);
    }
}

/* An outage does not multiply: beyond the budget the first failure is the last. */
static void budget(void)
{
    enum { REQUESTS = 300 };
    static struct back_kit k;
    struct call c;
    double repeated, refused;

    back_kit_open(&k, false, 0);
    k.close_at_once = true;
    for (unsigned i = 0; i < REQUESTS; i++) {
        call_start(&c, &k, "GET", "/");
        if (!call_over(&c))
            tap_bail("a request without end");
        call_free(&c);
        k.n_conns = 0; /* they are gone */
    }
    repeated = back_kit_metric(&k, "mvproxy_back_retries_total", NULL);
    ok(repeated >= 100 && repeated <= 200, "%.0f of %d requests were sent again", repeated, REQUESTS);
    ok(back_kit_metric(&k, "mvproxy_back_retries_refused_total", NULL) > 0, "others were not, and are counted");
    ok(!origin_may_repeat(k.origin, true), "the owner is told");
    ok(origin_may_repeat(k.origin, false), "but of those who are known none is held back by strangers");
    refused = back_kit_metric(&k, "mvproxy_back_retries_refused_total", NULL);
    settle(k.loop);
    k.close_at_once = false;
    k.n_conns = 0;
    call_start(&c, &k, "POST", "/in-doubt");
    ok(conn_has(back_kit_conn(&k, 0), "/in-doubt"), "one that would not be sent again in any case");
    conn_close(back_kit_conn(&k, 0), STREAM_CLOSE_NOW);
    ok(call_is(&c, "failed: unanswered"), "fails");
    is_double(back_kit_metric(&k, "mvproxy_back_retries_refused_total", NULL), refused, "and is not counted");
    call_free(&c);
    back_kit_close(&k);
}

static char *logged;
static size_t logged_bytes;

static unsigned lines_with(const char *text)
{
    unsigned n = 0;

    log_flush();
    for (const char *at = logged; at != NULL && (at = strstr(at, text)) != NULL; at++)
        n++;
    return n;
}

/* Of a server that stays away the log has one line, and one every ten minutes: with how often, and since when. */
static void ejected_for_long(void)
{
    static struct back_kit k;
    FILE *f = open_memstream(&logged, &logged_bytes);

    if (f == NULL)
        tap_bail("memory");
    back_kit_open(&k, false, 0);
    log_set_stream(f);
    clock_fake(1000000, 1764000000000000);
    loop_run_once(k.loop, 0);
    for (unsigned i = 0; i < 130; i++) {
        clock_fake(1000000 + (uint64_t)i * 5000000, 1764000000000000);
        loop_run_once(k.loop, 0);
        origin_connect_failed(k.origin, "connection refused");
    }
    is_u64(lines_with("\"Outlier ejected\""), 1, "said once");
    is_u64(lines_with("\"Outlier still ejected\""), 1, "and once more after ten minutes");
    is_u64(lines_with("times=120 sinceSeconds=600"), 1, "how often, and for how long: %s", logged);
    is_double(back_kit_metric(&k, "mvproxy_back_ejections_total", NULL), 130, "each is counted");
    origin_connected(k.origin);
    is_u64(lines_with("\"Outlier ejection ended\""), 1, "its end is said");
    origin_connect_failed(k.origin, "connection refused");
    is_u64(lines_with("\"Outlier ejected\""), 2, "the next one is another");
    log_set_stream(stderr);
    fclose(f);
    free(logged);
    clock_real();
    back_kit_close(&k);
}

static void ejection(void)
{
    static struct back_kit k;
    struct origin *held;
    struct call c;

    back_kit_open(&k, false, 0);
    k.auto_reply = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";
    for (unsigned i = 0; i < 5; i++) {
        ok(origin_ejection(k.origin, NULL) == NULL, "%u answers of a server that is not up", i);
        call_start(&c, &k, "GET", "/");
        ok(call_is(&c, "head(503) end"), "its answer is passed on");
        call_free(&c);
    }
    ok(origin_ejection(k.origin, NULL) != NULL && !origin_healthy(k.origin), "after five it is out");
    is_double(back_kit_metric(&k, "mvproxy_back_ejections_total", NULL), 1, "counted");
    is_double(back_kit_metric(&k, "mvproxy_back_ejected", NULL), 1, "and shown");
    k.auto_reply = OK5;
    call_start(&c, &k, "GET", "/");
    ok(call_is(&c, "head(200) end"), "it is still used if nobody else is there");
    call_free(&c);
    ok(origin_ejection(k.origin, NULL) == NULL && origin_healthy(k.origin), "and an answer brings it back");
    is_double(back_kit_metric(&k, "mvproxy_back_ejected", NULL), 0, "which is shown");
    k.auto_reply = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";
    for (unsigned i = 0; i < 5; i++) {
        call_start(&c, &k, "GET", "/");
        ok(call_over(&c), "it fails again");
        call_free(&c);
    }
    is_double(back_kit_metric(&k, "mvproxy_back_ejected", NULL), 1, "out, as is shown");
    held = origin_ref(k.origin); /* as a snapshot that is kept does, and a request that runs long */
    origin_retire(origin_ref(held));
    is_double(back_kit_metric(&k, "mvproxy_back_ejected", NULL), 0,
              "whose owner has another is not told of, whoever holds it");
    origin_answered(held, 200);
    for (unsigned i = 0; i < 5; i++)
        origin_answered(held, 503);
    ok(origin_ejection(held, NULL) != NULL, "it comes back, and is out again");
    is_double(back_kit_metric(&k, "mvproxy_back_ejected", NULL), 0, "none of which is told");
    back_kit_origin(&k, &(struct origin_opts){.sole = true});
    origin_unref(held);
    is_double(back_kit_metric(&k, "mvproxy_back_ejected", NULL), 0, "another in its place is not");
    listener_close(k.listener);
    k.listener = NULL;
    conn_close(back_kit_conn(&k, 0), STREAM_CLOSE_ABORT);
    for (unsigned i = 0; i < 5; i++) {
        call_start(&c, &k, "GET", "/");
        ok(call_over(&c), "nobody there");
        call_free(&c);
    }
    ok(origin_healthy(k.origin), "one that nobody can stand in for is never out");
    back_kit_close(&k);
}

int main(void)
{
    for (size_t i = 0; i < ROWS(rows); i++) {
        race(i, false, false);
        race(i, true, false);
        if (rows[i].body != NULL)
            race(i, true, true);
    }
    expected(false);
    expected(true);
    long_body();
    half_given();
    for (unsigned i = 0; i < 4; i++)
        cut_in_the_middle(i % 2 != 0, i < 2 ? STREAM_CLOSE_ABORT : STREAM_CLOSE_NOW);
    early_answer();
    body_comes_once();
    budget();
    ejection();
    ejected_for_long();
    return tap_end();
}
