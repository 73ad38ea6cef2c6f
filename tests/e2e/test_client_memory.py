#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What clients make mvproxy hold: bytes that are resident, however little was sent for them."""

import contextlib
import re

import fixture
import rawh2
from fixture import check, equal, until

MAPS = "/api/v1/namespaces/default/configmaps"
LIMIT = 48 << 20
BASE_BYTES = 64 << 20   # without clients (docs/limits.md)
TLS_BYTES = 40 << 10    # of a connection
CONNECTIONS = 80
UNTAKEN = 150              # answers that wait for their clients
UNTAKEN_BYTES = 250 << 10  # each
VALUE = 4000
REQUEST = b"\x82\x87\x04" + bytes([len(MAPS)]) + MAPS.encode() + b"\x01\x0akubernetes"
WINDOW_0 = rawh2.frame(rawh2.SETTINGS, 0, (4).to_bytes(2, "big") + (0).to_bytes(4, "big"))


def setup():
    world = fixture.World(options={"max-client-memory": LIMIT, "v": 2})
    world.start()
    return world


def length(n, first, bits):
    """A number of HPACK (RFC 7541, section 5.1)."""
    most = (1 << bits) - 1
    if n < most:
        return bytes([first | n])
    out, n = bytes([first | most]), n - most
    while n >= 128:
        out, n = out + bytes([n % 128 | 128]), n // 128
    return out + bytes([n])


def literal(name, value, remembered):
    return (b"\x40" if remembered else b"\x00") + length(len(name), 0, 7) + name + length(len(value), 0, 7) + value


def large_head(times):
    """A head of so many times 4000 bytes."""
    return REQUEST + literal(b"x-a", b"v" * VALUE, True) + b"\xbe" * (times - 1)


def crumbs(n, size):
    return REQUEST + b"".join(literal(b"cookie", b"%03d=" % i + b"c" * size, False) for i in range(n))


def headers(stream, block, whole=True):
    """HEADERS and CONTINUATION; not whole: the end of it is still to come."""
    pieces = [block[at:at + 16000] for at in range(0, len(block), 16000)]
    out = b""
    for i, piece in enumerate(pieces):
        last = rawh2.END_HEADERS if whole and i == len(pieces) - 1 else 0
        out += rawh2.frame(rawh2.CONTINUATION if i else rawh2.HEADERS, stream, piece, last | (0 if i else rawh2.END_STREAM))
    return out


def resident(proxy, what="VmRSS"):
    with open("/proc/%d/status" % proxy.child.pid, encoding="ascii") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith(what + ":"))


def held(proxy):
    return proxy.metric("mvproxy_client_memory_bytes")


def in_bounds(proxy, name, connections):
    most, allowed = resident(proxy, "VmHWM"), BASE_BYTES + LIMIT + connections * TLS_BYTES
    print("# %s: %.1f MB resident at most, allowed %.1f" % (name, most / 1e6, allowed / 1e6), flush=True)
    if not proxy.sanitized():
        check(most <= allowed, name, "needs", most, "bytes")


def crowd(world, what, name, holds):
    """Each of many connections sends the same; meanwhile somebody else is served."""
    proxy = world.proxies["a"]
    conns = []
    try:
        for _ in range(CONNECTIONS):
            conn = world.client(alpn=("h2",))
            conns.append(conn)
            conn.send(rawh2.PREFACE + WINDOW_0 + what)
        until(holds, name, 60)
        in_bounds(proxy, name, CONNECTIONS)
        until(lambda: world.ask("GET", MAPS).status == 200, "others to be served")
    finally:
        for conn in conns:
            conn.close()
    until(lambda: held(proxy) < 1 << 20, "it to be given back")


def refused(proxy):
    return proxy.metric("mvproxy_front_refusals_total", code="429") or 0


def ended(proxy):
    return proxy.metric("mvproxy_front_closed_total", reason="memory") or 0


def test_answers_not_taken(world):
    """answers that nobody takes: what each HTTP/2 stream holds is charged, and no more than docs/limits.md says"""
    proxy = world.proxies["a"]
    before, charged_before, path = resident(proxy), held(proxy), b"/sim/bytes?n=50000000"
    request = b"\x82\x87\x04" + bytes([len(path)]) + path + b"\x01\x0akubernetes"
    seen = []

    def settled():
        seen.append(held(proxy))
        return len(seen) > 50 and len(set(seen[-50:])) == 1

    with contextlib.ExitStack() as stack:
        for _ in range(5):
            conn = stack.enter_context(world.client(alpn=("h2",)))
            conn.send(rawh2.PREFACE + rawh2.frame(rawh2.SETTINGS))
            for stream in range(UNTAKEN // 5):
                conn.send(rawh2.frame(rawh2.HEADERS, 2 * stream + 1, request, rawh2.END_HEADERS | rawh2.END_STREAM))
        until(settled, "nothing more to come")
        grown, charged = resident(proxy) - before, seen[-1] - charged_before
        print("# each stream: %d KB resident, %d KB charged" % (grown / UNTAKEN / 1e3, charged / UNTAKEN / 1e3), flush=True)
        check(charged >= UNTAKEN * (64 << 10), "charged", charged)
        check(charged <= UNTAKEN * UNTAKEN_BYTES, "charged", charged)
        if not proxy.sanitized():
            check(grown <= charged + (8 << 20), "resident", grown)
    until(lambda: held(proxy) < 1 << 20, "it to be given back")


def test_answered_heads(world):
    """heads of 800 KB in 4.3 KB, answered and not taken: they are not kept"""
    proxy = world.proxies["a"]
    before = proxy.metric("mvproxy_front_requests_total")
    head = large_head(200)
    what = headers(1, head) + headers(3, REQUEST + b"\xbe" * 200) + headers(5, REQUEST + b"\xbe" * 200)

    def answered():
        all_seen = proxy.metric("mvproxy_front_requests_total") - before + refused(proxy) >= 3 * CONNECTIONS
        return all_seen and held(proxy) < 16 << 20
    crowd(world, what, "answered heads", answered)


def test_cookie_crumbs(world):
    """a cookie in 240 crumbs costs what it is long"""
    proxy = world.proxies["a"]
    before = proxy.metric("mvproxy_front_requests_total") + refused(proxy)
    crowd(world, headers(1, crumbs(240, 400)), "cookie crumbs",
          lambda: proxy.metric("mvproxy_front_requests_total") + refused(proxy) - before >= CONNECTIONS)


def test_unfinished_heads(world):
    """heads whose end does not come: the greediest are closed, and counted"""
    proxy = world.proxies["a"]
    before = ended(proxy)
    crowd(world, headers(1, large_head(250), whole=False), "unfinished heads", lambda: ended(proxy) > before + 1)
    proxy.await_log('"Client memory is short, a connection ends" client="127.0.0.1')
    text = fixture.ctl(world, "status")[1]
    check(re.search(r"(?m)^Clients hold \d+ of the 48 MiB of max-client-memory: .*, \d+ in the last minute", text), text)
    check("in the last minute (max-client-memory)" in fixture.ctl(world, "check")[1], "check")
    until(lambda: proxy.log_contains('"It has happened again since its last line" what="Client memory is short, a connection ends" times='),
          "a line about those that had none", patience=60)


def test_limit_can_be_changed(world):
    """max-client-memory is one of the options that a reload changes"""
    proxy = world.proxies["a"]
    equal(proxy.metric("mvproxy_client_memory_limit_bytes"), LIMIT, "the limit in force")
    mark = proxy.reload({"max-client-memory": 0})
    proxy.await_log("Reloaded", mark)
    check(proxy.metric("mvproxy_client_memory_limit_bytes") >= 256 << 20, "the default is at least 256 MiB")


def test_least(world):
    """what is too little for anybody is refused (256 MiB that were written as 256); with the least the longest header goes through"""
    proxy = world.proxies["a"]
    proxy.await_log('max-client-memory: \\"256\\" is out of range: give 0, or 8388608 to', proxy.reload({"max-client-memory": 256}))
    proxy.await_log("Reloaded", proxy.reload({"max-client-memory": 8 << 20}))
    long = {"x-%d" % i: "v" * 60000 for i in range(17)}
    for _ in range(3):
        equal(world.ask("GET", MAPS, headers=long).status, 200, "with a header of nearly 1 MiB")


if __name__ == "__main__":
    fixture.main(globals())
