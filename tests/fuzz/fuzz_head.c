/* SPDX-License-Identifier: Apache-2.0 */
/* Heads of requests and responses, and trailers: any pieces must give what the whole gives. */
#include "base/limits.h"
#include "fuzz/fuzz.h"
#include "http/h1_parse.h"
#include "http/h1_write.h"
#include "http/hop.h"

enum { MAX_HEAD = 8192 };

struct outcome {
    enum h1_result result;
    size_t consumed;
    struct http_head head;
    struct arena *arena;
};

static struct outcome parse(enum h1_kind kind, struct slice in, unsigned pieces)
{
    struct outcome o = {.result = H1_MORE, .arena = arena_new(1 << 20)};
    struct h1_parser *p = h1_parser_new(kind, MAX_HEAD);

    must_hold(o.arena != NULL && p != NULL);
    h1_parser_begin(p, o.arena, &o.head);
    while (o.result == H1_MORE && o.consumed < in.n) {
        size_t left = in.n - o.consumed, n = pieces == 0 ? left : fuzz_piece(&pieces, left), took = 0;

        o.result = h1_parser_feed(p, slice_of(in.p + o.consumed, n), &took);
        must_hold(took <= n);
        must_hold(o.result != H1_MORE || took == n);
        o.consumed += took;
    }
    if (o.result == H1_ERROR) {
        must_hold(h1_parser_error(p) != NULL && h1_parser_error(p)[0] != '\0');
        must_hold(h1_parser_status(p) >= 400 && h1_parser_status(p) <= 599);
    }
    h1_parser_free(p);
    return o;
}

static void check_fields(const struct http_head *head)
{
    must_hold(head->n_fields <= head->cap_fields);
    for (size_t i = 0; i < head->n_fields; i++) {
        const struct http_field *f = &head->fields[i];

        must_hold(f->name.n > 0 && f->id == http_name_of(f->name));
        for (size_t k = 0; k < f->value.n; k++)
            must_hold((unsigned char)f->value.p[k] >= ' ' || f->value.p[k] == '\t');
    }
}

static void same_head(const struct http_head *a, const struct http_head *b)
{
    must_hold(slice_eq(a->method, b->method) && slice_eq(a->target, b->target));
    must_hold(a->status == b->status && a->minor == b->minor && slice_eq(a->reason, b->reason));
    must_hold(a->n_fields == b->n_fields);
    for (size_t i = 0; i < a->n_fields; i++) {
        must_hold(slice_eq(a->fields[i].name, b->fields[i].name));
        must_hold(slice_eq(a->fields[i].value, b->fields[i].value));
    }
}

/* Our own fields may lift a head that was just small enough over a limit. */
static bool within_limits(struct slice head)
{
    size_t lines = 0;

    for (size_t i = 0; i < head.n; i++)
        lines += head.p[i] == '\n';
    return head.n <= MAX_HEAD && lines - 2 <= LIMIT_HEAD_FIELDS; /* the first line and the empty one */
}

/* What is sent on says the same: it parses, to its very end, to the end-to-end fields and the same framing. */
static void forwards(enum h1_kind kind, const struct http_head *head, struct arena *a)
{
    struct http_head to;
    struct http_body body = kind == H1_REQUEST ? h1_request_body(head) : h1_response_body(head, HTTP_GET), again;
    struct buf out;
    struct outcome o;
    bool written;

    buf_init(&out, 1 << 20);
    must_hold(http_head_init(&to, a, head->n_fields + 1) && hop_copy(head, &to, a));
    /* HTTP/1.0 may come without Host, HTTP/1.1 may not go without. */
    if (kind == H1_REQUEST && http_head_find(head, HTTP_HOST) == NULL)
        must_hold(http_head_add_id(&to, a, HTTP_HOST, SLICE_LIT("server")));
    to.method = head->method;
    to.method_id = head->method_id;
    to.target = head->target;
    to.status = head->status;
    to.reason = head->reason;
    written = kind == H1_REQUEST ? h1_write_request(&out, &to, body, 0)
                                 : h1_write_response(&out, &to, body, 0, SLICE_LIT("Thu, 01 Jan 1970 00:00:00 GMT"));
    must_hold(written);
    o = parse(kind, buf_slice(&out), 0);
    if (within_limits(buf_slice(&out))) {
        must_hold(o.result == H1_DONE && o.consumed == buf_len(&out));
        must_hold(slice_eq(o.head.method, head->method) && slice_eq(o.head.target, head->target));
        must_hold(o.head.status == head->status);
        again = kind == H1_REQUEST ? h1_request_body(&o.head) : h1_response_body(&o.head, HTTP_GET);
        must_hold(again.kind == body.kind || (again.kind == HTTP_BODY_LENGTH && again.length == 0));
        must_hold(body.kind != HTTP_BODY_LENGTH || again.length == body.length);
    }
    arena_free(o.arena);
    buf_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice in = slice_of((const char *)data, size);
    enum h1_kind kind = (enum h1_kind)(fuzz_byte(&in) % 3);
    unsigned pieces = fuzz_byte(&in) + 1u;
    struct outcome whole = parse(kind, in, 0), cut = parse(kind, in, pieces);

    must_hold(whole.result == cut.result);
    if (whole.result == H1_DONE) {
        must_hold(whole.consumed == cut.consumed);
        check_fields(&whole.head);
        same_head(&whole.head, &cut.head);
        if (kind != H1_TRAILERS)
            forwards(kind, &whole.head, whole.arena);
        (void)h1_keep_alive(&whole.head);
        (void)h1_expects_continue(&whole.head);
    }
    arena_free(whole.arena);
    arena_free(cut.arena);
    return 0;
}
