# SPDX-License-Identifier: Apache-2.0
"""A machine in the middle of mvproxy and a server: TLS on both sides, HTTP/1.1 passed on byte by byte, HTTP/2 frame by frame (RFC 9113, section 4.1).
Into the latter a story puts frames of its own, or keeps streams from the server. It reads no header compression: whoever refuses a stream must refuse
all those that follow on that connection, because the server's table would lack what was in the first."""

import contextlib
import select
import socket
import ssl
import threading

import fixture
from rawh2 import DATA, GOAWAY, HEADERS, RST_STREAM, Frames, reset

class Joint:
    """One connection of mvproxy's, and ours to the server for it."""

    def __init__(self, near, far):
        self.near, self.far = near, far
        self.h2 = near.selected_alpn_protocol() == "h2"
        self.streams = []       # that mvproxy has opened
        self.reset = {}         # and reset itself: stream -> code
        self.refuse = None      # refuses new streams: code of the reset, or "hold": says nothing
        self.held = []          # streams that were refused or held; of mvproxy's own looks as well
        self.bodies = set()     # streams on which it has sent DATA
        self.goaway = None      # code of mvproxy's GOAWAY
        self.ended = False
        self._lock = threading.Lock()
        self._say = b""
        self._bell, self._ring = socket.socketpair()

    def say(self, data):
        """Bytes for mvproxy, between two frames of the server's."""
        with self._lock:
            self._say += data
        try:
            self._ring.send(b"!")
        except OSError:  # it may end at any moment
            if not self.ended:
                raise

    def break_off(self):
        """The connection is lost, to both sides."""
        for one in (self.near, self.far):
            with contextlib.suppress(OSError):
                socket.socket.shutdown(one, socket.SHUT_RDWR)

    def open_streams(self):
        return [s for s in self.streams if s not in self.reset and s not in self.held]

    def _from_mvproxy(self, kind, stream, one):
        """Whether the frame is for the server."""
        if kind == HEADERS:
            if self.refuse is not None:
                self.held.append(stream)
                if self.refuse != "hold":
                    self.near.sendall(reset(stream, self.refuse))
                return False
            self.streams.append(stream)
        elif kind == DATA:
            self.bodies.add(stream)
        elif kind == RST_STREAM:
            self.reset[stream] = int.from_bytes(one[9:13], "big")
        elif kind == GOAWAY:
            self.goaway = int.from_bytes(one[13:17], "big")
            return False
        return stream == 0 or stream not in self.held

    def _pass(self, source, sink, frames):
        """False: this side has ended."""
        source.settimeout(0)
        try:
            data = source.recv(65536)
        except ssl.SSLWantReadError:  # a ticket, or half a record: the other side must not wait for the rest
            return True
        finally:
            source.settimeout(fixture.PATIENCE)
        if not data:
            return False
        for kind, _, stream, one in frames.take(data) if self.h2 else ((None, 0, 0, data),):
            if source is self.far or self._from_mvproxy(kind, stream, one):
                sink.sendall(one)
        return True

    def run(self):
        cut = {self.near: Frames(True), self.far: Frames(False)}
        try:
            while True:
                ready = [s for s in (self.near, self.far) if s.pending()] or select.select([self.near, self.far, self._bell], [], [])[0]
                if self._bell in ready:
                    self._bell.recv(4096)
                    with self._lock:
                        data, self._say = self._say, b""
                    self.near.sendall(data)
                for source, sink in ((self.near, self.far), (self.far, self.near)):
                    if source in ready and not self._pass(source, sink, cut[source]):
                        return
        except (OSError, ValueError):
            pass
        finally:
            self._last_words(cut[self.near])
            self.ended = True
            for one in (self.near, self.far, self._bell, self._ring):
                one.close()

    def _last_words(self, frames):
        """What mvproxy said before it closed, when writing to it has failed."""
        with contextlib.suppress(OSError, ValueError):
            self.near.settimeout(fixture.PATIENCE)
            while True:
                data = self.near.recv(65536)
                if not data:
                    return
                for kind, _, stream, one in frames.take(data) if self.h2 else ():
                    self._from_mvproxy(kind, stream, one)


class Middle:
    """Stands before a server of a world."""

    def __init__(self, world, name):
        self.server, self.certs = world.addresses[name], world.certs
        self.joints = []
        self.protocols = ["h2", "http/1.1"]
        self.refuse_new = None  # what new connections begin with
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def h2(self):
        """The HTTP/2 connections that are open."""
        return [j for j in self.joints if j.h2 and not j.ended]

    def _accept(self):
        while True:
            tcp, _ = self.listener.accept()
            threading.Thread(target=self._serve, args=(tcp,), daemon=True).start()

    def _serve(self, tcp):
        with contextlib.suppress(OSError):
            tcp.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self.certs.crt("node-a"), self.certs.key("node-a"))
            context.load_verify_locations(self.certs.crt("front-proxy-ca"))
            context.verify_mode = ssl.CERT_OPTIONAL
            context.set_alpn_protocols(self.protocols)
            near = context.wrap_socket(tcp, server_side=True)
            joint = Joint(near, self._connect(near))
            joint.refuse = self.refuse_new if joint.h2 else None
            self.joints.append(joint)
            joint.run()

    def _connect(self, near):
        """To the server, in the same protocol and with the same right to speak for others."""
        context = ssl.create_default_context(cafile=self.certs.crt("ca"))
        if near.getpeercert():
            context.load_cert_chain(self.certs.crt("front-proxy-client"), self.certs.key("front-proxy-client"))
        if near.selected_alpn_protocol():
            context.set_alpn_protocols([near.selected_alpn_protocol()])
        tcp = socket.create_connection(self.server)
        tcp.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return context.wrap_socket(tcp, server_hostname="kubernetes.default.svc")
