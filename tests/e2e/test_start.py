#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Starting before the servers, and coming to life by itself."""

import os
import re
import shutil
import socket
import subprocess

import fixture
from fixture import check, equal, until

V2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
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


def test_only_peer_there(world):
    """a static peer answers for resources, but not for discovery: what the local server has that the peer lacks nobody can name"""
    world.sim.start_server("b")
    until(lambda: world.ask("GET", MAPS).status == 200, "the peer to answer")
    until(lambda: world.proxies["b"].get("/readyz")[0] == 200, "the peer to be ready")
    for _ in range(5):
        for path, accept in (("/apis", V2), ("/api", V2), ("/apis", "application/json"), ("/apis/apps", "application/json"), ("/apis/apps/v1", V2)):
            answer = world.ask("GET", path, headers={"Accept": accept})
            equal((path, answer.status, bool(answer.header("Retry-After"))), (path, 503, True), answer)
        equal(world.ask("GET", MAPS).status, 200, "a resource")
    world.sim.kill_server("b")


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


def _beside(world, taken, name):
    """Another mvproxy for the server of a, on an address that somebody has."""
    options = dict(world.options("a"), **{"secure-port": taken.getsockname()[1], "control-socket": os.path.join(world.scratch, name + ".control"),
                                          "shutdown-delay-duration": "20s"})
    proxy = fixture.Mvproxy(name, world.scratch, options)
    proxy.start(ready=False)
    proxy.await_log("Waiting for an address that another process has")
    return proxy


def _why(proxy):
    """What of it is not ready."""
    return [line for line in proxy.get("/readyz?verbose")[1].splitlines() if line.startswith("[-]")]


def test_address_in_use(world):
    """the address is another process' when it starts: alive, not ready and says so; takes it once it is free, and is ready at once"""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        proxy = _beside(world, taken, "second")
        until(lambda: len(_why(proxy)) == 1 and "client-listener" in _why(proxy)[0], "all else to be known")
        equal(proxy.get("/livez")[0], 200, "livez")
        equal(proxy.metric("mvproxy_ready"), 0, "the metric")
        status, out, _ = fixture.ctl(world, "status", path=proxy.options["control-socket"])
        check(status != 0 and "client-listener" in out and "Address already in use" in out, status, out)
        equal(proxy.log().count('"Waiting for an address'), 1, "lines in\n" + proxy.log())
    until(lambda: proxy.get("/readyz")[0] == 200, "ready")
    equal(proxy.metric("mvproxy_ready"), 1, "the metric of one that is ready")
    proxy.await_log('"Listening" address="127.0.0.1" port=%d for="clients"' % proxy.options["secure-port"])
    world.proxies["second"] = proxy
    equal(world.ask("GET", MAPS, name="second").status, 200, "served")
    world.proxies.pop("second")
    proxy.kill()


def test_no_control_socket(world):
    """a start with the path of a key for the control socket is refused, and the key is what it was"""
    key = os.path.join(world.scratch, "precious.key")
    shutil.copy(world.certs.key("node-a"), key)
    proxy = fixture.Mvproxy("precious", world.scratch, dict(world.options("a"), **{"control-socket": key, "tls-private-key-file": key}))
    proxy.write_config()
    done = subprocess.run([fixture.mvproxy_binary(), "--config", proxy.config_path], capture_output=True, text=True, check=False, timeout=fixture.PATIENCE)
    check(done.returncode != 0 and re.search(r'Cannot start" err="\S+:\d+:\d+: control-socket: %s is there, and is a file' % key, done.stderr), done.returncode, done.stderr)
    with open(key, encoding="ascii") as kept, open(world.certs.key("node-a"), encoding="ascii") as given:
        equal(kept.read(), given.read(), "the key")


def test_without_certificates(world):
    """before the PKI is there a start says which file is missing, and where and by which option it is named"""
    path = os.path.join(world.scratch, "later", "ca.crt")
    proxy = fixture.Mvproxy("early", world.scratch, dict(world.options("a"), **{"client-ca-file": path}))
    proxy.write_config()
    done = subprocess.run([fixture.mvproxy_binary(), "--config", proxy.config_path], capture_output=True, text=True, check=False, timeout=fixture.PATIENCE)
    check(done.returncode != 0, done.returncode)
    check(re.search(r'Cannot start" err="\S+:\d+:\d+: client-ca-file: .*%s.*No such file' % path, done.stderr), done.stderr)


def test_stopped_while_it_waits(world):
    """told to stop while it waits for the address: ends at once, without shutdown-delay-duration, and well"""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        proxy = _beside(world, taken, "third")
        proxy.stop()
    check("delayMilliseconds=0" in proxy.log() and "Cannot start" not in proxy.log(), proxy.log())
    proxy.examine()


if __name__ == "__main__":
    fixture.main(globals())
