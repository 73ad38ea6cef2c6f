#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A peer's mvproxy goes, and its bare API server stands at the same address: one that would take the front proxy's certificate for a user. It never
gets to see that certificate with a request in which nobody is asserted."""

import os
import tempfile
import threading

import fixture
from fixture import check, equal, until

CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"  # served by b only
CALLERS = [  # (certificate, fields, who that is at b)
    (None, {"Authorization": "Bearer token-bob"}, "bob"),
    (None, {"Authorization": "Bearer token-root"}, "root"),
    (None, {"Authorization": "Bearer wrong"}, None),
    (None, {}, "system:anonymous"),
    ("admin", {}, "kubernetes-admin"),
    ("alice", {"Authorization": "Bearer token-root"}, "alice"),
]
NEW = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "x"}, "spec": {}}


def setup():
    scratch = tempfile.mkdtemp(prefix="mvproxy-e2e-")
    certs = fixture.Certs(scratch)
    bundle = os.path.join(scratch, "both-cas.crt")
    with open(bundle, "w", encoding="ascii") as out:
        for name in ("ca", "front-proxy-ca"):
            with open(certs.crt(name), encoding="ascii") as one:
                out.write(one.read())
    return fixture.World(options={"discovery-refresh-interval": "1s", "access-log": True}, servers={"b": {"client-ca-file": bundle}}).start()


def everybody_asks(world, patiently=True):
    for user, fields, _ in CALLERS:
        for method, path, body in (("GET", CLASSES, None), ("POST", CLASSES, NEW), ("GET", CLASSES + "?watch=true", None)):
            def said(user=user, method=method, path=path, fields=fields, body=body):
                with world.client("a", user) as client:
                    client.request(method, path, fields, body)
                    return client.final_head().status in (200, 201, 401, 403, 409)
            if patiently:  # until it is known that b is not only starting, a denial of its is 503
                until(said, "an answer to %s %s of %s %s" % (method, path, user, fields))
            else:
                said()


def seen(world, since):
    return [r for r in world.sim.requests("b", CLASSES, since=since)]


def examine(world, since, may_be_certificate=True):
    """Whoever came to b: nobody was the certificate."""
    records = seen(world, since)
    for record in records:
        who = (record.get("user") or {}).get("username")
        check(who != "front-proxy-client", "the certificate was taken for the user:", record)
        if record.get("certCN") is not None:
            check(may_be_certificate and record["headers"].get("X-Remote-User"), "a certificate without a user:", record)
        check(who in [c[2] for c in CALLERS], "who is", who, "?", record)
    return records


def kinds(records):
    return {((r.get("user") or {}).get("username"), r["method"], r.get("certCN")) for r in records}


def goes_bare(world, gently, **how):
    """The API server takes the address of its mvproxy."""
    proxy = world.proxies["b"]
    if gently:
        proxy.stop()
    else:
        proxy.kill()
    world.sim.kill_server("b")
    if how:  # a server takes longer to start than nobody would notice
        until(lambda: world.proxies["a"].metric("mvproxy_server_up", server="test-server-b") == 0, "b to be missed")
    world.sim.start_server("b", listen="127.0.0.1:%d" % world.ports["b"], **how)


def comes_back(world):
    world.sim.kill_server("b")
    world.sim.start_server("b", listen="%s:%d" % world.addresses["b"], **{"starts-unready": False})
    world.proxies["b"].start()
    world.settle()


def test_behind_mvproxy(world):
    """with its mvproxy: each is who he is, and the loop mark is believed with a token"""
    mark = world.sim.mark()
    everybody_asks(world)
    got = kinds(examine(world, mark))
    for who, method, cn in (("bob", "GET", None), ("root", "POST", None), ("kubernetes-admin", "GET", "front-proxy-client")):
        check((who, method, cn) in got, who, "was not at b:", got)
    since = world.proxies["b"].log_mark()
    for user, fields, _ in CALLERS:
        world.ask("GET", CLASSES + "?limit=7", user=user, headers=fields)
    until(lambda: len(lines_of(world, since)) == len(CALLERS), "b's mvproxy to have logged them")
    for line in lines_of(world, since):
        check('route="rerouted"' in line, "the mark was not believed:", line)


def lines_of(world, since):
    return [line for line in world.proxies["b"].log()[since:].splitlines() if "limit=7" in line]


def replaced(world, gently):
    stop = threading.Event()
    troubles = []

    def keep_asking():
        try:
            while not stop.is_set():
                everybody_asks(world, patiently=False)
        except Exception as error:  # pylint: disable=broad-except
            troubles.append(error)

    everybody_asks(world)  # what is pooled, and what is remembered, is of the mvproxy
    mark = world.sim.mark()
    crowd = [threading.Thread(target=keep_asking) for _ in range(3)]
    for one in crowd:
        one.start()
    try:
        goes_bare(world, gently)
        until(lambda: world.ask("GET", CLASSES, user=None, headers=CALLERS[1][1]).status == 200, "b to answer without its mvproxy")
    finally:
        stop.set()
        for one in crowd:
            one.join()
    equal(troubles, [], "troubles")
    everybody_asks(world)
    got = kinds(examine(world, mark))
    for who in ("bob", "root", "system:anonymous"):
        check((who, "GET", None) in got, who, "was not at b without certificate:", got)
    check(("kubernetes-admin", "GET", "front-proxy-client") in got, "the admin was not at b:", got)
    comes_back(world)


def test_replaced(world):
    """its mvproxy is stopped, then the server stands there: every token is itself, whoever has none is nobody"""
    replaced(world, True)


def test_replaced_at_once(world):
    """its mvproxy is killed"""
    replaced(world, False)


def test_discovery_fails(world):
    """the same while discovery fails, so that nobody learns that anything has changed"""
    fault = world.sim.fault("status", server="b", path="/api", status=500)
    try:
        mark = world.sim.mark()
        goes_bare(world, False)
        for _ in range(3):
            everybody_asks(world, patiently=False)
        check(examine(world, mark), "nobody came to b")
    finally:
        world.sim.heal(fault)
    comes_back(world)


def test_early_denials(world):
    """a bare one that has only just started denies what it will allow: nobody is told so, and what it denies later is denied"""
    bob = CALLERS[0][1]

    def ask(path=CLASSES, headers=None):
        answer = world.ask("GET", path, user=None, headers=headers or bob)
        return answer.status, bool(answer.all("Retry-After"))

    world.sim.ask("rules", "PUT", [{"users": ["bob"], "verbs": ["list"], "apiGroups": ["resource.k8s.io"], "resources": ["deviceclasses"]}])
    # What the test before has done to the peer may make its denials doubtful for a moment more.
    until(lambda: (ask(), ask(CLASSES + "/x"), ask(headers=CALLERS[2][1])[0]) == ((200, False), (403, False), 401), "its denials to count")
    goes_bare(world, True, **{"starts-unready": True})
    until(lambda: world.ask("GET", CLASSES).status == 200, "b to answer who may do everything")
    for _ in range(10):
        equal((ask(), ask(CLASSES + "/x"), world.ask("GET", CLASSES).status), ((503, True), (503, True), 200), "nobody's rights are known")
    world.sim.command("b", "ready")
    until(lambda: ask() == (200, False), "bob to be allowed")
    until(lambda: ask(CLASSES + "/x") == (403, False), "what is denied to be denied")
    equal(ask(headers=CALLERS[2][1])[0], 401, "nobody")
    world.sim.ask("rules", "PUT", [])
    comes_back(world)


def test_nothing_withheld(world):
    """the last line had nothing to do: whatever was sent was sent over the right connection"""
    for name in "ab":
        equal(world.proxies[name].metric("mvproxy_back_requests_withheld_total") or 0, 0, "withheld at " + name)


if __name__ == "__main__":
    fixture.main(globals())
