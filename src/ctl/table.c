/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/table.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/contract.h"
#include "base/mem.h"
#include "base/utf8.h"

enum { CELL_BYTES = 512, GAP = 3, CELLS = 2000000 };

struct cell {
    enum table_mood mood;
    char *text;
};

struct table {
    const char *const *columns;
    size_t n_columns, n, cap, left_out;
    struct cell *cells;
};

struct table *table_new(const char *const *columns)
{
    struct table *t = must_zalloc(sizeof(*t));

    t->columns = columns;
    while (columns[t->n_columns] != NULL)
        t->n_columns++;
    return t;
}

void table_cell(struct table *t, enum table_mood mood, const char *fmt, ...)
{
    char text[CELL_BYTES];
    va_list ap;

    if (t->n_columns > 0 && t->n % t->n_columns == 0 && t->n + t->n_columns > CELLS) {
        t->left_out++;
        return;
    }
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    utf8_make_printable(text);
    if (t->n == t->cap) {
        t->cap = t->cap == 0 ? 64 : 2 * t->cap;
        t->cells = mem_realloc(t->cells, t->cap * sizeof(*t->cells));
        if (t->cells == NULL)
            abort();
    }
    t->cells[t->n++] = (struct cell){mood, must_strdup(text[0] == '\0' ? "-" : text)};
}

const char *table_colour(enum table_mood mood)
{
    static const char *const codes[] = {
        [TABLE_PLAIN] = "", [TABLE_GOOD] = "\033[32m", [TABLE_WARNING] = "\033[33m", [TABLE_BAD] = "\033[31m"};

    return isatty(STDOUT_FILENO) == 1 && getenv("NO_COLOR") == NULL ? codes[mood] : "";
}

const char *table_no_colour(void)
{
    return isatty(STDOUT_FILENO) == 1 && getenv("NO_COLOR") == NULL ? "\033[0m" : "";
}

/* In characters, not bytes: every byte but those that continue one. */
static size_t width_of(const char *text)
{
    size_t n = 0;

    for (; *text != '\0'; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

/* Of each column. */
static size_t *widths_of(const struct table *t)
{
    size_t *widths = must_zalloc((t->n_columns + 1) * sizeof(widths[0]));

    for (size_t i = 0; i < t->n_columns; i++)
        widths[i] = width_of(t->columns[i]);
    for (size_t i = 0; i < t->n; i++) {
        size_t width = width_of(t->cells[i].text);

        if (width > widths[i % t->n_columns])
            widths[i % t->n_columns] = width;
    }
    return widths;
}

/* `width`: of its column; 0: it is the last one. */
static void print_cell(const char *text, enum table_mood mood, size_t width)
{
    const char *colour = table_colour(mood);

    printf("%s%s%s", colour, text, colour[0] == '\0' ? "" : table_no_colour());
    if (width == 0)
        putchar('\n');
    else
        printf("%*s", (int)(width - width_of(text) + GAP), "");
}

void table_print(struct table *t)
{
    size_t *widths;

    contract(t->n_columns > 0 || t->n == 0); /* a cell belongs to a column */
    widths = widths_of(t);
    if (t->n_columns > 0)
        widths[t->n_columns - 1] = 0;
    for (size_t i = 0; i < t->n_columns; i++)
        print_cell(t->columns[i], TABLE_PLAIN, widths[i]);
    for (size_t i = 0; i < t->n; i++)
        print_cell(t->cells[i].text, t->cells[i].mood, widths[i % t->n_columns]);
    if (t->left_out > 0)
        printf("(%zu more are not shown)\n", t->left_out / t->n_columns);
    mem_free(widths);
    for (size_t i = 0; i < t->n; i++)
        mem_free(t->cells[i].text);
    mem_free(t->cells);
    mem_free(t);
}
