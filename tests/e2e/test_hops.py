#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Between mvproxies: token users arrive as themselves, and two that disagree never play ping-pong."""

import re

import fixture
from fixture import check, equal, until

CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
PHANTOM = {"group": "phantom.example.com", "version": "v1", "resource": "ghosts", "kind": "Ghost", "namespaced": False,
           "verbs": ["get", "list"]}
GHOSTS = "/apis/phantom.example.com/v1/ghosts"
V2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
TOKEN = {"Authorization": "Bearer token-bob"}


def setup():
    return fixture.World(options={"discovery-refresh-interval": "1s", "access-log": True}).start()


def peer_knows_hop(world, name="a"):
    return world.proxies[name].log_contains("An mvproxy answers for this server")


def test_token_user(world):
    """a token goes over the front-proxy connection to the peer's mvproxy, and arrives as that token's user"""
    until(lambda: peer_knows_hop(world), "a to know that an mvproxy stands before b")
    mark = world.sim.mark()
    # bob may not list: what matters is who he is.
    until(lambda: world.ask("GET", CLASSES, user=None, headers=TOKEN).status == 403, "the peer's answer")
    record = world.sim.requests("b", CLASSES, since=mark)[-1]
    world.proxies["b"].await_log('uri="%s"' % CLASSES)
    equal(record["user"]["username"], "bob", "user at b")
    equal(record.get("certCN"), None, "b's mvproxy shows no certificate with a token")
    check(not [h for h in record["headers"] if h.lower().startswith("x-remote-")], "X-Remote-*:", record["headers"])
    equal(record["headers"].get("Authorization"), ["Bearer token-bob"], "the token")
    lines = [line for line in world.proxies["b"].log().splitlines() if '"Request"' in line and CLASSES in line]
    check('route="rerouted"' in lines[-1], "b's mvproxy did not believe the mark:", lines[-1])
    direct = world.ask("GET", CLASSES, user=None, headers=TOKEN, name="b")
    own = world.sim.requests("b", CLASSES, since=record["seq"])[-1]
    equal((direct.status, own.get("certCN")), (403, None), "asked at b itself")
    equal(own["remote"].rsplit(":", 1)[0], record["remote"].rsplit(":", 1)[0], "where it came from")


def test_anonymous(world):
    """somebody without a name is nobody at the peer as well, not the proxy"""
    mark = world.sim.mark()
    until(lambda: world.ask("GET", CLASSES, user=None).status in (401, 403), "the peer's answer")
    for record in world.sim.requests("b", CLASSES, since=mark):
        check(record["user"] is None or record["user"]["username"] == "system:anonymous", "user at b:", record["user"])


def arrivals(world, target):
    """How often this request for ghosts has arrived at some mvproxy: each has a target of its own, since log lines come late."""
    return sum(line.count('"Request"') for proxy in world.proxies.values()
               for line in proxy.log().splitlines() if 'uri="%s"' % target in line)


def serve_ghosts(world, *names):
    for name in "ab":
        world.sim.command(name, "apis", {"runtime-config": [], "extra": [PHANTOM] if name in names else []})


def disagree(world):
    """Each proxy believes that the other's server serves the ghosts: it did, and then could not be asked any more."""
    for name, other in ("ab", "ba"):
        serve_ghosts(world, other)
        until(lambda n=name: world.ask("GET", GHOSTS, name=n).status == 200, "%s to reach the other's" % name)
    serve_ghosts(world, "a", "b")
    for name, other in ("ab", "ba"):  # both have them now; the last look at a must not be older than that
        mark = world.sim.mark()
        until(lambda o=other, m=mark: [r for r in world.sim.requests(o, "/apis", since=m) if r["path"] == "/apis" and
                                       r["status"] in (200, 304) and "X-Kubernetes-Peer-Proxied" in r["headers"]],
              "%s to look at the other" % name)
    for name in "ab":
        world.sim.fault("status", server=name, path="/apis", exact=True, status=500,
                        header="X-Kubernetes-Peer-Proxied: true")
    serve_ghosts(world)
    for name in "ab":
        until(lambda n=name: world.ask("GET", GHOSTS, name=n).status == 503, "%s to know that its own has none" % name)


def test_disagreement(world):
    """each believes that the other serves it: one hop, no more, whoever asks"""
    disagree(world)
    try:
        number = 1000
        for user, headers in (("admin", {}), (None, TOKEN), (None, {})):
            for name in "ab":
                number += 1
                target = "%s?resourceVersion=%d" % (GHOSTS, number)
                answer = world.ask("GET", target, user=user, headers=headers, name=name)
                equal(answer.status, 503, "status of %r" % answer)
                until(lambda t=target: arrivals(world, t) >= 2, "both to have logged it")
                equal(arrivals(world, target), 2, "arrivals for user %s, asked at %s" % (user, name))
    finally:
        world.sim.heal()


def logged(world, target):
    return [line for line in world.proxies["a"].log().splitlines() if '"Request"' in line and 'uri="%s"' % target in line]


def test_audit_id(world):
    """every answer has an Audit-ID, ours too: the client's or a new one, and the access log has that of the answer"""
    cases = [("GET", "/api/v1/nodes", "admin", 200), ("GET", CLASSES, "admin", 200), ("GET", "/apis", "admin", 200), ("HEAD", "/apis", "admin", 200),
             ("GET", "/api/v1/nodes", "foreign", 401), ("GET", "/apis", "foreign", 401), ("GET", "/version", None, None)]
    for number, (method, path, user, status) in enumerate(cases):
        seen = set()
        for own in (None, "of-the-client", None):
            target = "%s?n%d=x" % (path, 1000 + 10 * number + len(seen))  # the log has the name alone
            headers = {"Accept": V2} if path == "/apis" else {}
            answer = world.ask(method, target, user=user, headers=dict(headers, **({"Audit-ID": own} if own else {})))
            check(status is None or answer.status == status, method, path, user, answer)
            audit = answer.header("Audit-Id")
            equal(len(answer.all("Audit-Id")), 1, "Audit-Ids of %s %s" % (method, target))
            check(audit == own if own else re.fullmatch("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", audit), method, target, audit)
            line = until(lambda t=target[:-1] + "...": logged(world, t), "the access log")
            check('auditID="%s"' % audit in line[-1], audit, "is not in", line[-1])
            seen.add(audit)
        equal(len(seen), 3, "different ones")


if __name__ == "__main__":
    fixture.main(globals())
