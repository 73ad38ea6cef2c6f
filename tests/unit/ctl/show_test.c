/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What mvproxyctl makes of the daemon's answers, text for text. Each block of show.golden is a line "== COMMAND
 * STATUS", a line of JSON, and what is printed. "== COMMAND STATUS on a terminal": with its colours, whose escape
 * sequences begin with ^ there.
 */
#include "ctl/show.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "ctl/show_skew.h"
#include "lib/tap.h"

enum { GOLDEN_BYTES = 64 << 10 };

static const struct {
    const char *name;
    bool (*show)(struct json_object *result);
} commands[] = {
    {"status", show_status},   {"peers", show_peers},       {"skew", show_skew},     {"upgrade", show_upgrade},
    {"explain", show_explain}, {"requests", show_requests}, {"reload", show_reload}, {"level", show_level},
    {"config", show_config},   {"certs", show_certs},       {"drain", show_drain},   {"version", show_version},
    {"metrics", show_metrics},
};

static bool run(struct slice command, struct slice json)
{
    if (slice_eq(command, SLICE_LIT("json"))) {
        show_json(json, stdout);
        return true;
    }
    for (size_t i = 0; i < ROWS(commands); i++)
        if (slice_eq(command, slice_str(commands[i].name))) {
            char *text = mem_slicedup(json);
            struct json_object *o = json_tokener_parse(text);
            bool good;

            show_printable(o);
            good = commands[i].show(o);
            json_object_put(o);
            mem_free(text);
            return good;
        }
    tap_bail("%.*s: no such command", (int)command.n, command.p);
}

/* What is written to `*stream` meanwhile. */
static char *printed(FILE **stream, struct slice command, struct slice json, bool *good)
{
    FILE *real = *stream;
    char *text = NULL;
    size_t n = 0;

    *stream = open_memstream(&text, &n);
    if (*stream == NULL)
        tap_bail("no memory");
    *good = run(command, json);
    (void)fclose(*stream);
    *stream = real;
    return text;
}

/* Standard output as it was. */
static int real_output;

static bool begin_terminal(void)
{
    int master = posix_openpt(O_RDWR | O_NOCTTY), slave = -1;

    if (master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0)
        slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    if (slave < 0)
        return false;
    (void)fflush(stdout);
    real_output = dup(STDOUT_FILENO);
    (void)dup2(slave, STDOUT_FILENO);
    (void)close(slave);
    return true; /* the other end stays open: a terminal without one is none */
}

static void end_terminal(char *text)
{
    (void)dup2(real_output, STDOUT_FILENO);
    (void)close(real_output);
    while ((text = strchr(text, '\033')) != NULL)
        *text = '^';
}

static void check_block(struct slice block)
{
    struct slice heading, command, status, json;
    char *text;
    bool good;

    (void)slice_split(&block, '\n', &heading);
    (void)slice_split(&block, '\n', &json);
    (void)slice_split(&heading, ' ', &command);
    (void)slice_split(&heading, ' ', &status);
    if (heading.n > 0 && !begin_terminal()) {
        tap_skip("there are no terminals here", "%.*s on a terminal", (int)command.n, command.p);
        return;
    }
    text = printed(slice_eq(status, SLICE_LIT("refused")) ? &stderr : &stdout, command, json, &good);
    if (heading.n > 0)
        end_terminal(text);
    ok(good == slice_eq(status, SLICE_LIT("0")), "%.*s: exit status", (int)command.n, command.p);
    ok(slice_eq(slice_str(text), block), "%.*s: text", (int)command.n, command.p);
    if (!slice_eq(slice_str(text), block))
        fprintf(stderr, "== %.*s\n%s", (int)command.n, command.p, text);
    free(text);
}

/* Programs read it: it stays the same JSON, but for bytes that are no text. */
static void check_json(void)
{
    bool good;
    char *text =
        printed(&stdout, SLICE_LIT("json"), SLICE_LIT("{\"a\":\"\x1b[31m\xe2\x80\xae \xc3\xbc\xff\"}\n"), &good);

    is_str(text, "{\"a\":\"\\u001b[31m\\u202e \xc3\xbc?\"}\n\n", "JSON for a terminal");
    free(text);
}

int main(void)
{
    static char golden[GOLDEN_BYTES];
    const char *top = getenv("top_srcdir"), *at, *next;
    char path[4096];
    FILE *f;

    (void)unsetenv("NO_COLOR");
    (void)snprintf(path, sizeof(path), "%s/tests/unit/ctl/show.golden", top == NULL ? "." : top);
    f = fopen(path, "r");
    if (f == NULL || fread(golden, 1, sizeof(golden) - 1, f) == 0)
        tap_bail("cannot read %s", path);
    (void)fclose(f);
    for (at = strstr(golden, "== "); at != NULL; at = next == NULL ? NULL : next + 1) {
        next = strstr(at, "\n== ");
        check_block(slice_of(at + 3, next == NULL ? strlen(at + 3) : (size_t)(next + 1 - (at + 3))));
    }
    check_json();
    return tap_end();
}
