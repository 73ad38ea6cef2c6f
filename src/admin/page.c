#include "admin/page.h"

static void put_text(struct buf *out, struct slice s)
{
    for (size_t i = 0; i < s.n; i++) {
        switch (s.p[i]) {
        case '<':
            buf_append_str(out, "&lt;");
            break;
        case '>':
            buf_append_str(out, "&gt;");
            break;
        case '&':
            buf_append_str(out, "&amp;");
            break;
        case '"':
            buf_append_str(out, "&quot;");
            break;
        case '\'':
            buf_append_str(out, "&#39;");
            break;
        default:
            buf_append_char(out, (unsigned char)s.p[i] < ' ' ? ' ' : s.p[i]);
        }
    }
}

void page_begin(struct page *p, struct buf *out, const char *title)
{
    static const char style[] = "body{font:14px/1.4 sans-serif;margin:2em;color:#222;background:#fff}"
                                "h1{font-size:1.5em}h2{font-size:1.15em;margin:1.6em 0 .4em}"
                                "table{border-collapse:collapse}"
                                "th,td{border:1px solid #ccc;padding:.2em .6em;text-align:left;vertical-align:top}"
                                "th{background:#f2f2f2}"
                                ".good{background:#e2f3e2}.warning{background:#fdf1cf}.bad{background:#f9d9d6}"
                                ".faint{color:#999}";

    p->out = out;
    p->in_table = false;
    buf_append_str(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>");
    put_text(out, slice_str(title));
    buf_printf(out, "</title>\n<style>%s</style>\n</head>\n<body>\n<h1>", style);
    put_text(out, slice_str(title));
    buf_append_str(out, "</h1>\n");
}

static void end_table(struct page *p)
{
    if (p->in_table)
        buf_append_str(p->out, "</table>\n");
    p->in_table = false;
}

void page_end(struct page *p)
{
    end_table(p);
    buf_append_str(p->out, "</body>\n</html>\n");
}

static void begin_table(struct page *p, const char *caption)
{
    end_table(p);
    buf_append_str(p->out, "<h2>");
    put_text(p->out, slice_str(caption));
    buf_append_str(p->out, "</h2>\n<table>\n<tr>");
    p->in_table = true;
}

static void put_header(struct page *p, struct slice column)
{
    buf_append_str(p->out, "<th>");
    put_text(p->out, column);
    buf_append_str(p->out, "</th>");
}

void page_table(struct page *p, const char *caption, const char *const *columns)
{
    begin_table(p, caption);
    for (; *columns != NULL; columns++)
        put_header(p, slice_str(*columns));
    buf_append_str(p->out, "</tr>\n");
}

void page_table_slices(struct page *p, const char *caption, const struct slice *columns, size_t n)
{
    begin_table(p, caption);
    for (size_t i = 0; i < n; i++)
        put_header(p, columns[i]);
    buf_append_str(p->out, "</tr>\n");
}

void page_row(struct page *p, const struct page_cell *cells, size_t n)
{
    static const char *const tags[] = {[PAGE_PLAIN] = "<td>",
                                       [PAGE_GOOD] = "<td class=\"good\">",
                                       [PAGE_WARNING] = "<td class=\"warning\">",
                                       [PAGE_BAD] = "<td class=\"bad\">",
                                       [PAGE_FAINT] = "<td class=\"faint\">"};

    buf_append_str(p->out, "<tr>");
    for (size_t i = 0; i < n; i++) {
        buf_append_str(p->out, tags[cells[i].mood]);
        put_text(p->out, cells[i].text);
        buf_append_str(p->out, "</td>");
    }
    buf_append_str(p->out, "</tr>\n");
}

void page_fact(struct page *p, const char *name, struct slice value)
{
    const struct page_cell cells[] = {{slice_str(name), PAGE_PLAIN}, {value, PAGE_PLAIN}};

    page_row(p, cells, 2);
}

void page_note(struct page *p, const char *text)
{
    end_table(p);
    buf_append_str(p->out, "<p>");
    put_text(p->out, slice_str(text));
    buf_append_str(p->out, "</p>\n");
}
