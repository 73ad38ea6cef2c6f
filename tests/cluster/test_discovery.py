# SPDX-License-Identifier: Apache-2.0
"""Discovery documents: one for all servers, and the local one for whoever asks for it."""

from harness import waiting
from harness.api import AGGREGATED, BETA, CRDS, NOPEER, crd, ensure, expect, own_resources, remove, resources, same
from harness.rolling import restart_proxy
from harness.runner import core, needs

KUBECTL_ACCEPT = (AGGREGATED + ",application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json")


def _merged(node, user="admin", **headers):
    return node.proxied(user).get("/apis", Accept=AGGREGATED, **headers)


def _settle(cluster):
    """Until what earlier tests made and removed (CRDs) is known everywhere."""
    waiting.until(lambda: len({_merged(n).header("ETag") for n in cluster.nodes}) == 1, "equal ETags")


@core
def test_equal(cluster):
    """the merged document is the same at every node, byte for byte, with the same ETag"""
    _settle(cluster)
    first = expect(_merged(cluster.old), 200)
    tag = first.header("ETag")
    assert tag and tag.startswith('"') and tag.endswith('"') and len(tag) > 20, tag
    for node in cluster.nodes[1:]:
        other = expect(_merged(node), 200)
        assert (other.body, other.header("ETag")) == (first.body, tag), (first, other)


@core
def test_union(cluster):
    """it has exactly what the servers have together: every resource, subresource and verb"""
    union = {}
    for node in cluster.nodes:
        for key, verbs in own_resources(node).items():
            union.setdefault(key, set()).update(verbs)
    merged = resources(_merged(cluster.old).json())
    assert set(merged) == set(union), set(merged) ^ set(union)
    for key, verbs in union.items():
        assert merged[key] == verbs, (key, merged[key], verbs)
    names = [g["metadata"]["name"] for g in _merged(cluster.old).json()["items"]]
    assert len(names) == len(set(names)), names


@core
@needs("v2")
def test_headers(cluster):
    """its headers are those of kube-apiserver's own document"""
    direct = expect(cluster.new.direct().get("/apis", Accept=AGGREGATED), 200)
    for node in cluster.nodes:
        through = _merged(node)
        for name in ("Content-Type", "Vary", "Cache-Control"):
            assert through.all(name) == direct.all(name), (name, through.all(name), direct.all(name))


@core
def test_not_modified(cluster):
    """If-None-Match with its ETag gives 304 at every node, another one gives 200"""
    tag = _merged(cluster.old).header("ETag")
    for node in cluster.nodes:
        answer = expect(_merged(node, If_None_Match=tag), 304)
        assert answer.body == b"" and answer.header("ETag") == tag, answer
        expect(_merged(node, If_None_Match='"something else"'), 200)


def test_head(cluster):
    """HEAD gives the headers and no body"""
    answer = expect(cluster.old.proxied().request("HEAD", "/apis", headers={"Accept": AGGREGATED}), 200)
    assert answer.body == b"" and answer.header("ETag") == _merged(cluster.old).header("ETag"), answer


@core
def test_nopeer(cluster):
    """profile=nopeer gives the local server's own document"""
    for node in cluster.nodes:
        direct = node.direct().get("/apis", Accept=NOPEER)
        through = node.proxied().get("/apis", Accept=NOPEER)
        assert (through.status, through.body) == (direct.status, direct.body), (direct, through)
        assert through.header("ETag") == direct.header("ETag"), (direct, through)
        if direct.header("ETag"):
            expect(node.proxied().get("/apis", Accept=NOPEER, If_None_Match=direct.header("ETag")), 304)


@core
def test_negotiation(cluster):
    """what kubectl sends, and an unknown profile, give the merged document"""
    tag = _merged(cluster.old).header("ETag")
    for accept in (KUBECTL_ACCEPT, AGGREGATED + ";profile=somebody", "application/json," + AGGREGATED,
                   AGGREGATED + ";q=0.1,application/json;q=0.9"):
        answer = expect(cluster.old.proxied().get("/apis", Accept=accept), 200)
        assert answer.header("ETag") == tag, (accept, answer)


@core
def test_healed(cluster):
    """legacy discovery names what only the newer server has"""
    for node in cluster.nodes:
        for slash in ("", "/"):  # clients that were generated from OpenAPI write one
            listed = expect(node.proxied().get("/apis/" + cluster.skew.group_version + slash), 200).json()
            there = expect(cluster.new.direct().get("/apis/" + cluster.skew.group_version), 200).json()
            names = [{r["name"]: sorted(r["verbs"]) for r in one["resources"]} for one in (listed, there)]
            assert names[0].items() >= names[1].items(), (names, node.name)
            listed = expect(node.proxied().get("/apis" + slash), 200).json()["groups"]
            groups = {g["name"]: [v["version"] for v in g["versions"]] for g in listed}
            assert cluster.skew.version in groups[cluster.skew.group], (node.name, slash, groups)


@core
def test_healed_protobuf(cluster):
    """legacy discovery as protobuf says the same as JSON, in the server's own bytes where nothing is added"""
    skewed, form = cluster.skew.group_version, "application/vnd.kubernetes.protobuf"
    some = (cluster.skew.group, "apps", "autoscaling", "policy", "rbac.authorization.k8s.io", "apiextensions.k8s.io")
    same_bytes = 0
    for node in cluster.nodes:
        listed = [g for g in expect(node.proxied().get("/apis"), 200).json()["groups"] if g["name"] in some]
        paths = ["/apis", "/api", "/api/v1", *["/apis/" + g["name"] for g in listed],
                 *["/apis/" + v["groupVersion"] for g in listed for v in g["versions"]]]
        assert "/apis/" + skewed in paths, paths
        for path in paths:
            own, through = node.direct().get(path), expect(node.proxied().get(path), 200)
            for accept in (form, form + ", */*") if skewed in path or path == "/apis" else (form,):
                answer = expect(node.proxied().get(path, Accept=accept), 200)
                assert answer.header("Content-Type") == form, (node.name, path, answer)
                if own.status == 200 and own.json() == through.json():
                    assert answer.body == expect(node.direct().get(path, Accept=accept), 200).body, (node.name, path)
                    same_bytes += 1
                for one in through.json().get("resources", []) + through.json().get("groups", []):
                    assert one["name"].encode() in answer.body, (node.name, path, one)
        there = expect(node.proxied().get("/apis", Accept=form), 200)
        assert skewed.encode() in there.body, (node.name, there)
        refused, own = [c("anonymous").get("/apis", Accept=form) for c in (node.proxied, node.direct)]
        assert (refused.status, refused.body) == (own.status, own.body) and refused.header("Content-Type") == form, (refused, own)
    assert same_bytes > 10, same_bytes


@core
@needs("v2")
def test_deleted_apiservice(cluster):
    """legacy discovery names a group whose APIService is gone: an older server that starts deletes it, and kube-apiserver goes by it"""
    path = "/apis/apiregistration.k8s.io/v1/apiservices"
    name = "%s/%s.%s" % (path, cluster.skew.version, cluster.skew.group)
    client = cluster.new.direct()

    def names(asked):
        groups = expect(asked.get("/apis"), 200).json()["groups"]
        return cluster.skew.group_version in [v["groupVersion"] for g in groups for v in g["versions"]]

    before = client.get(name)
    remove(client, name)
    try:
        waiting.until(lambda: not names(client), "its own server to name it no more")
        for node in cluster.nodes:
            assert names(node.proxied()), node.name
    finally:
        if before.status == 200:
            stored = before.json()
            stored["metadata"] = {key: stored["metadata"][key] for key in ("name", "labels")}
            expect(client.request("POST", path, stored), 201)


@core
def test_legacy(cluster):
    """legacy discovery in which nobody differs is the local server's answer"""
    for node in cluster.nodes:
        for path, accept in (("/apis/apps/", "application/json"), ("/apis/apps", "application/json"),
                             ("/apis/apps/v1", "application/json"), ("/api", "application/json"),
                             ("/apis", "application/vnd.kubernetes.protobuf"), ("/api", "application/yaml")):
            direct = node.direct().get(path, Accept=accept)
            through = node.proxied().get(path, Accept=accept)
            assert (direct.status, direct.body) == (through.status, through.body), (path, accept, direct, through)


@core
def test_schemas(cluster):
    """the index of schemas names what all have, each with the hash of a server that has it, its own where that lacks no resource of it; who may not read it does not"""
    served = {n.name: own_resources(n) for n in cluster.nodes}

    def names(node, path):
        return {r for g, v, r in served[node.name] if "apis/%s/%s" % (g, v) == path and "/" not in r}

    own = {n.name: expect(n.direct().get("/openapi/v3"), 200).json()["paths"] for n in cluster.nodes}
    new = "apis/" + cluster.skew.group_version
    for node in cluster.nodes:
        merged = waiting.until(lambda n=node: (lambda paths: paths if new in paths else None)(
            expect(n.proxied().get("/openapi/v3"), 200).json()["paths"]), "the schema of %s at %s" % (new, node.name))
        assert set(merged) == set().union(*own.values()), set(merged) ^ set().union(*own.values())
        for path, item in merged.items():
            richer = any(names(n, path) > names(node, path) for n in cluster.nodes)
            assert item in [paths.get(path) for paths in own.values()] and (richer or item == own[node.name].get(path, item)), (node.name, path)
        url = merged[new]["serverRelativeURL"]
        for accept in ("application/json", "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"):
            answer, there = node.proxied().get(url, Accept=accept), cluster.new.direct().get(url, Accept=accept)
            assert (answer.status, answer.body) == (there.status, there.body), (url, accept, answer, there)
            for field in ("ETag", "Cache-Control", "Content-Type"):
                assert answer.header(field) == there.header(field), (url, accept, field, answer, there)
        assert node.proxied("anonymous").get("/openapi/v3").status == node.direct("anonymous").get("/openapi/v3").status


@core
@needs("v2")
def test_core(cluster):
    """/api is merged as /apis is, and profile=nopeer is the local one"""
    seen = [expect(n.proxied().get("/api", Accept=AGGREGATED), 200) for n in cluster.nodes]
    for one in seen:
        assert (one.body, one.header("ETag")) == (seen[0].body, seen[0].header("ETag"))
    def names(answer):
        return {(r["resource"], s.get("subresource")) for v in answer.json()["items"][0]["versions"] for r in v["resources"]
                for s in [{}, *r.get("subresources", [])]}
    union = set().union(*[names(expect(n.direct().get("/api", Accept=NOPEER), 200)) for n in cluster.nodes])
    assert names(seen[0]) == union, names(seen[0]) ^ union
    for node in cluster.nodes:
        assert expect(node.proxied().get("/api/", Accept=AGGREGATED), 200).body == seen[0].body, node.name
        local = expect(node.proxied().get("/api", Accept=NOPEER), 200)
        assert local.body == expect(node.direct().get("/api", Accept=NOPEER), 200).body, node.name


def test_who_may_read(cluster):
    """the merged document is given to those, and only those, whom the server would give its own"""
    for node in cluster.nodes:
        for user in ("admin", "alice", "root", "bob", "anonymous", "stranger", "foreign"):
            direct = node.direct(user).get("/apis", Accept=AGGREGATED)
            through = _merged(node, user)
            assert direct.status == through.status, (user, direct, through)
            if direct.status != 200:
                same(direct.json(), through.json(), "refusals of " + user)
            # What an earlier user was allowed says nothing about the next one.
            assert through.status != 200 or user not in ("anonymous", "stranger", "foreign"), (user, through)


def test_custom_resource(cluster):
    """a new CRD appears in the merged document of every node, and leaves it again"""
    admin = cluster.old.proxied()

    def groups(node):
        return [g["metadata"]["name"] for g in _merged(node).json()["items"]]
    try:
        ensure(admin, CRDS, crd("gadgets", "Gadget", "discovery.example.com"))
        for node in cluster.nodes:
            waiting.until(lambda n=node: "discovery.example.com" in groups(n), "the new group at " + node.name)
    finally:
        remove(admin, CRDS + "/gadgets.discovery.example.com")
    for node in cluster.nodes:
        waiting.until(lambda n=node: "discovery.example.com" not in groups(n), "the group gone at " + node.name)
    _settle(cluster)


@needs("v2")
def test_many_versions(cluster):
    """a CRD with 300 versions is in everybody's discovery, and takes no node out of service, also if mvproxy starts then"""
    many, plenties = crd("plenties", "Plenty"), "/apis/example.com/v7/plenties"
    first = many["spec"]["versions"][0]
    many["spec"]["versions"] = [dict(first, name="v%d" % (300 - i), storage=i == 0) for i in range(300)]
    ensure(cluster.new.direct(), CRDS, many)

    def versions(node):
        found = [g["versions"] for g in _merged(node).json()["items"] if g["metadata"]["name"] == "example.com"]
        return sum(any(r["resource"] == "plenties" for r in v.get("resources") or ()) for v in found[0]) if found else 0
    try:
        for node in cluster.nodes:
            waiting.until(lambda n=node: versions(n) == 300, "all versions at " + node.name, 60)
        restart_proxy(cluster.old)
        for node in cluster.nodes:
            waiting.until(lambda n=node: versions(n) == 300, "all versions, after a start, at " + node.name, 60)
            # For the first of them kube-apiserver makes 300 storages, which may take it longer than a client waits.
            waiting.until(lambda n=node: n.direct().get(plenties).status == 200, "a list from %s itself" % node.name, 180)
            expect(node.proxied().get(plenties), 200)
            expect(node.proxied().get(cluster.skew.collection), 200)
            assert node.admin("/readyz")[0] == 200, node.admin("/readyz")
    finally:
        remove(cluster.new.direct(), CRDS + "/plenties.example.com")
        _settle(cluster)


@core
@needs("v2")
def test_entries(cluster):
    """a resource that only one server has is described as that server describes it"""
    def entry(document):
        group = next(g for g in document["items"] if g["metadata"]["name"] == cluster.skew.group)
        version = next(v for v in group["versions"] if v["version"] == cluster.skew.version)
        return next(r for r in version["resources"] if r["resource"] == cluster.skew.resource)
    own = entry(cluster.new.direct().get("/apis", Accept=NOPEER).json())
    for node in cluster.nodes:
        same(own, entry(_merged(node).json()), "the entry of %s at %s" % (cluster.skew.full_name, node.name))
