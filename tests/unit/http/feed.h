/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Feeds a head to a parser in one piece, byte by byte, and in random pieces; the results must be the same.
 */
#ifndef MVPROXY_TESTS_UNIT_HTTP_FEED_H
#define MVPROXY_TESTS_UNIT_HTTP_FEED_H

#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "http/h1_parse.h"
#include "lib/tap.h"

#define V(s) SLICE_LIT(s)

struct fed {
    enum h1_result result;
    unsigned status;
    size_t consumed;
    char text[2048]; /* the head in a readable form */
};

static inline void feed_render(const struct http_head *h, enum h1_kind kind, char *out, size_t size)
{
    struct buf b;

    buf_init(&b, size - 1);
    if (kind == H1_REQUEST)
        buf_printf(&b, "%.*s %.*s %u", (int)h->method.n, h->method.p, (int)h->target.n, h->target.p, h->minor);
    if (kind == H1_RESPONSE)
        buf_printf(&b, "%u %u <%.*s>", h->minor, h->status, (int)h->reason.n, h->reason.n == 0 ? "" : h->reason.p);
    for (size_t i = 0; i < h->n_fields; i++)
        buf_printf(&b, "|%.*s=%.*s", (int)h->fields[i].name.n, h->fields[i].name.p, (int)h->fields[i].value.n,
                   h->fields[i].value.n == 0 ? "" : h->fields[i].value.p);
    (void)snprintf(out, size, "%.*s", (int)buf_len(&b), buf_len(&b) == 0 ? "" : b.p + b.start);
    buf_free(&b);
}

/* piece: bytes per step; 0 = random. Each piece is a fresh allocation of exactly its size, so that overreads show. */
static inline void feed(struct h1_parser *p, enum h1_kind kind, struct slice text, size_t piece, struct fed *f)
{
    struct arena *a = arena_new(1 << 20);
    struct http_head head;

    if (a == NULL)
        tap_bail("no memory");
    *f = (struct fed){.result = H1_MORE};
    h1_parser_begin(p, a, &head);
    while (f->result == H1_MORE && f->consumed < text.n) {
        size_t n = piece == 0 ? (size_t)rand() % 9 + 1 : piece, took = 0;
        char *copy;

        if (n > text.n - f->consumed)
            n = text.n - f->consumed;
        copy = malloc(n);
        if (copy == NULL)
            tap_bail("no memory");
        memcpy(copy, text.p + f->consumed, n);
        f->result = h1_parser_feed(p, slice_of(copy, n), &took);
        f->consumed += took;
        free(copy);
        if (f->result == H1_MORE && took != n)
            tap_bail("MORE without having taken everything");
    }
    if (f->result == H1_ERROR)
        f->status = h1_parser_status(p);
    if (f->result == H1_ERROR && (h1_parser_error(p) == NULL || h1_parser_error(p)[0] == '\0'))
        tap_bail("an error without a reason");
    if (f->result == H1_DONE)
        feed_render(&head, kind, f->text, sizeof(f->text));
    arena_free(a);
}

/* 400 or 505: to some versions of llhttp a wrong line end behind the version is a wrong version. */
enum { EITHER_STATUS = 1 };

struct feed_row {
    const char *name;
    struct slice text;
    unsigned status;  /* 0: must parse; EITHER_STATUS */
    const char *want; /* when it must parse: its rendering; NULL: must stay incomplete */
    size_t rest;      /* bytes behind the head */
};

static inline void feed_check(struct h1_parser *p, enum h1_kind kind, const struct feed_row *r)
{
    static const size_t pieces[] = {SIZE_MAX, 1, 2, 0, 0, 0};
    bool good = true;
    struct fed f = {0};

    for (size_t i = 0; good && i < ROWS(pieces); i++) {
        feed(p, kind, r->text, pieces[i], &f);
        if (r->status != 0)
            good = f.result == H1_ERROR &&
                   (f.status == r->status || (r->status == EITHER_STATUS && (f.status == 400 || f.status == 505)));
        else if (r->want == NULL)
            good = f.result == H1_MORE;
        else
            good = f.result == H1_DONE && strcmp(f.text, r->want) == 0 && f.consumed == r->text.n - r->rest;
        if (!good)
            diag("pieces %zu: result %d, status %u (%s), consumed %zu of %zu, text \"%s\"", pieces[i], f.result,
                 f.status, f.result == H1_ERROR ? h1_parser_error(p) : "", f.consumed, r->text.n, f.text);
    }
    ok(good, "%s", r->name);
}

#endif
