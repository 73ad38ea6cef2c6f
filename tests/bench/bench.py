#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures mvproxy beside nginx and haproxy, before files and before a kube-apiserver. Run by `make bench`; as root.

The proxies run one after the other in turns on one core; the load and the server behind them have the other one. What is compared
are medians over the turns of one run, and ratios: absolute figures are this machine's, today's.
"""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(HERE, "..", "cluster"), os.path.join(HERE, "..", "lib"), HERE]

import certs  # noqa: E402 # pylint: disable=wrong-import-position
from cases import APIS_304_CASE, APIS_CASE, APIS_CASES, BODY_PATH, KUBE_CASES, KUBE_PATH, LOAD_CORE, PEER_PATH, PROXY_CASES  # noqa: E402
from contenders import RIVALS, Contender, Maker, pinned, write  # noqa: E402 # pylint: disable=wrong-import-position
from harness import sandbox, waiting  # noqa: E402 # pylint: disable=wrong-import-position
from harness.api import AGGREGATED  # noqa: E402 # pylint: disable=wrong-import-position
from harness.client import Client  # noqa: E402 # pylint: disable=wrong-import-position
from harness.cluster import TOKENS, Cluster, addresses  # noqa: E402 # pylint: disable=wrong-import-position
from harness.daemon import DaemonError  # noqa: E402 # pylint: disable=wrong-import-position
from harness.node import PORT, NodeSpec, yaml  # noqa: E402 # pylint: disable=wrong-import-position

PROXY_CORE = 1
LOOPBACKS = {"server": "127.0.0.31", "local": "127.0.0.32", "peer": "127.0.0.33", "peer-server": "127.0.0.34",
             **{contender: "127.0.0.%d" % (41 + i) for i, contender in enumerate(["mvproxy", "before", *(r.name for r in RIVALS)])}}
BODIES = {BODY_PATH: {"1k": 1024, "100k": 102400, "10m": 10 << 20}, PEER_PATH: {"1k": 1024, "10m": 10 << 20}}
MVPROXY = ("mvproxy", "before")


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--mvproxy", help="without: only the others")
    parser.add_argument("--before", metavar="PROGRAM", help="another mvproxy, to take part in the same rounds")
    parser.add_argument("--haproxy3", metavar="PROGRAM", help="a newer haproxy, which takes part as well")
    parser.add_argument("--rivals", default=",".join(r.name for r in RIVALS).replace(", ", "/"), metavar="NAME,NAME/h2",
                        help="who takes part; default %(default)s")
    parser.add_argument("--loadgen", required=True)
    parser.add_argument("--apisim", required=True)
    parser.add_argument("--programs", help="folder with VERSION/kube-apiserver; without: no comparison of /apis")
    parser.add_argument("--versions", default="1.33.13,1.34.4")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each measurement")
    parser.add_argument("--only", default="", metavar="TEXT,TEXT", help="cases whose name contains one of these")
    parser.add_argument("--json", metavar="FILE", help="where to write all figures")
    return parser.parse_args()


def wanted(args, case):
    return any(text in case.name for text in args.only.split(","))


def taking_part(args):
    """[(row of RIVALS, its program)] that are there and asked for."""
    programs = {"haproxy3": args.haproxy3, **{name: shutil.which(name) for name in ("nginx", "haproxy", "nghttpx")}}
    asked = args.rivals.split(",")
    return [(r, programs[r.program]) for r in RIVALS if programs[r.program] and r.name.replace(", ", "/") in asked]


def compare(args, ca, case, contenders, more=lambda contender: ()):
    """Those whom the case is for, in alternating rounds; {name: [figures of each round]}."""
    contenders = [c for c in contenders if c.family in case.only]
    seen = {c.name: [] for c in contenders}
    for number in range(min(args.rounds, case.rounds)):
        # Each round begins with another one, so that none always follows the same.
        shift = number % len(contenders)
        for contender in contenders[shift:] + contenders[:shift]:
            seen[contender.name].append(case.measure(args, ca, contender, more(contender)))
            sys.stderr.write(".")
            sys.stderr.flush()
    sys.stderr.write("\n")
    return seen


def table(case, result):
    """Header and rows of text, by the first column; the ratio is to the best of the others in the same run."""
    first = case.columns[0]
    others = [first.value(rounds) for name, rounds in result.items() if name not in MVPROXY and first.value(rounds) > 0]
    base = min(others) if others else None
    yield ["", first.title, "ratio", *(c.title for c in case.columns[1:])]
    for name, rounds in sorted(result.items(), key=lambda item: first.value(item[1])):
        ratio = "%.2f" % (first.value(rounds) / base) if base else "-"
        yield [name, first.form % first.value(rounds), ratio, *(c.form % c.value(rounds) for c in case.columns[1:])]


def show(case, result):
    """Print one case as a table."""
    print("\n%s" % case.title)
    for row in table(case, result):
        print("  " + " ".join(("%-16s" if i == 0 else "%14s") % cell for i, cell in enumerate(row)))
    wrong = sum(r.get("bad_status", 0) for rounds in result.values() for r in rounds)
    if wrong:
        print("  %d answers had the wrong status" % wrong)
    sys.stdout.flush()


def markdown(report):
    """The tables for docs/performance.md."""
    cases = {case.name: case for case in PROXY_CASES + APIS_CASES + KUBE_CASES}
    out = ["%s, %d cores, Linux %s, %s; %d rounds of %g s." % (
        report["machine"]["cpu"], report["machine"]["cores"], report["machine"]["kernel"], report["machine"]["date"],
        report["rounds"], report["seconds"])]
    out.append(", ".join("%s %s" % item for item in sorted(report["versions"].items())) + ".")
    for name, result in report["cases"].items():
        rows = list(table(cases[name], result))
        out += ["", "**%s**" % cases[name].title, "", "| " + " | ".join(rows[0]) + " |", "|" + " --- |" * len(rows[0])]
        out += ["| " + " | ".join(row) + " |" for row in rows[1:]]
    return "\n".join(out) + "\n"


class ProxyBench:
    """The proxies before one static server."""

    def __init__(self, args, directory):
        self.args = args
        self.dir = directory
        self.logs = os.path.join(directory, "logs")
        os.makedirs(self.logs)
        for path, bodies in BODIES.items():
            os.makedirs(os.path.join(directory, "bodies" + path))
            for name, size in bodies.items():
                self._write_body(path, name, size)
        self.pki = certs.make_all(os.path.join(directory, "pki"), {"local": list(LOOPBACKS.values())})
        self.daemons = []

    def _write_body(self, path, name, size):
        thing = {"kind": "Thing", "apiVersion": "v1", "metadata": {"name": name, "namespace": "bench"}, "data": {"text": ""}}
        thing["data"]["text"] = "x" * (size - len(json.dumps(thing)))
        with open(os.path.join(self.dir, "bodies" + path + name), "w", encoding="ascii") as out:
            json.dump(thing, out)

    def _simulator(self):
        tokens = os.path.join(self.dir, "tokens.csv")
        with open(tokens, "w", encoding="ascii") as out:
            out.write(TOKENS)
        common = {"tls-cert-file": self.pki.crt("node-local"), "tls-private-key-file": self.pki.key("node-local"),
                  "client-ca-file": self.pki.crt("ca"), "token-auth-file": tokens,
                  "requestheader-client-ca-file": self.pki.crt("front-proxy-ca"),
                  "requestheader-allowed-names": ["front-proxy-client"]}
        servers = [{"name": name, "hostname": name, "listen": "%s:%d" % (LOOPBACKS[name], PORT), "profile": profile, **common}
                   for name, profile in (("local", "v1.33"), ("peer", "v1.34"))]
        config = os.path.join(self.dir, "apisim.json")
        with open(config, "w", encoding="ascii") as out:
            json.dump({"control": "127.0.0.1:8001", "records": -1, "servers": servers}, out)
        return pinned("apisim", [self.args.apisim, "--config", config], self.logs, LOAD_CORE)

    def start(self):
        maker = Maker(self.dir, self.logs, self.pki, "node-local", PROXY_CORE)

        def at(name):
            return "%s:%d" % (LOOPBACKS[name], PORT)
        contenders = [maker.rival(rival, program, LOOPBACKS[rival.name], at("server"), at("peer-server"))
                      for rival, program in taking_part(self.args)]
        for name in MVPROXY:
            if getattr(self.args, name):
                contenders.insert(0, maker.mvproxy(name, getattr(self.args, name), LOOPBACKS[name], at("server"),
                                                   LOOPBACKS[name] + ":9443", ["peer=" + at("peer-server")]))
        # Both servers are nginx with files, so that what is measured does not wait for the simulator.
        nginx = shutil.which("nginx")
        self.daemons = [self._simulator(), maker.backend(nginx, "server", LOOPBACKS["server"], at("local"), LOAD_CORE),
                        maker.backend(nginx, "peer-server", LOOPBACKS["peer-server"], at("peer"), LOAD_CORE)]
        for daemon in self.daemons:
            daemon.start()
        self._await(self.daemons[1], LOOPBACKS["server"])
        self._await(self.daemons[2], LOOPBACKS["peer-server"], PEER_PATH)
        self._make_pod()
        for contender in contenders:
            self.daemons.append(contender.daemon)
            contender.daemon.start()
            self._await(contender.daemon, contender.address)
            if contender.family == "mvproxy":
                self._await(contender.daemon, contender.address, PEER_PATH)
        return contenders

    def _make_pod(self):
        """The other end of the tunnels."""
        pod = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "source"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        client = Client(LOOPBACKS["local"], PORT, self.pki.crt("ca"), token="token-of-root")

        def listens():
            self.daemons[0].check()
            try:
                return client.get("/readyz").status > 0
            except ConnectionRefusedError:
                return False
        waiting.until(listens, "the simulator", 60)
        answer = client.request("POST", "/api/v1/namespaces/default/pods", json.dumps(pod), {"Content-Type": "application/json"})
        if answer.status != 201:
            raise DaemonError("the simulator makes no pod: %r" % answer)

    def _await(self, daemon, address, path=BODY_PATH):
        client = Client(address, PORT, self.pki.crt("ca"), token="token-of-root")

        def answers():
            daemon.check()
            return client.get(path + "1k").status == 200
        waiting.until(answers, daemon.name + " ready", 60)

    def run(self):
        results = {}
        if not any(wanted(self.args, case) for case in PROXY_CASES):
            return {}, {}
        contenders = self.start()
        for case in PROXY_CASES:
            if wanted(self.args, case):
                sys.stderr.write("%s " % case.name)
                results[case.name] = compare(self.args, self.pki.crt("ca"), case, contenders)
                show(case, results[case.name])
        return results, {c.name: c.version for c in contenders}

    def stop(self):
        for daemon in reversed(self.daemons):
            daemon.kill()


class KubeBench:
    """A real kube-apiserver behind mvproxy and the others: /apis merged over two servers, and what a GET costs both."""

    def __init__(self, args):
        self.args = args
        old, new = args.versions.split(",")
        self.cluster = Cluster([NodeSpec("cp-a", old), NodeSpec("cp-b", new)], args.programs, args.mvproxy, {"v": 0})
        self.daemons = []

    def _contenders(self):
        """kube-apiserver of the newer node itself, its mvproxy, and rivals before it."""
        node, dir_ = self.cluster.new, self.cluster.dir
        self.cluster.pki.serving("bench", list(LOOPBACKS.values()))
        maker = Maker(dir_, self.cluster.logs, self.cluster.pki, "bench", PROXY_CORE)
        server = "%s:%d" % (node.loopback, PORT)
        found = [Contender("kube-apiserver", "direct", node.loopback, node.apiserver, self.args.versions)]
        if self.args.mvproxy:
            found.append(Contender("mvproxy", "mvproxy", node.address, node.mvproxy, ""))
        if self.args.before:
            found.append(self._before(node))
        found += [maker.rival(rival, program, LOOPBACKS[rival.name], server, server)
                  for rival, program in taking_part(self.args) if rival.family == "haproxy"]
        for contender in found:
            if not contender.daemon.running():
                self.daemons.append(contender.daemon)
                contender.daemon.start()
        return found

    def _before(self, node):
        pki = self.cluster.pki
        options = dict(node.options(), **{
            "bind-address": LOOPBACKS["before"], "admin-bind-address": LOOPBACKS["before"] + ":9443",
            "tls-cert-file": pki.crt("bench"), "tls-private-key-file": pki.key("bench")})
        config = write(os.path.join(self.cluster.dir, "before.yaml"), yaml(options))
        return Contender("before", "mvproxy", LOOPBACKS["before"],
                         pinned("before", [self.args.before, "--config", config], self.cluster.logs, PROXY_CORE), "")

    def _await(self, place, path):
        client = Client(place.address, PORT, self.cluster.pki.crt("ca"), token="token-of-root")
        waiting.until(lambda: client.get(path).status == 200, place.name + " ready", 60)
        return client

    def _make_object(self):
        thing = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bench"}, "data": {"text": "x" * 600}}
        client = self.cluster.new.direct("root")
        answer = client.request("POST", KUBE_PATH.rpartition("/")[0], json.dumps(thing), {"Content-Type": "application/json"})
        if answer.status != 201:
            raise DaemonError("kube-apiserver makes no object: %r" % answer)

    def run(self):
        results = {}
        self.cluster.start()
        self._make_object()
        places = self._contenders()
        server = places[0].daemon.pid
        tags = {}
        for place in places:
            subprocess.run(["taskset", "-a", "-p", "-c", str(PROXY_CORE), str(place.daemon.pid)], capture_output=True, check=True)
            tags[place.name] = self._await(place, KUBE_PATH).get("/apis", Accept=AGGREGATED).header("ETag")
            place.server_pids = [server]
            if place.family == "direct":
                place.pids = lambda: []  # its own time is the server's
        for case in KUBE_CASES:
            if wanted(self.args, case):
                sys.stderr.write("%s " % case.name)
                results[case.name] = compare(self.args, self.cluster.pki.crt("ca"), case, places)
                show(case, results[case.name])
        places[0].pids = lambda: [server]
        for case, more in ((APIS_CASE, lambda _: ()),
                           (APIS_304_CASE, lambda p: ("--header", "If-None-Match: " + tags[p.name]))):
            if wanted(self.args, case):
                sys.stderr.write("%s " % case.name)
                results[case.name] = compare(self.args, self.cluster.pki.crt("ca"), case, places, more)
                show(case, results[case.name])
        return results

    def stop(self):
        for daemon in self.daemons:
            daemon.kill()
        self.cluster.stop()


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        model = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), "?")
    return {"cpu": model, "cores": os.cpu_count(), "kernel": platform.release(), "date": time.strftime("%Y-%m-%d")}


def inside(args):
    report = {"machine": machine(), "rounds": args.rounds, "seconds": args.seconds, "cases": {}}
    directory = tempfile.mkdtemp(prefix="mvproxy-bench-")
    proxies = ProxyBench(args, directory)
    try:
        cases, report["versions"] = proxies.run()
        report["cases"].update(cases)
    except (DaemonError, waiting.Timeout):
        for daemon in proxies.daemons:
            sys.stderr.write("%s:\n%s" % (daemon.name, daemon.tail(10)))
        raise
    finally:
        proxies.stop()
        shutil.rmtree(directory, ignore_errors=True)
    if args.programs and any(wanted(args, case) for case in APIS_CASES + KUBE_CASES):
        kube = KubeBench(args)
        try:
            report["cases"].update(kube.run())
        finally:
            kube.stop()
    if args.json:
        with open(args.json, "w", encoding="utf-8") as out:
            json.dump(report, out, indent=1)
        with open(args.json + ".md", "w", encoding="utf-8") as out:
            out.write(markdown(report))
        print("\nAll figures: %s, and as tables in %s.md" % (args.json, args.json))
    return 0


def main():
    args = parse()
    if os.cpu_count() < 2:
        sys.exit("two cores are needed: one for the proxy, one for the rest")
    for name in ("nginx", "haproxy", "nghttpx", "h2load", "taskset", "ip"):
        if not shutil.which(name):
            sys.exit("%s is missing (Debian: nginx haproxy nghttp2-proxy nghttp2-client util-linux iproute2)" % name)
    return sandbox.run(lambda _: inside(args), addresses(2))


if __name__ == "__main__":
    sys.exit(main())
