/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/json_indent.h"

#include "base/limits.h"

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
