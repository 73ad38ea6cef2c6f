#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Requests that can be read in two ways never get through: a table of raw bytes, each sent to the daemon twice,
once for the local server and once for what only a peer has.  After each the server has seen exactly what the table
says, no request that was hidden in another one, and the next connection works.  What mvproxy wrote to the servers is
kept, too: it has one reading, and the servers, which are Go's net/http, have taken it for the same.

docs/strict-http.md says what other servers make of them.
"""

import hashlib
import re
from collections import Counter

import fixture
from fixture import check, equal, until
from rawhttp import Broken
from wire import Wire

# Where a vector's requests go: T is its target, H a target hidden in a body or behind a request, which nobody may see.
PLACES = {
    "local": (b"/sim/sink?v=%s", b"/sim/whoami?hidden=%s"),
    "peer": (b"/apis/resource.k8s.io/v1/deviceclasses?simbody=sink&v=%s",
             b"/apis/resource.k8s.io/v1/deviceclasses?simbody=whoami&hidden=%s"),
}
HOST = b"Host: kubernetes.default.svc\r\n"

VECTORS = []  # (name, bytes, expectation, details)


def vector(name, raw, expect, **details):
    VECTORS.append((name, raw.encode("latin-1") if isinstance(raw, str) else raw, expect, details))


# ---- what may come of one
# OK: one request, answered with 200, the connection goes on. LAST: the same, but it was the last.
# a number: refused with it, nothing reached the server. BODY: refused after the head had been good.
# WAIT: more bytes are needed, so nothing has happened yet. OTHER: one request, and the server decides what it answers.
# THEIRS: Go's net/http refuses it before kube-apiserver sees it.
OK, LAST, BODY, WAIT, OTHER, THEIRS = "ok", "last", "body", "wait", "other", "theirs"


def get(name, lines="", expect=400, host=HOST, **details):
    """A GET with more field lines."""
    vector(name, b"GET {T} HTTP/1.1\r\n" + host + lines.encode("latin-1") + b"\r\n", expect, **details)


def post(name, lines, content, expect=400, **details):
    """A POST with these field lines and this body."""
    raw = b"POST {T} HTTP/1.1\r\n" + HOST + lines.encode("latin-1") + b"\r\n"
    vector(name, raw + (content.encode("latin-1") if isinstance(content, str) else content), expect, **details)


HIDDEN = b"GET {H} HTTP/1.1\r\n" + HOST + b"\r\n"
TE = "Transfer-Encoding: chunked\r\n"
LEN = "Content-Length: %d\r\n"
WHOLE = "5\r\nhello\r\n0\r\n\r\n"


def plain():
    get("a plain GET", expect=OK)
    get("GET with Connection: keep-alive", "Connection: keep-alive\r\n", OK)
    get("GET with Connection: close", "Connection: close\r\n", LAST)
    get("GET with Connection: CLOSE among others", "Connection: foo, , ClOsE ,bar\r\n", LAST)
    get("GET with Content-Length: 0", "Content-Length: 0\r\n", OK)
    vector("GET with a body", b"GET {T} HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\n\r\nhello", OK, body=b"hello")
    vector("an empty line before the request", b"\r\nGET {T} HTTP/1.1\r\n" + HOST + b"\r\n", OK)
    vector("four empty lines before the request", b"\r\n" * 4 + b"GET {T} HTTP/1.1\r\n" + HOST + b"\r\n", OK)
    vector("five empty lines before the request", b"\r\n" * 5 + b"GET {T} HTTP/1.1\r\n" + HOST + b"\r\n", 400)
    vector("LF before the request", b"\nGET {T} HTTP/1.1\r\n" + HOST + b"\r\n", 400)
    vector("CR before the request", b"\rGET {T} HTTP/1.1\r\n" + HOST + b"\r\n", 400)
    post("POST with a length", LEN % 5, "hello", OK, body=b"hello")
    post("POST in chunks", TE, WHOLE, OK, body=b"hello")
    post("POST in several chunks", TE, "1\r\nh\r\n4\r\nello\r\n0\r\n\r\n", OK, body=b"hello")
    post("POST without a body", "", "", OK)
    post("POST of an empty chunked body", TE, "0\r\n\r\n", OK)
    post("chunked in capitals", "TRANSFER-ENCODING: CHUNKED\r\n", WHOLE, OK, body=b"hello")
    post("length with leading zeros", "Content-Length: 0005\r\n", "hello", OK, body=b"hello")
    post("length with spaces around", "Content-Length:   5  \r\n", "hello", OK, body=b"hello")
    post("length with tabs around", "Content-Length: \t 5 \t\r\n", "hello", (OK, 400), body=b"hello")
    post("length without space", "Content-Length:5\r\n", "hello", OK, body=b"hello")
    for method in ("PUT", "PATCH", "DELETE"):
        vector(method + " with a body", method.encode() + b" {T} HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\n\r\nhello",
               OK, body=b"hello", method=method)
    vector("OPTIONS", b"OPTIONS {T} HTTP/1.1\r\n" + HOST + b"\r\n", OTHER, method="OPTIONS")


def both_lengths():
    """CL.TE, TE.CL, TE.TE, CL.CL"""
    inner = "0\r\n\r\n" + HIDDEN.decode()
    for name, fields in {
        "CL.TE": LEN % len(inner) + TE, "TE.CL": TE + LEN % len(inner), "CL.TE with length 0": LEN % 0 + TE,
        "TE.CL with the length of the first chunk": TE + LEN % 5, "CL.TE with the true length": LEN % len(WHOLE) + TE,
        "CL with identity": LEN % 5 + "Transfer-Encoding: identity\r\n",
        "CL with an empty TE": LEN % 5 + "Transfer-Encoding:\r\n",
        "CL and TE in small letters": (LEN % 5 + TE).lower(),
    }.items():
        post(name, fields, inner)
    for name, value, status in (
            ("identity", "identity", 501), ("gzip", "gzip", 501), ("gzip, chunked", "gzip, chunked", 501),
            ("chunked, gzip", "chunked, gzip", 400), ("chunked, chunked", "chunked, chunked", 501),
            ("chunked, identity", "chunked, identity", 400), ("identity, chunked", "identity, chunked", 501),
            ("xchunked", "xchunked", 400), ("chunkedx", "chunkedx", 400), ("chunk", "chunk", 400), ("empty", "", 400),
            ("comma chunked", ",chunked", 501), ("chunked comma", "chunked,", 501), ("quoted", '"chunked"', 400),
            ("single quoted", "'chunked'", 400), ("with a parameter", "chunked;q=1", 400), ("cow", "cow", 400),
            ("with a vertical tab", "\x0bchunked", 400), ("with a form feed", "chunked\x0c", 400),
            ("with NUL", "chunked\0", 400), ("with a no-break space", "\xa0chunked", 400), ("with DEL", "\x7fchunked", 400),
            ("long s", "\xc5\xbfchunked", 400), ("chunked twice by tab", "chunked\tchunked", 400),
            ("chunked then space x", "chunked x", 400), ("colon", ":chunked", 400)):
        post("Transfer-Encoding " + name, "Transfer-Encoding: %s\r\n" % value, WHOLE + HIDDEN.decode(), (status, 400, 501))
    for name, fields in {
        "two TE": TE + TE, "TE chunked and identity": TE + "Transfer-Encoding: identity\r\n",
        "TE identity and chunked": "Transfer-Encoding: identity\r\n" + TE, "TE chunked and cow": TE + "Transfer-Encoding: cow\r\n",
        "TE and empty TE": TE + "Transfer-Encoding:\r\n", "TE in other spelling twice": TE + TE.lower(),
        "TE with space before the colon": "Transfer-Encoding : chunked\r\n", "TE with tab before the colon": "Transfer-Encoding\t: chunked\r\n",
        "TE folded": "Transfer-Encoding:\r\n chunked\r\n", "TE folded by tab": "Transfer-Encoding:\r\n\tchunked\r\n",
        "TE with leading space": " Transfer-Encoding: chunked\r\n", "TE behind a line with leading space": "X: y\r\n Transfer-Encoding: chunked\r\n",
        "TE behind bare LF": "X: y\nTransfer-Encoding: chunked\r\n", "TE behind bare CR": "X: y\rTransfer-Encoding: chunked\r\n",
        "TE with bare LF behind": "Transfer-Encoding: chunked\n", "TE with NUL in the name": "Transfer-\0Encoding: chunked\r\n",
        "TE in the value of another after NUL": "X: \0\r\n" + TE, "CL with NUL": "Content-Length: 5\0\r\n",
    }.items():
        post(name, fields, WHOLE + HIDDEN.decode())
    # An underscore makes another name of it: no framing, hence no body, and what follows is a request of its own.
    post("TE with underscore is another field", "Transfer_Encoding: chunked\r\n", "", OK)
    post("CL with underscore is another field", "Content_Length: 5\r\n", "", OK)
    for name, fields in {
        "two equal CL": LEN % 5 + LEN % 5, "two differing CL": LEN % 5 + LEN % 6, "CL 0 and CL": LEN % 0 + LEN % 5,
        "CL and CL in small letters": LEN % 5 + (LEN % 5).lower(), "CL list of equals": "Content-Length: 5, 5\r\n",
        "CL list of others": "Content-Length: 5, 6\r\n", "CL with comma": "Content-Length: 5,\r\n",
        "CL with plus": "Content-Length: +5\r\n", "CL with minus": "Content-Length: -5\r\n", "CL minus zero": "Content-Length: -0\r\n",
        "CL in hex": "Content-Length: 0x5\r\n", "CL in octal": "Content-Length: 0o5\r\n", "CL with point": "Content-Length: 5.0\r\n",
        "CL with exponent": "Content-Length: 5e0\r\n", "CL with underscore in it": "Content-Length: 0_5\r\n",
        "CL with a space in it": "Content-Length: 5 5\r\n", "CL with letter": "Content-Length: 5a\r\n", "CL empty": "Content-Length:\r\n",
        "CL of a space": "Content-Length:  \r\n", "CL word": "Content-Length: five\r\n", "CL quoted": 'Content-Length: "5"\r\n',
        "CL beyond 64 bits": "Content-Length: 18446744073709551621\r\n", "CL 2^63": "Content-Length: 9223372036854775808\r\n",
        "CL 2^64-1": "Content-Length: 18446744073709551615\r\n", "CL of a hundred digits": "Content-Length: %s5\r\n" % ("1" * 100),
        "CL with space before the colon": "Content-Length : 5\r\n", "CL with tab before the colon": "Content-Length\t: 5\r\n",
        "CL folded": "Content-Length:\r\n 5\r\n", "CL behind bare LF": "X: y\nContent-Length: 5\r\n", "CL with vertical tab": "Content-Length: \x0b5\r\n",
        "CL with no-break space": "Content-Length: \xa05\r\n", "CL with superscript": "Content-Length: \xb2\r\n",
        "CL with arabic digit": "Content-Length: \xd9\xa5\r\n",
    }.items():
        post(name, fields, b"hello" + HIDDEN)


def chunks():
    """chunk sizes and ends"""
    good = {"leading zeros": "0005\r\nhello\r\n0\r\n\r\n", "last chunk of zeros": "5\r\nhello\r\n000\r\n\r\n",
            "sixteen digits": "0000000000000005\r\nhello\r\n0\r\n\r\n"}
    for name, body in good.items():
        post("chunk size with " + name, TE, body, OK, body=b"hello")
    post("five thousand chunks of a byte", TE, "1\r\nx\r\n" * 5000 + "0\r\n\r\n", OK, body=b"x" * 5000)
    post("nine thousand chunks of a byte with fifteen zeros", TE, b"0000000000000001\r\nx\r\n" * 9000 + b"0\r\n\r\n" + HIDDEN, BODY)
    post("chunk size in capitals", TE, "A\r\n0123456789\r\n0\r\n\r\n", OK, body=b"0123456789")
    for name, body in {
        "with plus": "+5\r\nhello\r\n0\r\n\r\n", "with minus": "-5\r\nhello\r\n0\r\n\r\n", "minus zero": "-0\r\n\r\n",
        "with 0x": "0x5\r\nhello\r\n0\r\n\r\n", "with h": "5h\r\nhello\r\n0\r\n\r\n", "no hex": "g\r\nhello\r\n0\r\n\r\n",
        "empty": "\r\nhello\r\n0\r\n\r\n", "with space before": " 5\r\nhello\r\n0\r\n\r\n", "with space behind": "5 \r\nhello\r\n0\r\n\r\n",
        "with tab behind": "5\t\r\nhello\r\n0\r\n\r\n", "with NUL": "5\0\r\nhello\r\n0\r\n\r\n", "with underscore": "0_5\r\nhello\r\n0\r\n\r\n",
        "with point": "5.0\r\nhello\r\n0\r\n\r\n", "with comma": "5,\r\nhello\r\n0\r\n\r\n", "of seventeen digits": "00000000000000005\r\nhello\r\n0\r\n\r\n",
        "of a thousand zeros": "0" * 1000 + "5\r\nhello\r\n0\r\n\r\n", "beyond 64 bits": "10000000000000005\r\nhello\r\n0\r\n\r\n",
        "2^64-1": "ffffffffffffffff\r\nhello\r\n0\r\n\r\n", "2^63": "8000000000000000\r\nhello\r\n0\r\n\r\n",
        "with an extension": "5;a=b\r\nhello\r\n0\r\n\r\n", "with a bare extension": "5;\r\nhello\r\n0\r\n\r\n",
        "with extension and LF": "5;a\nhello\r\n0\r\n\r\n", "with extension and CR": "5;a\rb\r\nhello\r\n0\r\n\r\n",
        "with quoted extension over lines": '5;a="\r\nhello\r\n0\r\n\r\n', "with space and extension": "5 ;a=b\r\nhello\r\n0\r\n\r\n",
        "last chunk with extension": "5\r\nhello\r\n0;x\r\n\r\n", "ended by LF": "5\nhello\r\n0\r\n\r\n", "ended by CR": "5\rhello\r\n0\r\n\r\n",
        "ended by LF CR": "5\n\rhello\r\n0\r\n\r\n", "ended by CR CR LF": "5\r\r\nhello\r\n0\r\n\r\n", "in wide digits": "\xef\xbc\x95\r\nhello\r\n0\r\n\r\n",
    }.items():
        post("chunk size " + name, TE, body.encode("latin-1") + HIDDEN, BODY)
    for name, body in {
        "too short": "6\r\nhello\r\n0\r\n\r\n", "too long": "4\r\nhello\r\n0\r\n\r\n", "with LF behind": "5\r\nhello\n0\r\n\r\n",
        "with CR behind": "5\r\nhello\r0\r\n\r\n", "with nothing behind": "5\r\nhello0\r\n\r\n", "with two bytes behind": "5\r\nhelloXX0\r\n\r\n",
        "with two line ends": "5\r\nhello\r\n\r\n0\r\n\r\n",
    }.items():
        post("chunk " + name, TE, body.encode() + HIDDEN, BODY)
    for name, tail in {
        "LF at the end": "0\r\n\n", "LF for both": "0\n\n", "CR at the end": "0\r\n\rX", "CR CR LF": "0\r\n\r\r\n",
        "trailer without colon": "0\r\nfoo\r\n\r\n", "trailer with space before the colon": "0\r\nX : y\r\n\r\n",
        "trailer with leading space": "0\r\n X: y\r\n\r\n", "folded trailer": "0\r\nX: y\r\n z\r\n\r\n", "trailer with NUL": "0\r\nX: \0\r\n\r\n",
        "trailer with bare LF": "0\r\nX: y\nZ: w\r\n\r\n", "trailer with bare CR": "0\r\nX: y\rZ\r\n\r\n", "trailer without name": "0\r\n: y\r\n\r\n",
        "a request as trailer": "0\r\n" + HIDDEN.decode(), "trailers beyond 16 KiB": "0\r\nX: %s\r\n\r\n" % ("y" * 17000),
        "eleven hundred trailers": "0\r\n" + "X: y\r\n" * 1100 + "\r\n",
    }.items():
        post("last chunk: " + name, TE, b"5\r\nhello\r\n" + tail.encode() + HIDDEN, BODY)
    post("a size without end", TE, "5", WAIT)
    post("half a chunk", TE, "5\r\nhel", WAIT)
    post("no last chunk", TE, "5\r\nhello\r\n", WAIT)
    post("no empty line after the last chunk", TE, "5\r\nhello\r\n0\r\n", WAIT)
    post("half a body", LEN % 10, "hello", WAIT)
    post("a trailer", TE + "Trailer: X-Sum\r\n", "5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n", OK, body=b"hello", trailers={"X-Sum"})
    names = ("X-Remote-User", "x-remote-group", "X_Remote_User", "X-Remote-Extra-Scopes", "x_remote_extra_a", "X-Remote-Uid",
             "X-Kubernetes-Apiserver-Rerouted", "x-kubernetes-peer-proxied", "x_kubernetes_peer_proxied", "Impersonate-User",
             "Authorization", "Content-Length", "Transfer-Encoding", "Host", "Trailer", "Connection", "Cookie", "Upgrade", "TE")
    for name in names:
        value = {"Content-Length": "3", "Transfer-Encoding": "chunked"}.get(name, "root")
        post("a trailer " + name, TE + "Trailer: %s\r\n" % name, "5\r\nhello\r\n0\r\n%s: %s\r\n\r\n" % (name, value), OK,
             body=b"hello", trailers=set())
    for name in names[:9] + ("Authorization", "Content-Length", "Host"):
        post("undeclared trailer " + name, TE, "5\r\nhello\r\n0\r\n%s: 1\r\nX-Good: 1\r\n\r\n" % name, OK, body=b"hello", trailers={"X-Good"})


def line_ends():
    for name, raw in {
        "LF line ends": b"GET {T} HTTP/1.1\nHost: a\n\n", "LF after the request line": b"GET {T} HTTP/1.1\nHost: a\r\n\r\n",
        "LF after the host": b"GET {T} HTTP/1.1\r\nHost: a\n\r\n", "LF as the empty line": b"GET {T} HTTP/1.1\r\nHost: a\r\n\n" + HIDDEN,
        "CR line ends": b"GET {T} HTTP/1.1\rHost: a\r\r", "CR CR LF": b"GET {T} HTTP/1.1\r\r\nHost: a\r\n\r\n",
        "LF CR": b"GET {T} HTTP/1.1\n\rHost: a\n\r\n\r", "CR as the empty line": b"GET {T} HTTP/1.1\r\nHost: a\r\n\rX" + HIDDEN,
        "CR CR LF as the empty line": b"GET {T} HTTP/1.1\r\nHost: a\r\n\r\r\n" + HIDDEN,
        "a line of a space": b"GET {T} HTTP/1.1\r\nHost: a\r\n \r\n\r\n", "a field line of CR": b"GET {T} HTTP/1.1\r\n\r\r\nHost: a\r\n\r\n",
        "vertical tab for a line end": b"GET {T} HTTP/1.1\r\nHost: a\x0bX: y\r\n\r\n",
        "next line for a line end": b"GET {T} HTTP/1.1\r\nHost: a\x85X-Y: y\r\n\r\n",
    }.items():
        vector(name, raw, (400, 505))
    for byte in list(range(0, 9)) + [0x0b, 0x0c] + list(range(0x0e, 0x20)) + [0x7f]:
        get("byte %02x in a value" % byte, "X: a%cb\r\n" % byte)
    for byte in (0x80, 0xa0, 0xff):
        get("byte %02x in a value" % byte, "X: a%cb\r\n" % byte, OK)
    get("bare CR in a value", "X: a\rb\r\n")
    get("bare LF in a value", "X: a\nb: c\r\n")
    get("a folded value", "X: a\r\n b\r\n")
    get("a value folded by tab", "X: a\r\n\tb\r\n")
    get("an empty folded line", "X: a\r\n \r\nY: b\r\n")
    get("the first field folded", " X: a\r\n", host=b"")
    get("a fold before the first field", "", host=b" Host: a\r\n")


def names():
    for name, field in {
        "with space before the colon": "X : a\r\n", "with tab before the colon": "X\t: a\r\n", "empty": ": a\r\n", "of a space": " : a\r\n",
        "with a space in it": "X Y: a\r\n", "with NUL": "X\0Y: a\r\n", "without colon": "XY\r\n", "with slash": "X/Y: a\r\n", "with at": "X@Y: a\r\n",
        "with brackets": "X(Y): a\r\n", "with quote": 'X"Y: a\r\n', "with comma": "X,Y: a\r\n", "with semicolon": "X;Y: a\r\n", "with equals": "X=Y: a\r\n",
        "with braces": "X{Y}: a\r\n", "with backslash": "X\\Y: a\r\n", "in latin-1": "X\xe9: a\r\n", "in UTF-8": "X\xc3\xa9: a\r\n", "with DEL": "X\x7f: a\r\n",
        "with bell": "X\x07: a\r\n", "with less-than": "X<Y: a\r\n", "with a line end in it": "X\r\nY: a\r\n", "that begins with space": " X: a\r\n",
        "identity with space": "X-Remote-User : root\r\n", "identity with tab": "X-Remote-User\t: root\r\n", "identity with NUL": "X-Remote-User\0: root\r\n",
        "identity folded": "X:\r\n X-Remote-User: root\r\n", "identity behind bare CR": "X: a\rX-Remote-User: root\r\n",
        "identity behind bare LF": "X: a\nX-Remote-User: root\r\n", "identity in latin-1": "X-Remote-User\xa0: root\r\n",
        "two hosts in a line": "Host: a, b\r\n",
    }.items():
        get("a name " + name, field)
    get("every odd byte of a token", "!#$%&'*+-.^_`|~0aZ: a\r\n", OK)
    get("an empty value", "X:\r\n", OK)
    get("a value of colons", "X: ::\r\n", OK)
    get("the same name thrice", "X: a\r\nX: b\r\nx: c\r\n", OK, fields={"X": ["a", "b", "c"]})
    get("Connection: X drops X", "Connection: X-One\r\nX-One: 1\r\nX-Two: 2\r\n", OK, fields={"X-One": None, "X-Two": ["2"]})
    get("Connection: Authorization drops nothing", "Connection: Authorization, Host\r\nX-Two: 2\r\n", OK, fields={"X-Two": ["2"]})
    get("Connection: Impersonate-User drops nothing", "Connection: keep-alive, Impersonate-User\r\nImpersonate-User: kubernetes-admin\r\n", (OK, OTHER),
        fields={"Impersonate-User": ["kubernetes-admin"]})
    for name in ("Keep-Alive", "Proxy-Connection", "Proxy-Authorization", "TE", "Upgrade", "Trailer", "Proxy-Authenticate"):
        get("%s stays here" % name, "%s: trailers\r\n" % name, OK, fields={name: None})
    identity = ("X-Remote-User", "x-remote-user", "X-REMOTE-USER", "X_Remote_User", "X-Remote_User", "x_remote_user", "X-Remote-Group", "X_REMOTE_GROUP",
                "X-Remote-Extra-Scopes", "X-Remote-Extra-", "X_Remote_Extra_Scopes", "X-Remote-Uid", "X_Remote-Uid")
    for name in identity:
        get("identity as " + name, "%s: root\r\n%s: root2\r\n" % (name, name), OK, unspoofed=True)
        get("identity as %s, named in Connection" % name, "Connection: keep-alive, %s\r\n%s: root\r\n" % (name, name), OK, unspoofed=True)
    for name in ("X-Kubernetes-APIServer-Rerouted", "x_kubernetes_apiserver_rerouted", "X-Kubernetes-Peer-Proxied", "x-kubernetes_peer-proxied"):
        get("loop mark as " + name, "%s: true\r\n" % name, OK, unspoofed=True)


def hosts():
    for name, host in {
        "none": b"", "two": HOST + HOST, "two different": HOST + b"Host: b\r\n", "two in other spelling": HOST + b"hOST: b\r\n", "empty": b"Host:\r\n",
        "of a space": b"Host:  \r\n", "with space before the colon": b"Host : a\r\n", "with a space": b"Host: a b\r\n", "with slash": b"Host: a/b\r\n",
        "with at": b"Host: u@a\r\n", "with comma": b"Host: a,b\r\n", "with question mark": b"Host: a?b\r\n", "with hash": b"Host: a#b\r\n",
        "with backslash": b"Host: a\\b\r\n", "with NUL": b"Host: a\0b\r\n", "with tab": b"Host: a\tb\r\n", "with semicolon": b"Host: a;b\r\n",
        "with quote": b'Host: "a"\r\n', "in UTF-8": b"Host: \xc3\xa9\r\n", "with less-than": b"Host: <a>\r\n", "with brace": b"Host: {a}\r\n",
        "a URL": b"Host: http://a/\r\n", "folded": b"Host:\r\n a\r\n",
        "with two ports": b"Host: a:1:2\r\n", "with a port of letters": b"Host: a:b\r\n", "with a port too large": b"Host: a:65536\r\n",
        "a port alone": b"Host: :443\r\n", "half an IPv6": b"Host: [::1\r\n", "IPv6 without brackets": b"Host: ::1\r\n",
        "IPv6 with letters behind": b"Host: [::1]a\r\n", "letters before IPv6": b"Host: a[::1]:443\r\n", "IPv6 that is none": b"Host: [1:2:3]:443\r\n",
        "with half an escape": b"Host: a%4\r\n", "with ampersand": b"Host: a&b\r\n",
    }.items():
        get("Host " + name, "", host=host)
    for name, host in {"with port": b"Host: a:443\r\n", "IPv6": b"Host: [::1]:6443\r\n", "IPv6 with a zone": b"Host: [fe80::1%25eth0]:6443\r\n",
                       "with a colon and no port": b"Host: a:\r\n", "behind other fields": b"X: y\r\nHost: a\r\n",
                       "without space": b"Host:a\r\n", "in capitals": b"HOST: A\r\n"}.items():
        get("Host " + name, "", OK, host=host)


def request_lines():
    fields = "\r\n" + HOST.decode() + "\r\n"
    for name, line in {
        "two spaces before the target": "GET  {T} HTTP/1.1", "tab before the target": "GET\t{T} HTTP/1.1", "two spaces before the version": "GET {T}  HTTP/1.1",
        "tab before the version": "GET {T}\tHTTP/1.1", "space behind the version": "GET {T} HTTP/1.1 ", "space before the method": " GET {T} HTTP/1.1",
        "a word behind the version": "GET {T} HTTP/1.1 x", "space in the target": "GET {T} x HTTP/1.1", "no target": "GET HTTP/1.1", "empty target": "GET  HTTP/1.1",
        "NUL in the target": "GET {T}\0 HTTP/1.1", "NUL in the method": "G\0ET {T} HTTP/1.1", "tab in the target": "GET {T}\tx HTTP/1.1",
        "a control byte in the target": "GET {T}\x01 HTTP/1.1", "DEL in the target": "GET {T}\x7f HTTP/1.1", "latin-1 in the target": "GET {T}\xe9 HTTP/1.1",
        "UTF-8 in the target": "GET {T}\xc3\xa9 HTTP/1.1", "a fragment": "GET {T}#x HTTP/1.1", "absolute-form": "GET http://kubernetes.default.svc{T} HTTP/1.1",
        "absolute-form with https": "GET https://kubernetes.default.svc{T} HTTP/1.1", "absolute-form, foreign": "GET ftp://x{T} HTTP/1.1",
        "authority-form": "GET kubernetes.default.svc:443 HTTP/1.1", "asterisk with GET": "GET * HTTP/1.1", "no slash": "GET sim/whoami HTTP/1.1",
        "target with backslash at first": "GET \\{T} HTTP/1.1", "query only": "GET ?v=1 HTTP/1.1", "%00 in the path": "GET /sim%00{T} HTTP/1.1",
        "% alone in the path": "GET /sim%{T} HTTP/1.1", "%2 in the path": "GET /sim%2{T} HTTP/1.1", "%zz in the path": "GET /sim%zz{T} HTTP/1.1",
        "%u0041 in the path": "GET /sim%u0041{T} HTTP/1.1", "% at the end of the path": "GET /sim% HTTP/1.1",
    }.items():
        vector("request line: " + name, line + fields, (400, 505) if "behind" in name else 400)
    for name, version, status in (
            ("0.9", "HTTP/0.9", 505), ("1.2", "HTTP/1.2", 505), ("1.9", "HTTP/1.9", 505), ("2.0", "HTTP/2.0", 505), ("2", "HTTP/2", 505), ("3.0", "HTTP/3.0", 505),
            ("1.10", "HTTP/1.10", 505), ("01.1", "HTTP/01.1", 505), ("1.01", "HTTP/1.01", 505), ("1", "HTTP/1", 505), ("1.", "HTTP/1.", 505), (".1", "HTTP/.1", 505),
            ("1,1", "HTTP/1,1", 505), ("-1.1", "HTTP/-1.1", 505), ("small", "http/1.1", 400), ("HTTPS", "HTTPS/1.1", 400), ("ICE", "ICE/1.0", 400), ("RTSP", "RTSP/1.0", 400),
            ("1.1x", "HTTP/1.1x", 400), ("without slash", "HTTP1.1", 400), ("with a space in it", "HTTP/1. 1", 505), ("HTTP /1.1", "HTTP /1.1", 400), ("99999999999.1", "HTTP/99999999999.1", 505)):
        vector("version " + name, "GET {T} %s" % version + fields, (status, 400, 505))
    vector("HTTP/0.9 without version", "GET {T}\r\n\r\n", (400, 505))
    vector("HTTP/0.9 with fields", "GET {T}\r\nHost: a\r\n\r\n", (400, 505))
    vector("the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", (400, 405, 501, 505))
    vector("a TLS hello inside TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 32, 400)
    vector("a PROXY line", "PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\nGET {T} HTTP/1.1" + fields, (400, 501))
    vector("an answer for a request", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", (400, 501))
    vector("SSH", "SSH-2.0-OpenSSH_9.2\r\n", (400, 501))
    vector("HTTP/1.0", "GET {T} HTTP/1.0" + fields, LAST)
    vector("HTTP/1.0 without Host", "GET {T} HTTP/1.0\r\n\r\n", LAST)
    vector("HTTP/1.0 with keep-alive", "GET {T} HTTP/1.0\r\nConnection: keep-alive" + fields, LAST)
    vector("HTTP/1.0 with a length", "POST {T} HTTP/1.0\r\nContent-Length: 5" + fields + "hello", LAST, body=b"hello")
    vector("HTTP/1.0 with chunked", "POST {T} HTTP/1.0\r\n" + TE.strip() + fields + WHOLE + HIDDEN.decode(), 400)
    for name, method, status in (
            ("small", "get", 400), ("mixed", "Get", (400, 501)), ("unknown", "FOO", 501), ("empty", "", 400), ("with a letter more", "GETT", 501), ("with a letter less", "GE", 501),
            ("with a digit", "G3T", 501), ("with a byte above 7f", "G\xc9T", (400, 501)), ("of 70,000 letters", "G" * 70000, (400, 501)), ("quoted", '"GET"', 400), ("with CR", "G\rET", (400, 501)),
            ("with a comma", "GET,", 501), ("DESCRIBE of RTSP", "DESCRIBE", (400, 501))):
        vector("method " + name, "%s {T} HTTP/1.1" % method + fields, status if isinstance(status, tuple) else (status, 400, 501))
    vector("CONNECT", "CONNECT kubernetes.default.svc:443 HTTP/1.1" + fields + HIDDEN.decode(), (400, 405))
    vector("CONNECT with a path", "CONNECT {T} HTTP/1.1" + fields + HIDDEN.decode(), (400, 405))
    vector("OPTIONS *", "OPTIONS * HTTP/1.1" + fields, THEIRS, target="*", method="OPTIONS")
    for method in ("TRACE", "PROPFIND", "PURGE", "LINK", "SUBSCRIBE", "QUERY", "M-SEARCH"):
        vector(method, method + " {T} HTTP/1.1" + fields, (OK, OTHER, 405, 501), method=method)
    for name, prefix in {"..": "/sim/../sim/x", "/./": "/sim/./x", "//": "//sim//x", "%2e%2e": "/sim/%2e%2e/x", "%2f": "/sim%2fx", "%5c": "/sim%5cx",
                         ";": "/sim;a=b/x", "\\": "/sim\\x", "%25": "/sim/%2500", "%0d%0a": "/sim/%0d%0aX-Remote-User:%20root", "%20": "/sim/%20x", "//host": "//evil.example.com/x",
                         "///": "///x", "@": "/@evil.example.com/x", ":80": "/:80/x", "%ff": "/sim/%ff", "a long query": "/sim/x?" + "q" * 5000,
                         "<>": "/sim/<>", "\"": "/sim/\"", "{}": "/sim/{}", "|^`": "/sim/|^`"}.items():
        vector("path with " + name, "GET %s%sv={ID} HTTP/1.1" % (prefix, "&" if "?" in prefix else "?") + fields, OTHER, target=prefix + ("&" if "?" in prefix else "?") + "v={ID}")
    for name, query in {"% alone": "%", "%zz": "%zz", "%00": "%00", "?": "??", "//": "//", "\\": "\\", "{}": "{}", "space as +": "+", "|": "|"}.items():
        vector("query with " + name, "GET {T}&q=%s HTTP/1.1" % query + fields, OK, target="{T}&q=" + query)


def limits():
    get("a field of 100,000 bytes", "X: %s\r\n" % ("y" * 100000), OK)
    get("a field of 1.1 million bytes", "X: %s\r\n" % ("y" * 1100000), 431)
    get("a name of 1.1 million bytes", "%s: y\r\n" % ("X" * 1100000), 431)
    get("250 fields", "X: y\r\n" * 250, (OK, 431))
    get("1025 fields", "X: y\r\n" * 1025, 431)
    get("10,000 fields", "X: y\r\n" * 10000, 431)
    get("100,000 fields without end", "X: y\r\n" * 100000 + "X", 431)
    get("16 Connection options", "Connection: keep-alive%s\r\n" % (",X" * 15), OK)
    get("17 Connection options", "Connection: keep-alive%s\r\n" % (",X" * 16))
    get("17 empty Connection options", "Connection: %s\r\n" % ("," * 16))
    get("500,000 Connection options and 200 fields", "Connection: %s\r\n" % ("a," * 500000) + "b: c\r\n" * 200)
    vector("a target of 60,000 bytes", "GET {T}&q=%s HTTP/1.1\r\n" % ("q" * 60000) + HOST.decode() + "\r\n", OK, target="{T}&q=" + "q" * 60000)
    vector("a target of 70,000 bytes", "GET {T}&q=%s HTTP/1.1\r\n" % ("q" * 70000) + HOST.decode() + "\r\n", 414)
    vector("a target without end", "GET /" + "q" * 70000, 414)
    vector("half a request line", "GET {T}", WAIT)
    vector("half a head", b"GET {T} HTTP/1.1\r\n" + HOST, WAIT)
    vector("a CR and nothing else", b"\r", WAIT)


def expectations():
    post("Expect: 100-continue with the body at once", "Expect: 100-continue\r\n" + LEN % 5, "hello", OK, body=b"hello")
    post("Expect: 100-continue in capitals", "EXPECT: 100-CONTINUE\r\n" + LEN % 5, "hello", OK, body=b"hello")
    post("Expect: 100-continue in chunks", "Expect: 100-continue\r\n" + TE, WHOLE, OK, body=b"hello")
    post("Expect: 100-continue with CL and TE", "Expect: 100-continue\r\n" + LEN % 5 + TE, WHOLE)
    post("Expect: 100-continue with wrong chunks", "Expect: 100-continue\r\n" + TE, "x\r\n", BODY)
    get("Expect: 100-continue without a body", "Expect: 100-continue\r\n", OK)
    post("Expect: 100-continue, length 0", "Expect: 100-continue\r\nContent-Length: 0\r\n", "", OK)
    post("two Expect", "Expect: 100-continue\r\nExpect: 100-continue\r\n" + LEN % 5, "hello", OK, body=b"hello")
    vector("HTTP/1.0 with Expect", b"POST {T} HTTP/1.0\r\n" + HOST + b"Expect: 100-continue\r\nContent-Length: 5\r\n\r\nhello", LAST, body=b"hello")
    for value in ("x", "100-continue, x", "x=100-continue", "100", ""):
        post("Expect: %r" % value, "Expect: %s\r\n" % value + LEN % 5, b"hello", (OK, THEIRS), body=b"hello")
    post("Expect: x and a request in the body", "Expect: x\r\n" + LEN % len(HIDDEN), HIDDEN, (OK, THEIRS), body=HIDDEN)


def upgrades():
    for protocol in ("websocket", "h2c", "HTTP/2.0", "TLS/1.0", "SPDY/3.1", "foo", "h2c, websocket", "websocket, h2c"):
        get("Upgrade: %s where there is none" % protocol, "Connection: Upgrade\r\nUpgrade: %s\r\n" % protocol, OK)
        post("Upgrade: %s with a body" % protocol, "Connection: Upgrade\r\nUpgrade: %s\r\n" % protocol + LEN % len(HIDDEN), HIDDEN, OK, body=HIDDEN, fields={"Upgrade": None})
    for protocol in ("h2c", "HTTP/2.0", "h2", "TLS/1.0", "http/1.1"):
        get("Upgrade to another HTTP: " + protocol, "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: %s\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n" % protocol, OK,
            fields={"Upgrade": None, "Http2-Settings": None})
    get("Upgrade without Connection", "Upgrade: websocket\r\n", OK, fields={"Upgrade": None})
    get("Connection: upgrade without Upgrade", "Connection: upgrade\r\n", OK)
    vector("Upgrade in HTTP/1.0", b"GET {T} HTTP/1.0\r\n" + HOST + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n", LAST, fields={"Upgrade": None})
    get("empty Upgrade", "Connection: Upgrade\r\nUpgrade:\r\n", OK)


def hidden():
    """requests hidden in bodies, which are bodies and nothing else"""
    post("a request in a body", LEN % len(HIDDEN), HIDDEN, OK, body=HIDDEN)
    post("two requests in a body", LEN % (2 * len(HIDDEN)), HIDDEN * 2, OK, body=HIDDEN * 2)
    post("a request in a chunk", TE, b"%x\r\n%s\r\n0\r\n\r\n" % (len(HIDDEN.replace(b"{H}", b"/sim/x")), HIDDEN.replace(b"{H}", b"/sim/x")) , OK)
    vector("a request in the body of a GET", b"GET {T} HTTP/1.1\r\n" + HOST + LEN.encode() % len(HIDDEN) + b"\r\n" + HIDDEN, OK, body=HIDDEN)
    vector("a request in the body of a HEAD", b"HEAD {T} HTTP/1.1\r\n" + HOST + LEN.encode() % len(HIDDEN) + b"\r\n" + HIDDEN, (OK, OTHER), method="HEAD", no_answer_body=True)
    vector("a request in the body of a DELETE", b"DELETE {T} HTTP/1.1\r\n" + HOST + LEN.encode() % len(HIDDEN) + b"\r\n" + HIDDEN, OK, method="DELETE", body=HIDDEN)
    vector("a request behind Connection: close", b"GET {T} HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n" + HIDDEN, LAST)
    vector("a request behind HTTP/1.0", b"GET {T} HTTP/1.0\r\n" + HOST + b"\r\n" + HIDDEN, LAST)
    vector("a request behind a refused one", b"GET {T} HTTP/1.1\r\nHost: a b\r\n\r\n" + HIDDEN, 400)
    vector("a request behind garbage", b"\x00\x01\x02\r\n\r\n" + HIDDEN, 400)


for family in (plain, both_lengths, chunks, line_ends, names, hosts, request_lines, limits, expectations, upgrades, hidden):
    family()


# ------------------------------------------------------------------------------------------------------------- running


class Case:
    """One vector at one place."""

    def __init__(self, number, place, entry):
        self.name, raw, expect, self.details = entry
        self.place, self.id = place, "%s-%d" % (place, number)
        target, hidden_target = (p % self.id.encode() for p in PLACES[place])
        self.target = target.decode()
        self.expect = expect if isinstance(expect, tuple) else (expect,)
        # A length in the table counts the placeholder; here it becomes that of the text.
        grown = len(hidden_target) - len(b"{H}")
        body = raw.partition(b"\r\n\r\n")[2]
        self.raw = raw
        for times in (1, 2):
            before, after = b"Content-Length: %d\r\n" % (times * len(HIDDEN)), b"Content-Length: %d\r\n" % (times * (len(HIDDEN) + grown))
            if body.count(b"{H}") == times:
                self.raw = self.raw.replace(before, after)
        self.raw = self.fill(self.raw, target, hidden_target)
        self.body = self.fill(self.details.get("body", b""), target, hidden_target)
        self.wanted_target = self.details.get("target", "{T}").replace("{T}", self.target).replace("{ID}", self.id)
        self.method = self.details.get("method") or self.raw.lstrip().split(b" ")[0].decode("latin-1")
        self.outcome = None

    def fill(self, raw, target, hidden_target):
        return raw.replace(b"{T}", target).replace(b"{H}", hidden_target).replace(b"{ID}", self.id.encode())

    def __str__(self):
        return "%s (%s)" % (self.name, self.place)

    def check_sink(self, answer):
        """What the server says about the body that it got."""
        told = answer.json()
        if "sha256" not in told:
            return
        if "body" in self.details:
            equal((told["bytes"], told["sha256"]), (len(self.body), hashlib.sha256(self.body).hexdigest()), "the body at the server")
        if "trailers" in self.details:
            equal({k for k, v in (told["trailers"] or {}).items() if v}, self.details["trailers"], "trailers at the server")


def refused(case, answer, client):
    """A Status that says the same as the head, and then the end."""
    if case.method != "HEAD":
        status = answer.json()
        equal((status["kind"], status["code"]), ("Status", answer.status), str(case))
    if answer.header("X-Mvproxy-Served-By") is None:
        equal(answer.header("Connection"), "close", str(case))
        client.at_end()
    return answer.status


def run(world, case):
    """Send it and see what comes: OK, LAST, OTHER, WAIT, BODY or a status."""
    with world.client() as client:
        try:
            client.send(case.raw)
        except OSError:
            pass  # refused before all of it was read
        if case.expect == (WAIT,):
            return WAIT if client.quiet(0.05) else "answered"
        try:
            answer = client.answer(case.method)
        except Broken as how:
            return "ended (%s)" % how.how
        if answer.status >= 400 and answer.header("X-Kubernetes-Pf-Flowschema-Uid") is None and answer.header("Content-Type") == "application/json":
            status = refused(case, answer, client)
            return BODY if BODY in case.expect and status in (400, 431) else status
        if answer.status != 200 or case.wanted_target == "*":
            if answer.header("Connection") == "close":
                client.at_end()
            return THEIRS if answer.header("Audit-Id") is None else OTHER
        if not case.details.get("no_answer_body"):
            case.check_sink(answer)
        if answer.header("Connection") == "close":
            client.at_end()
            return LAST
        probe = client.ask("GET", "/sim/whoami?probe=" + case.id)
        equal(probe.json()["target"], "/sim/whoami?probe=" + case.id, "%s: the answer to the next request" % case)
        return OTHER if case.expect == (OTHER,) else OK


def examine_records(case, records):
    """Exactly what the table says has reached the servers."""
    mine = [r for r in records if case.id in (r["target"].partition("v=")[2].partition("&")[0],
                                              r["target"].partition("hidden=")[2])]
    check(not [r for r in mine if "hidden=" in r["target"]], "%s: a hidden request reached the server" % case)
    if case.outcome in (OK, LAST, OTHER):
        equal(len(mine), 1, "%s: requests that reached a server" % case)
        check_record(case, mine[0])
    elif case.outcome in (BODY, WAIT):
        check(len(mine) <= 1 and not any(r["status"] == 200 and not r["aborted"] for r in mine), case, "reached a server whole:", mine)
    else:
        equal(mine, [], "%s: reached a server" % case)


def check_record(case, record):
    equal(record["target"], case.wanted_target, "%s: target" % case)
    equal(record["method"], case.method, "%s: method" % case)
    equal(record["user"]["username"], "kubernetes-admin", "%s: user" % case)
    equal(record["server"], "b" if case.place == "peer" and case.target in case.wanted_target else "a", "%s: server" % case)
    headers = record["headers"]
    for name, wanted in case.details.get("fields", {}).items():
        equal(headers.get(name), wanted, "%s: %s" % (case, name))
    if case.details.get("unspoofed"):
        text = repr(headers).lower()
        check("'root" not in text, case, "carried on:", headers)
        check("_remote" not in text and "remote_" not in text and "kubernetes_" not in text, case, "carried on:", headers)
        equal([v for n, v in headers.items() if n.lower() == "x-remote-user"], [["kubernetes-admin"]], str(case))


# ----------------------------------------------------------------------------------------------------- what was forwarded

# What net/http takes out of the fields, and Connection, which is one hop's.
FRAMING = {"host", "content-length", "transfer-encoding", "trailer", "connection"}


def setup():
    """Between each mvproxy and its server somebody listens."""
    world = fixture.World(options={"access-log": True})
    world.wires = {name: Wire(world.certs, address) for name, address in world.addresses.items()}
    for name, proxy in world.proxies.items():
        proxy.options["apiserver"] = world.wires[name].url
    return world.start()


def printable(value):
    """JSON from Go cannot carry what is no UTF-8."""
    return re.sub(r"[^\x20-\x7e]+", "?", value)


def fields_of(pairs):
    found = {}
    for name, value in pairs:
        if name.lower() not in FRAMING:
            found.setdefault(name.lower(), []).append(printable(value))
    return found


def compare(request, record):
    """The strictest reading of what was sent, and Go's."""
    what = " of what was sent as %s %s" % (request.method, request.target[:100])
    equal(record["method"], request.method, "method" + what)
    theirs = fields_of((name, value) for name, values in record["headers"].items() for value in values)
    equal(theirs, fields_of((name, value.decode("latin-1")) for name, value in request.fields), "fields" + what)
    equal(record["host"].encode(), request.all("host")[0], "host" + what)
    if request.whole and record["status"] == 200 and "sink" in record["target"]:
        equal(record["body"], len(request.body), "length of the body" + what)


def by_target(place, items, target):
    found = {}
    for item in items:
        if re.search("[=]%s-[0-9]" % place, target(item)):
            found.setdefault(target(item), []).append(item)
    return found


def one_reading(world, place, cases, records):
    """Nothing came to a server that was not sent to it as exactly that, nothing was sent that it read as more or as less, and
    mvproxy says the same of itself."""
    theirs_to_refuse = {case.wanted_target for case in cases if case.outcome in (THEIRS, BODY)}
    compared = told = 0
    for name, wire in world.wires.items():
        sent = by_target(place, wire.requests(), lambda r: r.target)
        seen = by_target(place, [r for r in records if r["server"] == name], lambda r: r["target"])
        check(not set(seen) - set(sent), "not sent and yet seen:", set(seen) - set(sent))
        missing = [t for t, requests in sent.items() if t not in seen and requests[0].whole and t not in theirs_to_refuse]
        check(not missing, "sent and not seen:", missing)
        for target, mine in seen.items():
            check(len(mine) <= len(sent[target]), target, "was sent", len(sent[target]), "times and seen", len(mine))
            for record in mine:
                compare(sent[target][-1], record)
                compared += 1
        if name == {"local": "a", "peer": "b"}[place]:
            told += await_told(world.proxies[name], PLACES[place][0].decode().partition("?")[0], sent)
    check(compared > 100 and told > 100, "only", compared, "and", told, "were compared")


def completed(proxy, path):
    """Of the access log: the methods of what was sent on to that path and answered; queries are not logged whole."""
    lines = re.findall('"Request".* method="([A-Z-]+)" uri="([^"?]*)[^"]*" .* attempts=([0-9]+) .* end="complete"', proxy.log())
    return Counter(method for method, where, attempts in lines if where == path and attempts != "0")


def await_told(proxy, path, sent):
    """mvproxy says the same of itself: a line for each that it has sent whole, and none for what it has not sent at all."""
    mine = [requests[-1] for target, requests in sent.items() if target.partition("?")[0] == path]
    whole = Counter(request.method for request in mine if request.whole)
    until(lambda: not whole - completed(proxy, path), "%d requests to %s in the access log of %s" % (sum(whole.values()), path, proxy.name))
    equal(completed(proxy, path) - Counter(request.method for request in mine), Counter(), "in the log of %s, and never sent" % proxy.name)
    return len(mine)


def run_place(world, place):
    cases = [Case(number, place, entry) for number, entry in enumerate(VECTORS)]
    wrong = []
    for case in cases:
        try:
            case.outcome = run(world, case)
            check(case.outcome in case.expect, "came to %s, not to %s" % (case.outcome, case.expect))
        except (AssertionError, ValueError, KeyError, OSError) as error:
            wrong.append("%s: %s; sent %r" % (case, error, case.raw[:300]))
        check(world.proxies["a"].running(), case, "and the daemon is dead")
    records = world.sim.requests()
    for case in cases:
        try:
            examine_records(case, records)
        except AssertionError as error:
            wrong.append("%s; sent %r" % (error, case.raw[:300]))
    one_reading(world, place, cases, records)
    check(not wrong, "%d of %d went wrong:\n" % (len(wrong), len(cases)) + "\n".join(w[:900] for w in wrong))


def test_table_is_large(world):
    """the table has more than 200 vectors, each of its own"""
    check(len(VECTORS) >= 200, len(VECTORS))
    equal(len({v[0] for v in VECTORS}), len(VECTORS), "different names")
    equal(len({v[1] for v in VECTORS}), len(VECTORS) , "different bytes")


def test_local(world):
    """every vector, for the local server"""
    run_place(world, "local")


def test_peer(world):
    """every vector, for what only a peer has"""
    run_place(world, "peer")


if __name__ == "__main__":
    fixture.main(globals())
