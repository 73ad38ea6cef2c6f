#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One API of a server lists more than anybody reads: it costs nobody else's discovery, no request, and no node its readiness."""

import json

import fixture
from fixture import check, equal, until

MAPS = "/api/v1/namespaces/default/configmaps"
CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"  # of b alone
NOTHING = "/apis/apps/v1/foos"
V2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
AGGREGATED = {"Accept": V2}


def setup():
    world = fixture.World(options={"discovery-refresh-interval": "1s"}).start()
    world.whole = world.ask("GET", "/apis", headers=AGGREGATED, direct=True).json()
    return world


def resource(name, subresources=(), verbs=("get",), **more):
    one = {"resource": name, "responseKind": {"group": "", "version": "", "kind": "Metric"}, "scope": "Namespaced", "singularResource": "",
           "verbs": list(verbs)}
    if subresources:
        one["subresources"] = [{"subresource": s, "responseKind": one["responseKind"], "verbs": ["get"]} for s in subresources]
    return dict(one, **more)


def group(*versions):
    return {"metadata": {"name": "custom.metrics.k8s.io"}, "versions": [dict(v, freshness="Current") for v in versions]}


def served(world, more):
    """Server a lists this group as well; the number of the fault that makes it."""
    whole = dict(world.whole, items=world.whole["items"] + [more])
    return world.sim.fault("status", server="a", path="/apis", exact=True, status=200, body=json.dumps(whole), contentType=V2)


def listed(world, name):
    answer = world.ask("GET", "/apis", name=name, headers=AGGREGATED)
    return answer.status == 200 and {g["metadata"]["name"] for g in answer.json()["items"]}


def restarted(world, name="a"):
    world.proxies[name].stop()
    world.proxies[name].start()
    world.proxies[name].await_ready()


def all_well(world, when):
    for name in "ab":
        equal(world.ask("GET", MAPS, name=name).status, 200, "%s: what all serve, at %s" % (when, name))
        equal(world.ask("GET", CLASSES, name=name).status, 200, "%s: what one serves, at %s" % (when, name))
        equal(world.proxies[name].get("/readyz")[0], 200, "%s: /readyz of %s" % (when, name))


def test_many(world):
    """7000 metrics, 20000 resources, 1000 versions or verbs: read like any other document, at once and after a restart"""
    shapes = {
        "metrics": group({"version": "v1beta1", "resources": [resource("pods", ["metric_%d_%s" % (i, "x" * 50) for i in range(7000)])]}),
        "resources": group({"version": "v1beta1", "resources": [resource("things%d" % i) for i in range(20000)]}),
        "versions": group(*[{"version": "v%d" % i, "resources": [resource("things")]} for i in range(1, 1001)]),
        "verbs": group({"version": "v1beta1", "resources": [resource("things", verbs=["verb%d" % i for i in range(1000)])]}),
    }
    for what, shape in shapes.items():
        fault = served(world, shape)
        for name in "ab":
            until(lambda n=name: "custom.metrics.k8s.io" in (listed(world, n) or ()), "%s: %s to list it" % (what, name))
        all_well(world, what)
        restarted(world)
        until(lambda: "custom.metrics.k8s.io" in listed(world, "a"), what + ": listed after a restart")
        all_well(world, what + ", restarted")
        world.sim.heal(fault)
        until(lambda: "custom.metrics.k8s.io" not in listed(world, "a") | listed(world, "b"), what + ": gone")


def test_unreadable(world):
    """a document that cannot be read: the last one counts; and where there is none the local server answers what it can, and the node is ready"""
    proxy = world.proxies["a"]
    mark = proxy.log_mark()
    fault = served(world, group({"version": "v1beta1", "resources": [resource("things", categories=["x" * (2 << 20)])]}))
    proxy.await_log("Could not read discovery", mark)
    seen = world.sim.hits(fault)
    until(lambda: world.sim.hits(fault) > seen + 4, "failures in a row")
    all_well(world, "unreadable")
    check("resource.k8s.io" in listed(world, "a"), "merged discovery")
    restarted(world)
    equal(world.ask("GET", MAPS).status, 200, "what the local server serves, after a restart")
    equal(world.ask("POST", MAPS, {"metadata": {"name": "one"}}).status, 201, "a write")
    equal(world.ask("GET", CLASSES).status in (200, 503), True, "what it lacks is not denied")
    equal(world.ask("GET", NOTHING).status, 404, "what nobody serves")
    equal(proxy.get("/readyz")[0], 200, "/readyz")
    check("too big" in fixture.ctl(world, "status")[1], "said to an operator", fixture.ctl(world, "peers"), fixture.ctl(world, "status"))
    world.sim.heal(fault)
    until(lambda: world.ask("GET", CLASSES).status == 200 and "resource.k8s.io" in listed(world, "a"), "as before")
    all_well(world, "healed")


if __name__ == "__main__":
    fixture.main(globals())
