# SPDX-License-Identifier: Apache-2.0
"""What kube-apiserver's own proxying does where no mvproxy is: the right column of docs/comparison.md.

Nothing here is a promise of Kubernetes. A test that fails after a new release says that the comparison has to be changed.
"""

from harness import cluster as _harness  # noqa: F401 # finds tests/lib
from harness import etcd, waiting
from harness.api import AGGREGATED, ensure, expect
from harness.load import Load
from harness.node import PORT
from rawhttp import Raw

JOBS = "/apis/batch/v1/namespaces/default/jobs"  # cp-b and cp-c have them
REROUTED, ERRORS = "apiserver_rerouted_request_total", "apiserver_peer_proxy_errors_total"
RECORDS = "/registry/peerserverleases/"
WEBSOCKET = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
ROUNDS, REQUESTS = 3, 20


def _await_found(cluster):
    """Until cp-a has a way to all that it lacks."""
    client = cluster.node("cp-a").direct()
    for path in (JOBS, cluster.skew.everywhere):
        waiting.until(lambda p=path: client.get(p).status == 200, path, 120)


def _freshness(client, group):
    found = {g["metadata"]["name"]: g["versions"] for g in expect(client.get("/apis", Accept=AGGREGATED), 200).json()["items"]}
    return [version["freshness"] for version in found.get(group, [])]


def test_headers(cluster):
    """a peer's answer has some header fields twice: that server's and those of the one that was asked"""
    _await_found(cluster)
    answer = expect(cluster.node("cp-a").direct().get(JOBS), 200)
    twice = sorted(name for name in {n.lower() for n in answer.headers} if len(answer.all(name)) == 2)
    assert twice == ["audit-id", "cache-control", "x-kubernetes-pf-flowschema-uid", "x-kubernetes-pf-prioritylevel-uid"], answer.headers.items()


def test_marks(cluster):
    """its own mark, on what is not there, is answered with 404; the KEP's is not understood"""
    _await_found(cluster)
    client = cluster.node("cp-a").direct()
    expect(client.get(JOBS, **{"x-kubernetes-peer-proxied": "true"}), 404)
    expect(client.get(JOBS, **{"X-Kubernetes-APIServer-Rerouted": "true"}), 200)


def test_token(cluster):
    """the server that was asked judges a token, and asserts its user to the peer: both audit logs name him"""
    _await_found(cluster)
    answer = expect(cluster.node("cp-a").direct("root").get(JOBS), 200)
    for names in (["cp-a"], ["cp-b", "cp-c"]):
        events = waiting.until(lambda n=names: [e for one in answer.all("Audit-Id") for node, e in cluster.audit(one) if node.name in n], "an audit event")
        assert {event["user"]["username"] for event in events} == {"root"}, events


def test_upgraded(cluster):
    """a watch over WebSocket of what only peers serve is 401: the peer is not told who asks; at the peer itself it is 101"""
    _await_found(cluster)
    target = JOBS + "?watch=true&resourceVersion=0"
    how = cluster.credentials("admin")
    for name, status in (("cp-c", 101), ("cp-a", 401)):
        node = cluster.node(name)
        with Raw((node.address, PORT), cluster.pki.crt("ca"), how.get("certificate")) as client:
            client.request("GET", target, {**WEBSOCKET, "Origin": "https://" + node.address})
            answer = client.final_head()
            assert answer.status == status, (name, answer)
    watch = cluster.node("cp-a").direct().watch(target)
    with watch:
        assert watch.status == 200, watch.headers


def test_subresource(cluster):
    """what only a peer has of a resource that is here as well is 404, though the merged discovery lists it"""
    _await_found(cluster)
    nodes = "/apis/storage.k8s.io/v1/csinodes"
    ensure(cluster.node("cp-c").direct(), nodes, {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "gate"}, "spec": {"drivers": []}})
    expect(cluster.node("cp-c").direct().get(nodes + "/gate/status"), 200)
    client = cluster.node("cp-a").direct()
    expect(client.get(nodes + "/gate"), 200)
    expect(client.get(nodes + "/gate/status"), 404)
    groups = expect(client.get("/apis", Accept=AGGREGATED), 200).json()["items"]
    listed = [s["subresource"] for g in groups if g["metadata"]["name"] == "storage.k8s.io" for v in g["versions"] if v["version"] == "v1"
              for r in v["resources"] if r["resource"] == "csinodes" for s in r.get("subresources", [])]
    assert listed == ["status"], listed


def test_counted(cluster):
    """what is counted as rerouted: requests for resources, an upgraded one without a code, and, without names, its own reading of peers' discovery"""
    _await_found(cluster)
    old = cluster.node("cp-a")
    for path in ("/apis", "/apis/batch/v1", "/openapi/v3/apis/batch/v1"):
        before = old.server_metric(REROUTED)
        old.direct().get(path, Accept=AGGREGATED if path == "/apis" else "application/json")
        assert old.server_metric(REROUTED) == before, path
    assert old.server_metric(REROUTED, group="", version="", resource="", code="200") > 0
    assert old.server_metric(REROUTED, group="batch", resource="jobs", code="0") > 0  # by test_upgraded


def test_record(cluster):
    """--peer-advertise-ip and --peer-advertise-port have no effect on the record that peers read"""
    key = RECORDS + cluster.node("cp-b").server_id
    waiting.until(lambda: key in etcd.keys(cluster, RECORDS), "the record of cp-b")
    stored = etcd.get(cluster, key)
    assert cluster.node("cp-b").address.encode() in stored and b"192.0.2.99" not in stored, stored


def _stop(node):
    node.apiserver.stop(90)


def _kill(node):
    node.apiserver.kill()


def _restart(node, end):
    end(node)
    node.start_apiserver()
    node.await_apiserver()


def _tell(what, load):
    silent = [status for status, answer in load.example.items() if status >= 500 and answer.header("Retry-After") is None]
    print("# %s: %d requests, %s%s" % (what, load.total(), load, ", without Retry-After: %s" % silent if silent else ""), flush=True)


def test_restarts(cluster):
    """the only server that has it restarts: stopped in order its resources are 404 until it is back, killed they are 503 without Retry-After first"""
    old, path = cluster.node("cp-a"), cluster.skew.everywhere
    for end, what, status in ((_stop, "stopped", 404), (_kill, "killed", 503)):
        _await_found(cluster)
        with Load(old.direct, path) as load:
            for _ in range(ROUNDS):
                _restart(cluster.node("cp-c"), end)
                waiting.until(lambda: old.direct().get(path).status == 200, "found again", 120)
        _tell("the only server that has it, %s %d times" % (what, ROUNDS), load)
        assert load.statuses[status] > 0 and load.example[status].header("Retry-After") is None, load


def test_rolling(cluster):
    """two servers that have it restart one after the other: stopped in order nobody notices, killed some requests are 503"""
    for end, what, statuses in ((_stop, "stopped", {200}), (_kill, "killed", {200, 503})):
        _await_found(cluster)
        with Load(cluster.node("cp-a").direct, JOBS) as load:
            for name in ("cp-b", "cp-c"):
                _restart(cluster.node(name), end)
                _await_found(cluster)
        _tell("two servers that have it, %s one after the other" % what, load)
        assert set(load.statuses) == statuses, load


def test_dead(cluster):
    """one of two peers is dead: some requests are 503, as text and without Retry-After, and count as rerouted, not as errors; what only a dead one served stays Current"""
    _await_found(cluster)
    old = cluster.node("cp-a")
    client = old.direct()

    def counted():
        return old.server_metric(REROUTED, resource="jobs", code="503"), old.server_metric(ERRORS, type="proxy_transport")
    before = counted()
    cluster.node("cp-b").apiserver.kill()
    answers = [client.get(JOBS) for _ in range(REQUESTS)]
    failed = [answer for answer in answers if answer.status == 503]
    print("# one of two peers is dead: %d of %d requests are 503" % (len(failed), len(answers)), flush=True)
    assert failed and {answer.status for answer in answers} == {200, 503}, answers
    for answer in failed:
        assert answer.header("Retry-After") is None and answer.header("Content-Type").startswith("text/plain"), answer
    assert counted() == (before[0] + len(failed), 0), (before, counted(), len(failed))
    cluster.node("cp-c").apiserver.kill()
    assert _freshness(client, cluster.skew.group) == ["Current"]
