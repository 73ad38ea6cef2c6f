/* SPDX-License-Identifier: Apache-2.0 */
/* What JSON weighs: never less than the tree that json-c makes of it. */
#include "ctl/weigh.h"

#include <json-c/json.h>
#include <malloc.h>
#include <stdio.h>

#include "base/buf.h"
#include "lib/tap.h"

enum { ROOM = 16 << 20, VALUES = 20000 };

static struct buf text;

/* Bytes that malloc has given out. */
static size_t in_use(void)
{
    struct mallinfo2 m = mallinfo2();

    return m.uordblks + m.hblkhd;
}

/* Of the tree, and one; 0: it is no JSON. A sanitizer has a malloc of its own, which does not count so. */
static size_t size_of(struct slice json)
{
    size_t before = in_use();
    struct json_tokener *t = json_tokener_new();
    struct json_object *o;
    size_t size;

    json_tokener_set_flags(t, JSON_TOKENER_STRICT);
    o = json_tokener_parse_ex(t, json.p, (int)json.n);
    json_tokener_free(t);
    size = o == NULL ? 0 : in_use() - before + 1;
    json_object_put(o);
    return size;
}

/* A list of the same value, and an object of many. */
static void many(void)
{
    static const char *const values[] = {"{}",          "[]",          "1",          "null",      "\"\"",
                                         "\"\\\"{,\"",  "1.5",         "[[]]",       "{\"a\":1}", "{\"a\":{\"b\":[]}}",
                                         "[1,2,3,4,5]", "[1,{},\"\"]", "\"\\u0041\""};

    for (size_t i = 0; i < ROWS(values); i++) {
        for (unsigned object = 0; object < 2; object++) {
            size_t weight, size;

            buf_reset(&text);
            for (unsigned n = 0; n < VALUES; n++) {
                buf_append_str(&text, n > 0 ? "," : object ? "{" : "[");
                if (object)
                    buf_printf(&text, "\"%x\":", n);
                buf_append_str(&text, values[i]);
            }
            buf_append_char(&text, object ? '}' : ']');
            weight = weigh_json(buf_slice(&text));
            size = size_of(buf_slice(&text));
            ok(size > 0, "%s: is JSON", values[i]);
            ok(weight >= size, "%s: weighs %zu, takes %zu", values[i], weight, size);
        }
    }
}

static void exact(void)
{
    static const struct {
        const char *text;
        size_t want;
    } rows[] = {{"", 100},         {"1", 103},         {"{}", 906},        {"[1,2]", 415}, {"{\"a\":1}", 1081},
                {"\"{[,:\"", 118}, {"\"\\\"{\"", 115}, {"\"\\\\\"{", 915}, {"\"{", 106},   {"\"\\", 106}};

    for (size_t i = 0; i < ROWS(rows); i++)
        is_u64(weigh_json(slice_str(rows[i].text)), rows[i].want, "%s", rows[i].text);
}

/* The longest list that mvproxy sends (daemon/operate.c) is read. */
static void longest(void)
{
    buf_reset(&text);
    for (unsigned n = 0; buf_len(&text) < 8 << 20; n++)
        buf_printf(&text, "%s{\"group\":\"\",\"version\":\"v1\",\"resource\":\"r%u\",\"servedBy\":[\"yes\",\"no\"]}",
                   n == 0 ? "[" : ",", n);
    ok(weigh_json(buf_slice(&text)) < WEIGH_MOST / 3 * 2, "the longest list: %zu", weigh_json(buf_slice(&text)));
}

int main(void)
{
    buf_init(&text, ROOM);
    exact();
    many();
    longest();
    buf_free(&text);
    return tap_end();
}
