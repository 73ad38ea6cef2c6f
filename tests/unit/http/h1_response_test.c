/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Response heads and trailers, and what heads say about bodies and connections.
 */
#include "unit/http/feed.h"

#define R "HTTP/1.1 200 OK\r\n"

static const struct feed_row responses[] = {
    {"plain", V(R "\r\n"), 0, "1 200 <OK>", 0},
    {"body follows", V(R "Content-Length: 2\r\n\r\nhi"), 0, "1 200 <OK>|Content-Length=2", 2},
    {"chunked", V(R "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 0, "1 200 <OK>|Transfer-Encoding=chunked", 5},
    {"HTTP/1.0", V("HTTP/1.0 200 OK\r\n\r\nx"), 0, "0 200 <OK>", 1},
    {"no reason", V("HTTP/1.1 200 \r\n\r\n"), 0, "1 200 <>", 0},
    {"no reason, no space", V("HTTP/1.1 200\r\n\r\n"), 0, "1 200 <>", 0},
    {"long reason", V("HTTP/1.1 503 Service Unavailable now\r\n\r\n"), 0, "1 503 <Service Unavailable now>", 0},
    {"continue", V("HTTP/1.1 100 Continue\r\n\r\n" R), 0, "1 100 <Continue>", 17},
    {"switching", V("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\nraw"), 0,
     "1 101 <Switching Protocols>|Connection=Upgrade|Upgrade=SPDY/3.1", 3},
    {"304 with length", V("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\nETag: \"A\"\r\n\r\n"), 0,
     "1 304 <Not Modified>|Content-Length=5|ETag=\"A\"", 0},
    {"204", V("HTTP/1.1 204 No Content\r\n\r\n"), 0, "1 204 <No Content>", 0},
    {"599", V("HTTP/1.1 599 x\r\n\r\n"), 0, "1 599 <x>", 0},
    {"half", V("HTTP/1.1 200 OK\r\nA:"), 0, NULL, 0},
    {"status 99", V("HTTP/1.1 99 x\r\n\r\n"), 400, NULL, 0},
    {"status 099", V("HTTP/1.1 099 x\r\n\r\n"), 400, NULL, 0},
    {"status 600", V("HTTP/1.1 600 x\r\n\r\n"), 400, NULL, 0},
    {"status 999", V("HTTP/1.1 999 x\r\n\r\n"), 400, NULL, 0},
    {"status 20", V("HTTP/1.1 20 x\r\n\r\n"), 400, NULL, 0},
    {"status 2000", V("HTTP/1.1 2000 x\r\n\r\n"), 400, NULL, 0},
    {"status 2x0", V("HTTP/1.1 2x0 x\r\n\r\n"), 400, NULL, 0},
    {"no status", V("HTTP/1.1 OK\r\n\r\n"), 400, NULL, 0},
    {"two spaces before status", V("HTTP/1.1  200 OK\r\n\r\n"), 400, NULL, 0},
    {"version 1.2", V("HTTP/1.2 200 OK\r\n\r\n"), 505, NULL, 0},
    {"version 2.0", V("HTTP/2.0 200 OK\r\n\r\n"), 505, NULL, 0},
    {"version 0.9", V("HTTP/0.9 200 OK\r\n\r\n"), 505, NULL, 0},
    {"lower case", V("http/1.1 200 OK\r\n\r\n"), 400, NULL, 0},
    {"a request", V("GET / HTTP/1.1\r\n\r\n"), 400, NULL, 0},
    {"HTML", V("<html>"), 400, NULL, 0},
    {"TLS alert", V("\x15\x03\x01\x00\x02\x02\x50"), 400, NULL, 0},
    {"empty line before", V("\r\n" R "\r\n"), 400, NULL, 0},
    {"space before", V(" " R "\r\n"), 400, NULL, 0},
    {"bare LF", V("HTTP/1.1 200 OK\nA: b\n\n"), 400, NULL, 0},
    {"bare LF behind a field", V(R "A: b\n\r\n"), 400, NULL, 0},
    {"bare CR in reason", V("HTTP/1.1 200 O\rK\r\n\r\n"), 400, NULL, 0},
    {"NUL in reason", V("HTTP/1.1 200 O\0K\r\n\r\n"), 400, NULL, 0},
    {"folded line", V(R "A: b\r\n c\r\n\r\n"), 400, NULL, 0},
    {"space before colon", V(R "A : b\r\n\r\n"), 400, NULL, 0},
    {"NUL in value", V(R "A: b\0c\r\n\r\n"), 400, NULL, 0},
    {"control in value", V(R "A: \x02\r\n\r\n"), 400, NULL, 0},
    {"seventeen Connection options", V(R "Connection: a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q\r\n\r\n"), 400, NULL, 0},
    {"two lengths", V(R "Content-Length: 1\r\nContent-Length: 2\r\n\r\n"), 400, NULL, 0},
    {"the same length twice", V(R "Content-Length: 1\r\nContent-Length: 1\r\n\r\n"), 400, NULL, 0},
    {"length list", V(R "Content-Length: 1, 1\r\n\r\n"), 400, NULL, 0},
    {"negative length", V(R "Content-Length: -1\r\n\r\n"), 400, NULL, 0},
    {"plus length", V(R "Content-Length: +1\r\n\r\n"), 400, NULL, 0},
    {"huge length", V(R "Content-Length: 99999999999999999999\r\n\r\n"), 400, NULL, 0},
    {"length and coding", V(R "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"), 400, NULL, 0},
    {"coding and length", V(R "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n"), 400, NULL, 0},
    {"two codings", V(R "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"), 400, NULL, 0},
    {"unknown coding", V(R "Transfer-Encoding: gzip, chunked\r\n\r\n"), 400, NULL, 0},
    {"identity", V(R "Transfer-Encoding: identity\r\n\r\n"), 400, NULL, 0},
    {"coding in HTTP/1.0", V("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), 400, NULL, 0},
    {"coding in 204", V("HTTP/1.1 204 x\r\nTransfer-Encoding: chunked\r\n\r\n"), 400, NULL, 0},
    {"coding in 100", V("HTTP/1.1 100 x\r\nTransfer-Encoding: chunked\r\n\r\n"), 400, NULL, 0},
};

static const struct feed_row trailers[] = {
    {"none", V("\r\n"), 0, "", 0},
    {"one", V("A: b\r\n\r\nnext"), 0, "|A=b", 4},
    {"two", V("A: b\r\nC:\r\n\r\n"), 0, "|A=b|C=", 0},
    {"half", V("A: b\r\n"), 0, NULL, 0},
    {"folded", V("A: b\r\n c\r\n\r\n"), 400, NULL, 0},
    {"bare LF", V("A: b\n\r\n"), 400, NULL, 0},
    {"LF only", V("\n"), 400, NULL, 0},
    {"space before colon", V("A : b\r\n\r\n"), 400, NULL, 0},
    {"space before name", V(" A: b\r\n\r\n"), 400, NULL, 0},
    {"no colon", V("GET / HTTP/1.1\r\n\r\n"), 400, NULL, 0},
    {"NUL", V("A: \0\r\n\r\n"), 400, NULL, 0},
};

static const struct {
    const char *text;
    enum http_method method;
    enum http_body_kind kind;
    uint64_t length;
    bool keep;
} framing[] = {
    {R "\r\n", HTTP_GET, HTTP_BODY_CLOSE, 0, true},
    {R "Content-Length: 7\r\n\r\n", HTTP_GET, HTTP_BODY_LENGTH, 7, true},
    {R "Content-Length: 0\r\n\r\n", HTTP_GET, HTTP_BODY_LENGTH, 0, true},
    {R "Content-Length: 7\r\n\r\n", HTTP_HEAD, HTTP_BODY_NONE, 0, true},
    {R "Transfer-Encoding: chunked\r\n\r\n", HTTP_GET, HTTP_BODY_CHUNKED, 0, true},
    {R "Transfer-Encoding: chunked\r\n\r\n", HTTP_HEAD, HTTP_BODY_NONE, 0, true},
    {"HTTP/1.1 204 x\r\nContent-Length: 7\r\n\r\n", HTTP_GET, HTTP_BODY_NONE, 0, true},
    {"HTTP/1.1 304 x\r\nContent-Length: 7\r\n\r\n", HTTP_GET, HTTP_BODY_NONE, 0, true},
    {"HTTP/1.1 100 x\r\n\r\n", HTTP_POST, HTTP_BODY_NONE, 0, true},
    {"HTTP/1.1 503 x\r\nContent-Length: 7\r\nConnection: close\r\n\r\n", HTTP_GET, HTTP_BODY_LENGTH, 7, false},
    {R "Connection: keep-alive, Close\r\nContent-Length: 0\r\n\r\n", HTTP_GET, HTTP_BODY_LENGTH, 0, false},
    {R "Connection: keep-alive\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", HTTP_GET, HTTP_BODY_LENGTH, 0,
     false},
    {"HTTP/1.0 200 x\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\n", HTTP_GET, HTTP_BODY_LENGTH, 1, false},
};

static const struct {
    const char *text;
    enum http_body_kind kind;
    uint64_t length;
    bool keep, expects;
} request_framing[] = {
    {"GET / HTTP/1.1\r\nHost: h\r\n\r\n", HTTP_BODY_NONE, 0, true, false},
    {"POST / HTTP/1.1\r\nHost: h\r\n\r\n", HTTP_BODY_NONE, 0, true, false},
    {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 12\r\n\r\n", HTTP_BODY_LENGTH, 12, true, false},
    {"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 12\r\n\r\n", HTTP_BODY_LENGTH, 12, true, false},
    {"PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: Chunked\r\nConnection: CLOSE\r\n\r\n", HTTP_BODY_CHUNKED, 0,
     false, false},
    {"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nExpect: 100-Continue\r\n\r\n", HTTP_BODY_LENGTH, 1, true, true},
    {"PUT / HTTP/1.0\r\nHost: h\r\nContent-Length: 1\r\nExpect: 100-Continue\r\n\r\n", HTTP_BODY_LENGTH, 1, false,
     false},
    {"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", HTTP_BODY_NONE, 0, false, false},
};

static void parse(struct h1_parser *p, struct arena *a, const char *text, struct http_head *head)
{
    size_t took;

    h1_parser_begin(p, a, head);
    if (h1_parser_feed(p, slice_str(text), &took) != H1_DONE)
        tap_bail("does not parse: %s", text);
}

static void bodies(void)
{
    struct h1_parser *p = h1_parser_new(H1_RESPONSE, 8192), *q = h1_parser_new(H1_REQUEST, 8192);
    struct arena *a = arena_new(1 << 20);
    struct http_head head;
    uint64_t n = 0;

    if (p == NULL || q == NULL || a == NULL)
        tap_bail("no memory");
    for (size_t i = 0; i < ROWS(framing); i++) {
        struct http_body b;

        parse(p, a, framing[i].text, &head);
        b = h1_response_body(&head, framing[i].method);
        is_int(b.kind, framing[i].kind, "response %zu: kind", i);
        is_u64(b.length, framing[i].length, "response %zu: length", i);
        ok(h1_keep_alive(&head) == framing[i].keep, "response %zu: keep alive", i);
    }
    for (size_t i = 0; i < ROWS(request_framing); i++) {
        struct http_body b;

        parse(q, a, request_framing[i].text, &head);
        b = h1_request_body(&head);
        is_int(b.kind, request_framing[i].kind, "request %zu: kind", i);
        is_u64(b.length, request_framing[i].length, "request %zu: length", i);
        ok(h1_keep_alive(&head) == request_framing[i].keep, "request %zu: keep alive", i);
        ok(h1_expects_continue(&head) == request_framing[i].expects, "request %zu: expects", i);
    }
    parse(p, a, "HTTP/1.1 304 x\r\nContent-Length: 7\r\n\r\n", &head);
    ok(h1_content_length(&head, &n) && n == 7, "a length that announces nothing can be asked for");
    parse(p, a, R "\r\n", &head);
    ok(!h1_content_length(&head, &n), "no length");
    arena_free(a);
    h1_parser_free(p);
    h1_parser_free(q);
}

int main(void)
{
    struct h1_parser *p = h1_parser_new(H1_RESPONSE, 8192), *t = h1_parser_new(H1_TRAILERS, 8192);

    if (p == NULL || t == NULL)
        tap_bail("no memory");
    srand(4020);
    for (size_t i = 0; i < ROWS(responses); i++)
        feed_check(p, H1_RESPONSE, &responses[i]);
    for (size_t i = 0; i < ROWS(trailers); i++)
        feed_check(t, H1_TRAILERS, &trailers[i]);
    h1_parser_free(p);
    h1_parser_free(t);
    bodies();
    return tap_end();
}
