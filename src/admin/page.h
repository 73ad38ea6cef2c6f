/*
 * A plain HTML page made of headed tables, without scripts and without anything loaded from elsewhere. Every text is
 * escaped here, so that no name from the cluster can become markup.
 */
#ifndef MVPROXY_ADMIN_PAGE_H
#define MVPROXY_ADMIN_PAGE_H

#include "base/buf.h"

struct page {
    struct buf *out;
    bool in_table;
};

enum page_mood { PAGE_PLAIN, PAGE_GOOD, PAGE_WARNING, PAGE_BAD, PAGE_FAINT };

struct page_cell {
    struct slice text;
    enum page_mood mood;
};

/* Failure (the buffer's ceiling) is the buffer's sticky failure. */
void page_begin(struct page *p, struct buf *out, const char *title);
void page_end(struct page *p);
/* A new table; `columns` is NULL-terminated. Ends the table before. */
void page_table(struct page *p, const char *caption, const char *const *columns);
/* The same with columns from outside. */
void page_table_slices(struct page *p, const char *caption, const struct slice *columns, size_t n);
void page_row(struct page *p, const struct page_cell *cells, size_t n);
/* A row of two: for tables of facts. */
void page_fact(struct page *p, const char *name, struct slice value);
/* A line of text between tables. */
void page_note(struct page *p, const char *text);

#endif
