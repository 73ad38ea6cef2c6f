# SPDX-License-Identifier: Apache-2.0
"""docs/kubeadm.md on one node with the real kubelet, containerd and kubeadm's preflight: what the stand-in of test_kubeadm.py only plays.

Each test begins where the one before it ended.
"""

from harness import waiting
from harness.guide import Guide
from harness.kubeadm import AUDIT
from harness.refusals import Refusals
from harness.runner import limit

GUIDE = Guide("kubeadm.md")
# kubeadm's liveness probe: eight failures; here each 2 s in place of 10.
FAILURES = 8
QUICK = "spec: {containers: [{name: kube-apiserver, livenessProbe: {periodSeconds: 2}}]}\n"


def _containers(one, name):
    """Ids of the running containers of that name, as containerd has them."""
    return one.run("ctr -n k8s.io tasks ls | awk '$3 == \"RUNNING\" { print $1 }' | while read -r id; do "
                   "ctr -n k8s.io containers info $id | grep -q '\"io.kubernetes.container.name\": \"%s\"' && echo $id; done || true" % name).split()


def _pid(one, name):
    found = _containers(one, name)
    assert len(found) == 1, found
    return one.run("ctr -n k8s.io tasks ls | awk '$1 == \"%s\" { print $2 }'" % found[0]).strip()


def _probed(one):
    """How many liveness probes of the kubelet's kube-apiserver itself has answered, by its audit log."""
    return int(one.run("grep '\"requestURI\":\"/livez\"' %s/audit.log | grep -c kube-probe || true" % AUDIT))


def _in_place(one):
    assert "mvproxy" in one.run("ss -Hltnp 'sport = :6443' | grep -F %s:6443" % one.address)
    GUIDE.take(one, "verify")


def _over_and_back(one, kind):
    """Bypassed and undone; prints for how long nobody could connect, the numbers that the guide has."""
    for command, owner in (("mvproxy-bypass", "kube-apiserver"), ("mvproxy-bypass --undo", "mvproxy")):
        with Refusals(one.address, 6443) as connections:
            said = one.run(command)
        print("# %s, %s: %s; %s" % (command, kind, connections, said.strip().splitlines()[-1]))
        assert owner in one.run("ss -Hltnp 'sport = :6443'")


def test_before(cluster):
    """kubeadm, preflight included, makes a node whose control plane the kubelet runs from images"""
    one = cluster.machines[0]
    said = cluster.init(one)
    assert "[preflight] Running pre-flight checks" in said, said
    assert len(_containers(one, "kube-apiserver")) == 1


@limit(900)
def test_static_pod(cluster):
    """without the package: from its image as a static pod, checked before, cut over to, verified, bypassed and left as the guide says"""
    one = cluster.machines[0]
    cluster.bring_image(one)
    cluster.bring_files(one)
    GUIDE.take(one, "cluster", "cluster-upload")
    one.run("mkdir -p /etc/mvproxy")
    said = GUIDE.take(one, "configuration", "patch", "pod-keys", "runtime-check")
    assert "is valid" in said, said
    GUIDE.take(one, "runtime-cut-over")
    GUIDE.take(one, "pod-verify", timeout=450)
    assert GUIDE.take(one, "runtime-verify").startswith("Ready")
    assert one.run("stat -c %%u /proc/%s" % _pid(one, "mvproxy")).strip() == "65532"
    assert "mvproxy" in one.run("ss -Hltnp 'sport = :6443' | grep -F %s:6443" % one.address)
    _over_and_back(one, "static pod")
    # --undo has waited until mvproxy answered, and the kubelet is not waited for: it may tell of the pod minutes later.
    GUIDE.take(one, "leave-cluster", "leave-upload", "leave", "leave-verify")
    assert one.status("ss -Hltnp 'sport = :6443' | grep mvproxy") != 0
    assert not one.run("find /etc/kubernetes -name '*mvproxy*'"), one.run("find /etc/kubernetes -name '*mvproxy*'")


def test_without_patch(cluster):
    """mvproxy is down, and the probes go to it: the kubelet kills a healthy kube-apiserver"""
    one = cluster.machines[0]
    cluster.install(one)
    GUIDE.take(one, "cluster", "cluster-upload", "keys", "configuration", "check-configuration")
    one.write("/etc/kubernetes/patches/kube-apiserver-quick+strategic.yaml", QUICK)
    GUIDE.take(one, "cut-over")
    _in_place(one)
    before = _pid(one, "kube-apiserver")
    one.run("kubectl -n kube-system wait --for=condition=Ready --timeout=120s pod/kube-apiserver-" + one.name)
    one.run("systemctl stop mvproxy")
    waiting.until(lambda: "failed liveness probe, will be restarted" in one.run("journalctl --no-pager -o cat -u kubelet"),
                  "the kubelet to kill what it cannot reach", 300)
    one.run("systemctl start --no-block mvproxy")
    waiting.until(lambda: _pid(one, "kube-apiserver") != before, "another kube-apiserver", 120)
    # It answers before it knows who may do what.
    waiting.until(lambda: one.status("kubectl -n kube-system get configmap kubeadm-config") == 0, "it to know its users", 120)


def test_patch(cluster):
    """with the guide's patch it stays: mvproxy is down for as many probes as would have killed it, and more"""
    one = cluster.machines[0]
    GUIDE.take(one, "patch")
    one.run("kubeadm upgrade node phase control-plane --etcd-upgrade=false --certificate-renewal=false --patches /etc/kubernetes/patches")
    _in_place(one)
    one.run("kubectl -n kube-system wait --for=condition=Ready --timeout=120s pod/kube-apiserver-" + one.name)
    before = _pid(one, "kube-apiserver")
    one.run("systemctl stop mvproxy")
    asked = _probed(one)
    waiting.until(lambda: _probed(one) > asked + FAILURES, "the kubelet's probes", 300, pause=1)
    assert one.status("systemctl is-active mvproxy") != 0
    assert _pid(one, "kube-apiserver") == before
    one.run("systemctl start mvproxy")
    _in_place(one)


@limit(900)
def test_bypass(cluster):
    """the service is bypassed and comes back, and is bypassed for good"""
    one = cluster.machines[0]
    for _ in range(2):
        _over_and_back(one, "service")
        _in_place(one)
    one.run("mvproxy-bypass")
    assert "mvproxy" not in one.run("ss -Hltnp 'sport = :6443'")
