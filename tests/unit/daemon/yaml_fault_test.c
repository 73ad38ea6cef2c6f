/* SPDX-License-Identifier: Apache-2.0 */
/* What is said of a text that is no YAML: at the place where the fault was made, in words for who wrote it. */
#include "daemon/yaml_tree.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/tap.h"

#define TAB "a tab where YAML wants blanks: indent with blanks\n"
#define QUOTE "the quote that opens here does not end: close it\n"
#define BLANK "a blank is missing behind the colon: write \"v: VALUE\"\n"
#define INDENTED "this line is indented and belongs to nothing: begin it in the column of the options around it\n"
#define MERGE "a conflict of a merge that is not resolved: keep one side, and take the marks out\n"
#define START(c) "a value cannot begin with \"" c "\": put the value in quotes\n"
#define EQUALS(name) "a \"=\" where a colon belongs: write \"" name ": VALUE\", or \"- \" before an entry of a list\n"
#define NO_OPTION "not an option and its value: write \"OPTION: VALUE\"\n"
#define UTF8 "not UTF-8 from here: save the file as UTF-8, or write the character in plain letters\n"
#define ESCAPE "no such character behind \"\\\" in double quotes: write \"\\\\\" for one \"\\\", or use single quotes\n"
#define MISSING "a value is missing before this, or a bracket does not end: write the value, or close the bracket\n"
#define FOLLOWS "something follows the value: put the whole value in quotes, or take the rest away\n"
#define BRACKET(a, b) "the bracket \"" a "\" that opens here does not end: close it with \"" b "\"\n"
#define ANY "not an option and its value: write \"OPTION: VALUE\", and quote values with special characters\n"
#define TEXT(s) s, sizeof(s) - 1

static const struct {
    const char *text;
    size_t n;
    const char *want;
} faults[] = {
    {TEXT("a: 1\nb: \"x\nc: 2\n"), "F:2:4: " QUOTE},
    {TEXT("a: 1\nb: 'x\nc: 2\n"), "F:2:4: " QUOTE},
    {TEXT("a: \"x\nb: \"y\nc: 2\n"), "F:1:4: the quote that opens here does not end in its line: close it\n"},
    {TEXT("a: \"x\" y\nc: 2\n"),
     "F:1:8: something follows the value: put the whole value in quotes, or take the rest away\n"},
    {TEXT("a: [x, y\nb: 1\n"), "F:1:4: the bracket \"[\" that opens here does not end: close it with \"]\"\n"},
    {TEXT("a: [x,\n  y\n"), "F:1:4: the bracket \"[\" that opens here does not end: close it with \"]\"\n"},
    {TEXT("a: {x: 1\nb: 1\n"), "F:1:4: the bracket \"{\" that opens here does not end: close it with \"}\"\n"},
    {TEXT("a: [x,\n  \"y\" \"z\"]\n"), "F:2:7: a comma is missing before this, in the list of line 1: add it\n"},
    {TEXT("a: [x,\n\"y\" \"z\"]\n"), "F:2:5: a comma is missing before this, in the list of line 1: add it\n"},
    {TEXT("a: [x,\n  \"y\": \"1\" \"z\"]\n"),
     "F:2:12: a comma is missing before this, in the list of line 1: add it\n"},
    {TEXT("a: [b: \"1\" \"z\"]\n"), "F:1:12: a comma is missing before this, in the list of line 1: add it\n"},
    {TEXT("a: [x\nb: [y]\n"), "F:1:4: the bracket \"[\" that opens here does not end: close it with \"]\"\n"},
    {TEXT("a: [\"x\" \"y\"]\n"), "F:1:9: a comma is missing before this, in the list of line 1: add it\n"},
    {TEXT("a:\n\t- x\n"), "F:2:1: " TAB},
    {TEXT("a:\n  \t- x\n"), "F:2:3: " TAB},
    {TEXT("a: 1\n\tv: 1\n"), "F:2:1: " TAB},
    {TEXT("a: 1\nv:1\nb: 2\n"), "F:2:3: " BLANK},
    {TEXT("v:1\nb: 2\n"), "F:1:3: " BLANK},
    {TEXT("b: 2\nv:1\n"), "F:2:3: " BLANK},
    {TEXT("\xef\xbb\xbfv:1\r\nb: 2\r\n"), "F:1:3: " BLANK},
    {TEXT("a: 1\nv=1\nb: 2\n"), "F:2:2: " EQUALS("v")},
    {TEXT("a:\ncp-2=10.0.0.2:6443\nb: 2\n"), "F:2:5: " EQUALS("cp-2")},
    {TEXT("a: 1\n v: 1\n"), "F:2:2: " INDENTED},
    {TEXT(" a: 1\nv: 1\n"), "F:2:1: this line does not begin in column 2, as those before it do: begin it there\n"},
    {TEXT("a: 1\n# x\n\nhello\nb: 2\n"),
     "F:4:1: not an option and its value: write \"OPTION: VALUE\", and quote values "
     "with special characters\n"},
    {TEXT("hello\n\nb: 2\n"), "F:1:1: " NO_OPTION},
    {TEXT("a: https: //x\n"), "F:1:9: a second \": \" in one line: put the value in quotes\n"},
    {TEXT("a: @x\n"), "F:1:4: " START("@")},
    {TEXT("a: %x\n"), "F:1:4: " START("%")},
    {TEXT("a: `x\n"), "F:1:4: " START("`")},
    {TEXT("a: *\n"), "F:1:5: a value that begins with \"*\" or \"&\": put the value in quotes\n"},
    {TEXT("a: |x\n"),
     "F:1:5: a value that begins with \"|\" or \">\", which is for several lines: put the value in quotes\n"},
    {TEXT("a: - x\n"),
     "F:1:4: an entry of a list cannot stand here: give it a line of its own below the option: \"- VALUE\"\n"},
    {TEXT("a:\n  - x\n  y: 1\n"), "F:3:3: not an entry of the list above: begin it with \"- \", in the same column\n"},
    {TEXT("a: 1\n<<<<<<< HEAD\nb: 1\n=======\nb: 2\n>>>>>>> x\n"), "F:2:1: " MERGE},
    {TEXT("<<<<<<< HEAD\nb: 1\n=======\nb: 2\n>>>>>>> x\n"), "F:1:1: " MERGE},
    {TEXT("a: 1\nb:\xc2\xa0"
          "1\nc: 2\n"),
     "F:2:3: no-break space (U+00A0) in place of a blank: put a plain one there\n"},
    {TEXT("a: \xc3\xbc\nb: \xfc\n"), "F:2:4: " UTF8},
    {TEXT("a: \xc3\xbc \xfc\n"), "F:1:6: " UTF8},
    {TEXT("a: 1\nb: x\0y\n"), "F:2:5: control character U+0000: take it out\n"},
    {TEXT("a: 1\nb: x\x1b\n"), "F:2:5: control character U+001B: take it out\n"},
    {TEXT("a: \"c\\p\"\n"), "F:1:6: " ESCAPE},
    {TEXT("a: \"c\\xzz\"\n"), "F:1:8: " ESCAPE},
    {TEXT("a: {{ x }}\n"), "F:1:5: a template's placeholder (\"{{\") that is not filled in: put its value here\n"},
    {TEXT("a: [\n"),
     "F:2:1: a value is missing before this, or a bracket does not end: write the value, or close the bracket\n"},
    {TEXT("a: [x,, y]\n"), "F:1:7: nothing stands before this comma: take the comma out\n"},
    {TEXT("a: 1\n=======\nb: 2\n"), "F:2:1: " MERGE},
    {TEXT("a: 1\n>>>>>>> x\nb: 2\n"), "F:2:1: " MERGE},
    {TEXT("a: 1\n||||||| x\nb: 2\n"), "F:2:1: " MERGE},
    {TEXT("a: [\n"), "F:2:1: " MISSING},
    {TEXT("a: {\n"), "F:2:1: " MISSING},
    {TEXT("a: x\nb: ["), "F:3:1: " MISSING},
    {TEXT("a: {b"), "F:1:4: " BRACKET("{", "}")},
    {TEXT("\357\273\277\374\n"), "F:1:1: " UTF8},
    {TEXT("\357\273\277a: \001\n"), "F:1:4: control character U+0001: take it out\n"},
    {TEXT("a: 'it''s\nb: 2\nc: '3'\n"), "F:3:5: " FOLLOWS},
    {TEXT("a: '\nb: 2\n"), "F:1:4: " QUOTE},
    {TEXT("a: 'x' 'y\nb: 1\n"), "F:1:8: " QUOTE},
    {TEXT("a: 1\n  \tb: 2\n"), "F:2:3: " TAB},
    {TEXT("a:\n  b: 1\n \t c: 2\n"), "F:3:2: " TAB},
    {TEXT("\n\na: [x\n\nc: ]\n"), "F:3:4: " BRACKET("[", "]")},
    {TEXT("a:\n - [x, y\n - z\n"), "F:2:4: " BRACKET("[", "]")},
    {TEXT("a: 1\nb:\342\200\2132\n"), "F:2:3: special space (U+200B) in place of a blank: put a plain one there\n"},
    {TEXT("a: 1\nb:2 # \302\240\n"), "F:2:3: a blank is missing behind the colon: write \"b: VALUE\"\n"},
    {TEXT("a: 1\nb # \302\240\nc: 2\n"),
     "F:2:1: not an option and its value: write \"OPTION: VALUE\", and quote values with special characters\n"},
    {TEXT("a: 1\n- b\n"), "F:2:1: " FOLLOWS},
    {TEXT("- a\nb: 1\n"), "F:2:1: not an entry of the list above: begin it with \"- \", in the same column\n"},
    {TEXT(" - a\n- b\n"), "F:2:1: this line does not begin in column 2, as those before it do: begin it there\n"},
    {TEXT("a: !<x\n"), "F:1:7: a value that begins with \"!\": put the value in quotes\n"},
    {TEXT("%x\na: 1\n"), "F:1:3: a line that begins with \"%\": take it out\n"},
    {TEXT("%YAML 3\n---\na: 1\n"), "F:1:8: a line that begins with \"%\": take it out\n"},
    {TEXT("a: 1\n---\nb: 2\n"), "F:2:1: a second document begins here: give one, without \"---\" in between\n"},
    {TEXT("a: 1\n...\nb\n c: 2\n"), "F:3:1: " FOLLOWS},
    {TEXT("a: 1\n...\n b: 2\n"),
     "F:3:2: this line does not begin in column 1, as those before it do: begin it there\n"},
    {TEXT("a: b: c\n"), "F:1:5: a second \": \" in one line: put the value in quotes\n"},
    {TEXT("a: b\n  c: d\n"), "F:2:3: " INDENTED},
    {TEXT("a: b\n  c: d: e\n"), "F:2:3: " INDENTED},
    {TEXT("? a\n: [\n"), "F:3:1: " MISSING},
    {TEXT("a: \"\\u12\"\n"), "F:1:7: " ESCAPE},
    {TEXT("a: \"\\Uffffffff\"\n"), "F:1:7: " ESCAPE},
    {TEXT("a: \"\\ud800\"\n"), "F:1:7: " ESCAPE},
    {TEXT("a: &\n"), "F:1:5: a value that begins with \"*\" or \"&\": put the value in quotes\n"},
    {TEXT("a: *b\n"), "F:1:4: aliases are not supported: write the value itself, in quotes if it begins with \"*\"\n"},
    {TEXT("a: ]\n"), "F:1:4: " MISSING},
    {TEXT("a: }\n"), "F:1:4: " MISSING},
    {TEXT("]\n"), "F:1:1: " MISSING},
    {TEXT("a: >x\nb: 1\n"),
     "F:1:5: a value that begins with \"|\" or \">\", which is for several lines: put the value in quotes\n"},
    {TEXT("a: |0\n"),
     "F:1:5: a value that begins with \"|\" or \">\", which is for several lines: put the value in quotes\n"},
    {TEXT("a: 1\nb: 2 c: 3\n"), "F:2:7: a second \": \" in one line: put the value in quotes\n"},
    {TEXT("a=1\nb: 2\n"),
     "F:1:2: a \"=\" where a colon belongs: write \"a: VALUE\", or \"- \" before an entry of a list\n"},
    {TEXT("a: 1\nabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz=1\nb: 2\n"),
     "F:2:79: a \"=\" where a colon belongs: write \"abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijkl: "
     "VALUE\", or \"- \" before an entry of a list\n"},
    {TEXT("a: 1\nabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz:1\nb: 2\n"),
     "F:2:80: a blank is missing behind the colon: write "
     "\"abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijkl: VALUE\"\n"},
    {TEXT("a: \"x\"y\"\n"), "F:1:7: " FOLLOWS},
    {TEXT("a: 'x'y\n"), "F:1:7: " FOLLOWS},
    {TEXT("a: \"x\"\n b: 1\n"), "F:2:2: this line does not begin in column 1, as those before it do: begin it there\n"},
    {TEXT("\ta: 1\n"), "F:1:1: " TAB},
    {TEXT("a: \t- b\n"),
     "F:1:5: an entry of a list cannot stand here: give it a line of its own below the option: \"- VALUE\"\n"},
    {TEXT("a: \t@\n"), "F:1:5: " START("@")},
    {TEXT("a: \177\n"), "F:1:4: control character U+007F: take it out\n"},
    {TEXT("a: \302\205 \200\n"), "F:1:6: " UTF8},
    {TEXT("a: \357\277\277\n"), "F:1:4: control character U+FFFF: take it out\n"},
    {TEXT("a: \357\277\276\n"), "F:1:4: control character U+FFFE: take it out\n"},
    {TEXT("a: ~\177\n"), "F:1:5: control character U+007F: take it out\n"},
    {TEXT("a: [x,\r\n  y\r\nb: 1\r\n"), "F:1:4: " BRACKET("[", "]")},
    {TEXT("a: 1\r\nb=2\r\nc: 3\r\n"),
     "F:2:2: a \"=\" where a colon belongs: write \"b: VALUE\", or \"- \" before an entry of a list\n"},
    {TEXT("a: [b, c]]\n"), "F:1:10: " FOLLOWS},
    {TEXT("a: [b, c}\n"), "F:1:4: " BRACKET("[", "]")},
    {TEXT("a: {b: c]\n"), "F:1:4: " BRACKET("{", "}")},
    {TEXT("a: {b: 1 \"c\": 2}\n"), "F:1:13: a comma is missing before this, in the list of line 1: add it\n"},
    {TEXT("a: {b: \"1\" \"c\": 2}\n"), "F:1:12: a comma is missing before this, in the list of line 1: add it\n"},
    {TEXT("a: {\"b\": 1 c\n"), "F:1:4: " BRACKET("{", "}")},
    {TEXT("a: {x: 1, y: [\nb: 2\n"), "F:1:14: " BRACKET("[", "]")},
    {TEXT("a: [x, {y: 1]\nb: 2\n"), "F:1:8: " BRACKET("{", "}")},
    {TEXT("a: @\n"), "F:1:4: " START("@")},
    {TEXT("a: 1\nb: `"), "F:2:4: " START("`")},
    {TEXT("a: %\n"), "F:1:4: " START("%")},
    {TEXT("a: [@x]\n"), "F:1:5: " START("@")},
    {TEXT("a: [x\ty]\nb: [\t@]\n"), "F:2:6: " START("@")},
    {TEXT("a: 1\n\n# c\n\n\nb\n"),
     "F:6:1: not an option and its value: write \"OPTION: VALUE\", and quote values with special characters\n"},
    {TEXT("x\ny: 1\n"), "F:1:1: not an option and its value: write \"OPTION: VALUE\"\n"},
    {TEXT("x y\nz: 1\n"), "F:1:1: not an option and its value: write \"OPTION: VALUE\"\n"},
    {TEXT("a:\n- b\n - c: d\n e\n"), "F:3:2: " INDENTED},
    {TEXT("a: -\n  - b\n c: 1\n"),
     "F:1:4: an entry of a list cannot stand here: give it a line of its own below the option: \"- VALUE\"\n"},
    {TEXT("a: b\n\n c: d\n"), "F:3:2: " INDENTED},
    {TEXT("--- foo: 1\n"), "F:1:8: not an option and its value: write \"OPTION: VALUE\", and quote values with special "
                           "characters\n"},
    {TEXT("--- |\n a\nb: 1\n"), "F:3:1: this line does not begin in column 2, as those before it do: begin it there\n"},
    {TEXT("\"a\n b\": 1\n"), "F:2:2: " INDENTED},
    {TEXT("# x\n\nfoo\nbar: 1\n"), "F:3:1: " NO_OPTION},
    {TEXT("a: [b\n c d:]\n"), "F:1:5: " ANY},
    {TEXT("a: &b\n  !e!x c\n"), "F:1:4: " ANY},
    {TEXT("[a]: 1\n"), "F:1:1: a name must be a plain word: write \"NAME: VALUE\"\n"},
};

static void test_faults(void)
{
    for (size_t i = 0; i < ROWS(faults); i++) {
        struct arena *a = arena_new(1 << 20);
        struct yaml_node *root;
        struct buf errors;

        buf_init(&errors, 1 << 16);
        ok(!yaml_tree_parse("F", slice_of(faults[i].text, faults[i].n), a, &root, &errors), "it is refused");
        is_slice(buf_slice(&errors), faults[i].want, "%s", faults[i].text);
        buf_free(&errors);
        arena_free(a);
    }
}

/* However many lines: each look at them is one. */
static void test_long(void)
{
    enum { LINES = 300000 };
    struct arena *a = arena_new(1 << 20);
    struct yaml_node *root;
    struct buf text, errors;

    buf_init(&text, 1 << 20);
    buf_init(&errors, 1 << 16);
    for (size_t i = 0; i < LINES; i++)
        buf_append_str(&text, "#\n");
    buf_append_str(&text, "a: \"x\" y\n");
    ok(!yaml_tree_parse("F", buf_slice(&text), a, &root, &errors), "it is refused");
    ok(buf_len(&errors) > 0 && slice_has_prefix(buf_slice(&errors), SLICE_LIT("F:300001:8: ")), "in its line");
    buf_free(&errors);
    buf_free(&text);
    arena_free(a);
}

/* Not read at all, and given back. */
static void files(void)
{
    static const char *const wrong[] = {
        "/none: No such file or directory: give the path of a YAML file\n",
        "/: not a regular file: give the path of a YAML file\n",
        "/dev/null: not a regular file: give the path of a YAML file\n",
    };
    int before = dup(STDERR_FILENO), after;

    (void)close(before);
    for (size_t i = 0; i < ROWS(wrong); i++) {
        struct arena *a = arena_new(1 << 20);
        struct slice text, path = slice_str(wrong[i]);
        struct buf errors;
        char name[32];

        buf_init(&errors, 1 << 12);
        (void)snprintf(name, sizeof(name), "%.*s", (int)slice_index(path, ':'), path.p);
        ok(!yaml_tree_read(name, a, &text, &errors), "%s cannot be read", name);
        is_slice(buf_slice(&errors), wrong[i], "why");
        buf_free(&errors);
        arena_free(a);
    }
    after = dup(STDERR_FILENO);
    is_int(after, before, "nothing stays open");
    (void)close(after);
}

/* Who asks is told what he may do about it. */
static void not_his(void)
{
    enum { NOBODY = 65534 };
    char path[] = "/tmp/yaml_fault_test.XXXXXX", want[200];
    struct arena *a = arena_new(1 << 20);
    struct buf errors;
    struct slice text;
    int fd = mkstemp(path);

    if (fd < 0)
        tap_bail("no file");
    (void)close(fd);
    buf_init(&errors, 1 << 12);
    if (geteuid() != 0 || chmod(path, 0) != 0 || seteuid(NOBODY) != 0) {
        tap_skip("only root can play others", "a file of somebody else");
    } else {
        ok(!yaml_tree_read(path, a, &text, &errors), "a file of somebody else");
        (void)snprintf(want, sizeof(want), "%s: Permission denied: let the user that the service runs as read it\n",
                       path);
        is_slice(buf_slice(&errors), want, "why");
        if (seteuid(0) != 0)
            tap_bail("seteuid");
    }
    (void)unlink(path);
    buf_free(&errors);
    arena_free(a);
}

static bool has_parser = true;

/* In place of libyaml's. */
int yaml_parser_initialize(void *p);
int yaml_parser_initialize(void *p)
{
    int (*real)(void *) = NULL;

    *(void **)&real = dlsym(RTLD_NEXT, "yaml_parser_initialize");
    return has_parser ? real(p) : 0;
}

static void no_parser(void)
{
    struct arena *a = arena_new(1 << 16);
    struct yaml_node *root;
    struct buf errors;

    buf_init(&errors, 1 << 12);
    has_parser = false;
    ok(!yaml_tree_parse("F", SLICE_LIT("a: 1\n"), a, &root, &errors) && root == NULL, "libyaml has no memory");
    is_slice(buf_slice(&errors), "F: out of memory\n", "is said");
    has_parser = true;
    ok(yaml_tree_parse("F", SLICE_LIT("a: 1\n"), a, &root, &errors) && root != NULL, "it has");
    buf_free(&errors);
    arena_free(a);
}

int main(void)
{
    test_faults();
    test_long();
    files();
    not_his();
    no_parser();
    return tap_end();
}
