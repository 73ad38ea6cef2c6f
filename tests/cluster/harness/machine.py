# SPDX-License-Identifier: Apache-2.0
"""A machine with systemd as its first process, on the machine of the test: namespaces, and a root laid over that of the test.

It has all programs of the test machine, none of its services, /etc/kubernetes and /etc/mvproxy of its own, and a network card that hangs on
the sandbox's bridge. What it writes is in memory. To be used in a sandbox.
"""

import contextlib
import os
import subprocess

from . import waiting
from .daemon import Daemon, DaemonError

INIT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "machine-init")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
BRIDGE = "machines"
NETWORK = "192.0.2.%d"  # RFC 5737
GATEWAY = NETWORK % 1


class Unavailable(Exception):
    """Machines cannot be made here; the text says why."""


class CommandFailed(AssertionError):
    """A command on a machine ended with another status than 0."""


def command(*argv):
    subprocess.run(argv, check=True, capture_output=True, text=True)


@contextlib.contextmanager
def needed(what):
    """A failure in here is this machine's, which lacks something, not the test's."""
    try:
        yield
    except subprocess.CalledProcessError as error:
        raise Unavailable("%s: %s: %s" % (what, " ".join(error.cmd), (error.stderr or "").strip())) from error
    except (OSError, DaemonError, waiting.Timeout) as error:
        raise Unavailable("%s: %s" % (what, error)) from error


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

    def __init__(self, name, number, shared, logs, folders=()):
        """number: of its address. shared: the folder that is the same inside and outside. folders: what may be on other file systems than /, to
        be read."""
        self.name = name
        self.address = NETWORK % number
        self.environment = {}  # of every command
        self._number = number
        self._shared = shared
        # Two runs at a time have the same processes' numbers, each in a sandbox of its own.
        self.group_name = "%s-%s" % (os.path.basename(os.path.dirname(shared)), name)
        self.groups = []  # its control groups, folders that are removed when it ends
        self._mounted = os.path.join(shared, "cgroup-" + name)
        # systemd needs a control group that it may make others in. The shell has no child of its own: pid() takes the first one.
        self._daemon = Daemon("machine-" + name, [
            "sh", "-c", 'while read -r group; do echo $$ >"$group/cgroup.procs" || exit; done <"$0"; exec "$@"', self._mounted + ".list",
            "unshare", "--mount", "--pid", "--fork", "--uts", "--ipc", "--net", "--cgroup", "--kill-child",
            INIT, name, shared, *folders], logs)

    @property
    def log(self):
        return self._daemon.log

    def _make_groups(self):
        """In the unified hierarchy, wherever the test machine has that: mounted once more."""
        os.makedirs(self._mounted, exist_ok=True)
        top = os.path.join(self._shared, "cgroups")
        if not os.path.exists(os.path.join(top, "cgroup.procs")):
            os.makedirs(top, exist_ok=True)
            command("mount", "-t", "cgroup2", "cgroup2", top)
        with open("/proc/self/cgroup", encoding="ascii") as file:
            own = next((line.rstrip("\n")[3:] for line in file if line.startswith("0::")), None)
        if own is None:
            raise OSError("this kernel has no unified hierarchy of control groups")
        group = os.path.join(top, own.lstrip("/"), self.group_name)
        os.mkdir(group)
        self.groups.append(group)
        command("mount", "--bind", group, self._mounted)

    @property
    def pid(self):
        """Its first process as the sandbox sees it."""
        with open("/proc/%d/task/%d/children" % (self._daemon.pid, self._daemon.pid), encoding="ascii") as file:
            children = file.read().split()
        if not children:
            raise OSError("%s has not begun" % self.name)
        return int(children[0])

    def start(self):
        self._make_groups()
        with open(self._mounted + ".list", "w", encoding="utf-8") as out:
            out.write("".join(group + "\n" for group in self.groups))
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
        waiting.until(running, "systemd on " + self.name, 120)

    def _argv(self, script):
        variables = {"PATH": PATH, "HOME": "/root", "LANG": "C.UTF-8", **self.environment}
        return ["nsenter", "--target", str(self.pid), "--all", "env", "-i", "-C", "/root", *("%s=%s" % v for v in variables.items()),
                "bash", "-euo", "pipefail", "-c", script]

    def run(self, script, check=True, timeout=400):
        """What a shell script there writes to both outputs; CommandFailed if its status is not 0, or it takes longer than timeout (seconds)."""
        try:
            done = subprocess.run(self._argv(script), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True, timeout=timeout, check=False)
        except subprocess.TimeoutExpired as error:
            said = (error.stdout or b"").decode("utf-8", "replace")
            raise CommandFailed("on %s: not done in %d s\n$ %s\n%s\n%s" % (
                self.name, timeout, script, said[-4000:], self._processes())) from error
        if check and done.returncode != 0:
            raise CommandFailed("on %s: status %d\n$ %s\n%s" % (self.name, done.returncode, script, done.stdout[-4000:]))
        return done.stdout

    def _processes(self):
        """Who waits there, and for what, while something takes too long; with what the service manager said last."""
        asked = subprocess.run(self._argv("ps -e -o pid,ppid,stat,etimes,wchan:24,args --forest; journalctl --no-pager -n 40"),
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
        return asked.stdout

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
        if self.groups:
            waiting.until(self._without_groups, "the end of " + self.name, 20)

    def _without_groups(self):
        for group in self.groups:
            for folder, _, _ in os.walk(group, topdown=False):
                os.rmdir(folder)  # OSError while something ends there
        return True
