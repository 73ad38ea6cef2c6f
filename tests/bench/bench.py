#!/usr/bin/env python3
"""Measures mvproxy beside nginx and haproxy, and its /apis beside kube-apiserver's. Run by `make bench`; as root.

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
from cases import APIS_304_CASE, APIS_CASE, BODY_PATH, LOAD_CORE, PEER_PATH, PROXY_CASES  # noqa: E402
from contenders import Maker, pinned  # noqa: E402 # pylint: disable=wrong-import-position
from harness import sandbox, waiting  # noqa: E402 # pylint: disable=wrong-import-position
from harness.api import AGGREGATED  # noqa: E402 # pylint: disable=wrong-import-position
from harness.client import Client  # noqa: E402 # pylint: disable=wrong-import-position
from harness.cluster import TOKENS, Cluster, addresses  # noqa: E402 # pylint: disable=wrong-import-position
from harness.daemon import DaemonError  # noqa: E402 # pylint: disable=wrong-import-position
from harness.node import PORT, NodeSpec  # noqa: E402 # pylint: disable=wrong-import-position

PROXY_CORE = 1
LOOPBACKS = {"mvproxy": "127.0.0.21", "nginx": "127.0.0.22", "haproxy": "127.0.0.23", "nghttpx": "127.0.0.24",
             "server": "127.0.0.31", "local": "127.0.0.32", "peer": "127.0.0.33", "peer-server": "127.0.0.34"}
BODIES = {BODY_PATH: {"1k": 1024, "100k": 102400}, PEER_PATH: {"1k": 1024, "10m": 10 << 20}}


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--mvproxy", help="without: only the others")
    parser.add_argument("--loadgen", required=True)
    parser.add_argument("--apisim", required=True)
    parser.add_argument("--programs", help="folder with VERSION/kube-apiserver; without: no comparison of /apis")
    parser.add_argument("--versions", default="1.33.13,1.34.4")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each measurement")
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose name contains this")
    parser.add_argument("--json", metavar="FILE", help="where to write all figures")
    return parser.parse_args()


def compare(args, ca, case, contenders, more=lambda contender: ()):
    """Those whom the case is for, in alternating rounds; {name: [figures of each round]}."""
    contenders = [c for c in contenders if c.name in case.only]
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
    others = [first.value(rounds) for name, rounds in result.items() if name != "mvproxy"]
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
    cases = {case.name: case for case in PROXY_CASES + [APIS_CASE, APIS_304_CASE]}
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
        nginx = shutil.which("nginx")
        contenders = [maker.nginx(nginx, LOOPBACKS["nginx"], at("server"), at("peer-server")),
                      maker.haproxy(shutil.which("haproxy"), LOOPBACKS["haproxy"], at("server"), at("peer-server")),
                      maker.nghttpx(shutil.which("nghttpx"), LOOPBACKS["nghttpx"], at("server"))]
        if self.args.mvproxy:
            contenders.insert(0, maker.mvproxy(self.args.mvproxy, LOOPBACKS["mvproxy"], at("server"), "127.0.0.21:9443",
                                               ["peer=" + at("peer-server")]))
        # Both servers are nginx with files, so that what is measured does not wait for the simulator.
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
        if self.args.mvproxy:
            self._await(contenders[0].daemon, LOOPBACKS["mvproxy"], PEER_PATH)
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
        contenders = self.start()
        for case in PROXY_CASES:
            if self.args.only in case.name:
                sys.stderr.write("%s " % case.name)
                results[case.name] = compare(self.args, self.pki.crt("ca"), case, contenders)
                show(case, results[case.name])
        return results, {c.name: c.version for c in contenders}

    def stop(self):
        for daemon in reversed(self.daemons):
            daemon.kill()


class Place:
    """Where /apis is asked for."""

    def __init__(self, name, address, daemon):
        self.name = name
        self.address = address
        self._daemon = daemon

    def pids(self):
        return [self._daemon.pid]


class ApisBench:
    """/apis of a real kube-apiserver, and of mvproxy before it with the document merged over two."""

    def __init__(self, args):
        self.args = args
        old, new = args.versions.split(",")
        self.cluster = Cluster([NodeSpec("cp-a", old), NodeSpec("cp-b", new)], args.programs, args.mvproxy)

    def run(self):
        results = {}
        cluster = self.cluster
        cluster.start()
        new = cluster.new
        places = [Place("kube-apiserver", new.loopback, new.apiserver)]
        if self.args.mvproxy:
            places.insert(0, Place("mvproxy", new.address, new.mvproxy))
        for place in places:
            for pid in place.pids():
                subprocess.run(["taskset", "-a", "-p", "-c", str(PROXY_CORE), str(pid)], capture_output=True, check=True)
        tags = {}
        for place in places:
            client = Client(place.address, PORT, cluster.pki.crt("ca"), token="token-of-root")
            answer = client.get("/apis", Accept=AGGREGATED)
            tags[place.name] = answer.header("ETag")
            print("%s serves /apis of %d bytes" % (place.name, len(answer.body)))
        for case, more in ((APIS_CASE, lambda _: ()),
                           (APIS_304_CASE, lambda p: ("--header", "If-None-Match: " + tags[p.name]))):
            if self.args.only in case.name:
                sys.stderr.write("%s " % case.name)
                results[case.name] = compare(self.args, cluster.pki.crt("ca"), case, places, more)
                show(case, results[case.name])
        return results

    def stop(self):
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
    if args.programs and any(args.only in c.name for c in (APIS_CASE, APIS_304_CASE)):
        apis = ApisBench(args)
        try:
            report["cases"].update(apis.run())
        finally:
            apis.stop()
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
