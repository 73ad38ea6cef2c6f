# SPDX-License-Identifier: Apache-2.0
"""Two releases of kube-apiserver, and objects with a field that only the newer one knows: by default the older one drops it, and says so;
with skewed-resources=newest it never sees them."""

import signal

from harness import waiting
from harness.api import ensure_namespace, expect
from harness.runner import needs

# containers[].restartPolicyRules came with 1.34. Validation tells who has read it: who knows it does not warn.
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "skewed"},
       "spec": {"containers": [{"name": "c", "image": "i", "restartPolicyRules": []}]}}
UNKNOWN = "unknown field"
SERVED_BY = "X-Mvproxy-Served-By"


def _post(node, namespace, direct=False):
    client = node.direct() if direct else node.proxied()
    return expect(client.request("POST", "/api/v1/namespaces/%s/pods?dryRun=All" % namespace, POD), 201)


def _warned(answer):
    return any(UNKNOWN in w for w in answer.all("Warning"))


def _switch(node, where):
    node.write_config(**{"skewed-resources": where})
    node.mvproxy.signal(signal.SIGHUP)
    waiting.until(lambda: "skewed-resources: %s" % where in node.admin("/statusz")[1], "the reload at " + node.name)


@needs("claims")
def test_newest(cluster):
    """a field of the newer release is read by it wherever one asks, if that is wanted; /openapi/v3 shows what differs"""
    old, new = cluster.nodes
    namespace = ensure_namespace(old.direct(), "skewed")
    assert _warned(_post(old, namespace, direct=True)), "the older server knows the field"
    assert not _warned(_post(new, namespace, direct=True)), "the newer server does not know the field"
    for node in cluster.nodes:
        waiting.until(lambda n=node: n.metric("mvproxy_skewed_group_versions") > 0, "what differs, at " + node.name)
        print("# %s: %d group/versions differ" % (node.name, node.metric("mvproxy_skewed_group_versions")))
    by_default = _post(old, namespace)
    assert _warned(by_default) and by_default.header(SERVED_BY) is None, by_default.headers
    try:
        _switch(old, "newest")
        answer = _post(old, namespace)
        assert not _warned(answer) and answer.header(SERVED_BY), answer.headers
        new.apiserver.kill()  # its Lease is as if it lived
        alone = _post(old, namespace)
        assert _warned(alone) and any("older than others" in w for w in alone.all("Warning")), alone.headers
        new.start_apiserver()
        new.await_apiserver()
        waiting.until(lambda: _post(old, namespace).header(SERVED_BY), "the newer server to be asked again")
        assert _post(new, namespace).header(SERVED_BY) is None, "the newer one is at home"
    finally:
        _switch(old, "local")
