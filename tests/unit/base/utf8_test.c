/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"

#include <stdio.h>

#include "lib/tap.h"

static const struct {
    const char *name, *text;
    size_t len;
    uint32_t code;
} rows[] = {
    {"ASCII", "ab", 1, 'a'},
    {"first of two bytes", "\xc2\x80", 2, 0x80},
    {"last of two bytes", "\xdf\xbf", 2, 0x7ff},
    {"first of three bytes", "\xe0\xa0\x80", 3, 0x800},
    {"last of three bytes", "\xef\xbf\xbf", 3, 0xffff},
    {"before the surrogates", "\xed\x9f\xbf", 3, 0xd7ff},
    {"behind the surrogates", "\xee\x80\x80", 3, 0xe000},
    {"first of four bytes", "\xf0\x90\x80\x80", 4, 0x10000},
    {"last code", "\xf4\x8f\xbf\xbf", 4, 0x10ffff},
    {"nothing", "", 0, 0},
    {"lone continuation", "\x80", 0, 0},
    {"overlong of two", "\xc0\xaf", 0, 0},
    {"overlong of two, last", "\xc1\xbf", 0, 0},
    {"overlong of three", "\xe0\x9f\xbf", 0, 0},
    {"overlong of four", "\xf0\x8f\xbf\xbf", 0, 0},
    {"surrogate", "\xed\xa0\x80", 0, 0},
    {"last surrogate", "\xed\xbf\xbf", 0, 0},
    {"too large", "\xf4\x90\x80\x80", 0, 0},
    {"never a lead", "\xf5\x80\x80\x80", 0, 0},
    {"cut after one", "\xe2\x82", 0, 0},
    {"cut of four", "\xf0\x9f\x98", 0, 0},
    {"ASCII inside", "\xe2\x28\xa1", 0, 0},
};

static const struct {
    const char *name, *text, *want;
} printable[] = {
    {"nothing", "", ""},
    {"text", "gr\xc3\xbc\xc3\x9f \xf0\x9f\x98\x80", "gr\xc3\xbc\xc3\x9f \xf0\x9f\x98\x80"},
    {"C0", "a\x1b[31m\tb\n\x7f", "a?[31m?b??"},
    {"C1: CSI in one character",
     "a\xc2\x9b"
     "31m",
     "a?31m"},
    {"direction",
     "\xe2\x80\xae"
     "a\xe2\x81\xa6"
     "b\xe2\x80\x8f"
     "c\xd8\x9c",
     "?a?b?c?"},
    {"invisible",
     "a\xe2\x80\x8b"
     "b\xef\xbb\xbf\xc2\xad",
     "a?b??"},
    {"C1 as a byte",
     "a\x9b"
     "31m",
     "a?31m"},
    {"cut", "a\xe2\x82", "a??"},
};

/* What cannot be seen, or moves what is printed next: the first and the last of each range. */
static const uint32_t unprintable[][2] = {
    {0, 0x1f},        {0x7f, 0xa0},     {0xad, 0xad},     {0x61c, 0x61c},   {0x180e, 0x180e},
    {0x200b, 0x200f}, {0x2028, 0x202e}, {0x2060, 0x206f}, {0xfeff, 0xfeff}, {0xfff9, 0xfffb},
};

static void ranges(void)
{
    for (size_t i = 0; i < ROWS(unprintable); i++) {
        uint32_t first = unprintable[i][0], last = unprintable[i][1];

        ok(utf8_unprintable(first) && utf8_unprintable(last), "U+%04X to U+%04X", first, last);
        ok((first == 0 || !utf8_unprintable(first - 1)) && !utf8_unprintable(last + 1), "and not their neighbours");
    }
}

int main(void)
{
    ranges();
    for (size_t i = 0; i < ROWS(rows); i++) {
        uint32_t code = 0;

        is_u64(utf8_next(slice_str(rows[i].text), &code), rows[i].len, "%s: length", rows[i].name);
        is_u64(code, rows[i].code, "%s: code", rows[i].name);
    }
    ok(utf8_valid(SLICE_LIT("gr\xc3\xbc\xc3\x9f \xf0\x9f\x98\x80")), "valid text");
    ok(utf8_valid(SLICE_NONE), "no text is valid");
    ok(!utf8_valid(SLICE_LIT("gr\xfc\xdf")), "Latin-1 is not");
    for (size_t i = 0; i < ROWS(printable); i++) {
        char text[64];

        snprintf(text, sizeof(text), "%s", printable[i].text);
        utf8_make_printable(text);
        is_str(text, printable[i].want, "for a terminal: %s", printable[i].name);
    }
    return tap_end();
}
