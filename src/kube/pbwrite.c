/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/pbwrite.h"

enum { WIRE_VARINT = 0, WIRE_LENGTH = 2, TAG_BYTES = 1, MORE = 0x80 };
/* Of generated.proto of k8s.io/apimachinery pkg/runtime. */
enum { UNKNOWN_TYPE = 1, UNKNOWN_RAW, UNKNOWN_ENCODING, UNKNOWN_CONTENT_TYPE };
enum { TYPE_API_VERSION = 1, TYPE_KIND };

#define MAGIC SLICE_LIT("k8s\0")

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

bool pb_put_number(struct buf *out, unsigned field, uint64_t v)
{
    buf_append_char(out, (char)(field << 3 | WIRE_VARINT));
    return put_varint(out, v);
}

/* ---- the envelope ---- */

static size_t type_bytes(struct slice api_version, struct slice kind)
{
    return pb_field_bytes(api_version.n) + pb_field_bytes(kind.n);
}

size_t pb_envelope_bytes(struct slice api_version, struct slice kind, size_t n)
{
    return MAGIC.n + pb_field_bytes(type_bytes(api_version, kind)) + pb_field_bytes(n) + 2 * pb_field_bytes(0);
}

bool pb_open_envelope(struct buf *out, struct slice api_version, struct slice kind, size_t n)
{
    buf_append(out, MAGIC);
    pb_put_header(out, UNKNOWN_TYPE, type_bytes(api_version, kind));
    pb_put(out, TYPE_API_VERSION, api_version);
    pb_put(out, TYPE_KIND, kind);
    return pb_put_header(out, UNKNOWN_RAW, n);
}

bool pb_close_envelope(struct buf *out)
{
    pb_put_header(out, UNKNOWN_ENCODING, 0);
    return pb_put_header(out, UNKNOWN_CONTENT_TYPE, 0);
}
