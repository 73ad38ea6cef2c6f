#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The API server's address leads back to mvproxy, behind an address that is not its own: noticed at once, and over by itself."""

import contextlib
import socket
import threading

import fixture
from fixture import check, equal, until

MAPS = "/api/v1/namespaces/default/configmaps"
COMES_BACK = "Requests to the API server come back"


class Forwarder:
    """A virtual address: passes connections on to wherever it points now, byte by byte."""

    def __init__(self, to):
        self.to, self.accepted = to, 0
        self.listener = socket.create_server(("127.0.0.1", fixture.free_port()), backlog=64)
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.open = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            near, _ = self.listener.accept()
            self.accepted += 1
            try:
                far = socket.create_connection(self.to)
            except OSError:
                near.close()
                continue
            self.open |= {near, far}
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._pass, args=(source, sink), daemon=True).start()

    def _pass(self, source, sink):
        with contextlib.suppress(OSError):
            while True:
                data = source.recv(65536)
                if not data:
                    break
                sink.sendall(data)
        for one in (source, sink):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def point_to(self, to):
        """From now on, and whoever is connected has to connect anew."""
        self.to = to
        for one in list(self.open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        self.open.clear()


def setup():
    world = fixture.World()
    world.forwarder = Forwarder(world.addresses["a"])
    world.proxies["a"].options["apiserver"] = "https://" + world.forwarder.address
    return world.start()


def test_refused(world):
    """a request that would come back is answered with 508 and a Status, mvproxy is unready and says why, once"""
    proxy, mark = world.proxies["a"], world.proxies["a"].log_mark()
    world.forwarder.point_to(proxy.address)
    for path, user in (("/version", "admin"), ("/healthz", None)):
        answer = until(lambda p=path, u=user: (lambda a: a.status == 508 and a)(world.ask("GET", p, user=u)), "508 for " + path)
        told = answer.json()
        equal((told["kind"], told["code"], answer.header("Retry-After")), ("Status", 508, None), path)
        check("leads back to a proxy" in told["message"], told)
    until(lambda: not proxy.ready(), "unready")
    check("[-]local-apiserver failed: requests to the API server come back" in proxy.get("/readyz?verbose")[1] or
          "come back" in proxy.log()[mark:], proxy.get("/readyz?verbose"))
    equal(proxy.log()[mark:].count(COMES_BACK), 1, "lines")


def test_resources(world):
    """what a peer serves as well goes on being served, by the peer; to a peer's request it is a 503"""
    until(lambda: world.ask("GET", MAPS).status == 200, "the peer to take over")
    equal(world.ask("GET", MAPS, name="b").status, 200, "the peer itself")


def test_no_storm(world):
    """each request costs one connection at most, not thousands"""
    before, n = world.forwarder.accepted, 50
    for _ in range(n):
        equal(world.ask("GET", "/version").status, 508, "version")
    tried = world.forwarder.accepted - before
    check(tried < 10 * n, "%d connections for %d requests" % (tried, n))


def test_over(world):
    """a server answers there again: ready by itself, and requests go there"""
    proxy = world.proxies["a"]
    mark = proxy.log_mark()
    world.forwarder.point_to(world.addresses["a"])
    proxy.await_ready()
    equal(world.ask("GET", "/version").status, 200, "version")
    equal(world.ask("GET", MAPS).status, 200, "resources")
    proxy.await_log("Server can be reached again", mark)


def test_from_the_start(world):
    """it is so when mvproxy starts, without peers to help: 508 or 503 and never ready, and well once it is not so"""
    proxy = world.proxies["a"]
    proxy.stop()
    world.forwarder.point_to(proxy.address)
    proxy.options["local-failover"] = False
    proxy.start(ready=False)
    proxy.await_log(COMES_BACK)
    until(lambda: world.ask("GET", "/version").status == 508, "508")
    check(world.ask("GET", MAPS).status in (503, 508), "resources")
    check(not proxy.ready(), "ready")
    world.forwarder.point_to(world.addresses["a"])
    proxy.await_ready()
    equal(world.ask("GET", MAPS).status, 200, "resources")


if __name__ == "__main__":
    fixture.main(globals())
