/* SPDX-License-Identifier: Apache-2.0 */
#include "http/h1_body.h"

#include "base/contract.h"
#include "base/limits.h"
#include "http/hop.h"

enum state {
    IDLE,
    PAYLOAD, /* LENGTH and CLOSE */
    SIZE,
    SIZE_LF,
    CHUNK,
    CHUNK_CR,
    CHUNK_LF,
    TRAILER_START,
    TRAILER_LF,
    TRAILERS,
    COMPLETE,
    FAILED
};

enum {
    MAX_SIZE_DIGITS = 16,
    CHUNK_OVERHEAD = 16, /* bytes of framing that each chunk may have, and twice its payload besides */
};

void h1_body_begin(struct h1_body *b, struct http_body how, struct arena *a)
{
    h1_body_reset(b);
    b->kind = how.kind;
    b->arena = a;
    switch (how.kind) {
    case HTTP_BODY_NONE:
        b->state = COMPLETE;
        return;
    case HTTP_BODY_LENGTH:
        b->left = how.length;
        b->state = how.length > 0 ? PAYLOAD : COMPLETE;
        return;
    case HTTP_BODY_CLOSE:
        b->left = UINT64_MAX;
        b->state = PAYLOAD;
        return;
    case HTTP_BODY_CHUNKED:
        b->state = SIZE;
        return;
    }
}

void h1_body_uncharge(struct h1_body *b)
{
    if (b->trailer_parser != NULL)
        h1_parser_uncharge(b->trailer_parser);
}

void h1_body_reset(struct h1_body *b)
{
    h1_parser_free(b->trailer_parser);
    *b = (struct h1_body){.state = IDLE};
}

static enum h1_body_event fail(struct h1_body *b, const char *why)
{
    b->error = why;
    b->state = FAILED;
    return H1_BODY_ERROR;
}

/*
 * Much more framing than payload is work for nothing. The account is that of Go's net/http (since 1.21.5,
 * CVE-2023-39326): a body of single bytes is somebody's stream and passes; with fifteen leading zeros before each it
 * does not, for long.
 */
static bool in_proportion(struct h1_body *b)
{
    /* The size, its line end, and the one behind the payload. */
    uint64_t cost = b->excess + b->digits + 4, fair = CHUNK_OVERHEAD + 2 * b->left;

    b->excess = cost > fair ? cost - fair : 0;
    return b->excess <= LIMIT_CHUNK_EXCESS;
}

/* Digits of a chunk's size up to its CR. */
static const char *read_size(struct h1_body *b, char c)
{
    int digit = slice_hex_digit(c);

    if (digit >= 0) {
        if (b->digits++ >= MAX_SIZE_DIGITS)
            return "chunk size has too many digits";
        b->left = b->left << 4 | (unsigned)digit;
        return NULL;
    }
    if (c == ';' && b->digits > 0)
        return "chunk extension";
    if (c != '\r' || b->digits == 0)
        return "malformed chunk size";
    if (b->left > INT64_MAX)
        return "chunk size is too large";
    if (!in_proportion(b))
        return "more chunk framing than payload";
    b->state = SIZE_LF;
    return NULL;
}

/* Every byte of chunked framing outside payload and trailers. */
static const char *read_framing(struct h1_body *b, char c)
{
    switch ((enum state)b->state) {
    case SIZE:
        return read_size(b, c);
    case SIZE_LF:
        b->state = b->left > 0 ? CHUNK : TRAILER_START;
        return c == '\n' ? NULL : "malformed end of chunk size";
    case CHUNK_CR:
        b->state = CHUNK_LF;
        return c == '\r' ? NULL : "chunk is longer than its size";
    case CHUNK_LF:
        b->state = SIZE;
        b->digits = 0;
        return c == '\n' ? NULL : "malformed end of chunk";
    case TRAILER_LF:
        b->state = COMPLETE;
        return c == '\n' ? NULL : "malformed end of body";
    default:
        return "fed after its end";
    }
}

/* Trailers cannot change what the head said (RFC 9110 6.5.1). */
static void drop_forbidden(struct http_head *trailers)
{
    size_t kept = 0;

    for (size_t i = 0; i < trailers->n_fields; i++)
        if (hop_trailer_allowed(trailers->fields[i].name))
            trailers->fields[kept++] = trailers->fields[i];
    trailers->n_fields = kept;
}

static enum h1_body_event read_trailers(struct h1_body *b, struct slice in, size_t *consumed)
{
    size_t taken;
    enum h1_result r;

    if (b->trailer_parser == NULL) {
        b->trailer_parser = h1_parser_new(H1_TRAILERS, LIMIT_TRAILER_BYTES);
        b->trailers = arena_zalloc(b->arena, sizeof(*b->trailers));
        if (b->trailer_parser == NULL || b->trailers == NULL)
            return fail(b, "out of memory");
        h1_parser_begin(b->trailer_parser, b->arena, b->trailers);
    }
    r = h1_parser_feed(b->trailer_parser, in, &taken);
    *consumed += taken;
    if (r == H1_MORE)
        return H1_BODY_MORE;
    if (r == H1_ERROR)
        return fail(b, h1_parser_error(b->trailer_parser));
    h1_parser_free(b->trailer_parser);
    b->trailer_parser = NULL;
    drop_forbidden(b->trailers);
    b->state = COMPLETE;
    return H1_BODY_END;
}

static enum h1_body_event take_payload(struct h1_body *b, struct slice in, size_t *consumed, struct slice *data)
{
    size_t n = in.n < b->left ? in.n : (size_t)b->left;

    must_hold(n > 0); /* each call gets on: whoever feeds it would go round for ever */
    *data = slice_of(in.p, n);
    *consumed += n;
    if (b->kind != HTTP_BODY_CLOSE)
        b->left -= n;
    if (b->left == 0)
        b->state = b->state == CHUNK ? CHUNK_CR : COMPLETE;
    return H1_BODY_DATA;
}

enum h1_body_event h1_body_feed(struct h1_body *b, struct slice in, size_t *consumed, struct slice *data)
{
    *consumed = 0;
    *data = SLICE_NONE;
    while (b->state != COMPLETE) {
        struct slice rest = slice_from(in, *consumed);
        const char *bad;

        if (b->state == FAILED || b->state == IDLE)
            return H1_BODY_ERROR;
        if (rest.n == 0)
            return H1_BODY_MORE;
        if (b->state == PAYLOAD || b->state == CHUNK)
            return take_payload(b, rest, consumed, data);
        if (b->state == TRAILER_START)
            b->state = rest.p[0] == '\r' ? TRAILER_START : TRAILERS;
        if (b->state == TRAILERS)
            return read_trailers(b, rest, consumed);
        ++*consumed;
        if (b->state == TRAILER_START)
            b->state = TRAILER_LF;
        else if ((bad = read_framing(b, rest.p[0])) != NULL)
            return fail(b, bad);
    }
    return H1_BODY_END;
}

bool h1_body_done(const struct h1_body *b)
{
    return b->state == COMPLETE;
}

bool h1_body_eof(struct h1_body *b)
{
    if (b->state == COMPLETE)
        return true;
    if (b->kind == HTTP_BODY_CLOSE && b->state == PAYLOAD) {
        b->state = COMPLETE;
        return true;
    }
    if (b->state != FAILED)
        fail(b, "body is truncated");
    return false;
}

const struct http_head *h1_body_trailers(const struct h1_body *b)
{
    static const struct http_head none;

    return b->trailers == NULL ? &none : b->trailers;
}

const char *h1_body_error(const struct h1_body *b)
{
    return b->error == NULL ? "no body" : b->error;
}
