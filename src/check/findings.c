/* SPDX-License-Identifier: Apache-2.0 */
#include "check/findings.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/json_write.h"
#include "base/list.h"

enum { FINDINGS_BYTES = 8 << 20, TEXT_BYTES = 2048, MAX_FINDINGS = 1000 };

struct finding {
    struct list_node node;
    enum check_section section;
    enum check_mark mark;
    const char *check;
    struct slice text, remedy;
};

struct findings {
    struct arena *arena;
    struct list all;
    enum check_section section;
    unsigned printed; /* sections */
    findings_fn *on_enter;
    void *arg;
    size_t count[CHECK_MARKS]; /* of all that were added */
    size_t n;                  /* of those that are kept */
};

static const char *const section_names[CHECK_SECTIONS] = {
    [CHECK_CONFIGURATION] = "configuration",
    [CHECK_CERTIFICATES] = "certificates",
    [CHECK_LOCAL] = "local API server",
    [CHECK_IDENTITY] = "identity and Leases",
    [CHECK_PEERS] = "peers",
    [CHECK_ETCD] = "etcd",
    [CHECK_HOST] = "host",
};

struct findings *findings_new(void)
{
    struct findings *f = must_zalloc(sizeof(*f));

    f->arena = arena_new(FINDINGS_BYTES);
    if (f->arena == NULL)
        abort();
    list_init(&f->all);
    return f;
}

void findings_free(struct findings *f)
{
    arena_free(f->arena);
    mem_free(f);
}

void findings_on_enter(struct findings *f, findings_fn *fn, void *arg)
{
    f->on_enter = fn;
    f->arg = arg;
}

void findings_enter(struct findings *f, enum check_section s)
{
    f->section = s;
    if (f->on_enter != NULL)
        f->on_enter(f->arg);
}

const char *findings_section(const struct findings *f)
{
    return section_names[f->section];
}

static void add(struct findings *f, enum check_mark mark, const char *check, const char *remedy, const char *text)
{
    struct finding *one;

    f->count[mark]++;
    if (f->n == MAX_FINDINGS)
        return;
    f->n++;
    one = arena_zalloc(f->arena, sizeof(*one));
    if (one == NULL)
        abort();
    one->section = f->section;
    one->mark = mark;
    one->check = check;
    one->text = arena_copy(f->arena, slice_str(text));
    one->remedy = arena_copy(f->arena, slice_str(remedy));
    if (one->text.p == NULL || one->remedy.p == NULL)
        abort();
    list_push_back(&f->all, &one->node);
}

#define ADD(mark, remedy)                                                                                              \
    do {                                                                                                               \
        char text[TEXT_BYTES];                                                                                         \
        va_list ap;                                                                                                    \
        va_start(ap, fmt);                                                                                             \
        (void)vsnprintf(text, sizeof(text), fmt, ap);                                                                  \
        va_end(ap);                                                                                                    \
        add(f, mark, check, remedy, text);                                                                             \
    } while (0)

void findings_good(struct findings *f, const char *check, const char *fmt, ...)
{
    ADD(CHECK_GOOD, "");
}

void findings_skipped(struct findings *f, const char *check, const char *fmt, ...)
{
    ADD(CHECK_SKIPPED, "");
}

void findings_warn(struct findings *f, const char *check, const char *remedy, const char *fmt, ...)
{
    ADD(CHECK_WARNING, remedy);
}

void findings_wrong(struct findings *f, const char *check, const char *remedy, const char *fmt, ...)
{
    ADD(CHECK_WRONG, remedy);
}

size_t findings_count(const struct findings *f, enum check_mark m)
{
    return f->count[m];
}

int findings_exit_status(const struct findings *f)
{
    return f->count[CHECK_WRONG] > 0 ? 2 : f->count[CHECK_WARNING] > 0 ? 1 : 0;
}

/* ---- for people ---- */

/* Its text may be of a certificate or of a server: nothing in it is to move the cursor. */
static void put_finding(const struct finding *one, bool utf8, struct buf *out)
{
    static const char *const marks[2][CHECK_MARKS] = {
        {[CHECK_GOOD] = "ok", [CHECK_SKIPPED] = "--", [CHECK_WARNING] = "!!", [CHECK_WRONG] = "XX"},
        {[CHECK_GOOD] = "\u221a", [CHECK_SKIPPED] = "-", [CHECK_WARNING] = "\u203c", [CHECK_WRONG] = "\u00d7"},
    };

    buf_printf(out, "%s ", marks[utf8][one->mark]);
    (void)buf_append_printable(out, one->text);
    if (one->remedy.n > 0) {
        buf_append_str(out, "\n    what to do: ");
        (void)buf_append_printable(out, one->remedy);
    }
    buf_append_char(out, '\n');
}

static bool put_section(const struct findings *f, enum check_section s, bool utf8, struct buf *out)
{
    bool any = false;

    for (const struct list_node *n = list_first(&f->all); n != NULL; n = list_next(&f->all, n)) {
        const struct finding *one = list_entry(n, const struct finding, node);

        if (one->section != s)
            continue;
        if (!any)
            buf_printf(out, "%s\n", section_names[s]);
        any = true;
        put_finding(one, utf8, out);
    }
    return any;
}

static void put_sections(struct findings *f, unsigned end, bool utf8, struct buf *out)
{
    for (; f->printed < end; f->printed++)
        if (put_section(f, (enum check_section)f->printed, utf8, out))
            buf_append_char(out, '\n');
}

void findings_print_past(struct findings *f, bool utf8, struct buf *out)
{
    put_sections(f, f->section, utf8, out);
}

void findings_print_text(struct findings *f, bool utf8, struct buf *out)
{
    size_t warnings = f->count[CHECK_WARNING], wrong = f->count[CHECK_WRONG];

    put_sections(f, CHECK_SECTIONS, utf8, out);
    if (warnings + wrong == 0)
        buf_printf(out, "Everything is well: %zu checks.\n", f->count[CHECK_GOOD]);
    else
        buf_printf(out, "%zu wrong, %zu to be looked at, %zu well.\n", wrong, warnings, f->count[CHECK_GOOD]);
}

/* ---- for programs ---- */

void findings_print_json(const struct findings *f, struct buf *out)
{
    static const char *const marks[CHECK_MARKS] = {
        [CHECK_GOOD] = "ok", [CHECK_SKIPPED] = "skipped", [CHECK_WARNING] = "warning", [CHECK_WRONG] = "error"};
    struct json_write w = json_open(out, '{'), list = json_nested(&w, "findings", '[');

    for (const struct list_node *n = list_first(&f->all); n != NULL; n = list_next(&f->all, n)) {
        const struct finding *one = list_entry(n, const struct finding, node);
        struct json_write o = json_nested(&list, NULL, '{');

        json_text(&o, "section", section_names[one->section]);
        json_text(&o, "check", one->check);
        json_text(&o, "mark", marks[one->mark]);
        json_slice(&o, "text", one->text);
        json_slice(&o, "remedy", one->remedy);
        json_close(&o);
    }
    json_close(&list);
    json_u64(&w, "errors", f->count[CHECK_WRONG]);
    json_u64(&w, "warnings", f->count[CHECK_WARNING]);
    json_close(&w);
}
