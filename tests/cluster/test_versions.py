# SPDX-License-Identifier: Apache-2.0
"""What is particular about some versions of Kubernetes: their own proxying, and what they do not have yet."""

from harness import waiting
from harness.api import ensure, expect, expect_unavailable, identity_leases
from harness.node import at
from harness.runner import core, needs

REROUTED = "apiserver_rerouted_request_total"


def _rerouted(cluster):
    """How often each kube-apiserver, and each mvproxy, has sent a request for the skewed resource to a peer."""
    labels = {"group": cluster.skew.group, "version": cluster.skew.version, "resource": cluster.skew.resource}
    return ({n.name: n.server_metric(REROUTED, **labels) for n in cluster.nodes},
            {n.name: n.metric(REROUTED, **labels) for n in cluster.proxies})


@core
@needs("gate")
def test_one_hop(cluster):
    """a request is sent on once, by mvproxy, and no kube-apiserver whose own gate is on sends it on as well"""
    servers, proxies = _rerouted(cluster)
    rounds = 10
    for node in cluster.proxies:
        for _ in range(rounds):
            answer = expect(node.proxied().get(cluster.skew.collection), 200)
            ids = answer.all("Audit-Id")
            assert len(ids) == 1, "Audit-Id: %r" % ids
            seen = waiting.until(lambda i=ids[0]: cluster.audit(i), "an audit event")
            assert len(seen) == 1 and not seen[0][0].lacks, seen
    servers_after, proxies_after = _rerouted(cluster)
    assert servers_after == servers, (servers, servers_after)
    for node in cluster.proxies:
        assert proxies_after[node.name] - proxies[node.name] == (rounds if node.lacks else 0), (node.name, proxies, proxies_after)


@core
@needs("gate")
def test_marked(cluster):
    """what a peer has sent on already is answered here or with 503, whoever marked it, and goes nowhere else"""
    before = _rerouted(cluster)
    for header in ("x-kubernetes-peer-proxied", "X-Kubernetes-APIServer-Rerouted"):
        headers = {header: "true", "X-Remote-User": "carol", "X-Remote-Group": "system:masters"}
        for node in cluster.proxies:
            answer = node.proxied("front-proxy").request("GET", cluster.skew.collection, headers=headers)
            if node.lacks:
                expect_unavailable(answer)
            else:
                expect(answer, 200)
            expect(node.proxied("front-proxy").request("GET", "/api/v1/namespaces", headers=headers), 200)
    assert _rerouted(cluster) == before, (before, _rerouted(cluster))


@core
@needs("gate")
def test_subresource(cluster):
    """a subresource that only the newest server has is found from every node; without mvproxy it is 404 at the others, whose gate is on"""
    nodes = "/apis/storage.k8s.io/v1/csinodes"
    ensure(cluster.new.direct(), nodes, {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "gate"}, "spec": {"drivers": []}})
    for node in cluster.proxies:
        expect(node.direct().get(nodes + "/gate/status"), 404 if node.lacks else 200)
        expect(node.proxied().get(nodes + "/gate/status"), 200)


@core
@needs("gate")
def test_nobody_has_it(cluster):
    """what nobody serves is asked of the local server only, which asks no peer either"""
    servers, _ = _rerouted(cluster)
    for node in cluster.proxies:
        answer = expect(node.proxied().get("/apis/%s/nosuchthings" % cluster.skew.group_version), 404)
        seen = cluster.audit(answer.header("Audit-Id"))
        assert {n.name for n, _ in seen} <= {node.name}, seen
        unmarked = [n.server_metric(REROUTED, resource="nosuchthings") for n in cluster.nodes]
        assert not any(unmarked), unmarked
    assert _rerouted(cluster)[0] == servers


@core
@needs("gate")
def test_gate_away(cluster):
    """the only server that has a resource dies: mvproxy's 503, not the local server's, which is not asked"""
    servers, _ = _rerouted(cluster)
    down = [n for n in cluster.nodes if not n.lacks]
    for node in down:
        node.apiserver.kill()
    for _ in range(10):
        expect_unavailable(cluster.old.proxied().get(cluster.skew.collection))
    after = cluster.old.server_metric(REROUTED, resource=cluster.skew.resource)
    assert after == servers[cluster.old.name], (servers, after)
    for node in down:
        node.start_apiserver()
    for node in down:
        node.await_apiserver()
    cluster.await_settled()


@core
def test_forged_mark(cluster):
    """a client's own mark of a rerouted request counts for nothing"""
    for header in ("x-kubernetes-peer-proxied", "X-Kubernetes-APIServer-Rerouted"):
        for node in cluster.proxies:
            expect(node.proxied().request("GET", cluster.skew.collection, headers={header: "true"}), 200)


@core
@needs("legacy discovery")
def test_deleted_registration(cluster):
    """what a server serves is served where its APIService is gone, as an older server's start leaves it, also by an mvproxy that starts then"""
    direct = cluster.new.direct()
    path = "/apis/apiregistration.k8s.io/v1/apiservices/%s.%s" % (cluster.skew.version, cluster.skew.group)
    before = direct.get(path)
    if before.status == 200:
        expect(direct.request("DELETE", path), 200)

    def listed():
        groups = expect(direct.get("/apis", Accept="application/json"), 200).json()["groups"]
        return cluster.skew.group_version in [v["groupVersion"] for g in groups for v in g["versions"]]

    waiting.until(lambda: not listed(), "the server's list without the group/version")
    for node in cluster.proxies:
        node.mvproxy.stop()
        node.start_mvproxy()
    for node in cluster.proxies:
        node.await_mvproxy()
    cluster.await_settled()
    assert not listed()
    for node in cluster.proxies:
        expect(node.proxied().get(cluster.skew.collection), 200)
    if before.status == 200:
        thing = before.json()
        thing["metadata"] = {k: v for k, v in thing["metadata"].items() if k in ("name", "labels")}
        thing.pop("status", None)
        expect(direct.request("POST", path.rsplit("/", 1)[0], thing), 201)


@core
def test_denials(cluster):
    """what a server does not know at all it denies in the two shapes that mvproxy does not believe, in every form; HEAD too"""
    unknown = "the server could not find the requested resource"
    for path, status, message in (("/apis/apps/v9/things", 404, unknown), ("/api/v1/things", 404, unknown),
                                  ("/api/v1/namespaces/default/pods/x/thing", 404, unknown),
                                  ("/apis/apps/v1/namespaces/default/controllerrevisions/x/status", 404, unknown)):
        for node in cluster.nodes:
            client = node.direct()
            answer = expect(client.get(path, Accept="application/json"), status).json()
            assert (answer["reason"], answer["details"], answer["message"]) == ("NotFound", {}, message), answer
            for form in ("application/vnd.kubernetes.protobuf", "application/yaml"):
                answer = expect(client.get(path, Accept=form), status)
                assert answer.header("Content-Type").startswith(form) and message.encode() in answer.body, answer
            assert client.request("HEAD", path).status == 404, path
    for node in cluster.nodes:
        client = node.direct()
        answer = expect(client.request("PUT", "/api/v1/namespaces/default/pods"), 405).json()
        assert (answer["reason"], answer["details"]) == ("MethodNotAllowed", {}), answer
        there, away = "/api/v1/namespaces/default", "/api/v1/namespaces/default/pods/nobody"
        assert client.request("HEAD", there).status == 405 and client.request("HEAD", away).status == 405
        details = expect(client.get(away), 404).json()["details"]
        assert (details["name"], details["kind"]) == ("nobody", "pods"), details


@core
def test_mistaken_paths(cluster):
    """what no server has a path for, whatever it serves, is denied as the server that has the resource denies it"""
    thing = cluster.skew.collection + "/nobody"
    asked = [("PUT", cluster.skew.collection), ("PATCH", cluster.skew.collection), ("POST", thing), ("GET", thing + "/status/more"),
             ("PUT", "/api/v1/namespaces/default/pods"), ("POST", "/api/v1/namespaces/default/pods/x"),
             ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews/x")]
    for node in cluster.nodes:
        before = node.metric("mvproxy_retries_total", reason="local-not-found")
        for method, path in asked:
            wanted = cluster.new.direct().request(method, path).status
            answer = node.proxied().request(method, path)
            assert answer.status == wanted and wanted in (404, 405), (node.name, method, path, wanted, answer)
        assert node.metric("mvproxy_retries_total", reason="local-not-found") == before, node.name


def _lease(cluster, node):
    items = identity_leases(cluster.nodes[0].direct())
    return next((i for i in items if i["metadata"]["labels"]["kubernetes.io/hostname"] == node.name), None)


@core
def test_leases(cluster):
    """each server has one identity Lease, with an address where it is needed, and it goes on being renewed"""
    before = {n.name: waiting.until(lambda n=n: _lease(cluster, n), "the Lease of " + n.name) for n in cluster.nodes}
    for node in cluster.nodes:
        spec, meta = before[node.name]["spec"], before[node.name]["metadata"]
        assert spec["holderIdentity"].startswith(meta["name"] + "_") and spec["leaseDurationSeconds"] == 3600, before[node.name]
        if cluster.setup.addresses != "static":
            address = meta["annotations"]["kubernetes.io/peer-advertise-address"]
            assert address == at(node.address), before[node.name]
    for node in cluster.nodes:
        waiting.until(lambda n=node: _lease(cluster, n)["spec"]["renewTime"] != before[n.name]["spec"]["renewTime"],
                      "a renewal of the Lease of " + node.name)


@core
@needs("no leases")
def test_published(cluster):
    """where kube-apiserver publishes no identity Lease mvproxy does, removes it when it stops, and peers go by it"""
    mine = cluster.new
    before = _lease(cluster, mine)
    said = len(mine.mvproxy.log_text())
    mine.mvproxy.stop()
    # It has two seconds for that, which a server on a slow disk may need for itself.
    assert _lease(cluster, mine) is None or "Could not remove the own identity Lease in time" in mine.mvproxy.log_text()[said:], _lease(cluster, mine)
    mine.start_mvproxy()
    mine.await_mvproxy()
    after = waiting.until(lambda: next((i for i in [_lease(cluster, mine)] if i and i["spec"]["holderIdentity"] != before["spec"]["holderIdentity"]), None),
                          "the Lease of the new process")
    assert after["metadata"]["name"] == before["metadata"]["name"], (before, after)
    cluster.await_settled()
