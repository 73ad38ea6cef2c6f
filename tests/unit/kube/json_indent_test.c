/* SPDX-License-Identifier: Apache-2.0 */
/* JSON laid out for people: as a real kube-apiserver does it, in pieces of any size. */
#include "kube/json_indent.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/limits.h"
#include "lib/tap.h"

static void read_file(const char *name, struct buf *out)
{
    const char *src = getenv("top_srcdir");
    char path[512];
    FILE *f;
    int c;

    (void)snprintf(path, sizeof(path), "%s/tests/unit/kube/vectors/%s", src == NULL ? "." : src, name);
    f = fopen(path, "rb");
    if (f == NULL)
        tap_bail("cannot read %s", path);
    buf_init(out, 1 << 20);
    while ((c = getc(f)) != EOF)
        buf_append_char(out, (char)c);
    (void)fclose(f);
}

static bool indent(struct slice compact, size_t most, size_t ceiling, struct buf *out)
{
    struct json_indenter j = {.rest = compact};
    bool good = true;

    buf_init(out, ceiling);
    while (good && j.rest.n > 0)
        good = json_indent_some(&j, most, out);
    return good;
}

static void real_answer(void)
{
    static const size_t pieces[] = {1, 100, 64 << 10, SIZE_MAX};
    struct buf compact, pretty, out;

    read_file("discovery-1.36.3-v2.json", &compact);
    read_file("discovery-1.36.3-v2.pretty", &pretty);
    for (size_t i = 0; i < ROWS(pieces); i++) {
        struct slice text = buf_slice(&compact);

        text.n--; /* the line feed behind the compact form: the other has none */
        ok(indent(text, pieces[i], 1 << 20, &out), "in pieces of %zu", pieces[i]);
        ok(slice_eq(buf_slice(&out), buf_slice(&pretty)), "as kube-apiserver lays it out");
        buf_free(&out);
    }
    buf_free(&compact);
    buf_free(&pretty);
}

static void lengths(void)
{
    static const char compact[] = "[1,{\"a\":\"bc\"}]";
    size_t whole = sizeof("[\n  1,\n  {\n    \"a\": \"bc\"\n  }\n]") - 1;

    ok(json_indent_is_over(SLICE_LIT(compact), 3), "even the compact form is longer");
    ok(json_indent_is_over(SLICE_LIT(compact), whole - 1), "longer by a byte");
    ok(!json_indent_is_over(SLICE_LIT(compact), whole), "not longer");
}

static const struct {
    const char *name, *compact, *want;
} rows[] = {
    {"a word", "null", "null"},
    {"empty ones", "{\"a\":[],\"b\":{}}", "{\n  \"a\": [],\n  \"b\": {}\n}"},
    {"marks in texts", "[\"{,:}\\\"[\",\"\\\\\"]", "[\n  \"{,:}\\\"[\",\n  \"\\\\\"\n]"},
    {"a text without an end", "[\"abc", "[\n  \"abc"},
    {"ends only", "]}", "\n]\n}"},
};

static void shapes(void)
{
    struct buf out;

    for (size_t i = 0; i < ROWS(rows); i++) {
        ok(indent(slice_str(rows[i].compact), 1, 1000, &out), "%s", rows[i].name);
        is_slice(buf_slice(&out), rows[i].want, "%s: laid out", rows[i].name);
        buf_free(&out);
    }
    ok(!indent(SLICE_LIT("[1,2,3]"), SIZE_MAX, 10, &out), "a buffer's ceiling");
    buf_free(&out);
}

static void deep(void)
{
    struct buf text, out;

    buf_init(&text, 1000);
    for (int i = 0; i <= LIMIT_DISCOVERY_DEPTH; i++)
        buf_append_str(&text, "[1,");
    ok(!indent(buf_slice(&text), SIZE_MAX, 1 << 20, &out), "too deep");
    ok(!json_indent_is_over(buf_slice(&text), buf_len(&text)), "and then of no length");
    buf_free(&text);
    buf_free(&out);
}

int main(void)
{
    real_answer();
    lengths();
    shapes();
    deep();
    return tap_end();
}
