#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The API server's address leads back to mvproxy, behind an address that is not its own: noticed at once, and over by itself."""

import contextlib
import os
import select
import socket
import ssl
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
            threading.Thread(target=self._join, args=(near,), daemon=True).start()

    def _join(self, near):
        try:
            far = socket.create_connection(self.to)
        except OSError:
            near.close()
            return
        self.open |= {near, far}
        threading.Thread(target=self._pass, args=(near, far), daemon=True).start()
        self._pass(far, near)

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


class Terminator(Forwarder):
    """One that ends TLS, as a load balancer or a sidecar does: what is behind it does not show in the handshake."""

    def __init__(self, certs, to):
        self.server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.server.load_cert_chain(certs.crt("node-a"), certs.key("node-a"))
        self.server.set_alpn_protocols(["http/1.1"])
        self.client = ssl.create_default_context(cafile=certs.crt("ca"))
        self.client.check_hostname = False
        super().__init__(to)

    def _join(self, near):
        """One thread for both directions: a connection of TLS is not for two at once."""
        far = None
        with contextlib.suppress(OSError):
            near.settimeout(fixture.PATIENCE)
            near = self.server.wrap_socket(near, server_side=True)
            far = self.client.wrap_socket(socket.create_connection(self.to, fixture.PATIENCE), server_hostname="kubernetes.default.svc")
            to = self.to
            while to == self.to:
                ready = [one for one in (near, far) if one.pending()] or select.select([near, far], [], [], 0.1)[0]
                for one in ready:
                    one.settimeout(0)
                    try:
                        data = one.recv(65536)
                    except ssl.SSLWantReadError:  # a ticket, or half a record: the other side must not wait for the rest
                        continue
                    finally:
                        one.settimeout(fixture.PATIENCE)
                    (far if one is near else near).sendall(data)
                    if not data:
                        raise ConnectionError
        near.close()
        if far is not None:
            far.close()


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


def test_behind_tls(world):
    """something between ends TLS: noticed by the first question of mvproxy's own, no request goes round, and over by itself"""
    proxy = world.proxies["a"]
    proxy.stop()
    between = Terminator(world.certs, proxy.address)
    proxy.options["apiserver"] = "https://" + between.address
    mark = proxy.log_mark()
    proxy.start(ready=False)
    until(lambda: COMES_BACK in proxy.log()[mark:], "noticed")
    before, n = between.accepted, 50
    for _ in range(n):
        equal(world.ask("GET", "/version").status, 508, "version")
    check(between.accepted - before < 10 * n, "%d connections for %d requests" % (between.accepted - before, n))
    check("come back" in proxy.get("/readyz/local-apiserver")[1], proxy.get("/readyz/local-apiserver"))
    equal(proxy.log()[mark:].count(COMES_BACK), 1, "lines")
    between.point_to(world.addresses["a"])
    until(lambda: world.ask("GET", "/version").status == 200, "a server answers there")
    proxy.await_log("Server can be reached again", mark)


def test_forged_token(world):
    """a client that shows a token of its own is a client like any other"""
    for token in ("0" * 32, "", "x" * 31, "f" * 4096):
        equal(world.ask("GET", "/version", headers=[("X-Mvproxy-Loop-Check", token)]).status, 200, token[:40])


def test_round_of_two(world):
    """two mvproxies, each the API server of the other, by way of what ends TLS: noticed by both"""
    ends = {}
    for name, other in (("a", "b"), ("b", "a")):
        ends[name] = Terminator(world.certs, world.proxies[other].address)
    marks = {}
    for name, proxy in world.proxies.items():
        proxy.stop()
        proxy.options.update({"apiserver": "https://" + ends[name].address, "local-failover": False})
        marks[name] = proxy.log_mark()
        proxy.start(ready=False)
    for name, proxy in world.proxies.items():
        until(lambda n=name, p=proxy: COMES_BACK in p.log()[marks[n]:], "noticed by " + name)
        until(lambda n=name: world.ask("GET", "/version", name=n).status == 508, "508 of " + name)
    before = {name: end.accepted for name, end in ends.items()}
    for _ in range(20):
        for name in ends:
            equal(world.ask("GET", "/version", name=name).status, 508, name)
    for name, end in ends.items():
        check(end.accepted - before[name] < 400, name, end.accepted - before[name])
        check(len(os.listdir("/proc/%d/fd" % world.proxies[name].child.pid)) < 200, "descriptors of", name)


if __name__ == "__main__":
    fixture.main(globals())
