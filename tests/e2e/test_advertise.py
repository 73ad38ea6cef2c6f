#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The address for peers where nobody gives one: out of bind-address, or of the default route. In a network of its own, in which
the machine has an address that is not loopback's."""

import os
import shutil
import subprocess
import sys

import fixture
from fixture import Skip, equal, until

LEASES = "leases.coordination.k8s.io"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
OWN, OTHER = "192.0.2.7", "192.0.2.8"  # RFC 5737
ALONE = "MVPROXY_TEST_NETWORK"
MISSING = [tool for tool in ("unshare", "ip") if not shutil.which(tool)]


def ip(*words):
    done = subprocess.run(["ip", *words], capture_output=True, check=False)
    equal(done.returncode, 0, "ip %s: %s" % (" ".join(words), done.stderr.decode()))


def network():
    """A default route by way of the loopback device: enough to choose an address by."""
    if ALONE not in os.environ:
        raise Skip("needs root and %s" % (" and ".join(MISSING) or "a network namespace"))
    ip("link", "set", "lo", "up")
    for address in (OWN, OTHER):
        ip("address", "add", address + "/24", "dev", "lo")
    ip("route", "add", "default", "dev", "lo", "src", OWN)


def setup():
    network()
    # a's Lease is published by its mvproxy, b's by its server. Each lacks what the other has.
    world = fixture.World({"a": "v1.24", "b": "v1.28"},
                          servers={"a": {"runtime-config": ["batch/v1=false"]}, "b": {"runtime-config": ["policy/v1=false"]}},
                          options={"discovery-refresh-interval": "1s", "peers": [], "bind-address": "0.0.0.0",
                                   "peer-allowed-cidrs": ["192.0.2.0/24"]})
    return world.start_proxies()


def advertised(world, name):
    """What the Lease of that server says; None: nothing."""
    identity = world.sim.server(name)["id"]
    leases = [item for item in world.sim.stored(LEASES, "kube-system") if item["metadata"]["name"] == identity]
    return (leases[0]["metadata"].get("annotations") or {}).get("kubernetes.io/peer-advertise-address")


def found(world, name, ip_address):
    """The Lease says so, and each finds the other by what it says."""
    wanted = "%s:%d" % (ip_address, world.ports[name])
    until(lambda: advertised(world, name) == wanted, "%s in the Lease of %s" % (wanted, name))
    until(lambda: world.ask("GET", JOBS, name="a").status == 200, "the jobs of b through a")
    until(lambda: world.ask("GET", BUDGETS, name="b").status == 200, "the budgets of a through b")


def restarted(world, name, **options):
    proxy = world.proxies[name]
    proxy.stop()
    proxy.options.update({key.replace("_", "-"): value for key, value in options.items()})
    proxy.start()


def test_default_route(world):
    """listening everywhere: the default route's address, in the Lease that mvproxy keeps and in the server's"""
    for name in "ab":
        found(world, name, OWN)


def test_bind_address(world):
    """listening on one address: that one, in the place of the earlier one"""
    for name in "ab":
        restarted(world, name, bind_address=OTHER)
        found(world, name, OTHER)


def test_given(world):
    """a given one comes before it; when it is taken away by a reload, the derived one is back"""
    for name in "ab":
        proxy = world.proxies[name]
        given = {"peer-advertise-ip": OWN, "peer-advertise-port": 7}
        mark = proxy.reload(given)
        proxy.await_log("Reloaded", mark)
        until(lambda n=name: advertised(world, n) == OWN + ":7", "the given address in the Lease of " + name)
        for key in given:
            del proxy.options[key]
        mark = proxy.reload()
        proxy.await_log("Reloaded", mark)
        found(world, name, OTHER)


def test_loopback(world):
    """listening on loopback: no address that others could reach, so none is published"""
    restarted(world, "a", bind_address="127.0.0.1")
    until(lambda: advertised(world, "a") is None, "a Lease without address")
    restarted(world, "a", bind_address=OTHER)
    found(world, "a", OTHER)


if __name__ == "__main__":
    if ALONE not in os.environ and os.geteuid() == 0 and not MISSING and \
            subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False).returncode == 0:
        try:
            fixture.apisim_binary()  # what it is built of may have to be fetched
        except Skip:
            pass
        os.environ[ALONE] = "1"
        os.execvp("unshare", ["unshare", "--net", sys.executable, *sys.argv])
    fixture.main(globals())
