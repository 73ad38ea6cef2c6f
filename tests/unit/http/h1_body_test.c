/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bodies: every vector whole, byte by byte and in random pieces.
 */
#include "base/limits.h"
#include "http/h1_body.h"
#include "unit/http/feed.h"

struct got {
    enum h1_body_event last;
    size_t consumed;
    char text[512];
    char trailers[512];
    bool complete_at_eof;
};

static void read_body(struct http_body how, struct slice in, size_t piece, struct got *g)
{
    struct arena *a = arena_new(1 << 20);
    struct h1_body b = {0};
    size_t at = 0, n = 0;

    if (a == NULL)
        tap_bail("no memory");
    *g = (struct got){.last = H1_BODY_MORE};
    h1_body_begin(&b, how, a);
    do {
        size_t step = piece == 0 ? (size_t)rand() % 5 + 1 : piece, used = 0;
        char *copy;

        step = step > in.n - at ? in.n - at : step;
        copy = malloc(step + 1);
        if (copy == NULL)
            tap_bail("no memory");
        memcpy(copy, in.p + at, step);
        do {
            struct slice data;
            size_t took;

            g->last = h1_body_feed(&b, slice_of(copy + used, step - used), &took, &data);
            used += took;
            if (g->last == H1_BODY_DATA && n + data.n < sizeof(g->text)) {
                memcpy(g->text + n, data.p, data.n);
                n += data.n;
            }
        } while (g->last == H1_BODY_DATA);
        at += used;
        if (g->last == H1_BODY_MORE && used != step)
            tap_bail("MORE without having taken everything");
        free(copy);
    } while (g->last == H1_BODY_MORE && at < in.n);
    g->consumed = at;
    if (g->last == H1_BODY_END)
        feed_render(h1_body_trailers(&b), H1_TRAILERS, g->trailers, sizeof(g->trailers));
    if (g->last == H1_BODY_ERROR && h1_body_error(&b)[0] == '\0')
        tap_bail("an error without a reason");
    g->complete_at_eof = h1_body_eof(&b);
    h1_body_reset(&b);
    arena_free(a);
}

#define N                                                                                                              \
    {                                                                                                                  \
        HTTP_BODY_NONE, 0                                                                                              \
    }
#define C                                                                                                              \
    {                                                                                                                  \
        HTTP_BODY_CHUNKED, 0                                                                                           \
    }
#define L(n)                                                                                                           \
    {                                                                                                                  \
        HTTP_BODY_LENGTH, n                                                                                            \
    }
#define E                                                                                                              \
    {                                                                                                                  \
        HTTP_BODY_CLOSE, 0                                                                                             \
    }

static const struct {
    const char *name;
    struct http_body how;
    struct slice in;
    enum h1_body_event last;
    size_t rest; /* at END */
    const char *text, *trailers;
    bool complete_at_eof;
} rows[] = {
    {"none", N, V("next"), H1_BODY_END, 4, "", "", true},
    {"length 0", L(0), V("next"), H1_BODY_END, 4, "", "", true},
    {"length", L(5), V("hello"), H1_BODY_END, 0, "hello", "", true},
    {"length and more", L(5), V("helloGET"), H1_BODY_END, 3, "hello", "", true},
    {"length, short", L(6), V("hello"), H1_BODY_MORE, 0, "hello", "", false},
    {"until the end", E, V("hello"), H1_BODY_MORE, 0, "hello", "", true},
    {"until the end, empty", E, V(""), H1_BODY_MORE, 0, "", "", true},
    {"chunked, empty", C, V("0\r\n\r\n"), H1_BODY_END, 0, "", "", true},
    {"one chunk", C, V("5\r\nhello\r\n0\r\n\r\nnext"), H1_BODY_END, 4, "hello", "", true},
    {"two chunks", C, V("3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"), H1_BODY_END, 0, "hello", "", true},
    {"hex both cases", C, V("a\r\n0123456789\r\nA\r\n0123456789\r\n0\r\n\r\n"), H1_BODY_END, 0, "01234567890123456789",
     "", true},
    {"leading zeros", C, V("0005\r\nhello\r\n000\r\n\r\n"), H1_BODY_END, 0, "hello", "", true},
    {"sixteen digits", C, V("0000000000000005\r\nhello\r\n0\r\n\r\n"), H1_BODY_END, 0, "hello", "", true},
    {"CRLF in payload", C, V("4\r\n\r\n0\r\r\n0\r\n\r\n"), H1_BODY_END, 0, "\r\n0\r", "", true},
    {"trailer", C, V("0\r\nA: b\r\n\r\nx"), H1_BODY_END, 1, "", "|A=b", true},
    {"forbidden trailers are dropped", C,
     V("0\r\nContent-Length: 5\r\nA: b\r\nAuthorization: x\r\nX-Remote-User: root\r\nHost: x\r\nAudit-Id: y\r\n\r\n"),
     H1_BODY_END, 0, "", "|A=b|Audit-Id=y", true},
    {"cut in size", C, V("5"), H1_BODY_MORE, 0, "", "", false},
    {"cut in size line", C, V("5\r"), H1_BODY_MORE, 0, "", "", false},
    {"cut in payload", C, V("5\r\nhel"), H1_BODY_MORE, 0, "hel", "", false},
    {"cut after payload", C, V("5\r\nhello"), H1_BODY_MORE, 0, "hello", "", false},
    {"cut before last chunk", C, V("5\r\nhello\r\n"), H1_BODY_MORE, 0, "hello", "", false},
    {"cut after last chunk", C, V("0\r\n"), H1_BODY_MORE, 0, "", "", false},
    {"cut in the last line end", C, V("0\r\n\r"), H1_BODY_MORE, 0, "", "", false},
    {"cut in trailers", C, V("0\r\nA: b\r\n"), H1_BODY_MORE, 0, "", "", false},
    {"no size", C, V("\r\n"), H1_BODY_ERROR, 0, "", "", false},
    {"0x3", C, V("0x3\r\nabc\r\n0\r\n\r\n"), H1_BODY_ERROR, 0, "", "", false},
    {"+3", C, V("+3\r\nabc\r\n0\r\n\r\n"), H1_BODY_ERROR, 0, "", "", false},
    {"-1", C, V("-1\r\n"), H1_BODY_ERROR, 0, "", "", false},
    {"space before size", C, V(" 3\r\nabc\r\n0\r\n\r\n"), H1_BODY_ERROR, 0, "", "", false},
    {"space after size", C, V("3 \r\nabc\r\n0\r\n\r\n"), H1_BODY_ERROR, 0, "", "", false},
    {"tab after size", C, V("3\t\r\nabc\r\n0\r\n\r\n"), H1_BODY_ERROR, 0, "", "", false},
    {"letters", C, V("g\r\n"), H1_BODY_ERROR, 0, "", "", false},
    {"at sign", C, V("@\r\n"), H1_BODY_ERROR, 0, "", "", false},
    {"underscore", C, V("1_0\r\n"), H1_BODY_ERROR, 0, "", "", false},
    {"NUL", C, V("3\0\r\nabc"), H1_BODY_ERROR, 0, "", "", false},
    {"seventeen digits", C, V("00000000000000005\r\nhello\r\n"), H1_BODY_ERROR, 0, "", "", false},
    {"too large", C, V("ffffffffffffffff\r\n"), H1_BODY_ERROR, 0, "", "", false},
    {"just too large", C, V("8000000000000000\r\n"), H1_BODY_ERROR, 0, "", "", false},
    {"wraps", C, V("10000000000000005\r\nhello"), H1_BODY_ERROR, 0, "", "", false},
    {"extension", C, V("5;a=b\r\nhello\r\n0\r\n\r\n"), H1_BODY_ERROR, 0, "", "", false},
    {"extension with LF", C, V("5;\nhello\r\n0\r\n\r\n"), H1_BODY_ERROR, 0, "", "", false},
    {"extension on the last chunk", C, V("0;a\r\n\r\n"), H1_BODY_ERROR, 0, "", "", false},
    {"bare LF after size", C, V("5\nhello\r\n0\r\n\r\n"), H1_BODY_ERROR, 0, "", "", false},
    {"bare CR after size", C, V("5\rhello\r\n"), H1_BODY_ERROR, 0, "", "", false},
    {"bare LF after payload", C, V("5\r\nhello\n0\r\n\r\n"), H1_BODY_ERROR, 0, "hello", "", false},
    {"bare CR after payload", C, V("5\r\nhello\r0\r\n\r\n"), H1_BODY_ERROR, 0, "hello", "", false},
    {"nothing after payload", C, V("5\r\nhello0\r\n\r\n"), H1_BODY_ERROR, 0, "hello", "", false},
    {"payload longer than its size", C, V("3\r\nhello\r\n0\r\n\r\n"), H1_BODY_ERROR, 0, "hel", "", false},
    {"bare LF at the end", C, V("0\r\n\n"), H1_BODY_ERROR, 0, "", "", false},
    {"CR and a letter at the end", C, V("0\r\n\rx"), H1_BODY_ERROR, 0, "", "", false},
    {"folded trailer", C, V("0\r\nA: b\r\n c\r\n\r\n"), H1_BODY_ERROR, 0, "", "", false},
    {"space before a trailer's colon", C, V("0\r\nA : b\r\n\r\n"), H1_BODY_ERROR, 0, "", "", false},
    {"a request as trailer", C, V("0\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n"), H1_BODY_ERROR, 0, "", "", false},
};

static void table(void)
{
    static const size_t pieces[] = {SIZE_MAX, 1, 2, 3, 0, 0, 0};

    for (size_t i = 0; i < ROWS(rows); i++) {
        bool good = true;
        struct got g = {0};

        for (size_t k = 0; good && k < ROWS(pieces); k++) {
            read_body(rows[i].how, rows[i].in, pieces[k], &g);
            good = g.last == rows[i].last && strcmp(g.text, rows[i].text) == 0 &&
                   g.complete_at_eof == rows[i].complete_at_eof;
            if (g.last == H1_BODY_END)
                good = good && strcmp(g.trailers, rows[i].trailers) == 0 && g.consumed == rows[i].in.n - rows[i].rest;
        }
        if (!good)
            diag("event %d, text \"%s\", trailers \"%s\", consumed %zu", g.last, g.text, g.trailers, g.consumed);
        ok(good, "%s", rows[i].name);
    }
}

static void too_many_trailers(void)
{
    size_t size = LIMIT_TRAILER_BYTES + 100;
    char *text = malloc(size);
    struct got g;
    int n;

    if (text == NULL)
        tap_bail("no memory");
    n = snprintf(text, size, "0\r\nA: %0*d\r\n\r\n", LIMIT_TRAILER_BYTES, 0);
    read_body((struct http_body)C, slice_of(text, (size_t)n), 1000, &g);
    is_int(g.last, H1_BODY_ERROR, "trailers have a limit");
    free(text);
}

/* Chunks of `payload` bytes behind a size of `digits` digits, until they are refused or `most` were taken. */
static size_t chunks_taken(unsigned digits, unsigned payload, size_t most, struct h1_body *b)
{
    char chunk[128];
    size_t taken = 0, used;
    struct slice data;
    int n = snprintf(chunk, sizeof(chunk), "%0*x\r\n%0*d\r\n", (int)digits, payload, (int)payload, 0);

    h1_body_begin(b, (struct http_body)C, NULL);
    for (; taken < most; taken++) {
        enum h1_body_event event = H1_BODY_DATA;

        for (struct slice in = slice_of(chunk, (size_t)n); event == H1_BODY_DATA; in = slice_from(in, used))
            event = h1_body_feed(b, in, &used, &data);
        if (event != H1_BODY_MORE)
            break;
    }
    return taken;
}

/* As Go's net/http counts it: 16 bytes of each chunk and twice its payload are fair. */
static void too_much_framing(void)
{
    struct h1_body b = {0};

    is_u64(chunks_taken(1, 1, 100000, &b), 100000, "a hundred thousand chunks of a byte are a stream");
    is_u64(chunks_taken(14, 1, 100000, &b), 100000, "so they are with thirteen zeros before each");
    is_u64(chunks_taken(15, 1, 100000, &b), LIMIT_CHUNK_EXCESS, "with fourteen there is a byte too many each time");
    is_str(h1_body_error(&b), "more chunk framing than payload", "which is why");
    is_u64(chunks_taken(16, 1, 100000, &b), LIMIT_CHUNK_EXCESS / 2, "with fifteen two");
    is_u64(chunks_taken(16, 2, 100000, &b), 100000, "two bytes of payload make up for that");
    h1_body_reset(&b);
}

static void memory(void)
{
    struct got g;

    for (uint64_t nth = 2; nth < 6; nth++) {
        mem_fail_nth(nth);
        read_body((struct http_body)C, V("0\r\nA: b\r\n\r\n"), SIZE_MAX, &g);
        if (g.last == H1_BODY_END)
            break;
        is_int(g.last, H1_BODY_ERROR, "allocation %d fails", (int)nth);
    }
    mem_fail_nth(0);
    is_int(g.last, H1_BODY_END, "and without a failure it is read");
}

int main(void)
{
    srand(4020);
    table();
    too_many_trailers();
    too_much_framing();
    memory();
    return tap_end();
}
