/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Request heads that must parse, and those that must not: the families of request smuggling (RFC 9112 sections 2 to 7
 * and what proxies were caught with), and kube's own everyday requests.
 */
#include "base/limits.h"
#include "unit/http/feed.h"

#define G "GET / HTTP/1.1\r\n"
#define P "POST / HTTP/1.1\r\nHost: h\r\n"
#define GH G "Host: h\r\n"
#define END "\r\n"
#define FIFTEEN ",a,b,c,d,e,f,g,h,i,j,k,l,m,n,o"

static const struct feed_row good[] = {
    {"plain", V(GH END), 0, "GET / 1|Host=h", 0},
    {"kubectl list",
     V("GET /api/v1/pods?limit=500 HTTP/1.1\r\nHost: 10.0.0.1:6443\r\nUser-Agent: kubectl/v1.33.1\r\n"
       "Accept: application/json;as=Table;v=v1;g=meta.k8s.io,application/json\r\n\r\n"),
     0,
     "GET /api/v1/pods?limit=500 1|Host=10.0.0.1:6443|User-Agent=kubectl/v1.33.1|"
     "Accept=application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
     0},
    {"body follows", V(P "Content-Length: 5\r\n\r\nhello"), 0, "POST / 1|Host=h|Content-Length=5", 5},
    {"chunked", V(P "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 0, "POST / 1|Host=h|Transfer-Encoding=chunked", 5},
    {"chunked in capitals", V(P "Transfer-Encoding: CHUNKED\r\n\r\n"), 0, "POST / 1|Host=h|Transfer-Encoding=CHUNKED",
     0},
    {"pipelined", V(GH END "GET /2 HTTP/1.1\r\n"), 0, "GET / 1|Host=h", 17},
    {"HTTP/1.0 without Host", V("GET / HTTP/1.0\r\n\r\n"), 0, "GET / 0", 0},
    {"HTTP/1.0 with Host", V("GET / HTTP/1.0\r\nHost: h\r\n\r\n"), 0, "GET / 0|Host=h", 0},
    {"empty line before", V("\r\n" GH END), 0, "GET / 1|Host=h", 0},
    {"four empty lines before", V("\r\n\r\n\r\n\r\n" GH END), 0, "GET / 1|Host=h", 0},
    {"no space after colon", V(G "Host:h\r\n\r\n"), 0, "GET / 1|Host=h", 0},
    {"spaces and tabs around value", V(G "Host: \t h \t \r\n\r\n"), 0, "GET / 1|Host=h", 0},
    {"empty value", V(GH "A:\r\nB: \r\n\r\n"), 0, "GET / 1|Host=h|A=|B=", 0},
    {"inner spaces", V(GH "A: b  c\td\r\n\r\n"), 0, "GET / 1|Host=h|A=b  c\td", 0},
    {"obs-text in value", V(GH "A: \xc3\xa4\xff\r\n\r\n"), 0, "GET / 1|Host=h|A=\xc3\xa4\xff", 0},
    {"every token character in a name", V(GH "!#$%&'*+-.^_`|~09azAZ: x\r\n\r\n"), 0,
     "GET / 1|Host=h|!#$%&'*+-.^_`|~09azAZ=x", 0},
    {"colons in value", V(GH "A: b:c\r\n\r\n"), 0, "GET / 1|Host=h|A=b:c", 0},
    {"repeated ordinary field", V(GH "A: 1\r\na: 2\r\n\r\n"), 0, "GET / 1|Host=h|A=1|a=2", 0},
    {"names keep their spelling", V("GET / HTTP/1.1\r\nhOsT: h\r\n\r\n"), 0, "GET / 1|hOsT=h", 0},
    {"IPv6 host", V(G "Host: [::1]:6443\r\n\r\n"), 0, "GET / 1|Host=[::1]:6443", 0},
    {"host with zone", V(G "Host: [fe80::1%25eth0]\r\n\r\n"), 0, "GET / 1|Host=[fe80::1%25eth0]", 0},
    {"OPTIONS *", V("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n"), 0, "OPTIONS * 1|Host=h", 0},
    {"PUT", V("PUT /x HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"), 0, "PUT /x 1|Host=h|Content-Length=0", 0},
    {"PATCH", V("PATCH /x HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}"), 0, "PATCH /x 1|Host=h|Content-Length=2",
     2},
    {"DELETE", V("DELETE /x HTTP/1.1\r\nHost: h\r\n\r\n"), 0, "DELETE /x 1|Host=h", 0},
    {"HEAD", V("HEAD /x HTTP/1.1\r\nHost: h\r\n\r\n"), 0, "HEAD /x 1|Host=h", 0},
    {"a method that only some know", V("PROPFIND /x HTTP/1.1\r\nHost: h\r\n\r\n"), 0, "PROPFIND /x 1|Host=h", 0},
    {"upgrade", V("POST /exec HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\nraw"), 0,
     "POST /exec 1|Host=h|Connection=Upgrade|Upgrade=SPDY/3.1", 3},
    {"escaped path", V("GET /a%2Fb%20c?x=%zz HTTP/1.1\r\nHost: h\r\n\r\n"), 0, "GET /a%2Fb%20c?x=%zz 1|Host=h", 0},
    {"escaped NUL only in query", V("GET /a?b=%00 HTTP/1.1\r\nHost: h\r\n\r\n"), 0, "GET /a?b=%00 1|Host=h", 0},
    {"double slash and dots stay", V("GET //a/../b HTTP/1.1\r\nHost: h\r\n\r\n"), 0, "GET //a/../b 1|Host=h", 0},
    {"query only", V("GET /?a=b&c HTTP/1.1\r\nHost: h\r\n\r\n"), 0, "GET /?a=b&c 1|Host=h", 0},
    {"odd but legal target", V("GET /a;b=c,d(e)!$'*~@:[]|{}^`\\\" HTTP/1.1\r\nHost: h\r\n\r\n"), 0,
     "GET /a;b=c,d(e)!$'*~@:[]|{}^`\\\" 1|Host=h", 0},
    {"Content-Length with zeros", V(P "Content-Length: 0005\r\n\r\n"), 0, "POST / 1|Host=h|Content-Length=0005", 0},
    {"largest Content-Length", V(P "Content-Length: 9223372036854775807\r\n\r\n"), 0,
     "POST / 1|Host=h|Content-Length=9223372036854775807", 0},
    {"Transfer-Encoding first", V("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nHost: h\r\n\r\n"), 0,
     "POST / 1|Transfer-Encoding=chunked|Host=h", 0},
    {"sixteen Connection options", V(GH "Connection: close" FIFTEEN "\r\n\r\n"), 0,
     "GET / 1|Host=h|Connection=close" FIFTEEN, 0},
    {"Expect", V(P "Expect: 100-continue\r\nContent-Length: 1\r\n\r\nx"), 0,
     "POST / 1|Host=h|Expect=100-continue|Content-Length=1", 1},
};

static const struct feed_row incomplete[] = {
    {"nothing but empty lines", V("\r\n\r\n"), 0, NULL, 0},
    {"half a method", V("GE"), 0, NULL, 0},
    {"half a target", V("GET /ap"), 0, NULL, 0},
    {"half a version", V("GET / HTTP/1."), 0, NULL, 0},
    {"request line only", V(G), 0, NULL, 0},
    {"half a name", V(G "Hos"), 0, NULL, 0},
    {"half a value", V(G "Host: a"), 0, NULL, 0},
    {"no empty line", V(GH), 0, NULL, 0},
    {"CR of the empty line", V(GH "\r"), 0, NULL, 0},
};

static const struct feed_row bad_line[] = {
    {"lower-case method", V("get / HTTP/1.1\r\nHost: h\r\n\r\n"), 400, NULL, 0},
    {"mixed-case method", V("Get / HTTP/1.1\r\nHost: h\r\n\r\n"), 400, NULL, 0},
    {"unknown method", V("FOO / HTTP/1.1\r\nHost: h\r\n\r\n"), 501, NULL, 0},
    {"method with a tail", V("GETX / HTTP/1.1\r\nHost: h\r\n\r\n"), 501, NULL, 0},
    {"method in brackets", V("(GET) / HTTP/1.1\r\nHost: h\r\n\r\n"), 400, NULL, 0},
    {"space before method", V(" GET / HTTP/1.1\r\nHost: h\r\n\r\n"), 400, NULL, 0},
    {"tab before method", V("\tGET / HTTP/1.1\r\nHost: h\r\n\r\n"), 400, NULL, 0},
    {"TLS hello", V("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"), 400, NULL, 0},
    {"HTTP/2 preface", V("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 505, NULL, 0},
    {"NUL first", V("\0GET / HTTP/1.1\r\nHost: h\r\n\r\n"), 400, NULL, 0},
    {"bare LF before", V("\n" GH END), 400, NULL, 0},
    {"bare CR before", V("\rGET / HTTP/1.1\r\nHost: h\r\n\r\n"), 400, NULL, 0},
    {"five empty lines before", V("\r\n\r\n\r\n\r\n\r\n" GH END), 400, NULL, 0},
    {"two spaces before target", V("GET  / HTTP/1.1\r\nHost: h\r\n\r\n"), 400, NULL, 0},
    {"two spaces after target", V("GET /  HTTP/1.1\r\nHost: h\r\n\r\n"), 400, NULL, 0},
    {"tab before target", V("GET\t/ HTTP/1.1\r\nHost: h\r\n\r\n"), 400, NULL, 0},
    {"tab after target", V("GET /\tHTTP/1.1\r\nHost: h\r\n\r\n"), 400, NULL, 0},
    {"vertical tab after target", V("GET /\vHTTP/1.1\r\nHost: h\r\n\r\n"), 400, NULL, 0},
    {"form feed in target", V("GET /\fx HTTP/1.1\r\nHost: h\r\n\r\n"), 400, NULL, 0},
    {"space in target", V("GET /a b HTTP/1.1\r\nHost: h\r\n\r\n"), 400, NULL, 0},
    {"NUL in target", V("GET /a\0b HTTP/1.1\r\nHost: h\r\n\r\n"), 400, NULL, 0},
    {"CR in target", V("GET /a\rb HTTP/1.1\r\nHost: h\r\n\r\n"), 400, NULL, 0},
    {"LF in target", V("GET /a\nb HTTP/1.1\r\nHost: h\r\n\r\n"), 400, NULL, 0},
    {"DEL in target", V("GET /a\x7f HTTP/1.1\r\nHost: h\r\n\r\n"), 400, NULL, 0},
    {"escape byte in target", V("GET /a\x1b[0m HTTP/1.1\r\nHost: h\r\n\r\n"), 400, NULL, 0},
    {"non-ASCII in target", V("GET /\xc3\xa4 HTTP/1.1\r\nHost: h\r\n\r\n"), 400, NULL, 0},
    {"fragment", V("GET /a#b HTTP/1.1\r\nHost: h\r\n\r\n"), 400, NULL, 0},
    {"fragment in query", V("GET /a?b#c HTTP/1.1\r\nHost: h\r\n\r\n"), 400, NULL, 0},
    {"escaped NUL in path", V("GET /a%00b HTTP/1.1\r\nHost: h\r\n\r\n"), 400, NULL, 0},
    {"half an escape", V("GET /a%2 HTTP/1.1\r\nHost: h\r\n\r\n"), 400, NULL, 0},
    {"lone percent", V("GET /a% HTTP/1.1\r\nHost: h\r\n\r\n"), 400, NULL, 0},
    {"escape that is none", V("GET /a%zz HTTP/1.1\r\nHost: h\r\n\r\n"), 400, NULL, 0},
    {"escape cut by the query", V("GET /a%2?f HTTP/1.1\r\nHost: h\r\n\r\n"), 400, NULL, 0},
    {"%u escape", V("GET /%u002f HTTP/1.1\r\nHost: h\r\n\r\n"), 400, NULL, 0},
    {"no target", V("GET HTTP/1.1\r\nHost: h\r\n\r\n"), 400, NULL, 0},
    {"empty target", V("GET  HTTP/1.1\r\nHost: h\r\n\r\n"), 400, NULL, 0},
    {"relative target", V("GET api HTTP/1.1\r\nHost: h\r\n\r\n"), 400, NULL, 0},
    {"target is a query", V("GET ?a=b HTTP/1.1\r\nHost: h\r\n\r\n"), 400, NULL, 0},
    {"absolute form", V("GET http://h/ HTTP/1.1\r\nHost: h\r\n\r\n"), 400, NULL, 0},
    {"absolute form, https", V("GET https://h/ HTTP/1.1\r\nHost: h\r\n\r\n"), 400, NULL, 0},
    {"absolute form, foreign scheme", V("GET ftp://h/ HTTP/1.1\r\nHost: h\r\n\r\n"), 400, NULL, 0},
    {"absolute form without path", V("GET https://h HTTP/1.1\r\nHost: h\r\n\r\n"), 400, NULL, 0},
    {"CONNECT", V("CONNECT h:443 HTTP/1.1\r\nHost: h\r\n\r\n"), 405, NULL, 0},
    {"CONNECT with a path", V("CONNECT /x HTTP/1.1\r\nHost: h\r\n\r\n"), 405, NULL, 0},
    {"authority form with GET", V("GET h:443 HTTP/1.1\r\nHost: h\r\n\r\n"), 400, NULL, 0},
    {"GET *", V("GET * HTTP/1.1\r\nHost: h\r\n\r\n"), 400, NULL, 0},
    {"OPTIONS *x", V("OPTIONS *x HTTP/1.1\r\nHost: h\r\n\r\n"), 400, NULL, 0},
    {"backslash first", V("GET \\x HTTP/1.1\r\nHost: h\r\n\r\n"), 400, NULL, 0},
    {"HTTP/0.9 request", V("GET /\r\n\r\n"), 505, NULL, 0},
    {"version 0.9", V("GET / HTTP/0.9\r\nHost: h\r\n\r\n"), 505, NULL, 0},
    {"version 1.2", V("GET / HTTP/1.2\r\nHost: h\r\n\r\n"), 505, NULL, 0},
    {"version 1.9", V("GET / HTTP/1.9\r\nHost: h\r\n\r\n"), 505, NULL, 0},
    {"version 2.0", V("GET / HTTP/2.0\r\nHost: h\r\n\r\n"), 505, NULL, 0},
    {"version 3.0", V("GET / HTTP/3.0\r\nHost: h\r\n\r\n"), 505, NULL, 0},
    {"version 11.1", V("GET / HTTP/11.1\r\nHost: h\r\n\r\n"), 505, NULL, 0},
    {"version 1.10", V("GET / HTTP/1.10\r\nHost: h\r\n\r\n"), 505, NULL, 0},
    {"version 1", V("GET / HTTP/1\r\nHost: h\r\n\r\n"), 505, NULL, 0},
    {"version 1,1", V("GET / HTTP/1,1\r\nHost: h\r\n\r\n"), 505, NULL, 0},
    {"version 01.1", V("GET / HTTP/01.1\r\nHost: h\r\n\r\n"), 505, NULL, 0},
    {"version +1.1", V("GET / HTTP/+1.1\r\nHost: h\r\n\r\n"), 505, NULL, 0},
    {"version with a space behind", V("GET / HTTP/1.1 \r\nHost: h\r\n\r\n"), 505, NULL, 0},
    {"version with a tail", V("GET / HTTP/1.1x\r\nHost: h\r\n\r\n"), 505, NULL, 0},
    {"lower-case http", V("GET / http/1.1\r\nHost: h\r\n\r\n"), 400, NULL, 0},
    {"other protocol", V("GET / RTSP/1.0\r\nHost: h\r\n\r\n"), 400, NULL, 0},
    {"ICE", V("SOURCE / ICE/1.0\r\nHost: h\r\n\r\n"), 400, NULL, 0},
    {"space in HTTP /", V("GET / HTTP /1.1\r\nHost: h\r\n\r\n"), 400, NULL, 0},
    {"request line ends in LF", V("GET / HTTP/1.1\nHost: h\r\n\r\n"), EITHER_STATUS, NULL, 0},
    {"request line ends in CR CR LF", V("GET / HTTP/1.1\r\r\nHost: h\r\n\r\n"), EITHER_STATUS, NULL, 0},
};

static const struct feed_row bad_field[] = {
    {"space before colon", V(GH "X : a\r\n\r\n"), 400, NULL, 0},
    {"space before colon of a known name", V("POST / HTTP/1.1\r\nHost : h\r\n\r\n"), 400, NULL, 0},
    {"space before the colon of X-Remote-User", V(GH "X-Remote-User : admin\r\n\r\n"), 400, NULL, 0},
    {"tab before the colon of X-Remote-User", V(GH "X-Remote-User\t: admin\r\n\r\n"), 400, NULL, 0},
    {"space before colon of Content-Length", V(P "Content-Length : 38\r\n\r\n"), 400, NULL, 0},
    {"tab before colon of Content-Length", V(P "Content-Length\t: 38\r\n\r\n"), 400, NULL, 0},
    {"space before colon of Transfer-Encoding", V(P "Transfer-Encoding : chunked\r\n\r\n"), 400, NULL, 0},
    {"space before name", V(G " Host: h\r\n\r\n"), 400, NULL, 0},
    {"tab before name", V(G "\tHost: h\r\n\r\n"), 400, NULL, 0},
    {"folded line", V(GH "A: b\r\n c\r\n\r\n"), 400, NULL, 0},
    {"folded line, tab", V(GH "A: b\r\n\tc\r\n\r\n"), 400, NULL, 0},
    {"folded empty value", V(GH "A:\r\n b\r\n\r\n"), 400, NULL, 0},
    {"folded to nothing", V(GH "A: b\r\n \r\n\r\n"), 400, NULL, 0},
    {"folded Transfer-Encoding", V(P "Transfer-Encoding:\r\n chunked\r\n\r\n"), 400, NULL, 0},
    {"folded Content-Length", V(P "Content-Length:\r\n 5\r\n\r\n"), 400, NULL, 0},
    {"folded into a header", V(P "A: b\r\n Content-Length: 5\r\n\r\n"), 400, NULL, 0},
    {"folded at once", V(G " A: b\r\nHost: h\r\n\r\n"), 400, NULL, 0},
    {"NUL in name", V(GH "A\0B: c\r\n\r\n"), 400, NULL, 0},
    {"NUL in value", V(GH "A: b\0c\r\n\r\n"), 400, NULL, 0},
    {"NUL after value", V(GH "A: b\0\r\n\r\n"), 400, NULL, 0},
    {"bare CR in name", V(GH "A\rB: c\r\n\r\n"), 400, NULL, 0},
    {"bare CR in value", V(GH "A: b\rc\r\n\r\n"), 400, NULL, 0},
    {"bare CR before value", V(GH "A: \rb\r\n\r\n"), 400, NULL, 0},
    {"bare CR hides a header", V(GH "A: b\rContent-Length: 5\r\n\r\n"), 400, NULL, 0},
    {"bare LF in value", V(GH "A: b\nContent-Length: 5\r\n\r\n"), 400, NULL, 0},
    {"bare LF ends a field", V(G "Host: h\n\r\n"), 400, NULL, 0},
    {"bare LF ends the head", V(GH "\n"), 400, NULL, 0},
    {"LF LF ends the head", V(G "Host: h\n\n"), 400, NULL, 0},
    {"LF before a name", V(GH "\nA: b\r\n\r\n"), 400, NULL, 0},
    {"CR CR LF", V(GH "A: b\r\r\n\r\n"), 400, NULL, 0},
    {"CR then a letter at the end", V(GH "\rX"), 400, NULL, 0},
    {"control byte in value", V(GH "A: \x01\r\n\r\n"), 400, NULL, 0},
    {"backspace in value", V(GH "A: b\bc\r\n\r\n"), 400, NULL, 0},
    {"vertical tab in value", V(GH "A: b\vc\r\n\r\n"), 400, NULL, 0},
    {"form feed in value", V(GH "A: b\fc\r\n\r\n"), 400, NULL, 0},
    {"escape in value", V(GH "A: \x1b[31m\r\n\r\n"), 400, NULL, 0},
    {"DEL in value", V(GH "A: b\x7f\r\n\r\n"), 400, NULL, 0},
    {"control byte in name", V(GH "A\x01: b\r\n\r\n"), 400, NULL, 0},
    {"DEL in name", V(GH "A\x7f: b\r\n\r\n"), 400, NULL, 0},
    {"non-ASCII name", V(GH "\xc3\x84: b\r\n\r\n"), 400, NULL, 0},
    {"empty name", V(GH ": b\r\n\r\n"), 400, NULL, 0},
    {"line without colon", V(GH "A\r\n\r\n"), 400, NULL, 0},
    {"line of spaces", V(GH "   \r\n\r\n"), 400, NULL, 0},
    {"space in name", V(GH "A B: c\r\n\r\n"), 400, NULL, 0},
    {"parenthesis in name", V(GH "A(: c\r\n\r\n"), 400, NULL, 0},
    {"slash in name", V(GH "A/B: c\r\n\r\n"), 400, NULL, 0},
    {"at in name", V(GH "A@B: c\r\n\r\n"), 400, NULL, 0},
    {"quote in name", V(GH "\"A\": c\r\n\r\n"), 400, NULL, 0},
    {"comma in name", V(GH "A,B: c\r\n\r\n"), 400, NULL, 0},
    {"semicolon in name", V(GH "A;B: c\r\n\r\n"), 400, NULL, 0},
    {"equals in name", V(GH "A=B: c\r\n\r\n"), 400, NULL, 0},
    {"brackets in name", V(GH "[A]: c\r\n\r\n"), 400, NULL, 0},
    {"braces in name", V(GH "{A}: c\r\n\r\n"), 400, NULL, 0},
    {"angle brackets in name", V(GH "<A>: c\r\n\r\n"), 400, NULL, 0},
    {"question mark in name", V(GH "A?: c\r\n\r\n"), 400, NULL, 0},
    {"backslash in name", V(GH "A\\B: c\r\n\r\n"), 400, NULL, 0},
};

static const struct feed_row bad_host[] = {
    {"no Host", V(G "\r\n"), 400, NULL, 0},
    {"no Host, other fields", V(G "A: b\r\n\r\n"), 400, NULL, 0},
    {"two Hosts", V(GH "Host: other\r\n\r\n"), 400, NULL, 0},
    {"the same Host twice", V(GH "Host: h\r\n\r\n"), 400, NULL, 0},
    {"two Hosts, other spelling", V(GH "hOST: h\r\n\r\n"), 400, NULL, 0},
    {"seventeen Connection options", V(GH "Connection: close,close" FIFTEEN "\r\n\r\n"), 400, NULL, 0},
    {"as many, empty", V(GH "Connection: ,,,,,,,,,,,,,,,,\r\n\r\n"), 400, NULL, 0},
    {"as many in two fields", V(GH "Connection: close\r\nconnection: close" FIFTEEN "\r\n\r\n"), 400, NULL, 0},
    {"two Hosts in HTTP/1.0", V("GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n"), 400, NULL, 0},
    {"empty Host", V(G "Host:\r\n\r\n"), 400, NULL, 0},
    {"list in Host", V(G "Host: a, b\r\n\r\n"), 400, NULL, 0},
    {"comma in Host", V(G "Host: a,b\r\n\r\n"), 400, NULL, 0},
    {"user in Host", V(G "Host: u@h\r\n\r\n"), 400, NULL, 0},
    {"path in Host", V(G "Host: h/x\r\n\r\n"), 400, NULL, 0},
    {"query in Host", V(G "Host: h?x\r\n\r\n"), 400, NULL, 0},
    {"fragment in Host", V(G "Host: h#x\r\n\r\n"), 400, NULL, 0},
    {"scheme in Host", V(G "Host: http://h\r\n\r\n"), 400, NULL, 0},
    {"backslash in Host", V(G "Host: h\\x\r\n\r\n"), 400, NULL, 0},
    {"space in Host", V(G "Host: h x\r\n\r\n"), 400, NULL, 0},
    {"non-ASCII Host", V(G "Host: \xc3\xa4\r\n\r\n"), 400, NULL, 0},
    {"quote in Host", V(G "Host: \"h\"\r\n\r\n"), 400, NULL, 0},
};

static const struct feed_row bad_framing[] = {
    {"two different Content-Length", V(P "Content-Length: 5\r\nContent-Length: 6\r\n\r\n"), 400, NULL, 0},
    {"the same Content-Length twice", V(P "Content-Length: 5\r\nContent-Length: 5\r\n\r\n"), 400, NULL, 0},
    {"Content-Length twice, other spelling", V(P "Content-Length: 5\r\ncontent-length: 5\r\n\r\n"), 400, NULL, 0},
    {"Content-Length twice, apart", V(P "Content-Length: 0\r\nA: b\r\nContent-Length: 38\r\n\r\n"), 400, NULL, 0},
    {"list in Content-Length", V(P "Content-Length: 5, 5\r\n\r\n"), 400, NULL, 0},
    {"list without space in Content-Length", V(P "Content-Length: 5,5\r\n\r\n"), 400, NULL, 0},
    {"plus in Content-Length", V(P "Content-Length: +3\r\n\r\n"), 400, NULL, 0},
    {"minus in Content-Length", V(P "Content-Length: -1\r\n\r\n"), 400, NULL, 0},
    {"minus zero", V(P "Content-Length: -0\r\n\r\n"), 400, NULL, 0},
    {"hex Content-Length", V(P "Content-Length: 0x10\r\n\r\n"), 400, NULL, 0},
    {"letters in Content-Length", V(P "Content-Length: abc\r\n\r\n"), 400, NULL, 0},
    {"letter behind Content-Length", V(P "Content-Length: 5a\r\n\r\n"), 400, NULL, 0},
    {"exponent in Content-Length", V(P "Content-Length: 1e3\r\n\r\n"), 400, NULL, 0},
    {"underscore in Content-Length", V(P "Content-Length: 1_0\r\n\r\n"), 400, NULL, 0},
    {"fraction in Content-Length", V(P "Content-Length: 5.0\r\n\r\n"), 400, NULL, 0},
    {"space inside Content-Length", V(P "Content-Length: 1 0\r\n\r\n"), 400, NULL, 0},
    {"quoted Content-Length", V(P "Content-Length: \"5\"\r\n\r\n"), 400, NULL, 0},
    {"empty Content-Length", V(P "Content-Length:\r\n\r\n"), 400, NULL, 0},
    {"blank Content-Length", V(P "Content-Length: \r\n\r\n"), 400, NULL, 0},
    {"Content-Length overflows", V(P "Content-Length: 18446744073709551616\r\n\r\n"), 400, NULL, 0},
    {"Content-Length wraps", V(P "Content-Length: 18446744073709551621\r\n\r\n"), 400, NULL, 0},
    {"Content-Length above the signed range", V(P "Content-Length: 9223372036854775808\r\n\r\n"), 400, NULL, 0},
    {"Content-Length of 30 digits", V(P "Content-Length: 000000000000000000000000000099999999999999999999\r\n\r\n"),
     400, NULL, 0},
    {"Arabic digits", V(P "Content-Length: \xd9\xa3\r\n\r\n"), 400, NULL, 0},
    {"CL.TE", V(P "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nG"), 400, NULL, 0},
    {"TE.CL", V(P "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n5c\r\n"), 400, NULL, 0},
    {"CL.TE with length 0", V(P "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n"), 400, NULL, 0},
    {"TE twice", V(P "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"), 400, NULL, 0},
    {"TE twice, second odd", V(P "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n"), 400, NULL, 0},
    {"TE twice, first identity", V(P "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n\r\n"), 400, NULL,
     0},
    {"chunked, chunked", V(P "Transfer-Encoding: chunked, chunked\r\n\r\n"), 400, NULL, 0},
    {"gzip, chunked", V(P "Transfer-Encoding: gzip, chunked\r\n\r\n"), 501, NULL, 0},
    {"chunked, identity", V(P "Transfer-Encoding: chunked, identity\r\n\r\n"), 400, NULL, 0},
    {"identity", V(P "Transfer-Encoding: identity\r\n\r\n"), 501, NULL, 0},
    {"gzip", V(P "Transfer-Encoding: gzip\r\n\r\n"), 501, NULL, 0},
    {"xchunked", V(P "Transfer-Encoding: xchunked\r\n\r\n"), 501, NULL, 0},
    {"chunkedx", V(P "Transfer-Encoding: chunkedx\r\n\r\n"), 501, NULL, 0},
    {"x chunked", V(P "Transfer-Encoding: x chunked\r\n\r\n"), 501, NULL, 0},
    {"chunked;x", V(P "Transfer-Encoding: chunked;x=y\r\n\r\n"), 501, NULL, 0},
    {"quoted chunked", V(P "Transfer-Encoding: \"chunked\"\r\n\r\n"), 501, NULL, 0},
    {"comma before chunked", V(P "Transfer-Encoding: ,chunked\r\n\r\n"), 501, NULL, 0},
    {"comma after chunked", V(P "Transfer-Encoding: chunked,\r\n\r\n"), 400, NULL, 0},
    {"vertical tab before chunked", V(P "Transfer-Encoding: \vchunked\r\n\r\n"), 400, NULL, 0},
    {"NUL after chunked", V(P "Transfer-Encoding: chunked\0\r\n\r\n"), 400, NULL, 0},
    {"non-breaking space before chunked",
     V(P "Transfer-Encoding: \xa0"
         "chunked\r\n\r\n"),
     501, NULL, 0},
    {"empty Transfer-Encoding", V(P "Transfer-Encoding:\r\n\r\n"), 501, NULL, 0},
    {"Transfer-Encoding in HTTP/1.0", V("POST / HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"), 400, NULL,
     0},
    {"TE and CL in HTTP/1.0", V("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n"), 400,
     NULL, 0},
    {"TE hidden by a bare CR", V(P "A: b\rTransfer-Encoding: chunked\r\n\r\n"), 400, NULL, 0},
    {"TE hidden behind LF", V(P "A: b\nTransfer-Encoding: chunked\r\n\r\n"), 400, NULL, 0},
};

static void limits(void)
{
    struct h1_parser *p = h1_parser_new(H1_REQUEST, 1000);
    size_t size = LIMIT_TARGET_BYTES + 4096;
    char *text = malloc(size);
    struct fed f;
    int n;

    if (p == NULL || text == NULL)
        tap_bail("no memory");
    n = snprintf(text, size, "GET / HTTP/1.1\r\nHost: h\r\nA: %0*d\r\n\r\n", 1000 - 32, 0);
    is_int(n, 1000, "a head of exactly the limit");
    for (size_t piece = 0; piece < 2; piece++) {
        feed(p, H1_REQUEST, slice_of(text, (size_t)n), piece == 0 ? SIZE_MAX : 7, &f);
        is_int(f.result, H1_DONE, "is taken");
    }
    n = snprintf(text, size, "GET / HTTP/1.1\r\nHost: h\r\nA: %0*d\r\n\r\n", 1000 - 31, 0);
    for (size_t piece = 0; piece < 2; piece++) {
        feed(p, H1_REQUEST, slice_of(text, (size_t)n), piece == 0 ? SIZE_MAX : 7, &f);
        is_int(f.result, H1_ERROR, "one byte more is not");
        is_int(f.status, 431, "431");
    }
    h1_parser_free(p);

    p = h1_parser_new(H1_REQUEST, LIMIT_HEAD_BYTES);
    if (p == NULL)
        tap_bail("no memory");
    n = snprintf(text, size, "GET /%0*d HTTP/1.1\r\nHost: h\r\n\r\n", LIMIT_TARGET_BYTES - 1, 0);
    feed(p, H1_REQUEST, slice_of(text, (size_t)n), 4096, &f);
    is_int(f.result, H1_DONE, "a target of exactly the limit");
    n = snprintf(text, size, "GET /%0*d HTTP/1.1\r\nHost: h\r\n\r\n", LIMIT_TARGET_BYTES, 0);
    feed(p, H1_REQUEST, slice_of(text, (size_t)n), 4096, &f);
    is_int(f.result, H1_ERROR, "one byte more");
    is_int(f.status, 414, "414");
    for (size_t extra = 0; extra < 2; extra++) {
        n = snprintf(text, size, GH);
        for (size_t i = 1; i < LIMIT_HEAD_FIELDS + extra; i++)
            n += snprintf(text + n, size - (size_t)n, "a%zu: b\r\n", i);
        n += snprintf(text + n, size - (size_t)n, "\r\n");
        feed(p, H1_REQUEST, slice_of(text, (size_t)n), 100, &f);
        is_int(f.result, extra == 0 ? H1_DONE : H1_ERROR, "%zu fields", LIMIT_HEAD_FIELDS + extra);
        is_int(f.status, extra == 0 ? 0 : 431, "status");
    }
    h1_parser_free(p);
    free(text);
}

static void started(void)
{
    struct h1_parser *p = h1_parser_new(H1_REQUEST, 1000);
    struct arena *a = arena_new(100);
    struct http_head head;
    size_t took;

    if (p == NULL || a == NULL)
        tap_bail("no memory");
    h1_parser_begin(p, a, &head);
    ok(!h1_parser_started(p), "nothing came");
    is_int(h1_parser_feed(p, V("\r\n"), &took), H1_MORE, "an empty line");
    ok(!h1_parser_started(p), "an empty line is no start");
    is_int(h1_parser_feed(p, V("G"), &took), H1_MORE, "a letter");
    ok(h1_parser_started(p), "is a start");
    is_int(h1_parser_feed(p,
                          V("ET / HTTP/1.1\r\nHost: hhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhh"
                            "hhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhh\r\n\r\n"),
                          &took),
           H1_ERROR, "the arena is full");
    is_int(h1_parser_status(p), 503, "503, not 400");
    h1_parser_begin(p, a, &head);
    ok(!h1_parser_started(p), "begun anew");
    h1_parser_free(p);
    arena_free(a);
}

static void memory(void)
{
    static const struct slice text = V(GH "A: b\r\nC: d\r\n\r\n");
    bool finished = false;

    for (uint64_t nth = 1; nth < 50 && !finished; nth++) {
        struct h1_parser *p = h1_parser_new(H1_REQUEST, 1000);
        struct arena *a = arena_new(4096);
        struct http_head head;
        size_t at = 0, took;
        enum h1_result r = H1_MORE;

        if (p == NULL || a == NULL)
            tap_bail("no memory");
        h1_parser_begin(p, a, &head);
        mem_fail_nth(nth);
        while (r == H1_MORE && at < text.n) {
            r = h1_parser_feed(p, slice_of(text.p + at, 1), &took);
            at += took;
        }
        mem_fail_nth(0);
        finished = r == H1_DONE;
        if (!finished)
            is_int(h1_parser_status(p), 503, "allocation %d fails", (int)nth);
        h1_parser_free(p);
        arena_free(a);
    }
    ok(finished, "and without a failure it parses");
}

static void table(struct h1_parser *p, const struct feed_row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++)
        feed_check(p, H1_REQUEST, &rows[i]);
}

int main(void)
{
    struct h1_parser *p = h1_parser_new(H1_REQUEST, 8192);

    if (p == NULL)
        tap_bail("no memory");
    srand(4020);
    table(p, good, ROWS(good));
    table(p, incomplete, ROWS(incomplete));
    table(p, bad_line, ROWS(bad_line));
    table(p, bad_field, ROWS(bad_field));
    table(p, bad_host, ROWS(bad_host));
    table(p, bad_framing, ROWS(bad_framing));
    h1_parser_free(p);
    limits();
    started();
    memory();
    return tap_end();
}
