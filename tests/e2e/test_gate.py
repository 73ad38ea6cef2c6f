#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""UnknownVersionInteroperabilityProxy on, off and on again, by reload and by restart: nothing is left of either state."""

import os

import fixture
from fixture import check, equal, until

MAPS = "/api/v1/namespaces/default/configmaps"
CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
LEASES = "leases.coordination.k8s.io"
V2 = {"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}
GATE = "UnknownVersionInteroperabilityProxy"


def setup():
    # The servers publish no identity, so that the Leases are the proxies'.
    world = fixture.World(servers={n: {"no-lease": True} for n in "ab"},
                          options={"identity-lease": "publish", "discovery-refresh-interval": "1s", "peers": []})
    for name, proxy in world.proxies.items():
        proxy.options.update({"peer-advertise-ip": "127.0.0.1", "peer-advertise-port": world.ports[name]})
    world.start()
    until(lambda: is_on(world), "the peers to have found each other")
    return world


def has_lease(world, name="a"):
    return any(i["metadata"]["name"] == world.sim.server(name)["id"] for i in world.sim.stored(LEASES, "kube-system"))


def merged(world):
    return world.ask("GET", "/apis", headers=V2)


def is_on(world):
    other = world.ask("GET", "/apis", name="b", headers=V2)
    mine = merged(world)
    return world.ask("GET", CLASSES).status == 200 and b"resource.k8s.io" in mine.body and \
        (mine.body, mine.header("ETag")) == (other.body, other.header("ETag")) and has_lease(world)


def is_off(world):
    """Everything is the local server's: bytes, tags, 404s. Nothing of ours is published."""
    direct, mine = world.ask("GET", "/apis", headers=V2, direct=True), merged(world)
    denied = world.ask("GET", CLASSES)
    return (mine.status, mine.body, mine.header("ETag")) == (direct.status, direct.body, direct.header("ETag")) and \
        (denied.status, denied.body) == (404, b"404 page not found\n") and not has_lease(world) and \
        world.ask("GET", "/apis", headers=dict(V2, **{"If-None-Match": direct.header("ETag")})).status == 304


def by_reload(world, gates):
    proxy = world.proxies["a"]
    mark = proxy.reload({"feature-gates": gates})
    proxy.await_log("Reloaded", mark)


def by_restart(world, gates):
    proxy = world.proxies["a"]
    proxy.stop()
    proxy.options["feature-gates"] = gates
    proxy.start()


def own_watches(world, since=0):
    """Watches of a's mvproxy that its server has open."""
    return [r["path"] for r in world.sim.requests(server="a", since=since)
            if not r["done"] and r["user"] and r["user"]["username"] == "system:apiserver"]


def test_by_reload(world):
    """by reload, three times over"""
    for _ in range(3):
        by_reload(world, [GATE + "=false"])
        until(lambda: is_off(world), "all to be local")
        until(lambda: own_watches(world) == [], "the informers to have stopped")
        equal(world.proxies["a"].metric("mvproxy_peers"), None, "peers")
        equal(world.proxies["a"].get("/readyz"), (200, "ok"), "readyz")
        by_reload(world, [GATE + "=true"])
        until(lambda: is_on(world), "all to be as before")
        until(lambda: len(own_watches(world)) == 4, "watches")
        equal(world.proxies["a"].get("/readyz"), (200, "ok"), "readyz")


def test_by_restart(world):
    """by restart, in every way in which it can be written"""
    for off, on in ((GATE + "=false", GATE + "=true"), ("AllBeta=false", "AllAlpha=true"), ("kube:%s = F" % GATE, "kube:%s=1" % GATE)):
        by_restart(world, [off])
        until(lambda: is_off(world), "all to be local with " + off)
        until(lambda: own_watches(world) == [], "the server to know that the watches of the process before are over")
        by_restart(world, [on])
        until(lambda: is_on(world), "all to be as before with " + on)


def test_under_way(world):
    """what is under way goes on as it began: watches here and there, an upload to the peer"""
    with world.client() as here, world.client() as there, world.client() as upload, world.client() as late:
        for client, path in ((here, MAPS), (there, CLASSES)):
            client.request("GET", path + "?watch=true")
            equal(client.final_head().status, 200, path)
        upload.request("POST", CLASSES + "?simbody=sink", {"Content-Length": "20"})
        upload.send(b"0123456789")
        equal(late.ask("GET", CLASSES).status, 200, "on a connection that will be used again")
        by_reload(world, [GATE + "=false"])
        until(lambda: is_off(world), "all to be local")
        equal(late.ask("GET", CLASSES).status, 404, "the next request on an old connection")
        upload.send(b"0123456789")
        equal(upload.answer("POST").json()["bytes"], 20, "upload")
        by_reload(world, [GATE + "=true"])
        until(lambda: is_on(world), "all to be as before")
        equal(late.ask("GET", CLASSES).status, 200, "and the one after it")
        for client, path, server in ((here, MAPS, "a"), (there, CLASSES, "b")):
            world.ask("POST", path, {"metadata": {"name": "seen"}}, server, direct=True)
            check(b'"seen"' in client.chunk(), "the watch of", path)
            world.ask("DELETE", path + "/seen", name=server, direct=True)


def test_load(world):
    """requests without end while it is switched: right, local, or 503; what is local is never disturbed"""
    seen = set()
    with world.client() as client:
        for turn in range(10):
            world.proxies["a"].reload({"feature-gates": ["%s=%s" % (GATE, "true" if turn % 2 else "false")]})
            for _ in range(20):
                seen.add(world.ask("GET", CLASSES).status)
                equal(client.ask("GET", MAPS).status, 200, "local")
    check(seen <= {200, 404, 503}, "statuses", seen)
    until(lambda: is_on(world), "all to be as before")


def test_unknown_gate(world):
    """a gate that is not known is refused, and what was stays"""
    proxy = world.proxies["a"]
    good = proxy.options["feature-gates"]
    mark = proxy.reload({"feature-gates": ["NoSuchGate=true"]})
    proxy.await_log("Reload refused", mark)
    check(proxy.log_contains("unrecognized feature gate: NoSuchGate", mark), "why")
    check(is_on(world), "still on")
    proxy.options["feature-gates"] = good
    proxy.write_config()


TRUST = "/api/v1/namespaces/kube-system/configmaps"


def believed(world, user_header):
    """What kube-apiserver would say of the front proxies that it believes."""
    with open(world.certs.crt("front-proxy-ca"), encoding="utf-8") as text:
        ca = text.read()
    return {"metadata": {"name": "extension-apiserver-authentication"}, "data": {
        "requestheader-client-ca-file": ca, "requestheader-allowed-names": '["front-proxy-client"]',
        "requestheader-username-headers": '["%s"]' % user_header, "requestheader-group-headers": '["X-Remote-Group"]',
        "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]'}}


def test_front_proxies(world):
    """API servers that believe other headers than configured make mvproxy unready, which says why, until it is put right"""
    proxy = world.proxies["a"]
    equal(world.ask("POST", TRUST, believed(world, "X-Login")).status, 201, "the ConfigMap")
    # Other words: only then they are compared anew at once.
    proxy.await_log("Reloaded", proxy.reload({"requestheader-username-headers": ["X-Remote-User", "X-Remote-Login"]}))
    until(lambda: proxy.get("/readyz")[0] == 500, "unready")
    check("[-]requestheader failed" in proxy.get("/readyz")[1], proxy.get("/readyz"))
    proxy.await_log("requestheader-username-headers: no API server knows X-Remote-User, which is sent")
    equal(proxy.metric("mvproxy_requestheader_differs"), 1.0, "the metric")
    told = fixture.ctl(world, "explain", "GET", "/api/v1/nodes", "--as", "root")[1]
    check("In doubt:   the API servers believe otherwise: requestheader-username-headers" in told, told)
    equal(world.ask("PUT", TRUST + "/extension-apiserver-authentication", believed(world, "X-Remote-User")).status, 200, "put right")
    proxy.await_log("Reloaded", proxy.reload({"discovery-refresh-interval": "2s"}))
    until(lambda: proxy.get("/readyz")[0] == 200, "ready")
    equal(world.ask("DELETE", TRUST + "/extension-apiserver-authentication").status, 200, "gone")


def test_ended_front_proxy_ca(world):
    """a CA that has ended is in no ConfigMap any more: what else is in the bundle is compared"""
    proxy = world.proxies["a"]
    world.certs.own.issue("old-front-proxy-ca", "front-proxy-ca", eku="", is_ca=True, start="20200101000000Z", end="20210101000000Z")
    bundle = os.path.join(world.scratch, "front-proxy-bundle.crt")
    with open(bundle, "w", encoding="ascii") as both:
        for path in (world.certs.own.crt("old-front-proxy-ca"), world.certs.crt("front-proxy-ca")):
            with open(path, encoding="ascii") as one:
                both.write(one.read())
    equal(world.ask("POST", TRUST, believed(world, "X-Login")).status, 201, "the ConfigMap")
    proxy.await_log("Reloaded", proxy.reload({"requestheader-client-ca-file": bundle}))
    until(lambda: proxy.get("/readyz")[0] == 500, "it to be compared")
    equal(world.ask("PUT", TRUST + "/extension-apiserver-authentication", believed(world, "X-Remote-User")).status, 200, "the same words")
    proxy.await_log("Reloaded", proxy.reload({}))
    until(lambda: proxy.get("/readyz")[0] == 200, "ready")
    equal(world.ask("DELETE", TRUST + "/extension-apiserver-authentication").status, 200, "gone")


if __name__ == "__main__":
    fixture.main(globals())
