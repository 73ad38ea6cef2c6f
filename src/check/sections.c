/* SPDX-License-Identifier: Apache-2.0 */
#include "check/sections.h"

#include <json-c/json.h>
#include <stdio.h>

#include "base/contract.h"

static const struct slice warning = {"warning: ", 9};

/* "file:line:column: " or "command line: " at the beginning. */
static size_t place_length(struct slice line)
{
    size_t n = 0, colons = 0;

    if (slice_has_prefix(line, SLICE_LIT("command line: ")))
        return 14;
    for (; n + 1 < line.n; n++) {
        if (line.p[n] != ':')
            continue;
        colons++;
        if (line.p[n + 1] == ' ')
            return colons == 3 ? n + 2 : 0;
        if (line.p[n + 1] < '0' || line.p[n + 1] > '9')
            colons = 0; /* of the file's name */
    }
    return 0;
}

/* Of the name of an option there; where there is none, it is what is wrong. */
static size_t option_length(struct slice line, size_t from)
{
    for (size_t i = from; i + 1 < line.n && line.p[i] != ' '; i++)
        if (line.p[i] == ':' && line.p[i + 1] == ' ')
            return i + 2 - from;
    return 0;
}

/* Where the remedy begins: behind the last colon after place, option and what is wrong, but for those within its
 * quotes. */
static size_t remedy_start(struct slice line)
{
    size_t from = place_length(line);
    bool quoted = false;

    from += option_length(line, from);
    for (size_t i = line.n; i > from + 1; i--) {
        quoted = quoted != (line.p[i - 1] == '"');
        if (!quoted && line.p[i - 1] == ' ' && line.p[i - 2] == ':')
            return i;
    }
    return line.n;
}

static void take_line(struct scene *s, const char *check, struct slice line, const char *remedy)
{
    bool mild = slice_has_prefix(line, warning);
    size_t start;
    char own[512];

    line = slice_from(line, mild ? warning.n : 0);
    start = remedy_start(line);
    if (start < line.n) {
        (void)snprintf(own, sizeof(own), "%.*s", (int)(line.n - start), line.p + start);
        remedy = own;
        line.n = start - 2;
    }
    contract(line.p != NULL);
    if (mild)
        findings_warn(s->f, check, remedy, "%.*s", (int)line.n, line.p);
    else
        findings_wrong(s->f, check, remedy, "%.*s", (int)line.n, line.p);
}

void sections_take_lines(struct scene *s, const char *check, struct slice lines, const char *remedy)
{
    struct slice line;

    while (slice_split(&lines, '\n', &line))
        if (line.n > 0)
            take_line(s, check, line, remedy);
}

const char *sections_failure_remedy(const struct scene *s, const struct answer *a)
{
    enum { FAILURES = 500 };

    if (a->ok && a->status < FAILURES)
        return NULL;
    return s->unready ? "see above: the local API server is not ready"
                      : "look into the log of kube-apiserver: its etcd may not answer";
}

const char *sections_text(struct json_object *o, const char *name)
{
    struct json_object *v = NULL;
    const char *text = o != NULL && json_object_object_get_ex(o, name, &v) ? json_object_get_string(v) : NULL;

    return text == NULL ? "" : text;
}
