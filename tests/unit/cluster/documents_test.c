/* SPDX-License-Identifier: Apache-2.0 */
/* Documents that are being prepared: what is known of them then; given up after any step they leave nothing behind. */
#include "cluster/documents.h"

#include "base/buf.h"
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
static unsigned prepare(const struct documents_input *in, unsigned most)
{
    struct documents *d = documents_new(in);
    struct served_documents *out = NULL;
    enum step step = STEP_MORE;
    unsigned n = 0;

    if (d == NULL)
        tap_bail("out of memory");
    while (step == STEP_MORE && n < most) {
        step = documents_step(d, &out);
        n++;
    }
    if (step == STEP_DONE) {
        ok(served_documents_at(out, SERVED_V2)->gzip.n > 0, "compressed");
        is_int(served_documents_at(out, SERVED_V2_PROTOBUF) != NULL, in->protobuf, "in protobuf");
    }
    documents_free(d);
    served_documents_unref(out);
    return step == STEP_DONE ? n : 0;
}

static void given_up(void)
{
    struct documents_input in = {.protobuf = false};
    unsigned whole, unfinished = 0;
    struct buf text;

    buf_init(&text, ROOM);
    write_document(&text, 700);
    ok(!text.failed && buf_len(&text) > DOCUMENTS_GZIP_ABOVE, "large enough");
    for (size_t i = 0; i < SERVED_JSON_SHAPES; i++)
        in.text[i] = buf_slice(&text);
    for (int protobuf = 0; protobuf < 2; protobuf++) {
        in.protobuf = protobuf == 1;
        whole = prepare(&in, MOST_STEPS);
        ok(whole > 3, "%u steps", whole);
        for (unsigned n = 0; n < whole; n++)
            unfinished += prepare(&in, n) == 0;
        ok(unfinished > 0, "given up %u times", unfinished);
    }
    documents_free(NULL);
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
        struct served_documents *out = NULL;
        struct documents *d;
        struct buf text;

        buf_init(&text, ROOM);
        write_document(&text, rows[i].groups);
        for (size_t shape = 0; shape < SERVED_JSON_SHAPES; shape++)
            in.text[shape] = buf_slice(&text);
        d = documents_new(&in);
        while (documents_step(d, &out) == STEP_MORE)
            continue;
        for (enum served_shape shape = 0; shape < SERVED_JSON_SHAPES; shape++) {
            is_int(served_documents_at(out, shape)->gzip.n > 0, rows[i].compressed, "%u groups, compact",
                   rows[i].groups);
            is_int(served_documents_at(out, shape)->long_indented, rows[i].long_indented, "%u groups, laid out",
                   rows[i].groups);
        }
        documents_free(d);
        served_documents_unref(out);
        buf_free(&text);
    }
}

int main(void)
{
    given_up();
    lengths();
    return tap_end();
}
