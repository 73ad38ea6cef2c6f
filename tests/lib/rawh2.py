# SPDX-License-Identifier: Apache-2.0
"""Frames of HTTP/2 (RFC 9113, section 4.1), and a client that sends exactly what it is told. It reads no header compression; of an answer's head it
knows whether that begins with the octet for 200."""

import rawhttp

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, FLOW_CONTROL_ERROR, SETTINGS_TIMEOUT, STREAM_CLOSED, FRAME_SIZE_ERROR, REFUSED_STREAM, CANCEL, \
    COMPRESSION_ERROR, CONNECT_ERROR, ENHANCE_YOUR_CALM, INADEQUATE_SECURITY, HTTP_1_1_REQUIRED = range(14)
END_STREAM, ACK, END_HEADERS = 1, 1, 4
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
LAST = (1 << 31) - 1


def frame(kind, stream=0, payload=b"", flags=0, length=None):
    """A frame; `length` lies about its payload's."""
    return (len(payload) if length is None else length).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def goaway(last, code=NO_ERROR):
    return frame(GOAWAY, 0, last.to_bytes(4, "big") + code.to_bytes(4, "big"))


def reset(stream, code):
    return frame(RST_STREAM, stream, code.to_bytes(4, "big"))


class Frames:
    """Cuts a stream of bytes into frames."""

    def __init__(self, preface):
        self.buffer, self.preface = b"", preface

    def take(self, data):
        """(kind, flags, stream, whole frame), for each that is complete; kind None: what is to be passed on as it is."""
        self.buffer += data
        if self.preface:
            if len(self.buffer) < len(PREFACE):
                return
            yield None, 0, 0, self.buffer[:len(PREFACE)]
            self.buffer, self.preface = self.buffer[len(PREFACE):], False
        while len(self.buffer) >= 9 and len(self.buffer) >= 9 + int.from_bytes(self.buffer[:3], "big"):
            end = 9 + int.from_bytes(self.buffer[:3], "big")
            one, self.buffer = self.buffer[:end], self.buffer[end:]
            yield one[3], one[4], int.from_bytes(one[5:9], "big") & LAST, one


class RawH2:
    """HTTP/2 on a connection of rawhttp.Raw. What comes is kept for each stream."""

    def __init__(self, conn):
        self.conn, self.frames, self.next = conn, Frames(False), 1
        self.heads, self.data, self.ended, self.resets, self.goaway = {}, {}, set(), {}, None
        self.settings = {}  # the server's, by their numbers
        self.keep = set()  # streams whose windows do not open again
        conn.send(PREFACE + frame(SETTINGS))

    @staticmethod
    def _literal(index, text):
        """A field with a name of the static table, not to be remembered (RFC 7541, section 6.2.2)."""
        assert len(text) < 127
        return bytes([index, len(text)]) + text.encode()

    def request(self, method, path, body=None, end=True, fields=None):
        """Opens a stream, and gives its number. end: nothing more of the body follows. fields: more, each shorter than 127."""
        stream, self.next = self.next, self.next + 2
        # The path alone may be long: its length is a number with a prefix of 7 bits (section 5.1).
        length = bytes([len(path)]) if len(path) < 127 else bytes([127, (len(path) - 127) % 128 | 128, (len(path) - 127) // 128])
        head = {"GET": b"\x82", "POST": b"\x83"}[method] + b"\x87\x04" + length + path.encode() + self._literal(1, "kubernetes")
        for name, value in (fields or {}).items():
            head += self._literal(0, name.lower()) + self._literal(0, value)[1:]
        self.conn.send(frame(HEADERS, stream, head, END_HEADERS | (END_STREAM if end and body is None else 0)))
        if body is not None:
            self.body(stream, body, end)
        return stream

    def body(self, stream, data, end):
        for at in range(0, max(1, len(data)), 16384):
            last = at + 16384 >= len(data)
            self.conn.send(frame(DATA, stream, data[at:at + 16384], END_STREAM if end and last else 0))

    def _take(self, kind, flags, stream, one):
        if kind == SETTINGS and not flags & ACK:
            self.settings.update((int.from_bytes(one[at:at + 2], "big"), int.from_bytes(one[at + 2:at + 6], "big")) for at in range(9, len(one), 6))
            self.conn.send(frame(SETTINGS, 0, b"", ACK))
        elif kind == HEADERS:
            self.heads.setdefault(stream, one[9:])
        elif kind == DATA:
            self.data[stream] = self.data.get(stream, b"") + one[9:]
            if len(one) > 9:
                self.conn.send(b"".join(frame(WINDOW_UPDATE, s, (len(one) - 9).to_bytes(4, "big")) for s in {0, stream} - self.keep))
        elif kind == RST_STREAM:
            self.resets[stream] = int.from_bytes(one[9:13], "big")
        elif kind == GOAWAY:
            self.goaway = int.from_bytes(one[13:17], "big")
        if kind in (HEADERS, DATA) and flags & END_STREAM:
            self.ended.add(stream)

    def fill(self):
        """Take what comes next; an exception at the connection's end."""
        if not self.conn.buffer and not self.conn.fill():
            raise rawhttp.Broken(self.conn.left)
        data, self.conn.buffer = self.conn.buffer, b""
        for kind, flags, stream, one in self.frames.take(data):
            self._take(kind, flags, stream, one)

    def until(self, condition):
        while not condition():
            self.fill()

    def whole(self, stream):
        """The body, when its end is here; a reset before it is an exception."""
        self.until(lambda: stream in self.ended or stream in self.resets)
        if stream not in self.ended:
            raise rawhttp.Broken("reset %d" % self.resets[stream], self.data.get(stream, b""))
        return self.data.get(stream, b"")

    def ok(self, stream):
        self.until(lambda: stream in self.heads)
        return self.heads[stream].startswith(b"\x88")
