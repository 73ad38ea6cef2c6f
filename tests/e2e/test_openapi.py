#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""/openapi/v3: the index of all servers, and each document from one that has it."""

import hashlib
import json

import fixture
import rawh2
from fixture import check, equal, until

INDEX = "/openapi/v3"
NEW = "apis/resource.k8s.io/v1"  # 1.34 has it, 1.33 does not
BOTH = "apis/apps/v1"
MORE = "apis/batch/v1"  # both have it, 1.34 with one resource more
EXTRA = {"a": [{"group": "old.example.io", "version": "v1", "resource": "things", "kind": "Thing"}],
         "b": [{"group": "batch", "version": "v1", "resource": "gadgets", "kind": "Gadget"}]}
BOB = {"Authorization": "Bearer token-root"}


def setup():
    world = fixture.World(servers={n: {"extra": rows} for n, rows in EXTRA.items()}, options={"discovery-authz-ttl": "0s", "discovery-refresh-interval": "2s"}).start()
    until(lambda: NEW in paths(world) and "apis/old.example.io/v1" in paths(world, "b"), "the indexes to be read")
    return world


def index(world, name="a", direct=False, headers=None, **more):
    return world.ask("GET", INDEX, name=name, direct=direct, headers=headers, **more)


def paths(world, name="a", direct=False):
    answer = index(world, name, direct)
    equal(answer.status, 200, "the index")
    return {path: item["serverRelativeURL"] for path, item in answer.json()["paths"].items()}


def resources(world, name, path):
    """Of the group/version at this path of the index, as that server itself has them."""
    answer = world.ask("GET", "/" + path, name=name, direct=True)
    return {r["name"] for r in answer.json()["resources"] if "/" not in r["name"]} if answer.status == 200 and path.count("/") > 0 else set()


def served_by(answer):
    return answer.header("X-Mvproxy-Served-By")


def test_index(world):
    """the union of all; what the local server has with its hash, in the form of kube-openapi, with a tag of the bytes"""
    own, other, merged = paths(world, direct=True), paths(world, "b", direct=True), paths(world)
    equal(set(merged), set(own) | set(other), "paths")
    check(own[BOTH] != other[BOTH], "the premise: hashes differ")
    richer = {p for p in own if p in other and resources(world, "a", p) < resources(world, "b", p)}
    equal({p: u for p, u in merged.items() if p in own}, {p: other[p] if p in richer else u for p, u in own.items()}, "the local server's own")
    equal({p: u for p, u in merged.items() if p not in own}, {p: u for p, u in other.items() if p not in own}, "the peer's")
    check(MORE in richer and BOTH not in richer and own[MORE] != other[MORE], "of a version in which it lacks a resource the peer's", richer)
    equal(paths(world, "b")[MORE], other[MORE], "where nothing is lacking the own")
    answer = index(world)
    equal(answer.body, b'{"paths":{' + answer.body[10:], "compact")
    equal(list(answer.json()["paths"]), sorted(merged), "in order")
    equal(answer.header("ETag"), '"%s"' % hashlib.sha512(answer.body).hexdigest().upper(), "ETag")
    equal(answer.header("Content-Type"), index(world, direct=True).header("Content-Type"), "Content-Type")
    check(answer.header("Audit-Id"), "Audit-Id")


def test_conditional(world):
    """If-None-Match with our tag: 304; with the local server's own: the whole"""
    answer = index(world)
    again = index(world, headers={"If-None-Match": answer.header("ETag")})
    equal((again.status, again.body, again.header("ETag")), (304, b"", answer.header("ETag")), "304")
    own = index(world, direct=True).header("ETag")
    equal(index(world, headers={"If-None-Match": own}).status, 200, "another tag")
    head = world.ask("HEAD", INDEX)
    equal((head.status, head.body, head.header("ETag")), (200, b"", answer.header("ETag")), "HEAD")


def test_documents(world):
    """each document from the server whose hash the index names, with its fields for caches"""
    for name in "ab":
        for path, url in paths(world, name).items():
            answer = world.ask("GET", url, name=name)
            wanted = [world.ask("GET", url, name=n, direct=True) for n in "ab"]
            wanted = [w for w in wanted if w.status == 200]
            check(answer.body in [w.body for w in wanted], path)
            equal(answer.header("ETag").strip('"'), url.split("=")[1], "the hash is the tag")
            equal(answer.header("Cache-Control"), "public, immutable", "Cache-Control")
            check(answer.header("Expires"), "Expires")
            check(bool(served_by(answer)) == (paths(world, name, direct=True).get(path) != url), path)


def test_another_hash(world):
    """a hash that only a peer has is the peer's, so that who read the index elsewhere is not sent round in a circle"""
    there = paths(world, "b", direct=True)[BOTH]
    equal(world.ask("GET", there, direct=True).status, 301, "the premise")
    answer = world.ask("GET", there)
    equal((answer.status, bool(served_by(answer))), (200, True), "the peer's")
    equal(world.ask("GET", "/openapi/v3/" + BOTH).header("ETag"), world.ask("GET", "/openapi/v3/" + BOTH, direct=True).header("ETag"),
          "no hash: local")
    old = "/openapi/v3/%s?hash=0123" % BOTH
    equal((world.ask("GET", old).status, world.ask("GET", old).header("Location")), (301, paths(world, direct=True)[BOTH]), "nobody's")
    gone = "/openapi/v3/%s?hash=0123" % NEW
    equal((world.ask("GET", gone).status, world.ask("GET", gone).header("Location")), (301, paths(world)[NEW]), "the peer's, outdated")
    equal(world.ask("GET", "/openapi/v3/apis/nobody.io/v1").status, 404, "nobody has it")


def test_readers(world):
    """given to whom the local server lets read it"""
    for user, headers in (("admin", None), ("alice", None), (None, BOB), (None, None)):
        direct = index(world, direct=True, user=user, headers=headers)
        answer = index(world, user=user, headers=headers)
        equal(answer.status, direct.status, "%s" % user)
        check(answer.status == 200 or (NEW.encode() not in answer.body and answer.body == direct.body), "%s" % user)


def test_marked(world):
    """who comes from a peer hears of the local server alone"""
    for name in "ab":
        fields = {"x-kubernetes-peer-proxied": "true", "X-Remote-User": "admin", "X-Remote-Group": "system:masters"}
        answer = world.ask("GET", INDEX, name=name, user="front-proxy-client", headers=fields)
        equal(answer.status, 200, "status")
        equal(set(answer.json()["paths"]), set(paths(world, name, direct=True)), "the local index")


def test_custom_resources(world):
    """a CRD's schema is every server's own: never a peer's"""
    crd = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.example.com"},
           "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
                    "versions": [{"name": "v1", "served": True, "storage": True}]}}
    equal(world.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd).status, 201, "CRD")
    until(lambda: "apis/example.com/v1" in paths(world), "the schema")
    equal(paths(world)["apis/example.com/v1"], paths(world, direct=True)["apis/example.com/v1"], "the local one")
    mark = world.sim.mark()
    equal(world.ask("GET", paths(world)["apis/example.com/v1"]).status, 200, "it")
    equal({r["server"] for r in world.sim.requests(path="/openapi/v3/apis/example.com", since=mark)}, {"a"}, "who")


def test_local_away(world):
    """the local server is away: its peers' index and documents, and OpenAPI v2"""
    there = paths(world, "b", direct=True)
    world.sim.kill_server("a")
    answer = index(world)
    equal((answer.status, bool(served_by(answer))), (200, True), "the index")
    check(set(answer.json()["paths"]) >= set(there), "all of it")
    for path in (NEW, BOTH):
        equal(world.ask("GET", there[path]).status, 200, path)
    check(served_by(world.ask("GET", "/openapi/v2")), "v2")
    world.sim.start_server("a")
    until(lambda: served_by(index(world)) is None, "the local server to be back")


def test_peer_away(world):
    """the peer is away: the index as it was, its documents 503"""
    url = paths(world)[NEW]
    world.sim.kill_server("b")
    answer = world.ask("GET", url)
    equal((answer.status, bool(answer.header("Retry-After"))), (503, True), "its document")
    equal(world.ask("GET", paths(world, direct=True)[BOTH]).status, 200, "the local ones")
    world.sim.start_server("b")
    until(lambda: world.ask("GET", url).status == 200, "the peer to be back")


def test_alike(world):
    """servers of one release: nothing is added, and the local server's answer is not touched"""
    world.sim.restart_server("a", profile="v1.34", extra=EXTRA["b"])
    until(lambda: NEW in paths(world, direct=True) and world.ask("GET", INDEX).body == index(world, direct=True).body, "the same")
    equal(index(world).header("ETag"), index(world, direct=True).header("ETag"), "the server's own tag")


def served_index(world, name, urls):
    return world.sim.fault("status", server=name, path=INDEX, exact=True, status=200, body=json.dumps({"paths": {p: {"serverRelativeURL": u} for p, u in urls.items()}}),
                           contentType="application/json")


def crds(n, who):
    return {"apis/crd%05d.example.com/v1" % i: "/openapi/v3/apis/crd%05d.example.com/v1?hash=%s%0127d" % (i, who, i) for i in range(n)}


def test_large(world):
    """20,000 CRDs: merged as few are; over 8 MiB: said in log and status"""
    proxy = world.proxies["a"]
    own, other = (dict(paths(world, n, direct=True), **crds(20000, w)) for n, w in (("a", "A"), ("b", "B")))
    other["apis/only.example.net/v1"] = "/openapi/v3/apis/only.example.net/v1?hash=1"
    faults = [served_index(world, "a", own), served_index(world, "b", other)]
    until(lambda: "apis/only.example.net/v1" in paths(world), "a large index to be merged", 60)
    merged = paths(world)
    equal(set(merged), set(own) | set(other), "paths")
    equal({p: merged[p] for p in crds(20000, "A")}, crds(20000, "A"), "hashes of the local server")
    answer = index(world)
    equal(list(answer.json()["paths"]), sorted(merged), "in order")
    equal(answer.header("ETag"), '"%s"' % hashlib.sha512(answer.body).hexdigest().upper(), "ETag")
    mark = proxy.log_mark()
    world.sim.heal(faults.pop())
    faults.append(served_index(world, "b", crds(50000, "B")))
    proxy.await_log("index of schemas (/openapi/v3) of a server cannot be used", mark)
    check("b" in fixture.ctl(world, "status")[1].split("cannot be used (it is over 8 MiB): ")[1].splitlines()[0], "said to an operator")
    for fault in faults:
        world.sim.heal(fault)
    until(lambda: "over 8 MiB" not in fixture.ctl(world, "status")[1], "the end of it", 60)
    until(lambda: set(paths(world)) == set(paths(world, direct=True)) | set(paths(world, "b", direct=True)), "as before", 60)


def test_large_with_trailers(world):
    """an answer of known length that is more than may wait at once, and ends with trailers, which only HTTP/2 allows: whole"""
    body = '{"paths":{},"more":"%s"}' % ("x" * (6 << 20))
    fault = world.sim.fault("trailers", "a", "GET", INDEX, body=body, contentType="application/json")
    with world.client(user="admin", alpn=("h2",)) as conn:
        client = rawh2.RawH2(conn)
        equal(hashlib.sha256(client.whole(client.request("GET", INDEX))).hexdigest(), hashlib.sha256(body.encode()).hexdigest(), "body")
    world.sim.heal(fault)


if __name__ == "__main__":
    fixture.main(globals())
