# SPDX-License-Identifier: Apache-2.0
"""What mvproxy writes to a server, byte for byte: a relay that stands between the two and keeps it, and the strictest
reading of it. Each byte must have its place in the narrowest grammar, so that there is no second reading."""

import contextlib
import re
import select
import socket
import ssl
import threading

_LINE = re.compile(rb"([A-Z-]+) (/[\x21-\x7e]*|\*) HTTP/1\.1\Z")
_FIELD = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+): ((?:[\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?)?)\Z")
_SIZE = re.compile(rb"[0-9a-f]{1,16}\Z")
_LENGTH = re.compile(rb"[0-9]{1,18}\Z")


class Loose(AssertionError):
    """Bytes outside of the grammar."""


class Request:
    """One request as it stands in the stream; whole is False if the stream ends in its body."""

    def __init__(self, method, target, fields):
        self.method, self.target, self.fields = method, target, fields
        self.body, self.trailers, self.whole = b"", [], False

    def all(self, name):
        return [v for n, v in self.fields if n.lower() == name]


class _Cut(Exception):
    pass


class Reader:
    """Cuts a stream into requests."""

    def __init__(self, data):
        self.rest = bytes(data)

    def line(self):
        line, end, rest = self.rest.partition(b"\r\n")
        if not end:
            raise _Cut
        if b"\r" in line or b"\n" in line:
            raise Loose("bare CR or LF in %r" % line[:200])
        self.rest = rest
        return line

    def fields(self):
        out = []
        while True:
            line = self.line()
            if not line:
                return out
            match = _FIELD.match(line)
            if not match:
                raise Loose("field %r" % line[:200])
            out.append((match.group(1).decode(), match.group(2)))

    def take(self, n):
        if len(self.rest) < n:
            raise _Cut
        data, self.rest = self.rest[:n], self.rest[n:]
        return data

    def body(self, request):
        codings, lengths = request.all("transfer-encoding"), request.all("content-length")
        if len(codings) + len(lengths) > 1 or codings not in ([], [b"chunked"]) or not all(_LENGTH.match(v) for v in lengths):
            raise Loose("framing of %s: %r %r" % (request.target, codings, lengths))
        if lengths:
            request.body = self.take(int(lengths[0]))
        while codings:
            size = self.line()
            if not _SIZE.match(size):
                raise Loose("chunk size %r" % size[:50])
            if int(size, 16) == 0:
                request.trailers = self.fields()
                return
            request.body += self.take(int(size, 16))
            if self.take(2) != b"\r\n":
                raise Loose("no line end behind a chunk")

    def requests(self):
        """All of them; what is no whole head at the end is left out."""
        while self.rest:
            try:
                line = self.line()
                match = _LINE.match(line)
                if not match:
                    raise Loose("request line %r" % line[:200])
                request = Request(match.group(1).decode(), match.group(2).decode(), self.fields())
            except _Cut:
                return
            if len(request.all("host")) != 1:
                raise Loose("Host of %s: %r" % (request.target, request.fields))
            with contextlib.suppress(_Cut):
                self.body(request)
                request.whole = True
            yield request
            if not request.whole:
                return


class Wire:
    """Stands before a server with a certificate of its own, and shows mvproxy's to it when mvproxy has shown one."""

    def __init__(self, certs, server):
        self.certs, self.server, self.streams = certs, server, []
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(certs.crt("node-a"), certs.key("node-a"))
        self.context.load_verify_locations(certs.crt("front-proxy-ca"))
        self.context.verify_mode = ssl.CERT_OPTIONAL
        self.context.set_alpn_protocols(["http/1.1"])
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.url = "https://127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def requests(self):
        """Of all connections so far."""
        return [request for stream in list(self.streams) for request in Reader(stream).requests()]

    def _accept(self):
        while True:
            tcp, _ = self.listener.accept()
            threading.Thread(target=self._serve, args=(tcp,), daemon=True).start()

    def _serve(self, tcp):
        with contextlib.suppress(OSError), tcp:
            tcp.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self.context.wrap_socket(tcp, server_side=True) as conn:
                context = ssl.create_default_context(cafile=self.certs.crt("ca"))
                if conn.getpeercert():
                    context.load_cert_chain(self.certs.crt("front-proxy-client"), self.certs.key("front-proxy-client"))
                with socket.create_connection(self.server) as far:
                    far.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    self._relay(conn, context.wrap_socket(far, server_hostname="kubernetes.default.svc"))

    def _relay(self, conn, server):
        stream = bytearray()
        self.streams.append(stream)
        with server:
            while True:
                ready = select.select([conn, server], [], [])[0]
                for source, sink in ((conn, server), (server, conn)):
                    while source in ready:
                        source.setblocking(False)  # what has come may be a ticket, and nothing to pass on
                        try:
                            data = source.recv(65536)
                        except ssl.SSLWantReadError:
                            break
                        finally:
                            source.setblocking(True)
                        if not data:
                            return
                        if source is conn:
                            stream += data  # before the server has it, so that nothing it knows is missing here
                        sink.sendall(data)
