/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/sim_bytes.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *start_of(const struct bytes *b)
{
    return b->dropped == 0 ? b->p : b->p - b->dropped;
}

/* Room for so many more. */
static char *grow(struct bytes *b, size_t n)
{
    if (b->room < b->n + n) {
        if (b->dropped > 0)
            b->p = memmove(start_of(b), b->p, b->n);
        b->dropped = 0;
        b->room = 2 * (b->n + n);
        b->p = realloc(b->p, b->room);
        if (b->p == NULL)
            abort();
    }
    b->n += n;
    return b->p + b->n - n;
}

void bytes_add(struct bytes *b, struct slice s)
{
    if (s.n > 0)
        memcpy(grow(b, s.n), s.p, s.n);
}

void bytes_say(struct bytes *b, const char *fmt, ...)
{
    char text[1024];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    bytes_add(b, slice_str(text));
}

void bytes_drop(struct bytes *b, size_t n)
{
    if (n == 0)
        return;
    b->p += n;
    b->n -= n;
    b->room -= n;
    b->dropped += n;
}

void bytes_free(struct bytes *b)
{
    free(start_of(b));
    *b = (struct bytes){0};
}

size_t bytes_past(const struct bytes *b, const char *what)
{
    const char *p = b->n == 0 ? NULL : memmem(b->p, b->n, what, strlen(what));

    return p == NULL ? 0 : (size_t)(p - b->p) + strlen(what);
}

bool lines_field(struct slice *rest, struct slice *name, struct slice *value)
{
    while (slice_split(rest, '\n', value)) {
        if (value->n > 0 && value->p[value->n - 1] == '\r')
            value->n--;
        if (slice_split(value, ':', name)) {
            *value = slice_trim(*value);
            return true;
        }
    }
    return false;
}

void bytes_pattern(struct bytes *b, unsigned k, size_t from, size_t n)
{
    char unit[5], *to;

    if (n == 0)
        return;
    (void)snprintf(unit, sizeof(unit), "%04x", k & 0xffff);
    to = grow(b, n);
    for (size_t i = 0; i < n; i++)
        to[i] = unit[(from + i) % 4];
}

bool pattern_holds(struct slice s, unsigned k, size_t from)
{
    char unit[5];

    (void)snprintf(unit, sizeof(unit), "%04x", k & 0xffff);
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] != unit[(from + i) % 4])
            return false;
    return true;
}

/* ---- HTTP/2 (RFC 9113) ---- */

void frame_add(struct bytes *b, unsigned type, unsigned flags, uint32_t stream, struct slice payload)
{
    const char head[FRAME_HEAD] = {
        (char)(payload.n >> 16), (char)(payload.n >> 8), (char)payload.n,     (char)type,  (char)flags,
        (char)(stream >> 24),    (char)(stream >> 16),   (char)(stream >> 8), (char)stream};

    bytes_add(b, slice_of(head, sizeof(head)));
    bytes_add(b, payload);
}

static struct slice u32(char out[4], uint32_t v)
{
    out[0] = (char)(v >> 24);
    out[1] = (char)(v >> 16);
    out[2] = (char)(v >> 8);
    out[3] = (char)v;
    return slice_of(out, 4);
}

void frame_u32(struct bytes *b, unsigned type, uint32_t stream, uint32_t value)
{
    char text[4];

    frame_add(b, type, 0, stream, u32(text, value));
}

void frame_setting(struct bytes *b, unsigned id, uint32_t value)
{
    char text[6] = {(char)(id >> 8), (char)id};

    (void)u32(text + 2, value);
    frame_add(b, 4, id == 0, 0, slice_of(text, id == 0 ? 0 : sizeof(text)));
}

void frame_goaway(struct bytes *b, uint32_t last, uint32_t code)
{
    char text[8];

    (void)u32(text, last);
    (void)u32(text + 4, code);
    frame_add(b, 7, 0, 0, slice_of(text, sizeof(text)));
}

static void length(struct bytes *b, size_t n)
{
    char c = (char)(n < 127 ? n : 127);

    bytes_add(b, slice_of(&c, 1));
    if (n < 127)
        return;
    for (n -= 127; n >= 128; n >>= 7) {
        c = (char)(n % 128 + 128);
        bytes_add(b, slice_of(&c, 1));
    }
    c = (char)n;
    bytes_add(b, slice_of(&c, 1));
}

void block_field(struct bytes *block, const char *name, struct slice value)
{
    bytes_add(block, slice_of("\x10", 1));
    length(block, strlen(name));
    bytes_add(block, slice_str(name));
    length(block, value.n);
    bytes_add(block, value);
}

void head_field(struct bytes *b, bool http2, const char *name, const char *value)
{
    if (http2)
        block_field(b, name, slice_str(value));
    else
        bytes_say(b, "%s: %s\r\n", name, value);
}

bool frame_first(const struct bytes *b, struct frame *f, size_t *whole)
{
    const unsigned char *p = (const unsigned char *)b->p;
    size_t n;

    if (b->n < FRAME_HEAD)
        return false;
    n = (size_t)p[0] << 16 | (size_t)p[1] << 8 | p[2];
    if (b->n < FRAME_HEAD + n)
        return false;
    *f = (struct frame){.type = p[3],
                        .flags = p[4],
                        .stream =
                            ((uint32_t)p[5] << 24 | (uint32_t)p[6] << 16 | (uint32_t)p[7] << 8 | p[8]) & 0x7fffffff,
                        .payload = slice_of(b->p + FRAME_HEAD, n)};
    *whole = FRAME_HEAD + n;
    return true;
}
