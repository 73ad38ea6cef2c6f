/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/pbread.h"

#include "lib/tap.h"

static void test_fields(void)
{
    static const char bytes[] = "\x08\x96\x01"         /* 1: 150, the example of the protobuf documentation */
                                "\x12\x07testing"      /* 2: text */
                                "\x1d\x04\x03\x02\x01" /* 3: 32 bits */
                                "\x21\x08\x07\x06\x05\x04\x03\x02\x01"         /* 4: 64 bits */
                                "\x28\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01" /* 5: 2^64 - 1 */
                                "\x32\x00";                                    /* 6: nothing */
    struct pbread r;
    struct pb_field f;

    pbread_init(&r, slice_of(bytes, sizeof(bytes) - 1));
    ok(pbread_next(&r, &f) && f.number == 1 && f.wire == PB_VARINT && f.value == 150, "a number");
    ok(pbread_next(&r, &f) && pb_is_bytes(&f, 2) && !pb_is_bytes(&f, 1), "bytes");
    is_slice(f.bytes, "testing", "the bytes");
    ok(pbread_next(&r, &f) && f.wire == PB_FIXED32 && f.value == 0x01020304, "32 bits");
    ok(pbread_next(&r, &f) && f.wire == PB_FIXED64 && f.value == 0x0102030405060708, "64 bits");
    ok(pbread_next(&r, &f) && f.value == UINT64_MAX, "the largest number");
    ok(pbread_next(&r, &f) && pb_is_bytes(&f, 6) && f.bytes.n == 0, "empty bytes");
    ok(!pbread_next(&r, &f) && r.error == NULL, "the end");
    ok(!pbread_next(&r, &f) && r.error == NULL, "stays the end");
}

static void test_refused(void)
{
    static const struct {
        struct slice bytes;
        const char *name;
    } rows[] = {
        {{"\x08", 1}, "a number that is missing"},
        {{"\x08\x80", 2}, "a number that is cut"},
        {{"\x80", 1}, "a tag that is cut"},
        {{"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 11}, "65 bits"},
        {{"\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00", 12}, "eleven bytes"},
        {{"\x12\x05test", 6}, "bytes that are cut"},
        {{"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11}, "a length of 2^64 - 1"},
        {{"\x1d\x04\x03", 3}, "32 bits that are cut"},
        {{"\x21\x04\x03", 3}, "64 bits that are cut"},
        {{"\x0b", 1}, "a group begins"},
        {{"\x0c", 1}, "a group ends"},
        {{"\x0e", 1}, "wire type 6"},
        {{"\x0f", 1}, "wire type 7"},
        {{"\x00\x00", 2}, "field 0"},
        {{"\x80\x80\x80\x80\x10\x00", 6}, "field 2^29"},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        struct pbread r;
        struct pb_field f;

        pbread_init(&r, rows[i].bytes);
        ok(!pbread_next(&r, &f) && r.error != NULL, "refused: %s (%s)", rows[i].name, r.error);
        ok(!pbread_next(&r, &f) && r.error != NULL, "and stays so: %s", rows[i].name);
    }
}

int main(void)
{
    test_fields();
    test_refused();
    return tap_end();
}
