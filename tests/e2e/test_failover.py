#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Three servers behind mvproxy for what the local one lacks: some are down, some full, some cut requests off."""

import json
import time

import fixture
from fixture import check, equal, until

CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
CLASS = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "spec": {}}
PEERS = ("b", "c", "d")


def setup():
    profiles = dict({"a": "v1.33"}, **{name: "v1.34" for name in PEERS})
    world = fixture.World(profiles=profiles, proxies=["a"])
    proxy = world.proxies["a"]
    # Straight to the servers: what they do is not softened by an mvproxy of theirs.
    proxy.options["peers"] = ["test-server-%s=127.0.0.1:%d" % (name, world.addresses[name][1]) for name in PEERS]
    return world.start()


def refused(answer, again):
    equal((answer.status, answer.json()["kind"]), (503, "Status"), "answer")
    equal(bool(answer.all("Retry-After")), again, "Retry-After of %r" % answer)


def healthy(world):
    world.sim.heal()
    for _ in range(3):
        until(lambda: world.ask("GET", CLASSES).status == 200, "the peers")


def test_first_is_down(world):
    """KEP-4020's own test: the first eligible peer is down, the request succeeds through the second, and the third"""
    for n, name in enumerate(PEERS[:2], 1):
        world.sim.kill_server(name)
        for i in range(12):
            equal(world.ask("GET", CLASSES).status, 200, "GET, %d down" % n)
            made = world.ask("POST", CLASSES, dict(CLASS, metadata={"name": "made-%d-%d" % (n, i)}))
            equal(made.status, 201, "POST, %d down" % n)
    world.sim.kill_server("d")
    refused(world.ask("GET", CLASSES), True)
    refused(world.ask("POST", CLASSES, dict(CLASS, metadata={"name": "never"})), True)

    def told():  # a peer is left in peace for a fifth of a second only, at first
        refused(world.ask("GET", CLASSES), True)
        return "Peers ejected: test-server-" in world.proxies["a"].get("/statusz")[1]
    until(told, "/statusz to name them")
    check(world.proxies["a"].metric("mvproxy_back_ejections_total") >= 3, "ejections")
    check(world.proxies["a"].metric("mvproxy_retries_total", reason="connect") > 0, "retries by reason")
    for name in PEERS:
        world.sim.start_server(name)
    healthy(world)


def test_front_proxy_not_believed(world):
    """401 of a peer that does not believe our front proxy is no user's: the next one is asked, and where there is none it is 503"""
    for distrusting in (PEERS[:1], PEERS):
        for name in distrusting:
            world.sim.fault("status", name, path=CLASSES, status=401)
        for i in range(8):
            got, made = world.ask("GET", CLASSES), world.ask("POST", CLASSES, dict(CLASS, metadata={"name": "believed-%d" % i}))
            if len(distrusting) == 1:
                equal((got.status, made.status), (200, 201), "others believe it")
            else:
                refused(got, True)
                refused(made, True)
        token = world.ask("GET", CLASSES, None, "a", None, {"Authorization": "Bearer token-root"})
        equal(token.status, 200 if len(distrusting) == 1 else 401, "a token speaks for itself")
        healthy(world)


def test_unauthorized_by_webhook(world):
    """401 of an admission webhook or policy is the user's, whoever asked the peer: relayed as it is, and asked once"""
    said = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Unauthorized", "code": 401,
            "message": 'admission webhook "v.example.org" denied the request: Unauthorized'}
    for more in ({}, {"message": said["message"] + " " + "x" * 10000}):
        body = json.dumps(dict(said, **more))
        faults = [world.sim.fault("status", name, "POST", CLASSES, status=401, body=body, contentType="application/json") for name in PEERS]
        made = world.ask("POST", CLASSES, dict(CLASS, metadata={"name": "denied"}))
        equal((made.status, made.body.decode(), made.all("Retry-After")), (401, body, []), "what the webhook says")
        equal(sum(world.sim.hits(fault) for fault in faults), 1, "asked")
        world.sim.heal()


def test_every_method(world):
    """sent and not answered: who may repeat it, and whether the client is told to"""
    rows = (("GET", "", None, True), ("HEAD", "", None, True), ("PUT", "/x", CLASS, False), ("DELETE", "/x", None, False),
            ("POST", "", CLASS, False), ("PATCH", "/x", {}, False))
    for action in ("reset", "garbage", "half-head"):
        for method, name, body, again in rows:
            fault = world.sim.fault(action, method=method, path=CLASSES)
            answer = world.ask(method, CLASSES + name, body, headers={"Content-Type": "application/merge-patch+json"} if method == "PATCH" else None)
            if method == "HEAD":
                equal((answer.status, bool(answer.all("Retry-After"))), (503, True), "HEAD")
            else:
                refused(answer, again)
            hits = world.sim.hits(fault)
            # reset: three times at each of three servers; no head: once at each; unsafe methods once in all
            if method in ("GET", "HEAD"):
                check(hits >= 3, method, action, hits)
            else:
                equal(hits, 1, "%s %s" % (method, action))
            world.sim.heal()


def limit(world, most):
    proxy = world.proxies["a"]
    proxy.await_log("Reloaded", proxy.reload({"max-requests-inflight-per-peer": most}))


def test_next_when_full(world):
    """max-requests-inflight-per-peer: the next one is asked, and when all are full the client is told to come back"""
    limit(world, 1)
    fault = world.sim.fault("hang", method="GET", path=CLASSES)
    waiting = []
    mark = world.sim.mark()

    def one_at_each():
        if len({r["server"] for r in world.sim.requests(path=CLASSES, since=mark) if not r["done"]}) == len(PEERS):
            return True
        # A peer that is just being asked for its discovery is full, too: then this one is refused, and another follows.
        waiting.append(world.client())
        waiting[-1].request("GET", CLASSES)
        return False
    until(one_at_each, "one request at each peer", pause=0.2)
    answer = world.ask("POST", CLASSES, dict(CLASS, metadata={"name": "too-many"}))
    refused(answer, True)
    check("too many requests in flight" in answer.json()["message"], "message")
    world.sim.heal(fault)
    for client in waiting:
        client.abort()
    limit(world, 0)
    healthy(world)


def test_budget(world):
    """retries do not multiply an outage: beyond the budget a failure is answered at once"""
    proxy = world.proxies["a"]
    fault = world.sim.fault("reset", method="GET", path=CLASSES)
    start, asked = time.monotonic(), 0

    def used_up():
        return (proxy.metric("mvproxy_back_retries_refused_total") or 0) > 0
    with world.client() as client:
        while asked < 5000 and not used_up():
            for _ in range(25):
                equal(client.ask("GET", CLASSES).status, 503, "status")
            asked += 25
    check(used_up(), asked, "requests, and none was refused another try")
    # Of each of the three peers, in ten seconds: a hundred, or a fifth of the requests.
    most = asked + 3 * (100 * (int((time.monotonic() - start) / 10) + 2) + asked // 5)
    hits = world.sim.hits(fault)
    check(hits <= most, asked, "requests arrived", hits, "times, and not", most)
    world.sim.heal()
    until(lambda: world.ask("GET", CLASSES).status == 200, "recovery")


if __name__ == "__main__":
    fixture.main(globals())
