#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A process that was suspended (SIGSTOP, a debugger, a frozen control group): what came in time meanwhile is in time."""

import contextlib
import signal
import time

import fixture
from fixture import equal, until
from rawhttp import pattern

MAPS = "/api/v1/namespaces/default/configmaps"
TIMEOUT = 2


def setup():
    timeout = "%ds" % TIMEOUT
    return fixture.World(options={"client-header-timeout": timeout, "client-idle-timeout": timeout,
                                  "request-timeout": timeout}).start()


def state(process):
    with open("/proc/%d/stat" % process.child.pid, encoding="ascii") as stat:
        return stat.read().rpartition(")")[2].split()[0]


@contextlib.contextmanager
def paused(proxy):
    """Stopped while it waits, and let run again when every timeout that had begun is over."""
    until(lambda: state(proxy) == "S", "it to wait for something", pause=0.001)
    proxy.signal(signal.SIGSTOP)
    until(lambda: state(proxy) == "T", "it to stop")
    since = time.monotonic()
    yield
    time.sleep(max(0, since + TIMEOUT + 1 - time.monotonic()))
    proxy.signal(signal.SIGCONT)


def test_said(world):
    """the log has a line, and a counter the time"""
    proxy = world.proxies["a"]
    mark, before = proxy.log_mark(), proxy.metric("mvproxy_suspended_seconds_total")
    with paused(proxy):
        pass
    proxy.await_log('"Process was suspended" missedMilliseconds=', mark)
    until(lambda: proxy.metric("mvproxy_suspended_seconds_total") - before >= TIMEOUT - 1, "the time to be counted")


def test_head(world):
    """the rest of a head came in time: no 408"""
    with world.client() as client:
        equal(client.ask("GET", MAPS).status, 200, "before")
        client.send(b"GET %s HTTP/1.1\r\nHost: x\r\n" % MAPS.encode())
        with paused(world.proxies["a"]):
            client.send(b"\r\n")
        equal(client.answer().status, 200, "status")


def test_idle(world):
    """a request on a connection that was idle: answered, and not a closed connection"""
    with world.client() as client:
        equal(client.ask("GET", MAPS).status, 200, "before")
        with paused(world.proxies["a"]):
            client.request("GET", MAPS)
        equal(client.answer().status, 200, "status")


def test_many(world):
    """many that wait to be read, more than the kernel tells of at once"""
    clients = []
    for _ in range(40):  # the kernel tells of 32; they have two seconds for all of this
        clients.append(world.client())
        equal(clients[-1].ask("GET", MAPS).status, 200, "before")
    with paused(world.proxies["a"]):
        for client in clients:
            client.request("GET", MAPS)
    for client in clients:
        equal(client.answer().status, 200, "status")
        client.close()


def test_upload(world):
    """an upload whose end came in time"""
    body = pattern(60000)
    with world.client() as client:
        equal(client.ask("GET", MAPS).status, 200, "before")
        client.request("POST", MAPS + "?simbody=sink", {"Content-Length": str(len(body))})
        client.send(body[:1000])
        until(lambda: any("sink" in r["target"] for r in world.sim.requests()), "the upload to begin")
        with paused(world.proxies["a"]):
            client.send(body[1000:])
        answer = client.answer("POST")
        equal(answer.status, 200, "status of " + repr(answer.body)[:300])
        equal(answer.json()["bytes"], len(body), "bytes")


def test_answer(world):
    """an answer that was ready in time: no 504"""
    fault = world.sim.fault("delay-head", path="/sim/bytes", ms=500)
    with world.client() as client:
        mark = world.sim.mark()
        client.request("GET", "/sim/bytes?n=1000")
        until(lambda: world.sim.requests(path="/sim/bytes", since=mark), "the request to be there")
        with paused(world.proxies["a"]):
            pass
        equal(client.answer().status, 200, "status")
    world.sim.heal(fault)


if __name__ == "__main__":
    fixture.main(globals())
