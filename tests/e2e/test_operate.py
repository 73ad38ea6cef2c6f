#!/usr/bin/env python3
"""mvproxyctl changes how a running mvproxy works: peers are drained and used again."""

import json
import os
import subprocess

import fixture
from fixture import check, equal, until

CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"  # only b and c have it


def setup():
    return fixture.World({"a": "v1.33", "b": "v1.34", "c": "v1.34"}, options={"access-log": "all"}).start()


def ctl(world, *arguments):
    """(exit status, standard output, standard error) of mvproxyctl asking a's mvproxy."""
    program = os.path.join(os.path.dirname(fixture.mvproxy_binary()), "mvproxyctl")
    done = subprocess.run([program, "--socket", world.proxies["a"].options["control-socket"], *arguments],
                          capture_output=True, text=True, check=False, timeout=fixture.PATIENCE)
    return done.returncode, done.stdout, done.stderr


def ask(world, *arguments):
    """The result of a command as JSON."""
    status, out, errors = ctl(world, "-o", "json", *arguments)
    equal((status, errors), (0, ""), "mvproxyctl " + " ".join(arguments))
    return json.loads(out)


def servers(world):
    return {each["hostname"]: each for each in ask(world, "status")["servers"]}


def went_to(world, requests=40):
    """Which servers answered so many requests."""
    mark = world.sim.mark()
    for number in range(requests):
        equal(world.ask("GET", CLASSES, None).status, 200, number)
    return {seen["server"] for seen in world.sim.requests(path=CLASSES, since=mark)}


def test_drain(world):
    """a drained peer gets no new requests, what is under way there goes on, and status, metric and log say so"""
    a = world.proxies["a"]
    until(lambda: went_to(world) == {"b", "c"}, "both peers to be used")
    watches = [world.client("a", "admin") for _ in range(8)]
    for watch in watches:
        watch.send("GET %s?watch=1 HTTP/1.1\r\nHost: x\r\n\r\n" % CLASSES)
        equal(watch.head().status, 200, "a watch")
    mark = a.log_mark()
    under_way = servers(world)["test-server-b"]["requestsInFlight"]
    check(under_way > 0, "no watch is at b")
    status, out, _ = ctl(world, "drain", "test-server-b")
    check(status == 0 and "%d are under way" % under_way in out, out)
    until(lambda: went_to(world) == {"c"}, "b to get nothing")
    told = servers(world)
    equal((told["test-server-b"]["drained"], told["test-server-b"]["state"], told["test-server-b"]["requestsInFlight"]), (True, "live, drained", under_way), "b")
    equal(told["test-server-c"]["drained"], False, "c")
    equal(a.metric("mvproxy_peers_drained"), 1, "the metric")
    check(a.log_contains('"Peer drained"', mark), "the log")
    check(ask(world, "explain", "GET", CLASSES)["candidates"][-1]["drained"], "explain")
    for watch in watches:
        watch.close()


def test_last_one(world):
    """where only a drained peer is left it is used rather than nobody, also when both are drained; a reload changes nothing"""
    a = world.proxies["a"]
    a.await_log('"Reloaded"', since=a.reload())
    equal(ctl(world, "drain", "test-server-c")[0], 0, "drain c")
    until(lambda: a.metric("mvproxy_peers_drained") == 2, "both to be drained")
    equal(went_to(world), {"b", "c"}, "who is used when both are drained")
    equal(ctl(world, "undrain", "test-server-c")[0], 0, "undrain c")
    until(lambda: went_to(world) == {"c"}, "c alone to be used")
    world.proxies["c"].stop()
    equal(went_to(world, 10), {"b"}, "who is used when c is gone")
    world.proxies["c"].start()


def test_undrain(world):
    """undrained, it gets requests again; after a restart nothing is drained; an unknown peer is one clear line"""
    a = world.proxies["a"]
    equal(ctl(world, "undrain", "test-server-b"), (0, "Not drained: test-server-b gets requests again.\n", ""), "undrain")
    until(lambda: went_to(world) == {"b", "c"}, "both to be used")
    equal(ctl(world, "drain", "nobody"), (1, "", 'mvproxyctl: no peer "nobody": it is not the host name or server ID of one\n'), "an unknown peer")
    equal(ctl(world, "drain")[0], 3, "without a peer")
    ctl(world, "drain", "test-server-b")
    a.stop()
    a.start()
    equal(a.metric("mvproxy_peers_drained"), 0, "after a restart")


if __name__ == "__main__":
    fixture.main(globals())
