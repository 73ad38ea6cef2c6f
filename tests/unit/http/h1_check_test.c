/* SPDX-License-Identifier: Apache-2.0 */
/* Which bytes a head may have, wherever they stand: the fast scan against the rule, byte by byte. And what a Host is.
 */
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

/* Long values are looked at in other pieces. */
static void test_long_values(void)
{
    static const size_t lengths[] = {255, 256, 300, 330};
    char text[330];

    for (int c = 0; c < 256; c++) {
        unsigned values = 0, n = 0;

        for (size_t i = 0; i < ROWS(lengths); i++)
            for (size_t at = 0; at < lengths[i]; at++, n++) {
                memset(text, 'a', sizeof(text));
                text[at] = (char)c;
                values += h1_is_value(slice_of(text, lengths[i]));
            }
        is_int(values, value_byte(c) ? n : 0, "byte %d in a long value", c);
    }
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

static void check_host(struct slice host, const char *wanted)
{
    struct http_field field = {.id = HTTP_HOST, .name = SLICE_LIT("Host"), .value = host};
    struct http_head head = {
        .method_id = HTTP_GET, .target = SLICE_LIT("/"), .minor = 1, .fields = &field, .n_fields = 1};
    unsigned status;

    is_str(h1_check_request(&head, &status), wanted, "Host: %.*s", (int)host.n, host.p);
}

static void check_hosts(const char *hosts, const char *wanted)
{
    struct slice rest = slice_str(hosts), host;

    while (slice_split(&rest, ' ', &host))
        check_host(host, wanted);
}

static void test_hosts(void)
{
    /* What clients send, and what else the grammar allows. */
    check_hosts(
        "a A.b-c_d~e kubernetes.default.svc a. . .. - a%2Db %41 10.0.0.1 999.1 0x7f.1 a: a:0 a:1 a:443 a:00443 "
        "a:65535 10.0.0.1:6443 [::] [::1] [::1]: [::1]:6443 [2001:DB8::a:b]:1 [1:2:3:4:5:6:7:8] "
        "[::ffff:1.2.3.4]:80 [fe80::1%25eth0] [fe80::1%25eth0]:6443 [fe80::1%eth0] [fe80::1%1] [fe80::1%25n%2D1]",
        NULL);
    check_host(SLICE_LIT(""), "invalid Host");
    check_host(SLICE_LIT("a b"), "invalid Host");
    check_host(SLICE_LIT("a\0b"), "invalid Host");
    /* The port. */
    check_hosts(
        ": :80 a:b a:1:2 a:: a::1 a:1: a:-1 a:+1 a:1.2 a:65536 a:000443 a:99999 a:18446744073709551617 a:0x1 a:%31",
        "invalid Host");
    /* The name. */
    check_hosts(
        "a[ a] a[::1] [a] % a% a%4 a%zz a%%41 a/b a@b a?b a#b a,b a;b a=b a&b a!b a$b a'b (a) a*b a+b a|b a^b a`b "
        "{a} <a> \"a\" a\\b a\tb a\x7f \xc3\xa4 http://a",
        "invalid Host");
    /* The address. */
    check_hosts("::1 1:2:3:4:5:6:7:8 [ ] [] []:80 [::1 ::1] [[::1]] [::1]] [::1]a [::1]. [::1][::1] [::1]80 [::1]:a "
                "[::1]:65536 [::1]:1:2 [:1] [1::2::3] [12345::] [1:2:3:4:5:6:7] [1:2:3:4:5:6:7:8:9] [::g] [1.2.3.4] "
                "[::1.2.3] [::1.2.3.256] [v1.a] [::1%] [%eth0] [%25eth0] [fe80::1%25]x [fe80::1%e[0] [fe80::1%e:0] "
                "[fe80::1%25e%] [fe80::1%25e%zz] [fe80::1/64] [1111:2222:3333:4444:5555:6666:255.255.255.255000] "
                "[00000000000000000000000000000000000000000000000::1]",
                "invalid Host");
}

int main(void)
{
    test_bytes();
    test_long_values();
    test_lines();
    test_hosts();
    return tap_end();
}
