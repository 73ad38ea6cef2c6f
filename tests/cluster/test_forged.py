# SPDX-License-Identifier: Apache-2.0
"""Somebody who may write Leases, or into etcd: real kube-apiservers and a real etcd keep what he writes, and mvproxy follows none of it to
where he wants it: nobody hears a byte of HTTP, nothing else is disturbed, and the log and the metrics tell.
"""

import base64
import contextlib
import datetime
import hashlib
import socket
import ssl
import threading

from harness import etcd, waiting
from harness.api import AGGREGATED, expect
from harness.node import ADMIN_PORT, PORT

RECORDS = "/registry/peerserverleases/"
IDENTITY = {"apiserver.kubernetes.io/identity": "kube-apiserver"}
ADDRESS = "kubernetes.io/peer-advertise-address"


class Ear:
    """Listens, and keeps what it hears; with a pair of certificate and key it speaks TLS, and keeps what it hears behind the handshake."""

    def __init__(self, host, pair=None):
        self.visits, self.heard, self.handshakes, self.certificates = 0, [], 0, []
        self.context = None
        if pair:
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.context.load_cert_chain(*pair)
        self.listener = socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        while True:
            conn, _ = self.listener.accept()
            self.visits += 1
            with contextlib.suppress(OSError), conn:
                conn.settimeout(20)
                self._listen(conn)

    def _listen(self, conn):
        if self.context is None:
            self.heard.append(conn.recv(65536))
            return
        with self.context.wrap_socket(conn, server_side=True) as tls:
            self.handshakes += 1
            self.heard.append(tls.recv(65536))


def _id(*words):
    """A name as those of API servers, for somebody who is none."""
    return "apiserver-" + base64.b32encode(hashlib.sha256(" ".join(words).encode()).digest()[:16]).decode().rstrip("=").lower()


def _lease(name, address=None, namespace="kube-system", labels=None):
    """As a kube-apiserver's, with an address of somebody's choice."""
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": name, "namespace": namespace, "labels": IDENTITY if labels is None else labels,
                         "annotations": {} if address is None else {ADDRESS: address}},
            "spec": {"holderIdentity": name + "_x", "leaseDurationSeconds": 3600, "renewTime": now, "acquireTime": now}}


def _leases(namespace):
    return "/apis/coordination.k8s.io/v1/namespaces/%s/leases" % namespace


def _record(name, host, port):
    """As kube-apiserver 1.36 writes it."""
    return {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": name, "labels": {"apiserverIdentity": name}},
            "subsets": [{"addresses": [{"ip": host}], "ports": [{"name": "https", "port": port, "protocol": "TCP"}]}]}


class Forger:
    """Makes Leases and records, and takes them away."""

    def __init__(self, cluster):
        self.cluster, self.admin, self.made, self.records = cluster, cluster.new.direct(), [], []

    def lease(self, name, address=None, namespace="kube-system", labels=None):
        expect(self.admin.request("POST", _leases(namespace), _lease(name, address, namespace, labels)), 201)
        self.made.append(_leases(namespace) + "/" + name)

    def record(self, name, host, port):
        """A Lease, and in etcd where that server is."""
        etcd.put(self.cluster, RECORDS + name, _record(name, host, port))
        self.records.append(RECORDS + name)
        self.lease(name)

    def both(self, word, host, port):
        """The same by annotation and by record; their names."""
        names = [_id(word, how) for how in ("lease", "record")]
        self.lease(names[0], "%s:%d" % ("[%s]" % host if ":" in host else host, port))
        self.record(names[1], host, port)
        return names

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for path in self.made:
            expect(self.admin.request("DELETE", path), 200, 404)
        for key in self.records:
            etcd.delete(self.cluster, key)


def _with_records(cluster):
    """Every mvproxy reads records in etcd, besides what its setup says."""
    pki = cluster.pki
    for node in cluster.proxies:
        node.mvproxy.stop()
        node.start_mvproxy(peer_advertise_ip=node.address, peer_advertise_port=PORT, etcd_servers=[cluster.etcd_url], etcd_cafile=pki.crt("etcd-ca"),
                           etcd_certfile=pki.crt("etcd-client"), etcd_keyfile=pki.key("etcd-client"))
    for node in cluster.proxies:
        node.await_mvproxy()
    cluster.await_settled()


def _log(node, name, text):
    """Whether the log has a line with both."""
    return any('"%s"' % name in line and text in line for line in node.mvproxy.log_text().splitlines())


def _goes_on(cluster):
    """What is really there is found and used, directly and by discovery; what nobody has is no answer of anybody's."""
    for node in cluster.proxies:
        for user in ("admin", "root"):
            expect(node.proxied(user).get(cluster.skew.everywhere), 200)
            expect(node.proxied(user).get("/apis/nobody.example.com/v1/things"), 404, 503)
        groups = expect(node.proxied().get("/apis", Accept=AGGREGATED), 200).json()["items"]
        assert cluster.skew.group in [g["metadata"]["name"] for g in groups], [g["metadata"]["name"] for g in groups]


def _is_greeting(heard):
    """The first flight of TLS: a hello, and nothing of HTTP in it."""
    return heard[:2] == b"\x16\x03" and not any(word in heard for word in (b"HTTP", b"GET", b"uthorization", b"X-Remote", b"token-of"))


def test_refused_addresses(cluster):
    """Leases and records that point to loopback, to metadata services, to the ports of etcd, kube-apiserver and mvproxy there: never dialled"""
    _with_records(cluster)
    node, ear = cluster.old, Ear("127.0.0.1")
    places = {"loopback": ("127.0.0.1", ear.port), "mapped": ("::ffff:127.0.0.1", ear.port), "unspecified": ("0.0.0.0", ear.port),
              "etcd": ("127.0.0.1", 2379), "server": (node.loopback, PORT), "other-server": (cluster.new.loopback, PORT), "admin": (node.loopback, ADMIN_PORT),
              "metadata": ("169.254.169.254", 80), "metadata6": ("fd00:ec2::254", 80), "link-local": ("fe80::1", 443), "multicast": ("224.0.0.1", 443)}
    with contextlib.suppress(OSError):  # no IPv6 here
        ear6 = Ear("::1")
        places["loopback6"] = ("::1", ear6.port)
    with Forger(cluster) as forger:
        names = [name for word, place in places.items() for name in forger.both(word, *place)]
        for name in names:
            waiting.until(lambda n=name: _log(node, n, "the address is not allowed"), "the log about " + name)
            assert node.metric("mvproxy_back_connects_total", server=name, result="success") == 0, name
            assert node.metric("mvproxy_back_connects_total", server=name, result="failure") > 0, name
        assert node.metric("mvproxy_peer_endpoint_records") >= len(places), "records"
        _goes_on(cluster)
    assert ear.visits == 0 and ("loopback6" not in places or ear6.visits == 0), (ear.visits, ear.heard)


def test_impostors(cluster):
    """those that point to somebody who is no API server: a greeting, and not one byte of HTTP"""
    pki, node = cluster.pki, cluster.old
    pki.issue("somebody", "somebody", ca="ca", sans=["somebody.example.com", node.address], eku="serverAuth")
    pki.issue("self-made", "kube-apiserver", sans=["kubernetes.default.svc", node.address], eku="serverAuth")
    ears = {"plain": Ear(node.address)}
    for name in ("foreign-server", "self-made", "somebody", "alice"):
        ears[name] = Ear(node.address, (pki.crt(name), pki.key(name)))
    with Forger(cluster) as forger:
        names = {word: forger.both(word, node.address, ear.port) for word, ear in ears.items()}
        for word, ear in ears.items():
            for name in names[word]:
                waiting.until(lambda n=name: _log(node, n, "Server cannot be reached"), "the log about " + name)
            waiting.until(lambda e=ear: e.visits >= 4, "%s to be called" % word)
        _goes_on(cluster)
        for name in sum(names.values(), []):
            assert node.metric("mvproxy_back_connects_total", server=name, result="success") == 0, name
    assert ears["plain"].heard and all(_is_greeting(heard) for heard in ears["plain"].heard if heard), ears["plain"].heard
    for word, ear in ears.items():
        assert word == "plain" or (ear.handshakes == 0 and not ear.heard), (word, ear.handshakes, ear.heard)


def test_other_leases(cluster):
    """Leases of other namespaces, labels and names are no API servers: nobody is called"""
    node = cluster.old
    ear, right = Ear(node.address), Ear(node.address)
    with Forger(cluster) as forger:
        for n, (namespace, labels) in enumerate((("default", None), ("kube-node-lease", None), ("kube-public", None), ("kube-system", {}),
                                                 ("kube-system", {"apiserver.kubernetes.io/identity": "kube-controller-manager"}))):
            forger.lease(_id("other", str(n)), "%s:%d" % (node.address, ear.port), namespace, labels)
        forger.lease("apiserver-of-any-name", "%s:%d" % (node.address, ear.port))
        forger.lease(_id("right"), "%s:%d" % (node.address, right.port))  # the last: when it is followed the others would have been
        waiting.until(lambda: right.visits > 1, "the right one to be called")
        _goes_on(cluster)
    assert ear.visits == 0, ear.heard
    assert _log(node, "kube-system/apiserver-of-any-name", "Ignoring a Lease"), "the one with a wrong name is not in the log"


def test_ourselves(cluster):
    """those that point to mvproxy itself, and to the one beside it: each request still reaches one server, and no more"""
    node = cluster.old
    with Forger(cluster) as forger:
        names = forger.both("self", node.address, PORT) + forger.both("beside", cluster.new.address, PORT)
        for name in names:
            waiting.until(lambda n=name: node.metric("mvproxy_back_connects_total", server=n, result="success") > 0, name + " to be called")
        _goes_on(cluster)
        for _ in range(20):
            answer = node.proxied().get(cluster.skew.collection)
            expect(answer, 200)
            ids = set(answer.all("Audit-Id"))
            seen = waiting.until(lambda i=ids: [s for one in i for s in cluster.audit(one)], "an audit event")
            assert [s[0].name for s in seen] == [cluster.new.name], seen
