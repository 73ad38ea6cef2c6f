#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bodies that never end: each holds a connection to the server, and costs its sender a byte now and then.  Whoever holds many leaves
some to everybody else, and has 429 for what goes beyond."""

import contextlib
import resource

import fixture
from fixture import check, ctl_json, equal, until
from rawh2 import RawH2

DESCRIPTORS = 1000
MOST = DESCRIPTORS // 2  # connections to servers that may be in use
SHARE = MOST // 2        # of one client alone
STREAMS = 100            # of one connection
MAPS = "/api/v1/namespaces/default/configmaps"


def setup():
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))  # the daemon inherits it
    return fixture.World().start()


def busy(world):
    return world.proxies["a"].metric("mvproxy_back_connections", server="test-server-a", state="busy") or 0


def test_hoard(world):
    """anonymous uploads over HTTP/2 that do not end: their sender has half of the connections to the server, everybody else is served"""
    with contextlib.ExitStack() as stack:
        hoard = [RawH2(stack.enter_context(world.client(user=None, alpn=("h2",), source="127.0.1.1"))) for _ in range(DESCRIPTORS // STREAMS)]
        streams = [(client, client.request("POST", MAPS, b"{", end=False, fields={"content-length": "1000"}))
                   for client in hoard for _ in range(STREAMS)]
        until(lambda: busy(world) >= SHARE - 5, "the hoard")
        for _ in range(3):
            equal(world.ask("GET", MAPS).status, 200, "a user with a certificate")
            equal(world.ask("GET", MAPS, user=None, headers={"Authorization": "Bearer token-root"}).status, 200, "a user with a token")
            equal(world.ask("GET", "/version", user=None).status, 200, "anybody else")
        client, stream = streams[-1]
        client.until(lambda: stream in client.ended)
        check(b'"code":429' in client.data[stream], "beyond its share", client.data[stream])
        check(busy(world) <= SHARE + 5, "more than a share", busy(world))
    until(lambda: busy(world) <= 5, "their connections to be closed")


def test_tools(world):
    """all places of clients and most connections to servers are taken: who looks how mvproxy is doing still gets an answer"""
    a = world.proxies["a"]
    with contextlib.ExitStack() as stack:
        places = ctl_json(world, "status")["maxConnections"]
        for number in range(places - 5):  # the other mvproxy has a few
            client = RawH2(stack.enter_context(world.client(user=None, alpn=("h2",), source="127.0.2.%d" % (number // 10 + 1))))
            for _ in range(2):
                client.request("POST", MAPS, b"{", end=False, fields={"content-length": "1000"})
        until(lambda: busy(world) >= MOST * 0.9, "the uploads")
        for _ in range(3):
            check(ctl_json(world, "status")["connections"] >= places - 5, "the control socket")
            equal(a.get("/metrics")[0], 200, "the admin listener")
    until(lambda: busy(world) <= 5, "their connections to be closed")


if __name__ == "__main__":
    fixture.main(globals())
