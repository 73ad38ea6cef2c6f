/* SPDX-License-Identifier: Apache-2.0 */
/* What a proxy may answer to CONNECT, and what is made of everything else. */
#include "net/connect_head.h"

#include <stdlib.h>

#include "base/limits.h"
#include "lib/tap.h"

static const struct {
    const char *name, *text;
    const char *failure; /* NULL: granted */
    size_t rest;         /* bytes that are not the head's */
} rows[] = {
    {"the shortest", "HTTP/1.1 200\r\n\r\n", NULL, 0},
    {"a reason", "HTTP/1.1 200 Connection established\r\n\r\n", NULL, 0},
    {"HTTP/1.0", "HTTP/1.0 200 OK\r\n\r\n", NULL, 0},
    {"fields", "HTTP/1.1 200 OK\r\nProxy-agent: tinyproxy/1.11.1\r\nX:\r\n\r\n", NULL, 0},
    {"framing fields mean nothing", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", NULL,
     0},
    {"bytes behind the head", "HTTP/1.1 200 OK\r\n\r\nSSH-2.0", NULL, 7},
    {"forbidden", "HTTP/1.1 403 Filtered\r\n", "it answered \"HTTP/1.1 403 Filtered\"", 0},
    {"bad gateway", "HTTP/1.0 502 Bad Gateway\r\nContent-Type: text/html\r\n\r\n",
     "it answered \"HTTP/1.0 502 Bad Gateway\"", 42 - 15},
    {"another success", "HTTP/1.1 204 No Content\r\n\r\n", "it answered \"HTTP/1.1 204 No Content\"", 2},
    {"interim", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", "it answered \"HTTP/1.1 100 Continue\"", 21},
    {"terminal's control sequences", "HTTP/1.1 403 \x1b[2J\r\n",
     "control character in the answer (it begins with \"HTTP/1.1 403 \")", 5},
    {"bytes beyond ASCII", "HTTP/1.1 403 \xc3\xa4\r\n", "it answered \"HTTP/1.1 403 ??\"", 0},
    {"not HTTP", "SSH-2.0-OpenSSH\r\n", "not HTTP/1 (it begins with \"S\")", 16},
    {"HTTP/2", "HTTP/2 200\r\n\r\n", "not HTTP/1 (it begins with \"HTTP/2\")", 8},
    {"a TLS alert", "\x15\x03\x01\x00\x02", "control character", 2},
    {"no version", "HTTP/1. 200 OK\r\n\r\n", "status line is malformed", 2},
    {"two digits", "HTTP/1.1 20 OK\r\n\r\n", "status line is malformed", 2},
    {"four digits", "HTTP/1.1 2000 OK\r\n\r\n", "status line is malformed", 2},
    {"two spaces", "HTTP/1.1  200 OK\r\n\r\n", "status line is malformed", 2},
    {"tab for a space", "HTTP/1.1\t200 OK\r\n\r\n", "status line is malformed", 2},
    {"an empty line first", "\r\nHTTP/1.1 200 OK\r\n\r\n", "status line is malformed", 19},
    {"LF alone after the status", "HTTP/1.1 200 OK\nX: y\r\n\r\n", "ends oddly", 8},
    {"LF alone at the end", "HTTP/1.1 200 OK\r\n\n", "ends oddly", 0},
    {"CR alone", "HTTP/1.1 200 OK\rX", "ends oddly", 0},
    {"a field without colon", "HTTP/1.1 200 OK\r\nfield\r\n\r\n", "header line is malformed", 2},
    {"a field without name", "HTTP/1.1 200 OK\r\n: x\r\n\r\n", "header line is malformed", 6},
    {"a space before the colon", "HTTP/1.1 200 OK\r\nX : y\r\n\r\n", "header line is malformed", 7},
    {"a folded field", "HTTP/1.1 200 OK\r\nX: y\r\n z\r\n\r\n", "header line is malformed", 5},
    {"DEL in a field", "HTTP/1.1 200 OK\r\nX: \x7f\r\n\r\n", "control character", 4},
};

/* `piece` bytes at once; how many bytes were left over. */
static enum connect_verdict feed(struct connect_head *h, struct slice in, size_t piece, size_t *rest)
{
    enum connect_verdict v = CONNECT_UNDECIDED;

    *h = (struct connect_head){0};
    while (in.n > 0 && v == CONNECT_UNDECIDED) {
        struct slice now = slice_of(in.p, in.n < piece ? in.n : piece);
        size_t used;

        v = connect_head_feed(h, now, &used);
        in = slice_from(in, used);
    }
    *rest = in.n;
    return v;
}

static void test_rows(void)
{
    for (size_t i = 0; i < ROWS(rows); i++) {
        for (size_t piece = 1; piece <= strlen(rows[i].text); piece++) {
            struct connect_head h;
            char text[256] = "";
            size_t rest;
            enum connect_verdict v = feed(&h, slice_str(rows[i].text), piece, &rest);
            bool good = rows[i].failure == NULL;

            if (v == CONNECT_REFUSED)
                connect_head_failure(&h, text, sizeof(text));
            if (v != (good ? CONNECT_GRANTED : CONNECT_REFUSED) || rest != rows[i].rest ||
                (!good && strstr(text, rows[i].failure) == NULL)) {
                ok(false, "%s, in pieces of %zu: verdict %d, %zu left, %s", rows[i].name, piece, v, rest, text);
                break;
            }
        }
        ok(true, "%s", rows[i].name);
    }
}

static void test_unfinished(void)
{
    struct slice whole = SLICE_LIT("HTTP/1.1 200 OK\r\nVia: 1.1 proxy\r\n\r\n");
    size_t undecided = 0, rest;
    struct connect_head h;

    for (size_t n = 0; n < whole.n; n++)
        undecided += feed(&h, slice_of(whole.p, n), n + 1, &rest) == CONNECT_UNDECIDED;
    is_u64(undecided, whole.n, "no beginning of an answer is an answer");
}

static void test_bounds(void)
{
    static const char start[] = "HTTP/1.1 200 OK\r\n";
    size_t n = LIMIT_CONNECT_HEAD_BYTES + 10, rest;
    char *text = calloc(1, n), why[256];
    struct connect_head h;

    memset(text, 'a', n);
    memcpy(text, start, sizeof(start) - 1);
    is_int(feed(&h, slice_of(text, n), n, &rest), CONNECT_REFUSED, "a name without end");
    is_u64(rest, 9, "is read up to the limit");
    connect_head_failure(&h, why, sizeof(why));
    ok(strstr(why, "too large") != NULL, "and it is said (%s)", why);
    memset(text, 'a', n);
    memcpy(text, "HTTP/1.1 403 ", 13);
    memcpy(text + 1000, "\r\n", 2);
    is_int(feed(&h, slice_of(text, n), n, &rest), CONNECT_REFUSED, "a long reason");
    connect_head_failure(&h, why, sizeof(why));
    is_u64(strlen(h.line), CONNECT_LINE_SHOWN, "is shown in part");
    free(text);
}

int main(void)
{
    test_rows();
    test_unfinished();
    test_bounds();
    return tap_end();
}
