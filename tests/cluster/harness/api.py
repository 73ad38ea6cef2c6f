# SPDX-License-Identifier: Apache-2.0
"""Paths and objects that the tests use, and what is expected of an answer."""

import json

# What Kubernetes 1.34 serves and 1.33 does not.
NEW_GROUP_VERSION = "resource.k8s.io/v1"
DEVICE_CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
DEVICE_CLASSES_KUBECTL = "deviceclasses.v1.resource.k8s.io"

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
BETA = AGGREGATED.replace("v=v2;", "v=v2beta1;")
NOPEER = AGGREGATED + ";profile=nopeer"


def device_class(name, labels=None):
    return {"apiVersion": NEW_GROUP_VERSION, "kind": "DeviceClass", "metadata": {"name": name, "labels": labels or {}},
            "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}]}}


def claims(namespace):
    return "/apis/resource.k8s.io/v1/namespaces/%s/resourceclaims" % namespace


def claim(name):
    return {"apiVersion": NEW_GROUP_VERSION, "kind": "ResourceClaim", "metadata": {"name": name},
            "spec": {"devices": {"requests": [{"name": "one", "exactly": {"deviceClassName": "some"}}]}}}


def namespace(name):
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def config_maps(name):
    return "/api/v1/namespaces/%s/configmaps" % name


def config_map(name, data=None):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data or {"key": "value"}}


IDENTITY_LABELS = ("apiserver.kubernetes.io%2Fidentity", "k8s.io%2Fcomponent")  # the latter in 1.26


def identity_leases(client):
    """The identity Leases of API servers, of whatever version."""
    found = []
    for label in IDENTITY_LABELS:
        answer = client.get("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases?labelSelector=%s%%3Dkube-apiserver" % label)
        found += expect(answer, 200).json()["items"]
    return found


def whoami():
    return {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}


WHOAMI = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


def expect(answer, *statuses):
    """The answer, if its status is one of these."""
    assert answer.status in statuses, "expected %s, got %r" % ("/".join(map(str, statuses)), answer)
    return answer


def expect_unavailable(answer):
    """Our 503: a Status object that tells clients to try again."""
    expect(answer, 503)
    status = answer.json()
    assert status["kind"] == "Status" and status["apiVersion"] == "v1" and status["status"] == "Failure", answer
    assert status["reason"] == "ServiceUnavailable" and status["code"] == 503, answer
    assert answer.header("Content-Type", "").startswith("application/json"), answer
    after = answer.header("Retry-After", "")
    assert after.isdigit() and int(after) >= 1, "Retry-After: %r" % after
    assert status["details"]["retryAfterSeconds"] == int(after), answer
    return status


def ensure_namespace(client, name):
    expect(client.request("POST", "/api/v1/namespaces", namespace(name)), 201, 409)
    return name


def ensure(client, collection, thing):
    """Create it, or find it there already."""
    return expect(client.request("POST", collection, thing), 201, 409)


def remove(client, path):
    expect(client.request("DELETE", path), 200, 202, 404)


def grant(client, role, verbs, resource, group, user):
    """A ClusterRole with one rule, bound to a user."""
    rbac = "/apis/rbac.authorization.k8s.io/v1/"
    meta = {"metadata": {"name": role}}
    ensure(client, rbac + "clusterroles", {
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", **meta,
        "rules": [{"apiGroups": [group], "resources": [resource], "verbs": verbs}]})
    ensure(client, rbac + "clusterrolebindings", {
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", **meta,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]})


def crd(plural, kind, group="example.com"):
    return {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "%s.%s" % (plural, group)},
        "spec": {"group": group, "scope": "Namespaced", "names": {"plural": plural, "kind": kind, "singular": kind.lower()},
                 "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {
                     "type": "object", "x-kubernetes-preserve-unknown-fields": True}}}]}}


CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def same_bytes(ask_one, ask_other, what):
    """Both ways of asking give the same status, type and bytes; the other answer.

    The resourceVersion of a list moves whenever anybody writes anything (Leases are renewed all the time), so what
    counts is an answer that is framed by two equal ones.
    """
    for _ in range(20):
        before, other, after = ask_one(), ask_other(), ask_one()
        if (before.status, before.body) == (after.status, after.body):
            break
    else:
        raise AssertionError("%s: never the same twice" % what)
    assert (before.status, before.header("Content-Type")) == (other.status, other.header("Content-Type")), (what, before, other)
    assert before.body == other.body, (what, len(before.body), len(other.body), before, other)
    return other


def normal(thing):
    """An object in a form that can be compared."""
    return json.dumps(thing, sort_keys=True, indent=1)


def same(left, right, what):
    """Both objects are equal; else an AssertionError that shows the first difference."""
    one, two = normal(left).split("\n"), normal(right).split("\n")
    for number in range(max(len(one), len(two))):
        a = one[number] if number < len(one) else "(end)"
        b = two[number] if number < len(two) else "(end)"
        assert a == b, "%s differ: %s | %s" % (what, a.strip(), b.strip())


def resources(document):
    """{(group, version, resource or resource/subresource): set of verbs}"""
    found = {}
    for group in document["items"]:
        for version in group["versions"]:
            for resource in version.get("resources", []):
                key = (group["metadata"]["name"], version["version"], resource["resource"])
                found.setdefault(key, set()).update(resource.get("verbs", []))
                for sub in resource.get("subresources", []):
                    found.setdefault(key[:2] + ("%s/%s" % (key[2], sub["subresource"]),), set()).update(sub.get("verbs", []))
    return found


def own_resources(node):
    """resources() of the server itself, in whatever form its version has it."""
    for accept in (NOPEER, BETA):
        answer = node.direct().get("/apis", Accept=accept)
        if answer.status == 200 and "as=APIGroupDiscoveryList" in answer.header("Content-Type"):
            return resources(answer.json())
    found = {}
    for group in expect(node.direct().get("/apis"), 200).json()["groups"]:
        for version in group["versions"]:
            # The list has the groups of all servers, since the objects that it comes from are stored.
            answer = expect(node.direct().get("/apis/" + version["groupVersion"]), 200, 404)
            for resource in answer.json()["resources"] if answer.status == 200 else ():
                found[(group["name"], version["version"], resource["name"])] = set(resource["verbs"])
    return found
