/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a connection's bytes as our two sides do, message after message, and writes down what was read; messages.h has
 * the form of that.
 */
#ifndef MVPROXY_TESTS_UNIT_HTTP_READ_MESSAGES_H
#define MVPROXY_TESTS_UNIT_HTTP_READ_MESSAGES_H

#include "http/h1_body.h"
#include "http/hop.h"
#include "unit/http/feed.h"

enum message_part { IN_HEAD, IN_BODY, STOPPED };

struct messages {
    struct h1_parser *parser;
    struct h1_body body;
    struct http_body how; /* the body's framing */
    struct arena *arena;
    struct http_head head;
    struct buf out;
    enum h1_kind kind;
    enum http_method method; /* what responses are for */
    enum message_part part;
    bool any, failed;
    size_t rest;
};

static inline void message_stop(struct messages *m, const char *why)
{
    m->part = STOPPED;
    buf_append_str(&m->out, why);
}

static inline void message_fail(struct messages *m, const char *why)
{
    m->failed = true;
    message_stop(m, why);
}

static inline bool message_upgrades(const struct messages *m)
{
    if (m->kind == H1_RESPONSE)
        return m->head.status == 101;
    return m->how.kind != HTTP_BODY_CHUNKED && m->how.length == 0 && hop_wants_upgrade(&m->head);
}

/* A request is followed by the next one, a response only if it is an interim one. */
static inline void message_end(struct messages *m)
{
    bool interim = m->kind == H1_RESPONSE && m->head.status < 200;

    m->any = true;
    m->part = IN_HEAD;
    if (message_upgrades(m))
        message_stop(m, " upgrade");
    else if (!interim && !h1_keep_alive(&m->head))
        message_stop(m, " close");
    else if (!interim && m->kind == H1_RESPONSE)
        message_stop(m, "");
    else
        h1_parser_begin(m->parser, m->arena, &m->head);
}

static inline void message_head(struct messages *m)
{
    char text[2048];

    feed_render(&m->head, m->kind, text, sizeof(text));
    buf_printf(&m->out, "%s%s", m->any ? "; " : "", text);
    m->how = m->kind == H1_REQUEST ? h1_request_body(&m->head) : h1_response_body(&m->head, m->method);
    m->part = IN_BODY;
    h1_body_begin(&m->body, m->how, m->arena);
    if (m->how.kind != HTTP_BODY_NONE)
        buf_append_char(&m->out, '{');
}

/* Returns what is left of the piece. */
static inline struct slice message_body(struct messages *m, struct slice in)
{
    enum h1_body_event event = H1_BODY_DATA;
    char trailers[512];

    while (event == H1_BODY_DATA) {
        struct slice data;
        size_t took;

        event = h1_body_feed(&m->body, in, &took, &data);
        in = slice_from(in, took);
        if (event == H1_BODY_DATA)
            buf_append(&m->out, data);
    }
    if (event == H1_BODY_ERROR) {
        message_fail(m, "!");
    } else if (event == H1_BODY_END) {
        feed_render(h1_body_trailers(&m->body), H1_TRAILERS, trailers, sizeof(trailers));
        if (m->how.kind != HTTP_BODY_NONE)
            buf_printf(&m->out, "}%s", trailers);
        h1_body_reset(&m->body);
        message_end(m);
    }
    return in;
}

static inline void message_feed(struct messages *m, struct slice in)
{
    enum h1_result r = H1_DONE;
    size_t took;

    while (m->part != STOPPED && in.n > 0) {
        if (m->part == IN_HEAD) {
            r = h1_parser_feed(m->parser, in, &took);
            in = slice_from(in, took);
            if (r == H1_DONE)
                message_head(m);
        }
        if (m->part == IN_BODY)
            in = message_body(m, in);
        if (m->part != STOPPED && r == H1_ERROR) {
            buf_append_str(&m->out, m->any ? "; !" : "!");
            if (m->kind == H1_REQUEST)
                buf_printf(&m->out, "%u", h1_parser_status(m->parser));
            message_fail(m, "");
        }
    }
    if (m->part == STOPPED && !m->failed)
        m->rest += in.n;
}

static inline void message_eof(struct messages *m)
{
    if (m->part == IN_BODY)
        buf_append_str(&m->out, h1_body_eof(&m->body) ? "}" : " cut");
    else if (m->part == IN_HEAD && (m->kind == H1_RESPONSE || h1_parser_started(m->parser)))
        buf_append_str(&m->out, m->any ? "; ..." : "...");
    if (m->rest > 0)
        buf_printf(&m->out, " +%zu", m->rest);
}

#endif
