/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/html.h"

#include "base/duration.h"

void html_raw(struct buf *out, const char *markup)
{
    buf_append_str(out, markup);
}

static const char *entity_of(char c)
{
    switch (c) {
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '&':
        return "&amp;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    default:
        return (unsigned char)c < ' ' || c == 0x7f ? " " : NULL;
    }
}

void html_text(struct buf *out, struct slice text)
{
    size_t plain = 0;

    for (size_t i = 0; i < text.n; i++) {
        const char *entity = entity_of(text.p[i]);

        if (entity == NULL)
            continue;
        buf_append(out, slice_of(text.p + plain, i - plain));
        buf_append_str(out, entity);
        plain = i + 1;
    }
    if (plain < text.n)
        buf_append(out, slice_from(text, plain));
}

void html_str(struct buf *out, const char *text)
{
    html_text(out, slice_str(text));
}

void html_name(struct buf *out, const char *text)
{
    html_raw(out, "<bdi>");
    html_str(out, text);
    html_raw(out, "</bdi>");
}

void html_duration(struct buf *out, uint64_t ms)
{
    char text[DURATION_BYTES];

    buf_append_str(out, duration_text(ms, text));
}
