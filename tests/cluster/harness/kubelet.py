# SPDX-License-Identifier: Apache-2.0
"""A control-plane node of kubeadm's with the real kubelet and the real containerd, in place of the stand-in.

kubeadm runs as it is, its preflight phase included. Images are made of the programs that were built, for there is no registry. etcd is outside:
Debian's is older than what kubeadm's manifest for it asks for. The add-ons are left out: nobody needs them here. kube-scheduler has nothing to do
but to be well, and is of another version.

containerd (Debian's) is on the test machine or this cannot be done. kubelet and runc want control groups with controllers, and those that the machine
has in hierarchies of version 1 (cgroups(7)) are given to it.
"""

import os
import shutil
import subprocess

from . import images, kubeadm, machine, setups

HERE = os.path.dirname(os.path.abspath(__file__))
CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids")
RUNTIME_PROGRAMS = ("containerd", "containerd-shim-runc-v2", "ctr", "runc")
PAUSE = "registry.k8s.io/pause:3.10.1"
PAUSE_SOURCE = "#include <signal.h>\n#include <unistd.h>\nstatic void end(int s) { (void)s; _exit(0); }\n" \
    "int main(void) { signal(SIGTERM, end); for (;;) pause(); }\n"
CONTAINERD = """version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "%s"
  # Who may not lower it for himself cannot do so for containers.
  restrict_oom_score_adj = true
""" % PAUSE
RUNTIME = """[Unit]
Description=containerd
[Service]
Type=notify
ExecStart=%s %s containerd
Delegate=yes
KillMode=process
"""
# As kubeadm's package has it, in containerd's view of the control groups.
KUBELET = """[Unit]
Description=kubelet
Requires=containerd.service
After=containerd.service
[Service]
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
ExecStart=/bin/sh -c 'exec nsenter --target "$(systemctl show -P MainPID containerd)" --mount kubelet --v=2 \\
    --bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf --config=/var/lib/kubelet/config.yaml \\
    $KUBELET_KUBEADM_ARGS'
Restart=always
RestartSec=1s
KillMode=process
[Install]
WantedBy=multi-user.target
"""
# It mounts what containerd has made.
CTR = """#!/bin/bash
exec nsenter --target "$(systemctl show -P MainPID containerd)" --mount --wd="$PWD" %s "$@"
"""
# The disk is that of the machine under the test, however full: no image goes for want of room.
CONFIG = """---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
enforceNodeAllocatable: []
imageGCHighThresholdPercent: 100
evictionHard:
  imagefs.available: 1%
  nodefs.available: 1%
"""
# What a machine of a test cannot have: control groups where kubeadm itself looks for them, a registry, and etcd 3.5.
IGNORED = "SystemVerification,ImagePull,ExternalEtcdVersion"


def _hierarchies():
    """{controller: our control group, as a folder}, of version 1."""
    mounted, own = {}, {}
    with open("/proc/self/mounts", encoding="utf-8") as file:
        for line in file:
            _, path, kind, options = line.split()[:4]
            if kind == "cgroup":
                mounted.update({c: path for c in options.split(",") if c in CONTROLLERS})
    with open("/proc/self/cgroup", encoding="ascii") as file:
        for line in file:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            own.update({c: path for c in controllers.split(",")})
    if not all(c in mounted and c in own for c in CONTROLLERS):
        raise machine.Unavailable("this kernel does not have its controllers in control groups of version 1")
    return {c: mounted[c] + own[c].rstrip("/") for c in CONTROLLERS}


class KubeletMachine(machine.Machine):
    """A machine with control groups of its own in every hierarchy."""

    def _make_groups(self):
        super()._make_groups()
        for controller, folder in _hierarchies().items():
            group = os.path.join(folder, self.group_name)
            self.groups.append(group)
            os.mkdir(group)
            if controller == "cpuset":
                for name in ("cpuset.cpus", "cpuset.mems"):
                    with open(os.path.join(folder, name), encoding="ascii") as source, open(os.path.join(group, name), "w", encoding="ascii") as out:
                        out.write(source.read())


class KubeletCluster(kubeadm.KubeadmCluster):
    """As KubeadmCluster, with real kubelets."""

    MACHINE = KubeletMachine

    def start(self):
        for name in RUNTIME_PROGRAMS:
            if shutil.which(name) is None:
                raise machine.Unavailable("there is no %s: apt-get install containerd" % name)
        super().start()

    def _make_images(self):
        folder = os.path.join(self.shared, "archives")
        os.mkdir(folder)
        source, pause = os.path.join(self.dir, "pause.c"), os.path.join(self.dir, "pause")
        with open(source, "w", encoding="ascii") as out:
            out.write(PAUSE_SOURCE)
        machine.command("gcc", "-O2", "-static", "-o", pause, source)
        images.make(os.path.join(folder, "pause.tar"), PAUSE, "/pause", pause)
        version = self.setup.nodes[0].version
        for name, found in (("kube-apiserver", version), ("kube-controller-manager", version), ("kube-scheduler", setups.SCHEDULER)):
            images.make(os.path.join(folder, name + ".tar"), "registry.k8s.io/%s:v%s" % (name, version), "/usr/local/bin/" + name,
                        self.program(found, name))

    def _prepare_kubelet(self, one):
        inside = os.path.join(self.shared, "containerd-" + one.name)
        os.mkdir(inside)
        wrapper = os.path.join(self.shared, "kubelet-mounts")
        shutil.copy(os.path.join(HERE, "kubelet-mounts"), wrapper)
        one.write("/etc/containerd/config.toml", CONTAINERD)
        one.write("/etc/systemd/system/containerd.service", RUNTIME % (wrapper, inside))
        one.write("/etc/systemd/system/kubelet.service", KUBELET)
        for name in RUNTIME_PROGRAMS:
            one.run("command -v %s || ln -s %s /usr/local/bin/" % (name, shutil.which(name)))
        one.write("/usr/local/bin/ctr", CTR % shutil.which("ctr"), 0o755)
        one.write("/etc/resolv.conf", "nameserver 127.0.0.1\n")  # where nobody is: what asks for a registry is told at once
        one.run("mknod /dev/kmsg c 1 11; ln -sf %s /usr/local/bin/kubelet; systemctl daemon-reload; systemctl start containerd; "
                "for image in %s/archives/*.tar; do ctr -n k8s.io images import $image; done" % (
                    self.program(self.setup.nodes[0].version, "kubelet"), self.shared), timeout=240)
        # A setting of the machine's network, which a machine may not write.
        subprocess.run(["nsenter", "--target", str(one.pid), "--net", "sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward"], check=True)

    def use_version(self, one, version):
        for name in ("kubeadm", "kubectl"):
            one.run("ln -sf %s /usr/local/bin/%s" % (self.program(version, name), name))

    def init(self, one):
        self._write_config(one, CONFIG)
        return one.run("kubeadm init --config /root/kubeadm.yaml --skip-phases=addon --ignore-preflight-errors=" + IGNORED)

    def bring_image(self, one):
        """mvproxy's image, as docs/kubeadm.md imports it."""
        out = self._make_own_image()
        shutil.copy(out, self.shared)
        one.run("ctr -n k8s.io images import %s/%s" % (self.shared, os.path.basename(out)))

    @staticmethod
    def bring_files(one):
        """What docs/kubeadm.md has copied where the package is not installed."""
        for name, path, mode in (("mvproxy-static-pod.yaml", "/usr/share/doc/mvproxy/examples/mvproxy-static-pod.yaml", 0o644),
                                 ("mvproxy-bypass", "/usr/sbin/mvproxy-bypass", 0o755)):
            with open(os.path.join(HERE, "..", "..", "..", "contrib", "kubeadm", name), encoding="utf-8") as file:
                one.write(path, file.read(), mode)
