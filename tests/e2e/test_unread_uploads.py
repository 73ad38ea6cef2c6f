#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What clients make mvproxy hold towards a server: connections to it that hang, each with all that TLS takes, are within max-client-memory."""

import contextlib

import fixture
import rawh2
from fixture import check, until

LIMIT = 24 << 20
ALLOWANCE = 16 << 20        # small objects of requests, and what the allocator keeps
CONNECTION_BYTES = 30 << 10 # of one to a server, and what a request has besides
UPLOADS = 1500
MAPS = "/api/v1/namespaces/default/configmaps"


def setup():
    return fixture.World(options={"max-client-memory": LIMIT, "v": 2}).start()


def resident(proxy):
    with open("/proc/%d/status" % proxy.child.pid, encoding="ascii") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmRSS:"))


def held(proxy):
    return proxy.metric("mvproxy_client_memory_bytes")


def busy(proxy):
    return proxy.metric("mvproxy_back_connections", server="test-server-a", state="busy") or 0


def test_hung_server(world):
    """uploads to a server that hangs, each on a connection of its own to it: what all of that takes is charged, and within the limit"""
    proxy = world.proxies["a"]
    fault = world.sim.fault("hang", "a", "POST", "/sim/sink")
    before, seen = resident(proxy), []

    def settled():
        seen.append(busy(proxy))
        return len(seen) > 50 and len(set(seen[-50:])) == 1

    with contextlib.ExitStack() as stack:
        for number in range(UPLOADS // 100):
            client = rawh2.RawH2(stack.enter_context(world.client(user=None, alpn=("h2",), source="127.0.1.%d" % (number + 1))))
            with contextlib.suppress(OSError):  # its connection may be one of those that end
                for _ in range(100):
                    client.request("POST", "/sim/sink", b"x" * 1000, end=False, fields={"content-length": "100000000"})
        until(settled, "all to be at the server, or refused")
        uploads, grown, charged = seen[-1], resident(proxy) - before, held(proxy)
        print("# %d uploads at the server: %.1f MB resident more than before, %.1f MB charged" % (uploads, grown / 1e6, charged / 1e6), flush=True)
        check(uploads >= 100, "uploads at the server", uploads)
        check(charged >= uploads * CONNECTION_BYTES, "charged", charged)
        if not proxy.sanitized():
            check(grown <= LIMIT + ALLOWANCE, "resident", grown)
        until(lambda: world.ask("GET", MAPS).status == 200, "others to be served")
    world.sim.heal(fault)
    until(lambda: held(proxy) < 1 << 20 and busy(proxy) <= 5, "it to be given back")


if __name__ == "__main__":
    fixture.main(globals())
