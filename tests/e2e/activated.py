# SPDX-License-Identifier: Apache-2.0
"""An mvproxy whose listening sockets a service manager holds, and clients that notice each connection that is refused."""

import socket
import ssl
import subprocess
import sys
import threading
import time

import fixture
from rawhttp import Broken, Raw

MAPS = "/api/v1/namespaces/default/configmaps"

# What a service manager does between fork and exec (sd_listen_fds(3)). None is put where another one still is.
LAUNCH = """
import os, sys
fds = [int(n) for n in sys.argv[1].split(",")]
aside = [os.dup2(fd, 100 + i, inheritable=False) for i, fd in enumerate(fds)]
for i, fd in enumerate(aside):
    os.dup2(fd, 3 + i, inheritable=True)
os.environ.update(LISTEN_FDS=str(len(fds)), LISTEN_PID=str(os.getpid()))
os.execv(sys.argv[2], sys.argv[2:])
"""


def launch(sockets, argv):
    """The arguments for a process that becomes argv with these sockets; it is to be given pass_fds=numbers(sockets)."""
    return [sys.executable, "-c", LAUNCH, ",".join(map(str, numbers(sockets))), *argv]


def numbers(sockets):
    return [s.fileno() for s in sockets]


def inherit(sockets, argv):
    """Run argv with these sockets to its end: (exit status, standard error)."""
    done = subprocess.run(launch(sockets, argv), pass_fds=numbers(sockets), capture_output=True, text=True, check=False, timeout=fixture.PATIENCE)
    return done.returncode, done.stderr


def listening(address, both=False):
    """A socket that listens there; both: on :: for IPv4 as well."""
    one = socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if one.family == socket.AF_INET6:
        one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not both)
    one.bind(address)
    one.listen(4096)
    return one


class Activated(fixture.Mvproxy):
    """An mvproxy that is given its listening sockets."""

    def __init__(self, name, scratch, options, *sockets):
        super().__init__(name, scratch, options)
        self.sockets = sockets
        self.argv = launch(sockets, self.argv)

    def start(self, ready=True, **more):
        super().start(ready, pass_fds=numbers(self.sockets), **more)


def successor(world):
    """The next process before server a, not started: with the sockets and options of the one that runs."""
    plain = world.proxies["a"]
    world.generation += 1
    return Activated("mvproxy-a%d" % world.generation, world.scratch, plain.options, *plain.sockets)


def hand_over(world):
    """Start the next process, wait until it accepts, end the one before. Both."""
    old, new = world.proxies["a"], successor(world)
    new.start(ready=False)
    new.await_log("Accepting connections from the inherited socket")
    old.signal(15)
    fixture.equal(old.wait_exit(), 0, "exit status of the old process\n" + old.tail())
    old.examine()
    world.proxies["a"] = new
    new.await_ready()
    return old, new


class Clients:
    """Threads that make new TLS connections without a pause, one request on each, at these addresses; whatever goes wrong is kept."""

    def __init__(self, world, addresses):
        self.world, self.troubles, self.over = world, [], False
        self.answers = [0] * len(addresses)
        self.context = ssl.create_default_context(cafile=world.certs.crt("ca"))
        self.context.load_cert_chain(world.certs.crt("admin"), world.certs.key("admin"))
        self.threads = [threading.Thread(target=self.run, args=one, daemon=True) for one in enumerate(addresses)]
        for thread in self.threads:
            thread.start()

    def run(self, number, address):
        while not self.over:
            try:
                begun, late = time.monotonic(), False
                with Raw(address, self.world.certs.crt("ca"), context=self.context) as client:
                    client.request("GET", MAPS)
                    late = time.monotonic() - begun > 0.8
                    if client.answer().status != 200:
                        raise Broken("another status")
                    self.answers[number] += 1
            except Broken as error:
                # A process that drains waits a second for the first request: a machine may let us sleep longer.
                if not (late and error.how == "closed"):
                    self.troubles.append("%s: %r" % (address, error))
            except OSError as error:
                self.troubles.append("%s: %r" % (address, error))

    def await_answers(self, each):
        """So many more at each address."""
        wanted = [n + each for n in self.answers]
        fixture.until(lambda: all(a >= w for a, w in zip(self.answers, wanted)), "%d answers more at each of %d" % (each, len(wanted)), patience=120)

    def stop(self):
        self.over = True
        for thread in self.threads:
            thread.join(fixture.PATIENCE)
            fixture.check(not thread.is_alive(), "a client hangs")
