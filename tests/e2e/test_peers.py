#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Three servers: the next eligible peer is tried, addresses come from Leases, Leases come and go."""

import fixture
from fixture import check, equal, until

CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
MAPS = "/api/v1/namespaces/default/configmaps"
LEASES = "leases.coordination.k8s.io"


def setup():
    world = fixture.World({"a": "v1.33", "b": "v1.34", "c": "v1.34"},
                          options={"discovery-refresh-interval": "1s", "peer-stale-after": "2s"},
                          servers={n: {"lease-renew-interval": "500ms"} for n in "abc"})
    return world.start()


def answered_by(world, name="a"):
    """The server that answered one more request; None when nobody did."""
    mark = world.sim.mark()
    equal(world.ask("GET", CLASSES, name=name).status, 200, "status")
    return world.sim.requests(path=CLASSES, since=mark)[-1]["server"]


def refuses(world, name="a"):
    answer = world.ask("GET", CLASSES, name=name)
    if answer.status != 503:
        return False
    check(answer.json()["kind"] == "Status" and int(answer.header("Retry-After")) >= 1, "%r" % answer)
    return True


def lease_of(world, name):
    identity = world.sim.server(name)["id"]
    return next(item for item in world.sim.stored(LEASES, "kube-system") if item["metadata"]["name"] == identity)


def test_both_are_used(world):
    """eligible peers are chosen at random"""
    until(lambda: {answered_by(world) for _ in range(8)} == {"b", "c"}, "both to be used")


def test_first_peer_down(world):
    """one of two eligible peers is down: not one request fails"""
    for victim in "bc":
        world.proxies[victim].kill()
        for _ in range(30):
            equal(world.ask("GET", CLASSES).status, 200, "status")
            equal(world.ask("POST", CLASSES + "?simbody=sink", b"12345").status, 200, "an upload")
        world.proxies[victim].start()
        world.settle()


def test_server_behind_a_peer_down(world):
    """a peer whose server is down answers 503, and the other one is asked"""
    world.sim.kill_server("b")
    statuses = [world.ask("GET", CLASSES).status for _ in range(30)]
    check(set(statuses) <= {200, 503}, statuses)
    world.sim.start_server("b")
    until(lambda: {answered_by(world) for _ in range(8)} == {"b", "c"}, "both to be used again")


def test_all_peers_down(world):
    """all are down: 503 and never 404; the first that comes back is used"""
    for name in "bc":
        world.proxies[name].kill()
    for _ in range(10):
        check(refuses(world), "not refused")
    equal(world.ask("GET", MAPS).status, 200, "local meanwhile")
    world.proxies["c"].start()
    until(lambda: answered_by(world) == "c", "c to be used")
    world.proxies["b"].start()
    world.settle()


def test_addresses_from_leases(world):
    """without static peers the address in the Lease annotation is used, and followed"""
    proxy = world.proxies["a"]
    static = proxy.options["peers"]
    addresses = {n: "127.0.0.1:%d" % world.ports[n] for n in "abc"}
    for name in "bc":
        world.sim.restart_server(name, **{"peer-advertise-address": addresses[name]})
        world.sim.delete(LEASES, world.sim.server(name)["id"], "kube-system")
        world.sim.restart_server(name)
    until(lambda: lease_of(world, "b")["metadata"].get("annotations"), "the annotation")
    mark = proxy.reload({"peers": []})
    until(lambda: proxy.log_contains("Reloaded", mark), "the reload")
    until(lambda: {answered_by(world) for _ in range(8)} == {"b", "c"}, "both by their annotations")
    # Another address, of the same peer.
    lease = lease_of(world, "b")
    lease["metadata"]["annotations"] = {"kubernetes.io/peer-advertise-address": "127.0.0.1:%d" % fixture.free_port()}
    world.sim.put(LEASES, lease)
    until(lambda: {answered_by(world) for _ in range(6)} == {"c"}, "only c to be used")
    lease["metadata"]["annotations"] = {"kubernetes.io/peer-advertise-address": addresses["b"]}
    world.sim.put(LEASES, lease)
    until(lambda: {answered_by(world) for _ in range(8)} == {"b", "c"}, "both again")
    mark = proxy.reload({"peers": static})
    until(lambda: proxy.log_contains("Reloaded", mark), "the reload")
    world.settle()


def test_no_address(world):
    """peers that have it and no address: 503 that says so"""
    proxy = world.proxies["a"]
    static = proxy.options["peers"]
    for name in "bc":
        lease = lease_of(world, name)
        lease["metadata"].pop("annotations", None)
        world.sim.put(LEASES, lease)
    mark = proxy.reload({"peers": []})
    until(lambda: proxy.log_contains("Reloaded", mark), "the reload")
    until(lambda: refuses(world), "a refusal")
    mark = proxy.reload({"peers": static})
    until(lambda: proxy.log_contains("Reloaded", mark), "the reload")
    until(lambda: answered_by(world) in "bc", "the peers again")


def test_forged_leases(world):
    """Leases of another namespace, label or shape never become peers"""
    count = world.proxies["a"].metric("mvproxy_peers")
    good = lease_of(world, "b")
    address = "127.0.0.1:%d" % fixture.free_port()

    def forge(name, namespace="kube-system", **spec):
        return {"metadata": {"name": name, "namespace": namespace, "labels": dict(good["metadata"]["labels"]),
                             "annotations": {"kubernetes.io/peer-advertise-address": address}},
                "spec": dict(good["spec"], **spec)}
    world.sim.put(LEASES, forge("apiserver-aaaaaaaaaaaaaaaaaaaaaaaaaa", "default"))
    other = forge("apiserver-bbbbbbbbbbbbbbbbbbbbbbbbbb")
    other["metadata"]["labels"] = {"apiserver.kubernetes.io/identity": "kube-controller-manager"}
    world.sim.put(LEASES, other)
    for number, change in enumerate(({"holderIdentity": 7}, {"holderIdentity": ""}, {"renewTime": "yesterday"},
                                     {"renewTime": [1]}, {"leaseDurationSeconds": "x"})):
        world.sim.put(LEASES, forge("apiserver-%s" % (chr(ord("c") + number) * 26), **change))
    broken = forge("apiserver-zzzzzzzzzzzzzzzzzzzzzzzzzz")
    broken["spec"] = []
    world.sim.put(LEASES, broken)
    for _ in range(5):
        equal(world.ask("GET", CLASSES).status, 200, "rerouted")
        equal(world.ask("GET", "/apis/nobody.example.com/v1/things").status, 404, "what nobody has")
    check(world.proxies["a"].metric("mvproxy_peers") <= count + 2, "forged peers")
    for item in world.sim.stored(LEASES):
        if len(set(item["metadata"]["name"][len("apiserver-"):])) == 1:
            world.sim.delete(LEASES, item["metadata"]["name"], item["metadata"]["namespace"])


def test_silent_peer(world):
    """a peer that is known by its Lease and was never reached: what nobody is known to have is 503, not 404"""
    proxy = world.proxies["a"]
    name = "apiserver-dddddddddddddddddddddddddd"
    lease = lease_of(world, "b")
    ghost = {"metadata": {"name": name, "namespace": "kube-system", "labels": lease["metadata"]["labels"],
                          "annotations": {"kubernetes.io/peer-advertise-address": "127.0.0.1:%d" % fixture.free_port()}},
             "spec": dict(lease["spec"], holderIdentity=name + "_1")}
    world.sim.put(LEASES, ghost)
    until(lambda: proxy.log_contains(name), "the ghost to be seen")
    until(lambda: world.ask("GET", "/apis/nobody.example.com/v1/things").status == 503, "unknown is not not-found")
    equal(world.ask("GET", CLASSES).status, 200, "what is known goes on")
    equal(world.ask("GET", MAPS).status, 200, "local")
    world.sim.delete(LEASES, name, "kube-system")
    until(lambda: world.ask("GET", "/apis/nobody.example.com/v1/things").status == 404, "the ghost to be forgotten")


def test_lease_deleted(world):
    """whose Lease is deleted is asked after the others, one that comes back brings it"""
    proxy = world.proxies["a"]
    static = proxy.options["peers"]
    mark = proxy.reload({"peers": [p for p in static if not p.startswith("test-server-b=")]})
    until(lambda: proxy.log_contains("Reloaded", mark), "the reload")
    world.sim.kill_server("b")
    world.sim.delete(LEASES, world.sim.server("b")["id"], "kube-system")
    until(lambda: all(answered_by(world) == "c" for _ in range(6)), "only c to be used")
    world.sim.start_server("b")
    mark = proxy.reload({"peers": static})
    until(lambda: proxy.log_contains("Reloaded", mark), "the reload")
    until(lambda: {answered_by(world) for _ in range(8)} == {"b", "c"}, "both again")


def test_watch_of_leases_breaks(world):
    """410, ended and cut watches of the Leases do no harm"""
    for _ in range(3):
        world.sim.compact(LEASES)
        world.sim.end_watches(LEASES)
        world.sim.command("a", "cut")
        until(lambda: world.ask("GET", CLASSES).status == 200, "rerouting")
    proxy = world.proxies["a"]
    mark = proxy.log_mark()
    world.sim.restart_server("b", hostname="renamed")
    until(lambda: proxy.log_contains(world.sim.server("b")["id"], mark), "the new Lease to be seen")
    world.sim.delete(LEASES, world.sim.server("b")["id"], "kube-system")
    world.sim.restart_server("b", hostname="test-server-b")


if __name__ == "__main__":
    fixture.main(globals())
