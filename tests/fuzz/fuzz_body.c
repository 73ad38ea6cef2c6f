/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of every framing: any pieces must give the payload, the end and the trailers that the whole gives. */
#include "base/buf.h"
#include "fuzz/fuzz.h"
#include "http/h1_body.h"

struct outcome {
    enum h1_body_event last;
    size_t consumed;
    struct buf payload;
    struct h1_body body;
    struct arena *arena;
};

static void read_body(struct outcome *o, struct http_body how, struct slice in, unsigned pieces)
{
    *o = (struct outcome){.last = H1_BODY_MORE, .arena = arena_new(1 << 20)};
    must_hold(o->arena != NULL);
    buf_init(&o->payload, 1 << 20);
    h1_body_begin(&o->body, how, o->arena);
    do {
        size_t left = in.n - o->consumed, n = pieces == 0 ? left : fuzz_piece(&pieces, left), at = 0;

        do {
            struct slice piece = slice_of(in.p + o->consumed + at, n - at), data = SLICE_NONE;
            size_t took = 0;

            o->last = h1_body_feed(&o->body, piece, &took, &data);
            must_hold(took <= piece.n);
            must_hold(o->last != H1_BODY_MORE || took == piece.n);
            if (o->last == H1_BODY_DATA) {
                must_hold(data.n > 0 && data.p >= piece.p && data.p + data.n <= piece.p + took);
                must_hold(buf_append(&o->payload, data));
            }
            at += took;
        } while (o->last == H1_BODY_DATA);
        o->consumed += at;
    } while (o->last == H1_BODY_MORE && o->consumed < in.n);
    must_hold(o->last != H1_BODY_ERROR || h1_body_error(&o->body) != NULL);
}

static void check_end(struct outcome *o, struct http_body how)
{
    if (how.kind == HTTP_BODY_LENGTH && o->last == H1_BODY_END)
        must_hold(buf_len(&o->payload) == how.length);
    if (o->last == H1_BODY_MORE)
        must_hold(h1_body_eof(&o->body) == (how.kind == HTTP_BODY_CLOSE));
}

static void compare(struct outcome *a, struct outcome *b)
{
    const struct http_head *s, *t;

    must_hold(a->last == b->last);
    must_hold(a->last == H1_BODY_ERROR || slice_eq(buf_slice(&a->payload), buf_slice(&b->payload)));
    if (a->last != H1_BODY_END)
        return;
    must_hold(a->consumed == b->consumed);
    s = h1_body_trailers(&a->body);
    t = h1_body_trailers(&b->body);
    must_hold(s->n_fields == t->n_fields);
    for (size_t i = 0; i < s->n_fields; i++)
        must_hold(slice_eq(s->fields[i].name, t->fields[i].name) && slice_eq(s->fields[i].value, t->fields[i].value));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice in = slice_of((const char *)data, size);
    uint8_t knob = fuzz_byte(&in);
    struct http_body how = {.kind = (enum http_body_kind)(knob % 4)};
    unsigned pieces = fuzz_byte(&in) + 1u;
    struct outcome whole, cut;

    if (how.kind == HTTP_BODY_LENGTH)
        how.length = knob >> 2;
    read_body(&whole, how, in, 0);
    read_body(&cut, how, in, pieces);
    compare(&whole, &cut);
    check_end(&whole, how);
    check_end(&cut, how);
    h1_body_reset(&whole.body);
    h1_body_reset(&cut.body);
    buf_free(&whole.payload);
    buf_free(&cut.payload);
    arena_free(whole.arena);
    arena_free(cut.arena);
    return 0;
}
