/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/json_indent.h"

#include "base/limits.h"

enum { PIECE_BYTES = 16 << 10 };

static void new_line(struct buf *out, size_t depth)
{
    buf_append_char(out, '\n');
    for (size_t i = 0; i < depth; i++)
        buf_append(out, SLICE_LIT("  "));
}

/* Length of the string literal that starts at s, quotes included. */
static size_t string_length(struct slice s)
{
    size_t i = 1;

    while (i < s.n && s.p[i] != '"')
        i += s.p[i] == '\\' ? 2 : 1;
    return i < s.n ? i + 1 : s.n;
}

static bool opens(char c)
{
    return c == '{' || c == '[';
}

static bool closes(char c)
{
    return c == '}' || c == ']';
}

/* One string, bracket, mark or character; how much of the text that was. */
static size_t put_part(struct json_indenter *j, struct buf *out)
{
    struct slice s = j->rest;
    size_t n = 1;
    char c = s.p[0];

    if (c == '"') {
        n = string_length(s);
        buf_append(out, slice_of(s.p, n));
    } else if (opens(c) && s.n > 1 && closes(s.p[1])) {
        n = 2; /* empty ones stay on their line */
        buf_append(out, slice_of(s.p, n));
    } else if (opens(c)) {
        buf_append_char(out, c);
        new_line(out, ++j->depth);
    } else if (closes(c)) {
        j->depth -= j->depth > 0 ? 1 : 0;
        new_line(out, j->depth);
        buf_append_char(out, c);
    } else if (c == ',') {
        buf_append_char(out, c);
        new_line(out, j->depth);
    } else if (c == ':') {
        buf_append(out, SLICE_LIT(": "));
    } else {
        buf_append_char(out, c);
    }
    return n;
}

bool json_indent_some(struct json_indenter *j, size_t most, struct buf *out)
{
    size_t before = buf_len(out);

    while (j->rest.n > 0 && !out->failed && j->depth <= LIMIT_DISCOVERY_DEPTH && buf_len(out) - before < most)
        j->rest = slice_from(j->rest, put_part(j, out));
    return !out->failed && j->depth <= LIMIT_DISCOVERY_DEPTH;
}

bool json_indent_is_over(struct slice compact, size_t n)
{
    struct json_indenter j = {.rest = compact};
    struct buf piece;
    size_t bytes = compact.n > n ? compact.n : 0;
    bool good = true;

    buf_init(&piece, compact.n + 2 * PIECE_BYTES); /* one string may be all of it */
    while (good && bytes <= n && j.rest.n > 0) {
        buf_reset(&piece);
        good = json_indent_some(&j, PIECE_BYTES, &piece);
        bytes += buf_len(&piece);
    }
    buf_free(&piece);
    return good && bytes > n;
}
