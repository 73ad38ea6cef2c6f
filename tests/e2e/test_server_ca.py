#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CA files of servers that are replaced in place: one that would cut us off is held back, and counts once a server shows what it has signed."""

import os
import shutil

import fixture
from fixture import check, equal, until

MAPS = "/api/v1/namespaces/default/configmaps"
CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
CHANGES = "mvproxy_certificate_files_changes_total"
GOOD = "mvproxy_certificate_files_good"
FILES = {"tls-cert-file": "serving.crt", "tls-private-key-file": "serving.key", "apiserver-ca-file": "apiserver-ca.crt", "peer-ca-file": "peer-ca.crt",
         "proxy-client-cert-file": "proxy.crt", "proxy-client-key-file": "proxy.key"}


def setup():
    """b's mvproxy has a pair of its own to be renewed, and believes both CAs."""
    world = fixture.World()
    for name, proxy in world.proxies.items():
        for option, file in FILES.items():
            shutil.copy(proxy.options[option], path(world, file, name))
            proxy.options[option] = path(world, file, name)
    put(world, "peer-ca.crt", "ca", "foreign-ca", name="b")
    return world.start()


def path(world, file, name="a"):
    return os.path.join(world.scratch, "%s-%s" % (name, file))


def put(world, file, *certs, name="a", suffix="crt"):
    """Another file in the place of this one, by rename."""
    staged = path(world, file, name) + ".tmp"
    with open(staged, "wb") as out:
        for cert in certs:
            with open(getattr(world.certs, suffix)(cert), "rb") as text:
                out.write(text.read())
    os.replace(staged, path(world, file, name))


def serve(world, pair, name):
    """This mvproxy shows another certificate."""
    put(world, "serving.key", pair, name=name, suffix="key")
    put(world, "serving.crt", pair, name=name)


def restart(world, pair):
    """kube-apiserver shows another certificate, as after a restart: nothing of before is resumed."""
    world.sim.restart_server("a", **{"tls-cert-file": world.certs.crt(pair), "tls-private-key-file": world.certs.key(pair)})


def changes(world):
    return world.proxies["a"].metric(CHANGES)


def await_held(world, mark, *parts):
    proxy = world.proxies["a"]
    until(lambda: proxy.metric(GOOD) == 0.0, "the metric to say that a file is held back")
    for part in parts:
        proxy.await_log(part, mark)


def await_taken(world, before):
    until(lambda: world.proxies["a"].metric(GOOD) == 1.0 and changes(world) > before, "the file to be taken")


def status(world):
    return fixture.ctl(world, "status")[1]


# Which file, what is reached with it, and how another certificate is shown there.
WAYS = {
    "local": ("apiserver-ca.crt", "/version", restart),
    "peer": ("peer-ca.crt", CLASSES, lambda world, pair: serve(world, pair, "b")),
}


def held_back(world, way):
    file, target, show = WAYS[way]
    option = file.replace(".crt", "-file")
    proxy = world.proxies["a"]
    before, mark = changes(world), proxy.log_mark()
    put(world, file, "foreign-ca")
    await_held(world, mark, "apiserver-ca-file" if way == "local" else "peer-ca-file", "has not signed what", "its CA is not in " + option)
    check("changed certificate files refused for" in status(world).lower() and option in status(world), status(world))
    for _ in range(3):
        equal(world.ask("GET", target).status, 200, "it goes on with the old one")
    equal(changes(world), before, CHANGES)
    equal(proxy.log()[mark:].count("cannot be used"), 1, "times that it was said")
    # What has nothing to do with it is taken.
    serve(world, "node-c" if way == "local" else "node-a", "a")
    until(lambda: changes(world) > before, "the new serving certificate")
    equal(proxy.metric(GOOD), 0.0, GOOD)
    # So is the pair that is shown to those same servers.
    equal(world.ask("GET", MAPS).status, 200, "a user")
    connections = {r["conn"] for r in world.sim.requests("a", MAPS)}
    before, pair = changes(world), "proxy-" + way
    world.certs.extra(pair, "front-proxy-client", ca="front-proxy-ca")
    put(world, "proxy.key", pair, suffix="key")
    put(world, "proxy.crt", pair)
    until(lambda: changes(world) > before, "the new client certificate")
    equal(proxy.metric(GOOD), 0.0, GOOD)
    mark = world.sim.mark()
    equal((world.ask("GET", MAPS).status, world.ask("GET", target).status), (200, 200), "with the new pair")
    check(not connections & {r["conn"] for r in world.sim.requests("a", MAPS, mark)}, "a connection with the old pair was used")
    # A reload does not take it either.
    code, _, errors = fixture.ctl(world, "reload")
    equal(code, 1, "mvproxyctl reload")
    check(option in errors, errors)
    equal(world.ask("GET", target).status, 200, "after the reload")
    # The server's new certificate follows.
    before = changes(world)
    show(world, "foreign-server")
    await_taken(world, before)
    until(lambda: world.ask("GET", target).status == 200, "what only the new one believes")
    until(lambda: proxy.metric("mvproxy_config_last_reload_successful") == 1.0, "the refusal of the reload to end")
    check("refused for" not in status(world), status(world))


def test_local_held_back(world):
    """apiserver-ca-file: one that has not signed what the local server shows is held back, all else counts, and its new certificate makes it count"""
    held_back(world, "local")


def test_local_put_back(world):
    """a wrong one that is put right is as if nothing had been"""
    before, mark = changes(world), world.proxies["a"].log_mark()
    put(world, "apiserver-ca.crt", "ca")
    await_held(world, mark, "has not signed what")
    put(world, "apiserver-ca.crt", "foreign-ca")
    until(lambda: world.proxies["a"].metric(GOOD) == 1.0, "the metric")
    equal(changes(world), before, CHANGES)
    check("all certificate files can be used again" in status(world), status(world))


def test_local_restarts_meanwhile(world):
    """a file that is held back stays so while the server is away, and comes back with the same certificate"""
    mark = world.proxies["a"].log_mark()
    put(world, "apiserver-ca.crt", "ca")
    await_held(world, mark, "has not signed what")
    with fixture.killed(world, "a"):
        # Whatever is asked of it while it is away.
        until(lambda: not world.proxies["a"].ready(), "mvproxy to notice")
        put(world, "apiserver-ca.crt", "ca")
        mark = world.proxies["a"].log_mark()
    until(lambda: world.ask("GET", "/version").status == 200, "the server with the old certificate")
    equal(world.proxies["a"].metric(GOOD), 0.0, GOOD)


def test_local_first(world):
    """the server's certificate first: its CA counts as soon as it is there"""
    put(world, "apiserver-ca.crt", "foreign-ca")
    until(lambda: world.proxies["a"].metric(GOOD) == 1.0, "the metric")
    restart(world, "node-a")
    until(lambda: world.ask("GET", "/version").status == 503, "what is not believed yet")
    before = changes(world)
    put(world, "apiserver-ca.crt", "ca")
    await_taken(world, before)
    until(lambda: world.ask("GET", "/version").status == 200, "the server")


def test_bundle(world):
    """the way of a CA's rotation: both CAs, the server's certificate, the new CA alone; each step counts at once and nothing is refused"""
    proxy = world.proxies["a"]
    mark = proxy.log_mark()
    for step in (("ca", "foreign-ca"), "foreign-server", ("foreign-ca",), ("foreign-ca", "ca"), "node-a", ("ca",)):
        before = changes(world)
        if isinstance(step, str):
            restart(world, step)
        else:
            put(world, "apiserver-ca.crt", *step)
            await_taken(world, before)
        until(lambda: world.ask("GET", "/version").status == 200, "the server after %s" % (step,))
    check(not proxy.log_contains("cannot be used", mark), "a step was refused")


def test_nobody_to_lose(world):
    """a file that believes the server as little as the one before is taken: its certificate may follow"""
    restart(world, "foreign-server")
    before = changes(world)
    put(world, "apiserver-ca.crt", "front-proxy-ca")
    await_taken(world, before)
    put(world, "apiserver-ca.crt", "foreign-ca")
    until(lambda: world.ask("GET", "/version").status == 200, "the server")
    restart(world, "node-a")
    before = changes(world)
    put(world, "apiserver-ca.crt", "ca")
    await_taken(world, before)
    until(lambda: world.ask("GET", "/version").status == 200, "the server")


def test_peer_held_back(world):
    """peer-ca-file: the same of what peers show"""
    world.settle()
    held_back(world, "peer")


if __name__ == "__main__":
    fixture.main(globals())
