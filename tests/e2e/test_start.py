#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Starting before the servers, and coming to life by itself."""

import fixture
from fixture import check, equal, until

MAPS = "/api/v1/namespaces/default/configmaps"
CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"


def setup():
    world = fixture.World()
    for name in "ab":
        world.sim.kill_server(name)
    for proxy in world.proxies.values():
        proxy.start(ready=False)
    for proxy in world.proxies.values():
        until(lambda p=proxy: p.get("/livez")[0] == 200, "the admin listener of " + proxy.name)
    return world


def test_server_not_there(world):
    """the local server is not there: alive, not ready, 503 Status with Retry-After for everything"""
    for name, proxy in world.proxies.items():
        equal(proxy.get("/livez")[0], 200, "livez")
        status, text = proxy.get("/readyz")
        check(status == 500 and "readyz check failed" in text, status, text)
        for path in (MAPS, CLASSES, "/apis", "/api", "/version", "/readyz", "/apis/nobody.example.com/v1/things"):
            answer = world.ask("GET", path, name=name)
            equal((answer.status, answer.json()["kind"], answer.json()["reason"]), (503, "Status", "ServiceUnavailable"), path)
            check(int(answer.header("Retry-After")) >= 1, "Retry-After of", path)
        check(proxy.running(), "ended")


def test_verbose(world):
    """/readyz?verbose says which check fails, in Kubernetes' form"""
    status, text = world.proxies["a"].get("/readyz?verbose")
    equal(status, 500, "status")
    lines = text.splitlines()
    check(any(line.startswith("[-]") for line in lines) and any(line.startswith("[+]") for line in lines), text)
    check(lines[-1] == "readyz check failed", text)


def test_comes_to_life(world):
    """the server comes: ready by itself"""
    for name in "ab":
        world.sim.start_server(name)
    for proxy in world.proxies.values():
        proxy.await_ready()
        equal(proxy.get("/readyz"), (200, "ok"), "readyz")
        text = proxy.get("/readyz?verbose")[1]
        check("[-]" not in text and text.rstrip().endswith("readyz check passed"), text)
    world.settle()
    equal(world.ask("GET", MAPS).status, 200, "local")
    equal(world.ask("GET", CLASSES).status, 200, "peer's")


def test_excluded_checks(world):
    """a check can be left out, and asked alone"""
    proxy = world.proxies["a"]
    names = [line[3:].split(" ")[0] for line in proxy.get("/readyz?verbose")[1].splitlines() if line.startswith("[+]")]
    check(names, "no checks")
    text = proxy.get("/readyz?verbose&exclude=" + names[0])[1]
    check("[+]%s excluded: ok" % names[0] in text, text)


def test_metrics(world):
    """the metrics are in Prometheus' format, each with its HELP and TYPE"""
    text = world.proxies["a"].get("/metrics")[1]
    described, seen = set(), set()
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            described.add(line.split(" ")[2])
        elif line and not line.startswith("#"):
            name = line.split("{")[0].split(" ")[0]
            for suffix in ("_bucket", "_sum", "_count"):
                if name.endswith(suffix) and name[:-len(suffix)] in described:
                    name = name[:-len(suffix)]
            seen.add(name)
            float(line.rpartition(" ")[2])
    check(seen <= described, "without TYPE:", sorted(seen - described))
    for name in ("apiserver_rerouted_request_total", "apiserver_request_total"):
        check(name in text, name, "is missing")


if __name__ == "__main__":
    fixture.main(globals())
