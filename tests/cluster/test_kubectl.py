# SPDX-License-Identifier: Apache-2.0
"""kubectl of both versions does its work at both nodes, as it would at the newer server."""

import json
import re

from harness.api import ensure_namespace, own_resources
from harness.node import numbers
from harness.runner import core, needs

MANIFEST = """
apiVersion: v1
kind: ConfigMap
metadata:
  name: applied
data:
  colour: %s
"""


def _everywhere(cluster, user="admin"):
    """(node, kubectl through mvproxy) for each node and each version."""
    for node in cluster.nodes:
        for version in cluster.kubectls:
            yield node, node.kubectl(version, user)


def _ok(result):
    assert result.status == 0, result
    return result.out


@core
def test_new_resource(cluster):
    """create, get, describe, label, patch, edit by apply, and delete a resource of the newer server"""
    for _, kubectl in _everywhere(cluster):
        manifest = json.dumps(cluster.skew.thing("kubectl"))
        assert "created" in _ok(kubectl.run("create", "-f", "-", stdin=manifest))
        assert "kubectl" in _ok(kubectl.run("get", cluster.skew.kubectl))
        assert re.search(r"^Name: +kubectl$", _ok(kubectl.run("describe", cluster.skew.kubectl, "kubectl")), re.M)
        assert "labeled" in _ok(kubectl.run("label", cluster.skew.kubectl, "kubectl", "a=b"))
        assert "patched" in _ok(kubectl.run("patch", cluster.skew.kubectl, "kubectl", "--type=merge", "-p",
                                            '{"metadata":{"labels":{"a":"c"}}}'))
        changed = json.dumps(cluster.skew.thing("kubectl", {"a": "d"}))
        assert "serverside-applied" in _ok(kubectl.run("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=changed))
        label = _ok(kubectl.run("get", cluster.skew.kubectl, "kubectl", "-o", "jsonpath={.metadata.labels.a}"))
        assert label == "d", label
        assert "deleted" in _ok(kubectl.run("delete", cluster.skew.kubectl, "kubectl"))


@core
@needs("no gate")
def test_premise(cluster):
    """without mvproxy the old server gives none of it"""
    result = cluster.old.kubectl(direct=True).run("get", cluster.skew.kubectl)
    assert result.status != 0 and "the server doesn't have a resource type" in result.err, result
    result = cluster.old.kubectl(direct=True).run("get", "--raw", cluster.skew.collection)
    assert result.status != 0 and "NotFound" in result.err, result


@core
def test_api_resources(cluster):
    """api-resources and api-versions are the same at every node: all of the newest and of the oldest"""
    for version in cluster.kubectls:
        seen, union, versions = [], set(), []
        for node in cluster.nodes:
            # A server may list what only others serve; kubectl complains then, and shows the rest. And one that starts and lacks a group
            # deletes its APIService: then legacy discovery, which kubectl 1.27 reads of a later server, names it nowhere.
            union |= {name for _, _, name in own_resources(node) if "/" not in name}
            union |= set(node.kubectl(version, direct=True).run("api-resources", "-o", "wide", "--no-headers").out.splitlines())
            seen.append(set(_ok(node.kubectl(version).run("api-resources", "-o", "wide", "--no-headers")).splitlines()))
            versions.append(_ok(node.kubectl(version).run("api-versions")))
        for one in seen:
            assert one == seen[0], one ^ seen[0]
        names = {line.split()[0] for line in seen[0]}
        assert {line.split()[0] for line in union} == names, (version, names ^ {line.split()[0] for line in union})
        assert versions[0] == versions[-1] and cluster.skew.group_version in versions[0].split(), versions


def test_apply(cluster):
    """apply, diff, get and delete of what every server has"""
    ensure_namespace(cluster.old.direct(), "kubectl")
    for _, kubectl in _everywhere(cluster):
        assert "created" in _ok(kubectl.run("apply", "-n", "kubectl", "-f", "-", stdin=MANIFEST % "red"))
        assert "unchanged" in _ok(kubectl.run("apply", "-n", "kubectl", "-f", "-", stdin=MANIFEST % "red"))
        assert "configured" in _ok(kubectl.run("apply", "-n", "kubectl", "-f", "-", stdin=MANIFEST % "blue"))
        assert "blue" == _ok(kubectl.run("get", "configmap", "-n", "kubectl", "applied", "-o", "jsonpath={.data.colour}"))
        assert "deleted" in _ok(kubectl.run("delete", "-n", "kubectl", "-f", "-", stdin=MANIFEST % "blue"))


def test_explain(cluster):
    """explain of what the server itself has"""
    for _, kubectl in _everywhere(cluster):
        assert "containers" in _ok(kubectl.run("explain", "pod.spec"))


@core
def test_explain_new(cluster):
    """explain, strict validation and server-side apply of what only the newer server has; kubectl before 1.27 knows no OpenAPI v3"""
    for node in cluster.nodes:
        for version in cluster.kubectls:
            if numbers(version) < (1, 27):
                continue
            kubectl = node.kubectl(version)
            out = _ok(kubectl.run("explain", cluster.skew.resource, "--api-version=" + cluster.skew.group_version))
            assert "KIND: " in out and cluster.skew.kind in out and "metadata" in out, out
            manifest = json.dumps(cluster.skew.thing("explained"))
            assert "explained" in _ok(kubectl.run("apply", "--validate=strict", "--server-side", "--dry-run=server", "-f", "-", stdin=manifest))
            assert "explained" in _ok(kubectl.run("create", "--validate=strict", "--dry-run=server", "-f", "-", stdin=manifest))
            if numbers(cluster.new.spec.version) >= (1, 27):  # before, servers do not validate fields
                wrong = dict(cluster.skew.thing("explained"), nonsense=1)
                refused = kubectl.run("create", "--validate=strict", "--dry-run=server", "-f", "-", stdin=json.dumps(wrong))
                assert refused.status != 0 and "nonsense" in refused.err, refused
            names = _ok(kubectl.complete("get", "")).splitlines()
            assert any(n.split("\t")[0].startswith(cluster.skew.resource) for n in names), names


@core
def test_raw(cluster):
    """get --raw of resources, discovery and health"""
    for node, kubectl in _everywhere(cluster):
        assert json.loads(_ok(kubectl.run("get", "--raw", cluster.skew.collection)))["kind"] == cluster.skew.kind + "List"
        assert json.loads(_ok(kubectl.run("get", "--raw", "/apis")))["kind"] == "APIGroupList"
        assert json.loads(_ok(kubectl.run("get", "--raw", "/version")))["gitVersion"] == "v" + node.spec.version
        assert _ok(kubectl.run("get", "--raw", "/livez")) == "ok"


@core
def test_version(cluster):
    """the server's version is the local server's"""
    for node, kubectl in _everywhere(cluster):
        seen = json.loads(_ok(kubectl.run("version", "-o", "json")))
        assert seen["serverVersion"]["gitVersion"] == "v" + node.spec.version, seen


@core
def test_watch(cluster):
    """get --watch prints each change of a peer's resource as it comes"""
    kubectl = cluster.old.kubectl(cluster.kubectls[-1])
    client = cluster.new.direct()
    client.request("DELETE", cluster.skew.collection + "/printed")
    watch = kubectl.start("get", cluster.skew.kubectl, "--watch", "--no-headers", "--field-selector=metadata.name=printed",
                          "--output-watch-events")
    try:
        client.request("POST", cluster.skew.collection, cluster.skew.thing("printed"))
        line = watch.stdout.readline()
        assert "ADDED" in line and "printed" in line, line
        client.request("DELETE", cluster.skew.collection + "/printed")
        line = watch.stdout.readline()
        assert "DELETED" in line, line
    finally:
        watch.kill()
        watch.wait()
        watch.stdout.close()


def test_can_i(cluster):
    """auth can-i says the same through mvproxy as directly"""
    for node, kubectl in _everywhere(cluster, "alice"):
        direct = node.kubectl(user="alice", direct=True)
        newest = cluster.new.kubectl(user="alice", direct=True)
        for question, whom in ((("get", "secrets"), direct), (("create", "deployments.apps"), direct),
                               (("get", cluster.skew.full_name), newest)):
            one, two = whom.run("auth", "can-i", *question), kubectl.run("auth", "can-i", *question)
            assert (one.status, one.out) == (two.status, two.out), (one, two)


def test_everything(cluster):
    """get of every kind that can be listed, as garbage collection and backup tools do it, leaves nothing out"""
    for node in cluster.nodes:
        kubectl = node.kubectl()
        names = _ok(kubectl.run("api-resources", "--verbs=list", "-o", "name")).split()
        assert len(names) > 50 and cluster.skew.full_name in names, names
        _ok(kubectl.run("get", ",".join(names), "--all-namespaces", "-o", "name", "--ignore-not-found"))
