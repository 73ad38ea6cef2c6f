#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""However big the control plane: 100 API servers and 500 groups make no more series than the manual says, in no long turn."""

import os
import re

import fixture
from fixture import World, check, equal, until

SERVERS, GROUPS = 100, 500
VERBS = ["create", "get", "list", "watch"]


def setup():
    """One server with all groups; the others are known by name and cannot be reached, which makes most series of them."""
    extra = [{"group": "g%03d.example.com" % i, "version": "v1", "resource": "things", "kind": "Thing", "namespaced": True, "verbs": VERBS}
             for i in range(GROUPS)]
    peers = ["cp-%03d=127.0.0.%d:1" % (i, 2 + i) for i in range(1, SERVERS)]
    world = World({"a": "v1.34"}, servers={"a": {"extra": extra}}, options={"peers": peers})
    return world.start_proxies()


def stated():
    with open(os.path.join(fixture.TREE, "man", "metrics.inc.mdoc"), encoding="utf-8") as page:
        found = re.search(r"100 API servers and 500 groups.*?fewer than ([0-9,]+) series", page.read(), re.S)
    check(found, "the manual says how many")
    return int(found.group(1).replace(",", ""))


def samples(proxy):
    return [line for line in proxy.get("/metrics")[1].splitlines() if not line.startswith("#")]



def test_series(world):
    """every group used in four ways, every server tried: fewer series than the manual says"""
    proxy = world.proxies["a"]
    until(lambda: proxy.get("/metrics")[1].count("mvproxy_server_info{") == SERVERS, "the servers")
    with world.client("a", "admin") as client:
        for i in range(GROUPS):
            things = "/apis/g%03d.example.com/v1/namespaces/default/things" % i
            made = {"apiVersion": "g%03d.example.com/v1" % i, "kind": "Thing", "metadata": {"name": "one"}}
            equal(client.ask("POST", things, made).status, 201, things)
            equal(client.ask("GET", things).status, 200, things)
            equal(client.ask("GET", things + "/one").status, 200, things)
            equal(client.ask("GET", things + "/none").status, 404, things)
    failures = 'mvproxy_back_connects_total{server="cp-%03d",result="failure"} 0'
    until(lambda: not any(failures % i in proxy.get("/metrics")[1] for i in range(1, SERVERS)), "all servers to be tried")
    found = samples(proxy)
    used = sum(line.startswith("apiserver_request_total{") for line in found)
    check(4 * GROUPS <= used <= 5000, used)
    # What a server gets with its first answer, which the others here never give.
    answered = [line for line in found if line.startswith("mvproxy_back_request_duration_seconds_")]
    check(len(answered) > 10 and len({re.search('server="(.*?)"', line).group(1) for line in answered}) == 1, answered)
    most = len(found) + (SERVERS - 1) * len(answered)
    print("# %d series in %d bytes, %d when all answer" % (len(found), len("\n".join(found)), most), flush=True)
    check(most < stated(), "%d series" % most)


if __name__ == "__main__":
    fixture.main(globals())
