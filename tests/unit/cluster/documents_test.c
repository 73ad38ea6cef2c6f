/* SPDX-License-Identifier: Apache-2.0 */
/* Documents that are being prepared: what is known of them then; given up after any step they leave nothing behind. */
#include "cluster/documents.h"

#include "base/buf.h"
#include "base/hash.h"
#include "http/etag.h"
#include "http/gzip.h"
#include "lib/documents_steps.h"
#include "lib/tap.h"

enum { ROOM = 1 << 20, MOST_STEPS = 4000 };

static void write_document(struct buf *out, unsigned groups)
{
    buf_append_str(out, "{\"kind\":\"APIGroupDiscoveryList\",\"apiVersion\":\"apidiscovery.k8s.io/v2\",\"metadata\":{},"
                        "\"items\":[");
    for (unsigned i = 0; i < groups; i++)
        buf_printf(out,
                   "%s{\"metadata\":{\"name\":\"group-%u.example\"},\"versions\":[{\"version\":\"v1\",\"resources\":["
                   "{\"resource\":\"things\",\"responseKind\":{\"group\":\"\",\"version\":\"v1\",\"kind\":\"Thing\"},"
                   "\"scope\":\"Namespaced\",\"singularResource\":\"thing\",\"verbs\":[\"get\"]}],\"freshness\":"
                   "\"Current\"}]}",
                   i == 0 ? "" : ",", i);
    buf_append_str(out, "]}\n");
}

/* So many steps at most. How many were needed; 0: not done. */
static unsigned prepare(const struct documents_input *in, unsigned most, struct served_documents **out)
{
    struct documents_steps m = {.in = in};
    enum step step = STEP_MORE;
    struct fiber f;
    unsigned n = 0;

    fiber_init(&f, documents_steps_run, &m, NULL);
    while (step == STEP_MORE && n < most) {
        step = fiber_step(&f, DOCUMENTS_BUDGET);
        n++;
    }
    fiber_close(&f);
    ok((step == STEP_DONE) == (m.out != NULL), "done, or nothing is made");
    *out = m.out;
    return step == STEP_DONE ? n : 0;
}

static bool is_given_up(const struct documents_input *in, unsigned most)
{
    struct served_documents *out;
    bool done = prepare(in, most, &out) != 0;

    served_documents_unref(out);
    return !done;
}

static void given_up(void)
{
    struct documents_input in = {.protobuf = false};
    struct served_documents *out;
    unsigned whole, unfinished = 0;
    struct buf text;

    buf_init(&text, ROOM);
    write_document(&text, 700);
    ok(!text.failed && buf_len(&text) > DOCUMENTS_GZIP_ABOVE, "large enough");
    for (size_t i = 0; i < SERVED_JSON_SHAPES; i++)
        in.text[i] = buf_slice(&text);
    for (int protobuf = 0; protobuf < 2; protobuf++) {
        in.protobuf = protobuf == 1;
        whole = prepare(&in, MOST_STEPS, &out);
        ok(whole > 3, "%u steps", whole);
        ok(served_documents_at(out, SERVED_V2)->gzip.n > 0, "compressed");
        is_int(served_documents_at(out, SERVED_V2_PROTOBUF) != NULL, in.protobuf, "in protobuf");
        served_documents_unref(out);
        for (unsigned n = 0; n < whole; n++)
            unfinished += is_given_up(&in, n);
        ok(unfinished > 0, "given up %u times", unfinished);
    }
    buf_free(&text);
}

/* Which forms are over 128 KiB is known before anybody asks for them. */
static void lengths(void)
{
    static const struct {
        unsigned groups;
        bool compressed, long_indented;
    } rows[] = {{10, false, false}, {300, false, true}, {700, true, true}};

    for (size_t i = 0; i < ROWS(rows); i++) {
        struct documents_input in = {.protobuf = true};
        struct served_documents *out;
        struct buf text;

        buf_init(&text, ROOM);
        write_document(&text, rows[i].groups);
        for (size_t shape = 0; shape < SERVED_JSON_SHAPES; shape++)
            in.text[shape] = buf_slice(&text);
        out = documents_make(&in, NULL);
        for (enum served_shape shape = 0; shape < SERVED_JSON_SHAPES; shape++) {
            is_int(served_documents_at(out, shape)->gzip.n > 0, rows[i].compressed, "%u groups, compact",
                   rows[i].groups);
            is_int(served_documents_at(out, shape)->long_indented, rows[i].long_indented, "%u groups, laid out",
                   rows[i].groups);
        }
        served_documents_unref(out);
        buf_free(&text);
    }
}

/* In pieces that hold nobody up, and all the same what it would be in one. */
static void in_pieces(void)
{
    enum { MEGABYTES = 3, LEAST_STEPS = SERVED_JSON_SHAPES * (4 + 4 + 13), LARGE_ROOM = 8 << 20 };
    static const char head[] = "{\"kind\":\"APIGroupDiscoveryList\",\"apiVersion\":\"apidiscovery.k8s.io/v2\",";
    unsigned char digest[HASH_SHA512_BYTES];
    char tag[ETAG_BYTES];
    struct documents_input in = {.protobuf = false};
    struct gzipper *g = gzipper_new();
    struct served_documents *out;
    const struct served_document *made;
    struct buf text, tagged, packed;
    unsigned n;

    buf_init(&text, LARGE_ROOM);
    buf_init(&tagged, LARGE_ROOM);
    buf_init(&packed, LARGE_ROOM);
    buf_append_str(&text, head);
    buf_append_str(&text, "\"metadata\":{},\"items\":[");
    for (unsigned i = 0; buf_len(&text) <= MEGABYTES << 20; i++)
        buf_printf(&text, "%s{\"metadata\":{\"name\":\"group-%u.example\"},\"versions\":[]}", i == 0 ? "" : ",",
                   i * 7919);
    buf_append_str(&text, "]}\n");
    for (size_t i = 0; i < SERVED_JSON_SHAPES; i++)
        in.text[i] = buf_slice(&text);
    n = prepare(&in, MOST_STEPS, &out);
    ok(n >= LEAST_STEPS, "%zu bytes take %u steps", buf_len(&text), n);
    made = served_documents_at(out, SERVED_V2);
    ok(slice_eq(made->body, buf_slice(&text)), "the body");
    buf_append_char(&tagged, '{');
    buf_append(&tagged, slice_of(made->body.p + sizeof(head) - 1, made->body.n - (sizeof(head) - 1) - 1));
    ok(hash_sha512(buf_slice(&tagged), digest), "of the body without kind, apiVersion and line feed");
    etag_from_sha512(digest, tag);
    is_slice(made->etag, tag, "is the tag");
    ok(gzipper_feed(g, buf_slice(&text), true, &packed) == GZIP_OK && slice_eq(made->gzip, buf_slice(&packed)),
       "compressed as in one");
    gzipper_free(g);
    served_documents_unref(out);
    buf_free(&text);
    buf_free(&tagged);
    buf_free(&packed);
}

int main(void)
{
    given_up();
    lengths();
    in_pieces();
    return tap_end();
}
