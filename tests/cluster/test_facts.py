# SPDX-License-Identifier: Apache-2.0
"""What the simulator (tests/apisim) claims about Kubernetes, asked of kube-apiserver itself, without mvproxy.

Run with --simulated these are asked of the simulator: the same questions, so the component tests stand on facts.
"""

import base64
import hashlib
import json
import re

from harness import waiting
from harness.api import (AGGREGATED, DEVICE_CLASSES, NOPEER, WHOAMI, claims, config_map, config_maps, device_class, ensure,
                         ensure_namespace, expect, remove, whoami)

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
IDENTITY = "labelSelector=apiserver.kubernetes.io%2Fidentity%3Dkube-apiserver"


def _server_id(hostname):
    data = b""
    for part in (hostname.encode(), b"kube-apiserver"):
        data += len(part).to_bytes(2, "big") + part
    return "apiserver-" + base64.b32encode(hashlib.sha256(data).digest()[:16]).decode().rstrip("=").lower()


def test_server_id(cluster):
    """the identity Lease: name, holder, duration, labels, micro time, and no annotation in these versions"""
    for node in cluster.nodes:
        lease = expect(cluster.old.direct().get("%s/%s" % (LEASES, _server_id(node.name))), 200).json()
        spec, meta = lease["spec"], lease["metadata"]
        assert re.fullmatch(re.escape(_server_id(node.name)) + r"_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
                            spec["holderIdentity"]), spec
        assert spec["leaseDurationSeconds"] == 3600, spec
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", spec["renewTime"]), spec
        assert meta["labels"] == {"apiserver.kubernetes.io/identity": "kube-apiserver", "kubernetes.io/hostname": node.name}
        assert cluster.mvproxy or "annotations" not in meta, meta  # mvproxy writes one


def test_lease_watch(cluster):
    """the identity Leases are renewed every ten seconds or so, and a watch shows it"""
    with cluster.old.direct().watch_from_now(LEASES, IDENTITY + "&allowWatchBookmarks=true") as watch:
        event = watch.event(timeout=60)
        while event["type"] == "BOOKMARK":
            event = watch.event(timeout=60)
        assert event["type"] == "MODIFIED" and event["object"]["kind"] == "Lease", event


def test_lease_survives_stop(cluster):
    """these versions leave their Lease behind when they stop, and keep its holder when they start again"""
    path = "%s/%s" % (LEASES, _server_id(cluster.new.name))
    before = cluster.old.direct().get(path).json()
    cluster.new.apiserver.stop()
    after = expect(cluster.old.direct().get(path), 200).json()
    assert after["spec"]["holderIdentity"] == before["spec"]["holderIdentity"], (before, after)
    cluster.new.start_apiserver()
    cluster.new.await_apiserver()

    def renewed():
        now = cluster.old.direct().get(path).json()
        return now if now["spec"]["renewTime"] != after["spec"]["renewTime"] else None
    again = waiting.until(renewed, "a renewal")
    assert again["spec"]["holderIdentity"] == before["spec"]["holderIdentity"], (before, again)


def test_discovery_document(cluster):
    """aggregated discovery: type, ETag of 128 hex digits, Vary, Cache-Control, 304, and profiles ignored"""
    for node in cluster.nodes:
        client = node.direct()
        answer = expect(client.get("/apis", Accept=AGGREGATED), 200)
        assert answer.header("Content-Type") == "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", answer
        tag = answer.header("ETag")
        assert re.fullmatch(r'"[0-9A-F]{128}"', tag), tag
        assert answer.header("Vary") == "Accept" and answer.header("Cache-Control") == "public", answer.headers.items()
        document = answer.json()
        assert (document["kind"], document["apiVersion"]) == ("APIGroupDiscoveryList", "apidiscovery.k8s.io/v2"), document
        unchanged = expect(client.get("/apis", Accept=AGGREGATED, If_None_Match=tag), 304)
        assert unchanged.header("ETag") == tag and unchanged.body == b"", unchanged
        # Only the exact value counts: no list, no weak form, no star.
        for other in ("*", "W/" + tag, tag + ", " + tag, tag.strip('"')):
            expect(client.get("/apis", Accept=AGGREGATED, If_None_Match=other), 200)
        assert expect(client.get("/apis", Accept=NOPEER), 200).header("ETag") == tag
        core = expect(client.get("/api", Accept=AGGREGATED), 200).json()
        # The core group has no name: the field is left out.
        assert [g["metadata"].get("name", "") for g in core["items"]] == [""], core


def test_discovery_skew(cluster):
    """only the newer server has resource.k8s.io/v1, with these resources and subresources"""
    groups = [{g["metadata"]["name"]: g for g in n.direct().get("/apis", Accept=AGGREGATED).json()["items"]}
              for n in (cluster.old, cluster.new)]
    assert "resource.k8s.io" not in groups[0]
    version = next(v for v in groups[1]["resource.k8s.io"]["versions"] if v["version"] == "v1")
    found = {r["resource"]: [s["subresource"] for s in r.get("subresources", [])] for r in version["resources"]}
    assert found == {"deviceclasses": [], "resourceclaims": ["status"], "resourceclaimtemplates": [],
                     "resourceslices": []}, found


def test_discovery_legacy(cluster):
    """without an aggregated Accept the legacy lists come, and unknown groups are a plain 404"""
    for node in cluster.nodes:
        client = node.direct()
        for accept in ("application/json", "*/*"):
            assert expect(client.get("/apis", Accept=accept), 200).json()["kind"] == "APIGroupList"
        assert expect(client.get("/apis", Accept="application/json"), 200).header("Cache-Control") == "no-cache, private"
        assert expect(client.get("/apis/apps", Accept="application/json"), 200).json()["kind"] == "APIGroup"
        assert expect(client.get("/apis/apps/v1", Accept="application/json"), 200).json()["kind"] == "APIResourceList"
        missing = expect(client.get("/apis/nosuch.example.com"), 404)
        assert missing.body == b"404 page not found\n" and missing.header("Content-Type") == "text/plain; charset=utf-8"


def test_false_404(cluster):
    """an unknown group version is a plain text 404 for whoever may ask, 403 for others"""
    client = cluster.old.direct()
    answer = expect(client.get(DEVICE_CLASSES), 404)
    assert answer.body == b"404 page not found\n" and answer.header("Content-Type") == "text/plain; charset=utf-8", answer
    refused = expect(cluster.old.direct("bob").get(DEVICE_CLASSES), 403).json()
    assert refused["reason"] == "Forbidden" and refused["kind"] == "Status", refused


def test_head_is_a_verb(cluster):
    """outside of resources HEAD is a verb of its own, which nobody has by having get"""
    for node in cluster.nodes:
        for path in ("/apis", "/api"):
            assert [node.direct("bob").request(m, path).status for m in ("GET", "HEAD")] == [200, 403], (node.name, path)


def test_missing_resource(cluster):
    """an unknown resource of a known group version is a plain 404, an unknown object a Status 404"""
    unknown = expect(cluster.new.direct().get("/apis/apps/v1/nosuchthings"), 404)
    named = expect(cluster.new.direct().get("/api/v1/namespaces/default/configmaps/nosuch"), 404).json()
    assert named["reason"] == "NotFound" and named["details"]["name"] == "nosuch", named
    assert b"404" in unknown.body or unknown.json()["code"] == 404, unknown


def test_request_header_user(cluster):
    """X-Remote-* count with an allowed front-proxy certificate, and only then"""
    headers = {"X-Remote-User": "carol", "X-Remote-Group": "dev", "X-Remote-Extra-Scopes": "some"}
    for node in cluster.nodes:
        told = expect(node.direct("front-proxy").request("POST", WHOAMI, whoami(), headers), 201).json()["status"]["userInfo"]
        assert told["username"] == "carol" and told["groups"] == ["dev", "system:authenticated"], told
        assert told["extra"] == {"scopes": ["some"]}, told
        for user, status in (("front-proxy-other", 401), ("anonymous", 403)):
            expect(node.direct(user).request("POST", WHOAMI, whoami(), headers), status)
        bob = expect(node.direct("bob").request("POST", WHOAMI, whoami(), headers), 201).json()["status"]["userInfo"]
        assert bob["username"] == "bob", bob


def test_front_proxy_and_token(cluster):
    """a front-proxy certificate without a user name, and with a token: the token counts, else 401"""
    for node in cluster.nodes:
        expect(node.direct("front-proxy").request("POST", WHOAMI, whoami()), 401)
        bearer = {"Authorization": "Bearer token-of-bob"}
        told = expect(node.direct("front-proxy").request("POST", WHOAMI, whoami(), bearer), 201).json()["status"]["userInfo"]
        assert told["username"] == "bob", told


def test_certificate_user(cluster):
    """a client certificate gives CN, each O, and the credential id"""
    for node in cluster.nodes:
        told = expect(node.direct("alice").request("POST", WHOAMI, whoami()), 201).json()["status"]["userInfo"]
        assert (told["username"], told["groups"]) == ("alice", ["dev", "testers", "system:authenticated"]), told
        credential = told["extra"]["authentication.kubernetes.io/credential-id"]
        assert len(credential) == 1 and re.fullmatch(r"X509SHA256=[0-9a-f]{64}", credential[0]), told


def test_refusals(cluster):
    """401 and 403 are Status objects of this shape"""
    for node in cluster.nodes:
        for user in ("stranger", "foreign"):
            answer = expect(node.direct(user).get("/api/v1/namespaces"), 401)
            assert answer.json() == {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                                     "message": "Unauthorized", "reason": "Unauthorized", "code": 401}, answer
        refused = expect(node.direct("anonymous").get("/api/v1/namespaces"), 403).json()
        assert refused["message"].startswith('namespaces is forbidden: User "system:anonymous" cannot list resource'), refused


def test_rerouted_mark(cluster):
    """the marks of rerouted requests mean nothing to these versions"""
    for header in ("X-Kubernetes-APIServer-Rerouted", "x-kubernetes-peer-proxied"):
        expect(cluster.new.direct().request("GET", DEVICE_CLASSES, headers={header: "true"}), 200)
        expect(cluster.old.direct().request("GET", DEVICE_CLASSES, headers={header: "true"}), 404)


def test_objects(cluster):
    """create, conflict, update with a stale version, patch, delete, and their Status objects"""
    client = cluster.new.direct()
    remove(client, DEVICE_CLASSES + "/facts")
    made = expect(client.request("POST", DEVICE_CLASSES, device_class("facts")), 201).json()
    again = expect(client.request("POST", DEVICE_CLASSES, device_class("facts")), 409).json()
    assert again["reason"] == "AlreadyExists", again
    patched = expect(client.request("PATCH", DEVICE_CLASSES + "/facts", json.dumps({"metadata": {"labels": {"a": "b"}}}),
                                    {"Content-Type": "application/merge-patch+json"}), 200).json()
    assert patched["metadata"]["resourceVersion"] != made["metadata"]["resourceVersion"], patched
    made["metadata"]["labels"] = {"a": "c"}
    stale = expect(client.request("PUT", DEVICE_CLASSES + "/facts", made), 409).json()
    assert stale["reason"] == "Conflict", stale
    gone = expect(client.request("DELETE", DEVICE_CLASSES + "/facts"), 200).json()
    assert gone["kind"] in ("Status", "DeviceClass"), gone
    missing = expect(client.request("DELETE", DEVICE_CLASSES + "/facts"), 404).json()
    assert missing["reason"] == "NotFound", missing


def test_watch_stream(cluster):
    """a watch is chunked JSON, one event a line"""
    client = cluster.new.direct()
    path = config_maps(ensure_namespace(client, "facts"))
    remove(client, path + "/seen")
    with client.watch_from_now(path, "fieldSelector=metadata.name%3Dseen") as watch:
        assert watch.status == 200 and watch.headers["Content-Type"] == "application/json", watch.headers.items()
        assert watch.headers["Transfer-Encoding"] == "chunked", watch.headers.items()
        ensure(client, path, config_map("seen"))
        assert watch.event()["type"] == "ADDED"
        remove(client, path + "/seen")
        assert watch.event()["type"] == "DELETED"


def test_body_limit(cluster):
    """a body of more than 3 MiB is refused with 413"""
    client = cluster.new.direct()
    path = config_maps(ensure_namespace(client, "facts"))
    answer = expect(client.request("POST", path, config_map("big", {"text": "x" * 3_300_000})), 413)
    assert answer.json()["reason"] == "RequestEntityTooLarge", answer


def test_health(cluster):
    """/livez, /readyz and /healthz say ok to everybody"""
    for node in cluster.nodes:
        for path in ("/livez", "/readyz", "/healthz"):
            answer = expect(node.direct("anonymous").get(path), 200)
            assert answer.body == b"ok", answer


def test_version_for_all(cluster):
    """/version is for everybody"""
    for node in cluster.nodes:
        told = expect(node.direct("anonymous").get("/version"), 200).json()
        assert (told["major"], told["minor"].rstrip("+")) == tuple(node.spec.minor.split(".")), told


def test_namespaced(cluster):
    """objects of a namespace that does not exist are refused with 404"""
    refused = expect(cluster.new.direct().request("POST", claims("nosuch"), {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "x"},
        "spec": {"devices": {"requests": [{"name": "one", "exactly": {"deviceClassName": "some"}}]}}}), 404).json()
    assert refused["reason"] == "NotFound" and 'namespaces "nosuch"' in refused["message"], refused
