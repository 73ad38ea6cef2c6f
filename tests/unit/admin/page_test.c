/* The status page: what goes in cannot get out as markup. */
#include "admin/page.h"

#include "lib/tap.h"

int main(void)
{
    static const char *const columns[] = {"<a>", "b", NULL};
    const struct slice outside[] = {SLICE_LIT("\"x\""), SLICE_LIT("y")};
    const struct page_cell cells[] = {{SLICE_LIT("<script>alert('1')</script>"), PAGE_BAD},
                                      {SLICE_LIT("a&b\n\x01"), PAGE_PLAIN}};
    struct buf out;
    struct slice text;
    struct page p;

    buf_init(&out, 1 << 16);
    page_begin(&p, &out, "T<");
    page_table(&p, "one", columns);
    page_row(&p, cells, 2);
    page_table_slices(&p, "two", outside, 2);
    page_fact(&p, "n", SLICE_LIT("v"));
    page_note(&p, "note");
    page_end(&p);
    text = buf_slice(&out);
    text = slice_from(text, (size_t)((const char *)memmem(text.p, text.n, "<body>", 6) - text.p));
    is_slice(
        text,
        "<body>\n<h1>T&lt;</h1>\n<h2>one</h2>\n<table>\n<tr><th>&lt;a&gt;</th><th>b</th></tr>\n"
        "<tr><td class=\"bad\">&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;</td><td>a&amp;b  </td></tr>\n</table>\n"
        "<h2>two</h2>\n<table>\n<tr><th>&quot;x&quot;</th><th>y</th></tr>\n<tr><td>n</td><td>v</td></tr>\n</table>\n"
        "<p>note</p>\n</body>\n</html>\n",
        "a page");
    buf_free(&out);
    return tap_end();
}
