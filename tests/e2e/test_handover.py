#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A new process takes over while the old one drains: the same listening socket, as a service manager hands it to both;
not one connection is refused or reset, and what is under way in the old process ends as in any drain."""

import os
import resource
import socket
import ssl
import subprocess
import sys
import threading
import time

import fixture
from fixture import check, equal, until
from rawhttp import Broken, pattern

MAPS = "/api/v1/namespaces/default/configmaps"
CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
LEASES = "leases.coordination.k8s.io"

# What a service manager does between fork and exec (sd_listen_fds(3)).
LAUNCH = """
import os, sys
os.dup2(int(sys.argv[1]), 3, inheritable=True)
os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()))
os.execv(sys.argv[2], sys.argv[2:])
"""


class Activated(fixture.Mvproxy):
    """An mvproxy that is given its listening socket."""

    def __init__(self, name, scratch, options, listener):
        super().__init__(name, scratch, options)
        self.listener = listener
        self.argv = [sys.executable, "-c", LAUNCH, str(listener.fileno()), *self.argv]

    def start(self, ready=True, **more):
        super().start(ready, pass_fds=(self.listener.fileno(),), **more)


def setup():
    world = fixture.World(options={"shutdown-grace-period": "5s"}, servers={"a": {"no-lease": True}})
    plain = world.proxies["a"]
    world.listener = socket.socket()
    world.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    world.listener.bind(plain.address)
    world.listener.listen(4096)
    world.generation = 0
    world.proxies["a"] = successor(world, plain.options)
    world.start()
    return world


def successor(world, options):
    """The next process before server a, not started."""
    world.generation += 1
    return Activated("mvproxy-a%d" % world.generation, world.scratch, options, world.listener)


def hand_over(world):
    """Start the next process, wait until it accepts, end the one before."""
    old = world.proxies["a"]
    new = successor(world, old.options)
    new.start(ready=False)
    new.await_log("Accepting connections from the inherited socket")
    old.signal(15)
    equal(old.wait_exit(), 0, "exit status of the old process\n" + old.tail())
    old.examine()
    world.proxies["a"] = new
    new.await_ready()
    return old, new


class Clients:
    """Threads that make new TLS connections without a pause, one request on each; whatever goes wrong is kept."""

    def __init__(self, world, threads):
        self.world, self.troubles, self.answered, self.over = world, [], 0, False
        self.context = ssl.create_default_context(cafile=world.certs.crt("ca"))
        self.context.load_cert_chain(world.certs.crt("admin"), world.certs.key("admin"))
        self.threads = [threading.Thread(target=self.run, daemon=True) for _ in range(threads)]
        for thread in self.threads:
            thread.start()

    def run(self):
        while not self.over:
            try:
                begun, late = time.monotonic(), False
                with self.world.client(context=self.context) as client:
                    client.request("GET", MAPS)
                    late = time.monotonic() - begun > 0.8
                    if client.answer().status != 200:
                        raise Broken("another status")
                    self.answered += 1
            except Broken as error:
                # A process that drains waits a second for the first request: a machine may let us sleep longer.
                if not (late and error.how == "closed"):
                    self.troubles.append(repr(error))
            except OSError as error:
                self.troubles.append(repr(error))

    def stop(self):
        self.over = True
        for thread in self.threads:
            thread.join(fixture.PATIENCE)
            check(not thread.is_alive(), "a client hangs")


def test_new_connections(world):
    """thousands of new connections while three processes follow each other: not one is refused, reset or left waiting"""
    clients = Clients(world, 4)
    for _ in range(3):
        before = clients.answered
        until(lambda n=before: clients.answered > n + 300, "connections before", patience=120)
        hand_over(world)
    before = clients.answered
    until(lambda n=before: clients.answered > n + 300, "connections after", patience=120)
    clients.stop()
    equal(clients.troubles, [], "troubles of %d connections" % clients.answered)
    check(clients.answered > 1200, "only", clients.answered, "connections")


def test_what_is_under_way(world):
    """requests, uploads and watches of the old process end well; new ones go to the new process"""
    fault = world.sim.fault("delay-head", path="/sim/bytes", ms=3600000)
    with world.client() as slow, world.client() as upload, world.client() as watch, world.client() as idle:
        equal(idle.ask("GET", MAPS).status, 200, "an idle connection")
        watch.request("GET", CLASSES + "?watch=true")
        equal(watch.final_head().status, 200, "watch")
        slow.request("GET", "/sim/bytes?n=100000")
        upload.request("POST", CLASSES + "?simbody=sink", {"Content-Length": "10"})
        upload.send(b"01234")
        until(lambda: len([r for r in world.sim.requests() if not r["done"] and "sim" in r["target"]]) == 2, "both requests")
        old = world.proxies["a"]
        taking_over = threading.Thread(target=hand_over, args=(world,))
        taking_over.start()
        old.await_log("Draining")
        world.sim.heal(fault)
        upload.send(b"56789")
        equal(world.ask("GET", MAPS).status, 200, "a new connection meanwhile")
        equal(upload.answer("POST").json()["bytes"], 10, "upload")
        check(slow.answer().body == pattern(100000), "download")
        try:
            while watch.chunk():
                pass
        except Broken as error:
            check(False, "a watch was broken off:", error)
        equal(idle.at_end(), "closed", "an idle connection")
        taking_over.join(fixture.PATIENCE)
    check(world.proxies["a"] is not old and not old.running(), "not handed over")


def test_admin_listener(world):
    """the admin listener answers from one process, and goes to the new one when the old one has ended"""
    old, new = hand_over(world)
    check(new.log_contains("The admin listener waits for the process before this one"), "it was free")
    check(new.log_contains('for="admin"'), "not opened")
    equal(new.get("/readyz")[0], 200, "ready")
    check(not old.running(), "both")


def told(notify):
    """What has come for the service manager."""
    said = b""
    try:
        while True:
            said += notify.recv(4096, socket.MSG_DONTWAIT) + b"\n"
    except BlockingIOError:
        return said


def test_while_the_server_is_away(world):
    """started while the local server is away, the next process lets the one before serve, and is ready when it accepts, not before"""
    path = os.path.join(world.scratch, "notify")
    notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notify.bind(path)
    old = world.proxies["a"]
    new = successor(world, old.options)
    new.env["NOTIFY_SOCKET"] = path
    with world.client() as client:
        equal(client.ask("GET", MAPS).status, 200, "before")
        world.sim.stop_server("a")
        try:
            new.start(ready=False)
            new.await_log('"Status" status="Not ready')  # of its first heartbeat: until then it has said READY, if it does so at once
            check(b"READY=1" not in told(notify), "says that it is ready")
            until(lambda: client.ask("GET", MAPS).status == 200, "the old process and a peer answer")
            check(not new.log_contains("Accepting connections"), "accepts without knowing anything")
        finally:
            world.sim.start_server("a")
        new.await_log("Accepting connections from the inherited socket")
        until(lambda: b"READY=1" in told(notify), "READY")
        check(old.running(), "nobody has ended it")
    old.signal(15)
    equal(old.wait_exit(), 0, "exit status of the old process")
    world.proxies["a"] = new
    new.await_ready()
    equal(world.ask("GET", MAPS).status, 200, "after")
    notify.close()


def test_identity_lease(world):
    """publish: the old process removes its own Lease and no other; the new one has one of its own in the end"""
    proxy = world.proxies["a"]
    proxy.stop()
    options = dict(proxy.options, **{"identity-lease": "publish"})
    proxy = world.proxies["a"] = successor(world, options)
    before = {lease["metadata"]["name"] for lease in world.sim.stored(LEASES, "kube-system")}
    proxy.start()
    proxy.await_log("Publishing the identity Lease")

    def holders():
        return [lease["spec"]["holderIdentity"] for lease in world.sim.stored(LEASES, "kube-system")
                if lease["metadata"]["name"] not in before]

    first = holders()
    equal(len(first), 1, "Leases of ours")
    old, new = hand_over(world)
    check(old.log_contains("Removed the own identity Lease"), "the old one left its Lease behind")
    until(lambda: new.log_contains("Publishing the identity Lease"), "a Lease of the new process", patience=90)
    second = holders()
    check(len(second) == 1 and second != first, "holders", first, second)


def test_descriptors_run_out(world):
    """no descriptors left: accepting pauses, nothing that is open is dropped, and it goes on when there are some again"""
    proxy = world.proxies["a"]
    with world.client() as watch, world.client() as steady:
        watch.request("GET", MAPS + "?watch=true")
        equal(watch.final_head().status, 200, "watch")
        equal(steady.ask("GET", MAPS).status, 200, "before")
        used = len(os.listdir("/proc/%d/fd" % proxy.child.pid))
        before = resource.prlimit(proxy.child.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(proxy.child.pid, resource.RLIMIT_NOFILE, (used + 10, before[1]))
        crowd = []
        try:
            for _ in range(40):
                crowd.append(socket.create_connection(proxy.address))
            until(lambda: len(os.listdir("/proc/%d/fd" % proxy.child.pid)) >= used + 10, "the descriptors to run out")
            for _ in range(5):
                equal(steady.ask("GET", MAPS).status, 200, "an open connection meanwhile")
            world.sim.put("configmaps", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
                "name": "seen-%d" % time.monotonic_ns(), "namespace": "default"}})
            check(b"seen-" in watch.chunk(), "the watch goes on")
            check(proxy.running(), "ended")
        finally:
            for one in crowd[:30]:
                one.close()
        equal(world.ask("GET", MAPS).status, 200, "a new connection when others have gone")
        resource.prlimit(proxy.child.pid, resource.RLIMIT_NOFILE, before)
        for one in crowd[30:]:
            one.close()
        equal(steady.ask("GET", MAPS).status, 200, "after")


if __name__ == "__main__":
    fixture.main(globals())
