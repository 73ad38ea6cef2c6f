"""kubectl of both versions does its work at both nodes, as it would at the newer server."""

import json

from harness.api import DEVICE_CLASSES, DEVICE_CLASSES_KUBECTL, NEW_GROUP_VERSION, device_class, ensure_namespace

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
        for version in [n.spec.version for n in cluster.nodes]:
            yield node, node.kubectl(version, user)


def _ok(result):
    assert result.status == 0, result
    return result.out


def test_new_resource(cluster):
    """create, get, describe, label, patch, edit by apply, and delete a resource of the newer server"""
    for _, kubectl in _everywhere(cluster):
        manifest = json.dumps(device_class("kubectl"))
        assert "created" in _ok(kubectl.run("create", "-f", "-", stdin=manifest))
        assert "kubectl" in _ok(kubectl.run("get", DEVICE_CLASSES_KUBECTL))
        assert "Name:         kubectl" in _ok(kubectl.run("describe", DEVICE_CLASSES_KUBECTL, "kubectl"))
        assert "labeled" in _ok(kubectl.run("label", DEVICE_CLASSES_KUBECTL, "kubectl", "a=b"))
        assert "patched" in _ok(kubectl.run("patch", DEVICE_CLASSES_KUBECTL, "kubectl", "--type=merge", "-p",
                                            '{"metadata":{"labels":{"a":"c"}}}'))
        changed = json.dumps(device_class("kubectl", {"a": "d"}))
        assert "serverside-applied" in _ok(kubectl.run("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=changed))
        label = _ok(kubectl.run("get", DEVICE_CLASSES_KUBECTL, "kubectl", "-o", "jsonpath={.metadata.labels.a}"))
        assert label == "d", label
        assert "deleted" in _ok(kubectl.run("delete", DEVICE_CLASSES_KUBECTL, "kubectl"))


def test_premise(cluster):
    """without mvproxy the old server gives none of it"""
    result = cluster.old.kubectl(direct=True).run("get", DEVICE_CLASSES_KUBECTL)
    assert result.status != 0 and "the server doesn't have a resource type" in result.err, result
    result = cluster.old.kubectl(direct=True).run("get", "--raw", DEVICE_CLASSES)
    assert result.status != 0 and "NotFound" in result.err, result


def test_api_resources(cluster):
    """api-resources and api-versions are the same at every node: all of the newest and of the oldest"""
    for version in [n.spec.version for n in cluster.nodes]:
        seen, union, versions = [], set(), []
        for node in cluster.nodes:
            union |= set(_ok(node.kubectl(version, direct=True).run("api-resources", "-o", "wide", "--no-headers")).splitlines())
            seen.append(set(_ok(node.kubectl(version).run("api-resources", "-o", "wide", "--no-headers")).splitlines()))
            versions.append(_ok(node.kubectl(version).run("api-versions")))
        for one in seen:
            assert one == seen[0], one ^ seen[0]
        names = {line.split()[0] for line in seen[0]}
        assert {line.split()[0] for line in union} == names, names ^ {line.split()[0] for line in union}
        assert versions[0] == versions[-1] and NEW_GROUP_VERSION in versions[0].split(), versions


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


def test_raw(cluster):
    """get --raw of resources, discovery and health"""
    for node, kubectl in _everywhere(cluster):
        assert json.loads(_ok(kubectl.run("get", "--raw", DEVICE_CLASSES)))["kind"] == "DeviceClassList"
        assert json.loads(_ok(kubectl.run("get", "--raw", "/apis")))["kind"] == "APIGroupList"
        assert json.loads(_ok(kubectl.run("get", "--raw", "/version")))["gitVersion"] == "v" + node.spec.version
        assert _ok(kubectl.run("get", "--raw", "/livez")) == "ok"


def test_version(cluster):
    """the server's version is the local server's"""
    for node, kubectl in _everywhere(cluster):
        seen = json.loads(_ok(kubectl.run("version", "-o", "json")))
        assert seen["serverVersion"]["gitVersion"] == "v" + node.spec.version, seen


def test_watch(cluster):
    """get --watch prints each change of a peer's resource as it comes"""
    kubectl = cluster.old.kubectl()
    client = cluster.new.direct()
    client.request("DELETE", DEVICE_CLASSES + "/printed")
    watch = kubectl.start("get", DEVICE_CLASSES_KUBECTL, "--watch", "--no-headers", "--field-selector=metadata.name=printed",
                          "--output-watch-events")
    try:
        client.request("POST", DEVICE_CLASSES, device_class("printed"))
        line = watch.stdout.readline()
        assert "ADDED" in line and "printed" in line, line
        client.request("DELETE", DEVICE_CLASSES + "/printed")
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
                               (("get", "deviceclasses.resource.k8s.io"), newest)):
            one, two = whom.run("auth", "can-i", *question), kubectl.run("auth", "can-i", *question)
            assert (one.status, one.out) == (two.status, two.out), (one, two)


def test_everything(cluster):
    """get of every kind that can be listed, as garbage collection and backup tools do it, leaves nothing out"""
    for node in cluster.nodes:
        kubectl = node.kubectl()
        names = _ok(kubectl.run("api-resources", "--verbs=list", "-o", "name")).split()
        assert len(names) > 50 and "deviceclasses.resource.k8s.io" in names, names
        _ok(kubectl.run("get", ",".join(names), "--all-namespaces", "-o", "name", "--ignore-not-found"))
