/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include <wchar.h>

#include "base/mem.h"
#include "lib/tap.h"

static void appending(void)
{
    struct buf b;

    buf_init(&b, 1000);
    is_slice(buf_slice(&b), "", "empty at birth");
    ok(buf_append(&b, SLICE_LIT("ab")) && buf_append_str(&b, "cd") && buf_append_char(&b, '-'), "appends");
    ok(buf_append_u64(&b, 0) && buf_append_u64(&b, UINT64_MAX) && buf_append_char(&b, '-'), "numbers");
    ok(buf_printf(&b, "<%d>", -7), "printf");
    is_slice(buf_slice(&b), "abcd-018446744073709551615-<-7>", "all of it");
    buf_reset(&b);
    is_u64(buf_len(&b), 0, "reset");
    ok(buf_append(&b, SLICE_NONE), "nothing can be appended");
    is_u64(buf_len(&b), 0, "and adds nothing");
    buf_release(&b);
    is_null(b.p, "released");
    ok(buf_append_char(&b, 'x'), "usable after release");
    buf_free(&b);
}

static void ceiling(void)
{
    struct buf b;

    buf_init(&b, 10);
    ok(buf_append(&b, SLICE_LIT("0123456789")), "to the ceiling");
    ok(!buf_append_char(&b, 'x'), "not above");
    is_slice(buf_slice(&b), "0123456789", "content untouched");
    buf_consume(&b, 5);
    ok(!buf_append_char(&b, 'x'), "failure is sticky");
    buf_reset(&b);
    ok(buf_append(&b, SLICE_LIT("01234567")), "until reset");
    buf_consume(&b, 4);
    ok(buf_append(&b, SLICE_LIT("89abcd")), "consumed room is used again");
    is_slice(buf_slice(&b), "456789abcd", "in order");
    is_null(buf_reserve(&b, SIZE_MAX), "absurd reservation");
    buf_free(&b);

    buf_init(&b, 1000);
    mem_fail_nth(1);
    ok(!buf_append_str(&b, "x"), "out of memory");
    ok(b.failed && !buf_append_str(&b, "y"), "sticky too");
    buf_free(&b);
    ok(!buf_printf(&b, "%lc", (wint_t)0x20ac), "what printf() cannot print");
    ok(b.failed && b.p == NULL, "is a failure, without any memory");
    buf_free(&b);
}

/* A queue that is fed and drained in odd steps against a plain count of what must come out. */
static void queue(void)
{
    struct buf b;
    unsigned in = 0, out = 0;
    bool fine = true;

    buf_init(&b, 4096);
    for (unsigned round = 0; round < 5000; round++) {
        unsigned put = round * 7 % 97, take = round * 5 % 83;

        if (buf_len(&b) + put > 4000)
            put = 0;
        for (unsigned i = 0; i < put; i++)
            fine = fine && buf_append_char(&b, (char)(in++ % 251));
        if (take > buf_len(&b))
            take = (unsigned)buf_len(&b);
        for (unsigned i = 0; i < take; i++)
            fine = fine && (unsigned char)buf_slice(&b).p[i] == out++ % 251;
        buf_consume(&b, take);
    }
    ok(fine && out > 100000, "%u bytes came out in order", out);
    ok(b.cap <= 4096, "within the ceiling");
    buf_free(&b);
}

/* What was consumed is used again, without any memory: also where there is none, and where a quota has no room. */
static void room_of_the_consumed(void)
{
    static const char text[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    struct quota none;
    struct buf b;
    uint64_t calls;

    quota_init(&none, NULL, 1);
    buf_init(&b, 1000);
    ok(buf_append_str(&b, text), "as much as it has memory for");
    is_u64(b.cap, 64, "64 bytes");
    buf_charge(&b, &none);
    calls = mem_calls();
    buf_consume(&b, 32);
    ok(buf_append(&b, slice_of(text, 32)), "as much as was consumed");
    is_slice(buf_slice(&b), text, "in order");
    buf_consume(&b, 31);
    ok(buf_append_char(&b, 'x'), "less than is left");
    is_slice(buf_slice(&b), "f0123456789abcdef0123456789abcdefx", "in order");
    is_u64(b.cap, 64, "in its place");
    is_u64(mem_calls(), calls, "nobody was asked for memory");
    ok(!buf_append(&b, slice_of(text, 31)), "one more than there is room for needs some");
    buf_consume(&b, buf_len(&b));
    is_u64(b.start + b.end, 0, "what is empty begins anew");
    buf_charge(&b, NULL);
    buf_reset(&b);
    ok(buf_append_str(&b, text), "full again");
    buf_consume(&b, 31);
    ok(buf_append_str(&b, text), "more than there is room for");
    is_u64(b.start, 0, "does not carry what was consumed along");
    is_u64(b.cap, 128, "into its new memory");
    ok(slice_eq(slice_from(buf_slice(&b), 33), slice_str(text)), "in order");
    buf_free(&b);
}

static void json(void)
{
    static const struct {
        const char *name, *text, *want;
    } rows[] = {
        {"plain", "abc /-<>&", "abc /-<>&"},
        {"quote and backslash", "a\"b\\c", "a\\\"b\\\\c"},
        {"short escapes", "\b\f\n\r\t", "\\b\\f\\n\\r\\t"},
        {"other controls", "\x01\x1f\x7f", "\\u0001\\u001f\x7f"},
        {"UTF-8", "gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f"},
        {"Latin-1", "gr\xfc\xdf", "gr\xef\xbf\xbd\xef\xbf\xbd"},
        {"cut character", "a\xe2\x82", "a\xef\xbf\xbd\xef\xbf\xbd"},
        {"surrogate", "\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
        {"empty", "", ""},
    };
    struct buf b;

    for (size_t i = 0; i < ROWS(rows); i++) {
        buf_init(&b, 1000);
        ok(buf_append_json(&b, slice_str(rows[i].text)), "%s: appended", rows[i].name);
        is_slice(buf_slice(&b), rows[i].want, "%s", rows[i].name);
        buf_free(&b);
    }
    buf_init(&b, 100);
    buf_append_json(&b, SLICE_LIT("a\0b"));
    is_slice(buf_slice(&b), "a\\u0000b", "NUL");
    ok(buf_append_quoted(&b, ",", SLICE_LIT("\"c")), "with quotes");
    is_slice(buf_slice(&b), "a\\u0000b,\"\\\"c\"", "and behind another text");
    buf_free(&b);
    buf_init(&b, 3);
    ok(!buf_append_json(&b, SLICE_LIT("\n\n")), "the ceiling holds here too");
    buf_free(&b);
}

static void printable(void)
{
    struct buf b;

    buf_init(&b, 100);
    ok(buf_append_printable(&b, SLICE_LIT("a\n\x1b[2J\0\xc3\xa9\xe2\x80\xae\xff")), "appended");
    is_slice(buf_slice(&b), "a??[2J?\xc3\xa9??", "in one line, and nothing for a terminal to act upon");
    buf_free(&b);
    buf_init(&b, 1);
    ok(!buf_append_printable(&b, SLICE_LIT("\n\n")), "the ceiling holds here too");
    buf_free(&b);
}

int main(void)
{
    appending();
    ceiling();
    queue();
    room_of_the_consumed();
    json();
    printable();
    return tap_end();
}
