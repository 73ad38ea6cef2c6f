#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Servers that publish no identity: their mvproxies do, find each other by it, and withdraw it when they end."""

import fixture
from fixture import check, equal, until

LEASES = "leases.coordination.k8s.io"
BATCH = "/apis/batch/v1/namespaces/default/jobs"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


def setup():
    # a has batch switched off, and both have policy/v1. Nobody lists peers.
    world = fixture.World({"a": "v1.24", "b": "v1.24"}, servers={"a": {"runtime-config": ["batch/v1=false", "policy/v1=false"]},
                                                                 "b": {"runtime-config": ["policy/v1=false"]}},
                          options={"discovery-refresh-interval": "1s", "peers": []})
    for name, proxy in world.proxies.items():
        proxy.options["peer-advertise-ip"] = "127.0.0.1"
        proxy.options["peer-advertise-port"] = world.ports[name]
    return world.start_proxies()


def lease_of(world, name):
    identity = world.sim.server(name)["id"]
    for item in world.sim.stored(LEASES, "kube-system"):
        if item["metadata"]["name"] == identity:
            return item
    return None


def holder_of(world, name):
    lease = lease_of(world, name)
    return lease and lease["spec"]["holderIdentity"]


def annotations_of(world, name):
    """Without the tag of what the server serves, but only when that is there."""
    lease = lease_of(world, name)
    found = dict(lease and lease["metadata"].get("annotations") or {})
    return found if len(found.pop("mvproxy/discovery", "")) == 31 else None


def test_published(world):
    """the Lease is the one that kube-apiserver would keep, with the address for peers"""
    for name in "ab":
        lease = until(lambda n=name: lease_of(world, n), "the Lease of " + name)
        identity = world.sim.server(name)["id"]
        equal(lease["metadata"]["labels"], {"apiserver.kubernetes.io/identity": "kube-apiserver",
                                            "kubernetes.io/hostname": "test-server-" + name}, "labels")
        equal(until(lambda n=name: annotations_of(world, n), "the tag of " + name), {
            "kubernetes.io/peer-advertise-address": "127.0.0.1:%d" % world.ports[name]}, "annotations")
        check(lease["spec"]["holderIdentity"].startswith(identity + "_"), lease["spec"])
        equal(lease["spec"]["leaseDurationSeconds"], 3600, "duration")


def test_routing(world):
    """they find each other: what a's server lacks comes from b's"""
    until(lambda: world.ask("GET", BATCH).status == 200, "the jobs of b through a")
    equal(world.ask("GET", BATCH, direct=True).status, 404, "straight at a's server")
    equal(world.sim.requests(path=BATCH)[-2]["server"], "b", "who answered")


def test_renewed(world):
    """it is renewed, by the same holder, in the same object"""
    before = lease_of(world, "b")

    def renewed():
        lease = lease_of(world, "b")
        return lease and lease["spec"]["renewTime"] != before["spec"]["renewTime"] and lease
    after = until(renewed, "a renewal")
    equal(after["spec"]["holderIdentity"], before["spec"]["holderIdentity"], "holder")
    equal(after["metadata"]["uid"], before["metadata"]["uid"], "uid")


def test_server_restarts(world):
    """the server behind a Lease is another process: another holder, by which its peers look at it without waiting for their interval"""
    proxy = world.proxies["a"]
    proxy.await_log("Reloaded", proxy.reload({"discovery-refresh-interval": "1h"}))
    holder = holder_of(world, "b")
    equal(world.ask("GET", BUDGETS).status, 404, "what nobody serves")
    world.sim.restart_server("b", **{"runtime-config": ["policy/v1=true"]})
    until(lambda: holder_of(world, "b") not in (None, holder), "another holder")
    until(lambda: world.ask("GET", BUDGETS).status == 200, "what b's server has now")
    proxy.await_log("Reloaded", proxy.reload({"discovery-refresh-interval": "1s"}))


def test_withdrawn(world):
    """after SIGTERM the Lease is gone; a new process publishes a new one"""
    for name in "ba":
        proxy = world.proxies[name]
        holder, mark = holder_of(world, name), proxy.log_mark()
        proxy.stop()
        # It has two seconds for that, which a machine may spend otherwise.
        check(lease_of(world, name) is None or proxy.log_contains("Could not remove the own identity Lease in time", mark),
              "the Lease after the end")
        proxy.start()
        until(lambda n=name, h=holder: holder_of(world, n) not in (None, h), "the Lease of the new process")
    until(lambda: world.ask("GET", BATCH).status == 200, "the jobs of b through a again")


def test_left_behind(world):
    """killed: what it left is replaced when nobody renews it"""
    proxy = world.proxies["b"]
    holder = holder_of(world, "b")
    proxy.kill()
    equal(holder_of(world, "b"), holder, "the Lease of the killed one")
    proxy.start()
    until(lambda: holder_of(world, "b") not in (None, holder), "another holder")
    until(lambda: world.ask("GET", BATCH).status == 200, "the jobs of b through a")


def test_server_takes_over(world):
    """the server is upgraded to one that publishes: it is left to it, and gets the address"""
    world.sim.restart_server("b", profile="v1.28")
    world.proxies["b"].await_log("left to the local kube-apiserver")
    world.proxies["b"].stop()
    check(lease_of(world, "b"), "the server's Lease is gone")
    world.sim.delete(LEASES, world.sim.server("b")["id"], "kube-system")
    world.sim.restart_server("b")
    world.proxies["b"].start()
    address = "127.0.0.1:%d" % world.ports["b"]
    until(lambda: annotations_of(world, "b") == {
        "kubernetes.io/peer-advertise-address": address,
        "mvproxy/peer-advertise-address": address}, "the address in the server's Lease, and whose it is")
    until(lambda: world.ask("GET", BATCH).status == 200, "the jobs of b through a")


def test_two_with_one_name(world):
    """a's mvproxy by a copied hostname-override is b's, too: both say so, and do not write against each other as fast as they can"""
    a, b = world.proxies["a"], world.proxies["b"]
    world.sim.restart_server("a", profile="v1.28")
    a.stop()
    a.options["hostname-override"] = "test-server-b"
    mark = world.sim.mark()
    a.start(ready=False)
    for proxy in (a, b):
        proxy.await_log("Another mvproxy writes its address into the Lease of this server again and again, so two nodes have one host name")
    patches = [r for r in world.sim.requests(path="/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/", since=mark) if r["method"] == "PATCH"]
    check(len(patches) < 40, len(patches), "patches")


if __name__ == "__main__":
    fixture.main(globals())
