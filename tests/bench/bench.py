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
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(HERE, "..", "cluster"), os.path.join(HERE, "..", "lib"), HERE]

import certs  # noqa: E402 # pylint: disable=wrong-import-position
from contenders import Maker, pinned  # noqa: E402 # pylint: disable=wrong-import-position
from harness import sandbox, waiting  # noqa: E402 # pylint: disable=wrong-import-position
from harness.api import AGGREGATED  # noqa: E402 # pylint: disable=wrong-import-position
from harness.client import Client  # noqa: E402 # pylint: disable=wrong-import-position
from harness.cluster import TOKENS, Cluster, addresses  # noqa: E402 # pylint: disable=wrong-import-position
from harness.daemon import DaemonError  # noqa: E402 # pylint: disable=wrong-import-position
from harness.node import PORT, NodeSpec  # noqa: E402 # pylint: disable=wrong-import-position

PROXY_CORE, LOAD_CORE = 1, 0
LOOPBACKS = {"mvproxy": "127.0.0.21", "nginx": "127.0.0.22", "haproxy": "127.0.0.23", "server": "127.0.0.31",
             "local": "127.0.0.32", "peer": "127.0.0.33"}
BODIES = {"1k": 1024, "100k": 102400}
TOKEN = ["--header", "Authorization: Bearer token-of-root"]


class Case:
    """What is asked for, and how."""

    def __init__(self, name, title, path, *flags):
        self.name = name
        self.title = title
        self.path = path
        self.flags = list(flags)


BODY_PATH = "/api/v1/namespaces/bench/configmaps/"
PROXY_CASES = [
    Case("get-1k", "GET, 1 KB body, 32 connections", BODY_PATH + "1k", "--connections", "32", *TOKEN),
    Case("get-100k", "GET, 100 KB body, 32 connections", BODY_PATH + "100k", "--connections", "32", *TOKEN),
    Case("get-1k-128", "GET, 1 KB body, 128 connections", BODY_PATH + "1k", "--connections", "128", *TOKEN),
    Case("get-100k-128", "GET, 100 KB body, 128 connections", BODY_PATH + "100k", "--connections", "128", *TOKEN),
    Case("handshake", "a new connection and full handshake for each GET of 1 KB, 16 at a time", BODY_PATH + "1k",
         "--connections", "16", "--close", *TOKEN),
]
APIS_CASE = Case("apis", "GET /apis, aggregated discovery, 32 connections", "/apis", "--connections", "32", *TOKEN,
                 "--header", "Accept: " + AGGREGATED)
APIS_304_CASE = Case("apis-304", "the same with If-None-Match: 304", "/apis", "--connections", "32", *TOKEN,
                     "--header", "Accept: " + AGGREGATED, "--expect", "304")


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


def measure(args, ca, case, address, pids, more=()):
    """One run of the load generator; its figures."""
    command = ["taskset", "-c", str(LOAD_CORE), args.loadgen, "--connect", "%s:%d" % (address, PORT), "--ca", ca,
               "--path", case.path, "--seconds", str(args.seconds), *case.flags, *more]
    for pid in pids:
        command += ["--cpu-of", str(pid)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=args.seconds + 60)
    if done.returncode != 0:
        raise DaemonError("loadgen: " + done.stderr)
    figures = json.loads(done.stdout)
    if figures["requests"] == 0 or figures["errors"] > figures["requests"] / 1000 + 5:
        raise DaemonError("%s at %s: %r" % (case.name, address, figures))
    return figures


def median(rounds, key):
    return statistics.median(key(r) for r in rounds)


def summarize(rounds):
    """Medians over the rounds."""
    return {
        "cpu_us": median(rounds, lambda r: r["cpu_seconds"] / r["requests"] * 1e6),
        "rps": median(rounds, lambda r: r["requests"] / r["seconds"]),
        "p50_ms": median(rounds, lambda r: r["p50_ms"]),
        "p99_ms": median(rounds, lambda r: r["p99_ms"]),
        "bad_status": sum(r["bad_status"] for r in rounds),
        "rounds": rounds,
    }


def compare(args, ca, case, contenders, more=lambda contender: ()):
    """All contenders in alternating rounds; {name: summary}."""
    seen = {c.name: [] for c in contenders}
    for number in range(args.rounds):
        # Each round begins with another one, so that none always follows the same.
        shift = number % len(contenders)
        for contender in contenders[shift:] + contenders[:shift]:
            seen[contender.name].append(measure(args, ca, case, contender.address, contender.pids(), more(contender)))
            sys.stderr.write(".")
            sys.stderr.flush()
    sys.stderr.write("\n")
    return {name: summarize(rounds) for name, rounds in seen.items()}


def show(case, result):
    """Print one case as a table; ratios are to the best of the others."""
    others = [s["cpu_us"] for name, s in result.items() if name != "mvproxy"]
    base = min(others) if others else None
    print("\n%s" % case.title)
    print("  %-16s %14s %10s %12s %10s %10s" % ("", "CPU us/request", "ratio", "requests/s", "p50 ms", "p99 ms"))
    for name, s in sorted(result.items(), key=lambda item: item[1]["cpu_us"]):
        ratio = "%.2f" % (s["cpu_us"] / base) if base else "-"
        print("  %-16s %14.1f %10s %12.0f %10.2f %10.2f%s" % (
            name, s["cpu_us"], ratio, s["rps"], s["p50_ms"], s["p99_ms"],
            "   (%d of the wrong status)" % s["bad_status"] if s["bad_status"] else ""))
    sys.stdout.flush()


def markdown(report):
    """The tables for docs/performance.md."""
    titles = {case.name: case.title for case in PROXY_CASES + [APIS_CASE, APIS_304_CASE]}
    out = ["%s, %d cores, Linux %s, %s; %d rounds of %g s." % (
        report["machine"]["cpu"], report["machine"]["cores"], report["machine"]["kernel"], report["machine"]["date"],
        report["rounds"], report["seconds"])]
    out.append(", ".join("%s %s" % item for item in sorted(report["versions"].items())) + ".")
    for name, result in report["cases"].items():
        base = min((s["cpu_us"] for who, s in result.items() if who != "mvproxy"), default=None)
        out += ["", "**%s**" % titles[name], "", "| | CPU µs/request | ratio | requests/s | p50 ms | p99 ms |",
                "| --- | --- | --- | --- | --- | --- |"]
        out += ["| %s | %.1f | %s | %.0f | %.2f | %.2f |" % (
            who, s["cpu_us"], "%.2f" % (s["cpu_us"] / base) if base else "-", s["rps"], s["p50_ms"], s["p99_ms"])
            for who, s in sorted(result.items(), key=lambda item: item[1]["cpu_us"])]
    return "\n".join(out) + "\n"


class ProxyBench:
    """The proxies before one static server."""

    def __init__(self, args, directory):
        self.args = args
        self.dir = directory
        self.logs = os.path.join(directory, "logs")
        os.makedirs(os.path.join(directory, "bodies" + BODY_PATH))
        os.makedirs(self.logs)
        for name, size in BODIES.items():
            self._write_body(name, size)
        self.pki = certs.make_all(os.path.join(directory, "pki"), {"local": list(LOOPBACKS.values())})
        self.daemons = []

    def _write_body(self, name, size):
        thing = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name, "namespace": "bench"}, "data": {"text": ""}}
        thing["data"]["text"] = "x" * (size - len(json.dumps(thing)))
        with open(os.path.join(self.dir, "bodies" + BODY_PATH + name), "w", encoding="ascii") as out:
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
        server = "%s:%d" % (LOOPBACKS["server"], PORT)
        nginx, haproxy = shutil.which("nginx"), shutil.which("haproxy")
        contenders = [maker.nginx(nginx, LOOPBACKS["nginx"], server), maker.haproxy(haproxy, LOOPBACKS["haproxy"], server)]
        if self.args.mvproxy:
            contenders.insert(0, maker.mvproxy(self.args.mvproxy, LOOPBACKS["mvproxy"], server, "127.0.0.21:9443",
                                               ["peer=%s:%d" % (LOOPBACKS["peer"], PORT)]))
        self.daemons = [self._simulator(), maker.backend(nginx, LOOPBACKS["server"],
                                                         "%s:%d" % (LOOPBACKS["local"], PORT), LOAD_CORE)]
        for daemon in self.daemons:
            daemon.start()
        self._await(self.daemons[-1], LOOPBACKS["server"])
        for contender in contenders:
            self.daemons.append(contender.daemon)
            contender.daemon.start()
            self._await(contender.daemon, contender.address)
        return contenders

    def _await(self, daemon, address):
        client = Client(address, PORT, self.pki.crt("ca"), token="token-of-root")

        def answers():
            daemon.check()
            return client.get(BODY_PATH + "1k").status == 200
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
    for name in ("nginx", "haproxy", "taskset", "ip"):
        if not shutil.which(name):
            sys.exit("%s is missing (Debian: nginx haproxy util-linux iproute2)" % name)
    return sandbox.run(lambda _: inside(args), addresses(2))


if __name__ == "__main__":
    sys.exit(main())
