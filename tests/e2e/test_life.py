#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A peer's life by its Lease alone: restarts, graceful and not, and never a 404 for what exists."""

import fixture
from fixture import check, equal, until

CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
NOBODYS = "/apis/nobody.example.com/v1/things"
LEASES = "leases.coordination.k8s.io"
V2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def setup():
    world = fixture.World({"a": "v1.33", "b": "v1.36"}, options={"peers": [], "discovery-refresh-interval": "1s"})
    for name, proxy in world.proxies.items():
        proxy.options.update({"peer-advertise-ip": "127.0.0.1", "peer-advertise-port": world.ports[name]})
    world.start()
    until(lambda: world.ask("GET", CLASSES).status == 200, "the peers to have found each other")
    return world


def freshness(world):
    """Of the group that only b has: "" if it is not in discovery."""
    for group in world.ask("GET", "/apis", headers={"Accept": V2}).json()["items"]:
        if group["metadata"]["name"] == "resource.k8s.io":
            return group["versions"][0].get("freshness")
    return ""


def has_lease(world):
    return any(i["metadata"]["name"] == world.sim.server("b")["id"] for i in world.sim.stored(LEASES))


def refused(world):
    """503 with Retry-After, again and again."""
    for _ in range(10):
        answer = world.ask("GET", CLASSES)
        equal(answer.status, 503, answer.body)
        check(int(answer.header("Retry-After")) >= 1, "Retry-After")


def test_server_restarts(world):
    """the server stops, and its Lease goes with it: 503 and Stale, not 404 and gone; back it is used at once"""
    proxy = world.proxies["a"]
    for _ in range(3):
        mark = proxy.log_mark()
        world.sim.stop_server("b")
        check(not has_lease(world), "1.36 deletes its Lease")
        proxy.await_log('reason="Lease deleted"', mark)
        refused(world)
        until(lambda: freshness(world) == "Stale", "the group to be stale")
        equal(world.ask("GET", NOBODYS).status, 404, "what nobody has")
        equal(proxy.metric("mvproxy_peers", state="lapsed"), 1.0, "lapsed")
        seen = set()
        world.sim.start_server("b")
        until(lambda: seen.add(world.ask("GET", CLASSES).status) or 200 in seen, "the peer to be used again")
        check(seen <= {200, 503}, "statuses", seen)
        until(lambda: freshness(world) == "Current", "the group to be current")


def test_proxy_restarts_with_it(world):
    """mvproxy and its server restart together, as when a node is upgraded"""
    world.proxies["b"].stop()
    world.sim.stop_server("b")
    refused(world)
    until(lambda: freshness(world) == "Stale", "the group to be stale")
    world.sim.start_server("b")
    seen = {world.ask("GET", CLASSES).status for _ in range(20)}
    world.proxies["b"].start()
    until(lambda: seen.add(world.ask("GET", CLASSES).status) or 200 in seen, "the peer to be used again")
    check(seen <= {200, 503}, "statuses", seen)


def errors(world, kind):
    """As kube-apiserver counts them."""
    return world.proxies["a"].metric("apiserver_peer_proxy_errors_total", type=kind, group="resource.k8s.io", version="v1",
                                     resource="deviceclasses") or 0


def test_counted(world):
    """what goes wrong on the way to a peer is counted by kind and resource: not reached, and no address at all"""
    proxy = world.proxies["a"]
    world.proxies["b"].kill()
    world.sim.kill_server("b")
    transport, rerouted = errors(world, "proxy_transport"), "apiserver_rerouted_request_total"
    before = proxy.metric(rerouted, code="503", resource="deviceclasses") or 0
    refused(world)
    equal(errors(world, "proxy_transport"), transport + 10, "not reached")
    equal(proxy.metric(rerouted, code="503", resource="deviceclasses"), before + 10, rerouted)
    lease = [i for i in world.sim.stored(LEASES) if i["metadata"]["name"] == world.sim.server("b")["id"]][0]
    del lease["metadata"]["annotations"]
    mark = proxy.log_mark()
    world.sim.put(LEASES, lease)
    fixture.time.sleep(5.5)  # so long somebody may have taken it out, and its mvproxy would write it again
    now = fixture.time.time()
    lease["spec"]["renewTime"] = fixture.time.strftime("%Y-%m-%dT%H:%M:%S", fixture.time.gmtime(now)) + ".%06dZ" % (now * 1e6 % 1e6)
    world.sim.put(LEASES, lease)
    proxy.await_log("Peer has no usable address", mark)
    until(lambda: world.ask("GET", CLASSES).status == 503 and errors(world, "endpoint_resolution"), "the next snapshot")
    resolution = errors(world, "endpoint_resolution")
    answer = world.ask("GET", CLASSES)
    equal((answer.status, answer.json()["reason"]), (503, "ServiceUnavailable"), "without an address")
    equal(errors(world, "endpoint_resolution"), resolution + 1, "no address")
    check(proxy.metric("apiserver_peer_discovery_sync_errors_total", type="hostport_resolution") >= 1, "hostport_resolution")
    world.sim.start_server("b")
    world.proxies["b"].start()
    until(lambda: world.ask("GET", CLASSES).status == 200, "the peer to be used again")


def test_back_as_another(world):
    """what comes back with other APIs keeps nothing of the old ones"""
    proxy = world.proxies["a"]
    mark = proxy.log_mark()
    world.sim.stop_server("b")
    proxy.await_log('reason="Lease deleted"', mark)
    refused(world)
    world.sim.start_server("b", profile="v1.33")
    until(lambda: world.ask("GET", CLASSES).status == 404, "the truth")
    until(lambda: freshness(world) == "", "the group to be gone")
    check(proxy.log_contains("resource.k8s.io/v1", mark), "the log says what went")
    world.sim.restart_server("b", profile="v1.36")
    until(lambda: world.ask("GET", CLASSES).status == 200, "the peer to be used again")


def test_networks(world):
    """a network that is taken away by a reload is used no more, not even over connections that are there"""
    proxy = world.proxies["a"]
    equal(world.ask("GET", CLASSES).status, 200, "before")
    mark = proxy.reload({"peer-allowed-cidrs": ["10.0.0.0/8"]})
    proxy.await_log("Reloaded", mark)
    refused(world)
    mark = proxy.reload({"peer-allowed-cidrs": ["127.0.0.0/8"]})
    proxy.await_log("Reloaded", mark)
    until(lambda: world.ask("GET", CLASSES).status == 200, "the peer to be used again")


def test_without_grace(world):
    """peer-leave-grace 0s, by a reload: who deletes its Lease is forgotten at once"""
    proxy = world.proxies["a"]
    mark = proxy.reload({"peer-leave-grace": "0s"})
    proxy.await_log("Reloaded", mark)
    world.sim.stop_server("b")
    until(lambda: world.ask("GET", CLASSES).status == 404 and freshness(world) == "", "it to be forgotten")
    equal(proxy.metric("mvproxy_peers"), 0.0, "peers")
    mark = proxy.reload({"peer-leave-grace": "5m"})
    proxy.await_log("Reloaded", mark)
    world.sim.start_server("b")
    until(lambda: world.ask("GET", CLASSES).status == 200, "the peer to be used again")


def test_grace_ends(world):
    """the grace ends when nobody comes back"""
    proxy = world.proxies["a"]
    mark = proxy.reload({"peer-leave-grace": "2s"})
    proxy.await_log("Reloaded", mark)
    world.sim.stop_server("b")
    proxy.await_log('reason="Lease deleted"', mark)
    until(lambda: world.ask("GET", CLASSES).status == 404 and freshness(world) == "", "it to be forgotten")
    proxy.await_log("Lease deleted, and not made again", mark)
    world.sim.start_server("b")
    until(lambda: world.ask("GET", CLASSES).status == 200, "the peer to be used again")


if __name__ == "__main__":
    fixture.main(globals())
