# SPDX-License-Identifier: Apache-2.0
"""mvproxyctl check before real kube-apiservers: nothing to be said of a healthy node, and what is wrong is named."""

import os

from harness import waiting
from harness.api import expect
from harness.node import at, numbers, yaml
from harness.runner import core

# As many as the descriptors of any test machine are enough for.
USUAL = {"max_connections": 100}


def _run(node, *arguments):
    """(exit status, output) of the check, on the node."""
    status, text, errors = node.ctl("check", *arguments)
    assert errors == "", errors
    return status, text


def _restart(node, **options):
    node.mvproxy.stop()
    node.start_mvproxy(**options)
    node.await_mvproxy()


def _all_well(cluster, node, *arguments):
    """Servers that are two minor versions apart, as one setup has them, are one remark."""
    status, text = _run(node, *arguments)
    minors = {numbers(n.spec.version)[1] for n in cluster.nodes}
    if max(minors) - min(minors) > 1:
        assert "0 wrong, 1 to be looked at" in text and "Kubernetes supports neighbours only" in text, text
    else:
        assert status == 0 and "Everything is well" in text, text
    return text


@core
def test_all_well(cluster):
    """at each node everything is well, before mvproxy is started and while it runs"""
    try:
        for node in cluster.proxies:
            node.mvproxy.stop()
            node.write_config(**USUAL)
            _all_well(cluster, node, "--pre", "--config", node.config)
            _restart(node, **USUAL)
        cluster.await_settled()
        for node in cluster.proxies:
            # Where the other one has only just been restarted the process may have to read it once more.
            text = waiting.until(lambda n=node: _all_well(cluster, n), "all well at " + node.name, 30)
            assert "it is kube-apiserver v" + node.spec.version in text, text
            for other in cluster.proxies:
                assert other is node or "peer %s at %s " % (other.name, at(other.address)) in text, (other.name, text)
    finally:
        for node in cluster.proxies:
            _restart(node)
        cluster.await_settled()


def _faults(cluster, node):
    """(options, what is to be said of them)"""
    return [
        ({"apiserver-ca-file": cluster.pki.crt("etcd-ca")}, "\u00d7 apiserver: %s: TLS handshake: certificate refused" % at(node.loopback)),
        ({"hostname-override": "somebody"}, "\u00d7 there is no identity Lease of somebody"),
        ({"apiserver-user": "system:mvproxy-nobody", "apiserver-groups": ["system:authenticated"]},
         "\u00d7 system:mvproxy-nobody lacks rights: leases.coordination.k8s.io: list, watch"),
        ({"requestheader-allowed-names": ["front-proxy-client", "somebody"]},
         "\u00d7 requestheader-* are not what the API servers have (extension-apiserver-authentication): requestheader-allowed-names"),
        ({"client-ca-file": cluster.pki.crt("etcd-ca")}, "\u00d7 client-ca-file is not what the API servers have"),
        ({"proxy-client-cert-file": cluster.pki.crt("admin"), "proxy-client-key-file": cluster.pki.key("admin")},
         "\u00d7 the local API server does not believe the front proxy: asked as system:apiserver, it sees "),
    ]


def test_faults(cluster):
    """each of six faults is named, and changes nothing"""
    node = cluster.old
    path = os.path.join(cluster.dir, "wrong.yaml")
    for change, said in _faults(cluster, node):
        with open(path, "w", encoding="utf-8") as out:
            out.write(yaml({**node.options(), "secure-port": 6444, "max-connections": 100, **change}))
        status, text = _run(node, "--pre", "--config", path)
        assert status == 2 and said in text, (change, text)
    expect(node.proxied().get(cluster.skew.collection), 200)


def test_peer_down(cluster):
    """a peer whose mvproxy is down is named at the other node"""
    cluster.new.mvproxy.stop()
    path = os.path.join(cluster.dir, "right.yaml")
    with open(path, "w", encoding="utf-8") as out:
        out.write(yaml({**cluster.old.options(), "secure-port": 6444, "max-connections": 100}))
    status, text = _run(cluster.old, "--pre", "--config", path)
    assert status == 2 and "\u00d7 peer %s: %s: " % (cluster.new.name, at(cluster.new.address)) in text, text
