# SPDX-License-Identifier: Apache-2.0
"""What is measured: each case asks one contender for something and returns figures, of which the first in its table counts."""

import json
import os
import re
import socket
import ssl
import statistics
import subprocess
import tempfile
import time

from harness.api import AGGREGATED
from harness.daemon import DaemonError
from harness.node import PORT

LOAD_CORE = 0
TOKEN = ["--header", "Authorization: Bearer token-of-root"]
BODY_PATH = "/api/v1/namespaces/bench/configmaps/"
PEER_PATH = "/apis/resource.k8s.io/v1/deviceclasses/"
TUNNEL_PATH = "/api/v1/namespaces/default/pods/source/attach?sim-send=1000000000000"


def cpu_seconds(pids):
    """User and system time of the processes."""
    ticks = 0
    for pid in pids:
        with open("/proc/%d/stat" % pid, encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def resident_kb(pids):
    total = 0
    for pid in pids:
        with open("/proc/%d/smaps_rollup" % pid, encoding="ascii") as file:
            total += sum(int(line.split()[1]) for line in file if line.startswith("Pss:"))
    return total


class Column:
    """One figure of a case's table: the median over the rounds."""

    def __init__(self, title, key, form="%.1f"):
        self.title = title
        self.key = key
        self.form = form

    def value(self, rounds):
        return statistics.median(self.key(r) if callable(self.key) else r[self.key] for r in rounds)


class Case:
    """A load of HTTP/1.1 requests in a closed loop."""

    columns = [
        Column("CPU µs/request", lambda r: r["cpu_seconds"] / r["requests"] * 1e6),
        Column("requests/s", lambda r: r["requests"] / r["seconds"], "%.0f"),
        Column("p50 ms", "p50_ms", "%.2f"),
        Column("p99 ms", "p99_ms", "%.2f"),
    ]
    only = ("mvproxy", "nginx", "haproxy")  # families
    rounds = 1000  # at most

    def __init__(self, name, title, path, *flags):
        self.name = name
        self.title = title
        self.path = path
        self.flags = list(flags)

    def command(self, args, ca, contender, more=()):
        command = ["taskset", "-c", str(LOAD_CORE), args.loadgen, "--connect", "%s:%d" % (contender.address, PORT), "--ca", ca,
                   "--path", self.path, "--seconds", str(args.seconds), *self.flags, *more]
        for pid in contender.pids():
            command += ["--cpu-of", str(pid)]
        return command

    may_starve = False  # whether it is a result that nothing came in the whole time

    def judge(self, contender, text):
        figures = json.loads(text)
        if figures["requests"] == 0 and self.may_starve:
            figures["p50_ms"] = figures["p99_ms"] = figures["seconds"] * 1e3
        elif figures["requests"] == 0 or figures["errors"] > figures["requests"] / 1000 + 5:
            raise DaemonError("%s at %s: %r" % (self.name, contender.name, figures))
        return figures

    def measure(self, args, ca, contender, more=()):
        done = subprocess.run(self.command(args, ca, contender, more), capture_output=True, text=True, check=False,
                              timeout=args.seconds + 60)
        if done.returncode != 0:
            raise DaemonError("loadgen: " + done.stderr)
        return self.judge(contender, done.stdout)


class Rerouted(Case):
    """The same request for something that the local server has, and for something that only the peer has."""

    only = ("mvproxy",)
    columns = [
        Column("CPU µs/request, rerouted", lambda r: r["rerouted"]["cpu_seconds"] / r["rerouted"]["requests"] * 1e6),
        Column("local", lambda r: r["local"]["cpu_seconds"] / r["local"]["requests"] * 1e6),
        Column("rerouted / local", lambda r: (r["rerouted"]["cpu_seconds"] / r["rerouted"]["requests"]) /
               (r["local"]["cpu_seconds"] / r["local"]["requests"]), "%.2f"),
    ]

    peer_first = False

    def measure(self, args, ca, contender, more=()):
        """Now the one first, now the other: a machine that gets faster or slower must not favour either."""
        self.peer_first = not self.peer_first
        figures = {}
        for name, path in sorted({"local": BODY_PATH, "rerouted": PEER_PATH}.items(), reverse=self.peer_first):
            figures[name] = Case(name, "", path + "1k", *self.flags).measure(args, ca, contender)
        return figures


class Http2(Case):
    """GETs over HTTP/2 by h2load, several streams on each connection."""

    only = ("mvproxy", "nginx", "haproxy", "nghttpx")
    # The windows of Go's clients: 4 MiB for a stream, 1 GiB for a connection.
    WINDOWS = ["--window-bits=22", "--connection-window-bits=30"]

    def __init__(self, name, title, paths, *flags):
        super().__init__(name, title, None, *flags)
        self.paths = paths

    def measure(self, args, ca, contender, more=()):
        with tempfile.NamedTemporaryFile() as log:
            command = ["taskset", "-c", str(LOAD_CORE), "h2load", "--tls13-ciphers=TLS_AES_128_GCM_SHA256", "--groups=X25519",
                       "--duration=%d" % max(1, round(args.seconds)), "--log-file=" + log.name, *self.WINDOWS, *self.flags,
                       "-H", "Authorization: Bearer token-of-root"]
            # Given twice, it would ask for the first only: a list is taken from a file.
            with tempfile.NamedTemporaryFile("w") as uris:
                uris.write("".join("https://%s:%d%s\n" % (contender.address, PORT, path) for path in self.paths))
                uris.flush()
                before = cpu_seconds(contender.pids())
                done = subprocess.run([*command, "-i", uris.name], capture_output=True, text=True, check=False,
                                      timeout=args.seconds + 60)
                spent = cpu_seconds(contender.pids()) - before
            took = sorted(int(line.split()[2]) / 1e3 for line in log.read().decode().splitlines())
        found = re.search(r"requests: \d+ total, \d+ started, \d+ done, (\d+) succeeded, (\d+) failed", done.stdout)
        rate = re.search(r"finished in ([\d.]+)(us|ms|s)", done.stdout)
        if not (found and rate and took) or int(found.group(2)) > int(found.group(1)) / 1000 + 5:
            raise DaemonError("h2load at %s: %s%s" % (contender.name, done.stdout, done.stderr))
        return {"requests": int(found.group(1)), "cpu_seconds": spent, "p50_ms": took[len(took) // 2],
                "p99_ms": took[int(0.99 * (len(took) - 1))],
                "seconds": float(rate.group(1)) * {"us": 1e-6, "ms": 1e-3, "s": 1}[rate.group(2)]}


class Mixed(Http2):
    """Small and large answers over HTTP/2, and small ones over HTTP/1.1 at the same time, all from one server."""

    only = ("mvproxy", "nginx", "haproxy")
    columns = Case.columns[:2] + [
        Column("HTTP/2 p99 ms", "p99_ms", "%.2f"),
        Column("HTTP/1.1 p99 ms", lambda r: r["http1"]["p99_ms"], "%.2f"),
    ]

    def measure(self, args, ca, contender, more=()):
        beside = Case("http1", "", BODY_PATH + "1k", "--connections", "8", "--warmup", "0", *TOKEN)
        with subprocess.Popen(beside.command(args, ca, contender), stdout=subprocess.PIPE, text=True) as small:
            figures = super().measure(args, ca, contender)
            figures["http1"] = beside.judge(contender, small.communicate(timeout=args.seconds + 60)[0])
        figures["requests"] += figures["http1"]["requests"]
        return figures


class Tunnel(Case):
    """Bytes through upgraded connections, from the server to the client."""

    columns = [
        Column("CPU ms/MB", lambda r: r["cpu_seconds"] * 1e9 / r["bytes"], "%.3f"),
        Column("MB/s", lambda r: r["bytes"] / r["seconds"] / 1e6, "%.0f"),
    ]

    def measure(self, args, ca, contender, more=()):
        return super().measure(args, ca, contender, ["--tunnel"])

    def judge(self, contender, text):
        figures = json.loads(text)
        if figures["bytes"] == 0 or figures["errors"] > 0:
            raise DaemonError("%s's tunnels: %r" % (contender.name, figures))
        return figures


class Idle(Case):
    """Memory of connections that have had one request each and wait for the next."""

    columns = [Column("KB/connection", "kb")]
    rounds = 1

    def __init__(self, name, title, path, count):
        super().__init__(name, title, path)
        self.count = count

    def measure(self, args, ca, contender, more=()):
        context = ssl.create_default_context(cafile=ca)
        context.check_hostname = False
        request = ("GET %s HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer token-of-root\r\n\r\n" % self.path).encode()
        sockets = []
        before = resident_kb(contender.pids())
        try:
            for _ in range(self.count):
                raw = socket.create_connection((contender.address, PORT), timeout=20)
                sockets.append(context.wrap_socket(raw, server_hostname=contender.address))
                sockets[-1].sendall(request)
                if b" 200 " not in sockets[-1].recv(65536):
                    raise DaemonError("%s refused a request" % contender.name)
            time.sleep(0.5)
            return {"kb": (resident_kb(contender.pids()) - before) / self.count}
        finally:
            for each in sockets:
                each.close()


class Beside(Case):
    """Small requests while other connections move as much as they can, from another server."""

    may_starve = True

    columns = [
        Column("p99 ms beside it", "p99_ms", "%.2f"),
        Column("p50 ms", "p50_ms", "%.2f"),
        Column("quiet p99 ms", lambda r: r["quiet"]["p99_ms"], "%.2f"),
        Column("bulk MB/s", lambda r: r["bulk"]["bytes"] / r["bulk"]["seconds"] / 1e6, "%.0f"),
    ]

    def __init__(self, name, title, bulk):
        super().__init__(name, title, BODY_PATH + "1k", "--connections", "8", *TOKEN)
        self.bulk = Case("bulk", "", PEER_PATH + "10m", "--connections", str(bulk), "--warmup", "0", *TOKEN)

    def measure(self, args, ca, contender, more=()):
        quiet = super().measure(args, ca, contender)
        longer = self.bulk.command(args, ca, contender, ["--seconds", str(args.seconds + 2)])
        with subprocess.Popen(longer, stdout=subprocess.PIPE, text=True) as bulk:
            time.sleep(0.5)
            figures = super().measure(args, ca, contender)
            figures["bulk"] = json.loads(bulk.communicate(timeout=args.seconds + 60)[0])
        figures["quiet"] = quiet
        return figures


PROXY_CASES = [
    # First: later, what others have freed would hide what is taken.
    Idle("idle", "memory of idle connections, 1,000 of them", BODY_PATH + "1k", 1000),
    Case("get-1k", "GET, 1 KB body, 32 connections", BODY_PATH + "1k", "--connections", "32", *TOKEN),
    Case("get-100k", "GET, 100 KB body, 32 connections", BODY_PATH + "100k", "--connections", "32", *TOKEN),
    Case("get-1k-128", "GET, 1 KB body, 128 connections", BODY_PATH + "1k", "--connections", "128", *TOKEN),
    Case("get-100k-128", "GET, 100 KB body, 128 connections", BODY_PATH + "100k", "--connections", "128", *TOKEN),
    Case("handshake", "a new connection and full handshake for each GET of 1 KB, 16 at a time", BODY_PATH + "1k",
         "--connections", "16", "--close", *TOKEN),
    Http2("http2-1k", "GET over HTTP/2, 1 KB body, 32 connections with 10 streams each", [BODY_PATH + "1k"], "-c32", "-m10"),
    Http2("http2-1k-single", "GET over HTTP/2, 1 KB body, 32 connections with 1 stream each", [BODY_PATH + "1k"], "-c32", "-m1"),
    Http2("http2-100k", "GET over HTTP/2, 100 KB body, 32 connections with 4 streams each", [BODY_PATH + "100k"], "-c32", "-m4"),
    Http2("http2-10m", "GET over HTTP/2, 10 MB body, 4 connections with 2 streams each", [BODY_PATH + "10m"], "-c4", "-m2"),
    Mixed("mixed", "GET over HTTP/2, 16 connections with 4 streams each, 20 of 1 KB for 1 of 100 KB, beside 8 HTTP/1.1 connections "
          "with 1 KB", [BODY_PATH + "1k"] * 20 + [BODY_PATH + "100k"], "-c16", "-m4"),
    Rerouted("rerouted-1k", "GET, 1 KB body, 32 connections, from the local server and from a peer", PEER_PATH + "1k",
             "--connections", "32", *TOKEN),
    Tunnel("tunnel", "upgraded connections, 4 of them, from the server to the client", TUNNEL_PATH, "--connections", "4",
           "--header", "Connection: Upgrade", "--header", "Upgrade: websocket", "--header", "Sec-WebSocket-Version: 13",
           "--header", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", *TOKEN),
    Beside("beside-1", "GET of 1 KB on 8 connections beside 1 connection that reads bodies of 10 MB", 1),
    Beside("beside-128", "GET of 1 KB on 8 connections beside 128 connections that read bodies of 10 MB", 128),
]



class BeforeServer:
    """What a proxy costs before a real kube-apiserver, beside what that costs itself: mixed into Case and Http2."""

    columns = [
        Column("proxy : server %", lambda r: r["cpu_seconds"] / r["server_seconds"] * 100 if r["server_seconds"] else 0),
        Column("proxy µs/request", lambda r: r["cpu_seconds"] / r["requests"] * 1e6),
        Column("server µs/request", lambda r: r["server_seconds"] / r["requests"] * 1e6),
        Column("both", lambda r: (r["cpu_seconds"] + r["server_seconds"]) / r["requests"] * 1e6),
        Column("p99 ms", "p99_ms", "%.2f"),
    ]
    only = ("mvproxy", "haproxy", "direct")

    def measure(self, args, ca, contender, more=()):
        before = cpu_seconds(contender.server_pids)
        figures = super().measure(args, ca, contender, more)
        figures["server_seconds"] = cpu_seconds(contender.server_pids) - before
        return figures


class ServedOverHttp1(BeforeServer, Case):
    pass


class ServedOverHttp2(BeforeServer, Http2):
    pass


APIS_CASE = Case("apis", "GET /apis, aggregated discovery, 32 connections", "/apis", "--connections", "32", *TOKEN,
                 "--header", "Accept: " + AGGREGATED)
APIS_304_CASE = Case("apis-304", "the same with If-None-Match: 304", "/apis", "--connections", "32", *TOKEN,
                     "--header", "Accept: " + AGGREGATED, "--expect", "304")
APIS_CASE.only = APIS_304_CASE.only = ("mvproxy", "direct")
APIS_CASES = [APIS_CASE, APIS_304_CASE]
KUBE_PATH = "/api/v1/namespaces/default/configmaps/bench"
KUBE_CASES = [
    # No warm-up: the server's time is taken before and after.
    ServedOverHttp2("kube-http2", "GET of 1 KB over HTTP/2 from a kube-apiserver, 16 connections with 4 streams each", [KUBE_PATH],
                    "-c16", "-m4"),
    ServedOverHttp2("kube-http2-single", "the same, 16 connections with 1 stream each", [KUBE_PATH], "-c16", "-m1"),
    ServedOverHttp1("kube-http1", "GET of 1 KB over HTTP/1.1 from a kube-apiserver, 16 connections", KUBE_PATH,
                    "--connections", "16", "--warmup", "0", *TOKEN),
]
