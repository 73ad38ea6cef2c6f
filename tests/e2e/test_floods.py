#!/usr/bin/env python3
"""Floods: while many connections do nothing, or nothing good, others are served, memory stays in bounds,
everything is counted, and afterwards all is as before.

Small by default.  FLOOD_SIZE=10000 tests/e2e/test_floods.py is the size that docs/limits.md speaks of; it
also says how long an ordinary request takes quietly and in each flood.
"""

import os
import resource
import selectors
import shutil
import socket
import ssl
import subprocess
import threading
import time

import fixture
from fixture import check, equal, until

SIZE = int(os.environ.get("FLOOD_SIZE", "400"))
FRESH = 4096 if SIZE > 4096 else 150   # max-fresh-connections: less than the flood in any case
MAPS = "/api/v1/namespaces/default/configmaps"
# What a connection may cost at most, TLS included (docs/limits.md).
FRESH_BYTES, BASE_BYTES, QUIET_BYTES = 64 << 10, 64 << 20, 64 << 10
SOURCES = ["127.0.9.%d" % i for i in range(1, 9)]


def setup():
    need = SIZE + 2000
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit[1] != resource.RLIM_INFINITY and limit[1] < need:
        raise fixture.Skip("needs %d descriptors, may have %d" % (need, limit[1]))
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit[1], limit[1]))
    world = fixture.World(options={"max-fresh-connections": FRESH, "client-header-timeout": "8s", "client-idle-timeout": "60s",
                                   "v": 2})
    return world.start()


def resident(proxy):
    """Bytes, now."""
    with open("/proc/%d/status" % proxy.child.pid, encoding="ascii") as status:
        for line in status:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) << 10
    raise fixture.Failure("no VmRSS")


def closed(proxy, reason):
    return proxy.metric("mvproxy_front_closed_total", reason=reason) or 0


class Others:
    """Ordinary clients meanwhile: one connection that stays, and a new one for every third request."""

    def __init__(self, world):
        self.world, self.times, self.trouble = world, [], None
        self.ending = threading.Event()
        self.thread = threading.Thread(target=self._run)

    def _one(self, client):
        started = time.monotonic()
        status = client.ask("GET", MAPS).status if client else self.world.ask("GET", MAPS).status
        self.times.append(time.monotonic() - started)
        equal(status, 200, "another client")

    def _run(self):
        try:
            with self.world.client() as steady:
                while not self.ending.is_set():
                    self._one(steady)
                    self._one(steady)
                    self._one(None)
        except Exception as error:
            self.trouble = error

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *what):
        until(lambda: self.trouble or len(self.times) >= 15 or what[0], "requests of others", patience=60)
        self.ending.set()
        self.thread.join()
        if self.trouble and not what[0]:
            raise self.trouble

    def tell(self, name):
        times = sorted(self.times)
        print("# %s: %d requests of others, median %.1f ms, p99 %.1f ms" % (
            name, len(times), 1e3 * times[len(times) // 2], 1e3 * times[len(times) * 99 // 100]), flush=True)


def arrive(proxy, i):
    """The ith connection of a crowd from several addresses."""
    return socket.create_connection(proxy.address, source_address=(SOURCES[i % len(SOURCES)], 0), timeout=fixture.PATIENCE)


def crowd(proxy, n):
    return [arrive(proxy, i) for i in range(n)]


def end(sockets):
    for one in sockets:
        one.close()


def in_bounds(proxy, bound, name):
    now = resident(proxy)
    print("# %s: %.1f MB resident, at most %.1f" % (name, now / 1e6, bound / 1e6), flush=True)
    if not proxy.sanitized():
        check(now <= bound, name, "needs", now, "bytes, more than", bound)


def recovers(world, proxy):
    until(lambda: proxy.metric("mvproxy_front_connections_fresh") == 0, "the flood to be forgotten")
    until(lambda: proxy.metric("mvproxy_front_connections") <= 4, "its connections to be closed")
    equal(world.ask("GET", MAPS).status, 200, "afterwards")


def test_quiet(world):
    """without a flood: what the figures of the others compare with"""
    with Others(world) as others:
        pass
    others.tell("quiet")


def test_half_open_handshakes(world):
    """half-open handshakes: the oldest make room, nobody else notices"""
    proxy = world.proxies["a"]
    before, accepted = closed(proxy, "crowded_out"), proxy.metric("mvproxy_front_connections_total", result="accepted")
    with Others(world) as others:
        flood = crowd(proxy, SIZE)
        for i, one in enumerate(flood):  # half of them with the beginning of a ClientHello
            if i % 2 == 0:
                try:
                    one.send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
                except OSError:
                    pass
        until(lambda: closed(proxy, "crowded_out") + closed(proxy, "handshake") - before >= SIZE - FRESH, "the surplus to be closed")
        check(proxy.metric("mvproxy_front_connections_fresh") <= FRESH, "more than the budget")
        in_bounds(proxy, BASE_BYTES + FRESH * FRESH_BYTES, "half-open handshakes")
    others.tell("half-open handshakes")
    equal(closed(proxy, "client_limit"), 0, "nobody was refused")
    check(closed(proxy, "crowded_out") > before, "nobody was crowded out")
    check(proxy.metric("mvproxy_front_connections_total", result="accepted") - accepted >= SIZE, "all were accepted")
    end(flood)
    recovers(world, proxy)


def handshakes(proxy, n, asks):
    """n TLS connections at a time without threads; each sends `asks`, and stays."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    out, selector, left = [], selectors.DefaultSelector(), 0
    for i in range(n):
        tcp = arrive(proxy, i)
        tcp.setblocking(False)
        one = context.wrap_socket(tcp, do_handshake_on_connect=False)
        selector.register(one, selectors.EVENT_READ | selectors.EVENT_WRITE)
        out.append(one)
        left += 1
        if left >= 50:
            left -= _drive(selector, asks, 40)
    while left > 0:
        left -= _drive(selector, asks, left)
    return out


def _drive(selector, asks, wanted):
    done, deadline = 0, time.monotonic() + 2 * fixture.PATIENCE
    while done < wanted:
        check(time.monotonic() < deadline, "handshakes do not end")
        for key, _ in selector.select(1):
            one = key.fileobj
            try:
                one.do_handshake()
                if asks:
                    one.send(asks)
            except ssl.SSLWantReadError:
                selector.modify(one, selectors.EVENT_READ)
                continue
            except ssl.SSLWantWriteError:
                continue
            except OSError:  # crowded out
                pass
            selector.unregister(one)
            done += 1
    return done


def test_idle_connections(world):
    """idle clients that have asked something stay; memory is bounded"""
    proxy = world.proxies["a"]
    before = closed(proxy, "crowded_out")
    with Others(world) as others:
        flood = handshakes(proxy, SIZE, b"GET /livez HTTP/1.1\r\nHost: h\r\n\r\n")
        until(lambda: proxy.metric("mvproxy_front_connections") >= SIZE, "all to be open")
        until(lambda: proxy.metric("mvproxy_front_connections_fresh") <= 1, "all to have asked", patience=120)
        in_bounds(proxy, BASE_BYTES + SIZE * QUIET_BYTES, "idle connections")
    others.tell("idle connections")
    equal(closed(proxy, "crowded_out"), before, "crowded out")
    end(flood)
    recovers(world, proxy)


def test_silent_connections(world):
    """clients that finish the handshake and ask nothing make room as well"""
    proxy = world.proxies["a"]

    def ended():  # a machine that is slow at handshakes sees their time run out first
        return sum(closed(proxy, reason) for reason in ("crowded_out", "no_request", "handshake"))

    before = ended()
    with Others(world) as others:
        flood = handshakes(proxy, SIZE, b"")
        until(lambda: ended() - before >= SIZE - FRESH, "the surplus to be closed")
        check(proxy.metric("mvproxy_front_connections_fresh") <= FRESH, "more than the budget")
        in_bounds(proxy, BASE_BYTES + FRESH * FRESH_BYTES, "silent connections")
    others.tell("silent connections")
    end(flood)
    recovers(world, proxy)


def test_handshake_flood(world):
    """a flood of whole handshakes, each on its own"""
    proxy = world.proxies["a"]
    opened = proxy.metric("mvproxy_front_connections_total", result="opened")
    with Others(world) as others:
        for _ in range(max(1, SIZE // 1000)):
            end(handshakes(proxy, min(SIZE, 200), b""))
        in_bounds(proxy, BASE_BYTES + FRESH * FRESH_BYTES, "handshake flood")
    others.tell("handshake flood")
    check(proxy.metric("mvproxy_front_connections_total", result="opened") > opened, "none was counted")
    recovers(world, proxy)


def test_renegotiation(world):
    """TLS 1.2 clients that renegotiate are cut off, and counted"""
    proxy = world.proxies["a"]
    host, port = proxy.address
    before = closed(proxy, "stream_failed") + closed(proxy, "client_gone") + closed(proxy, "no_request") + closed(proxy, "client")
    for _ in range(3):
        done = subprocess.run(["openssl", "s_client", "-connect", "%s:%d" % (host, port), "-tls1_2", "-servername", "kubernetes.default.svc"],
                              input=b"R\nR\nR\n", capture_output=True, check=False, timeout=fixture.PATIENCE)
        text = (done.stdout + done.stderr).decode(errors="replace")
        check("RENEGOTIATING" in text, text[-500:])
        check("no renegotiation" in text or "handshake failure" in text or done.returncode != 0, text[-800:])
    until(lambda: closed(proxy, "stream_failed") + closed(proxy, "client_gone") + closed(proxy, "no_request") +
          closed(proxy, "client") - before >= 3, "them to be counted")
    recovers(world, proxy)


def slow(world, mode, *arguments):
    """slowhttptest in one of its modes; only what the daemon tells about it counts."""
    tool = shutil.which("slowhttptest")
    if not tool:
        raise fixture.Skip("no slowhttptest")
    host, port = world.proxies["a"].address
    return subprocess.Popen([tool, mode, "-c", str(min(SIZE, 1000)), "-r", "200", "-l", str(14 if SIZE <= 400 else 60), "-i", "1",
                             "-u", "https://%s:%d%s" % (host, port, MAPS), *arguments],
                            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def test_slow_headers(world):
    """slowloris: heads that never end are ended, by time or by the budget"""
    proxy = world.proxies["a"]

    def ended():
        return closed(proxy, "header_timeout") + closed(proxy, "crowded_out")

    before = ended()
    with Others(world) as others:
        tool = slow(world, "-H")
        try:
            until(lambda: ended() - before >= min(SIZE, 1000) // 2, "slow heads to be ended", patience=90)
            in_bounds(proxy, BASE_BYTES + FRESH * FRESH_BYTES, "slow headers")
        finally:
            tool.terminate()
            tool.wait()
    others.tell("slow headers")
    recovers(world, proxy)


def test_slow_bodies(world):
    """bodies in drips, and answers read in drips, cost nobody else anything"""
    proxy = world.proxies["a"]
    for name, arguments in (("slow bodies", ("-B", "-s", "8192", "-t", "POST")),
                            ("slow readers", ("-X", "-w", "10", "-y", "20", "-n", "1", "-z", "5", "-k", "3"))):
        requests = proxy.metric("mvproxy_front_requests_total")
        with Others(world) as others:
            tool = slow(world, *arguments)
            try:
                until(lambda: proxy.metric("mvproxy_front_requests_total") - requests >= min(SIZE, 1000) // 4, name, patience=90)
                in_bounds(proxy, BASE_BYTES + min(SIZE, 1000) * (FRESH_BYTES + (256 << 10)), name)
            finally:
                tool.terminate()
                tool.wait()
        others.tell(name)
        recovers(world, proxy)


def test_log_stays_short(world):
    """at the usual verbosity no flood writes more than a few lines"""
    lines = world.proxies["a"].log().splitlines()
    check(len(lines) < 500, len(lines), "lines in the log, the last:", lines[-1])


if __name__ == "__main__":
    fixture.main(globals())
