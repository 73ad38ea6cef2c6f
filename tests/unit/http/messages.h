/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of a connection's bytes and what is read from them, message after message (read_messages.h): in one piece,
 * byte by byte and in random pieces, which must be the same. The form of what was read:
 *   heads as in feed.h, {payload} where the message has a body, trailers behind it, "; " between messages
 *   close  the connection ends behind this message    upgrade  what follows is for the other protocol
 *   !400   refused: a request with this status (!400|505: with either, see EITHER_STATUS in feed.h), a response or a
 *          body with "!" alone
 *   ...    the head is not complete when the connection ends    cut  the body is not
 *   +7     so many bytes behind the last message are nobody's
 * With MVPROXY_TEST_ROWS in the environment the bytes are printed in hex, for tests/e2e/survey_strict_http.py.
 */
#ifndef MVPROXY_TESTS_UNIT_HTTP_MESSAGES_H
#define MVPROXY_TESTS_UNIT_HTTP_MESSAGES_H

#include "unit/http/read_messages.h"

#define REQUEST(line, fields) line " HTTP/1.1\r\nHost: h\r\n" fields "\r\n"
#define RESPONSE(fields) "HTTP/1.1 200 OK\r\n" fields "\r\n"
#define CHUNKS "Transfer-Encoding: chunked\r\n"
#define CLENGTH "Content-Length: "

struct message_row {
    const char *name;
    struct slice in;
    const char *want;
};

static inline void message_read(struct messages *m, struct slice in, size_t piece)
{
    h1_parser_begin(m->parser, m->arena, &m->head);
    for (size_t at = 0; at < in.n;) {
        size_t n = piece == 0 ? (size_t)rand() % 9 + 1 : piece;
        char *copy;

        n = n > in.n - at ? in.n - at : n;
        copy = malloc(n);
        if (copy == NULL)
            tap_bail("no memory");
        memcpy(copy, in.p + at, n);
        message_feed(m, slice_of(copy, n));
        free(copy);
        at += n;
    }
    message_eof(m);
    h1_body_reset(&m->body);
}

static inline bool message_as_wanted(struct slice got, struct slice want)
{
    if (slice_eq(want, SLICE_LIT("!400|505")))
        return slice_eq(got, SLICE_LIT("!400")) || slice_eq(got, SLICE_LIT("!505"));
    return slice_eq(got, want);
}

static inline void message_print(enum h1_kind kind, const struct message_row *row)
{
    printf("# %s ", kind == H1_REQUEST ? "request" : "answer");
    for (size_t i = 0; i < row->in.n; i++)
        printf("%02x", (unsigned char)row->in.p[i]);
    printf(" %s\n", row->name);
}

static inline void message_check(enum h1_kind kind, enum http_method method, const struct message_row *row)
{
    static const size_t pieces[] = {SIZE_MAX, 1, 2, 0, 0};
    bool good = true;

    if (getenv("MVPROXY_TEST_ROWS") != NULL)
        message_print(kind, row);
    for (size_t i = 0; good && i < ROWS(pieces); i++) {
        struct messages m = {.kind = kind, .method = method};

        m.parser = h1_parser_new(kind, 8192);
        m.arena = arena_new(1 << 20);
        if (m.parser == NULL || m.arena == NULL)
            tap_bail("no memory");
        buf_init(&m.out, 1 << 16);
        message_read(&m, row->in, pieces[i]);
        good = message_as_wanted(buf_slice(&m.out), slice_str(row->want));
        if (!good)
            diag("pieces %zu: read \"%.*s\"", pieces[i], (int)buf_len(&m.out), buf_slice(&m.out).p);
        buf_free(&m.out);
        arena_free(m.arena);
        h1_parser_free(m.parser);
    }
    ok(good, "%s", row->name);
}

#define MESSAGES_CHECK(kind, method, rows)                                                                             \
    do {                                                                                                               \
        for (size_t row_ = 0; row_ < ROWS(rows); row_++)                                                               \
            message_check(kind, method, &(rows)[row_]);                                                                \
    } while (0)

#endif
