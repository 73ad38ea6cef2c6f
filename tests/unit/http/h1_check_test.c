/* Which bytes a head may have, wherever they stand: the fast scan against the rule, byte by byte. */
#include "http/h1_check.h"

#include <ctype.h>

#include "lib/tap.h"

enum { LONGEST = 40 };

static bool value_byte(int c)
{
    return c == '\t' || (c >= ' ' && c != 0x7f);
}

static bool token_byte(int c)
{
    return c < 0x80 && (isalnum(c) || (c != 0 && strchr("!#$%&'*+-.^_`|~", c) != NULL));
}

/* Each byte at each place of texts of each length, whose other bytes are well. */
static void test_bytes(void)
{
    char text[LONGEST];

    for (int c = 0; c < 256; c++) {
        unsigned values = 0, tokens = 0, heads = 0, n = 0;

        for (size_t len = 1; len <= LONGEST; len++) {
            for (size_t at = 0; at < len; at++, n++) {
                struct slice s = slice_of(text, len);
                size_t lines;

                memset(text, 'a', len);
                text[at] = (char)c;
                values += h1_is_value(s);
                tokens += h1_is_token(s);
                heads += h1_check_bytes(s, &lines) == NULL && lines == 0;
            }
        }
        is_int(values, value_byte(c) ? n : 0, "byte %d in a value", c);
        is_int(tokens, token_byte(c) ? n : 0, "byte %d in a token", c);
        is_int(heads, value_byte(c) ? n : 0, "byte %d in a head", c);
    }
    ok(h1_is_value(SLICE_LIT("")) && !h1_is_token(SLICE_LIT("")), "nothing is a value, and no token");
    ok(h1_is_value(SLICE_LIT("\t\t a\t")) && !h1_is_value(SLICE_LIT("\t\t a\t\x01")), "tabs hide nothing behind them");
}

static void test_lines(void)
{
    static const struct {
        const char *text, *bad;
        size_t lines;
    } rows[] = {
        {"", NULL, 0},
        {"\r\n", NULL, 1},
        {"\r\n\r\n", NULL, 2},
        {"GET / HTTP/1.1\r\nHost: h\r\n\r\n", NULL, 3},
        {"a\tb\r\nc\r\n", NULL, 2},
        {"a\n", "bare LF in head", 0},
        {"1234567\n", "bare LF in head", 0},
        {"12345678\n", "bare LF in head", 0},
        {"a\r\n\n", "bare LF in head", 1},
        {"a\rb", "bare CR in head", 0},
        {"a\r", "bare CR in head", 0},
        {"a\r\r\n", "bare CR in head", 0},
        {"a\r\n b", "line folding in head", 1},
        {"1234567890\r\n\tb", "line folding in head", 1},
        {"a\x1f", "control byte in head", 0},
        {"a\r\nb\x7f\r\n", "control byte in head", 1},
        {"\xff\xfe\x80\x81\x9f\xa0\xe0\xf0\r\n", NULL, 1},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        size_t lines = 99;

        is_str(h1_check_bytes(slice_str(rows[i].text), &lines), rows[i].bad, "row %zu", i);
        is_u64(lines, rows[i].lines, "row %zu: lines", i);
    }
}

int main(void)
{
    test_bytes();
    test_lines();
    return tap_end();
}
