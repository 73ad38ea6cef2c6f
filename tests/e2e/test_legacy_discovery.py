#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""legacy-discovery: /apis, /apis/GROUP, /api/v1 and /apis/GROUP/VERSION are completed with what only a peer serves, while servers differ."""

import json

import fixture
from fixture import check, equal, until

# 1.34 has it and 1.33 does not; its APIService is in the store that both share.
GROUP = "/apis/resource.k8s.io"
VERSION = GROUP + "/v1"
PLAIN = "404 page not found\n"
PROTOBUF = "application/vnd.kubernetes.protobuf"
# Only b has these: a group, a version, a resource, a subresource, a verb; of the core group as well.
MORE = [{"group": "only.example.io", "version": "v1", "resource": "things", "kind": "Thing", "namespaced": True,
         "verbs": ["get", "list"], "subresources": {"status": {"verbs": ["get"]}}},
        {"group": "", "version": "v1", "resource": "gadgets", "kind": "Gadget", "namespaced": False, "verbs": ["get", "list"]}]


def setup():
    return fixture.World(servers={"b": {"extra": MORE}}).start()


def switch(world, wanted):
    proxy = world.proxies["a"]
    proxy.await_log("Reloaded", proxy.reload({"legacy-discovery": wanted}))
    world.settle()


def same(one, two, what):
    equal((one.status, one.body), (two.status, two.body), what)


def names(answer, what):
    return [item["name"] for item in answer.json()[what]]


def test_version(world):
    """a group/version that only a peer has: the same resources as there"""
    for path in (VERSION, "/apis/only.example.io/v1"):
        answer, there = world.ask("GET", path), world.ask("GET", path, name="b", direct=True)
        equal((answer.status, answer.header("Content-Type")), (200, "application/json"), path)
        equal(answer.json(), there.json(), path)
        head = world.ask("HEAD", path)
        equal((head.status, head.body), (200, b""), "HEAD")
        equal(head.header("Content-Type"), "application/json", "HEAD")
    check(world.ask("GET", VERSION).header("Audit-Id"), "an Audit-Id")


def test_group(world):
    """a group that only a peer has, and in the list of groups"""
    answer = world.ask("GET", "/apis/only.example.io")
    equal((answer.status, answer.json()), (200, world.ask("GET", "/apis/only.example.io", name="b", direct=True).json()), "the group")
    listed = world.ask("GET", "/apis")
    equal(sorted(names(listed, "groups")), sorted(names(world.ask("GET", "/apis", name="b", direct=True), "groups")), "groups")
    equal({g["name"] for g in world.ask("GET", "/apis", name="b").json()["groups"]}, set(names(listed, "groups")), "at b")
    merged = world.ask("GET", "/apis", headers={"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"})
    equal([g["metadata"]["name"] for g in merged.json()["items"]], names(listed, "groups"), "in the order of the merged document")


def test_core(world):
    """the core group: a resource that only a peer has, and its subresources"""
    mine, there = world.ask("GET", "/api/v1", direct=True), world.ask("GET", "/api/v1", name="b", direct=True)
    answer = world.ask("GET", "/api/v1")
    equal(set(names(answer, "resources")), set(names(mine, "resources")) | set(names(there, "resources")), "all of them")
    check("gadgets" not in names(mine, "resources"), "the premise")
    check("pods/resize" in names(answer, "resources") or "pods/resize" not in names(there, "resources"), "pods/resize")
    by_name = {r["name"]: r for r in mine.json()["resources"]}
    for one in answer.json()["resources"]:
        check(one["name"] not in by_name or set(by_name[one["name"]]["verbs"]) <= set(one["verbs"]), one)


def test_aggregated_core(world):
    """/api in its aggregated form: merged, and the local one for whoever asks for that"""
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

    def resources(name, more="", **how):
        answer = world.ask("GET", "/api", name=name, headers={"Accept": accept + more}, **how)
        equal(answer.status, 200, "status")
        return answer, {r["resource"] for r in answer.json()["items"][0]["versions"][0]["resources"]}

    answer, all_of_them = resources("a")
    check("gadgets" in all_of_them, all_of_them)
    check("gadgets" not in resources("a", ";profile=nopeer")[1], "profile=nopeer")
    other, _ = resources("b")
    equal((other.body, other.header("ETag")), (answer.body, answer.header("ETag")), "the same at both")
    equal(world.ask("GET", "/api/", headers={"Accept": accept}).body, answer.body, "so it is with a slash")
    equal(world.ask("GET", "/api", headers={"Accept": accept, "If-None-Match": answer.header("ETag")}).status, 304, "conditional")
    equal(world.ask("GET", "/api", user="alice", headers={"Accept": accept}).status,
          world.ask("GET", "/api", user="alice", headers={"Accept": accept}, direct=True).status, "for alice")
    equal(world.ask("GET", "/api", user=None, headers={"Accept": accept}).status, 403, "for nobody")


def test_rest_is_local(world):
    """what lacks nothing, what nobody has, and all other methods are the local server's, untouched"""
    for method, path in (("GET", "/apis/apps"), ("GET", "/apis/apps/v1"), ("GET", "/api"), ("GET", "/apis/apps/v7"),
                         ("GET", "/apis/nobody.example.com"), ("GET", "/apis/nobody.example.com/v1"), ("DELETE", VERSION)):
        mark = world.sim.mark()
        same(world.ask(method, path), world.ask(method, path, direct=True), "%s %s" % (method, path))
        equal({r["server"] for r in world.sim.requests(path=path, since=mark)}, {"a"}, "who answered %s" % path)
    for path in ("/api/v1", "/apis", "/apis/only.example.io/v1"):
        same(world.ask("GET", path, name="b"), world.ask("GET", path, name="b", direct=True), "at the server that has all, " + path)


def test_accept(world):
    """YAML, and protobuf alone or before others: the same lists; a form that there is none in is no 404 for what a peer has"""
    answer = world.ask("GET", VERSION, headers={"Accept": "application/yaml"})
    equal((answer.status, answer.header("Content-Type")), (200, "application/yaml"), "YAML")
    equal(json.loads(answer.body)["kind"], "APIResourceList", "YAML")
    for accept in (PROTOBUF, PROTOBUF + ", */*", PROTOBUF + ",application/json"):
        for path, kind, name in ((VERSION, b"APIResourceList", b"deviceclasses"), (GROUP, b"APIGroup", b"resource.k8s.io/v1"),
                                 ("/apis", b"APIGroupList", b"only.example.io/v1"), ("/api/v1", b"APIResourceList", b"gadgets")):
            answer = world.ask("GET", path, headers={"Accept": accept})
            equal((answer.status, answer.header("Content-Type")), (200, PROTOBUF), "%s as %s" % (path, accept))
            check(answer.body.startswith(b"k8s\0\n") and kind in answer.body[:40] and name in answer.body, answer.body)
        equal(world.ask("GET", "/apis", user=None, headers={"Accept": accept}).status, 403, "for nobody")
    answer = world.ask("GET", VERSION, headers={"Accept": PROTOBUF + ", application/json;q=1.0, */*;q=0.1"})
    equal((answer.status, answer.header("Content-Type")), (200, PROTOBUF), "the first of two that count the same")
    other = {"Accept": "application/cbor"}
    equal(world.ask("GET", VERSION, headers=other).status, 406, "another form")


def test_authorization(world):
    """the local server judges who asks, as without us; who is refused learns nothing of the peer's"""
    for user in ("admin", "alice", None):
        for path in (VERSION, "/apis", "/api/v1"):
            direct = world.ask("GET", path, user=user, direct=True)
            answer = world.ask("GET", path, user=user)
            equal(answer.status, 200 if direct.status == 404 else direct.status, "%s for %s" % (path, user))
            check(direct.status != 403 or b"things" not in answer.body, answer.body)


def test_local_away(world):
    """the local server is away: a peer's answers, all the same"""
    wanted = {path: world.ask("GET", path).json() for path in ("/apis", "/api/v1", VERSION)}
    world.sim.kill_server("a")
    for path, document in wanted.items():
        answer = world.ask("GET", path)
        equal((answer.status, list(answer.json())), (200, list(document)), path)
        check(answer.header("X-Mvproxy-Served-By"), answer.headers)
    for path in ("/api", "/apis"):
        equal(world.ask("GET", path, headers={"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}).status, 200,
              path)
    equal(world.ask("GET", "/api").json()["kind"], "APIVersions", "/api")
    world.sim.start_server("a")
    until(lambda: world.ask("GET", "/api/v1").header("X-Mvproxy-Served-By") is None, "the local server to be back")


def test_peer_away(world):
    """the peer is away: never 404"""
    world.sim.kill_server("b")
    for _ in range(5):
        answer = world.ask("GET", VERSION)
        check(answer.status == 200 or (answer.status == 503 and answer.header("Retry-After")), answer.status)
    world.sim.start_server("b")
    until(lambda: world.ask("GET", VERSION).status == 200, "the peer to be back")


def test_own_away(world):
    """the server that alone has it is away, and its own proxy asks a peer: what that lacks is listed still, and 503, never 404"""
    world.sim.kill_server("b")
    for path in (VERSION, GROUP, "/apis/only.example.io/v1"):
        answer = world.ask("GET", path, name="b")
        equal((answer.status, answer.header("Retry-After")), (503, "1"), path)
    check("only.example.io" in names(world.ask("GET", "/apis", name="b"), "groups"), "the list of groups")
    check("gadgets" in names(world.ask("GET", "/api/v1", name="b"), "resources"), "the core group")
    world.sim.start_server("b")
    until(lambda: world.ask("GET", VERSION, name="b").status == 200, "the server to be back")
    until(lambda: world.ask("GET", VERSION).status == 200, "and its peer to know it")


def test_off(world):
    """off: the local server's answers as they are"""
    switch(world, "off")
    for path in (GROUP, VERSION, "/apis", "/api/v1"):
        same(world.ask("GET", path), world.ask("GET", path, direct=True), path)
    equal(world.ask("GET", VERSION).body.decode(), PLAIN, "off")
    equal(world.ask("GET", VERSION + "/deviceclasses").status, 200, "but the resource is a peer's")
    switch(world, "on")
    equal(world.ask("GET", VERSION).status, 200, "on")


if __name__ == "__main__":
    fixture.main(globals())
