/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/list_cut.h"

#include "base/contract.h"
#include "kube/jscan.h"

enum { FRAME_BYTES = 64 << 10 };

void list_cut_begin(struct list_cut *c, const struct list_cut_opts *o)
{
    *c = (struct list_cut){.o = *o};
    if (c->o.key.n == 0) {
        c->o.key = SLICE_LIT("\"items\"");
        c->o.depth = 1;
    }
    buf_init(&c->frame, FRAME_BYTES);
    buf_init(&c->items, o->ceiling);
    buf_init(&c->item, o->item_limit);
}

void list_cut_free(struct list_cut *c)
{
    buf_free(&c->frame);
    buf_free(&c->items);
    buf_free(&c->item);
}

static bool fails(struct list_cut *c, const char *why)
{
    if (c->error == NULL)
        c->error = why;
    return false;
}

/* Outside of strings and one that opens, closes or separates. */
static bool is_mark(struct list_cut *c, char b)
{
    if (!c->in_string) {
        c->in_string = b == '"';
        return b == '{' || b == '[' || b == '}' || b == ']' || b == ',';
    }
    if (c->escaped)
        c->escaped = false;
    else if (b == '\\')
        c->escaped = true;
    else
        c->in_string = b != '"';
    return false;
}

static bool add_to_frame(struct list_cut *c, struct slice bytes)
{
    return buf_append(&c->frame, bytes) || fails(c, "too much around the items");
}

static struct slice trim_end(struct slice s)
{
    must_hold(s.p != NULL || s.n == 0);
    while (s.n > 0 && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\n' || s.p[s.n - 1] == '\r' || s.p[s.n - 1] == '\t'))
        s.n--;
    return s;
}

/* Of a text that ends with `end`, what stands before it and white space; empty if it does not. */
static struct slice before(struct slice text, struct slice end)
{
    if (!slice_has_suffix(text, end))
        return SLICE_NONE;
    must_hold(text.n >= end.n);
    return trim_end(slice_of(text.p, text.n - end.n));
}

/* The frame ends with the key of the items, and a colon. */
static bool items_begin(const struct list_cut *c)
{
    struct slice rest = before(before(trim_end(buf_slice(&c->frame)), SLICE_LIT(":")), c->o.key);

    return c->depth == c->o.depth && (slice_has_suffix(rest, SLICE_LIT("{")) || slice_has_suffix(rest, SLICE_LIT(",")));
}

/* How many bytes were taken. */
static size_t take_frame(struct list_cut *c, struct slice bytes)
{
    for (size_t i = 0, from = 0;; i++) {
        char b = i < bytes.n ? bytes.p[i] : '\0';

        if (i == bytes.n) {
            (void)add_to_frame(c, slice_from(bytes, from));
            return i;
        }
        if (!is_mark(c, b) || b == ',')
            continue;
        if (b == '[' && c->depth == c->o.depth) {
            if (!add_to_frame(c, slice_of(bytes.p + from, i - from)))
                return i;
            from = i;
            if (items_begin(c)) {
                (void)add_to_frame(c, SLICE_LIT("["));
                c->in_items = true;
                c->any = false;
                c->depth = 0;
                return i + 1;
            }
        }
        c->depth += b == '{' || b == '[' ? 1 : -1u; /* too many that close: object_list_begin() says so */
    }
}

static bool add_to_item(struct list_cut *c, struct slice bytes)
{
    size_t room = c->item.ceiling - buf_len(&c->item);
    struct slice fits = slice_of(bytes.p, bytes.n < room ? bytes.n : room);

    if (c->passing)
        return true;
    if (!buf_append(&c->item, fits))
        return fails(c, "out of memory for an item");
    if (fits.n == bytes.n)
        return true;
    c->passing = true;
    if (c->o.too_large != NULL)
        c->o.too_large(c->o.arg, buf_slice(&c->item));
    buf_reset(&c->item);
    return true;
}

static bool keep_item(struct list_cut *c, struct slice item)
{
    if (c->o.on_item != NULL)
        return c->o.on_item(c->o.arg, item) || fails(c, "an item is refused");
    return (buf_append_char(&c->items, buf_len(&c->items) == 0 ? '[' : ',') && buf_append(&c->items, item)) ||
           fails(c, "more than there is room for");
}

static bool end_item(struct list_cut *c, bool last)
{
    struct slice text = trim_end(buf_slice(&c->item));
    struct jscan_value v;
    struct jscan s;

    if (c->passing) {
        c->passing = false;
        c->any = true;
        return true;
    }
    if (text.n == 0)
        return (last && !c->any) || fails(c, "an item is missing");
    jscan_init(&s, text, JSCAN_MAX_DEPTH);
    if (!jscan_value(&s, &v) || !jscan_end(&s))
        return fails(c, "an item is not JSON");
    if (!keep_item(c, v.raw))
        return false;
    buf_reset(&c->item);
    c->any = true;
    return true;
}

/* How many bytes were taken: those of one item at most. */
static size_t take_item(struct list_cut *c, struct slice bytes)
{
    for (size_t i = 0; i < bytes.n; i++) {
        char b = bytes.p[i];
        bool closes = b == '}' || b == ']';

        if (!is_mark(c, b))
            continue;
        if (c->depth > 0 || b == '{' || b == '[') {
            c->depth += closes ? -1u : b != ',';
            continue;
        }
        if (b == '}') {
            (void)fails(c, "an item is not JSON");
            return i;
        }
        if (!add_to_item(c, slice_of(bytes.p, i)) || !end_item(c, closes))
            return i;
        if (closes) {
            c->in_items = false;
            c->depth = c->o.depth;
            (void)add_to_frame(c, SLICE_LIT("]"));
        }
        return i + 1;
    }
    (void)add_to_item(c, bytes);
    return bytes.n;
}

bool list_cut_feed(struct list_cut *c, struct slice bytes)
{
    while (bytes.n > 0 && c->error == NULL)
        bytes = slice_from(bytes, c->in_items ? take_item(c, bytes) : take_frame(c, bytes));
    return c->error == NULL;
}

bool list_cut_end(struct list_cut *c, struct object_list *out, struct err *err)
{
    if (c->error != NULL)
        return err_set(err, "not a list: %s", c->error);
    if (!object_list_begin(out, buf_slice(&c->frame), err))
        return false;
    if (!slice_eq(out->items, SLICE_LIT("[]"))) /* a key with escapes is none that an API server writes */
        return err_set(err, "its items are not where they belong");
    if (buf_len(&c->items) == 0)
        return true;
    if (!buf_append_char(&c->items, ']'))
        return err_set(err, "more than there is room for");
    out->items = buf_slice(&c->items);
    return true;
}
