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

enum { COPY_BYTES = 1 << 20, HASH_BYTES = 1 << 20, GZIP_BYTES = 256 << 10, PARSE_BYTES = 256 << 10 };

/* Each shape passes COPY, TAG, GZIP, NEXT. After the JSON shapes the document is read again, and encoded if wanted. */
enum stage { STAGE_COPY, STAGE_TAG, STAGE_GZIP, STAGE_NEXT, STAGE_FEED, STAGE_PARSE, STAGE_ENCODE };

struct documents {
    struct slice text[SERVED_JSON_SHAPES];
    bool protobuf;
    bool read; /* again: `parsed` is there, or cannot be */
    size_t shape;
    enum stage stage;
    size_t at; /* bytes of this stage that are done */
    struct served_document made[SERVED_SHAPES];
    char *storage[SERVED_SHAPES * 3]; /* body, etag, gzip of each */
    struct hash_stream *hash;
    struct gzipper *gzip;
    struct buf compressed;
    struct disco_parser *parser;
    struct disco_doc *parsed;
    struct disco_proto *proto;
    struct slice rest; /* of the piece of `proto` being copied */
};

struct documents *documents_new(const struct documents_input *in)
{
    struct documents *d = mem_zalloc(sizeof(*d));

    if (d == NULL)
        return NULL;
    memcpy(d->text, in->text, sizeof(d->text));
    d->protobuf = in->protobuf;
    if (in->parsed != NULL)
        d->parsed = disco_doc_ref(in->parsed);
    return d;
}

static void drop_tools(struct documents *d)
{
    if (d->hash != NULL)
        (void)hash_sha512_end(d->hash, NULL);
    d->hash = NULL;
    gzipper_free(d->gzip);
    d->gzip = NULL;
    buf_release(&d->compressed);
}

static void drop_protobuf(struct documents *d)
{
    disco_parser_free(d->parser);
    d->parser = NULL;
    disco_proto_free(d->proto);
    d->proto = NULL;
}

void documents_free(struct documents *d)
{
    if (d == NULL)
        return;
    drop_tools(d);
    drop_protobuf(d);
    disco_doc_unref(d->parsed);
    for (size_t i = 0; i < SERVED_SHAPES * 3; i++)
        mem_free(d->storage[i]);
    mem_free(d);
}

static void enter(struct documents *d, enum stage s)
{
    d->stage = s;
    d->at = 0;
}

static bool is_protobuf(const struct documents *d)
{
    return d->shape >= SERVED_JSON_SHAPES;
}

static enum disco_form form(const struct documents *d)
{
    return d->shape == SERVED_V2_PROTOBUF ? DISCO_V2 : DISCO_V2BETA1;
}

/* ---- copies ---- */

static size_t body_bytes(const struct documents *d)
{
    return is_protobuf(d) ? disco_proto_bytes(d->proto, form(d)) : d->text[d->shape].n;
}

static bool begin_copy(struct documents *d)
{
    d->storage[d->shape * 3] = mem_alloc(body_bytes(d) + 1);
    d->rest = is_protobuf(d) ? SLICE_LIT("") : d->text[d->shape];
    return d->storage[d->shape * 3] != NULL && (!is_protobuf(d) || disco_proto_rewind(d->proto, form(d)));
}

static bool step_copy(struct documents *d)
{
    size_t n, left = COPY_BYTES, whole = body_bytes(d);
    char *body;

    if (d->at == 0 && !begin_copy(d))
        return false;
    body = d->storage[d->shape * 3];
    while (left > 0 && d->at < whole) {
        if (d->rest.n == 0 && (!is_protobuf(d) || !disco_proto_next(d->proto, &d->rest)))
            return false;
        n = d->rest.n < left ? d->rest.n : left;
        memcpy(body + d->at, d->rest.p, n);
        d->rest = slice_from(d->rest, n);
        d->at += n;
        left -= n;
    }
    if (d->at < whole)
        return true;
    d->made[d->shape].body = slice_of(body, whole);
    enter(d, STAGE_TAG);
    return true;
}

/* ---- tags, compressed forms ---- */

/* The next piece of this shape's body; empty at its end. */
static struct slice piece(struct documents *d, size_t most)
{
    struct slice rest = slice_from(d->made[d->shape].body, d->at);

    if (rest.n > most)
        rest.n = most;
    d->at += rest.n;
    return rest;
}

/* What a tag is of: the body without kind, apiVersion and the last line feed. */
static struct slice tagged(const struct documents *d)
{
    struct slice body = d->made[d->shape].body;
    static const struct slice heads[] = {
        [SERVED_V2] = SLICE_LIT("{\"kind\":\"" DISCO_LIST_KIND "\",\"apiVersion\":\"" DISCO_GROUP "/v2\","),
        [SERVED_V2BETA1] = SLICE_LIT("{\"kind\":\"" DISCO_LIST_KIND "\",\"apiVersion\":\"" DISCO_GROUP "/v2beta1\","),
    };
    struct slice head = heads[d->shape];

    if (body.n > 0 && body.p[body.n - 1] == '\n')
        body.n--;
    return slice_has_prefix(body, head) ? slice_from(body, head.n) : body;
}

static bool all_done(const struct documents *d)
{
    return d->at >= d->made[d->shape].body.n;
}

static bool keep_etag(struct documents *d, struct slice etag)
{
    char **slot = &d->storage[d->shape * 3 + 1];

    if (*slot == NULL)
        *slot = mem_slicedup(etag);
    d->made[d->shape].etag = slice_str(*slot);
    enter(d, STAGE_GZIP);
    return *slot != NULL;
}

static bool step_tag(struct documents *d)
{
    unsigned char digest[HASH_SHA512_BYTES];
    char text[ETAG_BYTES];
    struct slice rest;
    bool fine;

    if (is_protobuf(d))
        return keep_etag(d, d->made[d->shape - SERVED_JSON_SHAPES].etag);
    if (d->hash == NULL) {
        d->hash = hash_sha512_start();
        if (d->hash == NULL || (tagged(d).p != d->made[d->shape].body.p && !hash_sha512_add(d->hash, SLICE_LIT("{"))))
            return false;
    }
    rest = slice_from(tagged(d), d->at);
    rest.n = rest.n > HASH_BYTES ? HASH_BYTES : rest.n;
    d->at += rest.n;
    if (!hash_sha512_add(d->hash, rest))
        return false;
    if (d->at < tagged(d).n)
        return true;
    fine = hash_sha512_end(d->hash, digest);
    d->hash = NULL;
    etag_from_sha512(digest, text);
    return fine && keep_etag(d, slice_str(text));
}

static bool keep_gzip(struct documents *d)
{
    char **slot = &d->storage[d->shape * 3 + 2];
    struct slice compressed = buf_slice(&d->compressed);

    /* Exactly as long as needed: it lives for hours. */
    *slot = mem_slicedup(compressed);
    d->made[d->shape].gzip = slice_of(*slot, compressed.n);
    drop_tools(d);
    enter(d, STAGE_NEXT);
    return *slot != NULL;
}

/* Known from here on, as each request for the laid out form has to say in its head whether it is compressed. */
static void measure_indented(struct documents *d)
{
    struct slice text = d->made[d->shape].body;

    if (text.n > 0 && text.p[text.n - 1] == '\n') /* behind the compact form only */
        text.n--;
    d->made[d->shape].long_indented = !is_protobuf(d) && json_indent_is_over(text, DOCUMENTS_GZIP_ABOVE);
}

static bool step_gzip(struct documents *d)
{
    struct slice text = d->made[d->shape].body, p;

    if (d->at == 0)
        measure_indented(d);
    if (text.n <= DOCUMENTS_GZIP_ABOVE) {
        enter(d, STAGE_NEXT);
        return true;
    }
    if (d->gzip == NULL) {
        buf_init(&d->compressed, text.n + (64 << 10));
        d->gzip = gzipper_new();
    }
    if (d->gzip == NULL)
        return false;
    p = piece(d, GZIP_BYTES);
    if (gzipper_feed(d->gzip, p, all_done(d), &d->compressed) != GZIP_OK)
        return false;
    return !all_done(d) || keep_gzip(d);
}

/* ---- protobuf forms ---- */

static bool no_protobuf(struct documents *d, const struct err *err)
{
    log_error("Merged discovery has JSON forms only", LT("err", err_is_set(err) ? err->text : "out of memory"));
    drop_protobuf(d);
    d->protobuf = false;
    d->read = true;
    enter(d, STAGE_NEXT);
    d->shape = SERVED_JSON_SHAPES - 1;
    return true;
}

static bool step_feed(struct documents *d, struct err *err)
{
    struct slice text = slice_from(d->text[SERVED_V2], d->at);

    if (d->parsed != NULL) {
        enter(d, STAGE_PARSE);
        return true;
    }
    if (d->parser == NULL)
        d->parser = disco_parser_new();
    text.n = text.n > COPY_BYTES ? COPY_BYTES : text.n;
    d->at += text.n;
    if (d->parser == NULL || !disco_parser_feed(d->parser, text, err))
        return false;
    if (d->at == d->text[SERVED_V2].n)
        enter(d, STAGE_PARSE);
    return true;
}

static bool step_parse(struct documents *d, struct err *err)
{
    if (d->parsed == NULL && disco_parser_step(d->parser, PARSE_BYTES, &d->parsed, err) == STEP_FAILED)
        return false;
    if (d->parsed == NULL)
        return true;
    d->read = true;
    if (!d->protobuf) {
        drop_protobuf(d);
        d->shape = SERVED_JSON_SHAPES - 1;
        enter(d, STAGE_NEXT);
        return true;
    }
    d->proto = disco_proto_new(d->parsed);
    enter(d, STAGE_ENCODE);
    return d->proto != NULL;
}

static bool step_encode(struct documents *d, struct err *err)
{
    enum step s = disco_proto_step(d->proto, PARSE_BYTES, err);

    if (s == STEP_DONE)
        enter(d, STAGE_COPY);
    return s != STEP_FAILED;
}

static bool step_protobuf(struct documents *d)
{
    struct err err = {.text = ""};
    bool good = true;

    if (d->stage == STAGE_FEED)
        good = step_feed(d, &err);
    else if (d->stage == STAGE_PARSE)
        good = step_parse(d, &err);
    else
        good = step_encode(d, &err);
    return good || no_protobuf(d, &err);
}

/* ---- steps ---- */

static enum step finish(struct documents *d, struct served_documents **out)
{
    *out = served_documents_new(d->made, d->storage, d->parsed);
    memset(d->storage, 0, sizeof(d->storage));
    return *out == NULL ? STEP_FAILED : STEP_DONE;
}

/* False: that was the last one. */
static bool next_shape(struct documents *d)
{
    d->shape++;
    enter(d, d->shape == SERVED_JSON_SHAPES && !d->read ? STAGE_FEED : STAGE_COPY);
    return d->stage == STAGE_FEED || d->shape < (d->protobuf ? SERVED_SHAPES : SERVED_JSON_SHAPES);
}

enum step documents_step(struct documents *d, struct served_documents **out)
{
    bool fine = true;

    switch (d->stage) {
    case STAGE_COPY:
        fine = step_copy(d);
        break;
    case STAGE_TAG:
        fine = step_tag(d);
        break;
    case STAGE_GZIP:
        fine = step_gzip(d);
        break;
    case STAGE_NEXT:
        if (!next_shape(d))
            return finish(d, out);
        break;
    case STAGE_FEED:
    case STAGE_PARSE:
    case STAGE_ENCODE:
        fine = step_protobuf(d);
        break;
    }
    return fine ? STEP_MORE : STEP_FAILED;
}
