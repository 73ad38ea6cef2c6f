/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/documents.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/log.h"
#include "http/etag.h"
#include "http/gzip.h"
#include "kube/disco_proto.h"
#include "kube/json_indent.h"

/* As many are copied or hashed in the time that one takes to be compressed or parsed. */
enum { QUICK_BYTES = 4 };

struct documents {
    const struct documents_input *in;
    struct served_document made[SERVED_SHAPES];
    char *storage[SERVED_SHAPES * 3]; /* body, etag, gzip of each */
    struct disco_doc *parsed;
};

/* ---- bodies ---- */

static bool copy_body(struct documents *d, size_t shape, struct fiber *f)
{
    struct slice text = d->in->text[shape];
    struct buf body;
    bool good;

    buf_init(&body, text.n + 1);
    good = buf_reserve(&body, text.n + 1) != NULL && buf_append_long(&body, text, f, QUICK_BYTES);
    d->made[shape].body = buf_slice(&body);
    d->storage[shape * 3] = buf_disown(&body);
    return good;
}

/* What a tag is of: the body without kind, apiVersion and the last line feed. */
static struct slice tagged(struct slice body, size_t shape)
{
    static const struct slice heads[] = {
        [SERVED_V2] = SLICE_LIT("{\"kind\":\"" DISCO_LIST_KIND "\",\"apiVersion\":\"" DISCO_GROUP "/v2\","),
        [SERVED_V2BETA1] = SLICE_LIT("{\"kind\":\"" DISCO_LIST_KIND "\",\"apiVersion\":\"" DISCO_GROUP "/v2beta1\","),
    };

    if (body.n > 0 && body.p[body.n - 1] == '\n')
        body.n--;
    return slice_has_prefix(body, heads[shape]) ? slice_from(body, heads[shape].n) : body;
}

static bool keep_etag(struct documents *d, size_t shape, struct slice etag)
{
    char **slot = &d->storage[shape * 3 + 1];

    *slot = mem_slicedup(etag);
    d->made[shape].etag = slice_str(*slot);
    return *slot != NULL;
}

/* Takes it off the front. */
static struct slice next_piece(struct slice *rest)
{
    struct slice piece = slice_of(rest->p, rest->n < DOCUMENTS_BUDGET ? rest->n : DOCUMENTS_BUDGET);

    *rest = slice_from(*rest, piece.n);
    return piece;
}

static bool tag(struct documents *d, size_t shape, struct fiber *f)
{
    struct slice body = d->made[shape].body, text = tagged(body, shape);
    struct hash_stream *hash = hash_sha512_start();
    unsigned char digest[HASH_SHA512_BYTES];
    char etag[ETAG_BYTES];
    bool good;

    if (hash == NULL)
        return false;
    good =
        (text.p == body.p || hash_sha512_add(hash, SLICE_LIT("{"))) && hash_sha512_add_long(hash, text, f, QUICK_BYTES);
    if (!hash_sha512_end(hash, good ? digest : NULL))
        return false;
    etag_from_sha512(digest, etag);
    return keep_etag(d, shape, slice_str(etag));
}

static bool compress_all(struct slice rest, struct buf *out, struct fiber *f)
{
    struct gzipper *gzip = gzipper_new();
    bool good = gzip != NULL;

    while (good && rest.n > 0) {
        struct slice piece = next_piece(&rest);

        good = gzipper_feed(gzip, piece, rest.n == 0, out) == GZIP_OK && fiber_spend(f, piece.n);
    }
    gzipper_free(gzip);
    return good;
}

/* No longer than needed: it lives for hours. NULL when out of memory, or given up. */
static char *copy_exactly(struct slice text, struct fiber *f)
{
    struct buf copy;

    buf_init(&copy, text.n + 1);
    if (buf_reserve(&copy, text.n + 1) == NULL || !buf_append_long(&copy, text, f, QUICK_BYTES))
        buf_free(&copy);
    return buf_disown(&copy);
}

static bool compress(struct documents *d, size_t shape, struct fiber *f)
{
    char **slot = &d->storage[shape * 3 + 2];
    struct slice body = d->made[shape].body;
    struct buf out;

    if (body.n <= DOCUMENTS_GZIP_ABOVE)
        return true;
    buf_init(&out, body.n + (64 << 10));
    if (compress_all(body, &out, f))
        *slot = copy_exactly(buf_slice(&out), f);
    d->made[shape].gzip = slice_of(*slot, *slot == NULL ? 0 : buf_len(&out));
    buf_free(&out);
    return *slot != NULL;
}

/* Who wants it laid out has to be told in the head of the answer whether it is compressed. */
static void measure_indented(struct documents *d, size_t shape)
{
    struct slice text = d->made[shape].body;

    if (text.n > 0 && text.p[text.n - 1] == '\n') /* behind the compact form only */
        text.n--;
    d->made[shape].long_indented = json_indent_is_over(text, DOCUMENTS_GZIP_ABOVE);
}

/* ---- what is read in them, and made of that ---- */

static struct disco_doc *read_text(struct slice rest, struct fiber *f, struct err *err)
{
    struct disco_parser *p = disco_parser_new();
    struct disco_doc *doc = NULL;
    bool good = p != NULL;

    while (good && rest.n > 0) {
        struct slice piece = next_piece(&rest);

        good = disco_parser_feed(p, piece, err) && fiber_spend(f, piece.n / QUICK_BYTES);
    }
    if (good)
        doc = disco_parser_read(p, f, err);
    disco_parser_free(p);
    return doc;
}

static bool put_protobuf(struct documents *d, size_t shape, const struct disco_proto *proto, struct fiber *f)
{
    enum disco_form form = shape == SERVED_V2_PROTOBUF ? DISCO_V2 : DISCO_V2BETA1;
    size_t n = disco_proto_bytes(proto, form);
    struct buf body;
    bool good;

    buf_init(&body, n + 1);
    good = buf_reserve(&body, n + 1) != NULL && disco_proto_write(proto, form, &body, f);
    d->made[shape].body = buf_slice(&body);
    d->storage[shape * 3] = buf_disown(&body);
    return good && keep_etag(d, shape, d->made[shape - SERVED_JSON_SHAPES].etag) && compress(d, shape, f);
}

/* Is not there if it cannot be had, which is said. */
static struct disco_proto *make_protobuf(struct documents *d, struct fiber *f)
{
    struct err err = {.text = ""};
    struct disco_proto *proto = NULL;

    if (d->parsed == NULL)
        d->parsed = read_text(d->in->text[SERVED_V2], f, &err);
    if (d->parsed != NULL && !d->in->protobuf)
        return NULL;
    if (d->parsed != NULL)
        proto = disco_proto_new(d->parsed);
    if (proto != NULL && disco_proto_make(proto, f, &err))
        return proto;
    disco_proto_free(proto);
    if (!fiber_is_given_up(f))
        log_error("Merged discovery has JSON forms only", LT("err", err_is_set(&err) ? err.text : "out of memory"));
    return NULL;
}

/* ---- the whole ---- */

static bool make(struct documents *d, struct fiber *f)
{
    struct disco_proto *proto;
    bool good = true;

    for (size_t shape = 0; shape < SERVED_JSON_SHAPES; shape++) {
        if (!copy_body(d, shape, f) || !tag(d, shape, f) || !compress(d, shape, f))
            return false;
        measure_indented(d, shape);
    }
    proto = make_protobuf(d, f);
    for (size_t shape = SERVED_JSON_SHAPES; good && proto != NULL && shape < SERVED_SHAPES; shape++)
        good = put_protobuf(d, shape, proto, f);
    disco_proto_free(proto);
    return good && !fiber_is_given_up(f);
}

struct served_documents *documents_make(const struct documents_input *in, struct fiber *f)
{
    struct documents d = {.in = in, .parsed = in->parsed == NULL ? NULL : disco_doc_ref(in->parsed)};
    struct served_documents *made = NULL;

    if (make(&d, f))
        made = served_documents_new(d.made, d.storage, d.parsed);
    else
        for (size_t i = 0; i < SERVED_SHAPES * 3; i++)
            mem_free(d.storage[i]);
    disco_doc_unref(d.parsed);
    return made;
}
