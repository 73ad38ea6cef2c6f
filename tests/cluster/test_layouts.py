# SPDX-License-Identifier: Apache-2.0
"""Controllers that know no other server than https://127.0.0.1:6443: the layout "both" of docs/layouts.md.

kube-apiserver has another address of loopback (and the same port), mvproxy the node's address and 127.0.0.1. The
real kube-controller-manager and kube-scheduler elect leaders there, and give up when they cannot renew their Leases in time.
"""

import contextlib
import os
import subprocess
import time

from harness import rolling, waiting
from harness.api import ensure_namespace, expect, remove
from harness.client import Client
from harness.daemon import Daemon
from harness.kubectl import kubeconfig
from harness.node import PORT

HOME = "layouts"
DEPLOYMENTS = "/apis/apps/v1/namespaces/%s/deployments" % HOME
PODS = "/api/v1/namespaces/%s/pods" % HOME
NODES = "/api/v1/nodes"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/"
RENEWALS = 6  # with one try a second and a deadline of four: who is not served has given up long before
ELECTION = ["--leader-elect=true", "--leader-elect-lease-duration=6s", "--leader-elect-renew-deadline=4s", "--leader-elect-retry-period=1s"]


def _worker():
    """There is no kubelet: the scheduler only needs a place to write down."""
    room = {"cpu": "64", "memory": "64Gi", "pods": "500"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "worker"},
            "status": {"capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]}}


def _deployment(name, replicas=2):
    labels = {"app": name}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {
        "replicas": replicas, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": {
            "tolerations": [{"operator": "Exists"}], "containers": [{"name": "main", "image": "example.com/none"}]}}}}


class Pinned:
    """kube-controller-manager and kube-scheduler of one node, started once. To be used in a `with`."""

    def __init__(self, cluster):
        self._cluster = cluster
        self.daemons = [self._daemon("kube-controller-manager", "controller-manager", 20257, [
            "--controllers=deployment-controller,replicaset-controller", "--use-service-account-credentials=true",
            "--service-account-private-key-file=" + os.path.join(cluster.pki.dir, "sa.key"),
        ]), self._daemon("kube-scheduler", "scheduler", 20259, [])]

    def _daemon(self, name, user, port, more):
        cluster = self._cluster
        config = kubeconfig(os.path.join(cluster.dir, name + "-pinned.kubeconfig"), "https://127.0.0.1:%d" % PORT, cluster.pki.crt("ca"),
                            **cluster.credentials(user))
        return Daemon(name + "-pinned", [
            cluster.program(cluster.setup.controllers, name), "--kubeconfig=" + config, "--authentication-skip-lookup=true",
            "--bind-address=127.0.0.1", "--secure-port=%d" % port, "--cert-dir=" + os.path.join(cluster.dir, name), "--v=2", *ELECTION, *more,
        ], cluster.logs, hostname=name)

    def __enter__(self):
        for daemon in self.daemons:
            daemon.start()
        return self

    def __exit__(self, *_):
        for daemon in self.daemons:
            daemon.kill()

    def check(self):
        """Neither has ended: who loses its Lease does."""
        for daemon in self.daemons:
            daemon.check()


def _renewals(client, name):
    spec = expect(client.get(LEASES + name), 200).json()["spec"]
    return spec["holderIdentity"], spec["leaseTransitions"], spec["renewTime"]


def _await_renewed(pinned, client, name, times, holder=None):
    """Until the Lease was renewed so often, always by the same holder."""
    seen = set()

    def renewed():
        pinned.check()
        now = _renewals(client, name)
        assert holder is None or now[:2] == holder, now
        seen.add(now[2])
        return len(seen) > times and now[:2]
    return waiting.until(renewed, "%s to renew its Lease" % name)


def _work(pinned, client, name):
    """Both have something to do: Pods are made, and get their node."""
    expect(client.request("POST", DEPLOYMENTS, _deployment(name)), 201)

    def placed():
        pinned.check()
        pods = expect(client.get(PODS + "?labelSelector=app%3D" + name), 200).json()["items"]
        return len([p for p in pods if p["spec"].get("nodeName") == "worker"]) == 2
    waiting.until(placed, "the Pods of %s to be placed" % name)


def _stop(node):
    status = node.apiserver.stop(rolling.STOP_LIMIT)
    assert status == 0, "%s ended with %s" % (node.apiserver.name, status)


@contextlib.contextmanager
def _layout(cluster, **options):
    """mvproxy of the first node is on 127.0.0.1 as well. Afterwards everything is as before."""
    node, other = cluster.nodes[0], cluster.nodes[1].direct()
    own = node.spec.version
    node.mvproxy.stop()
    node.start_mvproxy(bind_address=[node.address, "127.0.0.1"], **options)
    node.await_mvproxy()
    ensure_namespace(other, HOME)
    expect(other.request("POST", NODES, _worker()), 201)
    try:
        yield node, other
    finally:
        if not node.apiserver.running() or node.spec.version != own:
            node.apiserver.stop(rolling.STOP_LIMIT)
            node.start_apiserver(own)
            node.await_apiserver()
        node.mvproxy.stop()
        node.start_mvproxy()
        node.await_mvproxy()
        remove(other, NODES + "/worker")


def _leaders(pinned, client):
    """{daemon: who holds its Lease, how often it was taken}, both being leaders."""
    return {d: waiting.until(lambda d=d: _await_renewed(pinned, client, d, 1), d, 90) for d in ("kube-controller-manager", "kube-scheduler")}


# As kube-vip gives and takes them, of either family; nobody's certificate has them.
VIRTUAL = ("192.0.2.200", "2001:db8::200")


def _move(verb, address):
    subprocess.run(["ip", "address", verb, "%s/%d" % (address, 128 if ":" in address else 32), "dev", "lo"] + ["nodad"] * (":" in address and verb == "add"),
                   check=True)


def _at(cluster, address):
    """A client that takes any name in the certificate, not any certificate."""
    client = Client(address, PORT, cluster.pki.crt("ca"), **cluster.credentials("admin"))
    client._tls.check_hostname = False  # pylint: disable=protected-access
    return client


def _is_served(client):
    try:
        return expect(client.get("/version"), 200).json()
    except OSError:
        return None


def test_virtual_addresses(cluster):
    """addresses of IPv4 and IPv6 that are not there at the start come, are served beside the node's, go while watches are open, and come again"""
    node = cluster.nodes[0]
    node.mvproxy.stop()
    node.start_mvproxy(bind_address=[node.address, *VIRTUAL])
    node.await_mvproxy()
    try:
        with node.proxied().watch_from_now("/api/v1/namespaces/default/configmaps") as old:
            clients = [_at(cluster, address) for address in VIRTUAL]
            assert [_is_served(c) for c in clients] == [None, None]
            for turn in ("first", "again"):
                for address in VIRTUAL:
                    _move("add", address)
                answers = [waiting.until(lambda c=c: _is_served(c), c.address) for c in clients]
                assert answers == [expect(node.direct().get("/version"), 200).json()] * 2, answers
                with clients[1].watch_from_now("/api/v1/namespaces/default/configmaps") as six:
                    _move("del", VIRTUAL[0])
                    assert _is_served(clients[0]) is None, "IPv4 is gone"
                    expect(node.direct().request("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "virtual-" + turn}}), 201)
                    for watch in (old, six):
                        assert watch.event()["object"]["metadata"]["name"] == "virtual-" + turn
                    expect(clients[1].get("/version"), 200)
                _move("del", VIRTUAL[1])
                assert _is_served(clients[1]) is None, "IPv6 is gone"
                expect(node.proxied().get("/version"), 200)
    finally:
        for address in VIRTUAL:
            subprocess.run(["ip", "address", "del", address, "dev", "lo"], capture_output=True, check=False)
        for turn in ("first", "again"):
            remove(node.direct(), "/api/v1/namespaces/default/configmaps/virtual-" + turn)
        node.mvproxy.stop()
        node.start_mvproxy()
        node.await_mvproxy()


def test_controllers_on_127_0_0_1(cluster):
    """controller manager and scheduler that know only 127.0.0.1 keep their Leases and work through upgrade and kill of its server"""
    own = cluster.nodes[0].spec.version
    with _layout(cluster) as (node, other), Pinned(cluster) as pinned:
        holders = _leaders(pinned, other)
        _work(pinned, other, "before")
        for step, end, version in (("upgraded", _stop, cluster.nodes[1].spec.version), ("killed", lambda n: n.apiserver.kill(), own)):
            before = node.metric("mvproxy_local_failover_requests_total")
            begun = time.monotonic()
            end(node)
            _work(pinned, other, step)
            for name, holder in holders.items():
                _await_renewed(pinned, other, name, RENEWALS, holder)
            away = time.monotonic() - begun
            node.start_apiserver(version)
            node.await_apiserver()
            _work(pinned, other, step + "-after")
            for name, holder in holders.items():
                _await_renewed(pinned, other, name, 1, holder)
            print("# %s: away for %.0f s, %d requests of the node's clients went to the peer" % (
                step, away, node.metric("mvproxy_local_failover_requests_total") - before), flush=True)
            assert node.metric("mvproxy_local_failover_requests_total") > before, step


def test_without_failover(cluster):
    """without local-failover both give up and end when that server is killed"""
    with _layout(cluster, local_failover=False) as (node, other), Pinned(cluster) as pinned:
        _leaders(pinned, other)
        node.apiserver.kill()
        for daemon in pinned.daemons:
            waiting.until(lambda d=daemon: not d.running(), "the end of " + daemon.name)
            assert "lost" in daemon.log_text().rpartition("---- started ")[2], daemon.tail()
