/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strict, incremental parser of HTTP/1.x heads and of trailers (RFC 9112). llhttp does the grammar; what it lets
 * through is refused here: see h1_check.h for the rules. Bytes arrive in any pieces; the finished head's text is one
 * contiguous copy in the arena, and the fields are slices into it.
 */
#ifndef MVPROXY_HTTP_H1_PARSE_H
#define MVPROXY_HTTP_H1_PARSE_H

#include "http/head.h"

struct h1_parser;

enum h1_kind { H1_REQUEST, H1_RESPONSE, H1_TRAILERS };

enum h1_result {
    H1_MORE, /* everything given was taken; the head is not complete */
    H1_DONE, /* the head is complete; what was not taken belongs to the body or to the next message */
    H1_ERROR /* never to be fed again before h1_parser_begin(); the connection's framing is lost */
};

/*
 * max_bytes: of the whole head, request line and final empty line included (431 beyond; 414 when the target alone is
 * beyond LIMIT_TARGET_BYTES). Reusable for any number of heads. NULL when out of memory.
 */
MEM_CHECK struct h1_parser *h1_parser_new(enum h1_kind kind, size_t max_bytes);
void h1_parser_free(struct h1_parser *p);
/* Another max_bytes, and how many fields (LIMIT_HEAD_FIELDS at first), for the heads that begin from now on. */
void h1_parser_limit(struct h1_parser *p, size_t max_bytes, size_t max_fields);

/*
 * Starts a new head. The result goes to *head (made empty at once, filled at H1_DONE) with text and fields out of the
 * arena, except for the method, a literal; both must live until then, the arena as long as the head is used. What is
 * kept until the head is complete is charged to the arena's quota.
 */
void h1_parser_begin(struct h1_parser *p, struct arena *a, struct http_head *head);
/* Before that quota goes, or with it: what is kept of this head is charged to nobody. */
void h1_parser_uncharge(struct h1_parser *p);
/* Takes bytes; *consumed is exact at H1_DONE and in.n at H1_MORE. */
enum h1_result h1_parser_feed(struct h1_parser *p, struct slice in, size_t *consumed);
/* True once a byte of the head itself was seen (empty lines before a request line do not count). */
bool h1_parser_started(const struct h1_parser *p);
/* After H1_ERROR: the status to answer a request with (400, 414, 431, 501, 503, 505) and a short reason for log and
 * body. */
unsigned h1_parser_status(const struct h1_parser *p);
const char *h1_parser_error(const struct h1_parser *p);

/* Framing of a parsed request or response (the parser has made sure that it is unambiguous): RFC 9112 section 6.3. */
struct http_body h1_request_body(const struct http_head *head);
struct http_body h1_response_body(const struct http_head *head, enum http_method request_method);
/* The (valid) Content-Length, also where no body follows (HEAD, 304). False if there is none. */
bool h1_content_length(const struct http_head *head, uint64_t *length);
/* May the connection be used again after this message, as far as its own head says? HTTP/1.0 never. */
bool h1_keep_alive(const struct http_head *head);
/* Is it one of the methods that requests may have here? HTTP/2 asks the same question. */
bool h1_method_known(struct slice method);
/* Expect: 100-continue on an HTTP/1.1 request. */
bool h1_expects_continue(const struct http_head *head);

#endif
