# SPDX-License-Identifier: Apache-2.0
"""A control plane made by kubeadm, on machines with systemd; the kubelet is a stand-in.

etcd is outside (kubeadm's external topology), unless the setup has the trait "stacked", and a balancer is the control plane's endpoint, both in
the sandbox itself. Nothing is installed
on the machines when they start but kubeadm.
"""

import json
import os
import shutil
import tarfile
import tempfile

from . import machine, waiting
from .balancer import Balancer
from .client import Client
from .daemon import Daemon, DaemonError
from .guide import Guide

HERE = os.path.dirname(os.path.abspath(__file__))
OCI = os.path.join(HERE, "..", "..", "..", "contrib", "lib", "oci.py")
INSTALL = Guide("install.md")
PORT = 6443
CLIENT = machine.NETWORK % 100  # whoever asks and is no machine
ENDPOINT = "api.mvproxy.test"
TOKEN = "abcdef.0123456789abcdef"
KUBELET = """[Unit]
Description=Stand-in for the kubelet
[Service]
ExecStart=%s --images %s --logs %s $MORE
EnvironmentFile=-/etc/default/kubelet
Restart=always
RestartSec=1s
[Install]
WantedBy=multi-user.target
"""
# Preflight ends where no container runtime answers, whatever errors are to be ignored: it is left out.
WRAPPER = """#!/bin/bash
# kubeadm as it is, on a machine without a container runtime.
case "$1 ${2-}" in
"init phase" | "join phase") exec %(program)s "$@" ;;
"init "* | "join "* | "upgrade apply") exec %(program)s "$@" --skip-phases=preflight ;;
"upgrade node") [ "${3-}" = phase ] || exec %(program)s "$@" --skip-phases=preflight ;;
esac
exec %(program)s "$@"
"""
CONFIG = """apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
bootstrapTokens:
- token: %(token)s
localAPIEndpoint:
  advertiseAddress: %(address)s
nodeRegistration:
  name: %(name)s
  criSocket: unix:///run/containerd/containerd.sock
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v%(version)s
controlPlaneEndpoint: %(endpoint)s:6443
encryptionAlgorithm: ECDSA-P256
etcd: %(etcd)s
controllerManager:
  extraArgs:
  - {name: bind-address, value: 0.0.0.0}
scheduler:
  extraArgs:
  - {name: bind-address, value: 127.0.0.1}
apiServer:
  certSANs: [%(gateway)s]
  extraArgs:
  - {name: audit-log-path, value: %(audit)s/audit.log}
  - {name: audit-policy-file, value: %(audit)s/policy.yaml}
  - {name: shutdown-watch-termination-grace-period, value: 2s}
  extraVolumes:
  - {name: audit, hostPath: %(audit)s, mountPath: %(audit)s}
"""
EXTERNAL = "{external: {endpoints: [http://%s:2379]}}" % machine.GATEWAY
# With the trait "stacked": on the machines, which kubeadm starts as a static pod. Debian's is older than the one that kubeadm's arguments are for.
STACKED = "{local: {imageTag: 3.6.5-0}}"
STACKED_ETCD = """#!/bin/bash
known=()
for argument; do
    case $argument in --feature-gates=* | --*watch-progress-notify-interval=*) ;; *) known+=("$argument") ;; esac
done
exec etcd "${known[@]}"
"""
AUDIT = "/var/log/kubernetes"
AUDIT_POLICY = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata}]\n"


class KubeadmCluster:
    """To be used inside a sandbox without addresses. start() gives machines on which nothing is installed."""

    MACHINE = machine.Machine

    def __init__(self, setup, programs, mvproxy, package=None):
        """package: the Debian package that is installed, if it is one."""
        self.setup, self.traits = setup, setup.traits
        self.package = package
        self.build = os.path.dirname(mvproxy)
        self.dir = tempfile.mkdtemp(prefix="mvproxy-kubeadm-")
        self.logs = os.path.join(self.dir, "logs")
        self.shared = os.path.join(self.dir, "shared")
        os.makedirs(self.logs)
        os.makedirs(self.shared)
        os.chmod(self.dir, 0o755)
        self._programs = os.path.realpath(programs)
        self.machines = [self.MACHINE(spec.name, 11 + i, self.shared, self.logs, [os.path.realpath(programs)]) for i, spec in enumerate(setup.nodes)]
        self.etcd = Daemon("etcd", [
            "etcd", "--name=etcd", "--data-dir=" + os.path.join(self.dir, "etcd"),
            "--listen-client-urls=http://%s:2379" % machine.GATEWAY, "--advertise-client-urls=http://%s:2379" % machine.GATEWAY,
            "--listen-peer-urls=http://127.0.0.1:2380", "--initial-advertise-peer-urls=http://127.0.0.1:2380",
            "--initial-cluster=etcd=http://127.0.0.1:2380"], self.logs)
        self.balancer = Balancer(machine.GATEWAY, PORT, [(m.address, PORT) for m in self.machines])
        # What runner and harness ask of any cluster.
        self.nodes, self.proxies = [], []

    def program(self, version, name):
        return os.path.join(self._programs, version, name)

    def start(self):
        machine.command("ip", "link", "set", "lo", "up")
        with machine.needed("a bridge"):
            machine.make_bridge(CLIENT)
        with machine.needed("systemd as the first process of a machine"):
            for one in self.machines:
                one.start()
            for one in self.machines:
                one.await_started()
        self.etcd.start()
        self.balancer.start()
        self._make_images()
        self._stage()
        for one in self.machines:
            self._prepare(one)

    def _make_images(self):
        """The programs by the names of their images. The controllers stay as they are: one version older than the servers, as they may be."""
        images = os.path.join(self.shared, "images")
        os.mkdir(images)
        for version in {self.setup.nodes[0].version, self.setup.upgrade} - {None}:
            for name, found in (("kube-apiserver", version), ("kube-controller-manager", self.setup.controllers)):
                os.symlink(self.program(found, name), os.path.join(images, "%s:v%s" % (name, version)))
        if "stacked" in self.traits:
            etcd = os.path.join(images, "etcd:3.6.5-0")
            with open(etcd, "w", encoding="utf-8") as out:
                out.write(STACKED_ETCD)
            os.chmod(etcd, 0o755)

    def _stage(self):
        """What is to be installed: the package, or what `make install` installs."""
        if self.package:
            shutil.copy(self.package, self.shared)
        else:
            machine.command("make", "-s", "-C", self.build, "install", "DESTDIR=%s/staged" % self.shared)
            if not os.path.exists(os.path.join(self.shared, "staged/usr/local/sbin/mvproxy")):
                raise DaemonError("%s was configured with --prefix; give a build without it, or --package" % self.build)

    def other_package(self, one, suffix):
        """In /root there, beside the one that is installed: the package as a build of the version with that suffix. PACKAGE names it."""
        unpacked = tempfile.mkdtemp(dir=self.dir)
        one.environment["PACKAGE"] = os.path.basename(unpacked) + ".deb"
        out = os.path.join(self.shared, one.environment["PACKAGE"])
        machine.command("dpkg-deb", "-R", self.package, unpacked)
        machine.command("sed", "-i", r"s/^\(Version: .*\)/\1%s/" % suffix, os.path.join(unpacked, "DEBIAN", "control"))
        machine.command("dpkg-deb", "--root-owner-group", "-b", unpacked, out)
        one.run("mv %s /root/" % out)

    def _prepare(self, one):
        self._prepare_kubelet(one)
        one.write("/etc/hosts", "127.0.0.1 localhost\n%s %s\n%s" % (
            machine.GATEWAY, ENDPOINT, "".join("%s %s\n" % (m.address, m.name) for m in self.machines)))
        one.write(AUDIT + "/policy.yaml", AUDIT_POLICY)
        one.environment = {"NODE_IP": one.address, "KUBECONFIG": "/etc/kubernetes/admin.conf", "NODE_NAME": one.name}
        self.use_version(one, self.setup.nodes[0].version)
        one.run("systemctl daemon-reload && systemctl enable kubelet")

    def _prepare_kubelet(self, one):
        logs = os.path.join(self.shared, "pods")
        os.makedirs(logs, exist_ok=True)
        kubelet = os.path.join(self.shared, "stand-in-kubelet")
        shutil.copy(os.path.join(HERE, "stand-in-kubelet"), kubelet)
        one.write("/etc/systemd/system/kubelet.service", KUBELET % (kubelet, os.path.join(self.shared, "images"), logs))

    def use_version(self, one, version):
        """As `apt-get install kubeadm=VERSION` does it."""
        one.write("/usr/local/bin/kubeadm", WRAPPER % {"program": self.program(version, "kubeadm")}, 0o755)
        one.run("ln -sf %s /usr/local/bin/kubectl" % self.program(self.setup.kubectl[-1], "kubectl"))

    def _write_config(self, one, more=""):
        one.write("/root/kubeadm.yaml", (CONFIG % {
            "token": TOKEN, "address": one.address, "name": one.name, "version": self.setup.nodes[0].version, "endpoint": ENDPOINT,
            "gateway": machine.GATEWAY, "audit": AUDIT, "etcd": STACKED if "stacked" in self.traits else EXTERNAL}) + more)

    def init(self, one):
        self._write_config(one)
        said = one.run("kubeadm init --config /root/kubeadm.yaml --skip-phases=addon")
        # What joins is brought the authorities by hand, as kubeadm documents it.
        one.run("tar c -C /etc/kubernetes pki/ca.crt pki/ca.key pki/sa.key pki/sa.pub pki/front-proxy-ca.crt pki/front-proxy-ca.key >%s/pki.tar"
                % self.shared)
        return said

    def bring_authorities(self, one):
        one.run("mkdir -p /etc/kubernetes && tar x -C /etc/kubernetes -f %s/pki.tar" % self.shared)

    def install(self, one):
        """mvproxy, as docs/install.md says, or as the package does it."""
        if self.package:
            one.write("/etc/apt/apt.conf.d/90-test", 'APT::Get::Assume-Yes "true";\n')  # as who answers its question
            one.run("cp %s/mvproxy_*.deb /root/" % self.shared)
            INSTALL.take(one, "package")
        else:
            one.run("cp -a %s/staged/. / && systemd-sysusers && mkdir -p /etc/mvproxy && "
                    "rm -rf /usr/share/doc/mvproxy && ln -s /usr/local/share/doc/mvproxy /usr/share/doc/ && systemctl daemon-reload" % self.shared)

    def join(self, one, *more):
        """As the output of `kubeadm init` says."""
        pin = one.run("openssl x509 -pubkey -noout -in /etc/kubernetes/pki/ca.crt | openssl pkey -pubin -outform der | sha256sum").split()[0]
        return one.run(" ".join(["kubeadm join %s:6443 --control-plane --token %s --discovery-token-ca-cert-hash sha256:%s" % (ENDPOINT, TOKEN, pin),
                                 "--cri-socket unix:///run/containerd/containerd.sock", *more]))

    @staticmethod
    def audit(one, audit_id):
        """What kube-apiserver there wrote about a request."""
        lines = one.run("grep %s %s/audit.log || true" % (audit_id, AUDIT)).splitlines()
        return [event for event in map(json.loads, lines) if event["auditID"] == audit_id]

    def _make_own_image(self):
        """mvproxy's image; where it is."""
        staged, out = os.path.join(self.dir, "in-image"), os.path.join(self.dir, "image.tar")
        for program, folder in (("mvproxy", "usr/sbin"), ("mvproxyctl", "usr/bin")):
            os.makedirs(os.path.join(staged, folder), exist_ok=True)
            shutil.copy(os.path.join(self.build, program), os.path.join(staged, folder))
        machine.command(OCI, "--version", "0.1.0", "--time", "1700000000", staged, out)
        return out

    def bring_image(self, one):
        """mvproxy's image, as a container runtime has it after an import."""
        out = self._make_own_image()
        root = os.path.join(self.shared, "images", "mvproxy:0.1.0")
        with tarfile.open(out) as image:
            def blob(described):
                return image.extractfile("blobs/" + described["digest"].replace(":", "/"))
            manifest = json.load(blob(json.load(image.extractfile("index.json"))["manifests"][0]))
            with tarfile.open(fileobj=blob(manifest["layers"][0]), mode="r:gz") as layer:
                layer.extractall(root)
        one.run("ls '%s/usr/sbin/mvproxy'" % root)

    def client(self, one=None):
        """The cluster's administrator, at a machine or at the balancer, from an address that is no machine's."""
        ca, pair = os.path.join(self.shared, "ca.crt"), os.path.join(self.shared, "admin")
        if not os.path.exists(ca):
            first = self.machines[0]
            first.run("cp /etc/kubernetes/pki/ca.crt %s; for part in certificate key; do sed -n \"s/.*client-$part-data: //p\" "
                      "/etc/kubernetes/admin.conf | base64 -d >%s.$part; done" % (ca, pair))
        return Client(one.address if one else machine.GATEWAY, PORT, ca, (pair + ".certificate", pair + ".key"), source=CLIENT)

    def show_logs(self, out, lines=25):
        for one in self.machines:
            out.write("  %s:\n%s" % (one.name, one.tail(lines)))
            if one.running():
                out.write(one.run("journalctl --no-pager -n %d -u kubelet -u mvproxy" % lines, check=False))

    def keep_logs(self, directory):
        for one in self.machines:
            if one.running():
                with open(os.path.join(self.logs, "journal-%s.log" % one.name), "w", encoding="utf-8") as out:
                    out.write(one.run("journalctl --no-pager", check=False))
        shutil.copytree(self.logs, directory, dirs_exist_ok=True)
        pods = os.path.join(self.shared, "pods")
        if os.path.exists(pods):
            shutil.copytree(pods, os.path.join(directory, "pods"), dirs_exist_ok=True)

    def stop(self):
        for one in self.machines:
            one.kill()
        self.balancer.stop()
        self.etcd.kill()
        machine.unmount_groups(self.shared)
        waiting.until(lambda: shutil.rmtree(self.dir) or True, "the end of " + self.dir, 10)
