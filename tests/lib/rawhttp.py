# SPDX-License-Identifier: Apache-2.0
"""A client that sends exactly the bytes it is given over TLS, and reads answers strictly.

Nothing is repaired and nothing guessed: an answer that is malformed, or ends before it is
whole, is an exception that says how.
"""

import hashlib
import json
import re
import socket
import ssl

SERVER_NAME = "kubernetes.default.svc"
TIMEOUT = 30.0


class Malformed(AssertionError):
    """The bytes are not HTTP/1.1."""


class Broken(AssertionError):
    """The connection ended before the answer was whole."""

    def __init__(self, how, partial=b""):
        super().__init__("%s after %d bytes of the body" % (how, len(partial)))
        self.how, self.partial = how, partial  # how: "closed", "cut" (no TLS goodbye) or "reset"


class Answer:
    """One response."""

    def __init__(self, status, reason, headers):
        self.status, self.reason, self.headers = status, reason, headers
        self.interim = []   # the 1xx answers before it
        self.body = b""
        self.trailers = []

    def all(self, name):
        return [v for n, v in self.headers if n.lower() == name.lower()]

    def header(self, name):
        values = self.all(name)
        return values[0] if values else None

    def json(self):
        return json.loads(self.body)

    def sha256(self):
        return hashlib.sha256(self.body).hexdigest()

    def __repr__(self):
        return "<%d %s %r>" % (self.status, self.header("Content-Type"), self.body[:300])


_STATUS = re.compile(rb"HTTP/1\.1 ([1-9][0-9][0-9]) ([\t\x20-\x7e\x80-\xff]*)\Z")
_FIELD = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([\t\x20-\x7e\x80-\xff]*?)[ \t]*\Z")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,16})\Z")


class Raw:
    """A TLS connection."""

    def __init__(self, address, ca, pair=None, alpn=("http/1.1",), name=SERVER_NAME, version=None,
                 session=None, context=None, receive_buffer=None, source=None, preface=b""):
        self.address = address
        if context is None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.load_verify_locations(ca)
            if pair:
                context.load_cert_chain(*pair)
            if alpn:
                context.set_alpn_protocols(list(alpn))
            if version:
                context.minimum_version = context.maximum_version = version
        self.context = context
        tcp = socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET)
        if receive_buffer:  # before the handshake: it decides on the window
            tcp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        tcp.settimeout(TIMEOUT)
        try:
            if source:
                tcp.bind((source, 0))
            tcp.connect(address)
        except BaseException:
            tcp.close()
            raise
        tcp.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            tcp.sendall(preface)
            self.sock = context.wrap_socket(tcp, server_hostname=name, session=session,
                                            suppress_ragged_eofs=False)
        except BaseException:
            tcp.close()
            raise
        self.buffer = b""
        self.left = None  # how the other side ended, once it has

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()

    def close(self):
        self.sock.close()

    def abort(self):
        """End with a TCP reset."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        self.sock.close()

    def send(self, data):
        self.sock.sendall(data.encode("latin-1") if isinstance(data, str) else data)

    def fill(self):
        """Read more; False at the end of the stream."""
        if self.left:
            return False
        try:
            data = self.sock.recv(65536)
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError) as error:
            self.left = "closed" if isinstance(error, ssl.SSLZeroReturnError) else "cut"
            return False
        except ConnectionError:
            self.left = "reset"
            return False
        if not data:
            self.left = "closed"
            return False
        self.buffer += data
        return True

    def at_end(self):
        """Wait for the end of the connection: "closed", "cut" or "reset"; bytes are an error."""
        while self.fill():
            pass
        if self.buffer:
            raise Malformed("bytes after the answer: %r" % self.buffer[:200])
        return self.left

    def quiet(self, seconds=0.2):
        """Whether nothing comes for a moment (to show that an answer has NOT come yet)."""
        if self.buffer:
            return False
        self.sock.settimeout(seconds)
        try:
            return not self.fill() and self.left is None
        except (socket.timeout, TimeoutError):
            return True
        finally:
            self.sock.settimeout(TIMEOUT)

    def line(self):
        while b"\r\n" not in self.buffer:
            if b"\n" in self.buffer:
                raise Malformed("bare LF in %r" % self.buffer[:200])
            if len(self.buffer) > 1 << 20:
                raise Malformed("a line of more than 1 MiB")
            if not self.fill():
                raise Broken(self.left, self.buffer)
        line, self.buffer = self.buffer.split(b"\r\n", 1)
        if b"\n" in line or b"\r" in line:
            raise Malformed("bare CR or LF in %r" % line[:200])
        return line

    def exactly(self, n, into):
        while len(self.buffer) < n:
            if not self.fill():
                raise Broken(self.left, into + self.buffer)
        data, self.buffer = self.buffer[:n], self.buffer[n:]
        return data

    def fields(self):
        out = []
        while True:
            line = self.line()
            if not line:
                return out
            match = _FIELD.match(line)
            if not match:
                raise Malformed("header line %r" % line[:200])
            out.append((match.group(1).decode(), match.group(2).decode("latin-1")))

    def head(self):
        """Status line and fields of the next answer, interim ones included."""
        match = _STATUS.match(self.line())
        if not match:
            raise Malformed("status line")
        return Answer(int(match.group(1)), match.group(2).decode("latin-1"), self.fields())

    def final_head(self):
        interim = []
        while True:
            answer = self.head()
            if answer.status >= 200 or answer.status == 101:
                answer.interim = interim
                return answer
            interim.append(answer)

    def framing(self, answer, method):
        """("none" | "length" | "chunked" | "close", length)."""
        codings = [v.lower() for v in answer.all("Transfer-Encoding")]
        lengths = answer.all("Content-Length")
        if codings and (codings != ["chunked"] or lengths):
            raise Malformed("Transfer-Encoding %r with Content-Length %r" % (codings, lengths))
        if len(set(lengths)) > 1 or any(not v.isdigit() for v in lengths) or len(lengths) > 1:
            raise Malformed("Content-Length %r" % lengths)
        if answer.status in (204, 304) and codings:
            raise Malformed("Transfer-Encoding with %d" % answer.status)
        if method == "HEAD" or answer.status in (101, 204, 304):
            return "none", 0
        if codings:
            return "chunked", 0
        if lengths:
            return "length", int(lengths[0])
        return "close", 0

    def chunk(self, sofar=b""):
        """The next chunk; b"" is the last one, and then the trailers are still to be read."""
        match = _CHUNK.match(self.line())
        if not match:
            raise Malformed("chunk size")
        size = int(match.group(1), 16)
        data = self.exactly(size, sofar)
        if size and self.exactly(2, sofar + data) != b"\r\n":
            raise Malformed("no CRLF after a chunk")
        return data

    def body(self, answer, method="GET", sink=None):
        """Read the body; sink(data) takes it piece by piece instead of answer.body."""
        kind, length = self.framing(answer, method)
        parts = []
        take = sink or parts.append
        if kind == "length":
            left = length
            while left:
                if not self.buffer and not self.fill():
                    raise Broken(self.left, b"".join(parts))
                data, self.buffer = self.buffer[:left], self.buffer[left:]
                take(data)
                left -= len(data)
        elif kind == "chunked":
            while True:
                data = self.chunk(b"".join(parts) if not sink else b"")
                if not data:
                    break
                take(data)
            answer.trailers = self.fields()
        elif kind == "close":
            while True:
                if self.buffer:
                    take(self.buffer)
                    self.buffer = b""
                if not self.fill():
                    break
            if self.left != "closed":
                raise Broken(self.left, b"".join(parts))
        answer.body = b"".join(parts)
        return answer

    def answer(self, method="GET"):
        """The next whole answer."""
        return self.body(self.final_head(), method)

    def request(self, method, path, headers=None, body=None):
        """Send a request; a body that is no bytes is sent as JSON."""
        lines = ["%s %s HTTP/1.1" % (method, path)]
        fields = list(headers.items()) if isinstance(headers, dict) else list(headers or [])
        names = {n.lower() for n, v in fields}
        if "host" not in names:
            lines.append("Host: kubernetes.default.svc")
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            if "content-type" not in names:
                lines.append("Content-Type: application/json")
        if body is not None and not names & {"content-length", "transfer-encoding"}:
            lines.append("Content-Length: %d" % len(body))
        lines += ["%s: %s" % (n, v) for n, v in fields]
        self.send("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + (body or b""))

    def ask(self, method, path, body=None, headers=None):
        self.request(method, path, headers, body)
        return self.answer(method)


def chunked(*pieces, trailers=()):
    """A body in chunked coding."""
    out = b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in pieces if p) + b"0\r\n"
    for name, value in trailers:
        out += ("%s: %s\r\n" % (name, value)).encode()
    return out + b"\r\n"


_BASE = b"".join(hashlib.sha256(b"apisim %d" % k).digest() for k in range(2048))[8:]


def pattern(n, offset=0):
    """The bytes of the simulator's /sim/bytes: see bodies.go."""
    out = bytearray()
    first = offset // 65536
    for number in range(first, (offset + n + 65535) // 65536):
        out += number.to_bytes(8, "big") + _BASE
    start = offset - first * 65536
    return bytes(out[start:start + n])
