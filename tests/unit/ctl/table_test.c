/* SPDX-License-Identifier: Apache-2.0 */
/* Columns are aligned, in characters, and a table of very many rows takes no more time for each than a short one. */
#include "ctl/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "lib/tap.h"

enum { MANY = 300000, TOO_MANY = 700000, CPU_S = 60 };

static const char *const columns[] = {"NAME", "B", "LAST", NULL};

/* What table_print() writes; to be freed. */
static char *printed(struct table *t)
{
    FILE *real = stdout;
    char *text = NULL;
    size_t n = 0;

    stdout = open_memstream(&text, &n);
    if (stdout == NULL)
        tap_bail("no memory");
    table_print(t);
    (void)fclose(stdout);
    stdout = real;
    return text;
}

static void alignment(void)
{
    struct table *t = table_new(columns);
    char *text = printed(t);

    is_str(text, "NAME   B   LAST\n", "no row");
    free(text);
    t = table_new(columns);
    table_cell(t, TABLE_PLAIN, "a");
    table_cell(t, TABLE_GOOD, "%d", 12345);
    table_cell(t, TABLE_PLAIN, "long and last");
    table_cell(t, TABLE_PLAIN, "\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc");
    table_cell(t, TABLE_BAD, "%s", "");
    table_cell(t, TABLE_PLAIN, "x\ny");
    text = printed(t);
    is_str(text,
           "NAME    B       LAST\n"
           "a       12345   long and last\n"
           "\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc   -       x?y\n",
           "in characters, not bytes");
    free(text);
}

/* A list that a hostile peer has made long: this takes less than a second, or, if each cell looks at all others, hours.
 */
static void many_rows(void)
{
    const struct rlimit bound = {CPU_S, CPU_S};
    struct table *t = table_new(columns);
    size_t lines = 0;
    char *text;

    (void)setrlimit(RLIMIT_CPU, &bound);
    for (size_t i = 0; i < MANY; i++)
        for (size_t k = 0; columns[k] != NULL; k++)
            table_cell(t, TABLE_PLAIN, "%zu", i * k);
    text = printed(t);
    for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++)
        lines++;
    is_u64(lines, MANY + 1, "%d rows and the heading", MANY);
    free(text);
}

/* As many as fit into memory that is worth it. */
static void too_many_rows(void)
{
    struct table *t = table_new(columns);
    char *text;

    for (size_t i = 0; i < TOO_MANY; i++)
        for (size_t k = 0; columns[k] != NULL; k++)
            table_cell(t, TABLE_PLAIN, "x");
    text = printed(t);
    ok(strlen(text) > 26 && strcmp(text + strlen(text) - 26, "33334 more are not shown)\n") == 0,
       "the rest is counted: %s", text + strlen(text) - 27);
    free(text);
}

int main(void)
{
    alignment();
    many_rows();
    too_many_rows();
    return tap_end();
}
