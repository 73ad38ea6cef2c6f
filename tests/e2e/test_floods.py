#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Floods: while many connections do nothing, or nothing good, others are served, memory stays in bounds,
everything is counted, and afterwards all is as before.

Environment: MVPROXY_TEST_FLOOD=CONNECTIONS the size of a flood (400; contrib/check --matrix takes 10000, the size that
docs/limits.md speaks of).  From 5000 on the daemon has a core to itself, each flood goes on until the others have asked often
enough, and it says how long they waited, before and in the flood.  Nothing is asserted about times.
"""

import contextlib
import os
import shutil
import socket
import subprocess
import time

import crowd
import fixture
import rawh2
from crowd import Flood, Others
from fixture import check, equal, until
from watchload import allow_descriptors

SIZE = int(os.environ.get("MVPROXY_TEST_FLOOD", "400"))
FULL = SIZE >= 5000
FRESH = 4096 if FULL else 150   # max-fresh-connections: less than the flood in any case
SAMPLES = 1000 if FULL else 30  # requests of others on held connections, in each flood, and half as many on new ones
MAPS = "/api/v1/namespaces/default/configmaps"
# What a connection may cost at most, TLS included (docs/limits.md).
FRESH_BYTES, BASE_BYTES, QUIET_BYTES, SILENT_BYTES = 64 << 10, 64 << 20, 64 << 10, 4 << 10


def setup():
    if not allow_descriptors(SIZE + 2000):
        raise fixture.Skip("needs %d descriptors" % (SIZE + 2000))
    # A handshake of the crowd has to wait for the rest of it, on machines of any speed: silence may last.
    world = fixture.World(options={"max-fresh-connections": FRESH, "client-header-timeout": "60s" if FULL else "30s",
                                   "client-idle-timeout": "120s" if FULL else "60s", "v": 2})
    world.start()
    if FULL and not crowd.pin(world.proxies["a"]):
        print("# one core for all: the times say little", flush=True)
    return world


PATIENCE = 600 if FULL else 60


def metric(proxy, name, **labels):
    return proxy.metric("mvproxy_front_" + name, **labels) or 0


def closed(proxy, *reasons):
    return sum(metric(proxy, "closed_total", reason=reason) for reason in reasons)


def forget_peak(proxy):
    try:
        with open("/proc/%d/clear_refs" % proxy.child.pid, "w", encoding="ascii") as out:
            out.write("5")
    except PermissionError:  # the daemon is not dumpable: then only root may, and the bound must hold for all that was before, too
        pass


def peak(proxy):
    """The most bytes it had resident since then."""
    with open("/proc/%d/status" % proxy.child.pid, encoding="ascii") as status:
        for line in status:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) << 10
    raise fixture.Failure("no VmHWM")


def in_bounds(proxy, bound, name):
    now = peak(proxy)
    print("# %s: %.1f MB resident at most, allowed %.1f" % (name, now / 1e6, bound / 1e6), flush=True)
    if not proxy.sanitized():
        check(now <= bound, name, "needs", now, "bytes, more than", bound)


def recovers(world, proxy):
    until(lambda: metric(proxy, "connections_fresh") == 0, "the flood to be forgotten", PATIENCE)
    until(lambda: metric(proxy, "connections") <= 4, "its connections to be closed", PATIENCE)
    equal(world.ask("GET", MAPS).status, 200, "afterwards")


def others_of(world):
    return Others(world, MAPS, SAMPLES, PATIENCE)


def under(world, name, flood, bound, holds):
    """Others ask while a flood goes on, until holds() and they have asked enough. What is printed is for docs/limits.md."""
    proxy = world.proxies["a"]
    if FULL:
        with others_of(world) as quiet:
            pass
    forget_peak(proxy)
    with flood as running, others_of(world) as others:
        until(lambda: running.done() and holds(), name, PATIENCE)
    in_bounds(proxy, bound, name)
    if FULL:
        others.tell(name, quiet)
    recovers(world, proxy)


# The first one: what the others needed is kept for the next.
def test_connections_without_a_byte(world):
    """connections that send nothing at all: they cost next to nothing"""
    proxy = world.proxies["a"]
    before = closed(proxy, "crowded_out")
    under(world, "not a byte", Flood(lambda: crowd.half_open(proxy, SIZE, beginning=b""), FULL), BASE_BYTES + FRESH * SILENT_BYTES,
          lambda: closed(proxy, "crowded_out") - before >= SIZE - FRESH)


def test_half_open_handshakes(world):
    """half-open handshakes: the oldest make room, nobody else notices"""
    proxy = world.proxies["a"]
    before, accepted = closed(proxy, "crowded_out"), metric(proxy, "accepted_connections_total")

    def surplus_is_closed():
        check(metric(proxy, "connections_fresh") <= FRESH, "more than the budget")
        return closed(proxy, "crowded_out") - before >= SIZE - FRESH

    under(world, "half-open handshakes", Flood(lambda: crowd.half_open(proxy, SIZE), FULL), BASE_BYTES + FRESH * FRESH_BYTES, surplus_is_closed)
    equal(closed(proxy, "client_limit"), 0, "nobody was refused")
    check(metric(proxy, "accepted_connections_total") - accepted >= SIZE, "all were accepted")


def test_hellos(world):
    """hellos without a second flight: the dear half of a handshake for nothing"""
    proxy = world.proxies["a"]
    before = closed(proxy, "handshake", "crowded_out")
    under(world, "hellos", Flood(lambda: crowd.hellos(proxy, SIZE), FULL), BASE_BYTES + FRESH * FRESH_BYTES,
          lambda: closed(proxy, "handshake", "crowded_out") - before >= SIZE)


def test_announced_hellos(world):
    """nine bytes that announce a hello of 128 KB: refused, and no room is made for it"""
    proxy = world.proxies["a"]
    before, refused = closed(proxy, "handshake", "crowded_out"), closed(proxy, "handshake")
    forget_peak(proxy)
    held = peak(proxy)
    crowd.end(crowd.half_open(proxy, SIZE, beginning=b"\x16\x03\x01\x00\x04\x01\x01\xff\x00"))
    until(lambda: closed(proxy, "handshake", "crowded_out") - before >= SIZE // 2, "all that said so to be refused, or to make room")
    check(closed(proxy, "handshake") > refused, "nobody was refused")
    in_bounds(proxy, held + FRESH * FRESH_BYTES, "announced hellos")
    recovers(world, proxy)


def test_tickets(world):
    """hellos that offer more sessions than anybody has: refused before a ticket is decrypted"""
    proxy = world.proxies["a"]
    before, refused = closed(proxy, "handshake", "crowded_out"), closed(proxy, "handshake")
    under(world, "tickets", Flood(lambda: crowd.half_open(proxy, SIZE, beginning=crowd.hello_with_tickets(6)), FULL),
          BASE_BYTES + FRESH * FRESH_BYTES, lambda: closed(proxy, "handshake", "crowded_out") - before >= SIZE // 2)
    check(closed(proxy, "handshake") > refused, "nobody was refused")
    with crowd.arrive(proxy, 0) as one:
        one.settimeout(fixture.PATIENCE)
        one.sendall(crowd.hello_with_tickets(5))
        equal(one.recv(1), b"\x16", "the answer to five")


def test_idle_connections(world):
    """idle clients that have asked something stay; memory is bounded"""
    proxy = world.proxies["a"]
    before = closed(proxy, "crowded_out")
    under(world, "idle connections", Flood(lambda: crowd.handshakes(proxy, SIZE, b"GET /livez HTTP/1.1\r\nHost: h\r\n\r\n"), FULL),
          BASE_BYTES + SIZE * QUIET_BYTES,
          lambda: metric(proxy, "connections") >= SIZE and metric(proxy, "connections_fresh") <= 1)
    equal(closed(proxy, "crowded_out"), before, "crowded out")


def test_silent_connections(world):
    """clients that finish the handshake and ask nothing make room as well"""
    proxy = world.proxies["a"]
    ends = ("crowded_out", "no_request", "handshake")  # time may run out first, where handshakes are slow
    before = closed(proxy, *ends)

    def surplus_is_closed():
        check(metric(proxy, "connections_fresh") <= FRESH, "more than the budget")
        return closed(proxy, *ends) - before >= SIZE - FRESH

    under(world, "silent connections", Flood(lambda: crowd.handshakes(proxy, SIZE, b""), FULL), BASE_BYTES + FRESH * FRESH_BYTES,
          surplus_is_closed)


def s_time(proxy):
    """Whole handshakes one after the other, for a second."""
    return subprocess.Popen(["openssl", "s_time", "-new", "-time", "1", "-connect", "%s:%d" % proxy.address],
                            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def test_handshake_flood(world):
    """whole handshakes as fast as several clients can"""
    proxy = world.proxies["a"]
    before = metric(proxy, "handshake_seconds_count")
    wanted = 1000 if FULL else 50

    def work():
        for one in [s_time(proxy) for _ in range(8 if FULL else 2)]:
            one.wait()

    under(world, "handshake flood", Flood(work, True), BASE_BYTES + FRESH * FRESH_BYTES,
          lambda: metric(proxy, "handshake_seconds_count") - before >= wanted)


def test_renegotiation(world):
    """TLS 1.2 clients that renegotiate are cut off, and counted"""
    proxy = world.proxies["a"]
    host, port = proxy.address
    ends = ("stream_failed", "client_gone", "no_request", "client")
    before = closed(proxy, *ends)
    for _ in range(3):
        done = subprocess.run(["openssl", "s_client", "-connect", "%s:%d" % (host, port), "-tls1_2", "-servername", "kubernetes.default.svc"],
                              input=b"R\nR\nR\n", capture_output=True, check=False, timeout=fixture.PATIENCE)
        text = (done.stdout + done.stderr).decode(errors="replace")
        check("RENEGOTIATING" in text, text[-500:])
        check("no renegotiation" in text or "handshake failure" in text or done.returncode != 0, text[-800:])
    until(lambda: closed(proxy, *ends) - before >= 3, "them to be counted")
    recovers(world, proxy)


class Slow:
    """slowhttptest in one of its modes; only what the daemon tells about it counts."""

    def __init__(self, world, mode, *arguments):
        self.tool = shutil.which("slowhttptest")
        if not self.tool:
            raise fixture.Skip("no slowhttptest")
        self.arguments = [self.tool, mode, "-c", str(min(SIZE, 1000)), "-r", "200", "-l", str(120 if FULL else 60), "-i", "1",
                          "-u", "https://%s:%d%s" % (*world.proxies["a"].address, MAPS), *arguments]

    @staticmethod
    def done():
        return True

    def __enter__(self):
        self.child = subprocess.Popen(self.arguments, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                      preexec_fn=crowd.give_way if FULL else None)
        return self

    def __exit__(self, *what):
        self.child.terminate()
        self.child.wait()


def test_slow_headers(world):
    """slowloris: heads that never end are ended, by time or by the budget"""
    proxy = world.proxies["a"]
    ends = ("header_timeout", "crowded_out")
    before = closed(proxy, *ends)
    under(world, "slow headers", Slow(world, "-H"), BASE_BYTES + FRESH * FRESH_BYTES,
          lambda: closed(proxy, *ends) - before >= min(SIZE, 1000) // 2)


def test_slow_bodies(world):
    """bodies in drips, and answers read in drips, cost nobody else anything"""
    proxy = world.proxies["a"]
    for name, arguments in (("slow bodies", ("-B", "-s", "8192", "-t", "POST")),
                            ("slow readers", ("-X", "-w", "10", "-y", "20", "-n", "1", "-z", "5", "-k", "3"))):
        before = metric(proxy, "requests_total")
        under(world, name, Slow(world, *arguments), BASE_BYTES + min(SIZE, 1000) * (FRESH_BYTES + (256 << 10)),
              lambda b=before: metric(proxy, "requests_total") - b >= min(SIZE, 1000) // 4)


def test_request_limit(world):
    """max-requests-per-connection: the last answer says so, and new connections have it from the reload on"""
    proxy = world.proxies["a"]
    with world.client() as old:
        mark = proxy.reload({"max-requests-per-connection": 3})
        proxy.await_log("Reloaded", mark)
        before = closed(proxy, "request_limit")
        with world.client() as new:
            told = [new.ask("GET", MAPS).header("Connection") for _ in range(3)]
            equal(told, [None, None, "close"], "what three answers say")
            check(not new.fill(), "more than the three answers")
        equal([old.ask("GET", MAPS).header("Connection") for _ in range(4)], [None] * 4, "on a connection that was there before")
    until(lambda: closed(proxy, "request_limit") - before == 1, "it to be counted")
    mark = proxy.reload({"max-requests-per-connection": 0})
    proxy.await_log("Reloaded", mark)


def test_all_places(world):
    """one address with as many idle or silent connections as there may be: others come in, and whose request is under way stays"""
    proxy = world.proxies["a"]
    places = 20
    mark = proxy.reload({"max-connections": places})
    proxy.await_log("Reloaded", mark)
    before = closed(proxy, "crowded_out")
    two = rawh2.RawH2(world.client(user=None, alpn=("h2",)))
    two.whole(two.request("GET", "/version"))
    held = [world.client(user=None) for _ in range(places - 2)]
    for client in held:
        equal(client.ask("GET", "/version").status, 200, "the first request of one of many")
    watch = world.client(source="127.0.0.8")
    watch.request("GET", MAPS + "?watch=true")
    equal(watch.final_head().status, 200, "a watch that takes the last place")
    for _ in range(places):
        with world.client(source="127.0.0.9") as other:
            equal(other.ask("GET", MAPS).status, 200, "a client from elsewhere")
    check(closed(proxy, "crowded_out") > before, "nobody had to go")
    two.until(lambda: two.goaway is not None)
    equal(two.goaway, rawh2.NO_ERROR, "the oldest is told")
    for client in (two.conn, *held):
        client.close()
    until(lambda: metric(proxy, "connections") <= 4, "them to be gone", PATIENCE)
    before = closed(proxy, "crowded_out")
    silent = [socket.create_connection(proxy.address) for _ in range(places)]
    with world.client(source="127.0.0.9") as other:
        equal(other.ask("GET", MAPS).status, 200, "a client from elsewhere, beside as many silent ones")
    check(closed(proxy, "crowded_out") > before, "none of the silent had to go")
    mark = proxy.reload({"max-connections": 50000})
    proxy.await_log("Reloaded", mark)
    check(watch.quiet() or watch.left is None, "the watch has ended")
    for client in (watch, *silent):
        client.close()


def test_idle_of_many_make_room(world):
    """as many addresses as there may be connections, each with an idle one: nobody has more than a share, and others come in all the same"""
    proxy = world.proxies["a"]
    places = 20
    mark = proxy.reload({"max-connections": places})
    proxy.await_log("Reloaded", mark)
    before = closed(proxy, "crowded_out")
    watch = world.client(source="127.0.0.8")
    watch.request("GET", MAPS + "?watch=true")
    equal(watch.final_head().status, 200, "a watch")
    held = []
    for n in range(places - 1):
        held.append(world.client(user=None, source="127.0.1.%d" % n))
        equal(held[-1].ask("GET", "/version").status, 200, "the first request of one of many")
    with world.client(source="127.0.0.9") as other:
        equal(other.ask("GET", MAPS).status, 200, "a client from elsewhere")
    check(closed(proxy, "crowded_out") > before, "nobody had to go")
    check(watch.quiet(), "the watch has ended")
    mark = proxy.reload({"max-connections": 50000})
    proxy.await_log("Reloaded", mark)
    for client in (watch, *held):
        client.close()
    until(lambda: metric(proxy, "connections") <= 4, "them to be gone", PATIENCE)


def test_refused_certificates(world):
    """requests with a certificate that nobody has signed: at the usual verbosity the log has their audit lines, which are limited"""
    proxy = world.proxies["a"]
    mark = proxy.log_mark()
    with world.client(user="foreign") as client:
        for _ in range(200):
            equal(client.ask("GET", MAPS).status, 401, "status")
    check(proxy.log_contains("Audit", mark), "no audit line")
    check(not proxy.log_contains('"Unauthorized" client=', mark), "another line", proxy.tail())


def sips(clients):
    """A few bytes a second, below TLS: it would take a whole record at once."""
    for client in clients:
        with contextlib.suppress(OSError):
            os.read(client.sock.fileno(), 200)
    time.sleep(1)


def test_slow_readers_make_room(world):
    """all places are taken by one address that takes its answers a few bytes at a time: they go, whoever watches stays"""
    proxy = world.proxies["a"]
    places, seconds = 20, 30
    mark = proxy.reload({"max-connections": places})
    proxy.await_log("Reloaded", mark)
    before = closed(proxy, "slow_reader")
    watch = world.client(source="127.0.0.8")
    watch.request("GET", MAPS + "?watch=true")
    equal(watch.final_head().status, 200, "a watch")
    slow = [world.client(receive_buffer=4096) for _ in range(places - 1)]
    for client in slow:
        client.request("GET", "/sim/bytes?n=%d" % (8 << 20))
    waiting = socket.create_connection(proxy.address)  # nobody is known to be slow before somebody wants a place
    for _ in range(seconds + 2):
        sips(slow)
    waiting.close()
    for _ in range(places):
        with world.client(source="127.0.0.9") as other:
            equal(other.ask("GET", MAPS).status, 200, "a client from elsewhere")
    check(closed(proxy, "slow_reader") > before, "no slow reader had to go")
    equal(metric(proxy, "slow_readers_total"), closed(proxy, "slow_reader"), "counted alike")
    check(watch.quiet() or watch.left is None, "the watch has ended")
    for client in (watch, *slow):
        client.close()
    until(lambda: metric(proxy, "connections") <= 4, "them to be gone", PATIENCE)
    mark = proxy.reload({"max-connections": 50000})
    proxy.await_log("Reloaded", mark)


def test_log_stays_short(world):
    """at the usual verbosity no flood writes more than a few lines"""
    lines = world.proxies["a"].log().splitlines()
    check(len(lines) < 500, len(lines), "lines in the log, the last:", lines[-1])


if __name__ == "__main__":
    fixture.main(globals())
