# SPDX-License-Identifier: Apache-2.0
"""A control-plane node: a host name, an address, a kube-apiserver, and mvproxy in front of it."""

import base64
import hashlib
import json
import os
import subprocess
import urllib.error
import urllib.request

from . import waiting
from .client import Client
from .daemon import Daemon
from .kubectl import Kubectl, kubeconfig

PORT = 6443
ADMIN_PORT = 9443


GATE_OFF = "--feature-gates=UnknownVersionInteroperabilityProxy=false"


def numbers(version):
    """A version as something that can be compared: (1, 34, 4)."""
    return tuple(int(n) for n in version.split("."))


class NodeSpec:
    """What a node is to be: its name, the Kubernetes version, more flags for kube-apiserver, more options for mvproxy.

    bare: kube-apiserver listens on the node's address itself, and no mvproxy is there.
    """

    def __init__(self, name, version, flags=(), options=None, bare=False):
        self.name = name
        self.version = version
        self.flags = list(flags)
        self.options = dict(options or {})
        self.bare = bare

    @property
    def minor(self):
        return ".".join(self.version.split(".")[:2])

    @property
    def gate(self):
        """Whether kube-apiserver here is a proxy to its peers itself: so by default since 1.36."""
        return numbers(self.version) >= (1, 36) and GATE_OFF not in self.flags


def at(address, port=PORT):
    """HOST:PORT"""
    return "%s:%d" % ("[%s]" % address if ":" in address else address, port)


def yaml(options):
    """A flat YAML mapping: strings quoted as JSON has them, lists in block form."""
    lines = []
    for key, value in options.items():
        if isinstance(value, (list, tuple)):
            lines.append("%s:%s" % (key, "" if value else " []"))
            lines += ["  - %s" % json.dumps(v) for v in value]
        else:
            lines.append("%s: %s" % (key, json.dumps(value)))
    return "\n".join(lines) + "\n"


def _sum(text, name, labels):
    total = 0.0
    for line in text.splitlines():
        sample, _, value = line.rpartition(" ")
        if sample.partition("{")[0] == name and all('%s="%s"' % (k, v) in sample for k, v in labels.items()):
            total += float(value)
    return total


class Node:
    """Same port, other address: kube-apiserver listens on loopback and advertises the node's address, where mvproxy is."""

    def __init__(self, spec, index, cluster):
        self.spec = spec
        self.name = spec.name
        self.address = cluster.node_address(index)
        self.loopback = self.address if spec.bare else cluster.loopback_address(index)
        # On loopback indeed: elsewhere it wants TLS.
        self.admin_address = at("::1", ADMIN_PORT + index) if ":" in self.address else at(self.loopback, ADMIN_PORT)
        self._cluster = cluster
        self.before_start = lambda: None  # called once, when kube-apiserver is started the next time
        self.audit_log = os.path.join(cluster.logs, "audit-%s.log" % self.name)
        self.config = os.path.join(cluster.dir, "mvproxy-%s.yaml" % self.name)
        self.control_socket = os.path.join(cluster.dir, "mvproxy-%s.sock" % self.name)
        self.apiserver = Daemon("kube-apiserver-" + self.name, [], cluster.logs, hostname=self.name)
        self.mvproxy = Daemon("mvproxy-" + self.name, [cluster.mvproxy, "--config", self.config], cluster.logs,
                              hostname=self.name)

    @property
    def server_id(self):
        """What kube-apiserver makes of its host name."""
        data = b"".join(len(p).to_bytes(2, "big") + p for p in (self.name.encode(), b"kube-apiserver"))
        return "apiserver-" + base64.b32encode(hashlib.sha256(data).digest()[:16]).decode().rstrip("=").lower()

    @property
    def lacks(self):
        """Whether kube-apiserver here does not serve what the cluster's skew is about."""
        return self.name in self._cluster.skew.lacking

    # What runs here.

    def _apiserver_argv(self):
        """A flag of the spec takes the place of ours: with kube-apiserver, lists that are given twice add up."""
        replaced = {flag.partition("=")[0] for flag in self.spec.flags}
        return [self._cluster.program(self.spec.version, "kube-apiserver"),
                *(f for f in self._own_flags() if f.partition("=")[0] not in replaced), *self.spec.flags]

    def _own_flags(self):
        pki = self._cluster.pki
        return [
            "--bind-address=" + self.loopback,
            "--secure-port=%d" % PORT,
            "--advertise-address=" + self.address,
            "--etcd-servers=" + self._cluster.etcd_url,
            "--etcd-cafile=" + pki.crt("etcd-ca"),
            "--etcd-certfile=" + pki.crt("etcd-client"),
            "--etcd-keyfile=" + pki.key("etcd-client"),
            "--tls-cert-file=" + pki.crt("node-" + self.name),
            "--tls-private-key-file=" + pki.key("node-" + self.name),
            "--client-ca-file=" + pki.crt("ca"),
            "--requestheader-client-ca-file=" + pki.crt("front-proxy-ca"),
            "--requestheader-allowed-names=front-proxy-client",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            "--proxy-client-cert-file=" + pki.crt("front-proxy-client"),
            "--proxy-client-key-file=" + pki.key("front-proxy-client"),
            # Of a kubelet: test_streams.py has one.
            "--kubelet-client-certificate=" + pki.crt("admin"),
            "--kubelet-client-key=" + pki.key("admin"),
            "--kubelet-certificate-authority=" + pki.crt("ca"),
            "--kubelet-preferred-address-types=InternalIP",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-account-key-file=" + os.path.join(pki.dir, "sa.pub"),
            "--service-account-signing-key-file=" + os.path.join(pki.dir, "sa.key"),
            "--service-cluster-ip-range=" + ("fd00:96::/112" if ":" in self.address else "10.96.0.0/16"),
            "--authorization-mode=RBAC",
            "--token-auth-file=" + self._cluster.token_file,
            "--allow-privileged=true",
            # Nobody makes service accounts here (that is kube-controller-manager's work), and pods are to be created.
            "--disable-admission-plugins=ServiceAccount",
            "--audit-policy-file=" + self._cluster.audit_policy,
            "--audit-log-path=" + self.audit_log,
            *(["--peer-ca-file=" + pki.crt("ca")] if self.spec.gate else []),
        ]

    def _addresses(self):
        """Where mvproxy has the addresses of its peers from."""
        if self._cluster.setup.addresses == "static":
            # Kubernetes before 1.36 writes no peer addresses anywhere.
            return {"peers": ["%s=%s" % (n.name, at(n.address)) for n in self._cluster.nodes if n is not self]}
        own = {"peer-advertise-ip": self.address, "peer-advertise-port": PORT}
        if self._cluster.setup.addresses == "etcd":
            pki = self._cluster.pki
            own.update({"etcd-servers": [self._cluster.etcd_url], "etcd-cafile": pki.crt("etcd-ca"),
                        "etcd-certfile": pki.crt("etcd-client"), "etcd-keyfile": pki.key("etcd-client")})
        return own

    def options(self):
        """mvproxy's configuration here."""
        pki = self._cluster.pki
        options = {
            "bind-address": self.address,
            "secure-port": PORT,
            "tls-cert-file": pki.crt("node-" + self.name),
            "tls-private-key-file": pki.key("node-" + self.name),
            "client-ca-file": pki.crt("ca"),
            "requestheader-client-ca-file": pki.crt("front-proxy-ca"),
            "requestheader-allowed-names": ["front-proxy-client"],
            "proxy-client-cert-file": pki.crt("front-proxy-client"),
            "proxy-client-key-file": pki.key("front-proxy-client"),
            "apiserver": "https://" + at(self.loopback),
            "apiserver-ca-file": pki.crt("ca"),
            "peer-ca-file": pki.crt("ca"),
            **self._addresses(),
            "admin-bind-address": self.admin_address,
            "control-socket": self.control_socket,
            "v": 4,
        }
        options.update(self._cluster.options)
        options.update(self.spec.options)
        return options

    def write_config(self, **more):
        """(Re)write mvproxy's config file; keys with _ for -."""
        options = self.options()
        options.update({k.replace("_", "-"): v for k, v in more.items()})
        with open(self.config + ".new", "w", encoding="utf-8") as out:
            out.write(yaml(options))
        os.replace(self.config + ".new", self.config)

    def start_apiserver(self, version=None):
        """version: what it is to be from now on."""
        self.before_start()
        self.before_start = lambda: None
        self.spec.version = version or self.spec.version
        self.apiserver.argv = self._apiserver_argv()
        self.apiserver.start()

    def await_apiserver(self, timeout=180.0):
        def ready():
            self.apiserver.check()
            return self.direct().get("/readyz").status == 200
        waiting.until(ready, "kube-apiserver on %s ready" % self.name, timeout, pause=0.3)

    def start_mvproxy(self, **options):
        self.write_config(**options)
        self.mvproxy.start()

    def await_mvproxy(self, timeout=60.0):
        def ready():
            self.mvproxy.check()
            # Where servers have words that not every mvproxy knows, that one is not ready for that reason.
            return self.admin("/readyz?exclude=requestheader" if "words" in self._cluster.traits else "/readyz")[0] == 200
        waiting.until(ready, "mvproxy on %s ready" % self.name, timeout)

    # Asking it.

    def admin(self, path):
        """(status, text) of mvproxy's admin listener."""
        try:
            with urllib.request.urlopen("http://%s%s" % (self.admin_address, path), timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def ctl(self, *arguments):
        """(exit status, output, errors) of mvproxyctl here."""
        program = os.path.join(os.path.dirname(self._cluster.mvproxy), "mvproxyctl")
        command = [program, "--socket", self.control_socket, *arguments]
        done = subprocess.run(["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', self.name, *command], capture_output=True,
                              text=True, check=False, timeout=120, env=dict(os.environ, LC_ALL="C.UTF-8"))
        return done.returncode, done.stdout, done.stderr

    def metric(self, name, **labels):
        """The sum of the samples of one of mvproxy's metrics whose labels contain these; 0 if there is none."""
        return _sum(self.admin("/metrics")[1], name, labels)

    def server_metric(self, name, **labels):
        """The same of kube-apiserver's own metrics."""
        return _sum(self.direct().get("/metrics").body.decode(), name, labels)

    def _client(self, address, user):
        return Client(address, PORT, self._cluster.pki.crt("ca"), **self._cluster.credentials(user))

    def direct(self, user="admin"):
        """A client of kube-apiserver itself."""
        return self._client(self.loopback, user)

    def proxied(self, user="admin"):
        """A client that goes through mvproxy."""
        return self._client(self.address, user)

    def kubeconfig(self, user="admin", direct=False):
        """The path of a kubeconfig for that user."""
        path = os.path.join(self._cluster.dir, "%s-%s%s.kubeconfig" % (self.name, user, "-direct" if direct else ""))
        server = "https://" + at(self.loopback if direct else self.address)
        return kubeconfig(path, server, self._cluster.pki.crt("ca"), **self._cluster.credentials(user))

    def kubectl(self, version=None, user="admin", direct=False):
        """kubectl of that version (default: the node's own, if that is among those that are tried, else the oldest of these)."""
        own = self.spec.version if self.spec.version in self._cluster.kubectls else self._cluster.kubectls[0]
        program = self._cluster.program(version or own, "kubectl")
        return Kubectl(program, self.kubeconfig(user, direct), self._cluster.dir)

    def audit(self, audit_id):
        """The audit events that kube-apiserver here wrote for a request."""
        found = []
        with open(self.audit_log, encoding="utf-8") as lines:
            for line in lines:
                if audit_id in line:
                    event = json.loads(line)
                    if event.get("auditID") == audit_id:
                        found.append(event)
        return found
