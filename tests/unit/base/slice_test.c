/* SPDX-License-Identifier: Apache-2.0 */
#include "base/slice.h"

#include "lib/tap.h"

static void equality(void)
{
    ok(slice_eq(SLICE_NONE, SLICE_LIT("")), "none equals empty");
    ok(slice_eq(SLICE_LIT("ab"), slice_str("ab")), "same bytes");
    ok(!slice_eq(SLICE_LIT("ab"), SLICE_LIT("aB")), "case matters");
    ok(slice_ieq(SLICE_LIT("Accept-9"), SLICE_LIT("aCCEPT-9")), "case folded");
    ok(!slice_ieq(SLICE_LIT("a["), SLICE_LIT("a{")), "only letters are folded");
    ok(!slice_ieq(SLICE_LIT("a"), SLICE_LIT("ab")), "lengths differ");
    ok(slice_has_prefix(SLICE_LIT("/apis/x"), SLICE_LIT("/apis")), "prefix");
    ok(slice_has_prefix(SLICE_LIT("x"), SLICE_NONE), "empty prefix");
    ok(!slice_has_prefix(SLICE_LIT("/ap"), SLICE_LIT("/apis")), "prefix longer than text");
    ok(slice_has_iprefix(SLICE_LIT("X-Remote-User"), SLICE_LIT("x-remote-")), "prefix, case folded");
    ok(!slice_has_iprefix(SLICE_LIT("X-Re"), SLICE_LIT("x-remote-")), "prefix longer than text, case folded");
    ok(slice_has_suffix(SLICE_LIT("a.json"), SLICE_LIT(".json")), "suffix");
    ok(!slice_has_suffix(SLICE_LIT("json"), SLICE_LIT(".json")), "suffix longer than text");
    ok(slice_is_of(SLICE_LIT("aZ09"), "") && slice_is_of(SLICE_LIT("-a_"), "_-"), "letters, digits and others");
    ok(!slice_is_of(SLICE_LIT("a.b"), "-") && !slice_is_of(SLICE_LIT("a\0b"), "-") && !slice_is_of(SLICE_NONE, "-"),
       "nothing else, nor NUL, nor nothing at all");
}

static char folded(char c)
{
    return (char)(c >= 'A' && c <= 'Z' ? c + 32 : c);
}

/* Any two bytes, in each place of texts shorter than a word, of a word, and longer. */
static void any_bytes(void)
{
    unsigned wrong = 0;

    for (size_t n = 1; n <= 17; n += n == 1 ? 6 : 1)
        for (unsigned pair = 0; pair < 1 << 16; pair++)
            for (size_t at = 0; at<n; at += n> 9 ? 5 : 1) {
                char a[17], b[17];

                memset(a, 'x', sizeof(a));
                memset(b, 'X', sizeof(b));
                a[at] = (char)(pair & 255);
                b[at] = (char)(pair >> 8);
                wrong += slice_ieq(slice_of(a, n), slice_of(b, n)) != (folded(a[at]) == folded(b[at]));
            }
    is_u64(wrong, 0, "case is folded for letters of ASCII and for nothing else");
}

static void number_texts(void)
{
    char text[SLICE_U64_BYTES];

    ok(slice_eq(slice_u64_text(0, text), SLICE_LIT("0")), "zero");
    ok(slice_eq(slice_u64_text(1024, text), SLICE_LIT("1024")), "a number");
    ok(slice_eq(slice_u64_text(UINT64_MAX, text), SLICE_LIT("18446744073709551615")), "the largest");
}

static void order(void)
{
    static const struct {
        const char *a, *b;
        int want;
    } rows[] = {
        {"", "", 0}, {"a", "a", 0}, {"a", "b", -1}, {"b", "a", 1}, {"a", "aa", -1}, {"aa", "a", 1}, {"\xff", "a", 1},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        int got = slice_cmp(slice_str(rows[i].a), slice_str(rows[i].b));

        is_int((got > 0) - (got < 0), rows[i].want, "order of row %zu", i);
    }
    is_int(slice_cmp(SLICE_NONE, SLICE_NONE), 0, "none against none");
}

static void cutting(void)
{
    struct slice rest, field;

    is_u64(slice_index(SLICE_LIT("a/b"), '/'), 1, "index");
    is_u64(slice_index(SLICE_LIT("ab"), '/'), 2, "index of what is not there");
    is_u64(slice_index(SLICE_NONE, '/'), 0, "index in none");
    is_slice(slice_trim(SLICE_LIT(" \t a b\t ")), "a b", "trim");
    is_slice(slice_trim(SLICE_LIT(" \t ")), "", "trim to nothing");
    is_slice(slice_trim(SLICE_LIT("\r\na")), "\r\na", "line ends are not white space");
    is_slice(slice_from(SLICE_LIT("abc"), 1), "bc", "from an offset");
    is_slice(slice_from(SLICE_LIT("abc"), 3), NULL, "from the end");

    rest = SLICE_LIT("a,,b,");
    ok(slice_split(&rest, ',', &field) && slice_eq(field, SLICE_LIT("a")), "first field");
    ok(slice_split(&rest, ',', &field) && field.n == 0, "empty field");
    ok(slice_split(&rest, ',', &field) && slice_eq(field, SLICE_LIT("b")), "third field");
    ok(slice_split(&rest, ',', &field) && field.n == 0, "empty last field");
    ok(!slice_split(&rest, ',', &field), "exhausted");
    is_null(rest.p, "exhausted is p == NULL");
    rest = SLICE_LIT("");
    ok(!slice_split(&rest, ',', &field), "an empty input has no field");
}

static void numbers(void)
{
    static const struct {
        const char *text;
        bool valid;
        uint64_t value;
    } decimal[] =
        {
            {"0", true, 0},
            {"007", true, 7},
            {"18446744073709551615", true, UINT64_MAX},
            {"18446744073709551616", false, 0},
            {"99999999999999999999999", false, 0},
            {"", false, 0},
            {"+1", false, 0},
            {"-1", false, 0},
            {" 1", false, 0},
            {"1 ", false, 0},
            {"0x1", false, 0},
        },
      hex[] = {
          {"0", true, 0},
          {"fF", true, 255},
          {"aA", true, 170},
          {"`", false, 0},
          {"ffffffffffffffff", true, UINT64_MAX},
          {"00000000000000001", false, 0},
          {"", false, 0},
          {"g", false, 0},
          {"0x1", false, 0},
          {"-1", false, 0},
      };

    for (size_t i = 0; i < ROWS(decimal); i++) {
        uint64_t v = 42;

        ok(slice_u64(slice_str(decimal[i].text), &v) == decimal[i].valid, "decimal \"%s\"", decimal[i].text);
        is_u64(v, decimal[i].valid ? decimal[i].value : 42, "value of decimal \"%s\"", decimal[i].text);
    }
    for (size_t i = 0; i < ROWS(hex); i++) {
        uint64_t v = 42;

        ok(slice_hex_u64(slice_str(hex[i].text), &v) == hex[i].valid, "hex \"%s\"", hex[i].text);
        is_u64(v, hex[i].valid ? hex[i].value : 42, "value of hex \"%s\"", hex[i].text);
    }
}

int main(void)
{
    equality();
    any_bytes();
    number_texts();
    order();
    cutting();
    numbers();
    return tap_end();
}
