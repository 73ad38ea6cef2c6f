/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists cut into items, in every way that they can come in pieces; items that are too large.
 */
#include "kube/list_cut.h"

#include <stdlib.h>

#include "lib/tap.h"

struct large {
    unsigned n;
    size_t bytes;
    char begins[16];
};

static void on_large(void *arg, struct slice beginning)
{
    struct large *l = arg;
    size_t n = beginning.n < sizeof(l->begins) - 1 ? beginning.n : sizeof(l->begins) - 1;

    l->n++;
    l->bytes = beginning.n;
    memcpy(l->begins, beginning.p, n);
    l->begins[n] = '\0';
}

/* The items, separated by spaces; or "!" and the error. */
static void cut(struct slice text, size_t piece, struct large *large, struct buf *out)
{
    const struct list_cut_opts o = {.item_limit = 20, .ceiling = 200, .too_large = on_large, .arg = large};
    struct object_list list;
    struct err err = {.text = ""};
    struct list_cut c;
    struct slice item;

    buf_reset(out);
    memset(large, 0, sizeof(*large));
    list_cut_begin(&c, &o);
    while (text.n > 0 && list_cut_feed(&c, slice_of(text.p, text.n < piece ? text.n : piece)))
        text = slice_from(text, text.n < piece ? text.n : piece);
    if (list_cut_end(&c, &list, &err)) {
        buf_printf(out, "%.*s", (int)list.resource_version.n,
                   list.resource_version.n > 0 ? list.resource_version.p : "");
        while (object_list_next(&list, &item))
            buf_printf(out, " %.*s", (int)item.n, item.p);
    } else {
        buf_printf(out, "! %s", err.text);
    }
    list_cut_free(&c);
}

#define LIST(items) "{\"kind\":\"XList\",\"metadata\":{\"resourceVersion\":\"7\"},\"items\":" items "}"
#define LONG "{\"a\":\"xxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}"

static const struct {
    const char *text, *want;
    unsigned large;
} rows[] = {
    {LIST("[{\"a\":1},{\"b\":[2]}]"), "7 {\"a\":1} {\"b\":[2]}", 0},
    {LIST("[]"), "7", 0},
    {LIST("[ \n ]"), "7", 0},
    {LIST("null"), "7", 0},
    {LIST("[\n 1 ,\t\"]\\\"\" , [ ]\r\n]"), "7 1 \"]\\\"\" [ ]", 0},
    {"{ \"items\" :\n[{}] , \"kind\":\"XList\", \"metadata\":{\"resourceVersion\":\"8\"}} ", "8 {}", 0},
    {"{\"kind\":\"XList\",\"metadata\":{\"items\":[1,2],\"resourceVersion\":\"9\"},\"items\":[3]}", "9 3", 0},
    {"{\"kind\":\"XList\",\"x\":\"\\\"items\\\":[\",\"metadata\":{\"resourceVersion\":\"9\"}}", "9", 0},
    {LIST("[{\"a\":\"123456789012\"}]"), "7 {\"a\":\"123456789012\"}", 0},
    {LIST("[{\"a\":\"1234567890123\"}]"), "7", 1},
    {LIST("[{}," LONG ",1," LONG "]"), "7 {} 1", 2},
    {LIST("[" LONG "]"), "7", 1},
    {LIST("[[\"]]]]]]]]]]]]]]]]]]]]]]\",[[{}]]],2]"), "7 2", 1},
    {"{\"kind\":\"X\",\"items\":[]}", "! not a list", 0},
    {LIST("[1,]"), "! not a list: an item is missing", 0},
    {LIST("[,1]"), "! not a list: an item is missing", 0},
    {LIST("[1 2]"), "! not a list: an item is not JSON", 0},
    {LIST("[{]"), "! not a list: an item is not JSON", 0},
    {LIST("[1}"), "! not a list: an item is not JSON", 0},
    {LIST("[" LONG ",]"), "! not a list: an item is missing", 1},
    {LIST("[1],\"items\":[2]"), "! items is not one array", 0},
    {"{\"kind\":\"XList\",\"\\u0069tems\":[1]}", "! its items are not where they belong", 0},
    {"[1]", "! not a JSON object: an object was expected at byte 0", 0},
    {"}{\"items\":[1]}", "! not a JSON object: an object was expected at byte 0", 0},
    {"", "! not a JSON object: truncated at byte 0", 0},
    {LIST("[1"), "! not a list: an item is not JSON", 0},
};

static void table(void)
{
    struct buf got;
    struct large large;

    buf_init(&got, 1000);
    for (size_t i = 0; i < ROWS(rows); i++)
        for (size_t piece = 1; piece < 100; piece += piece < 5 ? 1 : 31) {
            cut(slice_str(rows[i].text), piece, &large, &got);
            if (slice_has_prefix(slice_str(rows[i].want), SLICE_LIT("! not a JSON object")))
                ok(slice_has_prefix(buf_slice(&got), SLICE_LIT("! not a JSON object")), "%s: no object", rows[i].text);
            else
                is_slice(buf_slice(&got), rows[i].want, "%s", rows[i].text);
            is_u64(large.n, rows[i].large, "too large, in pieces of %zu", piece);
            if (large.n > 0)
                is_u64(large.bytes, 20, "the beginning of it");
        }
    cut(SLICE_LIT(LIST("[" LONG "]")), 7, &large, &got);
    is_str(large.begins, "{\"a\":\"xxxxxxxxx", "which it is");
    buf_free(&got);
}

/* Megabytes that are passed over are not kept; what is kept has its ceiling. */
static void ceilings(void)
{
    static char filler[100000];
    const struct list_cut_opts o = {.item_limit = 1000, .ceiling = 3000};
    struct object_list list;
    struct err err = {.text = ""};
    struct list_cut c;
    struct slice item;

    memset(filler, 'x', sizeof(filler));
    list_cut_begin(&c, &o);
    ok(list_cut_feed(&c, SLICE_LIT("{\"kind\":\"XList\",\"items\":[\"")), "begun");
    for (size_t i = 0; i < 100; i++)
        if (!list_cut_feed(&c, slice_of(filler, sizeof(filler))))
            ok(false, "an item of any length");
    ok(c.item.cap <= 2000 && c.items.cap == 0, "10 MB are not kept");
    ok(list_cut_feed(&c, SLICE_LIT("\",1]}")) && list_cut_end(&c, &list, &err), "the list");
    ok(object_list_next(&list, &item) && slice_eq(item, SLICE_LIT("1")), "has the item behind it");
    list_cut_free(&c);
    list_cut_begin(&c, &o);
    ok(list_cut_feed(&c, SLICE_LIT("{\"items\":[0")), "begun again");
    for (size_t i = 0; i < 1600 && c.error == NULL; i++)
        (void)list_cut_feed(&c, SLICE_LIT(",1"));
    is_str(c.error, "more than there is room for", "many small ones end at the ceiling");
    list_cut_free(&c);
    list_cut_begin(&c, &o);
    ok(list_cut_feed(&c, SLICE_LIT("{\"a\":\"")) && !list_cut_feed(&c, slice_of(filler, sizeof(filler))) &&
           !list_cut_feed(&c, SLICE_LIT("\"}")),
       "what stands around the items is short");
    is_str(c.error, "too much around the items", "else it is an error");
    list_cut_free(&c);
}

static void memory(void)
{
    bool good = false;
    unsigned failed = 0;

    for (uint64_t n = 1; n < 50 && !good; n++) {
        const struct list_cut_opts o = {.item_limit = 1000, .ceiling = 3000};
        struct object_list list;
        struct err err = {.text = ""};
        struct list_cut c;

        list_cut_begin(&c, &o);
        mem_fail_nth(n);
        good = list_cut_feed(&c, SLICE_LIT(LIST("[1,2]"))) && list_cut_end(&c, &list, &err);
        mem_fail_nth(0);
        failed += !good;
        list_cut_free(&c);
    }
    ok(good && failed > 2, "%u allocations fail: an error", failed);
}

int main(void)
{
    table();
    ceilings();
    memory();
    return tap_end();
}
