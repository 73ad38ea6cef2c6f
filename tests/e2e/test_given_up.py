#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Clients that give up what they have asked for, by closing their connections: who does so by the thousand has 429 for a while, others nothing of it."""

import json

import fixture
from fixture import check, equal, until
from rawh2 import RawH2

MAPS = "/api/v1/namespaces/default/configmaps"
LONG = MAPS + "?simbody=bytes&n=2000000"
WATCH = MAPS + "?watch=true"
STREAMS = 100  # of one connection
BURST = 2000   # LIMIT_CHURN_REQUESTS
HERE, THERE = "127.0.9.1", "127.0.9.2"


def setup():
    return fixture.World().start()


def counted(world, name):
    return world.proxies["a"].metric("mvproxy_front_requests_%s_total" % name) or 0


def ask(world, path, source, user="admin", token=None):
    with world.client(user=user, source=source) as client:
        return client.ask("GET", path, None, {"Authorization": "Bearer " + token} if token else None)


def give_up(world, path, n, source, user="admin"):
    """Over as many connections as that needs, which all are closed at once when the server has been asked."""
    before = counted(world, "given_up")
    clients = [RawH2(world.client(user=user, alpn=("h2",), source=source)) for _ in range(n // STREAMS)]
    for client in clients:
        for _ in range(STREAMS):
            client.request("GET", path)
    a = world.proxies["a"]
    until(lambda: (a.metric("mvproxy_front_requests_in_flight") or 0) >= n, "%d requests" % n)
    for client in clients:
        client.conn.close()
    until(lambda: counted(world, "given_up") >= before + n, "them to be given up")


def test_watches(world):
    """a controller manager with 500 watches is restarted as soon as it has begun, twice: nobody refuses it anything"""
    for _ in range(2):
        give_up(world, WATCH, 500, "127.0.9.3")
        equal(ask(world, MAPS, "127.0.9.3").status, 200, "after its restart")
    equal(counted(world, "given_up_refusals"), 0, "refused")


def test_closing(world):
    """long answers are asked for and left with their connections, again and again"""
    for _ in range(5):  # a slow machine gives the budget time to recover
        give_up(world, LONG, BURST * 3 // 4, HERE)
        answer = ask(world, MAPS, HERE)
        if answer.status != 200:
            break
    equal((answer.status, answer.all("Retry-After"), json.loads(answer.body)["reason"]), (429, ["1"], "TooManyRequests"), "who gave up")
    check(counted(world, "given_up_refusals") >= 1, "counted")
    equal(ask(world, "/readyz", HERE).status, 200, "by which a load balancer would decide on all")
    equal(ask(world, MAPS, THERE).status, 200, "the same user elsewhere")
    equal(ask(world, MAPS, HERE, user=None, token="token-root").status, 200, "another at the same address, a load balancer's perhaps")
    until(lambda: ask(world, MAPS, HERE).status == 200, "his budget to have room again")


def test_http1(world):
    """a request on each connection, over HTTP/1.1, counts as much"""
    before = counted(world, "given_up")
    for _ in range(20):
        with world.client(source=THERE) as client:
            client.send(b"GET " + WATCH.encode() + b" HTTP/1.1\r\nHost: kubernetes\r\n\r\n")
            client.sock.recv(1)  # which has no end, so that the kernel cannot have all of it
    until(lambda: counted(world, "given_up") >= before + 20, "them to be given up")


if __name__ == "__main__":
    fixture.main(globals())
