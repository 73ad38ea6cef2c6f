#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Watches stream event by event, end when they should, and break when they must."""

import json

import fixture
from fixture import check, equal, until
from rawhttp import Broken

MAPS = "/api/v1/namespaces/default/configmaps"
CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
KINDS = (("local", MAPS, "a"), ("peer's", CLASSES, "b"))


class Watch:
    """One watch, frame by frame."""

    def __init__(self, client, path, **query):
        self.client = client
        options = "&".join("%s=%s" % item for item in query.items())
        client.request("GET", "%s?watch=true%s" % (path, "&" + options if options else ""))
        self.head = client.final_head()
        equal(self.head.status, 200, "watch " + path)
        equal(client.framing(self.head, "GET")[0], "chunked", "framing")
        self.rest = b""

    def next(self):
        """(type, name, object), or None at the end."""
        while b"\n" not in self.rest:
            data = self.client.chunk(self.rest)
            if not data:
                equal(self.client.fields(), [], "trailers")
                equal(self.rest, b"", "half a frame at the end")
                return None
            self.rest += data
        line, self.rest = self.rest.split(b"\n", 1)
        frame = json.loads(line)
        return frame["type"], frame["object"].get("metadata", {}).get("name"), frame["object"]

    def expect(self, *wanted):
        equal(self.next()[:2], wanted, "event")


def make(world, path, name, server, **labels):
    equal(world.ask("POST", path, {"metadata": {"name": name, "labels": labels}}, server, direct=True).status, 201, "create " + name)


def change(world, path, name, server, value):
    body = json.dumps({"metadata": {"annotations": {"n": str(value)}}}).encode()
    equal(world.ask("PATCH", path + "/" + name, body, server, headers={"Content-Type": "application/merge-patch+json"},
                    direct=True).status, 200, "change")


def clean(world):
    for _, path, server in KINDS:
        world.ask("DELETE", path, name=server, direct=True)


def test_event_by_event(world):
    """each change arrives before the next one is made"""
    for title, path, server in KINDS:
        with world.client() as client:
            watch = Watch(client, path)
            for number in range(20):
                name = "%s%d" % (server, number)
                make(world, path, name, server)
                watch.expect("ADDED", name)
                change(world, path, name, server, number)
                watch.expect("MODIFIED", name)
                equal(world.ask("DELETE", path + "/" + name, name=server, direct=True).status, 200, title)
                watch.expect("DELETED", name)


def test_existing_first(world):
    """what is there comes first, then what changes; selectors count"""
    for _, path, server in KINDS:
        make(world, path, "one", server, a="1")
        make(world, path, "two", server)
        with world.client() as client, world.client() as labelled:
            watch, some = Watch(client, path), Watch(labelled, path, labelSelector="a%3D1")
            watch.expect("ADDED", "one")
            watch.expect("ADDED", "two")
            some.expect("ADDED", "one")
            make(world, path, "three", server, a="1")
            watch.expect("ADDED", "three")
            some.expect("ADDED", "three")
    clean(world)


def test_through_the_proxy_too(world):
    """changes made through one instance are seen by watches through the other"""
    with world.client("a") as client, world.client("b") as other:
        for path in (MAPS, CLASSES):
            watch, second = Watch(client, path), None
            equal(world.ask("POST", path, {"metadata": {"name": "x"}}, "b").status, 201, "create")
            watch.expect("ADDED", "x")
            second = Watch(other, path)
            second.expect("ADDED", "x")
            equal(world.ask("DELETE", path + "/x", name="a").status, 200, "delete")
            watch.expect("DELETED", "x")
            second.expect("DELETED", "x")
            client.close()
            other.close()
            client.__init__(world.proxies["a"].address, world.certs.crt("ca"), (world.certs.crt("admin"), world.certs.key("admin")))
            other.__init__(world.proxies["b"].address, world.certs.crt("ca"), (world.certs.crt("admin"), world.certs.key("admin")))


def test_timeout(world):
    """the server's own end is a clean end, and the connection goes on"""
    for _, path, _ in KINDS:
        with world.client() as client:
            watch = Watch(client, path, timeoutSeconds=1, allowWatchBookmarks="true", resourceVersion="")
            last = None
            while True:
                frame = watch.next()
                if frame is None:
                    break
                last = frame
            equal(last[0], "BOOKMARK", "the last frame")
            equal(client.ask("GET", path).status, 200, "the connection afterwards")


def test_ended_by_server(world):
    """a watch that the server ends reaches the client at once, whole"""
    for _, path, _ in KINDS:
        resource = "configmaps" if path is MAPS else "deviceclasses.resource.k8s.io"
        with world.client() as client:
            watch = Watch(client, path)
            until(lambda p=path: not world.sim.requests(path=p)[-1]["done"], "the watch at the server")
            world.sim.end_watches(resource)
            equal(watch.next(), None, "end")


def test_gone(world):
    """410 as an event, and as a status"""
    for _, path, server in KINDS:
        resource = "configmaps" if path is MAPS else "deviceclasses.resource.k8s.io"
        make(world, path, "one", server)
        with world.client() as client:
            watch = Watch(client, path)
            watch.expect("ADDED", "one")  # from here on it has a version that can be gone
            world.sim.compact(resource)
            kind, _, obj = watch.next()
            equal((kind, obj["code"], obj["reason"]), ("ERROR", 410, "Expired"), "event")
            equal(watch.next(), None, "end")
        world.sim.fault("status", server, "GET", path, status=410, count=1)
        answer = world.ask("GET", path + "?watch=true")
        equal((answer.status, answer.json()["reason"]), (410, "Expired"), "status")
    clean(world)


def test_client_leaves(world):
    """the server's side is cancelled at once"""
    for _, path, server in KINDS:
        for leave in ("close", "abort"):
            mark = world.sim.mark()
            client = world.client()
            Watch(client, path)
            until(lambda m=mark, p=path: world.sim.requests(path=p, since=m), "the watch at the server")
            getattr(client, leave)()
            record = until(lambda m=mark, p=path: [r for r in world.sim.requests(path=p, since=m) if r["done"]],
                           "the watch to be cancelled")[0]
            equal((record["server"], record["aborted"]), (server, True), leave)


def test_server_dies(world):
    """a server that dies in the middle: a broken stream, never a complete one"""
    for _, path, server in KINDS:
        make(world, path, "here", server)
        with world.client() as client:
            watch = Watch(client, path)
            watch.expect("ADDED", "here")
            world.sim.kill_server(server)
            try:
                frame = watch.next()
                check(False, "the stream ended as if it were whole:", frame)
            except Broken:
                pass
        world.sim.start_server(server)
        until(lambda p=path: world.ask("GET", p).status == 200, "the server to be back")
        clean(world)


def test_many_watches(world):
    """120 watches on local and peer resources each get every event, in order"""
    clients = []
    for number in range(120):
        client = world.client()
        clients.append((Watch(client, KINDS[number % 2][1]), client))
    for number in range(10):
        for _, path, server in KINDS:
            make(world, path, "n%d" % number, server)
    for watch, _ in clients:
        for number in range(10):
            watch.expect("ADDED", "n%d" % number)
    for _, client in clients:
        client.close()
    until(lambda: all(r["done"] for r in world.sim.requests() if "watch=true" in r["target"] and
                      r["user"]["username"] == "kubernetes-admin"), "all watches to be cancelled")
    clean(world)


def test_fast_events(world):
    """1,000 events without a pause: none lost, none doubled, none exchanged"""
    for _, path, server in KINDS:
        make(world, path, "fast", server)
        with world.client() as client, world.client(server, direct=True) as writer:
            watch = Watch(client, path)
            watch.expect("ADDED", "fast")
            fields = {"Content-Type": "application/merge-patch+json"}
            for number in range(1000):
                writer.request("PATCH", path + "/fast", fields, b'{"metadata":{"annotations":{"n":"%d"}}}' % number)
                if number % 50 == 49:
                    for _ in range(50):
                        equal(writer.answer("PATCH").status, 200, "patch")
            for number in range(1000):
                frame = watch.next()
                equal((frame[0], frame[2]["metadata"]["annotations"]["n"]), ("MODIFIED", str(number)), "event")
        clean(world)


def test_follow_log(world):
    """a followed log streams line by line, and its reader may leave"""
    equal(world.ask("POST", "/api/v1/namespaces/default/pods", {"metadata": {"name": "p", "annotations": {
        "sim/log-lines": "2", "sim/log-interval-ms": "20"}}}).status, 201, "pod")
    path = "/api/v1/namespaces/default/pods/p/log"
    with world.client() as client:
        client.request("GET", path + "?follow=true")
        head = client.final_head()
        equal(head.status, 200, "log")
        text = b""
        while text.count(b"\n") < 10:
            text += client.chunk(text)
        equal(text.split(b"\n")[:10], [b"line %d" % n for n in range(1, 11)], "lines")
    until(lambda: world.sim.requests(path=path)[-1]["done"], "the log to be cancelled")


if __name__ == "__main__":
    fixture.main(globals())
