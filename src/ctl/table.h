/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Aligned columns for people, with colour on a terminal only.
 */
#ifndef MVPROXY_CTL_TABLE_H
#define MVPROXY_CTL_TABLE_H

#include <stdbool.h>
#include <stddef.h>

enum table_mood { TABLE_PLAIN, TABLE_GOOD, TABLE_WARNING, TABLE_BAD };

struct table;

/* `columns`: NULL-terminated, in capitals by custom; they must live as long as the table. */
struct table *table_new(const char *const *columns);
/* The next cell, row by row; the text is copied, control characters become '?' (it comes from others). Rows beyond two
 * million cells are counted only. */
void table_cell(struct table *t, enum table_mood mood, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Prints it to standard output and frees it. Nothing but the heading if there is no row. */
void table_print(struct table *t);

/* Escape sequences for standard output, "" if it is no terminal. */
const char *table_colour(enum table_mood mood);
const char *table_no_colour(void);

#endif
