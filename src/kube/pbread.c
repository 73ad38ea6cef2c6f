/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/pbread.h"

enum { FIELD_NUMBER_MAX = (1 << 29) - 1, VARINT_BYTES = 10 };

void pbread_init(struct pbread *r, struct slice message)
{
    *r = (struct pbread){.rest = message};
}

static bool fail(struct pbread *r, const char *why)
{
    if (r->error == NULL)
        r->error = why;
    return false;
}

static struct slice take(struct pbread *r, size_t n)
{
    struct slice got = slice_of(r->rest.p, n);

    r->rest = slice_of(r->rest.p + n, r->rest.n - n);
    return got;
}

static bool varint(struct pbread *r, uint64_t *out)
{
    uint64_t v = 0;

    for (size_t i = 0; i < VARINT_BYTES; i++) {
        uint8_t byte;

        if (i == r->rest.n)
            return fail(r, "ends in the middle of a number");
        byte = (uint8_t)r->rest.p[i];
        if (i == VARINT_BYTES - 1 && byte > 1)
            break;
        v |= (uint64_t)(byte & 0x7f) << (7 * i);
        if (byte < 0x80) {
            (void)take(r, i + 1);
            *out = v;
            return true;
        }
    }
    return fail(r, "a number of more than 64 bits");
}

static bool fixed(struct pbread *r, size_t n, uint64_t *out)
{
    struct slice bytes;

    if (r->rest.n < n)
        return fail(r, "ends in the middle of a number");
    bytes = take(r, n);
    *out = 0;
    while (n-- > 0)
        *out = *out << 8 | (uint8_t)bytes.p[n];
    return true;
}

static bool length_delimited(struct pbread *r, struct slice *out)
{
    uint64_t n;

    if (!varint(r, &n))
        return false;
    if (n > r->rest.n)
        return fail(r, "a field is longer than its message");
    *out = take(r, (size_t)n);
    return true;
}

bool pbread_next(struct pbread *r, struct pb_field *out)
{
    uint64_t tag;

    *out = (struct pb_field){.bytes = SLICE_LIT("")};
    if (r->error != NULL || r->rest.n == 0 || !varint(r, &tag))
        return false;
    if (tag >> 3 == 0 || tag >> 3 > FIELD_NUMBER_MAX)
        return fail(r, "a field number out of range");
    out->number = (uint32_t)(tag >> 3);
    out->wire = (enum pb_wire)(tag & 7);
    switch (out->wire) {
    case PB_VARINT:
        return varint(r, &out->value);
    case PB_FIXED64:
        return fixed(r, 8, &out->value);
    case PB_BYTES:
        return length_delimited(r, &out->bytes);
    case PB_FIXED32:
        return fixed(r, 4, &out->value);
    }
    return fail(r, "an unknown wire type");
}

bool pb_is_bytes(const struct pb_field *f, uint32_t number)
{
    return f->number == number && f->wire == PB_BYTES;
}
