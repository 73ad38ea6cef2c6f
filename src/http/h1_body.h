/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a message's body out of the connection's bytes: payload is yielded in place, nothing is copied. Chunk sizes
 * are strict (plain hex, at most 16 digits, CRLF) and no great part of the body; chunk extensions are refused: nobody
 * in Kubernetes sends any and they are a known smuggling vector. Trailers are parsed like heads; names that must not be
 * there are dropped.
 */
#ifndef MVPROXY_HTTP_H1_BODY_H
#define MVPROXY_HTTP_H1_BODY_H

#include "http/h1_parse.h"

enum h1_body_event {
    H1_BODY_MORE, /* everything given was taken, more is needed */
    H1_BODY_DATA, /* *data is a piece of payload (inside `in`); call again with the rest, even an empty one */
    H1_BODY_END,  /* complete; the rest belongs to the next message */
    H1_BODY_ERROR /* h1_body_error() says what; the connection must close */
};

/* Public so that it can be embedded; a zeroed one is idle. Touch it only through these functions. */
struct h1_body {
    enum http_body_kind kind;
    unsigned state; /* enum of h1_body.c */
    uint64_t left;  /* bytes of payload still to come in this body or chunk */
    unsigned digits;
    uint64_t excess; /* bytes of chunk framing beyond what is fair */
    struct arena *arena;
    struct h1_parser *trailer_parser; /* only while trailers arrive */
    struct http_head *trailers;       /* in the arena; NULL as long as there are none */
    const char *error;
};

/* The arena takes the trailers; it must live until h1_body_reset(). */
void h1_body_begin(struct h1_body *b, struct http_body how, struct arena *a);
/* Has all of it been read? Then nothing needs to be fed, not even to learn of the end. */
bool h1_body_done(const struct h1_body *b);
/* *consumed bytes of `in` are done with (payload included). At H1_BODY_END or ERROR it must not be called again. */
enum h1_body_event h1_body_feed(struct h1_body *b, struct slice in, size_t *consumed, struct slice *data);
/* The connection ended: true if that completes the body (only HTTP_BODY_CLOSE), false if the body is truncated. */
bool h1_body_eof(struct h1_body *b);
/* Before the arena's quota goes: trailers that are not complete are charged to nobody. */
void h1_body_uncharge(struct h1_body *b);
/* Gives back what it holds; the trailers' text stays in the arena. */
void h1_body_reset(struct h1_body *b);
/* After H1_BODY_END; no fields if there were none. Valid until the next begin, as long as the arena. */
const struct http_head *h1_body_trailers(const struct h1_body *b);
const char *h1_body_error(const struct h1_body *b);

#endif
