#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long the turns of the loop are in which as many metrics as there can be are exposed: plain, with gzip, as OpenMetrics, to mvproxyctl."""

import os
import subprocess
import sys
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))

import fixture  # noqa: E402
from refresh_bench import Turns  # noqa: E402

REROUTED, SETS, TIMES = 2500, 5200, 10
OPENMETRICS = "application/openmetrics-text; version=1.0.0"


def world():
    extra = [{"group": "g%04d.example.com" % i, "version": "v1", "resource": "things", "kind": "Thing", "namespaced": False,
              "verbs": ["get", "list"]} for i in range(REROUTED)]
    return fixture.World({"a": "v1.33", "b": "v1.34"}, servers={"b": {"extra": extra}}, options={"access-log": [], "v": 0})


def fill(made):
    """Everything that peers serve is asked for once, and then what nobody has, as anybody can."""
    with made.client("a", "admin") as client:
        for i in range(REROUTED):
            fixture.equal(client.ask("GET", "/apis/g%04d.example.com/v1/things" % i).status, 200, i)
        for i in range(SETS - REROUTED):
            client.ask("GET", "/apis/n%04d.example.com/v1/nothing" % i)


def scrape(proxy, accept, encoding):
    request = urllib.request.Request("http://%s/metrics" % proxy.admin, headers={"Accept": accept, "Accept-Encoding": encoding})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return len(answer.read())


def ctl(proxy):
    program = os.path.join(os.path.dirname(fixture.mvproxy_binary()), "mvproxyctl")
    return len(subprocess.run([program, "--socket", proxy.options["control-socket"], "metrics"], stdout=subprocess.PIPE, check=True).stdout)


def main():
    made = world()
    proxy = made.proxies["a"]
    turns = Turns(made, proxy)
    try:
        made.start()
        fill(made)
        text = proxy.get("/metrics")[1]
        print("%d series in %d bytes" % (sum(not line.startswith("#") for line in text.splitlines()), len(text)))
        for name, ask in (("plain", lambda: scrape(proxy, "text/plain", "identity")), ("gzip", lambda: scrape(proxy, "text/plain", "gzip")),
                          ("OpenMetrics, gzip", lambda: scrape(proxy, OPENMETRICS, "gzip")), ("mvproxyctl metrics", lambda: ctl(proxy))):
            turns.forget()
            for _ in range(TIMES):
                size = ask()
            print("%-18s %8d bytes, %d times: %s" % (name, size, TIMES, turns.told()), flush=True)
    finally:
        made.close()


if __name__ == "__main__":
    main()
