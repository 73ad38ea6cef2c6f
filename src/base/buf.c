/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include <stdio.h>

#include "base/contract.h"
#include "base/mem.h"
#include "base/utf8.h"

enum { FIRST_CAP = 64, PIECE = 256 << 10 };

void buf_init(struct buf *b, size_t ceiling)
{
    *b = (struct buf){.ceiling = ceiling};
}

void buf_charge(struct buf *b, struct quota *quota)
{
    quota_add(quota, b->cap);
    quota_give(b->quota, b->cap);
    b->quota = quota;
}

void buf_free(struct buf *b)
{
    buf_release(b);
}

void buf_reset(struct buf *b)
{
    b->start = b->end = 0;
    b->failed = false;
}

void buf_release(struct buf *b)
{
    mem_free(buf_disown(b));
}

void buf_adopt(struct buf *b, char *p, size_t cap)
{
    must_hold(b->p == NULL && cap > 0);
    quota_add(b->quota, cap);
    b->p = p;
    b->cap = cap;
    b->start = b->end = 0;
}

char *buf_disown(struct buf *b)
{
    char *p = b->p;

    quota_give(b->quota, b->cap);
    *b = (struct buf){.ceiling = b->ceiling, .quota = b->quota};
    return p;
}

static void compact(struct buf *b)
{
    memmove(b->p, b->p + b->start, buf_len(b));
    b->end -= b->start;
    b->start = 0;
}

static bool grow(struct buf *b, size_t need)
{
    size_t cap = b->cap < FIRST_CAP ? FIRST_CAP : b->cap;
    char *p;

    while (cap < need)
        cap = cap > SIZE_MAX / 2 ? need : cap * 2;
    if (cap > b->ceiling)
        cap = b->ceiling;
    /* Else it would be written behind its end, or charged with less than nothing. */
    must_hold(cap >= need && cap >= b->cap);
    if (b->p != NULL && b->start > 0)
        compact(b);
    if (!quota_take(b->quota, cap - b->cap))
        return false;
    p = mem_realloc(b->p, cap);
    if (p == NULL) {
        quota_give(b->quota, cap - b->cap);
        return false;
    }
    b->p = p;
    b->cap = cap;
    return true;
}

char *buf_reserve(struct buf *b, size_t n)
{
    size_t len = buf_len(b);

    if (b->failed)
        return NULL;
    must_hold(len <= b->ceiling);
    if (n > b->ceiling - len) {
        b->failed = true;
        return NULL;
    }
    if (b->p != NULL && n <= b->cap - b->end)
        return b->p + b->end;
    if (b->p != NULL && len + n <= b->cap) {
        compact(b);
    } else if (!grow(b, len + n)) {
        b->failed = true;
        return NULL;
    }
    return b->p + b->end;
}

void buf_commit(struct buf *b, size_t n)
{
    must_hold(n <= b->cap - b->end);
    b->end += n;
}

void buf_consume(struct buf *b, size_t n)
{
    must_hold(n <= b->end - b->start);
    b->start += n;
    if (b->start == b->end)
        b->start = b->end = 0;
}

bool buf_append(struct buf *b, struct slice s)
{
    char *p = buf_reserve(b, s.n);

    if (p == NULL)
        return false;
    if (s.n > 0)
        memcpy(p, s.p, s.n);
    buf_commit(b, s.n);
    return true;
}

bool buf_append_long(struct buf *b, struct slice s, struct fiber *f, size_t bytes_per_unit)
{
    for (size_t n; s.n > 0; s = slice_from(s, n)) {
        n = s.n < PIECE ? s.n : PIECE;
        if (!buf_append(b, slice_of(s.p, n)) || !fiber_spend(f, n / bytes_per_unit))
            return false;
    }
    return !b->failed;
}

bool buf_append_str(struct buf *b, const char *s)
{
    return buf_append(b, slice_str(s));
}

bool buf_append_char(struct buf *b, char c)
{
    return buf_append(b, slice_of(&c, 1));
}

static bool append_number(struct buf *b, uint64_t v, unsigned base)
{
    char digits[20];
    size_t at = sizeof(digits);

    do {
        digits[--at] = "0123456789abcdef"[v % base];
        v /= base;
    } while (v > 0);
    return buf_append(b, slice_of(digits + at, sizeof(digits) - at));
}

bool buf_append_u64(struct buf *b, uint64_t v)
{
    return append_number(b, v, 10);
}

bool buf_vprintf(struct buf *b, const char *fmt, va_list ap)
{
    va_list again;
    char *p;
    int n;

    va_copy(again, ap);
    n = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    if (n < 0) {
        b->failed = true;
        return false;
    }
    /* vsnprintf writes a NUL behind the text; one byte below the ceiling is lost for that. */
    p = buf_reserve(b, (size_t)n + 1);
    if (p == NULL)
        return false;
    vsnprintf(p, (size_t)n + 1, fmt, ap);
    buf_commit(b, (size_t)n);
    return true;
}

bool buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list ap;
    bool done;

    va_start(ap, fmt);
    done = buf_vprintf(b, fmt, ap);
    va_end(ap);
    return done;
}

static bool append_json_escape(struct buf *b, unsigned char c)
{
    static const char names[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    const char *hit = c == '\0' ? NULL : strchr(names, c);

    /* The table holds pairs (byte, letter); the letters themselves never come here. */
    if (hit != NULL) {
        char out[2] = {'\\', hit[1]};

        return buf_append(b, slice_of(out, 2));
    }
    return buf_printf(b, "\\u%04x", c);
}

bool buf_append_json(struct buf *b, struct slice s)
{
    size_t plain = 0; /* bytes before i not yet appended start here */
    size_t i = 0;

    while (i < s.n) {
        unsigned char c = (unsigned char)s.p[i];
        uint32_t code;
        size_t len = utf8_next(slice_from(s, i), &code);

        if (len > 0 && c >= ' ' && c != '"' && c != '\\') {
            i += len;
            continue;
        }
        buf_append(b, slice_of(s.p + plain, i - plain));
        if (len == 0)
            buf_append(b, SLICE_LIT("\xef\xbf\xbd"));
        else
            append_json_escape(b, c);
        plain = ++i;
    }
    if (plain < s.n)
        buf_append(b, slice_from(s, plain));
    return !b->failed;
}

bool buf_append_quoted(struct buf *b, const char *before, struct slice s)
{
    buf_append_str(b, before);
    buf_append_char(b, '"');
    buf_append_json(b, s);
    return buf_append_char(b, '"');
}

bool buf_append_printable(struct buf *b, struct slice s)
{
    while (s.n > 0) {
        uint32_t code;
        size_t n = utf8_next(s, &code);

        buf_append(b, n == 0 || utf8_unprintable(code) ? SLICE_LIT("?") : slice_of(s.p, n));
        s = slice_from(s, n == 0 ? 1 : n);
    }
    return !b->failed;
}
