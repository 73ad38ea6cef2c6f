#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hours of silence: every kind of tunnel and of watch is opened through mvproxy with its default timeouts, then nobody says anything for as
long as the argument tells, then each has to work as at its beginning. Run by hand, because a test must not wait for so long:

    top_builddir=... tests/e2e/survey_silence.py 5400

What stays open: raw SPDY and WebSocket tunnels of exec and portforward, to the local server and to a peer, without a byte in either direction;
kubectl exec and port-forward over SPDY and WebSocket before a stand-in kubelet (kubectl pings by itself); watches from HTTP/1.1 and HTTP/2
clients, without bookmarks, to servers that speak HTTP/2 and to one that does not.
"""

import socket
import subprocess
import sys
import time

import fixture
import test_kubectl_streams as streams
from fixture import Process, Skip, check, equal
from rawhttp import Raw, pattern
from test_upgrade import BOX, EXTRA, POD, exchange, spdy, websocket
from watchload import Load

SECONDS = 5400
KEY = "AAAAAAAAAAAAAAAAAAAAAA=="
FOREVER = "?watch=true&resourceVersion=0&timeoutSeconds=86000"
MAPS = "/api/v1/namespaces/default/configmaps"
BOXES = BOX[:-2]


def setup():
    """a, and its peer b; c, which speaks HTTP/1.1 only and has a kubelet. Nobody sends bookmarks."""
    world = fixture.World({"a": "v1.33", "b": "v1.34", "c": "v1.34"}, servers={"b": {"extra": EXTRA}, "c": {"http1-only": True}}, options={"v": 3})
    certs = world.certs
    try:
        world.sim.restart_server("c", **{
            "kubelet": streams.kubelet(world.scratch, certs), "kubelet-certificate-authority": certs.crt("ca"),
            "kubelet-client-certificate": certs.crt("admin"), "kubelet-client-key": certs.key("admin")})
        streams.kubectl()
        world.kubectl = True
    except Skip as why:
        print("# without kubectl: %s" % why)
        world.kubectl = False
    world.start()
    world.open, world.programs = [], []
    for path, server in ((POD, "a"), (BOX, "b")):
        equal(world.ask("POST", path[:-2], {"metadata": {"name": "p"}}, server, direct=True).status, 201, "create")
    world.sim.put("pods", streams.POD)
    return world


def open_tunnels(world):
    for where, path in (("local", POD), ("peer's", BOX)):
        for command in ("exec", "portforward"):
            for protocol, request in (("SPDY", spdy(path, command)), ("WebSocket", websocket(path, KEY, command=command))):
                client = world.client()
                client.send(request)
                equal(client.final_head().status, 101, "upgrade")
                world.open.append(("%s %s, %s" % (where, command, protocol), lambda n, c=client: exchange(c, pattern(50000, n))))


class Exec(Process):
    """kubectl exec of cat."""

    def __init__(self, world, name, variables):
        super().__init__("exec-" + name, streams.command(world, "c", "exec", "-i", "p", "--", "cat"), world.scratch, streams.environment(world, variables))

    def start(self):
        with open(self.log_path, "ab") as log:
            self.child = subprocess.Popen(self.argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=self.env)

    def say(self, number):
        line = b"%d %s\n" % (number, b"x" * 20000)
        self.child.stdin.write(line)
        self.child.stdin.flush()
        check(self.child.stdout.readline() == line, "another line came back\n" + self.tail())


class Forward(Process):
    """kubectl port-forward, and one connection through it."""

    def __init__(self, world, name, variables, port):
        super().__init__("forward-" + name, streams.command(world, "c", "port-forward", "p", ":%d" % port), world.scratch, streams.environment(world, variables))
        self.conn = None

    def start(self):
        self.spawn(stdout=subprocess.PIPE)
        line = self.child.stdout.readline().decode()
        check(line.startswith("Forwarding from 127.0.0.1:"), line, self.tail())
        self.conn = socket.create_connection(("127.0.0.1", int(line.split()[2].rsplit(":", 1)[1])), timeout=fixture.PATIENCE)

    def say(self, number):
        data, got = pattern(50000, number), b""
        self.conn.sendall(data)
        while len(got) < len(data):
            piece = self.conn.recv(65536)
            check(piece, "the connection ended\n" + self.tail())
            got += piece
        check(got == data, "other bytes came back")


def open_kubectl(world):
    echo = streams.Echo()
    for name, _, variables in streams.PROTOCOLS:
        for kind, process in (("exec", Exec(world, name, variables)), ("port-forward", Forward(world, name, variables, echo.port))):
            process.start()
            world.programs.append(process)
            world.open.append(("kubectl %s, %s" % (kind, name), process.say))


class Watches:
    """Ten watches of a resource, and who changes it."""

    def __init__(self, world, name, node, collection, writer, http2):
        self.world, self.path, self.writer, self.seq = world, collection + "/" + name, writer, 1
        equal(world.ask("POST", collection, {"metadata": {"name": name, "annotations": {"n": "1"}}}, writer, direct=True).status, 201, "create")
        pair = (world.certs.crt("admin"), world.certs.key("admin"))
        self.program = Load(name, world.scratch, world.proxies[node].address, pair, world.certs.crt("ca"), http2,
                            collection + FOREVER + "&fieldSelector=metadata.name%3D" + name)
        self.program.spawn()
        self.program.open(10)
        self.program.wait(1)

    def say(self, unused):
        for _ in range(3):
            self.seq += 1
            body = b'{"metadata":{"annotations":{"n":"%d"}}}' % self.seq
            equal(self.world.ask("PATCH", self.path, body, self.writer, headers={"Content-Type": "application/merge-patch+json"}, direct=True).status,
                  200, "change")
        self.program.wait(self.seq)


def open_watches(world):
    for name, node, collection, writer in (("local", "a", MAPS, "a"), ("peer", "a", BOXES, "b"), ("plain", "c", MAPS, "c")):
        for http2 in (False, True):
            watches = Watches(world, "%s-h%d" % (name, 1 + http2), node, collection, writer, http2)
            world.programs.append(watches.program)
            world.open.append(("watches %s, HTTP/%s in" % (name, "2" if http2 else "1.1"), watches.say))


def test_silence(world):
    """all work after hours of silence as at the beginning"""
    open_tunnels(world)
    if world.kubectl:
        open_kubectl(world)
    open_watches(world)
    try:
        for _, say in world.open:
            say(0)
        closed = {name: proxy.metric("mvproxy_front_closed_total") or 0 for name, proxy in world.proxies.items()}
        print("# %d are open; silent for %d s" % (len(world.open), SECONDS), flush=True)
        time.sleep(SECONDS)
        bad = 0
        for title, say in world.open:
            try:
                for number in range(1, 4):
                    say(number)
                print("# works: " + title, flush=True)
            except (OSError, AssertionError, ValueError) as error:
                bad += 1
                print("# BROKEN: %s: %s" % (title, str(error)[:400]), flush=True)
        print("# connections of clients that were closed meanwhile: %s" % {
            name: (proxy.metric("mvproxy_front_closed_total") or 0) - closed[name] for name, proxy in world.proxies.items()})
        equal(bad, 0, "broken")
    finally:
        for process in world.programs:
            process.destroy()


if __name__ == "__main__":
    SECONDS = int(sys.argv.pop(1)) if len(sys.argv) > 1 else SECONDS
    fixture.main(globals())
