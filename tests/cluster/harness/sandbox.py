# SPDX-License-Identifier: Apache-2.0
"""A network, process and mount namespace of one's own, in which a whole cluster lives and with which it ends.

Everything that runs inside sees only the sandbox's own loopback device, with the addresses that were asked for on it:
nothing is reachable from outside, no port can be taken already, no address of the machine changes. The first process of
the sandbox is the caller's function; when it ends, the kernel kills whatever else is left in there.
"""

import ctypes
import os
import signal
import subprocess
import sys

_CLONE_NEWNS = 0x00020000
_CLONE_NEWUTS = 0x04000000
_CLONE_NEWPID = 0x20000000
_CLONE_NEWNET = 0x40000000
_MS_REC_PRIVATE = 0x4000 | 0x40000
_PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None, use_errno=True)


class SandboxError(Exception):
    """The machine does not let us make namespaces, or a command in them failed."""


def _check(result, what):
    if result != 0:
        raise SandboxError("%s: %s (this needs root, or a container that may make namespaces)"
                           % (what, os.strerror(ctypes.get_errno())))


def _furnish(addresses):
    """Runs in the sandbox's first process: own /proc, loopback up, addresses on it."""
    _check(_libc.mount(b"none", b"/", None, _MS_REC_PRIVATE, None), "making mounts private")
    _check(_libc.mount(b"proc", b"/proc", b"proc", 0, None), "mounting /proc")
    commands = [["ip", "link", "set", "lo", "up"]]
    commands += [["ip", "address", "add", "%s/%d" % (a, 128 if ":" in a else 32), "dev", "lo"] + ["nodad"] * (":" in a) for a in addresses]
    for command in commands:
        done = subprocess.run(command, capture_output=True, check=False)
        if done.returncode != 0:
            raise SandboxError("%s: %s" % (" ".join(command), done.stderr.decode().strip()))


class Sandbox:
    """The handle that the function running inside gets."""

    def __init__(self, ready_fd, host_pid):
        self._ready_fd = ready_fd
        self.host_pid = host_pid  # the first process, as seen from outside: what nsenter needs

    def detach(self):
        """Let the caller of run() return 0 while this process and its sandbox go on in the background."""
        sys.stdout.flush()
        sys.stderr.flush()
        _libc.prctl(_PR_SET_PDEATHSIG, 0, 0, 0, 0)
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        os.write(self._ready_fd, b"d")


def run(function, addresses):
    """Call function(sandbox) inside a new sandbox; returns its exit status (None counts as 0).

    A KeyboardInterrupt (^C) and SIGTERM, which becomes SystemExit, are raised inside function, so that its own
    clean-up runs; they never leave anything behind.
    """
    if os.geteuid() != 0:
        raise SandboxError("making namespaces needs root")
    sys.stdout.flush()
    sys.stderr.flush()
    read_fd, write_fd = os.pipe()
    pid_read, pid_write = os.pipe()
    _check(_libc.unshare(_CLONE_NEWNET | _CLONE_NEWNS | _CLONE_NEWUTS | _CLONE_NEWPID), "unshare")
    pid = os.fork()
    if pid == 0:
        os.close(read_fd)
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        _first_process(function, addresses, write_fd, int(os.read(pid_read, 32)))
    os.write(pid_write, b"%d" % pid)
    os.close(write_fd)
    return _await(pid, read_fd)


def _first_process(function, addresses, ready_fd, host_pid):
    def on_term(_signal, _frame):
        raise SystemExit(143)

    status = 1
    try:
        signal.signal(signal.SIGTERM, on_term)
        _furnish(addresses)
        status = function(Sandbox(ready_fd, host_pid)) or 0
    except KeyboardInterrupt:
        status = 130
    except SystemExit as leaving:
        status = leaving.code if isinstance(leaving.code, int) else 1
    except SandboxError as error:
        print("error: %s" % error, file=sys.stderr)
    except BaseException:  # pylint: disable=broad-except # the last line of defence of a process
        import traceback
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _await(pid, read_fd):
    """Wait until the first process ends or detaches. ^C reaches it from the terminal; SIGTERM is passed on."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: os.kill(pid, signal.SIGTERM))
    if os.read(read_fd, 1) == b"d":
        return 0
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
