# SPDX-License-Identifier: Apache-2.0
"""Requests reach a server that serves what they are about."""

import collections
import gzip
import json
import threading
import time

from harness import waiting
from harness.api import (AGGREGATED, CRDS, claim, claims, config_map, config_maps, crd, ensure, ensure_namespace, expect, identity_leases,
                         remove, same, same_bytes)
from harness.node import at
from harness.runner import core, needs


@core
def test_premise(cluster):
    """without mvproxy, a server that lacks a resource answers 404 to what others serve"""
    for node in cluster.nodes:
        # A kube-apiserver that is a proxy itself, and is not told that it is not to be one, asks its peers.
        headers = {"x-kubernetes-peer-proxied": "true"} if "gate" in cluster.traits else {}
        expect(node.direct().request("GET", cluster.skew.collection, headers=headers), 404 if node.lacks else 200)


def _lifecycle(cluster, node):
    client = node.proxied()
    path = cluster.skew.collection + "/life"
    remove(client, path)
    made = expect(client.request("POST", cluster.skew.collection, cluster.skew.thing("life")), 201).json()
    got = expect(client.get(path), 200).json()
    same(made, got, "what was created and what is there")
    listed = expect(client.get(cluster.skew.collection + "?fieldSelector=metadata.name%3Dlife"), 200).json()
    assert [i["metadata"]["name"] for i in listed["items"]] == ["life"], listed
    got["metadata"]["labels"] = {"step": "put"}
    expect(client.request("PUT", path, got), 200)
    patched = expect(client.request("PATCH", path, json.dumps({"metadata": {"labels": {"step": "merge"}}}),
                                    {"Content-Type": "application/merge-patch+json"}), 200).json()
    assert patched["metadata"]["labels"]["step"] == "merge", patched
    expect(client.request("PATCH", path, json.dumps([{"op": "remove", "path": "/metadata/labels/step"}]),
                          {"Content-Type": "application/json-patch+json"}), 200)
    applied = expect(client.request("PATCH", path + "?fieldManager=test&force=true",
                                    json.dumps(cluster.skew.thing("life", {"step": "apply"})),
                                    {"Content-Type": "application/apply-patch+yaml"}), 200).json()
    assert applied["metadata"]["labels"]["step"] == "apply", applied
    expect(client.request("DELETE", path), 200)
    expect(client.get(path), 404)


@core
def test_verbs_old(cluster):
    """create, get, list, update, four kinds of patch and delete of a peer's resource"""
    _lifecycle(cluster, cluster.old)


@core
def test_verbs_new(cluster):
    """the same at the server that has the resource itself"""
    _lifecycle(cluster, cluster.new)


def test_named_like_a_denial(cluster):
    """what is not there, by a name that is the very sentence with which a server denies a path: its 404 is believed, in each form"""
    name = "/the%20server%20could%20not%20find%20the%20requested%20resource"
    for collection in ("/api/v1/namespaces/default/pods", cluster.skew.collection):
        for form in ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf"):
            answer = expect(cluster.old.proxied().request("GET", collection + name, headers={"Accept": form}), 404)
            assert form in answer.header("Content-Type", ""), answer


@core
def test_delete_collection(cluster):
    """deletecollection of a peer's resource"""
    client = cluster.old.proxied()
    for name in ("many-1", "many-2", "many-3"):
        ensure(client, cluster.skew.collection, cluster.skew.thing(name, {"set": "many"}))
    expect(client.request("DELETE", cluster.skew.collection + "?labelSelector=set%3Dmany"), 200)
    left = expect(client.get(cluster.skew.collection + "?labelSelector=set%3Dmany"), 200).json()
    assert left["items"] == [], left


@needs("claims")
def test_namespaced(cluster):
    """a peer's namespaced resource, over all namespaces, and its status subresource"""
    client = cluster.old.proxied()
    ensure_namespace(client, "routing")
    ensure(client, claims("routing"), claim("one"))
    everywhere = expect(client.get("/apis/resource.k8s.io/v1/resourceclaims"), 200).json()
    assert "one" in [i["metadata"]["name"] for i in everywhere["items"]], everywhere
    status = expect(client.get(claims("routing") + "/one/status"), 200).json()
    same(status, cluster.new.direct().get(claims("routing") + "/one/status").json(), "status through mvproxy and directly")
    remove(client, claims("routing") + "/one")


@core
def test_verb_of_nobody(cluster):
    """what a peer's resource cannot be asked for is 405, as at the peer: 404 would say that it is gone"""
    status = cluster.skew.collection + "/none/status"
    for method, path in (("PUT", cluster.skew.collection), ("DELETE", status), ("POST", status)):
        wanted = cluster.new.direct().request(method, path).status
        assert wanted in (404, 405), (method, path, wanted)
        for node in cluster.nodes:
            expect(node.proxied().request(method, path), wanted)


@core
def test_who_answered(cluster):
    """a peer's resource is answered by the peer once, and the local server never sees the request"""
    answer = expect(cluster.old.proxied().get(cluster.skew.collection), 200)
    ids = answer.all("Audit-Id")
    assert len(ids) == 1, "Audit-Id: %r" % ids
    seen = waiting.until(lambda: cluster.audit(ids[0]), "an audit event")
    assert len(seen) == 1 and not seen[0][0].lacks, seen
    for name in ("Cache-Control", "Content-Type", "Date", "X-Kubernetes-Pf-Flowschema-Uid"):
        assert len(answer.all(name)) == 1, "%s: %r" % (name, answer.all(name))


def _lease_of(cluster, node):
    """(path, UID) of its identity Lease; None: there is none at present"""
    for lease in identity_leases(cluster.old.direct()):
        meta = lease["metadata"]
        if meta["labels"].get("kubernetes.io/hostname") == node.name:
            return "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/" + meta["name"], meta["uid"]
    return None


def _edits(cluster):
    """What somebody may do to a Lease, and kube-apiserver leaves as it is."""
    return ({"metadata": {"annotations": None}}, {"spec": {"leaseDurationSeconds": None}}, {"spec": {"holderIdentity": "somebody"}},
            {"metadata": {"annotations": {"kubernetes.io/peer-advertise-address": at(cluster.old.address)}}})


def _freshness(client, skew):
    """Of the skewed group/version in merged discovery; what else is the matter."""
    answer = client.get("/apis", Accept=AGGREGATED)
    if answer.status != 200:
        return answer.status
    return next((v["freshness"] for g in answer.json()["items"] if g["metadata"]["name"] == skew.group
                 for v in g["versions"] if v["version"] == skew.version), "missing")


@core
def test_deleted_lease(cluster):
    """a healthy server's identity Lease that somebody edits and deletes costs nobody an answer, until it is made again and after that"""
    path, uid = _lease_of(cluster, cluster.new)
    statuses, done = [], threading.Event()

    def ask(once):
        client = cluster.old.proxied()
        while not done.is_set():
            statuses.append(once(client))

    asking = [threading.Thread(target=ask, args=(once,)) for once in (
        lambda client: client.get(cluster.skew.collection).status, lambda client: client.get(cluster.skew.collection).status,
        lambda client: _freshness(client, cluster.skew))]
    for thread in asking:
        thread.start()
    try:
        for edit in _edits(cluster) if "leases" in cluster.traits else ():
            expect(cluster.old.direct().request("PATCH", path, json.dumps(edit), {"Content-Type": "application/merge-patch+json"}), 200)
            time.sleep(0.5)
        remove(cluster.old.direct(), path)
        waiting.until(lambda: (_lease_of(cluster, cluster.new) or (path, uid))[1] != uid, "the Lease that is made again", 60)
        time.sleep(2)
    finally:
        done.set()
        for thread in asking:
            thread.join()
    assert len(statuses) > 100 and set(statuses) == {200, "Current"}, collections.Counter(statuses)


@core
def test_local_stays_local(cluster):
    """what both servers serve is answered by the local one"""
    for node in cluster.nodes:
        audit_id = expect(node.proxied().get("/api/v1/namespaces"), 200).header("Audit-Id")
        seen = waiting.until(lambda i=audit_id: cluster.audit(i), "an audit event at " + node.name)
        assert [n for n, _ in seen] == [node], seen


@core
def test_not_found(cluster):
    """what nobody serves gets the local server's own 404"""
    paths = ("/apis/resource.k8s.io/v1/nosuchthings", "/apis/nosuch.example.com/v1/things", "/api/v1/nosuchthings",
             "/apis/resource.k8s.io/v9/deviceclasses", "/nosuchpath")
    for path in paths:
        direct = expect(cluster.old.direct().get(path), 404)
        through = expect(cluster.old.proxied().get(path), 404)
        assert (direct.body, direct.header("Content-Type")) == (through.body, through.header("Content-Type")), (direct, through)


def test_not_resources(cluster):
    """paths that are not resources are the local server's"""
    for node in cluster.nodes:
        version = expect(node.proxied().get("/version"), 200).json()
        assert version["gitVersion"] == "v" + node.spec.version, version
        for path in ("/livez", "/readyz", "/healthz", "/.well-known/openid-configuration"):
            direct, through = node.direct().get(path), node.proxied().get(path)
            assert (direct.status, direct.body) == (through.status, through.body), (path, direct, through)


@core
def test_same_answers(cluster):
    """every representation of a list is, byte for byte, what the serving server gives"""
    ensure(cluster.old.proxied(), cluster.skew.collection, cluster.skew.thing("shown"))
    table = "application/json;as=Table;v=v1;g=meta.k8s.io"
    for path in (cluster.skew.collection, cluster.skew.collection + "/shown"):
        for accept in ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf", table, "*/*",
                       "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"):
            same_bytes(lambda p=path, a=accept: cluster.new.direct().get(p, Accept=a),
                       lambda p=path, a=accept: cluster.old.proxied().get(p, Accept=a), (path, accept))
    unacceptable = cluster.old.proxied().get(cluster.skew.collection, Accept="text/html")
    assert unacceptable.status == cluster.new.direct().get(cluster.skew.collection, Accept="text/html").status, unacceptable


def test_methods(cluster):
    """HEAD, OPTIONS and methods that do not exist get the server's own answer"""
    for path in ("/api/v1/namespaces", cluster.skew.collection):
        for method in ("HEAD", "OPTIONS", "TRACE", "PUT", "MKCOL"):
            direct = cluster.new.direct().request(method, path)
            through = cluster.new.proxied().request(method, path)
            assert direct.status == through.status, (method, path, direct, through)


def test_keep_alive(cluster):
    """one connection carries requests to both servers, one after the other"""
    client = cluster.old.proxied()
    connection = client.connect()
    try:
        for _ in range(50):
            expect(client.request("GET", cluster.skew.collection, connection=connection), 200)
            namespaces = expect(client.request("GET", "/api/v1/namespaces/default", connection=connection), 200)
            assert namespaces.json()["metadata"]["name"] == "default", namespaces
    finally:
        connection.close()


@core
def test_watch(cluster):
    """a watch of a peer's resource shows each change as it happens, wherever it is made"""
    remove(cluster.new.direct(), cluster.skew.collection + "/watched")
    watchers = [node.proxied().watch_from_now(cluster.skew.collection, "fieldSelector=metadata.name%3Dwatched")
                for node in cluster.nodes]
    try:
        for node in cluster.nodes:
            client = node.proxied()
            expect(client.request("POST", cluster.skew.collection, cluster.skew.thing("watched")), 201)
            for watcher in watchers:
                assert watcher.event()["type"] == "ADDED"
            expect(client.request("DELETE", cluster.skew.collection + "/watched"), 200)
            for watcher in watchers:
                assert watcher.event()["type"] == "DELETED"
    finally:
        for watcher in watchers:
            watcher.close()


def test_watch_local(cluster):
    """a watch of what both serve shows changes made at the other server; it ends when its time is over"""
    ensure_namespace(cluster.old.proxied(), "routing")
    path = config_maps("routing")
    with cluster.old.proxied().watch_from_now(path, "timeoutSeconds=3&fieldSelector=metadata.name%3Dseen") as watcher:
        expect(cluster.new.proxied().request("POST", path, config_map("seen")), 201)
        event = watcher.event()
        assert event["type"] == "ADDED" and event["object"]["metadata"]["name"] == "seen", event
        remove(cluster.new.proxied(), path + "/seen")
        assert watcher.event()["type"] == "DELETED"
        assert watcher.event() is None, "the stream should end"


def test_large_list(cluster):
    """a list of several megabytes, plain, compressed and in pieces"""
    path = config_maps(ensure_namespace(cluster.new.direct(), "large"))
    for number in range(60):
        ensure(cluster.new.direct(), path, config_map("big-%02d" % number, {"text": ("%02d" % number) * 50000}))
    direct = expect(cluster.old.direct().get(path), 200)
    assert len(direct.body) > 5_000_000, len(direct.body)
    for node in cluster.nodes:
        same_bytes(lambda: cluster.old.direct().get(path), lambda n=node: n.proxied().get(path), "large lists")
        packed = same_bytes(lambda: cluster.old.direct().get(path, Accept_Encoding="gzip"),
                            lambda n=node: n.proxied().get(path, Accept_Encoding="gzip"), "compressed large lists")
        assert packed.header("Content-Encoding") == "gzip"
        same(json.loads(gzip.decompress(packed.body))["items"], direct.json()["items"], "the items in them")
    names, following = [], path + "?limit=7"
    while following:
        page = expect(cluster.old.proxied().get(following), 200).json()
        names += [i["metadata"]["name"] for i in page["items"]]
        more = page["metadata"].get("continue")
        following = path + "?limit=7&continue=" + more if more else None
    assert names == ["big-%02d" % n for n in range(60)], names
    expect(cluster.old.proxied().request("DELETE", path), 200)


def test_large_bodies(cluster):
    """bodies up to and beyond what kube-apiserver takes: its own verdict each time"""
    path = config_maps(ensure_namespace(cluster.old.direct(), "large"))
    for size in (1_000, 100_000, 1_000_000, 2_900_000, 3_300_000):
        body = config_map("body", {"text": "x" * size})
        answers = []
        for client in (cluster.old.direct(), cluster.old.proxied(), cluster.new.proxied()):
            answers.append(client.request("POST", path, body))
            remove(client, path + "/body")
        assert len({a.status for a in answers}) == 1, (size, answers)
    # The same on the way to a peer: too much text for a label, but all of it must have arrived to be known.
    thing = cluster.skew.thing("body")
    thing["metadata"]["annotations"] = {"a": "x" * 200_000}
    expect(cluster.old.proxied().request("POST", cluster.skew.collection, thing), 201)
    got = expect(cluster.old.proxied().get(cluster.skew.collection + "/body"), 200).json()
    assert len(got["metadata"]["annotations"]["a"]) == 200_000
    remove(cluster.old.proxied(), cluster.skew.collection + "/body")


def test_chunked_upload(cluster):
    """a body without a length arrives whole, here and at a peer"""
    text = json.dumps(cluster.skew.thing("chunked")).encode()

    def pieces():
        for start in range(0, len(text), 7):
            yield text[start:start + 7]
    for node in cluster.nodes:
        client = node.proxied()
        connection = client.connect()
        try:
            connection.request("POST", cluster.skew.collection, pieces(), {"Content-Type": "application/json"}, encode_chunked=True)
            answer = connection.getresponse()
            assert answer.status == 201, answer.read()
        finally:
            connection.close()
        expect(client.request("DELETE", cluster.skew.collection + "/chunked"), 200)


@core
def test_custom_resources(cluster):
    """a CRD made at one server is served by the other for its own clients, and never asked of a peer"""
    admin = cluster.old.proxied()
    ensure_namespace(admin, "routing")
    path = "/apis/example.com/v1/namespaces/routing/widgets"
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "one"}}
    asked = []
    try:
        ensure(admin, CRDS, crd("widgets", "Widget"))
        for node in cluster.nodes:
            def served(n=node):
                answer = n.proxied().get(path)
                asked.append((n, answer.header("Audit-Id")))
                return answer.status == 200
            waiting.until(served, "the custom resource at " + node.name)
        expect(cluster.old.proxied().request("POST", path, widget), 201)
        expect(cluster.new.proxied().get(path + "/one"), 200)
        expect(cluster.new.proxied().request("DELETE", path + "/one"), 200)
        for node, audit_id in asked:
            for other in cluster.nodes:
                assert other is node or audit_id is None or not other.audit(audit_id), \
                    "asked at %s, audited at %s" % (node.name, other.name)
    finally:
        remove(admin, CRDS + "/widgets.example.com")
    for node in cluster.nodes:
        waiting.until(lambda n=node: n.proxied().get(path).status == 404, "the custom resource gone at " + node.name)
