#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A server that lies: whatever it sends, a client gets the whole right answer or sees that it is none, nobody gets
another one's bytes, and a connection whose framing is in doubt carries no second request."""

import contextlib
import json
import re
import select
import socket
import ssl
import threading
import time

import fixture
from fixture import check, equal, until
from rawhttp import Broken

CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
SECRET = b"EVIL-SECRET"


def response(body=b"", status=b"200 OK", fields=b"", length=None):
    """A response of the lying server."""
    return b"HTTP/1.1 %s\r\nContent-Type: text/plain\r\n%sContent-Length: %d\r\n\r\n%s" % (
        status, fields, len(body) if length is None else length, body)


SECOND = response(SECRET)
CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n"
OPEN, CLOSE, RESET, PAUSE = "open", "close", "reset", "pause"

# What the server sends, how it goes on, and what the client may see: ("whole", status, body), "refused" (a 503 of ours,
# and nothing of the server's) or "broken" (a head, and then an end that cannot be taken for a whole answer).
REFUSED, BROKEN = "refused", "broken"
UPGRADING = "GET, to a WebSocket"
LIES = {}


def lie(name, pieces, outcome, method="GET", reusable=False):
    pieces = [pieces, OPEN] if isinstance(pieces, bytes) else pieces
    LIES[name] = (pieces, outcome, method, reusable)


def whole(body=b"", status=200):
    return ("whole", status, body)


def heads():
    ok = b"HTTP/1.1 200 OK\r\n"
    for name, head in {
        "both length and chunked": ok + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "chunked and length": ok + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "17 Connection options": ok + b"Connection: %s\r\nContent-Length: 5\r\n" % (b"a," * 16), "500,000 Connection options": ok + b"Connection: %s\r\n" % (b"a," * 500000) + b"b: c\r\n" * 200,
        "two lengths": ok + b"Content-Length: 5\r\nContent-Length: 11\r\n", "two equal lengths": ok + b"Content-Length: 5\r\nContent-Length: 5\r\n",
        "a list of lengths": ok + b"Content-Length: 5, 11\r\n", "a length with plus": ok + b"Content-Length: +5\r\n", "a negative length": ok + b"Content-Length: -5\r\n",
        "a hex length": ok + b"Content-Length: 0x5\r\n", "an empty length": ok + b"Content-Length:\r\n", "a huge length": ok + b"Content-Length: 99999999999999999999\r\n",
        "a length with space before the colon": ok + b"Content-Length : 5\r\n", "an unknown coding": ok + b"Transfer-Encoding: gzip\r\n", "gzip, chunked": ok + b"Transfer-Encoding: gzip, chunked\r\n",
        "chunked twice": ok + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "xchunked": ok + b"Transfer-Encoding: xchunked\r\n",
        "chunked with space before the colon": ok + b"Transfer-Encoding : chunked\r\n", "a folded coding": ok + b"Transfer-Encoding:\r\n chunked\r\n",
        "chunked in HTTP/1.0": b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n", "bare LF": b"HTTP/1.1 200 OK\nContent-Length: 5\n", "bare CR": ok + b"X: a\rb\r\nContent-Length: 5\r\n",
        "bare LF in a value": ok + b"X: a\nSet-Cookie: b\r\nContent-Length: 5\r\n", "NUL in a value": ok + b"X: a\0b\r\nContent-Length: 5\r\n", "a folded field": ok + b"X: a\r\n b\r\nContent-Length: 5\r\n",
        "NUL in a name": ok + b"X\0Y: a\r\nContent-Length: 5\r\n", "an empty name": ok + b": a\r\nContent-Length: 5\r\n", "a name with space": ok + b"X Y: a\r\nContent-Length: 5\r\n",
        "a line without colon": ok + b"XY\r\nContent-Length: 5\r\n", "a bell": ok + b"X: \x07\r\nContent-Length: 5\r\n", "DEL": ok + b"X: \x7f\r\nContent-Length: 5\r\n",
        "1100 fields": ok + b"X: y\r\n" * 1100 + b"Content-Length: 5\r\n", "two megabytes of head": ok + b"X: %s\r\n" % (b"y" * 2000000),
        "a name of two megabytes": ok + b"%s: y\r\n" % (b"y" * 2000000), "no status line": b"hello", "HTTP/2 status": b"HTTP/2 200\r\n", "HTTP/0.9": b"<html>hello</html>\r\n",
        "HTTP/1.2": b"HTTP/1.2 200 OK\r\nContent-Length: 5\r\n", "HTTP/11.1": b"HTTP/11.1 200 OK\r\nContent-Length: 5\r\n", "small letters": b"http/1.1 200 OK\r\nContent-Length: 5\r\n",
        "ICY": b"ICY 200 OK\r\nContent-Length: 5\r\n", "two spaces": b"HTTP/1.1  200 OK\r\nContent-Length: 5\r\n", "no status": b"HTTP/1.1 OK\r\nContent-Length: 5\r\n",
        "status 99": b"HTTP/1.1 99 OK\r\nContent-Length: 5\r\n", "status 000": b"HTTP/1.1 000 OK\r\nContent-Length: 5\r\n", "status 600": b"HTTP/1.1 600 OK\r\nContent-Length: 5\r\n",
        "status 999": b"HTTP/1.1 999 OK\r\nContent-Length: 5\r\n", "status 2000": b"HTTP/1.1 2000 OK\r\nContent-Length: 5\r\n", "status -20": b"HTTP/1.1 -20 OK\r\nContent-Length: 5\r\n",
        "status in hex": b"HTTP/1.1 0xC8 OK\r\nContent-Length: 5\r\n", "status with a letter": b"HTTP/1.1 20O OK\r\nContent-Length: 5\r\n", "a space before the status line": b" HTTP/1.1 200 OK\r\nContent-Length: 5\r\n",
        "an empty line first": b"\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n", "NUL in the reason": b"HTTP/1.1 200 O\0K\r\nContent-Length: 5\r\n", "bare CR in the reason": b"HTTP/1.1 200 O\rK\r\nContent-Length: 5\r\n",
        "101 unasked": b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n", "a request": b"GET / HTTP/1.1\r\nHost: a\r\n", "chunked with 100": b"HTTP/1.1 100 Continue\r\nTransfer-Encoding: chunked\r\n",
        "chunked with 204": b"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n", "17 interim answers": b"HTTP/1.1 103 Early Hints\r\nX: y\r\n\r\n" * 17 + b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n",
        "interim answers without end": b"HTTP/1.1 102 Processing\r\n\r\n" * 5000 + ok,
    }.items():
        if method_of(name) == "GET":
            lie("head: " + name, head + b"\r\nhello" + SECOND, REFUSED)
    lie("head: a TLS alert inside", b"\x15\x03\x03\x00\x02\x02\x28", REFUSED)
    for end in (CLOSE, RESET):
        for name, part in {"nothing": b"", "half a status line": b"HTTP/1.", "half a head": ok + b"Content-Le", "a head without its empty line": ok + b"Content-Length: 5\r\n",
                           "an interim answer": b"HTTP/1.1 103 Early Hints\r\n\r\n", "a CR": b"\r"}.items():
            lie("%s after %s" % (end, name), [part, end], REFUSED)


def method_of(name):
    return "GET"


def bodies():
    lie("right", response(b"hello"), whole(b"hello"), reusable=True)
    lie("right in chunks", CHUNKED + b"5\r\nhello\r\n0\r\n\r\n", whole(b"hello"), reusable=True)
    lie("right, byte by byte", [*(bytes([b]) for b in response(b"hello")), OPEN], whole(b"hello"), reusable=True)
    lie("right until the end of the connection", [b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nhello", CLOSE], whole(b"hello"))
    lie("right with Connection: close", response(b"hello", fields=b"Connection: close\r\n"), whole(b"hello"))
    lie("HTTP/1.0 with keep-alive", response(b"hello", fields=b"Connection: keep-alive\r\n").replace(b"/1.1", b"/1.0"), whole(b"hello"))
    lie("a second answer behind the first", response(b"hello") + SECOND, whole(b"hello"))
    lie("a second answer behind chunks", CHUNKED + b"5\r\nhello\r\n0\r\n\r\n" + SECOND, whole(b"hello"))
    lie("a second answer a little later", [response(b"hello"), PAUSE, SECOND, OPEN], whole(b"hello"), reusable=True)
    lie("a second answer in another record", [response(b"hello"), SECOND, OPEN], whole(b"hello"), reusable=True)
    lie("one byte too many", response(b"hello") + b"!", whole(b"hello"))
    lie("a line end too many", response(b"hello") + b"\r\n", whole(b"hello"))
    lie("no body where one cannot be, but a length", response(b"", status=b"204 No Content", length=11) + SECRET, whole(b"", 204))
    lie("the same later", [response(b"", status=b"204 No Content", length=len(SECOND)), PAUSE, SECOND, OPEN], whole(b"", 204))
    lie("a 304 with a body", response(SECRET, status=b"304 Not Modified"), whole(b"", 304))
    lie("a 304 with chunks", b"HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n" + SECRET + b"\r\n0\r\n\r\n", whole(b"", 304))
    lie("a HEAD with a body", response(SECRET), whole(b""), method="HEAD")
    lie("a HEAD with chunks", CHUNKED + b"b\r\n" + SECRET + b"\r\n0\r\n\r\n", whole(b""), method="HEAD")
    lie("a HEAD with a second answer", response(b"", length=5) + SECOND, whole(b""), method="HEAD")
    lie("a HEAD with a body later", [response(b"", length=len(SECOND)), PAUSE, SECOND, OPEN], whole(b""), method="HEAD", reusable=True)
    lie("sixteen interim answers", b"HTTP/1.1 103 Early Hints\r\nX: y\r\n\r\n" * 16 + response(b"hello"), whole(b"hello"), reusable=True)
    lie("five thousand chunks of a byte", CHUNKED + b"1\r\nx\r\n" * 5000 + b"0\r\n\r\n", whole(b"x" * 5000), reusable=True)
    lie("nine thousand chunks of a byte with fifteen zeros", CHUNKED + b"0000000000000001\r\nx\r\n" * 9000 + b"0\r\n\r\n", BROKEN)
    for end in (CLOSE, RESET):
        lie("%s in the body" % end, [response(b"hel", length=5), end], BROKEN)
        lie("%s before the body" % end, [response(b"", length=5), end], BROKEN)
        for name, part in {"a size": b"5", "half a chunk": b"5\r\nhel", "a chunk": b"5\r\nhello", "a chunk and its end": b"5\r\nhello\r\n", "the last size": b"5\r\nhello\r\n0",
                           "the last size and its end": b"5\r\nhello\r\n0\r\n", "half a trailer": b"5\r\nhello\r\n0\r\nX: y", "the head": b""}.items():
            lie("%s in chunks after %s" % (end, name), [CHUNKED + part, end], BROKEN)
    lie("reset at a body without length", [b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nhello", PAUSE, RESET], BROKEN)
    for name, part in {
        "a size that is none": b"g\r\nhello", "a negative size": b"-5\r\nhello", "a size with 0x": b"0x5\r\nhello", "a size of 2^64": b"10000000000000000\r\nhello", "a size of 2^63": b"8000000000000000\r\nhello",
        "an extension": b"5;a=b\r\nhello\r\n0\r\n\r\n", "a size ended by LF": b"5\nhello\n0\n\n", "a chunk that is too long": b"4\r\nhello\r\n0\r\n\r\n", "a chunk that is too short": b"6\r\nhello\r\n0\r\n\r\n",
        "a space in a size": b"5 \r\nhello\r\n0\r\n\r\n", "an empty size": b"\r\nhello", "a trailer without colon": b"5\r\nhello\r\n0\r\nfoo\r\n\r\n", "a folded trailer": b"5\r\nhello\r\n0\r\nX: y\r\n z\r\n\r\n",
        "trailers without end": b"5\r\nhello\r\n0\r\n" + b"X: y\r\n" * 5000, "an answer as trailer": b"5\r\nhello\r\n0\r\n" + SECOND, "NUL in a trailer": b"5\r\nhello\r\n0\r\nX: \0\r\n\r\n",
    }.items():
        lie("chunks: " + name, CHUNKED + part + SECOND, BROKEN)


UPGRADE = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}


def upgrades():
    """Answers to a request for a WebSocket that are none."""
    switching, to = b"HTTP/1.1 101 Switching Protocols\r\n", b"Connection: Upgrade\r\nUpgrade: websocket\r\n"
    for name, head in {
        "names no protocol": switching + b"Connection: Upgrade\r\n", "has no Connection": switching + b"Upgrade: websocket\r\n", "has neither": switching,
        "to another protocol": switching + b"Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n", "to another as well": switching + to + b"Upgrade: foo\r\n",
        "to HTTP/2": switching + b"Connection: Upgrade\r\nUpgrade: h2c\r\n", "in HTTP/1.0": switching.replace(b"/1.1", b"/1.0") + to,
        "with chunks": switching + to + b"Transfer-Encoding: chunked\r\n", "with two lengths": switching + to + b"Content-Length: 1\r\nContent-Length: 2\r\n",
        "with NUL": switching + to + b"X: \0\r\n", "with two megabytes": switching + to + b"X: %s\r\n" % (b"y" * 2000000), "without digits": b"HTTP/1.1 1O1 Switching\r\n" + to,
    }.items():
        lie("101 " + name, head + b"\r\n" + SECRET, REFUSED, UPGRADING)
    lie("no HTTP for an upgrade", b"\x81\x05" + SECRET, REFUSED, UPGRADING)
    for end in (CLOSE, RESET):
        for name, part in {"nothing": b"", "half a 101": switching, "a 101 without its empty line": switching + to}.items():
            lie("upgrade, %s after %s" % (end, name), [part, end], REFUSED, UPGRADING)
        lie("upgrade, %s in a refusal" % end, [response(b"n", b"403 Forbidden", length=2), end], BROKEN, UPGRADING)
    lie("a refused upgrade", response(b"no", b"403 Forbidden"), whole(b"no", 403), UPGRADING)
    lie("a refused upgrade in chunks", CHUNKED.replace(b"200 OK", b"400 Bad") + b"2\r\nno\r\n0\r\n\r\n", whole(b"no", 400), UPGRADING)
    lie("a refusal and what follows it", response(b"no", b"403 Forbidden") + SECOND, whole(b"no", 403), UPGRADING)
    lie("a 200 that says Upgrade", response(b"hello", fields=to), whole(b"hello"), UPGRADING)


heads()
bodies()
upgrades()


# ---------------------------------------------------------------------------------------------- the server that lies


def cork(conn, on):
    conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, int(on))


AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def discovery(groups):
    """An answer of /apis that lists {group: {version: [resources]}}."""
    items = [{"metadata": {"name": g}, "versions": [{"version": v, "freshness": "Current", "resources": [
        {"resource": r, "scope": "Cluster", "responseKind": {"group": "", "version": "", "kind": "X"}, "singularResource": "", "shortNames": ["\x1b[2J" if r == "escapes" else "g"], "verbs": ["get", "list"]} for r in resources]}
        for v, resources in versions.items()]} for g, versions in groups.items()]
    body = json.dumps({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s" % (AGGREGATED.encode(), len(body), body)


class Liar:
    """Stands before a server of the simulator and passes requests on, except those with ?lie=NAME: these it answers
    itself with LIES[NAME].  It remembers which connections were used after a lie."""

    def __init__(self, world, upstream):
        self.upstream, self.certs = upstream, world.certs
        self.told, self.reused, self.trouble = [], [], []
        self.apart = 0  # lies whose pieces the kernel may have sent one by one
        self.groups = None  # what it says of /apis instead of the server behind it
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(world.certs.crt("node-a"), world.certs.key("node-a"))
        self.context.load_verify_locations(world.certs.crt("front-proxy-ca"))
        self.context.verify_mode = ssl.CERT_OPTIONAL
        self.context.set_alpn_protocols(["http/1.1"])
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            tcp, _ = self.listener.accept()
            threading.Thread(target=self.serve, args=(tcp,), daemon=True).start()

    def serve(self, tcp):
        with contextlib.suppress(OSError):
            tcp.settimeout(fixture.PATIENCE)
            tcp.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            conn = self.context.wrap_socket(tcp, server_side=True)
            lied = None
            while True:
                head = self.read_head(conn)
                if not head:
                    break
                found = re.search(rb"[?&]lie=([0-9]+)", head.split(b"\r\n")[0])
                if lied is not None and b"\r\nUser-Agent: mvproxy\r\n" in head:
                    break  # a look of mvproxy's own, which took what came late for its answer: the next one's would be this one's
                if lied is not None:
                    self.reused.append(lied)
                if self.groups is not None and head.startswith(b"GET /apis HTTP/"):
                    conn.sendall(discovery(self.groups))
                    continue
                if not found:
                    self.relay(conn, head)
                    break
                lied = list(LIES)[int(found.group(1))]
                if not self.tell(conn, tcp, lied):
                    return
            conn.close()

    @staticmethod
    def read_head(conn):
        head = b""
        while b"\r\n\r\n" not in head:
            data = conn.recv(65536)
            if not data:
                return None
            head += data
        return head

    def tell(self, conn, tcp, name):
        """False: the connection has ended."""
        cork(conn, True)  # records of their own, but together in a packet: after 200 ms the kernel waits no longer
        begun = time.monotonic()
        for piece in LIES[name][0]:
            if isinstance(piece, bytes):
                conn.sendall(piece)
            elif piece == PAUSE:
                cork(conn, False)
                time.sleep(0.05)
            elif piece == CLOSE:
                conn.unwrap().close()
                return False
            elif piece == RESET:
                conn.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
                conn.close()
                return False
        cork(conn, False)
        self.apart += time.monotonic() - begun > 0.15
        self.told.append(name)
        return True

    def relay(self, conn, head):
        """Pass one request on, on a connection of its own, and its answer back."""
        context = ssl.create_default_context(cafile=self.certs.crt("ca"))
        if conn.getpeercert():
            context.load_cert_chain(self.certs.crt("front-proxy-client"), self.certs.key("front-proxy-client"))
        with socket.create_connection(self.upstream) as tcp:
            tcp.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.pass_on(conn, head, context.wrap_socket(tcp, server_hostname="kubernetes.default.svc"))

    @staticmethod
    def pass_on(conn, head, server):
        with server:
            server.sendall(head.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
            while True:
                ready = select.select([conn, server], [], [])[0]
                for source, sink in ((conn, server), (server, conn)):
                    while source in ready:
                        data = source.recv(65536)
                        if not data:
                            return
                        sink.sendall(data)
                        if not source.pending():
                            break


def setup():
    """a's server and the peer it knows are both behind liars; b is only there to be asked."""
    world = fixture.World(proxies=["a"])
    world.liars = {"local": Liar(world, world.addresses["a"]), "peer": Liar(world, world.addresses["b"])}
    world.proxies["a"].options.update({
        "apiserver": "https://127.0.0.1:%d" % world.liars["local"].port,
        "peers": ["test-server-b=127.0.0.1:%d" % world.liars["peer"].port],
    })
    return world.start()


def see(client, method, target):
    """What a client sees: ("whole", status, body), REFUSED, BROKEN; anything else is an error."""
    client.request("GET" if method == UPGRADING else method, target, UPGRADE if method == UPGRADING else None)
    answer = client.final_head()
    check(len(answer.interim) <= 17, "interim answers", len(answer.interim))
    try:
        client.body(answer, method)
    except Broken as how:
        check(SECRET not in how.partial, "the secret in", how.partial)
        return BROKEN
    if answer.status == 503 and answer.header("Content-Type") == "application/json":
        equal(answer.json()["kind"], "Status", "a refusal")
        return REFUSED
    return whole(answer.body, answer.status)


def settle(world, place, name):
    """Bytes that come later than the next request are its answer, whoever sent them: wait for those of this lie."""
    pieces = LIES[name][0]
    if PAUSE in pieces or pieces.count(OPEN) + sum(isinstance(p, bytes) for p in pieces) > 2:
        until(lambda: name in world.liars[place].told or RESET in pieces, "the end of the lie " + name)


def whoami(client, place, name):
    """The next request of somebody else: his answer, and no other."""
    if place == "local":
        answer = client.ask("GET", "/sim/whoami?after=" + name)
        equal((answer.status, answer.json()["user"]["username"]), (200, "alice"), "the next client's answer")
        equal(answer.json()["target"], "/sim/whoami?after=" + name, "the next client's answer")
    else:
        answer = client.ask("GET", CLASSES + "?after=" + name)
        equal((answer.status, answer.json()["kind"]), (403, "Status"), "the next client's answer")
        check(b'alice' in answer.body, "the next client's answer is", answer.body)


def all_lies(world, place):
    liar, wrong = world.liars[place], []
    with contextlib.ExitStack() as stack:
        other = stack.enter_context(world.client(user="alice"))
        for number, (name, (_, outcome, method, reusable)) in enumerate(LIES.items()):
            before = len(liar.reused)
            target = ("/sim/whoami?lie=%d" if place == "local" else CLASSES + "?lie=%d") % number
            try:
                with world.client() as client:
                    seen = see(client, method, target)
                    # A reset may overtake what was sent before it.
                    check(seen == outcome or (RESET in LIES[name][0] and seen == REFUSED), "the client saw", seen, "and not", outcome)
                    settle(world, place, name)
                    whoami(other, place, "%d" % number)
                    client_after(world, client, place)
                check(reusable or len(liar.reused) == before, "the connection was used again")
            except (AssertionError, ValueError, OSError, KeyError) as error:
                wrong.append("%s: %s: %s" % (name, type(error).__name__, error))
                other.close()
                other = stack.enter_context(world.client(user="alice"))
            check(world.proxies["a"].running(), name, "and the daemon is dead")
    check(not wrong, "%d of %d went wrong:\n" % (len(wrong), len(LIES)) + "\n".join(w[:600] for w in wrong))


def client_after(world, client, place):
    """The same client's next request, if the connection is still there: his own answer as well."""
    if client.left:
        return
    try:
        answer = client.ask("GET", "/sim/whoami?own=1")
    except (Broken, OSError):
        return
    equal(answer.json()["target"], "/sim/whoami?own=1", "the next answer on the same connection")


def test_many_lies(world):
    """the table has more than 100 lies"""
    check(len(LIES) > 100, len(LIES))


def test_local_server_lies(world):
    """every lie of the local server, and heads that are none are counted"""
    def counted():
        return world.proxies["a"].metric("mvproxy_back_failures_total", server="test-server-a", reason="head") or 0
    before = counted()
    all_lies(world, "local")
    least = sum(outcome == REFUSED and OPEN in pieces for pieces, outcome, _, _ in LIES.values())
    check(counted() - before >= least, "counted", counted() - before, "of", least)


def test_peer_lies(world):
    """every lie of a peer"""
    all_lies(world, "peer")


def test_discovery_lies(world):
    """lies as the answer to a request for /apis, which asks the local server for its verdict"""
    wanted = {"Accept": AGGREGATED}
    for number, (name, (_, outcome, method, _)) in enumerate(LIES.items()):
        if method != "GET":
            continue
        with world.client() as client:
            client.request("GET", "/apis?lie=%d" % number, wanted)
            try:
                answer = client.answer()
            except Broken as how:
                check(outcome == BROKEN, name, "broke off:", how)
                continue
            check(SECRET not in answer.body, name, "the secret in", answer.body)
            check(answer.status in (200, 204, 304, 503), name, answer)


def test_queue_behind_a_lie(world):
    """two answers at once while many others wait for a connection: none of them gets the second"""
    number, liar, together = list(LIES).index("a second answer in another record"), world.liars["local"], 0
    for _ in range(50):
        apart, told = liar.apart, len(liar.told)
        with contextlib.ExitStack() as stack:
            liars = [stack.enter_context(world.client()) for _ in range(4)]
            others = [stack.enter_context(world.client(user="alice")) for _ in range(12)]
            for client in liars:
                client.request("GET", "/sim/whoami?lie=%d" % number)
            for client in others:
                client.request("GET", "/sim/whoami?after=queue")
            for client in liars:
                equal(client.answer().body, b"hello", "the first answer")
            mixed = [answer for answer in (client.answer() for client in others) if SECRET in answer.body]
        until(lambda: len(liar.told) >= told + 4, "the end of the lies")
        if liar.apart == apart:  # else what came later than the next request was its answer, and nobody could tell
            check(not mixed, "the secret in", mixed)
            together += 1
        if together == 5:
            return
    check(together > 0, "the two answers were never sent at once")


def listed(world, path):
    """{group: {version: {resources}}} of a discovery document."""
    answer = world.ask("GET", path, headers={"Accept": AGGREGATED})
    equal(answer.status, 200, path)
    return {g["metadata"].get("name", ""): {v["version"]: {r["resource"] for r in v.get("resources", [])} for v in g["versions"]} for g in answer.json()["items"]}


def test_names(world):
    """names in a peer's discovery that no API server can have are left out, nothing else of it is, and that is said once"""
    proxy, liar = world.proxies["a"], world.liars["peer"]
    before, core = listed(world, "/apis"), listed(world, "/api")
    mark = proxy.reload({"discovery-refresh-interval": "1s"})
    odd = {"v1": ["x"]}
    liar.groups = {"": {"v1": ["evilcores"]}, "a b": odd, "\x1b[31mred": odd, "<script>": odd, "x/y": odd, "..": odd, "only.example.com": {"v1/../x": ["x"], "": ["x"]},
                   "names.example.com": {"v1/../../x": ["x"], "v 1": ["x"], "v1": ["a/b", "../x", "..", "a b", "", "%2e", "x\0y", "<b>", "escapes", "good", "pods:a_B|c"]}}
    try:
        until(lambda: "names.example.com" in listed(world, "/apis"), "the peer's groups")
        after = listed(world, "/apis")
        equal(after["names.example.com"], {"v1": {"good", "pods:a_B|c"}}, "what is left of the group")
        check(set(after) - set(before) == {"names.example.com"}, "groups that came", set(after) - set(before))
        equal(listed(world, "/api"), core, "the core group")
        legacy = world.ask("GET", "/apis").json()["groups"]
        check({g["name"] for g in legacy} <= set(before) | set(after), "the legacy list", legacy)
        log = proxy.log()[mark:]
        said = [line for line in log.splitlines() if "Left out of a peer's discovery" in line]
        check(len(said) == 1 and 'server="test-server-b" names=18 ' in said[0], "what is said", said)
        check("\x1b" not in log, "an escape in the log")
    finally:
        liar.groups = None
        until(lambda: set(listed(world, "/apis")) == set(before), "the groups of before")
        proxy.reload({"discovery-refresh-interval": "30s"})


# -------------------------------------------------------------------------------------------------- impostors as peers


class Impostor:
    """A TLS server with any certificate; it remembers every byte of HTTP that it is given."""

    def __init__(self, crt, key):
        self.heard, self.hellos = b"", 0
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(crt, key)
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            tcp, _ = self.listener.accept()
            self.hellos += 1
            with contextlib.suppress(OSError, ssl.SSLError):
                tcp.settimeout(5)
                with self.context.wrap_socket(tcp, server_side=True) as conn:
                    while True:
                        data = conn.recv(65536)
                        if not data:
                            break
                        self.heard += data


def test_impostors(world):
    """a peer without a certificate of peer-ca-file for kubernetes.default.svc gets a greeting and not one byte of HTTP"""
    certs = world.certs
    certs.extra("wrong-name", "kube-apiserver", sans=("evil.example.com", "127.0.0.1"), eku="serverAuth")
    certs.extra("no-name", "kubernetes.default.svc", eku="serverAuth")
    certs.extra("client-only", "kube-apiserver", sans=("kubernetes.default.svc",), eku="clientAuth")
    certs.extra("old", "kube-apiserver", sans=("kubernetes.default.svc",), eku="serverAuth", start="20200101000000Z", end="20200102000000Z")
    certs.extra("wildcard", "kube-apiserver", sans=("*.svc",), eku="serverAuth")
    certs.extra("front-ca", "kube-apiserver", sans=("kubernetes.default.svc",), eku="serverAuth", ca="front-proxy-ca")
    proxy = world.proxies["a"]
    for name in ("foreign-server", "wrong-name", "no-name", "client-only", "old", "wildcard", "front-ca"):
        impostor = Impostor(certs.crt(name), certs.key(name))
        mark = proxy.reload({"peers": ["test-server-b=" + impostor.address]})
        proxy.await_log("Reloaded", since=mark)
        until(lambda: impostor.hellos > 0, "mvproxy to try " + name)
        for headers in ({}, {"Authorization": "Bearer token-root"}):
            answer = world.ask("GET", CLASSES, user=None if headers else "admin", headers=headers)
            check(answer.status == 503, name, answer)
        equal(impostor.heard, b"", "what %s heard" % name)


if __name__ == "__main__":
    fixture.main(globals())
