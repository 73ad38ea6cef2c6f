/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/watch.h"

#include "base/buf.h"
#include "base/limits.h"
#include "kube/jscan.h"
#include "kube/object.h"

struct watch_parser {
    struct buf held;
    size_t line_limit;
    size_t searched;  /* of the held bytes: no newline in them */
    size_t delivered; /* the line given out last, to be dropped before the next one */
    bool skipping;    /* inside a line over the limit, already reported */
};

struct watch_parser *watch_parser_new(size_t line_limit)
{
    struct watch_parser *p = mem_zalloc(sizeof(*p));

    if (p == NULL)
        return NULL;
    p->line_limit = line_limit;
    /* Whoever obeys the contract never holds more than a line and a feed; a feed is at most what a stream's input may
     * hold. */
    buf_init(&p->held, line_limit + LIMIT_STREAM_INPUT + LIMIT_STREAM_READ_TURN);
    return p;
}

void watch_parser_free(struct watch_parser *p)
{
    if (p == NULL)
        return;
    buf_free(&p->held);
    mem_free(p);
}

static void drop_delivered(struct watch_parser *p)
{
    if (p->delivered > 0)
        buf_consume(&p->held, p->delivered);
    p->delivered = 0;
}

void watch_parser_feed(struct watch_parser *p, struct slice bytes)
{
    drop_delivered(p);
    (void)buf_append(&p->held, bytes); /* a failure is sticky; next reports it */
}

static bool type_from(const struct jscan_value *v, enum watch_type *type)
{
    static const struct {
        struct slice text;
        enum watch_type type;
    } types[] = {
        {SLICE_LIT("ADDED"), WATCH_ADDED},     {SLICE_LIT("MODIFIED"), WATCH_MODIFIED},
        {SLICE_LIT("DELETED"), WATCH_DELETED}, {SLICE_LIT("BOOKMARK"), WATCH_BOOKMARK},
        {SLICE_LIT("ERROR"), WATCH_ERROR},
    };

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (jscan_text_eq(v, types[i].text)) {
            *type = types[i].type;
            return true;
        }
    return false;
}

/* ---- one pass over the line: what is wanted of the object is taken on the way ---- */

/* Inside of a string as it is written; "" if it is something else. Of two members the first counts. */
static void take_raw(const struct jscan_value *v, struct slice *out)
{
    if (out->n == 0 && v->type == JSCAN_STRING)
        *out = slice_of(v->raw.p + 1, v->raw.n - 2);
}

static void take_plain(const struct jscan_value *v, struct slice *out)
{
    if (out->p == NULL)
        *out = object_plain(v);
}

static bool read_metadata(struct jscan *s, struct watch_event *ev)
{
    struct jscan_value key, value;
    bool first;

    if (!jscan_enter_object(s, &first))
        return false;
    while (jscan_member(s, &first, &key) && jscan_value(s, &value))
        if (jscan_text_eq(&key, SLICE_LIT("resourceVersion")))
            take_raw(&value, &ev->resource_version);
        else if (jscan_text_eq(&key, SLICE_LIT("namespace")))
            take_plain(&value, &ev->ns);
        else if (jscan_text_eq(&key, SLICE_LIT("name")))
            take_plain(&value, &ev->name);
    return s->error == NULL;
}

static bool is_object(struct jscan *s)
{
    enum jscan_type type;

    return jscan_peek(s, &type) && type == JSCAN_OBJECT;
}

static bool read_object(struct jscan *s, struct watch_event *ev)
{
    struct jscan_value key, value;
    uint64_t code;
    size_t start;
    bool first, is_metadata, had_metadata = false;

    if (!is_object(s) || !jscan_enter_object(s, &first))
        return false;
    start = s->pos - 1;
    while (jscan_member(s, &first, &key)) {
        is_metadata = !had_metadata && jscan_text_eq(&key, SLICE_LIT("metadata"));
        had_metadata = had_metadata || is_metadata;
        if (is_metadata && is_object(s)) {
            if (!read_metadata(s, ev))
                return false;
            continue;
        }
        if (!jscan_value(s, &value))
            return false;
        if (jscan_text_eq(&key, SLICE_LIT("message")))
            take_raw(&value, &ev->message);
        else if (ev->code == 0 && jscan_text_eq(&key, SLICE_LIT("code")) && slice_u64(value.raw, &code) && code <= 999)
            ev->code = (unsigned)code;
    }
    ev->object = slice_of(s->text.p + start, s->pos - start);
    return s->error == NULL;
}

/* Only an error is a Status; whatever else has such members is another thing. */
static void keep_what_counts(struct watch_event *ev)
{
    if (ev->type == WATCH_ERROR) {
        ev->resource_version = SLICE_LIT("");
        return;
    }
    ev->message = SLICE_LIT("");
    ev->code = 0;
}

/* {"type":...,"object":{...}} with each of the two exactly once. */
static bool parse_line(struct slice line, struct watch_event *ev)
{
    struct jscan s;
    struct jscan_value key, value;
    bool first, have_type = false;

    *ev = (struct watch_event){.resource_version = SLICE_LIT(""), .message = SLICE_LIT("")};
    jscan_init(&s, line, JSCAN_MAX_DEPTH);
    if (!jscan_enter_object(&s, &first))
        return false;
    while (jscan_member(&s, &first, &key)) {
        if (jscan_text_eq(&key, SLICE_LIT("object"))) {
            if (ev->object.p != NULL || !read_object(&s, ev))
                return false;
            continue;
        }
        if (!jscan_value(&s, &value))
            return false;
        if (jscan_text_eq(&key, SLICE_LIT("type"))) {
            if (have_type || !type_from(&value, &ev->type))
                return false;
            have_type = true;
        }
    }
    if (s.error != NULL || !jscan_end(&s) || !have_type || ev->object.p == NULL)
        return false;
    keep_what_counts(ev);
    return true;
}

/* What can be told of a line from its beginning. */
static void read_beginning(struct slice line, struct watch_event *ev)
{
    struct jscan s;
    struct jscan_value key, value;
    enum jscan_type type;
    bool first;

    *ev = (struct watch_event){.object = SLICE_LIT("")};
    jscan_init(&s, line, JSCAN_MAX_DEPTH);
    if (!jscan_enter_object(&s, &first))
        return;
    while (jscan_member(&s, &first, &key)) {
        if (jscan_text_eq(&key, SLICE_LIT("object"))) {
            if (jscan_peek(&s, &type))
                ev->object = slice_from(line, s.pos);
            return;
        }
        if (!jscan_value(&s, &value))
            return;
        if (jscan_text_eq(&key, SLICE_LIT("type")))
            (void)type_from(&value, &ev->type);
    }
}

static struct slice beginning(const struct watch_parser *p, struct slice line)
{
    return slice_of(line.p, line.n < p->line_limit ? line.n : p->line_limit);
}

/* The held bytes have no newline. */
static enum watch_result wait_for_more(struct watch_parser *p, struct watch_event *ev)
{
    size_t held = buf_len(&p->held);

    p->searched = held;
    if (!p->skipping && held <= p->line_limit)
        return WATCH_MORE;
    p->delivered = held;
    p->searched = 0;
    if (p->skipping)
        return WATCH_MORE;
    p->skipping = true;
    read_beginning(beginning(p, buf_slice(&p->held)), ev);
    return WATCH_TOO_LONG;
}

enum watch_result watch_parser_next(struct watch_parser *p, struct watch_event *ev)
{
    struct slice held, line;
    const char *end;
    bool skipped;

    drop_delivered(p);
    for (;;) {
        if (p->held.failed)
            return WATCH_NO_MEMORY;
        held = buf_slice(&p->held);
        end = p->searched < held.n ? memchr(held.p + p->searched, '\n', held.n - p->searched) : NULL;
        if (end == NULL)
            return wait_for_more(p, ev);
        line = slice_of(held.p, (size_t)(end - held.p));
        skipped = p->skipping;
        p->skipping = false;
        p->searched = 0;
        p->delivered = line.n + 1;
        if (line.n > p->line_limit && !skipped) {
            read_beginning(beginning(p, line), ev);
            return WATCH_TOO_LONG;
        }
        if (!skipped && slice_trim(line).n > 0 && !slice_eq(line, SLICE_LIT("\r")))
            return parse_line(line, ev) ? WATCH_EVENT : WATCH_BAD_LINE;
        drop_delivered(p); /* an empty line, or the rest of one that was reported */
    }
}
