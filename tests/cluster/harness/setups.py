# SPDX-License-Identifier: Apache-2.0
"""The clusters that the tests run on: which versions beside each other, with which flags, and what is skewed in them."""

from . import skew
from .node import GATE_OFF, NodeSpec, numbers

EVERYTHING = ("test_check.py", "test_discovery.py", "test_facts.py", "test_failover.py", "test_goaway.py", "test_identity.py", "test_kubectl.py",
              "test_metrics.py", "test_rbac.py", "test_routing.py", "test_skewed.py", "test_streams.py", "test_versions.py", "test_zpages.py")
CORE = ("test_check.py", "test_discovery.py", "test_kubectl.py", "test_routing.py", "test_versions.py", "test_zpages.py")


# For kubeadm, which wants it to run: that of the other setups, so that it is not built for this alone.
SCHEDULER = "1.36.3"


class Setup:
    """A cluster that can be built.

    nodes: in the order of their age. skew: what the first lacks and the last has. addresses: where mvproxy has those of
    its peers from, "static" (configuration), "annotations" (of Leases), or "etcd" (records there, and annotations).
    core: only the tests that are marked so. kubectl: versions, if not those of the nodes. controllers: the version of
    kube-controller-manager. scheduler: with kube-scheduler of that version. upgrade: a version that the nodes are taken to, which has what they all lack. traits: what
    tests may ask for with needs(). kubeadm: the nodes are machines on which kubeadm makes the cluster (kubeadm.py). kubelet: they
    have the real kubelet as well (kubelet.py).
    """

    def __init__(self, name, nodes, skewed, files=CORE, **more):
        self.name = name
        self.nodes = list(nodes)
        self.skew = skewed
        self.files = files
        self.addresses = more.pop("addresses", "annotations")
        self.core = more.pop("core", True)
        self.controllers = more.pop("controllers", None)
        self.scheduler = more.pop("scheduler", False)
        self.upgrade = more.pop("upgrade", None)
        self.kubelet = more.pop("kubelet", False)
        self.kubeadm = self.kubelet or more.pop("kubeadm", False)
        self.kubectl = more.pop("kubectl", None) or self._oldest_and_newest()
        self.traits = self._traits() | set(more.pop("traits", ()))
        assert not more, more

    def _oldest_and_newest(self):
        versions = sorted({n.version for n in self.nodes} | {self.upgrade} - {None}, key=numbers)
        return [versions[0], versions[-1]] if len(versions) > 1 else versions

    def _traits(self):
        found = {"gate" if any(n.gate for n in self.nodes) else "no gate"}
        oldest = min(numbers(n.version) for n in self.nodes)
        found.add("leases" if oldest >= (1, 26) else "no leases")
        if oldest >= (1, 30):
            found.add("v2")
        if oldest >= (1, 36):
            found.add("zpages")
        return found

    @property
    def programs(self):
        """{version: programs}: what must have been built."""
        found = {}
        for node in self.nodes:
            found.setdefault(node.version, set()).add("kube-apiserver")
        if self.upgrade:
            found.setdefault(self.upgrade, set()).add("kube-apiserver")
        if self.controllers:
            found.setdefault(self.controllers, set()).update(["kube-controller-manager"] + ["kube-scheduler"] * self.scheduler)
        if self.kubeadm:
            for version in {self.nodes[0].version, self.upgrade} - {None}:
                found[version].add("kubeadm")
        if self.kubelet:
            found[self.nodes[0].version].add("kubelet")
            found.setdefault(SCHEDULER, set()).add("kube-scheduler")
        for version in self.kubectl:
            found.setdefault(version, set()).add("kubectl")
        return found


# As kube-apiservers behind a balancer are started, with the highest value that is taken: one of fifty answers over HTTP/2 ends its connection.
GOAWAY = "--goaway-chance=0.02"


def _two(old, new, flags_old=(), flags_new=()):
    return [NodeSpec("cp-a", old, flags_old), NodeSpec("cp-b", new, flags_new)]


# A front proxy's words as kubeadm has them, and others besides with any name of its CA allowed; UIDs and bootstrap tokens
# in both, and what is taken away is soon gone.
WORDS = {"requestheader-uid-headers": ["X-Remote-Uid"]}
OTHER_WORDS = {"requestheader-allowed-names": [], "requestheader-username-headers": ["X-Remote-User", "X-Login"],
               "requestheader-group-headers": ["X-Remote-Group", "X-Teams"], "requestheader-uid-headers": ["X-Remote-Uid", "X-Number"],
               "requestheader-extra-headers-prefix": ["X-Remote-Extra-", "X-More-"]}


# What a kube-apiserver that browsers read adds to each answer.
FILTERS = ["--cors-allowed-origins=^https://console\\.example\\.com$", "--strict-transport-security-directives=max-age=31536000"]


def _with_words(name, version, words):
    flags = ["--%s=%s" % (key, ",".join(value)) for key, value in words.items()]
    return NodeSpec(name, version, [*flags, *FILTERS, "--enable-bootstrap-token-auth"],
                    {"discovery-authz-ttl": "2s", "access-log": ["rerouted", "errors"], "access-log-user": True, **words})


# With open watches a graceful stop takes a minute otherwise.
QUICK_STOP = "--shutdown-watch-termination-grace-period=2s"


def _upgrade(name, old, new, skewed, files="test_upgrade.py", flags=()):
    """Three nodes. Watches end quickly when a server stops, and when mvproxy does, else each step would take a minute."""
    names = ["cp-a", "cp-b", "cp-c"]
    return Setup(name, [NodeSpec(n, old, [QUICK_STOP, *flags], {"shutdown-grace-period": "5s"})
                        for n in names], skewed(*names), (files,), core=False, upgrade=new)


def all_setups():
    """Every one, those that take longest first."""
    return [
        Setup("kubeadm", [NodeSpec(n, "1.34.4") for n in ("cp-1", "cp-2", "cp-3")], skew.device_classes("cp-1"), ("test_kubeadm.py",),
              core=False, upgrade="1.35.0", controllers="1.34.4", kubectl=["1.34.4"], kubeadm=True),
        Setup("kubelet", [NodeSpec("cp-1", "1.34.4")], skew.device_classes("cp-1"), ("test_kubelet.py",),
              core=False, controllers="1.34.4", kubelet=True),
        Setup("1.33+1.34", _two("1.33.13", "1.34.4", [GOAWAY], [GOAWAY]), skew.device_classes("cp-a"), EVERYTHING, addresses="static",
              core=False, traits=["claims", "goaway"]),
        Setup("stories", _two("1.36.3", "1.37.0", [skew.NO_JOBS, GATE_OFF, QUICK_STOP], [GATE_OFF, QUICK_STOP]), skew.jobs("cp-a"), ("test_stories.py", "test_layouts.py"),
              core=False, controllers="1.36.3", scheduler=True),
        _upgrade("upgrade", "1.33.13", "1.34.4", skew.device_classes),
        _upgrade("pinned", "1.33.13", "1.34.4", skew.device_classes, "test_pinned.py"),
        Setup("stacked", [NodeSpec("cp-1", "1.34.4")], skew.device_classes("cp-1"), ("test_stacked.py",),
              core=False, controllers="1.34.4", kubectl=["1.34.4"], kubeadm=True, traits=["stacked"]),
        Setup("1.24+1.24", _two("1.24.17", "1.24.17", [skew.NO_JOBS]), skew.cron_jobs("cp-a"), CORE + ("test_rbac.py",), kubectl=["1.24.17", "1.33.13"]),
        Setup("1.25+1.25", _two("1.25.0", "1.25.0", [skew.NO_JOBS]), skew.cron_jobs("cp-a"), kubectl=["1.33.13"]),
        Setup("1.26+1.26", _two("1.26.15", "1.26.15", [skew.NO_JOBS]), skew.cron_jobs("cp-a"), kubectl=["1.33.13"]),
        Setup("1.26+1.27", _two("1.26.15", "1.27.16", [skew.NO_JOBS]), skew.cron_jobs("cp-a"), kubectl=["1.33.13"]),
        Setup("1.27+1.27", _two("1.27.16", "1.27.16", [skew.NO_JOBS]), skew.cron_jobs("cp-a"), kubectl=["1.33.13"]),
        Setup("1.35+1.36", _two("1.35.0", "1.36.3", [skew.NO_JOBS, GATE_OFF], [GATE_OFF]), skew.cron_jobs("cp-a"), kubectl=["1.36.3"]),
        Setup("1.28+1.28", _two("1.28.15", "1.28.15", [skew.NO_JOBS]), skew.cron_jobs("cp-a"), kubectl=["1.28.15", "1.33.13"]),
        Setup("1.36+1.37", _two("1.36.3", "1.37.0"), skew.migrations("cp-a")),
        # kube-apiserver, mvproxy, peers and clients have addresses of IPv6 alone.
        Setup("ipv6", _two("1.33.13", "1.34.4"), skew.device_classes("cp-a"), traits=["ipv6"]),
        # kubectl 1.27 is the oldest that reads /openapi/v3. Not in a setup that runs always: it takes two minutes to build.
        Setup("1.36+1.37-off", _two("1.36.3", "1.37.0", [GATE_OFF], [GATE_OFF]), skew.taint_rules("cp-a"), kubectl=["1.27.16", "1.36.3", "1.37.0"],
              traits=["same version"]),
        Setup("1.33+1.36+1.37", [NodeSpec("cp-a", "1.33.13"), NodeSpec("cp-b", "1.36.3"), NodeSpec("cp-c", "1.37.0")],
              skew.migrations("cp-a", "cp-b")),
        Setup("stories-1.33", _two("1.33.13", "1.34.4", [skew.NO_JOBS]), skew.jobs("cp-a"), ("test_stories.py",),
              core=False, controllers="1.33.13"),
        Setup("callers", [_with_words("cp-a", "1.33.13", WORDS), _with_words("cp-b", "1.34.4", OTHER_WORDS)],
              skew.device_classes("cp-a"), ("test_callers.py", "test_forged.py"), core=False, addresses="static", traits=["words"]),
        Setup("interop", [NodeSpec("cp-a", "1.33.13"), NodeSpec("cp-b", "1.36.3", [skew.NO_BUDGETS]),
                          NodeSpec("cp-c", "1.37.0", [skew.NO_JOBS_NO_BUDGETS], bare=True)],
              skew.migrations("cp-a", "cp-b"), ("test_interop.py",), core=False, addresses="etcd"),
        # No mvproxy anywhere; 192.0.2.99 is nobody's.
        Setup("gate", [NodeSpec("cp-a", "1.36.3", [skew.NO_JOBS, QUICK_STOP], bare=True),
                       NodeSpec("cp-b", "1.36.3", [QUICK_STOP, "--peer-advertise-ip=192.0.2.99", "--peer-advertise-port=1"], bare=True),
                       NodeSpec("cp-c", "1.37.0", [QUICK_STOP], bare=True)],
              skew.migrations("cp-a", "cp-b"), ("test_gate.py",), core=False),
        _upgrade("upgrade-1.37", "1.36.3", "1.37.0", skew.migrations),
        _upgrade("soak", "1.33.13", "1.34.4", skew.device_classes, "test_soak.py"),
        # Servers that delete their Leases when they start, and are no proxies themselves.
        _upgrade("soak-1.37", "1.36.3", "1.37.0", skew.migrations, "test_soak.py", [GATE_OFF]),
        _upgrade("pinned-1.37", "1.36.3", "1.37.0", skew.migrations, "test_pinned.py", [GATE_OFF]),
    ]


DEFAULT = ("1.33+1.34", "1.24+1.24", "1.36+1.37", "callers", "interop", "stories", "upgrade", "pinned", "soak", "ipv6", "kubeadm", "stacked", "kubelet")
