#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""SIGTERM: unready at once, what is under way ends well, exit status 0."""

import signal
import socket
import time

import fixture
from fixture import check, equal, until
from rawhttp import Broken, pattern

MAPS = "/api/v1/namespaces/default/configmaps"
CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"


def setup():
    return fixture.World(options={"shutdown-grace-period": "2s"}).start()


def again(world, **options):
    """Start the instance anew, with other options."""
    proxy = world.proxies["a"]
    if proxy.running():
        proxy.stop()
    proxy.options = dict(world.proxies["a"].options, **{k.replace("_", "-"): v for k, v in options.items()})
    proxy.start()
    world.settle()
    return proxy


def test_idle(world):
    """nothing to do: it ends, and the port is closed"""
    proxy = world.proxies["a"]
    proxy.signal(15)
    equal(proxy.wait_exit(), 0, "exit status")
    with socket.socket() as probe:
        check(probe.connect_ex(proxy.address) != 0, "the port is open")
    again(world)


def test_hangups(world):
    """a reload that is asked for meanwhile, up to the last moment, does not make a failure of it"""
    for _ in range(3):
        proxy = world.proxies["a"]
        proxy.signal(15)
        while proxy.child.poll() is None:
            proxy.signal(signal.SIGHUP)
            time.sleep(0.0005)
        equal(proxy.wait_exit(), 0, "exit status")
        again(world)


def test_idle_connections(world):
    """idle connections are closed with a goodbye"""
    proxy = world.proxies["a"]
    clients = [world.client() for _ in range(10)]
    for client in clients[:5]:
        equal(client.ask("GET", MAPS).status, 200, "status")
    proxy.signal(15)
    for client in clients[:5]:
        equal(client.at_end(), "closed", "end")
    for client in clients[5:]:
        client.at_end()
    equal(proxy.wait_exit(), 0, "exit status")
    again(world)


def test_requests_finish(world):
    """requests that are under way are answered, with Connection: close"""
    proxy = again(world, shutdown_grace_period="60s")
    fault = world.sim.fault("delay-head", path="/sim/bytes", ms=3600000)
    with world.client() as slow, world.client() as upload:
        slow.request("GET", "/sim/bytes?n=100000")
        upload.request("POST", CLASSES + "?simbody=sink", {"Content-Length": "10"})
        upload.send(b"01234")
        until(lambda: len([r for r in world.sim.requests() if not r["done"] and "sim" in r["target"]]) == 2, "both requests")
        mark = proxy.log_mark()
        proxy.signal(15)
        proxy.await_log('"Draining"', mark)
        world.sim.heal(fault)
        upload.send(b"56789")
        equal(upload.answer("POST").json()["bytes"], 10, "upload")
        equal(upload.at_end(), "closed", "end")
        answer = slow.answer()
        check(answer.body == pattern(100000), "download")
        equal(slow.at_end(), "closed", "end")
    equal(proxy.wait_exit(), 0, "exit status")
    again(world, shutdown_grace_period="2s")


def test_watches_end(world):
    """watches end within the grace period, as a server ends them: whole"""
    proxy = world.proxies["a"]
    clients = []
    for number in range(10):
        client = world.client()
        client.request("GET", (MAPS, CLASSES)[number % 2] + "?watch=true")
        equal(client.final_head().status, 200, "watch")
        clients.append(client)
    proxy.signal(15)
    for client in clients:
        try:
            while client.chunk():
                pass
            equal(client.fields(), [], "trailers")
        except Broken as error:
            check(False, "a watch was broken off:", error)
        equal(client.at_end(), "closed", "end")
    equal(proxy.wait_exit(), 0, "exit status")
    again(world)


def test_stopped_meanwhile(world):
    """a process that is suspended until its grace period is over still ends its watches whole"""
    proxy = world.proxies["a"]
    mark = proxy.log_mark()
    clients = [world.client() for _ in range(4)]
    for number, client in enumerate(clients):
        client.request("GET", (MAPS, CLASSES)[number % 2] + "?watch=true")
        equal(client.final_head().status, 200, "watch")
    proxy.signal(15)
    proxy.await_log('"Draining"', mark)
    proxy.signal(signal.SIGSTOP)
    time.sleep(2.5)
    proxy.signal(signal.SIGCONT)
    for client in clients:
        while client.chunk():
            pass
        equal(client.fields(), [], "trailers")
        equal(client.at_end(), "closed", "end")
    equal(proxy.wait_exit(), 0, "exit status")
    again(world)


def test_watches_are_spread(world):
    """the ends of watches are spread over the grace period: when the first has ended the last still gets events"""
    proxy = again(world, shutdown_grace_period="20s")
    clients = []
    for _ in range(10):
        client = world.client()
        client.request("GET", MAPS + "?watch=true")
        equal(client.final_head().status, 200, "watch")
        clients.append(client)
    proxy.signal(15)
    while clients[0].chunk():  # the oldest goes first
        pass
    world.sim.put("configmaps", {"apiVersion": "v1", "kind": "ConfigMap",
                                 "metadata": {"name": "late", "namespace": "default"}})
    check(b'"late"' in clients[-1].chunk(), "the last one has ended, too")
    for client in clients[1:]:
        while client.chunk():
            pass
    equal(proxy.wait_exit(), 0, "exit status")
    world.sim.delete("configmaps", "late", "default")
    again(world, shutdown_grace_period="2s")


def test_delay(world):
    """shutdown-delay-duration: unready at once, and served on until it is over"""
    proxy = again(world, shutdown_delay_duration="2s")
    with world.client() as client:
        equal(client.ask("GET", MAPS).status, 200, "before")
        equal(client.ask("GET", "/readyz").status, 200, "the server behind is ready")
        proxy.signal(15)
        until(lambda: proxy.get("/readyz")[0] == 500, "unready")
        equal(proxy.get("/livez")[0], 200, "alive")
        answer = client.ask("GET", "/readyz?verbose")
        equal(answer.status, 503, "for a load balancer that probes the API")
        equal(answer.json()["kind"], "Status", "its form")
        equal(client.ask("GET", MAPS).status, 200, "an old connection")
        equal(world.ask("GET", CLASSES).status, 200, "a new connection")
    equal(proxy.wait_exit(), 0, "exit status")
    again(world, shutdown_delay_duration="0s")


def test_grace_is_bounded(world):
    """what does not end by itself is ended when the grace period is over"""
    proxy = again(world, shutdown_grace_period="1s")
    world.sim.fault("hang", path=MAPS, exact=True)
    with world.client() as client:
        client.request("GET", MAPS)
        until(lambda: any(not r["done"] and r["path"] == MAPS for r in world.sim.requests()), "the request")
        proxy.signal(15)
        equal(proxy.wait_exit(), 0, "exit status")
        try:
            check(client.answer().status == 503, "an answer from nowhere")
        except Broken:
            pass
    world.sim.heal()
    again(world, shutdown_grace_period="2s")


def test_dripping_body(world):
    """a body of which a byte comes now and then holds nobody up, however long the grace period is"""
    proxy = again(world, shutdown_grace_period="3600s")
    with world.client(user=None) as client:
        client.request("POST", MAPS, {"Content-Length": "1000"}, b"{")
        until(lambda: proxy.metric("mvproxy_back_connections", server="test-server-a", state="busy"), "the request")
        proxy.signal(15)
        until(lambda: drip(client), "the connection to be ended")
    equal(proxy.wait_exit(), 0, "exit status")
    again(world, shutdown_grace_period="2s")


def drip(client):
    """True: nobody takes it any more."""
    try:
        client.send(b" ")
    except OSError:
        return True
    return not client.quiet(0.5)


def test_second_signal(world):
    """a second signal ends it now"""
    proxy = again(world, shutdown_grace_period="1h", shutdown_delay_duration="1h")
    with world.client() as client:
        client.request("GET", MAPS + "?watch=true")
        equal(client.final_head().status, 200, "watch")
        proxy.signal(15)
        until(lambda: proxy.get("/readyz")[0] == 500, "unready")
        time.sleep(0.2)
        check(proxy.running(), "ended before its time")
        proxy.signal(15)
        proxy.wait_exit()
    again(world, shutdown_grace_period="2s", shutdown_delay_duration="0s")


def test_interrupt(world):
    """SIGINT means the same"""
    proxy = world.proxies["a"]
    proxy.signal(2)
    equal(proxy.wait_exit(), 0, "exit status")
    again(world)


def test_restarts(world):
    """started and ended ten times in a row"""
    for _ in range(10):
        proxy = again(world)
        equal(world.ask("GET", CLASSES).status, 200, "status")
        proxy.stop()
    again(world)


def test_others_see_it(world):
    """the peers answer 503 while it is away, and use it again"""
    world.proxies["b"].stop()
    equal(world.ask("GET", CLASSES).status, 503, "away")
    world.proxies["b"].start()
    until(lambda: world.ask("GET", CLASSES).status == 200, "the peer to be used again")


if __name__ == "__main__":
    fixture.main(globals())
