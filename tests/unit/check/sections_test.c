/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of the daemon's own checks become findings: what is wrong, and what to do. */
#include "check/sections.h"

#include <stdio.h>

#include "lib/tap.h"

enum { ROOM = 1 << 16 };

#define MARKED(mark, text, remedy) "configuration\n" mark " " text "\n    what to do: " remedy "\n\n"

static void lines(void)
{
    static const struct {
        const char *line, *want;
    } rows[] = {
        {"/etc/m.yaml:3:1: v: must be between 0 and 10",
         MARKED("XX", "/etc/m.yaml:3:1: v: must be between 0 and 10", "read")},
        {"/etc/m.yaml:3:12: apiserver: is this proxy itself (bind-address): let it listen elsewhere",
         MARKED("XX", "/etc/m.yaml:3:12: apiserver: is this proxy itself (bind-address)", "let it listen elsewhere")},
        {"tls-cert-file: /a/b: No such file: give a path",
         MARKED("XX", "tls-cert-file: /a/b: No such file", "give a path")},
        {"warning: f:1:1: client-ca-file: none: users are refused",
         MARKED("!!", "f:1:1: client-ca-file: none", "users are refused")},
        {"command line: --confg: unknown option: did you mean --config?",
         MARKED("XX", "command line: --confg: unknown option", "did you mean --config?")},
        {"/a:1:odd name/m.yaml:3:1: v: wrong", MARKED("XX", "/a:1:odd name/m.yaml:3:1: v: wrong", "read")},
        {"f:2:4: a tab where blanks belong: indent with blanks",
         MARKED("XX", "f:2:4: a tab where blanks belong", "indent with blanks")},
        {"f:2:4: v: must be a value: write \"v: VALUE\", or \"- \"",
         MARKED("XX", "f:2:4: v: must be a value", "write \"v: VALUE\", or \"- \"")},
        {"out of memory", MARKED("XX", "out of memory", "read")},
        {":", MARKED("XX", ":", "read")},
        {": : ", MARKED("XX", ": : ", "read")},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct scene s = {.f = findings_new()};
        struct buf out;

        buf_init(&out, ROOM);
        findings_enter(s.f, CHECK_CONFIGURATION);
        sections_take_lines(&s, "x", slice_str(rows[i].line), "read");
        findings_print_text(s.f, false, &out);
        ok(slice_has_prefix(buf_slice(&out), slice_str(rows[i].want)), "%s: %.*s", rows[i].line, (int)buf_len(&out),
           buf_slice(&out).p);
        buf_free(&out);
        findings_free(s.f);
    }
}

int main(void)
{
    lines();
    return tap_end();
}
