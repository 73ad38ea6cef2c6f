# SPDX-License-Identifier: Apache-2.0
"""docs/kubeadm.md on a node whose etcd is a static pod of kubeadm's (stacked): the guide is about kube-apiserver, and etcd is left alone."""

from harness import waiting
from harness.guide import Guide

GUIDE = Guide("kubeadm.md")
MANIFEST = "/etc/kubernetes/manifests/etcd.yaml"
BY_HAND = "--quota-backend-bytes=8589934592"


def _pid(one):
    return one.run("systemctl show -P MainPID pod-etcd").strip()


def _etcd(one):
    """Its process, and its manifest: a file moved away and back is another inode, and the kubelet restarts what it is told of."""
    return _pid(one) + "\n" + one.run("stat -c %%i %s; cat %s" % (MANIFEST, MANIFEST))


def test_etcd_stays(cluster):
    """installed by the guide: etcd, what was written into its manifest by hand, and its data are not touched"""
    one = cluster.machines[0]
    cluster.init(one)
    old = _pid(one)
    one.run("sed 's/^    - --snapshot-count=.*/&\\n    - %s/' %s >/etc/kubernetes/.etcd && mv /etc/kubernetes/.etcd %s" % (BY_HAND, MANIFEST, MANIFEST))
    waiting.until(lambda: _pid(one) not in ("0", old) and one.status("kubectl -n kube-system get configmap kubeadm-config && kubectl get --raw /readyz") == 0,
                  "etcd with that argument")
    GUIDE.take(one, "cluster", "cluster-upload")
    cluster.install(one)
    GUIDE.take(one, "keys", "configuration", "patch")
    before = _etcd(one)
    assert BY_HAND in before, before
    GUIDE.take(one, "compare")
    GUIDE.take(one, "cut-over")
    GUIDE.take(one, "verify")
    assert "mvproxy" in one.run("ss -Hltnp 'sport = :6443' | grep -F %s:6443" % one.address)
    assert _etcd(one) == before, "etcd was:\n%s\nand is:\n%s" % (before, _etcd(one))
    copies = one.run("find /etc/kubernetes/tmp -name 'kubeadm-backup-etcd-*'")
    assert not copies, "copies of etcd's data: " + copies


def test_cannot_start(cluster):
    """a start that fails: systemctl status says in one line what is wrong, and so does the check; nothing has to be reset afterwards"""
    one = cluster.machines[0]
    path = "/etc/mvproxy/mvproxy.yaml"
    for breaks, mends, words, advice in (
            ("cp -p %s /root/good.yaml; sed -i 's/^client-ca-file/cleint-ca-file/' %s" % (path, path), "cp -p /root/good.yaml " + path,
             "cleint-ca-file: unknown option: did you mean client-ca-file?", "did you mean client-ca-file?"),
            ("chmod 600 " + path, "chmod 644 " + path, path + ": Permission denied", "setfacl -m u:mvproxy:r " + path),
            ("chmod 700 /etc/kubernetes/pki", "chmod 755 /etc/kubernetes/pki", "Permission denied", "setfacl -m u:mvproxy:x /etc/kubernetes/pki")):
        one.run(breaks)
        assert one.status("systemctl restart mvproxy") != 0
        # Between two tries, a second apart.
        waiting.until(lambda w=words: w in one.run("systemctl show -P StatusText mvproxy"), "the reason of " + breaks)
        said = [None]

        def ends(said=said):
            said[0] = one.run("mvproxyctl check || true")
            return "mvproxy.service ends when it is started" in said[0]
        waiting.until(ends, "the check to see it: " + breaks)
        assert "what to do: " + advice in said[0], said[0]
        one.run(mends)
        GUIDE.take(one, "verify")
