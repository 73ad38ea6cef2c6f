/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/pbwrite.h"

enum { WIRE_LENGTH = 2, TAG_BYTES = 1, MORE = 0x80 };

static size_t varint_bytes(uint64_t v)
{
    size_t n = 1;

    for (; v >= MORE; v >>= 7)
        n++;
    return n;
}

static bool put_varint(struct buf *out, uint64_t v)
{
    for (; v >= MORE; v >>= 7)
        buf_append_char(out, (char)((v & (MORE - 1)) | MORE));
    return buf_append_char(out, (char)v);
}

size_t pb_field_bytes(size_t n)
{
    return TAG_BYTES + varint_bytes(n) + n;
}

bool pb_put_header(struct buf *out, unsigned field, size_t n)
{
    buf_append_char(out, (char)(field << 3 | WIRE_LENGTH));
    return put_varint(out, n);
}

bool pb_put(struct buf *out, unsigned field, struct slice content)
{
    pb_put_header(out, field, content.n);
    return buf_append(out, content);
}
