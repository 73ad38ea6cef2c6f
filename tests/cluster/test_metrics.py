# SPDX-License-Identifier: Apache-2.0
"""apiserver_request_total counts each request as the kube-apiserver behind does, label for label."""

import re
import time

from harness.api import CRDS, NOPEER, config_map, crd, ensure, ensure_namespace, expect, remove

LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')
NAMESPACE = "counted"
MERGE = {"Content-Type": "application/merge-patch+json"}
APPLY = {"Content-Type": "application/apply-patch+yaml"}
COMPARED = ("verb", "dry_run", "group", "version", "resource", "subresource", "scope", "code")
# What kube-apiserver ends before its handlers, and so does not count.
UNCOUNTED = (401, 403, 405, 415)


def _series(text):
    """{labels: count}, without `component`, which is who counts."""
    found = {}
    for line in text.splitlines():
        if line.startswith("apiserver_request_total{"):
            labels = dict(LABEL.findall(line))
            key = tuple(labels[name] for name in COMPARED)
            found[key] = found.get(key, 0) + float(line.rpartition(" ")[2])
    return found


def _both(node):
    return (_series(expect(node.direct().get("/metrics"), 200).body.decode()), _series(node.admin("/metrics")[1]))


def _grown(before, after, what):
    """What was counted meanwhile about that resource (or path), as {labels: times}."""
    at = COMPARED.index("resource"), COMPARED.index("subresource")
    return {key: int(count - before.get(key, 0)) for key, count in after.items()
            if count > before.get(key, 0) and what in (key[at[0]], key[at[1]])}


def _meta(name):
    return {"metadata": {"name": name}}


def _objects():
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}
    always = {**template, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    return [
        ("/api/v1", "configmaps", {"data": {"k": "v"}}),
        ("/apis/apps/v1", "deployments", {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": always}}),
        ("/apis/batch/v1", "jobs", {"spec": {"template": template}}),
        ("/apis/rbac.authorization.k8s.io/v1", "roles", {"rules": []}),
        ("/apis/example.com/v1", "counters", {"spec": {"n": 1}}),
    ]


KINDS = {"configmaps": "ConfigMap", "deployments": "Deployment", "jobs": "Job", "roles": "Role", "counters": "Counter",
         "priorityclasses": "PriorityClass"}


def _thing(prefix, resource, spec, name):
    version = prefix[len("/apis/"):] if prefix.startswith("/apis/") else "v1"
    return {"apiVersion": version, "kind": KINDS[resource], **_meta(name), **spec}


def _life(prefix, resource, spec, namespace=NAMESPACE):
    """Every verb that a resource has, and what goes wrong with it."""
    everywhere = "%s/%s" % (prefix, resource)
    collection = "%s/namespaces/%s/%s" % (prefix, namespace, resource) if namespace else everywhere
    one, patch = collection + "/one", {"metadata": {"labels": {"x": "y"}}}
    rows = [("POST", collection + "?dryRun=All", _thing(prefix, resource, spec, "one"), None),
            ("POST", collection, _thing(prefix, resource, spec, "one"), None),
            ("POST", collection, _thing(prefix, resource, spec, "one"), None),  # 409
            ("POST", collection, {"kind": "Nonsense"}, None),  # 400
            ("GET", one, None, None), ("HEAD", one, None, None), ("GET", collection + "/none", None, None),
            ("GET", collection, None, None), ("HEAD", collection, None, None), ("GET", collection + "?limit=1", None, None),
            ("GET", collection + "?fieldSelector=metadata.name%3Done", None, None),
            ("PATCH", one, patch, MERGE), ("PATCH", one + "?dryRun=All", patch, MERGE),
            ("PATCH", one, patch, {"Content-Type": "text/plain"}),  # 415
            ("PATCH", one + "?fieldManager=t&force=true", _thing(prefix, resource, spec, "one"), APPLY),
            ("PATCH", one + "?fieldManager=t&force=true&dryRun=All", _thing(prefix, resource, spec, "one"), APPLY),
            ("PUT", one, {"kind": "Nonsense"}, None),
            ("DELETE", one + "?dryRun=All", None, None), ("DELETE", one, None, None), ("DELETE", collection + "/none", None, None),
            ("DELETE", collection, None, None)]
    if namespace:
        rows.append(("GET", everywhere, None, None))
    return [(resource, *row) for row in rows]


def _watches():
    collection = "/api/v1/namespaces/%s/configmaps" % NAMESPACE
    short = "timeoutSeconds=1"
    return [("configmaps", "GET", path, None, None) for path in (
        collection + "?watch=1&" + short, "/api/v1/watch/namespaces/%s/configmaps?%s" % (NAMESPACE, short),
        collection + "?watch=true&fieldSelector=metadata.name%3Done&" + short)] + [
            ("counters", "GET", "/apis/example.com/v1/counters?watch=1&" + short, None, None)]


def _subresources():
    pods = "/api/v1/namespaces/%s/pods" % NAMESPACE
    deployments = "/apis/apps/v1/namespaces/%s/deployments" % NAMESPACE
    pod = {"apiVersion": "v1", "kind": "Pod", **_meta("p"), "spec": {"containers": [{"name": "c", "image": "i"}]}}
    deployment = _thing("/apis/apps/v1", "deployments", _objects()[1][2], "d")
    rows = [("POST", pods, pod, None), ("GET", pods + "/p/status", None, None),
            ("PATCH", pods + "/p/status", {"status": {"message": "m"}}, MERGE),
            ("GET", pods + "/p/log", None, None), ("GET", pods + "/p/exec?command=ls", None, None),
            ("POST", pods + "/p/exec?command=ls", None, None), ("POST", pods + "/p/attach", None, None),
            ("GET", pods + "/p/portforward", None, None), ("GET", pods + "/p/proxy/x", None, None), ("PUT", pods + "/p/proxy", None, None),
            ("POST", pods + "/p/binding", {"kind": "Nonsense"}, None),
            ("POST", pods + "/p/eviction", {"apiVersion": "policy/v1", "kind": "Eviction", **_meta("p")}, None)]
    more = [("POST", deployments, deployment, None), ("GET", deployments + "/d/scale", None, None),
            ("PATCH", deployments + "/d/scale", {"spec": {"replicas": 2}}, MERGE), ("DELETE", deployments + "/d", None, None)]
    return [("pods", *row) for row in rows] + [("deployments", *row) for row in more]


def _others():
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    return [("selfsubjectreviews", "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", review, None),
            ("serviceaccounts", "POST", "/api/v1/namespaces/%s/serviceaccounts/none/token" % NAMESPACE, {}, None),
            ("configmaps", "OPTIONS", "/api/v1/configmaps", None, None),
            ("apis", "GET", "/apis", None, {"Accept": NOPEER}), ("api", "GET", "/api", None, {"Accept": NOPEER}),
            ("/livez", "GET", "/livez", None, None), ("/readyz", "GET", "/readyz?verbose", None, None)]


def _agree(row, status, theirs, ours):
    """The same has grown on both sides; mvproxy itself asks its API server whether it is ready, over and over."""
    if row[0] in ("/livez", "/readyz"):
        return bool(ours) and all(theirs.get(key, 0) >= n for key, n in ours.items())
    return theirs == ours or (status in UNCOUNTED and not theirs)


def _counted(node, before, row):
    """What both have counted of that request, and the state after it; waits for who counts late."""
    what, method, path, body, headers = row
    status = node.proxied().request(method, path, body, headers).status
    for _ in range(40):
        after = _both(node)
        theirs, ours = (_grown(b, a, what) for b, a in zip(before, after))
        if ours and (theirs == ours or status in UNCOUNTED):
            break
        time.sleep(0.05)
    return status, theirs, ours, after


def test_request_total(cluster):
    """a hundred kinds of requests, one by one: the series that grow are those of kube-apiserver itself"""
    node = cluster.new
    admin = node.direct()
    ensure_namespace(admin, NAMESPACE)
    ensure(admin, "/api/v1/namespaces/%s/serviceaccounts" % NAMESPACE, {"apiVersion": "v1", "kind": "ServiceAccount", **_meta("default")})
    ensure(admin, CRDS, crd("counters", "Counter"))
    for _ in range(100):
        if node.proxied().get("/apis/example.com/v1/counters").status == 200:
            break
        time.sleep(0.1)
    rows = [row for each in _objects() for row in _life(*each)] + _life("/apis/scheduling.k8s.io/v1", "priorityclasses", {"value": 1}, None)[:-1]
    rows += _watches() + _subresources() + _others()
    assert len(rows) >= 100, len(rows)
    wrong, state = [], _both(node)
    for row in rows:
        for _ in range(3):  # somebody else's request of the same kind may fall between
            status, theirs, ours, state = _counted(node, state, row)
            if _agree(row, status, theirs, ours):
                break
        else:
            wrong.append("%s %s: %d, theirs %s, ours %s" % (row[1], row[2], status, theirs, ours))
    remove(admin, CRDS + "/counters.example.com")
    assert not wrong, "\n".join(wrong)


def test_refused(cluster):
    """whom the API server refuses is counted by us, with the code that was sent"""
    node = cluster.new
    before = _both(node)
    assert node.proxied("alice").get("/api/v1/namespaces/%s/secrets" % NAMESPACE).status == 403
    assert node.proxied("stranger").get("/api/v1/namespaces/%s/secrets" % NAMESPACE).status == 401
    codes = {key[COMPARED.index("code")] for key in _grown(before[1], _both(node)[1], "secrets")}
    assert "403" in codes, codes


def test_certificate_life(cluster):
    """each request that is authenticated by a certificate counts in the histogram of their ends, and no other"""
    node, name = cluster.new, "apiserver_client_certificate_expiration_seconds"
    before = node.metric(name + "_count"), node.metric(name + "_bucket", le="0")
    ensure(node.proxied(), "/api/v1/namespaces/default/configmaps", config_map("certified"))
    assert node.metric(name + "_count") == before[0] + 1
    node.proxied("bob").get("/version")
    node.proxied("anonymous").get("/version")
    assert node.metric(name + "_count") == before[0] + 1
    assert node.metric(name + "_bucket", le="0") == before[1]
    theirs = node.direct().get("/metrics").body.decode()
    bounds = re.findall(name + r'_bucket\{le="([^"]+)"\}', theirs)  # as text: what adds up several servers goes by that
    assert bounds and bounds == re.findall(name + r'_bucket\{le="([^"]+)"\}', node.admin("/metrics")[1]), bounds
