/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/proxy/frames.h"

#include "lib/tap.h"

enum { FRAME_HEAD = 9 };

static void put(struct frames *f, const void *p, size_t n)
{
    if (f->n + n > sizeof(f->bytes))
        tap_bail("frames are too large");
    if (n > 0)
        memcpy(f->bytes + f->n, p, n);
    f->n += n;
}

void frames_add(struct frames *f, unsigned type, unsigned flags, unsigned stream, struct slice payload)
{
    const unsigned char head[FRAME_HEAD] = {0,
                                            (unsigned char)(payload.n >> 8),
                                            (unsigned char)payload.n,
                                            (unsigned char)type,
                                            (unsigned char)flags,
                                            0,
                                            0,
                                            0,
                                            (unsigned char)stream};

    put(f, head, sizeof(head));
    put(f, payload.p, payload.n);
}

/* RFC 7541, 6.2.2: a literal that is not indexed, with a new name. */
static void put_field(struct frames *f, struct slice name, struct slice value)
{
    const unsigned char kind = 0, name_n = (unsigned char)name.n, value_n = (unsigned char)value.n;

    if (name.n > 126 || value.n > 126)
        tap_bail("a field is too long");
    put(f, &kind, 1);
    put(f, &name_n, 1);
    put(f, name.p, name.n);
    put(f, &value_n, 1);
    put(f, value.p, value.n);
}

void frames_add_head(struct frames *f, unsigned flags, unsigned stream, const char *fields)
{
    struct slice rest = slice_str(fields), line;
    struct frames block = {0};

    while (slice_split(&rest, '\n', &line) && line.n > 0) {
        size_t name = 1 + slice_index(slice_from(line, 1), ':');

        put_field(&block, slice_of(line.p, name), slice_trim(slice_from(line, name + 1)));
    }
    frames_add(f, FRAME_HEADERS, flags | FRAME_END_HEADERS, stream, slice_of(block.bytes, block.n));
}

bool frames_next(struct slice *rest, struct frame *frame)
{
    const unsigned char *head;
    size_t n;

    if (slice_has_prefix(*rest, SLICE_LIT(FRAMES_PREFACE)))
        *rest = slice_from(*rest, sizeof(FRAMES_PREFACE) - 1);
    if (rest->n < FRAME_HEAD)
        return false;
    head = (const unsigned char *)rest->p;
    n = (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2];
    if (rest->n - FRAME_HEAD < n)
        return false;
    *frame = (struct frame){head[3], head[4], head[8], slice_of(rest->p + FRAME_HEAD, n)};
    *rest = slice_from(*rest, FRAME_HEAD + n);
    return true;
}
