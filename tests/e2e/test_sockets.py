#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Several listening sockets of a service manager (more than one ListenStream= in mvproxy.socket): each of them is served."""

import socket

import fixture
from activated import MAPS, Activated, Clients, hand_over, inherit, listening
from fixture import check, equal
from rawhttp import Raw


def _addresses():
    """What is listened on: two ports of IPv4, the first of them of IPv6 as well, and one for both families, as mvproxy.socket has it."""
    first, second, both = (fixture.free_port() for _ in range(3))
    return [("127.0.0.1", first), ("127.0.0.1", second), ("::1", first), ("::", both)]


def setup():
    world = fixture.World(options={"shutdown-grace-period": "5s"}, profiles={"a": "v1.34"})
    world.generation = 1
    try:
        world.sockets = [listening(address, both=address[0] == "::") for address in _addresses()]
    except OSError as error:
        raise fixture.Skip("no IPv6 here: %s" % error) from error
    # Where clients reach them: the last one over either family.
    at = [s.getsockname()[:2] for s in world.sockets]
    world.reached = [*at[:-1], ("127.0.0.1", at[-1][1]), ("::1", at[-1][1])]
    plain = world.proxies["a"]
    world.proxies["a"] = Activated("mvproxy-a1", world.scratch, plain.options, *world.sockets)
    world.start_proxies()
    return world


def test_each_answers(world):
    """two ports of IPv4, one of IPv6, one of both: HTTPS at each, HTTP/2 is offered, and each is in the log"""
    pair = (world.certs.crt("admin"), world.certs.key("admin"))
    for address in world.reached:
        with Raw(address, world.certs.crt("ca"), pair) as client:
            equal(client.ask("GET", MAPS).status, 200, address)
        with Raw(address, world.certs.crt("ca"), pair, alpn=("h2",)) as client:
            equal(client.sock.selected_alpn_protocol(), "h2", address)
    proxy = world.proxies["a"]
    for one in world.sockets:
        host, port = one.getsockname()[:2]
        check(proxy.log_contains('"Listening" address="%s" port=%d for="clients" socket="inherited"' % (host, port)), host, port, "is not in the log")
    try:
        socket.create_connection(proxy.address).close()
        check(False, "listens on bind-address besides")
    except ConnectionRefusedError:
        pass


def test_taken_over(world):
    """the next process takes all of them over: at none is a connection refused or reset"""
    clients = Clients(world, world.reached)
    clients.await_answers(50)
    hand_over(world)
    clients.await_answers(50)
    clients.stop()
    equal(clients.troubles, [], "troubles of %s connections" % clients.answers)


def test_what_is_none(world):
    """a socket among them that clients cannot connect to, and more than are possible: refused at the start, and it is said which"""
    config = world.proxies["a"].config_path
    argv = [fixture.mvproxy_binary(), "--config", config, "--admin-bind-address=127.0.0.1:%d" % fixture.free_port()]
    good = listening(("127.0.0.1", fixture.free_port()))
    with good, socket.socket(type=socket.SOCK_DGRAM) as datagrams, socket.socket() as silent, socket.socket(socket.AF_UNIX) as local:
        datagrams.bind(("127.0.0.1", 0))
        silent.bind(("127.0.0.1", 0))
        local.bind("\0mvproxy-test-%d" % good.getsockname()[1])
        local.listen()
        for wrong, said in ((datagrams, "not a listening socket"), (silent, "not a listening socket"), (local, "not a TCP socket")):
            status, errors = inherit([good, wrong], argv)
            check(status > 0 and "inherited descriptor 4: " + said in errors, said, status, errors)
        status, errors = inherit([good] * 17, argv)
        check(status > 0 and "17 listening sockets, of 1 to 16 that are possible" in errors, status, errors)


if __name__ == "__main__":
    fixture.main(globals())
