#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Users share HTTP/2 connections to servers: whatever one of them sends, or makes a server send, the watches of the others go on."""

import contextlib
import threading
import time

import fixture
import rawh2
from fixture import check, equal, until
from rawhttp import Broken
from test_back_http2 import Watches
from test_client_memory import literal
from test_watch import CLASSES, MAPS, make

NAME = "watched"
SECRETS = "/api/v1/namespaces/default/secrets"
FRAMES = 1200  # more than LIMIT_H2_CONTROL_FRAMES, and than nghttp2 allows resets at once


def setup():
    world = fixture.World()
    world.start()
    world.certs.extra("guest", "guest", ["dev"])
    world.number = 0
    make(world, MAPS, NAME, "a")
    make(world, CLASSES, NAME, "b")
    world.watches = [Watches(world, 3), Watches(world, 3, CLASSES, "b")]
    return world


def all_see(world):
    for watches in world.watches:
        watches.see(1)


def get(world, path, fields, size, fill):
    """The status of a GET with so many fields, each of so many bytes."""
    with world.client(user="guest") as client:
        client.request("GET", path, {"x-%03x" % i: fill * size for i in range(fields)})
        status = client.final_head().status
    all_see(world)
    return status


def test_longest_head(world):
    """a head that the server does not read over HTTP/2, where each field counts 32 bytes more"""
    equal(get(world, MAPS + "?watch=true", 250, 4184, "a"), 403, "within what HTTP/1.1 takes")


def test_many_frames(world):
    """a head of many CONTINUATION frames, to the server and to a peer"""
    for path in (MAPS, CLASSES):
        for fields in (40, 200):
            equal(get(world, path + "?watch=true", fields, 4096, "|"), 403, "%s: %d fields" % (path, fields))


def test_continuations(world):
    """heads whose frames are more than are let pass of those that carry nothing"""
    def work():
        with world.client(user="guest") as client:
            for _ in range(FRAMES // 8 // 6):
                client.request("GET", CLASSES, {"x-%03x" % i: "|" * 4096 for i in range(32)})
                equal(client.answer().status, 403, "by a guest")

    together(6, work)
    all_see(world)


def together(n, work):
    failures = []

    def run():
        try:
            work()
        except (AssertionError, OSError, Broken) as error:
            failures.append(error)

    threads = [threading.Thread(target=run) for _ in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check(not failures, failures)


def block(path, method, *more):
    """Fields in HPACK; the path has less than 127 bytes."""
    return method + b"\x87\x04" + bytes([len(path)]) + path + b"\x01\x0akubernetes" + b"".join(literal(n, v, False) for n, v in more)


class Http2:
    """A client of raw frames."""

    def __init__(self, world, user, source=None):
        self.client = world.client(user=user, alpn=("h2",), **({"source": source} if source else {}))
        self.client.send(rawh2.PREFACE + rawh2.frame(rawh2.SETTINGS) + rawh2.frame(rawh2.WINDOW_UPDATE, 0, (1 << 30).to_bytes(4, "big")))
        self.frames, self.next = rawh2.Frames(False), 1

    def open(self, count, head, flags):
        ids = range(self.next, self.next + 2 * count, 2)
        self.next = ids.stop
        self.client.send(b"".join(rawh2.frame(rawh2.HEADERS, i, head, rawh2.END_HEADERS | flags) for i in ids))
        return ids

    def await_each(self, ids, kinds):
        """Until a frame of one of these kinds came for each."""
        missing = set(ids)
        while missing:
            data = self.client.sock.recv(65536)
            check(data, "the connection was closed", len(missing))
            missing -= {stream for kind, _, stream, _ in self.frames.take(data) if kind in kinds}


def test_early_answers(world):
    """uploads that the server refuses before it has read them: it resets each, and more of these than carry nothing"""
    head = block(MAPS.encode(), b"\x83", (b"content-length", b"10"), (b"content-type", b"application/json"))

    def work():
        http2 = Http2(world, "guest")
        for _ in range(FRAMES // 2 // 40):
            http2.await_each(http2.open(40, head, 0), (rawh2.RST_STREAM,))  # 0.1 s after the answer
        http2.client.close()

    together(2, work)
    all_see(world)


def test_cancelled(world):
    """requests that clients of many addresses give up, each no more than it may"""
    head = block((CLASSES + "?watch=true").encode(), b"\x82")

    def work(source):
        http2 = Http2(world, "admin", source)
        for _ in range(8):
            ids = http2.open(8, head, rawh2.END_STREAM)
            http2.await_each(ids, (rawh2.HEADERS,))
            http2.client.send(b"".join(rawh2.reset(i, rawh2.CANCEL) for i in ids))
            time.sleep(0.15)  # below what one client may give up in a second
        http2.client.close()

    sources = iter(["127.0.0.%d" % n for n in range(2, 2 + FRAMES // 64 + 1)])
    together(FRAMES // 64 + 1, lambda: work(next(sources)))
    all_see(world)


def test_large_answers(world):
    """heads of answers that are longer than we take: the request they are for fails, and no other"""
    for kb in (200, 2000):
        world.sim.fault("headers", server="a", path=SECRETS, headers={"X-%d" % i: "|" * 4000 for i in range(kb // 4)})
        with contextlib.closing(world.client()) as client:
            client.request("POST", SECRETS, body={"metadata": {"name": "of-%d" % kb}})
            status = client.final_head().status
        check(status < 300 if kb == 200 else status in (502, 503), kb, status)
        all_see(world)
        world.sim.heal()


def test_no_connection_lost(world):
    """no connection to a server was given up meanwhile"""
    for name, proxy in world.proxies.items():
        for reason in ("flood", "protocol_error", "goaway"):
            check(not proxy.metric("mvproxy_back_connections_closed_total", reason=reason), name, reason)
        check(not proxy.metric("mvproxy_front_closed_total", reason="flood"), name, "flood")
    for watches in world.watches:
        watches.__exit__()
    until(lambda: world.ask("GET", MAPS).status == 200, "to be served")


if __name__ == "__main__":
    fixture.main(globals())
