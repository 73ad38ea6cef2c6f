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

bool json_indent(struct slice s, struct buf *out)
{
    size_t depth = 0;

    for (size_t i = 0; i < s.n && !out->failed; i++) {
        char c = s.p[i];

        if (c == '"') {
            size_t n = string_length(slice_from(s, i));

            buf_append(out, slice_of(s.p + i, n));
            i += n - 1;
        } else if (opens(c) && i + 1 < s.n && closes(s.p[i + 1])) {
            buf_append(out, slice_of(s.p + i, 2)); /* empty ones stay on their line */
            i++;
        } else if (opens(c)) {
            buf_append_char(out, c);
            if (++depth > LIMIT_DISCOVERY_DEPTH)
                return false;
            new_line(out, depth);
        } else if (closes(c)) {
            if (depth > 0)
                depth--;
            new_line(out, depth);
            buf_append_char(out, c);
        } else if (c == ',') {
            buf_append_char(out, c);
            new_line(out, depth);
        } else if (c == ':') {
            buf_append(out, SLICE_LIT(": "));
        } else {
            buf_append_char(out, c);
        }
    }
    return !out->failed;
}
