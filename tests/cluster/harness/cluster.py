# SPDX-License-Identifier: Apache-2.0
"""A whole control plane on one machine: etcd, nodes, and the certificates and users of all."""

import json
import os
import shutil
import sys
import tempfile
import time

from . import waiting
from .api import identity_leases
from .daemon import Daemon
from .node import Node
from .setups import Setup
from .skew import device_classes

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "lib"))
import certs  # noqa: E402 # pylint: disable=wrong-import-position

# name: what a client of that user presents. The tokens are no secrets: they are worth something in the sandbox only.
USERS = {
    "admin": {"certificate": "admin"},
    "alice": {"certificate": "alice"},
    "controller-manager": {"certificate": "controller-manager"},
    "scheduler": {"certificate": "scheduler"},
    "deep": {"certificate": "deep"},
    "foreign": {"certificate": "foreign"},
    "front-proxy": {"certificate": "front-proxy-client"},
    "front-proxy-other": {"certificate": "front-proxy-other"},
    "foreign-with-token": {"certificate": "foreign", "token": "token-of-bob"},
    "alice-with-token": {"certificate": "alice", "token": "token-of-bob"},
    "root": {"token": "token-of-root"},
    "bob": {"token": "token-of-bob"},
    "stranger": {"token": "token-that-nobody-knows"},
    "anonymous": {},
}

TOKENS = 'token-of-root,root,uid-of-root,"system:masters"\ntoken-of-bob,bob,uid-of-bob,"dev,night-shift"\n'

NODE_RANGE = "192.0.2.%d"  # RFC 5737: for documentation, never routed
LOOPBACK_RANGE = "127.0.0.%d"
# With the trait "ipv6". There is one address of loopback only, so others stand for it.
NODE_RANGE_V6, LOOPBACK_RANGE_V6 = "fd00:10::%d", "fd00:127::%d"  # RFC 4193
FIRST_NODE = 11


def addresses(nodes, ipv6=False):
    """The addresses that a sandbox for so many nodes needs."""
    return [of % (FIRST_NODE + i) for i in range(nodes) for of in ((NODE_RANGE_V6, LOOPBACK_RANGE_V6) if ipv6 else (NODE_RANGE,))]


class Cluster:
    """Call start(), use nodes, call stop() in any case. To be used inside a sandbox with addresses()."""

    def __init__(self, setup, programs, mvproxy=None, options=None, directory=None):
        """setup: a Setup, or a list of NodeSpec of which the first lacks device classes; programs: the folder with
        VERSION/PROGRAM; mvproxy: its path, None to do without; options: for every mvproxy."""
        if not isinstance(setup, Setup):
            setup = Setup("", setup, device_classes(setup[0].name), addresses="static")
        specs = setup.nodes
        self.setup = setup
        self.dir = directory or tempfile.mkdtemp(prefix="mvproxy-cluster-")
        self.logs = os.path.join(self.dir, "logs")
        self.mvproxy = mvproxy
        self.options = dict(options or {})
        self._programs = programs
        os.makedirs(self.logs, exist_ok=True)
        self.nodes = []
        self.pki = certs.make_all(os.path.join(self.dir, "pki"), {
            spec.name: [self.node_address(i), self.loopback_address(i)] for i, spec in enumerate(specs)})
        self.token_file = self._write("tokens.csv", TOKENS)
        self.audit_policy = self._write("audit-policy.yaml", json.dumps({
            "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
            "rules": [{"level": "Metadata"}]}))
        self.etcd_url = "https://127.0.0.1:2379"
        self.etcd = Daemon("etcd", self._etcd_argv(), self.logs)
        self.nodes += [Node(spec, i, self) for i, spec in enumerate(specs)]

    def node_address(self, index):
        return (NODE_RANGE_V6 if "ipv6" in self.traits else NODE_RANGE) % (FIRST_NODE + index)

    def loopback_address(self, index):
        return (LOOPBACK_RANGE_V6 if "ipv6" in self.traits else LOOPBACK_RANGE) % (FIRST_NODE + index)

    def _write(self, name, text):
        path = os.path.join(self.dir, name)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
            out.write(text)
        return path

    def _etcd_argv(self):
        return [
            "etcd", "--name=etcd", "--data-dir=" + os.path.join(self.dir, "etcd"),
            "--listen-client-urls=" + self.etcd_url, "--advertise-client-urls=" + self.etcd_url,
            "--listen-peer-urls=http://127.0.0.1:2380", "--initial-advertise-peer-urls=http://127.0.0.1:2380",
            "--initial-cluster=etcd=http://127.0.0.1:2380",
            "--cert-file=" + self.pki.crt("etcd-server"), "--key-file=" + self.pki.key("etcd-server"),
            "--client-cert-auth", "--trusted-ca-file=" + self.pki.crt("etcd-ca"),
        ]

    def program(self, version, name):
        return os.path.join(self._programs, version, name)

    def credentials(self, user):
        """What Client and kubeconfig take for one of USERS."""
        how = dict(USERS[user])
        if "certificate" in how:
            how["certificate"] = (self.pki.crt(how["certificate"]), self.pki.key(how["certificate"]))
        return how

    def node(self, name):
        return next(n for n in self.nodes if n.name == name)

    @property
    def skew(self):
        return self.setup.skew

    @property
    def traits(self):
        return self.setup.traits

    @property
    def kubectls(self):
        """The versions of kubectl that are tried, the oldest first."""
        return self.setup.kubectl

    @property
    def old(self):
        """A node that lacks what the skew is about: in most clusters the one with the older version."""
        return next(n for n in self.nodes if n.lacks)

    @property
    def new(self):
        """The last node that serves what others lack."""
        return [n for n in self.nodes if not n.lacks][-1]

    def audit(self, audit_id):
        """[(node, audit event)]: what all servers together say about a request."""
        return [(n, e) for n in self.nodes for e in n.audit(audit_id)]

    def daemons(self):
        found = [self.etcd]
        for node in self.nodes:
            found += [node.apiserver, node.mvproxy]
        return found

    def start_kubernetes(self):
        """etcd, then the first kube-apiserver, then all others at once, until all are ready.

        The first makes what is there once in a cluster. Two that do so together may end: "cannot create cluster IP allocator:
        another caller has already initialized the resource". A kubelet would start it again; here nobody does."""
        self.etcd.start()
        first, *others = self.nodes
        first.start_apiserver()
        first.await_apiserver()
        for node in others:
            node.start_apiserver()
        for node in others:
            node.await_apiserver()

    @property
    def proxies(self):
        """The nodes that have an mvproxy."""
        return [n for n in self.nodes if self.mvproxy and not n.spec.bare]

    def start_mvproxies(self):
        for node in self.proxies:
            node.start_mvproxy()
        for node in self.proxies:
            node.await_mvproxy()

    def await_settled(self):
        """Until every mvproxy knows a way to what the skew is about, if there is one."""
        if all(n.lacks for n in self.nodes):
            return
        for node in self.proxies:
            waiting.until(lambda n=node: n.proxied().get(self.skew.everywhere).status == 200,
                          "%s at %s" % (self.skew.kubectl, node.name))

    def await_leases(self):
        """Until every kube-apiserver of 1.26 or newer has published who it is."""
        wanted = {n.name for n in self.nodes}

        def all_there():
            return wanted <= {i["metadata"]["labels"]["kubernetes.io/hostname"] for i in identity_leases(self.nodes[0].direct())}
        waiting.until(all_there, "identity Leases of " + ", ".join(sorted(wanted)))

    def start(self):
        self.start_kubernetes()
        if "leases" in self.traits:
            self.await_leases()
        self.start_mvproxies()
        self.await_settled()

    def show_logs(self, out, lines=25):
        """The end of every log, for somebody who has to find out."""
        for daemon in self.daemons():
            if os.path.exists(daemon.log):
                out.write("  %s:\n%s" % (daemon.name, daemon.tail(lines)))

    def keep_logs(self, directory):
        """Copy all logs to a folder of that name that outlives the sandbox."""
        shutil.copytree(self.logs, directory, dirs_exist_ok=True)

    def stop(self):
        """End everything and remove every file. What is thrown away need not end gracefully."""
        for node in self.nodes:
            node.mvproxy.kill()
        for node in self.nodes:
            node.apiserver.kill()
        self.etcd.kill()
        for _ in range(50):  # a killed program's last writes may still create a file
            try:
                shutil.rmtree(self.dir)
                return
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(0.1)
