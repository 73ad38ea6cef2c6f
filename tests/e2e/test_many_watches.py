#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Thousands of watches on a few connections: every event once and in order, each end by itself, memory within bounds."""

import fixture
from fixture import World, check, equal, until
from watchload import PATH, Load, Writer, allow_descriptors, memory

WATCHES = 2000
BYTES_PER_WATCH = 10240


def setup():
    allow_descriptors(8192)
    return World({"a": "v1.34"}, options={"v": 2}).start()


def load(world, http2):
    program = Load("watchload-%s" % ("h2" if http2 else "h1"), world.scratch, world.proxies["a"].address,
                   (world.certs.crt("admin"), world.certs.key("admin")), world.certs.crt("ca"), http2)
    program.spawn()
    return program


def connections(world):
    """Of watches that run at the server now."""
    return {r["conn"] for r in world.sim.requests(path=PATH) if not r["done"] and "watch=true" in r["target"]}


def test_few_connections(world):
    """2,000 watches over HTTP/2 on both sides: a handful of connections, 10 KB for each watch"""
    proxy = world.proxies["a"]
    with world.client(direct=True) as client:
        writer = Writer(client)
        writer.create()
        program = load(world, True)
        try:
            program.open(100)  # what the first ones cost is paid once
            program.wait(1)
            before = memory(proxy.child.pid)
            program.open(WATCHES - 100)
            program.wait(1)
            used = (memory(proxy.child.pid) - before) / (WATCHES - 100)
            check(proxy.sanitized() or used <= BYTES_PER_WATCH, "%d bytes for each watch" % used)
            check(len(connections(world)) <= WATCHES // 100, "%d connections" % len(connections(world)))
            equal(proxy.metric("mvproxy_back_streams", server="test-server-a"), WATCHES, "streams")
            for _ in range(20):
                writer.event()
            program.wait(writer.seq)
        finally:
            program.destroy()
    until(lambda: proxy.metric("mvproxy_back_streams", server="test-server-a") == 0, "all watches to be cancelled")
    until(lambda: not connections(world), "the server to know")


def test_many_http1_clients(world):
    """clients with a connection each share those to the server"""
    with world.client(direct=True) as client:
        writer = Writer(client)
        writer.seq = 21
        program = load(world, False)
        try:
            program.open(300)
            program.wait(21)
            check(len(connections(world)) <= 3, "%d connections" % len(connections(world)))
            for _ in range(20):
                writer.event()
            program.wait(writer.seq)
        finally:
            program.destroy()


if __name__ == "__main__":
    fixture.main(globals())
