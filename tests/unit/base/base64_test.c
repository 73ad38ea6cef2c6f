/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base64.h"

#include "lib/tap.h"

/* The vectors of RFC 4648, section 10, and what uses every bit. */
static const struct {
    struct slice data;
    const char *text;
} rows[] = {
    {{"", 0}, ""},
    {{"f", 1}, "Zg=="},
    {{"fo", 2}, "Zm8="},
    {{"foo", 3}, "Zm9v"},
    {{"foob", 4}, "Zm9vYg=="},
    {{"fooba", 5}, "Zm9vYmE="},
    {{"foobar", 6}, "Zm9vYmFy"},
    {{"\0\0\0", 3}, "AAAA"},
    {{"\xff\xff\xfe", 3}, "///+"},
    {{"k8s\0\n", 5}, "azhzAAo="},
};

static const char *const refused[] = {
    "Z",
    "Zg",
    "Zg=",
    "Zg==\n",
    " Zg==",
    "Zg==Zg==",
    "Zm9v=",
    "=Zm9",
    "====",
    "Zh==" /* unused bits */,
    "Zm9=" /* the same */,
    "Zm9-",
    "Zm9_",
    "Zm9vZ===",
};

int main(void)
{
    struct buf b;

    buf_init(&b, 64);
    for (size_t i = 0; i < ROWS(rows); i++) {
        buf_reset(&b);
        ok(base64_append(&b, rows[i].data), "encodes %s", rows[i].text);
        is_slice(buf_slice(&b), rows[i].text, "as %s", rows[i].text);
        buf_reset(&b);
        ok(base64_decode(slice_str(rows[i].text), &b) && slice_eq(buf_slice(&b), rows[i].data), "and back: %s",
           rows[i].text);
    }
    for (size_t i = 0; i < ROWS(refused); i++) {
        buf_reset(&b);
        ok(!base64_decode(slice_str(refused[i]), &b), "refused: \"%s\"", refused[i]);
    }
    buf_free(&b);
    buf_init(&b, 4);
    ok(!base64_append(&b, SLICE_LIT("four")), "the ceiling holds when writing");
    buf_reset(&b);
    ok(!base64_decode(SLICE_LIT("Zm9vYmFy"), &b), "and when reading");
    buf_free(&b);
    return tap_end();
}
