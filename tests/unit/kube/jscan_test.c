/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/jscan.h"

#include <json-c/json.h>
#include <stdio.h>

#include "lib/tap.h"

static bool accepts(struct slice text, unsigned depth)
{
    struct jscan s;
    struct jscan_value v;

    jscan_init(&s, text, depth);
    return jscan_value(&s, &v) && jscan_end(&s);
}

static void test_syntax(void)
{
    static const char *const good[] = {
        "{}",
        "[]",
        "null",
        "true",
        "false",
        "0",
        "-0",
        "1",
        "-1.5e+3",
        "1E-2",
        "0.0",
        "\"\"",
        "\"a\"",
        " [ ] ",
        "\t{\r\n}",
        "[1,2,3]",
        "[[],[[]],{}]",
        "{\"a\":1,\"b\":[{\"c\":null}]}",
        "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"",
        "\"\\u00e9\"",
        "\"\\ud83d\\ude00\"",
        "\"\\ud800\\udc00\"",
        "\"\\udbff\\udfff\"",
        "\"\\ud7ff\\ue000\"",
        "\"\xc3\xa9\"",
        "\"\xf0\x9f\x98\x80\"",
        "\"\x7f\"",
        "{\"\":\"\"}",
        "[\"]\",\"}\"]",
        "{\"a\" : {\"b\" : [ ] } }",
        "\"\\u0000\"",
        "1e400",
        "123456789012345678901234567890",
    };
    static const char *const bad[] = {
        "",
        " ",
        "{",
        "}",
        "[",
        "]",
        "[1,]",
        "[,1]",
        "[1 2]",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{,}",
        "{a:1}",
        "{'a':1}",
        "[1}",
        "{\"a\":1]",
        "nul",
        "nulll",
        "True",
        "01",
        "-",
        "1.",
        ".1",
        "1e",
        "1e+",
        "+1",
        "0x1",
        "NaN",
        "Infinity",
        "\"",
        "\"a",
        "\"\\\"",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u12g4\"",
        "\"\\ud800\"",
        "\"\\ud800\\u0041\"",
        "\"\\udc00\"",
        "\"\\udfff\"",
        "\"\\ud800\\udbff\"",
        "\"\\ud800\\ue000\"",
        "\"\\ud83d\\ude0\"",
        "\"\n\"",
        "\"\t\"",
        "\"\xc3\"",
        "\"\xc0\x80\"",
        "\"\xed\xa0\x80\"",
        "\"\xff\"",
        "\"\xf4\x90\x80\x80\"",
        "[1] 2",
        "{} {}",
        "[]]",
        "//x\n1",
        "[1/**/]",
        "\xef\xbb\xbf{}",
        "{\"a\":1 \"b\":2}",
        "[[]",
        "{\"a\":{}",
        "[\"a\":1]",
        "1 1",
    };
    char nul[] = "[1\0]";

    for (size_t i = 0; i < ROWS(good); i++)
        ok(accepts(slice_str(good[i]), 8), "accepted: %s", good[i]);
    for (size_t i = 0; i < ROWS(bad); i++)
        ok(!accepts(slice_str(bad[i]), 8), "refused: row %zu", i);
    ok(!accepts(slice_of(nul, 4), 8), "refused: NUL");
}

/* A string is looked at eight bytes at a time: each byte at each place among them. */
static void test_bytes(void)
{
    unsigned wrong = 0;

    for (unsigned byte = 0; byte < 256; byte++)
        for (size_t at = 1; at < 25; at++) {
            char text[] = "\"abcdefghijklmnopqrstuvwx\"";
            bool plain = byte >= 0x20 && byte < 0x80 && byte != '"' && byte != '\\';

            text[at] = (char)byte;
            wrong += accepts(slice_str(text), 8) != plain && !(byte == '\\' && strchr("bfnrt", text[at + 1]) != NULL);
            text[at] = 'a';
            wrong += !accepts(slice_str(text), 8);
        }
    is_u64(wrong, 0, "every byte at every place of a string");
}

static void test_depth(void)
{
    static char text[400001];

    ok(accepts(SLICE_LIT("[[[]]]"), 3), "three levels of three");
    ok(!accepts(SLICE_LIT("[[[[]]]]"), 3), "four levels of three");
    ok(!accepts(SLICE_LIT("{\"a\":{\"a\":{\"a\":{}}}}"), 3), "four objects of three");
    ok(accepts(SLICE_LIT("[[],[[]],[{}]]"), 3), "siblings do not count");
    memset(text, '[', 400000);
    ok(!accepts(slice_of(text, 400000), 1000), "no stack is used up");
    for (size_t levels = 60; levels <= JSCAN_MAX_DEPTH + 1; levels++) {
        /* Objects and arrays in turn, so that each level's kind matters. */
        size_t n = 0;

        for (size_t i = 0; i < levels; i++)
            n += (size_t)snprintf(text + n, sizeof(text) - n, "%s", i % 3 == 0 ? "{\"a\":" : "[");
        n += (size_t)snprintf(text + n, sizeof(text) - n, "1");
        for (size_t i = levels; i > 0; i--)
            n += (size_t)snprintf(text + n, sizeof(text) - n, "%s", (i - 1) % 3 == 0 ? "}" : "]");
        if (accepts(slice_of(text, n), 1000) != (levels <= JSCAN_MAX_DEPTH)) {
            ok(false, "%zu levels", levels);
            return;
        }
    }
    ok(true, "up to the limit and no further, whatever the kinds");
}

static void test_walk(struct arena *a)
{
    struct jscan s;
    struct jscan_value key, v;
    struct slice text = SLICE_NONE;
    enum jscan_type type;
    bool first, inner;

    jscan_init(&s,
               SLICE_LIT(" {\"a\":[1,\"x\"],\"b\\n\":{\"c\":2},\"d\":"
                         "\"\\u00e9\\ud83d\\ude00z\\u20ac\\uffff\\u0800\\u07ff\\u0080\\u007f\"} "),
               8);
    ok(jscan_peek(&s, &type) && type == JSCAN_OBJECT, "peek");
    ok(jscan_enter_object(&s, &first), "enter");
    ok(jscan_member(&s, &first, &key) && jscan_text_eq(&key, SLICE_LIT("a")), "first member");
    ok(jscan_enter_array(&s, &inner), "its array");
    ok(jscan_element(&s, &inner) && jscan_value(&s, &v) && v.type == JSCAN_NUMBER, "a number");
    ok(jscan_element(&s, &inner) && jscan_value(&s, &v) && jscan_text_eq(&v, SLICE_LIT("x")), "a string");
    ok(!jscan_element(&s, &inner) && s.error == NULL, "the array's end is no error");
    ok(jscan_member(&s, &first, &key) && key.escaped && jscan_text_eq(&key, SLICE_LIT("b\n")), "escaped key");
    ok(!jscan_text_eq(&key, SLICE_LIT("b")) && !jscan_text_eq(&key, SLICE_LIT("b\nc")), "and nothing else");
    ok(jscan_value(&s, &v), "object in one go");
    is_slice(v.raw, "{\"c\":2}", "its extent");
    ok(jscan_member(&s, &first, &key) && jscan_value(&s, &v) && jscan_text(a, &v, &text), "third member");
    is_slice(text, "\xc3\xa9\xf0\x9f\x98\x80z\xe2\x82\xac\xef\xbf\xbf\xe0\xa0\x80\xdf\xbf\xc2\x80\x7f",
             "escapes decoded");
    ok(!jscan_member(&s, &first, &key) && s.error == NULL && s.depth == 0, "the object's end");
    ok(jscan_end(&s), "the document's end");
    ok(jscan_get(SLICE_LIT("{\"a\":{\"b\":1},\"b\":2}"), SLICE_LIT("b"), &v), "look-up");
    is_slice(v.raw, "2", "finds the outer one");
    ok(!jscan_get(SLICE_LIT("{\"a\":{\"b\":1}}"), SLICE_LIT("b"), &v), "not the inner one");
    ok(!jscan_get(SLICE_LIT("[1]"), SLICE_LIT("b"), &v), "not in an array");
    jscan_init(&s, SLICE_LIT("[\"0123456789\"]"), 8);
    s.limit = 8;
    ok(!jscan_value(&s, &v) && s.error != NULL, "nothing is read past the limit");
    is_str(s.error, "a part is too big", "and it is said why");
}

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static bool json_c_accepts(const char *p, size_t n)
{
    struct json_tokener *t = json_tokener_new_ex(40);
    struct json_object *o;
    bool good;

    json_tokener_set_flags(t, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
    o = json_tokener_parse_ex(t, p, (int)n);
    good = json_tokener_get_error(t) == json_tokener_success;
    for (size_t i = json_tokener_get_parse_end(t); good && i < n; i++)
        good = p[i] == ' ';
    json_object_put(o);
    json_tokener_free(t);
    return good;
}

/* Mutated documents: whatever we take, json-c takes too (we are the stricter one), and nothing is read out of bounds.
 */
static void test_mutations(void)
{
    static const char seed_text[] =
        "{\"kind\":\"X\",\"items\":[{\"a\":[1,-2.5e3,true,null],\"b\":\"\\u00e9\\n\"},{}],\"z\":\"\xc3\xa9\"}";
    static const char alphabet[] = "{}[]\",:\\ue0129-+. tfnul\xc3\xa9\x01";
    uint64_t state = 88172645463325252ULL;
    unsigned taken = 0, wrong = 0;

    for (unsigned round = 0; round < 60000; round++) {
        size_t n = sizeof(seed_text) - 1;
        char *copy = must_zalloc(n);

        memcpy(copy, seed_text, n);
        for (uint64_t k = next_random(&state) % 4; k > 0; k--)
            copy[next_random(&state) % n] = alphabet[next_random(&state) % (sizeof(alphabet) - 1)];
        if (next_random(&state) % 8 == 0)
            n = next_random(&state) % n;
        if (accepts(slice_of(copy, n), 32)) {
            taken++;
            if (!json_c_accepts(copy, n) && wrong++ < 5)
                diag("only we accept: %.*s", (int)n, copy);
        }
        mem_free(copy);
    }
    ok(taken > 1000, "%u mutations are still JSON", taken);
    is_u64(wrong, 0, "json-c agrees on all of them (seed 88172645463325252)");
}

static void test_object(void)
{
    static const struct {
        const char *text, *why; /* NULL: it is one */
    } rows[] = {
        {" {\"a\":[1]}\n", NULL},
        {"{}", NULL},
        {"", "not JSON: truncated"},
        {"null", "not a JSON object"},
        {"[{}]", "not a JSON object"},
        {"{} x", "not JSON: something follows the document"},
        {"{\"a\":[[]]}", "not JSON: nested too deeply"},
    };
    struct slice object;

    for (size_t i = 0; i < ROWS(rows); i++) {
        struct err err = {.text = ""};

        ok(jscan_object(slice_str(rows[i].text), 2, &object, &err) == (rows[i].why == NULL), "an object? %s",
           rows[i].text);
        is_str(err.text, rows[i].why == NULL ? "" : rows[i].why, "why not");
    }
    object = SLICE_LIT("{\"n\":1,\"x\":\"\",\"e\":\"\\u0041\",\"v\":\"v1\",\"v\":\"v2\"}");
    is_slice(jscan_get_inside(object, SLICE_LIT("v")), "v1", "a text; of two the first");
    is_slice(jscan_get_inside(object, SLICE_LIT("e")), "\\u0041", "as it stands");
    is_slice(jscan_get_inside(object, SLICE_LIT("n")), "", "a number is no text");
    is_slice(jscan_get_inside(object, SLICE_LIT("m")), "", "nor is what is not there");
    is_slice(jscan_get_inside(SLICE_LIT("[]"), SLICE_LIT("v")), "", "nor anything of an array");
}

int main(void)
{
    struct arena *a = arena_new(1 << 16);

    test_syntax();
    test_bytes();
    test_depth();
    test_walk(a);
    test_object();
    test_mutations();
    arena_free(a);
    return tap_end();
}
