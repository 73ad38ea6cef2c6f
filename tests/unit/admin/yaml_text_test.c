/* SPDX-License-Identifier: Apache-2.0 */
/* JSON as YAML: what is quoted and what is not, and that libyaml reads the same again. */
#include "admin/yaml_text.h"

#include <stdio.h>
#include <yaml.h>

#include "lib/tap.h"

static const struct {
    const char *json, *yaml;
} rows[] = {
    {"{}", "{}\n"},
    {"[]", "[]\n"},
    {"{\"a\":{},\"b\":[]}", "a: {}\nb: []\n"},
    {"{\"a\":[1,-2.5e3,true,false,null]}", "a:\n- 1\n- -2.5e3\n- true\n- false\n- null\n"},
    {"{\"a\":[{\"b\":1,\"c\":[2,[3]]}]}", "a:\n- b: 1\n  c:\n  - 2\n  - - 3\n"},
    {"[\"plain\",\"/metrics/slis\",\"v1.33.0\",\"a-b_c\"]", "- plain\n- /metrics/slis\n- v1.33.0\n- a-b_c\n"},
    {"[\"\",\"1\",\"1.5\",\"-\",\".5\",\"0x1\",\"2026-11-23\"]",
     "- \"\"\n- \"1\"\n- \"1.5\"\n- \"-\"\n- \".5\"\n- \"0x1\"\n- \"2026-11-23\"\n"},
    {"[\"yes\",\"No\",\"ON\",\"off\",\"y\",\"N\",\"true\",\"False\",\"null\",\"~\"]",
     "- \"yes\"\n- \"No\"\n- \"ON\"\n- \"off\"\n- \"y\"\n- \"N\"\n- \"true\"\n- \"False\"\n- \"null\"\n- \"~\"\n"},
    {"[\"a: b\",\"a #b\",\"*a\",\"&a\",\"!a\",\"[a\",\"a]\",\"{\",\"%\",\"@\",\"`\",\"|\",\">\",\"- a\",\"?\"]",
     "- \"a: b\"\n- \"a #b\"\n- \"*a\"\n- \"&a\"\n- \"!a\"\n- \"[a\"\n- \"a]\"\n- \"{\"\n- \"%\"\n- \"@\"\n- \"`\"\n- "
     "\"|\"\n"
     "- \">\"\n- \"- a\"\n- \"?\"\n"},
    {"[\"\\u0000\\u001b[31m\\n\\\"\\\\\\/\"]", "- \"\\0\\e[31m\\n\\\"\\\\/\"\n"},
    {"[\"\\u00e4 \\ud83d\\ude00 \xc3\xa4\"]", "- \"\xc3\xa4 \\U0001F600 \xc3\xa4\"\n"},
    {"{\"y\":1,\"a b\":2,\"1\":3}", "\"y\": 1\n\"a b\": 2\n\"1\": 3\n"},
    {"\"alone\"", "alone\n"},
};

static void test_rows(struct buf *out)
{
    for (size_t i = 0; i < ROWS(rows); i++) {
        buf_reset(out);
        ok(yaml_text_from_json(slice_str(rows[i].json), out), "%s", rows[i].json);
        is_slice(buf_slice(out), rows[i].yaml, "as YAML");
    }
}

static void test_refused(void)
{
    static const char *const bad[] = {"", "{", "[1,]", "{\"a\"}", "[1]2", "nul", "[\"\\ud800\"]"};
    struct buf out;

    for (size_t i = 0; i < ROWS(bad); i++) {
        buf_init(&out, 1 << 16);
        ok(!yaml_text_from_json(slice_str(bad[i]), &out) && out.failed, "no JSON: %s", bad[i]);
        buf_free(&out);
    }
    for (size_t depth = YAML_TEXT_DEPTH - 1; depth <= YAML_TEXT_DEPTH + 1; depth++) {
        char text[2 * YAML_TEXT_DEPTH + 4];

        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        buf_init(&out, 1 << 16);
        is_int(yaml_text_from_json(slice_of(text, 2 * depth), &out), depth <= YAML_TEXT_DEPTH, "%zu levels", depth);
        buf_free(&out);
    }
    buf_init(&out, 8);
    ok(!yaml_text_from_json(SLICE_LIT("[\"longer than that\"]"), &out) && out.failed, "no room");
    buf_free(&out);
}

/* Whatever a string is made of, libyaml reads it as this string. */
static void test_read_again(struct buf *out)
{
    size_t wrong = 0;

    for (unsigned c = 0; c < 128 * 128; c++) {
        char json[64];
        unsigned char want[2] = {(unsigned char)(c / 128), (unsigned char)(c % 128)};
        yaml_parser_t parser;
        yaml_document_t document;
        const yaml_node_t *root;

        (void)snprintf(json, sizeof(json), "\"\\u%04x\\u%04x\"", want[0], want[1]);
        buf_reset(out);
        yaml_parser_initialize(&parser);
        if (!yaml_text_from_json(slice_str(json), out)) {
            wrong++;
        } else {
            yaml_parser_set_input_string(&parser, (const unsigned char *)buf_slice(out).p, buf_len(out));
            if (yaml_parser_load(&parser, &document) != 1) {
                wrong++;
            } else {
                root = yaml_document_get_root_node(&document);
                wrong += root == NULL || root->type != YAML_SCALAR_NODE || root->data.scalar.length != 2 ||
                         memcmp(root->data.scalar.value, want, 2) != 0;
                yaml_document_delete(&document);
            }
        }
        yaml_parser_delete(&parser);
    }
    is_int((int)wrong, 0, "each string of two characters is read as it was");
}

int main(void)
{
    struct buf out;

    buf_init(&out, 1 << 16);
    test_rows(&out);
    test_refused();
    test_read_again(&out);
    buf_free(&out);
    return tap_end();
}
