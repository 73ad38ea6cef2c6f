#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory and processor time of one mvproxy for very many watches. Run by hand; see README.md.

The server is the simulator, or with --programs (as root) a real kube-apiserver. Nothing may be lost or doubled, and order is kept: the load program checks sequence numbers.
"""

import argparse
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(HERE, "..", "e2e"), os.path.join(HERE, "..", "cluster"), os.path.join(HERE, "..", "lib")]

from fixture import World, mvproxy_binary  # noqa: E402 # pylint: disable=wrong-import-position
from harness import sandbox  # noqa: E402 # pylint: disable=wrong-import-position
from harness.cluster import Cluster, addresses  # noqa: E402 # pylint: disable=wrong-import-position
from harness.node import PORT, NodeSpec  # noqa: E402 # pylint: disable=wrong-import-position
from rawhttp import Raw  # noqa: E402 # pylint: disable=wrong-import-position
from contenders import RIVALS, Maker  # noqa: E402 # pylint: disable=wrong-import-position
from watchload import PATH, Load, Writer, allow_descriptors, cpu, memory, settle  # noqa: E402 # pylint: disable=wrong-import-position

WARM_UP, STEP = 200, 5000
BOUNDS = {True: 10240, False: 40960}


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--watches", type=int, default=50000)
    parser.add_argument("--http1", action="store_true", help="clients with a connection each; else HTTP/2")
    parser.add_argument("--events", type=int, default=3)
    parser.add_argument("--direct", action="store_true", help="without mvproxy in between: whether something is the server's own doing")
    parser.add_argument("--haproxy", metavar="PROGRAM", help="measure it, with HTTP/2 to the server, and not mvproxy; as root")
    parser.add_argument("--unversioned", action="store_true", help="watches without resourceVersion, which kube-apiserver serves from etcd's newest state")
    parser.add_argument("--programs", help="folder with VERSION/kube-apiserver")
    parser.add_argument("--version", default="1.34.4", help="of the kube-apiserver in there")
    return parser.parse_args()


LISTEN, CORE = "127.0.0.43", 1


def in_front(args, directory, pki, place, token):
    """haproxy in the place of mvproxy, whatever that is in front of."""
    pki.serving("bench", [LISTEN])
    rival = next(r for r in RIVALS if r.name == "haproxy, h2")
    server = "%s:%d" % place.server
    place.rival = Maker(directory, directory, pki, "bench", CORE).rival(rival, args.haproxy, LISTEN, server, server, token).daemon
    place.rival.start()
    place.proxy, place.pid = (LISTEN, PORT), place.rival.pid


class Simulated:
    """mvproxy before the simulator."""

    rival = None

    def __init__(self, args):
        options = {"v": 0, "max-connections": args.watches + 1000}
        self._world = World({"a": "v1.34"}, options=options).start()
        certs, self.scratch = self._world.certs, self._world.scratch
        self.proxy, self.server = self._world.proxies["a"].address, self._world.addresses["a"]
        self.pid = self._world.proxies["a"].child.pid
        self.ca, self.pair = certs.crt("ca"), (certs.crt("admin"), certs.key("admin"))
        if args.haproxy:
            in_front(args, self.scratch, certs.authority, self, "token-root")

    def stop(self):
        if self.rival:
            self.rival.kill()
        for process in [*self._world.proxies.values(), self._world.sim]:
            process.destroy()


class Real:
    """mvproxy before a kube-apiserver, in namespaces of their own."""

    rival = None

    def __init__(self, args):
        options = {"v": 0, "max-connections": args.watches + 1000}
        self._cluster = Cluster([NodeSpec("cp-a", args.version)], args.programs, mvproxy_binary(), options)
        self._cluster.start_kubernetes()
        self._cluster.start_mvproxies()
        node, pki, self.scratch = self._cluster.nodes[0], self._cluster.pki, self._cluster.dir
        self.proxy, self.server, self.pid = (node.address, PORT), (node.loopback, PORT), node.mvproxy.pid
        self.ca, self.pair = pki.crt("ca"), (pki.crt("admin"), pki.key("admin"))
        if args.haproxy:
            in_front(args, self.scratch, pki, self, "token-of-root")

    def stop(self):
        if self.rival:
            self.rival.kill()
        self._cluster.stop()


def measure(args, place):
    pid, http2 = place.pid, not args.http1
    target = PATH + "?watch=true" + ("" if args.unversioned else "&resourceVersion=0")
    program = Load("watchload", place.scratch, place.server if args.direct else place.proxy, place.pair, place.ca, http2, target)
    with Raw(place.server, place.ca, place.pair) as client:
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
        print("%d watches over %s: %d bytes each" % (opened, "HTTP/2" if http2 else "HTTP/1.1", each))
        for _ in range(args.events):
            start = cpu(pid)
            with Raw(place.server, place.ca, place.pair) as client:  # the first one's connection is long closed
                writer.client = client
                program.wait(writer.event())
            settle(pid)
            spent = cpu(pid) - start
            print("one event to all: %.2f s of processor time, %.1f us for each" % (spent, spent / opened * 1e6))
        print("memory afterwards: %d bytes each" % ((memory(pid) - before) / (opened - WARM_UP)))
    finally:
        program.destroy()
    return each <= BOUNDS[http2]


def run(args):
    place = Real(args) if args.programs else Simulated(args)
    try:
        good = measure(args, place)
    finally:
        place.stop()
    return 0 if good else 1


def main():
    args = parse()
    connections = args.watches if args.http1 else args.watches // 20  # of each process
    if not allow_descriptors(connections + 4096):
        sys.exit("more descriptors are needed than are allowed")
    return sandbox.run(lambda _: run(args), addresses(1)) if args.programs else run(args)


if __name__ == "__main__":
    sys.exit(main())
