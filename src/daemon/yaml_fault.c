/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/yaml_fault.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

static bool say(struct yaml_fault *out, size_t line, size_t column, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
static bool say(struct yaml_fault *out, size_t line, size_t column, const char *fmt, ...)
{
    va_list ap;

    out->line = line;
    out->column = column;
    va_start(ap, fmt);
    (void)vsnprintf(out->text, sizeof(out->text), fmt, ap);
    va_end(ap);
    return true;
}

/* ---- lines of the text; numbers from 1 ---- */

struct lines {
    struct slice rest, line;
    size_t number;
};

static struct lines lines_of(struct slice text)
{
    return (struct lines){slice_has_prefix(text, SLICE_LIT("\xef\xbb\xbf")) ? slice_from(text, 3) : text, SLICE_NONE,
                          0};
}

static bool next_line(struct lines *l)
{
    if (!slice_split(&l->rest, '\n', &l->line))
        return false;
    if (l->line.n > 0 && l->line.p[l->line.n - 1] == '\r')
        l->line.n--;
    l->number++;
    return true;
}

static struct slice line_of(struct slice text, size_t number)
{
    struct lines l = lines_of(text);

    while (next_line(&l))
        if (l.number == number)
            return l.line;
    return SLICE_NONE;
}

static size_t indentation(struct slice line)
{
    size_t n = 0;

    while (n < line.n && (line.p[n] == ' ' || line.p[n] == '\t'))
        n++;
    return n;
}

static bool is_empty(struct slice line)
{
    size_t n = indentation(line);

    return n == line.n || (line.p != NULL && line.p[n] == '#');
}

/* The last line before that one which says anything; 0: there is none. */
static size_t line_before(struct slice text, size_t number)
{
    struct lines l = lines_of(text);
    size_t last = 0;

    while (next_line(&l) && l.number < number)
        if (!is_empty(l.line))
            last = l.number;
    return last;
}

/* What names are made of, from there. */
static size_t word(struct slice line, size_t from)
{
    static const char parts[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    size_t n = from;

    while (n < line.n && memchr(parts, line.p[n], sizeof(parts) - 1) != NULL)
        n++;
    return n - from;
}

static bool is_blank(struct slice line, size_t at)
{
    return at >= line.n || line.p[at] == ' ' || line.p[at] == '\t';
}

/* Of the first ':' with a blank behind it; line.n if there is none. */
static size_t colon(struct slice line)
{
    size_t n = 0;

    while (n < line.n && !(line.p[n] == ':' && is_blank(line, n + 1)))
        n++;
    return n;
}

/* ---- characters ---- */

static bool say_character(struct yaml_fault *out, size_t line, size_t column, size_t n, uint32_t code)
{
    if (n == 0)
        return say(out, line, column,
                   "not UTF-8 from here: save the file as UTF-8, or write the character in plain letters");
    return say(out, line, column, "control character U+%04X: take it out", (unsigned)code);
}

/* What YAML takes for a character (YAML 1.1, 5.1). */
static bool is_character(uint32_t code)
{
    return code == '\t' || code == '\n' || code == '\r' || code == 0x85 || (code >= ' ' && code <= '~') ||
           (code >= 0xa0 && code != 0xfeff && code != 0xfffe && code != 0xffff);
}

/* The first one that cannot be read. */
static bool find_bad_character(struct slice text, struct yaml_fault *out)
{
    size_t line = 1, column = 1, n = 0;
    bool first = true;

    for (struct slice rest = text; rest.n > 0; rest = slice_from(rest, n), first = false) {
        uint32_t code = 0;

        n = utf8_next(rest, &code);
        if (first && n > 0 && code == 0xfeff)
            continue;
        if (n == 0 || !is_character(code))
            return say_character(out, line, column, n, code);
        column++;
        if (code == '\n') {
            line++;
            column = 1;
        }
    }
    return false;
}

/* Looks like a blank, and is none. */
static bool is_false_blank(uint32_t code)
{
    return code == 0xa0 || (code >= 0x2000 && code <= 0x200b) || code == 0x202f || code == 0x3000;
}

static bool find_false_blank(struct slice line, size_t number, struct yaml_fault *out)
{
    size_t column = 1, n;

    for (struct slice rest = line; rest.n > 0 && rest.p[0] != '#'; rest = slice_from(rest, n), column++) {
        uint32_t code;

        n = utf8_next(rest, &code);
        if (n == 0)
            return false;
        if (is_false_blank(code))
            return say(out, number, column, "%s (U+%04X) in place of a blank: put a plain one there",
                       code == 0xa0 ? "no-break space" : "special space", (unsigned)code);
    }
    return false;
}

/* ---- lines that are wrong whatever libyaml made of them ---- */

static bool is_marker(struct slice line)
{
    return slice_has_prefix(line, SLICE_LIT("<<<<<<<")) || slice_has_prefix(line, SLICE_LIT("=======")) ||
           slice_has_prefix(line, SLICE_LIT(">>>>>>>")) || slice_has_prefix(line, SLICE_LIT("|||||||"));
}

static const char tab[] = "a tab where YAML wants blanks: indent with blanks";

static bool is_suspect(struct slice text, size_t number, struct yaml_fault *out)
{
    struct slice line = line_of(text, number);
    size_t in = indentation(line), n = word(line, in), shown = n < 64 ? n : 64;

    if (line.p == NULL || is_empty(line))
        return false;
    if (is_marker(line))
        return say(out, number, 1, "a conflict of a merge that is not resolved: keep one side, and take the marks out");
    if (memchr(line.p, '\t', in) != NULL)
        return say(out, number, (size_t)((const char *)memchr(line.p, '\t', in) - line.p) + 1, "%s", tab);
    if (find_false_blank(line, number, out))
        return true;
    if (n == 0 || line.p[in] == '-' || in + n == line.n)
        return false;
    if (line.p[in + n] == ':' && !is_blank(line, in + n + 1))
        return say(out, number, in + n + 2, "a blank is missing behind the colon: write \"%.*s: VALUE\"", (int)shown,
                   line.p + in);
    if (line.p[in + n] == '=' && colon(line) == line.n)
        return say(out, number, in + n + 1,
                   "a \"=\" where a colon belongs: write \"%.*s: VALUE\", or \"- \" before an entry of a list",
                   (int)shown, line.p + in);
    return false;
}

/* A value whose quote does not end in its line: libyaml took what follows for a part of it. */
static bool find_open_quote(struct slice text, size_t until, struct yaml_fault *out)
{
    struct lines l = lines_of(text);

    while (next_line(&l) && l.number <= until) {
        size_t at = is_empty(l.line) ? l.line.n : colon(l.line) + 1;

        while (at < l.line.n && is_blank(l.line, at))
            at++;
        if (at < l.line.n && (l.line.p[at] == '"' || l.line.p[at] == '\'') &&
            memchr(l.line.p + at + 1, l.line.p[at], l.line.n - at - 1) == NULL)
            return say(out, l.number, at + 1, "the quote that opens here does not end in its line: close it");
    }
    return false;
}

/* ---- what libyaml says ---- */

struct fault {
    const yaml_parser_t *p;
    struct slice text;
    size_t line, column;           /* where it gave up */
    size_t from_line, from_column; /* where that began, if it says so */
    struct yaml_fault *out;
};

static bool says(const char *text, const char *words)
{
    return text != NULL && strstr(text, words) != NULL;
}

/* The bracket ends before something that looks like the next option. */
static bool is_closed(const struct fault *f, char open)
{
    struct lines l = lines_of(f->text);

    while (next_line(&l) && l.number <= f->line) {
        struct slice line = l.number == f->from_line ? slice_from(l.line, f->from_column) : l.line;

        if (l.number < f->from_line)
            continue;
        if (l.number > f->from_line && !is_empty(line) && indentation(line) == 0 && colon(line) < line.n)
            return false;
        if (line.n > 0 && memchr(line.p, open == '[' ? ']' : '}', line.n) != NULL)
            return true;
    }
    return false;
}

static bool on_flow(const struct fault *f)
{
    struct slice line = line_of(f->text, f->from_line);
    char open = says(f->p->context, "mapping") ? '{' : '[';

    if (f->from_column <= line.n && (line.p[f->from_column - 1] == '[' || line.p[f->from_column - 1] == '{'))
        open = line.p[f->from_column - 1];
    if (is_closed(f, open))
        return say(f->out, f->line, f->column, "a comma is missing before this, in the list of line %zu: add it",
                   f->from_line);
    return say(f->out, f->from_line, f->from_column,
               "the bracket \"%c\" that opens here does not end: close it with \"%c\"", open, open == '[' ? ']' : '}');
}

static bool on_token(const struct fault *f)
{
    struct slice line = line_of(f->text, f->line);
    char c = f->column <= line.n ? line.p[f->column - 1] : '?';

    if (c == '\t')
        return say(f->out, f->line, f->column, "%s", tab);
    return say(f->out, f->line, f->column, "a value cannot begin with \"%c\": put the value in quotes",
               c >= ' ' && c <= '~' ? c : '?');
}

static bool on_mapping(const struct fault *f)
{
    struct slice line = line_of(f->text, f->line);
    size_t before = line_before(f->text, f->line), in = indentation(line);

    if (colon(line) + 1 < f->column)
        return say(f->out, f->line, f->column, "a second \": \" in one line: put the value in quotes");
    if (in > 0)
        return say(f->out, f->line, in + 1,
                   "this line is indented and belongs to nothing: begin it in the column of the options around it");
    if (before > 0)
        return say(f->out, before, 1, "not an option and its value: write \"OPTION: VALUE\"");
    return false;
}

static bool on_key(const struct fault *f)
{
    size_t in = indentation(line_of(f->text, f->line));

    if (find_open_quote(f->text, f->line, f->out))
        return true;
    if (f->from_line > 0 && f->column == in + 1 && f->column != f->from_column)
        return say(f->out, f->line, f->column,
                   "this line does not begin in column %zu, as those before it do: begin it there", f->from_column);
    return say(f->out, f->line, f->column,
               "something follows the value: put the whole value in quotes, or take the rest away");
}

/* All that came before has ended. */
static bool on_document(const struct fault *f)
{
    size_t before = line_before(f->text, f->line), in = before == 0 ? 0 : indentation(line_of(f->text, before));

    if (before > 0 && in != indentation(line_of(f->text, f->line)))
        return say(f->out, f->line, f->column,
                   "this line does not begin in column %zu, as those before it do: begin it there", in + 1);
    return on_key(f);
}

static bool on_content(const struct fault *f)
{
    struct slice line = line_of(f->text, f->line);

    if (f->column <= line.n && line.p[f->column - 1] == ',')
        return say(f->out, f->line, f->column, "nothing stands before this comma: take the comma out");
    return say(f->out, f->line, f->column,
               "a value is missing before this, or a bracket does not end: write the value, or close the bracket");
}

static bool on_quote(const struct fault *f)
{
    return say(f->out, f->from_line, f->from_column, "the quote that opens here does not end: close it");
}

static bool on_escape(const struct fault *f)
{
    return say(f->out, f->line, f->column,
               "no such character behind \"\\\" in double quotes: write \"\\\\\" for one \"\\\", or use single quotes");
}

/* By its words for what is wrong, or for what it was reading; the first that fits. */
static const struct {
    const char *problem, *context;
    bool (*explain)(const struct fault *f);
    const char *text; /* or this, where it gave up */
} faults[] = {
    {"unknown escape", NULL, on_escape, NULL},
    {"hexdecimal", "quoted scalar", on_escape, NULL},
    {"Unicode character escape", NULL, on_escape, NULL},
    {NULL, "quoted scalar", on_quote, NULL},
    {NULL, "flow sequence", on_flow, NULL},
    {NULL, "flow mapping", on_flow, NULL},
    {"cannot start any token", NULL, on_token, NULL},
    {"found a tab", NULL, NULL, tab},
    {"mapping values are not allowed", NULL, on_mapping, NULL},
    {"block sequence entries", NULL, NULL,
     "an entry of a list cannot stand here: give it a line of its own below the option: \"- VALUE\""},
    {"'-' indicator", NULL, NULL, "not an entry of the list above: begin it with \"- \", in the same column"},
    {"expected key", NULL, on_key, NULL},
    {"alphabetic or numeric", NULL, NULL, "a value that begins with \"*\" or \"&\": put the value in quotes"},
    {NULL, "tag", NULL, "a value that begins with \"!\": put the value in quotes"},
    {NULL, "block scalar", NULL,
     "a value that begins with \"|\" or \">\", which is for several lines: put the value in quotes"},
    {NULL, "directive", NULL, "a line that begins with \"%\": take it out"},
    {"document start", NULL, on_document, NULL},
    {"node content", NULL, on_content, NULL},
};

static bool look_up(const struct fault *f)
{
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        if ((faults[i].problem != NULL && !says(f->p->problem, faults[i].problem)) ||
            (faults[i].context != NULL && !says(f->p->context, faults[i].context)))
            continue;
        if (faults[i].explain != NULL)
            return faults[i].explain(f);
        return say(f->out, f->line, f->column, "%s", faults[i].text);
    }
    return false;
}

/* What reads on past a line's end shows itself only later. */
static bool reads_on(const yaml_parser_t *p)
{
    return says(p->context, "quoted scalar") || says(p->context, "flow ");
}

static bool find_suspect(const struct fault *f)
{
    size_t before = line_before(f->text, f->line);

    return (f->from_line > 0 && is_suspect(f->text, f->from_line, f->out)) || is_suspect(f->text, f->line, f->out) ||
           (before > 0 && is_suspect(f->text, before, f->out));
}

void yaml_fault_explain(const yaml_parser_t *p, struct slice text, struct yaml_fault *out)
{
    struct fault f = {p, text, p->problem_mark.line + 1, p->problem_mark.column + 1, 0, 0, out};

    if (p->context != NULL) {
        f.from_line = p->context_mark.line + 1;
        f.from_column = p->context_mark.column + 1;
    }
    if (p->error == YAML_MEMORY_ERROR) {
        (void)say(out, f.line, f.column, "out of memory");
        return;
    }
    if (p->error == YAML_READER_ERROR && find_bad_character(text, out))
        return;
    if ((!reads_on(p) && find_suspect(&f)) || look_up(&f))
        return;
    (void)say(out, f.from_line > 0 ? f.from_line : f.line, f.from_line > 0 ? f.from_column : f.column,
              "not an option and its value: write \"OPTION: VALUE\", and quote values with special characters");
}
