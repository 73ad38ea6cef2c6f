#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What discovery costs the whole daemon, in the simulator's world (tests/e2e/fixture.py): CPU time of refreshing peers that
have not changed, the time from a peer's Lease event to changed routing, and the turns of the loop while a document of
10 MB comes in.  Environment as for tests/e2e: MVPROXY, APISIM."""

import json
import os
import re
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))

import fixture  # noqa: E402
from fixture import until  # noqa: E402

PEERS = "bcdef"
SECONDS, QUIET_SECONDS = 50, 20
CRDS, RESOURCES = 2000, 14


class Turns:
    """The turns of the loop, by the clock and in CPU time (turns.c, preloaded)."""

    FORM = "=4Q"

    def __init__(self, made, proxy):
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "turns.c")
        library, self.path = os.path.join(made.scratch, "turns.so"), os.path.join(made.scratch, "turns")
        subprocess.run([os.environ.get("CC", "cc"), "-O2", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", library, source, "-ldl"],
                       check=True)
        proxy.env.update(LD_PRELOAD=library, TURNS_FILE=self.path)

    def forget(self):
        with open(self.path, "r+b") as told:
            told.write(struct.pack(self.FORM, 0, 0, 0, 0))

    def told(self):
        with open(self.path, "rb") as told:
            turns, over, cpu_us, us = struct.unpack(self.FORM, told.read(struct.calcsize(self.FORM)))
        return "longest of %d turns %.1f ms of CPU, %.1f ms by the clock; %d over 10 ms of CPU, aim 0" % (
            turns, cpu_us / 1000, us / 1000, over)


def world():
    made = fixture.World(profiles=dict({"a": "v1.33"}, **{p: "v1.36" for p in PEERS}), proxies=["a"],
                         options={"discovery-refresh-interval": "1s", "v": 0, "discovery-authz-ttl": "0s"})
    made.proxies["a"].options["peers"] = ["test-server-%s=%s:%d" % ((p,) + made.addresses[p]) for p in PEERS]
    return made.start()


def cpu_ms(proxy):
    with open("/proc/%d/schedstat" % proxy.child.pid, encoding="ascii") as stat:
        return int(stat.read().split()[0]) / 1e6


def metric(proxy, pattern):
    text = proxy.get("/metrics")[1]
    return sum(float(m.group(1)) for m in re.finditer(pattern + r" ([0-9.e+]+)", text))


def refreshes(proxy, result):
    return metric(proxy, r'mvproxy_discovery_refreshes_total\{[^}]*result="%s"[^}]*\}' % result)


def long_turns(proxy):
    name = "mvproxy_loop_lag_seconds_bucket"
    return metric(proxy, name + r'\{le="\+Inf"\}') - metric(proxy, name + r'\{le="0.01"\}')


def spent(proxy, seconds):
    """CPU time of so many seconds; asking for it costs nothing that is in it."""
    before = cpu_ms(proxy)
    time.sleep(seconds)
    return cpu_ms(proxy) - before


def unchanged(proxy):
    """What a look costs: so many, one interval after the other, less what the daemon spends when it does not look."""
    time.sleep(3)
    looks = refreshes(proxy, "unchanged")
    busy = spent(proxy, SECONDS)
    looks = refreshes(proxy, "unchanged") - looks
    proxy.reload({"discovery-refresh-interval": "1h"})
    time.sleep(3)
    quiet = spent(proxy, QUIET_SECONDS) / QUIET_SECONDS * SECONDS
    proxy.reload({"discovery-refresh-interval": "1s"})
    print("%d unchanged servers refreshed: %.2f ms of CPU, aim 1.00 (%d looks in %d s took %.1f ms, all else %.1f ms)" % (
        len(PEERS), (busy - quiet) / looks * len(PEERS), looks, SECONDS, busy, quiet), flush=True)


def thing(number):
    return {"group": "thing%d.example.com" % number, "version": "v1", "resource": "things", "kind": "Thing", "namespaced": False,
            "verbs": ["get", "list"]}


def lease_to_routing(made):
    took = []
    for i in range(7):
        made.sim.kill_server("f")
        made.sim.start_server("f", extra=[thing(i)])
        started = time.monotonic()
        until(lambda n=i: made.ask("GET", "/apis/thing%d.example.com/v1/things" % n).status == 200, "routing", pause=0.005)
        took.append((time.monotonic() - started) * 1000)
    took.sort()
    print("a peer's Lease changes holder: routing has changed %.0f ms later, median of %d (best %.0f, worst %.0f)" % (
        took[len(took) // 2], len(took), took[0], took[-1]), flush=True)


def document():
    """What a server with so many custom resource definitions says, some 10 MB."""
    resource = {"responseKind": {"group": "", "version": "", "kind": "Thing"}, "scope": "Namespaced", "singularResource": "thing",
                "verbs": ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"], "shortNames": ["t"],
                "subresources": [{"subresource": "status", "responseKind": {"group": "", "version": "", "kind": "Thing"},
                                  "verbs": ["get", "patch", "update"]}]}
    items = [{"metadata": {"name": "g%d.example.com" % i}, "versions": [{
        "version": "v1", "freshness": "Current",
        "resources": [dict(resource, resource="things%d" % k) for k in range(RESOURCES)]}]} for i in range(CRDS)]
    return json.dumps({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items},
                      separators=(",", ":"))


def big(made, servers):
    """A document of 10 MB at so many servers at once.  The daemon is another: what is preloaded costs, too."""
    proxy = made.proxies["a"]
    proxy.stop()
    turns = Turns(made, proxy)
    proxy.start()
    made.settle()
    time.sleep(3)
    lag, before = long_turns(proxy), cpu_ms(proxy)
    turns.forget()
    faults = [made.sim.fault("status", server, "GET", "/apis", exact=True, count=0, status=200, body=document(),
                             contentType="application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
              for server in servers]
    until(lambda: metric(proxy, "mvproxy_discovery_merged_bytes") > 8e6, "a document of 10 MB", pause=0.3)
    told = turns.told()
    for fault in faults:
        made.sim.heal(fault)
    print("%.1f MB of merged discovery, from %d servers: %.0f ms of CPU; %s; by the metric %d over 10 ms" % (
        metric(proxy, "mvproxy_discovery_merged_bytes") / 1e6, len(servers), cpu_ms(proxy) - before, told,
        long_turns(proxy) - lag), flush=True)


def main():
    made = world()
    unchanged(made.proxies["a"])
    lease_to_routing(made)
    big(made, "b")
    big(made, "a" + PEERS)
    made.close()


if __name__ == "__main__":
    main()
