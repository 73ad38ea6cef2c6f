# SPDX-License-Identifier: Apache-2.0
"""A machine with systemd as its first process, on the machine of the test: namespaces, and a root laid over that of the test.

It has all programs of the test machine, none of its services, /etc/kubernetes and /etc/mvproxy of its own, and a network card that hangs on
the sandbox's bridge. What it writes is in memory. To be used in a sandbox.
"""

import os
import subprocess

from . import waiting
from .daemon import Daemon

INIT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "machine-init")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
BRIDGE = "machines"
NETWORK = "192.0.2.%d"  # RFC 5737
GATEWAY = NETWORK % 1


class CommandFailed(AssertionError):
    """A command on a machine ended with another status than 0."""


def command(*argv):
    subprocess.run(argv, check=True, capture_output=True, text=True)


def make_bridge(*addresses):
    """What the machines' network cards hang on; with these addresses for whoever is no machine."""
    command("ip", "link", "add", BRIDGE, "type", "bridge")
    for address in (GATEWAY, *addresses):
        command("ip", "address", "add", address + "/24", "dev", BRIDGE)
    command("ip", "link", "set", BRIDGE, "up")


def unmount_groups(shared):
    """What the machines of that folder were mounted there for."""
    with open("/proc/self/mounts", encoding="utf-8") as file:
        mounted = [line.split()[1] for line in file if line.split()[1].startswith(shared)]
    for path in reversed(mounted):
        command("umount", "--lazy", path)


class Machine:
    """Call start(), then run() shell commands there; stop() in any case."""

    def __init__(self, name, number, shared, logs):
        """number: of its address. shared: the folder that is the same inside and outside."""
        self.name = name
        self.address = NETWORK % number
        self.environment = {}  # of every command
        self._number = number
        self._shared = shared
        self._cgroup = None
        # systemd needs a control group that it may make others in.
        self._daemon = Daemon("machine-" + name, [
            "sh", "-c", 'echo $$ >"$0/cgroup.procs" && exec "$@"', os.path.join(shared, "cgroup-" + name),
            "unshare", "--mount", "--pid", "--fork", "--uts", "--ipc", "--net", "--cgroup", "--kill-child",
            INIT, name, shared], logs)

    @property
    def log(self):
        return self._daemon.log

    def _make_cgroup(self):
        """In the unified hierarchy, wherever the test machine has that: mounted once more."""
        mounted = self._daemon.argv[3]
        os.makedirs(mounted, exist_ok=True)
        top = os.path.join(self._shared, "cgroups")
        if not os.path.exists(os.path.join(top, "cgroup.procs")):
            os.makedirs(top, exist_ok=True)
            command("mount", "-t", "cgroup2", "cgroup2", top)
        with open("/proc/self/cgroup", encoding="ascii") as file:
            own = next(line.rstrip("\n")[3:] for line in file if line.startswith("0::"))
        self._cgroup = os.path.join(top, own.lstrip("/"), "mvproxy-test-%d-%s" % (os.getpid(), self.name))
        if not os.path.exists(self._cgroup):
            os.mkdir(self._cgroup)
        command("mount", "--bind", self._cgroup, mounted)

    @property
    def pid(self):
        """Its first process as the sandbox sees it."""
        with open("/proc/%d/task/%d/children" % (self._daemon.pid, self._daemon.pid), encoding="ascii") as file:
            children = file.read().split()
        if not children:
            raise OSError("%s has not begun" % self.name)
        return int(children[0])

    def start(self):
        self._make_cgroup()
        self._daemon.start()
        card = "card-%d" % self._number

        def plugged():
            self._daemon.check()
            return subprocess.run(["ip", "link", "add", card, "type", "veth", "peer", "name", "eth0", "netns", str(self.pid)],
                                  check=False, capture_output=True).returncode == 0
        waiting.until(plugged, "the network card of " + self.name)
        command("ip", "link", "set", card, "master", BRIDGE, "up")
        for line in ("link set lo up", "address add %s/24 dev eth0" % self.address, "link set eth0 up", "route add default via " + GATEWAY):
            command("nsenter", "--target", str(self.pid), "--net", "ip", *line.split())

    def await_started(self):
        def running():
            self._daemon.check()
            return self.run("systemctl is-system-running", check=False).strip() in ("running", "degraded")
        waiting.until(running, "systemd on " + self.name, 60)

    def _argv(self, script):
        variables = {"PATH": PATH, "HOME": "/root", "LANG": "C.UTF-8", **self.environment}
        return ["nsenter", "--target", str(self.pid), "--all", "env", "-i", "-C", "/root", *("%s=%s" % v for v in variables.items()),
                "bash", "-euo", "pipefail", "-c", script]

    def run(self, script, check=True, timeout=240):
        """What a shell script there writes to both outputs; CommandFailed if its status is not 0."""
        done = subprocess.run(self._argv(script), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=timeout, check=False)
        if check and done.returncode != 0:
            raise CommandFailed("on %s: status %d\n$ %s\n%s" % (self.name, done.returncode, script, done.stdout[-4000:]))
        return done.stdout

    def write(self, path, text, mode=0o644):
        """A file there."""
        argv = self._argv('mkdir -p "$(dirname "$0")" && cat >"$0" && chmod "$1" "$0"') + [path, "%o" % mode]
        subprocess.run(argv, input=text, text=True, check=True)

    def status(self, script):
        return subprocess.run(self._argv(script), stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False).returncode

    def running(self):
        return self._daemon.running()

    def tail(self, lines=20):
        return self._daemon.tail(lines)

    def kill(self):
        """At once, with everything that runs there."""
        self._daemon.kill()
        if self._cgroup:
            waiting.until(self._without_cgroup, "the end of " + self.name, 20)

    def _without_cgroup(self):
        for folder, _, _ in os.walk(self._cgroup, topdown=False):
            os.rmdir(folder)  # OSError while something ends there
        return True
