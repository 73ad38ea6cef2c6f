/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heads to bytes: what comes out must be exactly this, and what could split a message must not come out.
 */
#include "http/h1_write.h"
#include "lib/tap.h"

#define MAX_FIELDS 4

struct row {
    const char *name;
    unsigned status; /* 0: request */
    const char *method, *target;
    struct slice fields[MAX_FIELDS][2];
    struct http_body body;
    unsigned flags;
    const char *want; /* NULL: must be refused */
};

#define F(n, v)                                                                                                        \
    {                                                                                                                  \
        SLICE_LIT(n), SLICE_LIT(v)                                                                                     \
    }
#define NONE                                                                                                           \
    {                                                                                                                  \
        HTTP_BODY_NONE, 0                                                                                              \
    }
#define LEN(n)                                                                                                         \
    {                                                                                                                  \
        HTTP_BODY_LENGTH, n                                                                                            \
    }
#define CHUNKED                                                                                                        \
    {                                                                                                                  \
        HTTP_BODY_CHUNKED, 0                                                                                           \
    }
#define CLOSE                                                                                                          \
    {                                                                                                                  \
        HTTP_BODY_CLOSE, 0                                                                                             \
    }
#define HOST F("Host", "h")

static const struct row rows[] = {
    {"get", 0, "GET", "/a?b", {HOST, F("A", "b")}, NONE, 0, "GET /a?b HTTP/1.1\r\nHost: h\r\nA: b\r\n\r\n"},
    {"post without body", 0, "POST", "/", {HOST}, NONE, 0, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"},
    {"delete without body", 0, "DELETE", "/", {HOST}, NONE, 0, "DELETE / HTTP/1.1\r\nHost: h\r\n\r\n"},
    {"length",
     0,
     "PUT",
     "/",
     {HOST},
     LEN(18446744073709551615u),
     0,
     "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 18446744073709551615\r\n\r\n"},
    {"length 0", 0, "GET", "/", {HOST}, LEN(0), 0, "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"},
    {"chunked", 0, "PUT", "/", {HOST}, CHUNKED, 0, "PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"},
    {"close", 0, "GET", "/", {HOST}, NONE, H1_WRITE_CLOSE, "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"},
    {"upgrade",
     0,
     "POST",
     "/",
     {HOST, F("Upgrade", "SPDY/3.1")},
     LEN(0),
     H1_WRITE_UPGRADE,
     "POST / HTTP/1.1\r\nHost: h\r\nUpgrade: SPDY/3.1\r\nContent-Length: 0\r\nConnection: Upgrade\r\n\r\n"},
    {"no upgrade", 0, "GET", "/", {HOST, F("Upgrade", "x")}, NONE, 0, "GET / HTTP/1.1\r\nHost: h\r\n\r\n"},
    {"framing in the head is left out",
     0,
     "GET",
     "/",
     {HOST, F("Content-Length", "7"), F("transfer-encoding", "chunked"), F("Connection", "x")},
     NONE,
     0,
     "GET / HTTP/1.1\r\nHost: h\r\n\r\n"},
    {"empty value", 0, "GET", "/", {HOST, F("A", "")}, NONE, 0, "GET / HTTP/1.1\r\nHost: h\r\nA: \r\n\r\n"},
    {"CRLF in value", 0, "GET", "/", {HOST, F("A", "b\r\nX-Remote-User: root")}, NONE, 0, NULL},
    {"LF in value", 0, "GET", "/", {HOST, F("A", "b\nc")}, NONE, 0, NULL},
    {"CR in value", 0, "GET", "/", {HOST, F("A", "b\rc")}, NONE, 0, NULL},
    {"NUL in value", 0, "GET", "/", {HOST, F("A", "b\0c")}, NONE, 0, NULL},
    {"DEL in value", 0, "GET", "/", {HOST, F("A", "\x7f")}, NONE, 0, NULL},
    {"CRLF in name", 0, "GET", "/", {HOST, F("A\r\nB", "c")}, NONE, 0, NULL},
    {"colon in name", 0, "GET", "/", {HOST, F("A:", "c")}, NONE, 0, NULL},
    {"space in name", 0, "GET", "/", {HOST, F("A ", "c")}, NONE, 0, NULL},
    {"empty name", 0, "GET", "/", {HOST, F("", "c")}, NONE, 0, NULL},
    {"space in target", 0, "GET", "/ HTTP/1.1", {HOST}, NONE, 0, NULL},
    {"LF in target", 0, "GET", "/\n", {HOST}, NONE, 0, NULL},
    {"empty target", 0, "GET", "", {HOST}, NONE, 0, NULL},
    {"space in method", 0, "GET /", "/", {HOST}, NONE, 0, NULL},
    {"empty method", 0, "", "/", {HOST}, NONE, 0, NULL},
    {"a request until the end", 0, "GET", "/", {HOST}, CLOSE, 0, NULL},

    {"200",
     200,
     NULL,
     NULL,
     {F("A", "b")},
     LEN(2),
     0,
     "HTTP/1.1 200 OK\r\nA: b\r\nDate: D\r\nContent-Length: 2\r\n\r\n"},
    {"200 without body", 200, NULL, NULL, {{{0}}}, NONE, 0, "HTTP/1.1 200 OK\r\nDate: D\r\nContent-Length: 0\r\n\r\n"},
    {"200 chunked",
     200,
     NULL,
     NULL,
     {{{0}}},
     CHUNKED,
     0,
     "HTTP/1.1 200 OK\r\nDate: D\r\nTransfer-Encoding: chunked\r\n\r\n"},
    {"200 until the end",
     200,
     NULL,
     NULL,
     {{{0}}},
     CLOSE,
     H1_WRITE_CLOSE,
     "HTTP/1.1 200 OK\r\nDate: D\r\nConnection: close\r\n\r\n"},
    {"204", 204, NULL, NULL, {{{0}}}, NONE, 0, "HTTP/1.1 204 No Content\r\nDate: D\r\n\r\n"},
    {"204 never has framing", 204, NULL, NULL, {{{0}}}, CHUNKED, 0, "HTTP/1.1 204 No Content\r\nDate: D\r\n\r\n"},
    {"304", 304, NULL, NULL, {{{0}}}, NONE, 0, "HTTP/1.1 304 Not Modified\r\nDate: D\r\n\r\n"},
    {"304 with length",
     304,
     NULL,
     NULL,
     {{{0}}},
     LEN(9),
     0,
     "HTTP/1.1 304 Not Modified\r\nDate: D\r\nContent-Length: 9\r\n\r\n"},
    {"100", 100, NULL, NULL, {{{0}}}, NONE, 0, "HTTP/1.1 100 Continue\r\nDate: D\r\n\r\n"},
    {"101",
     101,
     NULL,
     NULL,
     {F("Upgrade", "x")},
     NONE,
     H1_WRITE_UPGRADE,
     "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nDate: D\r\nConnection: Upgrade\r\n\r\n"},
    {"HEAD of unknown length",
     200,
     NULL,
     NULL,
     {{{0}}},
     CHUNKED,
     H1_WRITE_NO_LENGTH,
     "HTTP/1.1 200 OK\r\nDate: D\r\n\r\n"},
    {"Date is kept",
     200,
     NULL,
     NULL,
     {F("date", "Z")},
     LEN(0),
     0,
     "HTTP/1.1 200 OK\r\ndate: Z\r\nContent-Length: 0\r\n\r\n"},
    {"unknown status",
     299,
     NULL,
     NULL,
     {{{0}}},
     LEN(0),
     0,
     "HTTP/1.1 299 Unknown\r\nDate: D\r\nContent-Length: 0\r\n\r\n"},
    {"splitting", 200, NULL, NULL, {F("A", "b\r\n\r\n<html>")}, LEN(0), 0, NULL},
    {"status 99", 99, NULL, NULL, {{{0}}}, LEN(0), 0, NULL},
    {"status 1000", 1000, NULL, NULL, {{{0}}}, LEN(0), 0, NULL},
};

static bool write_row(const struct row *r, struct arena *a, struct buf *out)
{
    struct http_head h;
    size_t n = 0;

    if (!http_head_init(&h, a, MAX_FIELDS))
        tap_bail("no memory");
    while (n < MAX_FIELDS && r->fields[n][0].p != NULL) {
        if (!http_head_add(&h, a, r->fields[n][0], r->fields[n][1]))
            tap_bail("no memory");
        n++;
    }
    h.status = r->status;
    if (r->status != 0)
        return h1_write_response(out, &h, r->body, r->flags, SLICE_LIT("D"));
    h.method = slice_str(r->method);
    h.method_id = http_method_of(h.method);
    h.target = slice_str(r->target);
    return h1_write_request(out, &h, r->body, r->flags);
}

static void table(void)
{
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct arena *a = arena_new(1 << 16);
        struct buf out;

        if (a == NULL)
            tap_bail("no memory");
        buf_init(&out, 4096);
        ok(write_row(&rows[i], a, &out) == (rows[i].want != NULL), "%s: result", rows[i].name);
        is_slice(buf_len(&out) == 0 ? SLICE_LIT("") : buf_slice(&out), rows[i].want == NULL ? "" : rows[i].want,
                 "%s: text", rows[i].name);
        buf_free(&out);
        if (rows[i].want != NULL) {
            buf_init(&out, strlen(rows[i].want) - 1);
            ok(!write_row(&rows[i], a, &out) && buf_len(&out) == 0, "%s: all or nothing", rows[i].name);
            buf_free(&out);
        }
        arena_free(a);
    }
}

static void chunks(void)
{
    char text[H1_CHUNK_HEAD_BYTES];
    struct arena *a = arena_new(1 << 16);
    struct http_head t;
    struct buf out;

    is_slice(h1_chunk_head(1, text), "1\r\n", "chunk of 1");
    is_slice(h1_chunk_head(255, text), "ff\r\n", "chunk of 255");
    is_slice(h1_chunk_head(UINT64_MAX, text), "ffffffffffffffff\r\n", "the largest");
    buf_init(&out, 1000);
    if (a == NULL || !http_head_init(&t, a, 4) || !http_head_add(&t, a, SLICE_LIT("A"), SLICE_LIT("b")) ||
        !http_head_add(&t, a, SLICE_LIT("Content-Length"), SLICE_LIT("5")))
        tap_bail("no memory");
    ok(h1_write_last_chunk(&out, NULL), "no trailers");
    is_slice(buf_slice(&out), "0\r\n\r\n", "text");
    buf_reset(&out);
    ok(h1_write_last_chunk(&out, &t), "trailers");
    is_slice(buf_slice(&out), "0\r\nA: b\r\n\r\n", "forbidden ones are left out");
    buf_reset(&out);
    t.fields[0].value = SLICE_LIT("b\r\nC: d");
    ok(!h1_write_last_chunk(&out, &t), "splitting trailers are refused");
    buf_free(&out);
    arena_free(a);
}

static void dates(void)
{
    struct h1_date d = {0};

    is_slice(h1_date_text(&d, 784111777000000), "Sun, 06 Nov 1994 08:49:37 GMT", "RFC 9110's example");
    is_slice(h1_date_text(&d, 784111777999999), "Sun, 06 Nov 1994 08:49:37 GMT", "same second");
    is_slice(h1_date_text(&d, 784111778000000), "Sun, 06 Nov 1994 08:49:38 GMT", "next second");
    is_slice(h1_date_text(&d, 951782400000000), "Tue, 29 Feb 2000 00:00:00 GMT", "leap day");
    is_slice(h1_date_text(&d, 0), "Thu, 01 Jan 1970 00:00:00 GMT", "the start");
}

int main(void)
{
    table();
    chunks();
    dates();
    return tap_end();
}
