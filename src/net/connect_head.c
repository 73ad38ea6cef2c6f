/* SPDX-License-Identifier: Apache-2.0 */
#include "net/connect_head.h"

#include <stdio.h>

#include "base/limits.h"

/* HTTP/1.1 200 and what may follow it. */
enum { VERSION_AT = 7, SPACE_AT = 8, STATUS_AT = 9, STATUS_END = 12 };

static const char begin[] = "HTTP/1.";

static bool is_token_byte(unsigned char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

static bool is_text_byte(unsigned char c)
{
    return c == '\t' || (c >= ' ' && c != 0x7f);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static enum connect_verdict refuse(struct connect_head *h, const char *why)
{
    h->wrong = why;
    return CONNECT_REFUSED;
}

static enum connect_verdict on_status_byte(struct connect_head *h, unsigned char c)
{
    size_t at = h->column++;

    if (at < CONNECT_LINE_SHOWN)
        h->line[at] = c >= ' ' && c < 0x7f ? (char)c : '?';
    /* Whatever this is, no end of a line need come: it is judged as early as possible. */
    if (at < sizeof(begin) - 1 && h->line[at] != begin[at])
        return refuse(h, "the answer is not HTTP/1");
    return CONNECT_UNDECIDED;
}

static enum connect_verdict on_status_end(struct connect_head *h)
{
    const char *s = h->line;
    bool shaped = h->column >= STATUS_END && is_digit(s[VERSION_AT]) && s[SPACE_AT] == ' ' && is_digit(s[STATUS_AT]) &&
                  is_digit(s[STATUS_AT + 1]) && is_digit(s[STATUS_AT + 2]) &&
                  (h->column == STATUS_END || s[STATUS_END] == ' ');

    if (!shaped)
        return refuse(h, "the status line is malformed");
    if (memcmp(s + STATUS_AT, "200", 3) != 0)
        return CONNECT_REFUSED;
    h->part = CONNECT_FIELD_START;
    return CONNECT_UNDECIDED;
}

static enum connect_verdict on_line_end(struct connect_head *h)
{
    switch (h->part) {
    case CONNECT_STATUS_LINE:
        return on_status_end(h);
    case CONNECT_FIELD_START:
        return CONNECT_GRANTED;
    case CONNECT_FIELD_NAME:
        return refuse(h, "a header line is malformed");
    case CONNECT_FIELD_VALUE:
        h->part = CONNECT_FIELD_START;
        break;
    }
    return CONNECT_UNDECIDED;
}

static enum connect_verdict on_text_byte(struct connect_head *h, unsigned char c)
{
    switch (h->part) {
    case CONNECT_STATUS_LINE:
        return on_status_byte(h, c);
    case CONNECT_FIELD_START:
    case CONNECT_FIELD_NAME:
        if (c == ':' && h->part == CONNECT_FIELD_NAME)
            h->part = CONNECT_FIELD_VALUE;
        else if (is_token_byte(c))
            h->part = CONNECT_FIELD_NAME;
        else
            return refuse(h, "a header line is malformed");
        break;
    case CONNECT_FIELD_VALUE:
        break;
    }
    return CONNECT_UNDECIDED;
}

static enum connect_verdict on_byte(struct connect_head *h, unsigned char c)
{
    if (++h->bytes > LIMIT_CONNECT_HEAD_BYTES)
        return refuse(h, "the answer's head is too large");
    if (h->after_cr) {
        h->after_cr = false;
        return c == '\n' ? on_line_end(h) : refuse(h, "a line of the answer ends oddly");
    }
    if (c == '\r') {
        h->after_cr = true;
        return CONNECT_UNDECIDED;
    }
    if (!is_text_byte(c))
        return refuse(h, c == '\n' ? "a line of the answer ends oddly" : "there is a control character in the answer");
    return on_text_byte(h, c);
}

enum connect_verdict connect_head_feed(struct connect_head *h, struct slice in, size_t *used)
{
    enum connect_verdict v = CONNECT_UNDECIDED;

    for (*used = 0; *used < in.n && v == CONNECT_UNDECIDED; ++*used)
        v = on_byte(h, (unsigned char)in.p[*used]);
    return v;
}

void connect_head_failure(const struct connect_head *h, char *out, size_t size)
{
    if (h->wrong != NULL && h->line[0] != '\0')
        (void)snprintf(out, size, "%s (it begins with \"%s\")", h->wrong, h->line);
    else if (h->wrong != NULL)
        (void)snprintf(out, size, "%s", h->wrong);
    else
        (void)snprintf(out, size, "it answered \"%s\"", h->line);
}
