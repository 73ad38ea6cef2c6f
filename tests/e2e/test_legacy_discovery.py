#!/usr/bin/env python3
"""legacy-discovery: /apis/GROUP and /apis/GROUP/VERSION of what only a peer serves, with the option and without it."""

import fixture
from fixture import check, equal, until

# 1.34 has it and 1.33 does not; its APIService is in the store that both share.
GROUP = "/apis/resource.k8s.io"
VERSION = GROUP + "/v1"
PLAIN = "404 page not found\n"


def healed(world, wanted):
    """Switch it at a by a reload; both proxies know what there is."""
    proxy = world.proxies["a"]
    mark = proxy.reload({"legacy-discovery": wanted})
    proxy.await_log("Reloaded", mark)
    world.settle()


def same(one, two, what):
    equal((one.status, one.body), (two.status, two.body), what)


def test_by_default_not(world):
    """without it the local server's own answer stands, a plain 404"""
    for path in (GROUP, VERSION):
        answer = world.ask("GET", path)
        same(answer, world.ask("GET", path, direct=True), path)
        equal((answer.status, answer.body.decode()), (404, PLAIN), path)
        same(world.ask("GET", path, name="b"), world.ask("GET", path, name="b", direct=True), "at b")
    equal(world.ask("GET", VERSION + "/deviceclasses").status, 200, "but the resource is a peer's")


def test_healed(world):
    """with it the peer that has them answers"""
    healed(world, True)
    for path in (GROUP, VERSION):
        mark = world.sim.mark()
        answer = world.ask("GET", path)
        same(answer, world.ask("GET", path, name="b", direct=True), path)
        equal(answer.status, 200, path)
        equal(world.sim.requests(path=path, since=mark)[0]["server"], "b", "who answered")
    equal(world.ask("GET", GROUP).json()["kind"], "APIGroup", "the group")
    check("deviceclasses" in [r["name"] for r in world.ask("GET", VERSION).json()["resources"]], "its resources")
    head = world.ask("HEAD", VERSION)
    equal((head.status, head.body), (200, b""), "HEAD")


def test_rest_is_local(world):
    """what the local server lists, what nobody has, and all other methods are its business as before"""
    for method, path in (("GET", "/apis/apps"), ("GET", "/apis/apps/v1"), ("GET", "/apis"), ("GET", "/api"), ("GET", "/api/v1"),
                         ("GET", "/apis/nobody.example.com"), ("GET", "/apis/nobody.example.com/v1"),
                         ("GET", "/apis/apps/v7"), ("DELETE", VERSION)):
        mark = world.sim.mark()
        same(world.ask(method, path), world.ask(method, path, direct=True), "%s %s" % (method, path))
        equal({r["server"] for r in world.sim.requests(path=path, since=mark)}, {"a"}, "who answered %s" % path)


def test_authorization(world):
    """the peer judges who asks, as it does its own clients"""
    for user in ("admin", "alice", None):
        same(world.ask("GET", VERSION, user=user), world.ask("GET", VERSION, name="b", user=user, direct=True),
             "for %s" % user)


def test_peer_away(world):
    """the peer is away: 503 with Retry-After, not 404; and again when it is back"""
    world.sim.kill_server("b")
    answer = world.ask("GET", VERSION)
    equal((answer.status, answer.json()["kind"]), (503, "Status"), "while it is away")
    check(answer.header("Retry-After"), "Retry-After")
    world.sim.start_server("b")
    until(lambda: world.ask("GET", VERSION).status == 200, "the peer to be back")


def test_switched_off(world):
    """a reload without it: the local 404 again"""
    healed(world, False)
    equal(world.ask("GET", VERSION).body.decode(), PLAIN, "off")


if __name__ == "__main__":
    fixture.main(globals())
