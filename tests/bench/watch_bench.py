#!/usr/bin/env python3
"""Memory and processor time of one mvproxy for very many watches. Run by hand; see README.md.

The server is the simulator. Nothing may be lost or doubled, and order is kept: the load program checks sequence numbers.
"""

import argparse
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(HERE, "..", "e2e"), os.path.join(HERE, "..", "lib")]

from fixture import World  # noqa: E402 # pylint: disable=wrong-import-position
from watchload import Load, Writer, allow_descriptors, cpu, memory, settle  # noqa: E402 # pylint: disable=wrong-import-position

WARM_UP, STEP = 200, 5000
BOUNDS = {True: 10240, False: 40960}


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--watches", type=int, default=50000)
    parser.add_argument("--http1", action="store_true", help="clients with a connection each; else HTTP/2")
    parser.add_argument("--events", type=int, default=3)
    return parser.parse_args()


def measure(args, world):
    proxy = world.proxies["a"]
    pid, http2 = proxy.child.pid, not args.http1
    program = Load("watchload", world.scratch, proxy.address, (world.certs.crt("admin"), world.certs.key("admin")),
                   world.certs.crt("ca"), http2)
    with world.client(direct=True) as client:
        writer = Writer(client)
        writer.create()
    program.spawn()
    try:
        program.open(WARM_UP)
        program.wait(1)
        before, opened = memory(pid), WARM_UP
        while opened < args.watches:
            opened = program.open(min(STEP, args.watches - opened))["watches"]
        program.wait(1)
        settle(pid)
        each = (memory(pid) - before) / (opened - WARM_UP)
        print("%d watches over %s: %d bytes each, %d connections to the server" % (
            opened, "HTTP/2" if http2 else "HTTP/1.1", each,
            sum(proxy.metric("mvproxy_back_connections", origin="local", state=s) or 0 for s in ("busy", "idle"))))
        for _ in range(args.events):
            start = cpu(pid)
            with world.client(direct=True) as client:  # the first one's connection is long closed
                writer.client = client
                program.wait(writer.event())
            settle(pid)
            spent = cpu(pid) - start
            print("one event to all: %.2f s of processor time, %.1f us for each" % (spent, spent / opened * 1e6))
        print("memory afterwards: %d bytes each" % ((memory(pid) - before) / (opened - WARM_UP)))
    finally:
        program.destroy()
    return each <= BOUNDS[http2]


def main():
    args = parse()
    connections = 2 * args.watches if args.http1 else args.watches // 20
    if not allow_descriptors(connections + 4096):
        sys.exit("more descriptors are needed than are allowed")
    world = World({"a": "v1.34"}, options={"v": 0, "max-connections": args.watches + 1000, "access-log": False}).start()
    try:
        good = measure(args, world)
    finally:
        for process in [*world.proxies.values(), world.sim]:
            process.destroy()
    sys.exit(0 if good else "more memory than allowed")


if __name__ == "__main__":
    main()
