#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A new process takes over while the old one drains: the same listening socket, as a service manager hands it to both;
not one connection is refused or reset, and what is under way in the old process ends as in any drain."""

import os
import resource
import socket
import threading
import time

import fixture
from activated import MAPS, Activated, Clients, hand_over, listening, successor
from fixture import check, equal, until
from rawhttp import Broken, pattern

CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
LEASES = "leases.coordination.k8s.io"


def setup():
    world = fixture.World(options={"shutdown-grace-period": "5s"}, servers={"a": {"no-lease": True}})
    plain = world.proxies["a"]
    world.generation = 1
    world.proxies["a"] = Activated("mvproxy-a1", world.scratch, plain.options, listening(plain.address))
    world.start()
    return world


def test_new_connections(world):
    """thousands of new connections while three processes follow each other: not one is refused, reset or left waiting"""
    clients = Clients(world, [world.proxies["a"].address] * 4)
    for _ in range(3):
        clients.await_answers(75)
        hand_over(world)
    clients.await_answers(75)
    clients.stop()
    equal(clients.troubles, [], "troubles of %s connections" % clients.answers)


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
    new = successor(world)
    new.env["NOTIFY_SOCKET"] = path
    with world.client() as client:
        equal(client.ask("GET", MAPS).status, 200, "before")
        world.sim.stop_server("a")
        try:
            new.start(ready=False)
            new.await_log('"Status" status="Not ready')  # of its first heartbeat: until then it has said READY, if it does so at once
            check(b"READY=1" not in told(notify), "says that it is ready")
            until(lambda: client.ask("GET", MAPS).status == 200, "the old process and a peer answer")
            new.reload()
            new.await_log("Reloaded")
            said = told(notify)
            check(b"READY=1" not in said and b"RELOADING=1" not in said, "a reload makes it ready:", said)
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


def test_stopped_as_it_waits(world):
    """told to stop before it accepts, the next process never does so, nor says that it is ready; the one before serves on"""
    path = os.path.join(world.scratch, "notify-2")
    notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notify.bind(path)
    new = successor(world)
    new.options = {**new.options, "shutdown-delay-duration": "4s"}
    new.env["NOTIFY_SOCKET"] = path
    world.sim.stop_server("a")
    try:
        new.start(ready=False)
        new.await_log('"Status" status="Not ready')
        new.signal(15)
        new.await_log("Shutting down")
    finally:
        world.sim.start_server("a")
    equal(new.wait_exit(), 0, "exit status")
    said = told(notify)
    check(b"STOPPING=1" in said and b"READY=1" not in said, "what it said:", said)
    check(not new.log_contains("Accepting connections"), "it accepted")
    equal(world.ask("GET", MAPS).status, 200, "the other one answers")
    notify.close()


def test_identity_lease(world):
    """publish: the old process removes its own Lease and no other; the new one has one of its own in the end"""
    proxy = world.proxies["a"]
    proxy.stop()
    proxy.options["identity-lease"] = "publish"
    proxy = world.proxies["a"] = successor(world)
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
    mark = proxy.log_mark()
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
            proxy.await_log('"Connection cannot be accepted, new clients wait" err="Too many open files"', mark)
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
