#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The access log: which requests get a line, whom it names, and how it is joined with the lines of others."""

import re

import fixture
from fixture import check, equal, until

CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"  # only the peer has it
PODS = "/api/v1/namespaces/default/pods"


def setup():
    return fixture.World({"a": "v1.33", "b": "v1.34"}, options={"access-log": "all"}).start()


def lines(proxy, uri, since=0):
    """The lines about this target, each as a dictionary."""
    found = [line for line in proxy.log()[since:].splitlines() if '"Request"' in line and 'uri="%s"' % uri in line]
    return [dict(re.findall(r'(\w+)="?((?:[^"\\]|\\.)*?)"?(?= |$)', line)) for line in found]


def ask(world, uri, wanted=1, **more):
    """Makes a request: the answer, a's lines about it (as many as are wanted), and where b's log begins then."""
    mark = {name: proxy.log_mark() for name, proxy in world.proxies.items()}
    answer = world.ask("GET", uri, None, **more)
    # Behind it on the way of the log: what is not there now never comes.
    equal(world.ask("GET", "/healthz?marker=x", None).status, 200, "the marker")
    if wanted:
        until(lambda: len(lines(world.proxies["a"], uri, mark["a"])) >= wanted, "the line")
    else:
        equal(world.proxies["a"].get("/livez")[0], 200, "a turn of the loop later")
    return answer, lines(world.proxies["a"], uri, mark["a"]), mark["b"]


def at_peer(world, uri, since):
    """b's line about a request that a has sent on."""
    return until(lambda: lines(world.proxies["b"], uri, since), "b's line")[0]


def reload(world, **options):
    for proxy in world.proxies.values():
        mark = proxy.reload({name.replace("_", "-"): value for name, value in options.items()})
        proxy.await_log('"Reloaded"', since=mark)


def test_peer(world):
    """the peer is its host name, both proxies' lines and the answer have one Audit-ID, and nobody is named"""
    answer, (here,), since = ask(world, CLASSES)
    there = at_peer(world, CLASSES, since)
    equal((here["peer"], here["route"], here["code"], here["end"]), ("test-server-b", "peer", "200", "complete"), "a's line")
    equal((there["peer"], there["identity"]), ("", "front-proxy"), "b's line")
    equal({here["auditID"], there["auditID"]}, {answer.header("Audit-Id")}, "one Audit-ID")
    check("user" not in here and "user" not in there, "the user is named unasked")


def test_tunnel(world):
    """the head of a 101 has no Audit-ID: the request has gone with one of ours, or with the client's, and that is in the line"""
    equal(world.ask("POST", PODS, {"metadata": {"name": "p"}}, "a", direct=True).status, 201, "a pod")
    for sent in ("", "of-the-client"):
        mark, since = world.proxies["a"].log_mark(), world.sim.mark()
        with world.client() as client:
            client.send("POST %s/p/exec?command=sh HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n%sContent-Length: 0\r\n\r\n"
                        % (PODS, "Audit-ID: %s\r\n" % sent if sent else ""))
            answer = client.final_head()
        equal((answer.status, answer.header("Audit-Id")), (101, None), "the answer")
        line = until(lambda m=mark: lines(world.proxies["a"], PODS + "/p/exec?command=...", m), "the line")[0]
        [seen] = world.sim.requests("a", PODS + "/p/exec", since)
        equal(line["auditID"], seen["headers"]["Audit-Id"][0], "in the line and at the server")
        check(line["auditID"] == sent if sent else len(line["auditID"]) == 36, line)


def test_user(world):
    """the user is named when it is wanted: of certificates and front proxies, while of a token nothing is known"""
    reload(world, access_log_user=True)
    _, (here,), since = ask(world, CLASSES)
    equal((here["user"], at_peer(world, CLASSES, since)["user"]), ("kubernetes-admin", "kubernetes-admin"), "by certificate, here and at the peer")
    _, (here,), _ = ask(world, PODS, user=None, headers={"Authorization": "Bearer token-root"})
    equal((here["user"], here["identity"]), ("", "pass"), "by token")
    reload(world, access_log_user=False)
    check("user" not in ask(world, CLASSES)[1][0], "the user is still named")


def test_filters(world):
    """rerouted, errors and slow select what they say, alone and together; the option off writes nothing"""
    for filters, selected in ((["rerouted"], {CLASSES}), (["errors"], {PODS + "/broken"}), (["slow=300ms"], {PODS + "/slow"}),
                              (["errors", "rerouted", "slow=300ms"], {CLASSES, PODS + "/broken", PODS + "/slow"}), ("false", set())):
        reload(world, access_log=filters)
        world.sim.fault("status", server="a", path=PODS + "/broken", status=500)
        world.sim.fault("delay-head", server="a", path=PODS + "/slow", ms=400)
        for uri in (PODS, CLASSES, PODS + "/broken", PODS + "/slow"):
            _, told, _ = ask(world, uri, int(uri in selected))
            equal(len(told), int(uri in selected), "lines of %s with %s" % (uri, filters))
        world.sim.heal()
    reload(world, access_log="all")


def test_sample(world):
    """of all, one in N is written, the same ones by both proxies; of errors each"""
    reload(world, access_log_sample=8)
    mark = {name: proxy.log_mark() for name, proxy in world.proxies.items()}
    for number in range(64):
        equal(world.ask("GET", CLASSES, None, headers={"Audit-ID": "sample-%d" % number}).status, 200, number)
        world.ask("GET", "/apis/nobody.example/v1/things", None, headers={"Audit-ID": "sample-%d" % number})
    world.sim.fault("status", server="a", path=PODS, status=500)
    for number in range(16):
        equal(world.ask("GET", PODS, None, headers={"Audit-ID": "error-%d" % number}).status, 500, number)
    world.sim.heal()
    until(lambda: len(lines(world.proxies["a"], PODS, mark["a"])) == 16, "the line of each error")

    def drawn(name):
        return {line["auditID"] for line in lines(world.proxies[name], CLASSES, mark[name])}
    check(1 <= len(drawn("a")) <= 32, "drawn of 64:", drawn("a"))
    until(lambda: drawn("b") >= drawn("a"), "b's lines about the same")
    equal(drawn("b"), drawn("a"), "those of b")
    reload(world, access_log_sample=1)


def test_own_answer(world):
    """what was sent is told of a server's answer, and of one that is mvproxy's own"""
    answer, (here,), _ = ask(world, CLASSES)
    equal((here["code"], int(here["responseBytes"])), ("200", len(answer.body)), "the peer's")
    with fixture.killed(world, "b"):
        answer, (here,), _ = ask(world, CLASSES)
        check(len(answer.body) > 0, "a Status", answer)
        equal((here["code"], int(here["responseBytes"])), ("503", len(answer.body)), "mvproxy's own")
        mark = world.proxies["a"].log_mark()
        equal(world.ask("HEAD", CLASSES, None).status, 503, "HEAD")
        equal(until(lambda: lines(world.proxies["a"], CLASSES, mark), "the line of HEAD")[0]["responseBytes"], "0", "of HEAD")


def test_looks_of_peers(world):
    """what a peer's mvproxy asks for itself, while the server is away, is in no line: the peer would fill the log with it"""
    a, b = world.proxies["a"], world.proxies["b"]
    with fixture.killed(world, "a"):
        mark = a.log_mark()
        for _ in range(3):
            before = b.metric("mvproxy_discovery_refreshes_total", role="peer", result="failed") or 0
            fixture.ctl(world, "refresh", path=b.options["control-socket"])
            until(lambda n=before: (b.metric("mvproxy_discovery_refreshes_total", role="peer", result="failed") or 0) > n, "b to be refused")
        world.ask("GET", "/healthz/looks", None)
        until(lambda: lines(a, "/healthz/looks", mark), "the marker")
        equal([line for uri in ("/api", "/apis", "/openapi/v3", "/version") for line in lines(a, uri, mark) if line["userAgent"] == "mvproxy"], [], "lines")


if __name__ == "__main__":
    fixture.main(globals())
