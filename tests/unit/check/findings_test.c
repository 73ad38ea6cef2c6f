/* SPDX-License-Identifier: Apache-2.0 */
/* One list of findings: what people and programs see of it, and the exit status. */
#include "check/findings.h"

#include "lib/tap.h"

enum { ROOM = 1 << 16 };

static void fill(struct findings *f)
{
    findings_enter(f, CHECK_HOST);
    findings_good(f, "host-good", "a %s", "thing");
    findings_enter(f, CHECK_CONFIGURATION);
    findings_skipped(f, "not-told", "not examined");
    findings_warn(f, "odd", "look at it", "name \x1b[31m\"%s\"", "x\ny");
    findings_wrong(f, "broken", "repair it", "out of order");
}

static void text(bool utf8, const char *want)
{
    struct findings *f = findings_new();
    struct buf out;

    buf_init(&out, ROOM);
    fill(f);
    findings_print_text(f, utf8, &out);
    is_slice(buf_slice(&out), want, "as text, %s", utf8 ? "UTF-8" : "plain");
    buf_free(&out);
    findings_free(f);
}

struct printed {
    struct findings *f;
    struct buf out;
};

static void on_enter(void *arg)
{
    struct printed *p = arg;

    buf_printf(&p->out, "|");
    ok(findings_section(p->f)[0] != '\0', "it has a title");
    findings_print_past(p->f, false, &p->out);
}

/* What is through is not waited with. */
static void piece_by_piece(void)
{
    struct printed p = {.f = findings_new()};

    buf_init(&p.out, ROOM);
    findings_on_enter(p.f, on_enter, &p);
    findings_enter(p.f, CHECK_CONFIGURATION);
    findings_good(p.f, "a", "one");
    findings_enter(p.f, CHECK_CERTIFICATES);
    findings_enter(p.f, CHECK_PEERS);
    findings_wrong(p.f, "b", "do", "two");
    buf_append_str(&p.out, "|");
    findings_print_text(p.f, false, &p.out);
    is_slice(buf_slice(&p.out),
             "||configuration\nok one\n\n||peers\nXX two\n    what to do: do\n\n1 wrong, 0 to be looked at, 1 well.\n",
             "each section once, as soon as the next is entered");
    buf_free(&p.out);
    findings_free(p.f);
}

static void json(void)
{
    struct findings *f = findings_new();
    struct buf out;

    buf_init(&out, ROOM);
    fill(f);
    findings_print_json(f, &out);
    is_slice(
        buf_slice(&out),
        "{\"findings\":["
        "{\"section\":\"host\",\"check\":\"host-good\",\"mark\":\"ok\",\"text\":\"a thing\",\"remedy\":\"\"},"
        "{\"section\":\"configuration\",\"check\":\"not-told\",\"mark\":\"skipped\",\"text\":\"not examined\","
        "\"remedy\":\"\"},"
        "{\"section\":\"configuration\",\"check\":\"odd\",\"mark\":\"warning\",\"text\":\"name "
        "\\u001b[31m\\\"x\\ny\\\"\",\"remedy\":\"look at it\"},"
        "{\"section\":\"configuration\",\"check\":\"broken\",\"mark\":\"error\",\"text\":\"out of order\",\"remedy\":"
        "\"repair it\"}],\"errors\":1,\"warnings\":1}",
        "as JSON");
    buf_free(&out);
    findings_free(f);
}

static void exit_statuses(void)
{
    struct findings *f = findings_new();

    findings_good(f, "a", "well");
    findings_skipped(f, "b", "not examined");
    is_int(findings_exit_status(f), 0, "well");
    findings_warn(f, "c", "r", "odd");
    is_int(findings_exit_status(f), 1, "a warning");
    findings_wrong(f, "d", "r", "wrong");
    is_int(findings_exit_status(f), 2, "something is wrong");
    findings_warn(f, "e", "r", "odd");
    is_int(findings_exit_status(f), 2, "whatever else there is");
    is_u64(findings_count(f, CHECK_WARNING), 2, "counted");
    findings_free(f);
}

/* As many as an answer of the control socket can cause. */
static void very_many(void)
{
    enum { MANY = 100000 };
    struct findings *f = findings_new();
    struct buf out;

    for (unsigned i = 0; i < MANY; i++)
        findings_wrong(f, "broken", "repair it", "out of order: %01900u", i);
    buf_init(&out, 16 << 20);
    findings_print_text(f, true, &out);
    ok(!out.failed && buf_len(&out) > 0 &&
           slice_has_suffix(buf_slice(&out), SLICE_LIT("\n100000 wrong, 0 to be looked at, 0 well.\n")),
       "a hundred thousand are counted");
    buf_free(&out);
    findings_free(f);
}

int main(void)
{
    text(true, "configuration\n- not examined\n\u203c name ?[31m\"x?y\"\n    what to do: look at it\n\u00d7 out of "
               "order\n    what to do: repair it\n\nhost\n\u221a a thing\n\n1 wrong, 1 to be looked at, 1 well.\n");
    text(false, "configuration\n-- not examined\n!! name ?[31m\"x?y\"\n    what to do: look at it\nXX out of "
                "order\n    what to do: repair it\n\nhost\nok a thing\n\n1 wrong, 1 to be looked at, 1 well.\n");
    piece_by_piece();
    json();
    exit_statuses();
    very_many();
    return tap_end();
}
