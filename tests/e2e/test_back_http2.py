#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""HTTP/2 to servers when they go away, refuse, speak HTTP/1.1 only, read slowly or break the rules: only the streams concerned notice,
and no watch loses an event. A machine in the middle (middle.py) puts words into the server's mouth."""

import contextlib
import json

import fixture
import rawh2
from fixture import check, equal, until
from middle import Middle
from rawh2 import frame, goaway, reset
from rawhttp import Broken
from test_watch import CLASSES, MAPS, Watch, change, make

NAME = "watched"


def setup():
    """a, behind the middle; its peer b, straight; and c, which speaks HTTP/1.1 only, with its own mvproxy."""
    world = fixture.World({"a": "v1.33", "b": "v1.34", "c": "v1.33"}, options={"local-failover": False}, servers={"c": {"http1-only": True}})
    world.middle = Middle(world, "a")
    world.proxies["a"].options["apiserver"] = "https://" + world.middle.address
    world.start()
    world.number = 0
    make(world, MAPS, NAME, "a")
    make(world, CLASSES, NAME, "b")
    return world


class Watches:
    """Watches of one object, which all see the same."""

    def __init__(self, world, count, path=MAPS, server="a", node="a", **more):
        self.world, self.path, self.server, self.node, self.more = world, path, server, node, more
        self.clients, self.list = [], []
        self.add(count)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        for client in self.clients:
            client.close()

    def add(self, count):
        for _ in range(count):
            client = self.world.client(self.node, **self.more)
            self.clients.append(client)
            watch = Watch(client, self.path, fieldSelector="metadata.name%3D" + NAME)
            watch.expect("ADDED", NAME)
            self.list.append(watch)

    def see(self, changes=3, only=None):
        """Changes are made, and each watch gets each, in order."""
        for _ in range(changes):
            self.world.number += 1
            change(self.world, self.path, NAME, self.server, self.world.number)
        for watch in self.list if only is None else only:
            for number in range(self.world.number - changes + 1, self.world.number + 1):
                kind, name, thing = watch.next()
                equal((kind, name, thing["metadata"]["annotations"]["n"]), ("MODIFIED", NAME, str(number)), "event")


def broken(watch):
    """It ends, and not as if it were whole."""
    try:
        while True:
            check(watch.next() is not None, "the watch ended as if it were whole")
    except (Broken, OSError, ValueError, AssertionError) as error:
        check(not isinstance(error, fixture.Failure), error)


def token(world, count=1):
    """Watches of somebody who shows a token: on a connection of their own."""
    watches = Watches(world, 0, user=None)
    for _ in range(count):
        client = world.client(user=None)
        watches.clients.append(client)
        client.request("GET", MAPS + "?watch=true&fieldSelector=metadata.name%3D" + NAME, {"Authorization": "Bearer token-root"})
        watch = Watch.__new__(Watch)
        watch.client, watch.rest, watch.head = client, b"", client.final_head()
        equal(watch.head.status, 200, "watch by token")
        watch.expect("ADDED", NAME)
        watches.list.append(watch)
    return watches


def joint(world):
    """The one HTTP/2 connection."""
    return until(lambda: len(world.middle.h2()) == 1 and world.middle.h2()[0], "one connection")


def none_left(world):
    """No connection of a test before is used in this one."""
    for one in world.middle.h2():
        one.say(goaway(rawh2.LAST))
    until(lambda: not world.middle.h2(), "the connections to be closed")


def test_going_away(world):
    """GOAWAY: the streams that the server keeps go on, further ones get another connection"""
    with Watches(world, 6) as watches:
        first = joint(world)
        watches.see()
        first.say(goaway(rawh2.LAST))
        watches.see()
        watches.add(3)
        watches.see(10)
        equal((len(first.streams), first.ended), (6, False), "streams of the first connection")
        equal([len(j.open_streams()) for j in world.middle.h2() if j is not first], [3], "and of the other")
        for client in watches.clients[:6]:
            client.close()
        until(lambda: first.ended, "the first connection to end with its last stream")
        watches.see(only=watches.list[6:])
    none_left(world)


def test_going_away_below(world):
    """GOAWAY that leaves streams out: those end, and their clients see it; the others go on"""
    with Watches(world, 6) as watches:
        first = joint(world)
        first.say(goaway(first.streams[2]))
        for watch in watches.list[3:]:
            broken(watch)
        watches.see(only=watches.list[:3])
        equal(first.ended, False, "the connection")
    none_left(world)


def not_looked_at(world, how, code):
    """Watches that the server did not look at are sent again, and answered; nobody sees more of it than time."""
    mark = world.sim.mark()
    with Watches(world, 2) as watches:
        first = joint(world)
        first.refuse = how
        late = []
        for _ in range(5):
            client = world.client()
            watches.clients.append(client)
            client.request("GET", "%s?watch=true&fieldSelector=metadata.name%%3D%s" % (MAPS, NAME))
            late.append(client)
        until(lambda: len(first.held) >= 1 if code is None else len(first.held) >= 5, "the streams to be opened")
        if code is not None:
            first.say(goaway(first.streams[-1], code))
        for client in late:
            watch = Watch.__new__(Watch)
            watch.client, watch.rest, watch.head = client, b"", client.final_head()
            equal(watch.head.status, 200, "the late watch")
            watch.expect("ADDED", NAME)
            watches.list.append(watch)
        watches.see(10)
        seen = [r for r in world.sim.requests("a", MAPS, mark) if "watch=true" in r["target"]]
        equal(len(seen), 7, "watches that reached the server")
        first.refuse = None
        equal(first.ended, False, "the first connection")
        protocols = sorted(r["proto"] for r in seen)
    none_left(world)
    return protocols


def test_not_processed(world):
    """GOAWAY before streams that were under way: they are sent again elsewhere, and lose nothing"""
    for code in (rawh2.NO_ERROR, rawh2.ENHANCE_YOUR_CALM):
        equal(not_looked_at(world, "hold", code), ["HTTP/2.0"] * 7, "protocols")


def test_refused_streams(world):
    """REFUSED_STREAM: sent again, at last over HTTP/1.1"""
    protocols = not_looked_at(world, rawh2.REFUSED_STREAM, None)
    equal(protocols[-2:], ["HTTP/2.0"] * 2, "protocols")


def test_http1_required(world):
    """HTTP_1_1_REQUIRED: over HTTP/1.1, those alone"""
    equal(not_looked_at(world, rawh2.HTTP_1_1_REQUIRED, None), ["HTTP/1.1"] * 5 + ["HTTP/2.0"] * 2, "protocols")


def test_http1_only(world):
    """a server that speaks HTTP/1.1 only: watches and everything else go over it"""
    mark = world.sim.mark()
    with Watches(world, 8, server="c", node="c") as watches:
        watches.see(10)
        seen = [r for r in world.sim.requests("c", MAPS, mark) if "watch=true" in r["target"]]
        equal([r["proto"] for r in seen], ["HTTP/1.1"] * 8, "protocols")
        equal(len({r["conn"] for r in seen}), 8, "connections")
        equal(world.proxies["c"].metric("mvproxy_back_streams", server="test-server-c") or 0, 0, "streams")


def test_falls_back(world):
    """a server that comes back with HTTP/1.1 only: its watches come back over HTTP/1.1"""
    with Watches(world, 3) as watches:
        first = joint(world)
        watches.see()
        world.middle.protocols = ["http/1.1"]
        first.say(goaway(rawh2.LAST))
        watches.see()  # what the server says afterwards on that connection: by then mvproxy has heard it
        watches.add(3)
        watches.see(10)
        equal((len(first.open_streams()), len(world.middle.h2())), (3, 1), "streams, and HTTP/2 connections")
        equal(world.proxies["a"].metric("mvproxy_back_streams", server="test-server-a"), 3, "streams")
    world.middle.protocols = ["h2", "http/1.1"]
    world.proxies["a"].stop()  # it would not ask again for minutes
    world.proxies["a"].start()
    world.settle()
    none_left(world)


def events(watch, count):
    """The numbers of so many events."""
    return [watch.next()[2]["metadata"]["annotations"]["n"] for _ in range(count)]


def test_slow_watcher(world):
    """one watcher that does not read, beside others on the same connection: they get every event at once, he in the end, memory is bounded"""
    count, size = 300, 100000  # 30 MB: more than all buffers on the way hold
    proxy = world.proxies["a"]
    with Watches(world, 4) as watches, Watches(world, 0) as slow, world.client("a", direct=True) as writer:
        before = resident(proxy)
        slow.clients.append(world.client(receive_buffer=8192))
        slow.list.append(Watch(slow.clients[0], MAPS, fieldSelector="metadata.name%3D" + NAME))
        one = joint(world)
        equal(len(one.open_streams()), 5, "streams of the connection")
        wanted = []
        for number in range(count):
            wanted.append("%d %s" % (number, "x" * size))
            answer = writer.ask("PATCH", MAPS + "/" + NAME, json.dumps({"metadata": {"annotations": {"n": wanted[-1]}}}).encode(),
                                {"Content-Type": "application/merge-patch+json"})
            equal(answer.status, 200, "change")
            for watch in watches.list:
                check(events(watch, 1) == wanted[-1:], "a fast watcher got another event than", number)
        grown = resident(proxy) - before
        check(proxy.sanitized() or grown < 12 << 20, "grew by", grown, "bytes")
        slow.list[0].expect("ADDED", NAME)
        check(events(slow.list[0], count) == wanted, "the slow watcher got other events")
        equal((len(one.open_streams()), one.ended, len(world.middle.h2())), (5, False, 1), "the connection")
        change(world, MAPS, NAME, "a", 0)
    none_left(world)


SMALL = MAPS + "/" + NAME


def test_slow_reader(world):
    """100 MB that a client does not read, beside small answers over the same connection to the server: those come at once, memory is bounded"""
    size, proxy = 100 << 20, world.proxies["a"]
    before = resident(proxy)
    with world.client(alpn=("h2",), receive_buffer=8192) as slow, world.client(alpn=("h2",)) as quick, world.client(alpn=("h2",)) as same:
        mark = world.sim.mark()
        reader, others = rawh2.RawH2(slow), [rawh2.RawH2(quick), rawh2.RawH2(same)]
        large = reader.request("GET", "/sim/bytes?n=%d" % size)
        check(reader.ok(large), "the large answer")
        # One whose connection is read, and one stream of it is not.
        held = others[1].request("GET", "/sim/bytes?n=%d" % size)
        others[1].keep.add(held)
        check(others[1].ok(held), "the other large answer")
        for _ in range(100):
            for client in others:
                stream = client.request("GET", SMALL)
                check(client.ok(stream) and NAME.encode() in client.whole(stream), "a small answer")
        # Until the windows were full the large ones may have been fast, and have made the others take another connection.
        equal(sum(len(j.open_streams()) for j in world.middle.h2()), 202, "requests on connections that are still there")
        check(len(world.middle.h2()) <= 3, "connections", len(world.middle.h2()))
        equal({r["proto"] for r in world.sim.requests("a", MAPS, mark)}, {"HTTP/2.0"}, "protocols")
        grown = resident(proxy) - before
        check(proxy.sanitized() or grown < 8 << 20, "grew by", grown, "bytes")
    none_left(world)


def gets(world, count, act):
    """So many GETs that the server has not answered when `act` happens to their connection: all are answered."""
    with world.client(alpn=("h2",)) as conn:
        client = rawh2.RawH2(conn)
        check(client.ok(client.request("GET", SMALL)), "a GET")
        first = joint(world)
        first.refuse = "hold"
        streams = [client.request("GET", SMALL) for _ in range(count)]
        until(lambda: len(first.held) >= count, "the streams to be opened")
        act(first)
        for stream in streams:
            check(client.ok(stream) and NAME.encode() in client.whole(stream), "stream", stream)
    none_left(world)


def test_gets_lost(world):
    """the connection with requests under way is lost, or ends before them: safe ones are answered all the same"""
    gets(world, 20, lambda joint: joint.break_off())
    gets(world, 20, lambda joint: joint.say(goaway(joint.streams[-1])))
    gets(world, 20, lambda joint: joint.say(goaway(0, rawh2.ENHANCE_YOUR_CALM)))


def test_writes_lost(world):
    """the connection is lost with writes that the server may have read: these end with 503, and nobody sends them again"""
    with world.client(alpn=("h2",)) as conn:
        client = rawh2.RawH2(conn)
        check(client.ok(client.request("GET", SMALL)), "a GET")
        first = joint(world)
        first.refuse = "hold"
        mark = world.sim.mark()
        stream = client.request("POST", MAPS, b"{}", fields={"content-type": "application/json", "content-length": "2"})
        until(lambda: any(s in first.bodies for s in first.held), "the write to be sent")
        first.break_off()
        check(not client.ok(stream), "the write was answered as if it were done")
        equal([r for r in world.sim.requests("a", MAPS, mark) if r["method"] == "POST"], [], "writes that reached the server")
    none_left(world)


def test_protocols(world):
    """what comes over HTTP/2 goes on over HTTP/2; one request over HTTP/1.1, or nobody's, goes on over HTTP/1.1"""
    def seen(alpn, user, fields=None):
        mark = world.sim.mark()
        with world.client(user=user, alpn=alpn) as conn:
            if alpn == ("h2",):
                client = rawh2.RawH2(conn)
                client.whole(client.request("GET", SMALL, fields=fields))
            else:
                conn.ask("GET", SMALL, None, fields)
        return [r["proto"] for r in world.sim.requests("a", SMALL, mark)]
    bob = {"Authorization": "Bearer token-bob"}
    equal(seen(("h2",), "admin"), ["HTTP/2.0"], "HTTP/2, certificate")
    equal(seen(("http/1.1",), "admin"), ["HTTP/1.1"], "HTTP/1.1, certificate")
    seen(("h2",), None, bob)  # whom the server may not know
    equal(seen(("h2",), None, bob), ["HTTP/2.0"], "HTTP/2, a token that the server has taken")
    equal(seen(("h2",), None, {"Authorization": "Bearer invented"}), ["HTTP/1.1"], "HTTP/2, a token that nobody knows")
    equal(seen(("h2",), None), ["HTTP/1.1"], "HTTP/2, nobody")
    none_left(world)


def resident(proxy):
    """Bytes of memory."""
    with open("/proc/%d/status" % proxy.child.pid, encoding="ascii") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmRSS"))


def bulk(stream):
    """64 MB on one stream whatever its window; nobody has so much room."""
    return frame(rawh2.DATA, stream, bytes(16384)) * 4096


# What the server says on a connection with open streams, of which it is given one; the code of mvproxy's GOAWAY, and why it closed.
CRIMES = {
    "DATA beyond a stream's window": (bulk, rawh2.FLOW_CONTROL_ERROR, "flow_control"),
    "WINDOW_UPDATE beyond 2^31-1": (lambda s: frame(rawh2.WINDOW_UPDATE, 0, b"\x7f\xff\xff\xff"), rawh2.FLOW_CONTROL_ERROR, "flow_control"),
    "the same for a stream": (lambda s: frame(rawh2.WINDOW_UPDATE, s, b"\x7f\xff\xff\xff"), rawh2.FLOW_CONTROL_ERROR, "flow_control"),
    "INITIAL_WINDOW_SIZE beyond 2^31-1": (lambda s: frame(rawh2.SETTINGS, 0, b"\0\x04\xff\xff\xff\xff"), rawh2.FLOW_CONTROL_ERROR, "flow_control"),
    "a frame that is too large": (lambda s: frame(rawh2.DATA, s, bytes(16385)), rawh2.FRAME_SIZE_ERROR, "protocol_error"),
    "a frame of 16 MB": (lambda s: frame(rawh2.DATA, s, b"x", length=(1 << 24) - 1), rawh2.FRAME_SIZE_ERROR, "protocol_error"),
    "a PING of 7 bytes": (lambda s: frame(rawh2.PING, 0, b"1234567"), rawh2.FRAME_SIZE_ERROR, "protocol_error"),
    "SETTINGS of 5 bytes": (lambda s: frame(rawh2.SETTINGS, 0, b"12345"), rawh2.FRAME_SIZE_ERROR, "protocol_error"),
    "SETTINGS on a stream": (lambda s: frame(rawh2.SETTINGS, s), rawh2.PROTOCOL_ERROR, "protocol_error"),
    "PING on a stream": (lambda s: frame(rawh2.PING, s, b"12345678"), rawh2.PROTOCOL_ERROR, "protocol_error"),
    "GOAWAY on a stream": (lambda s: frame(rawh2.GOAWAY, s, bytes(8)), rawh2.PROTOCOL_ERROR, "protocol_error"),
    "a WINDOW_UPDATE of nothing": (lambda s: frame(rawh2.WINDOW_UPDATE, s, bytes(4)), rawh2.PROTOCOL_ERROR, "protocol_error"),
    "DATA on stream 0": (lambda s: frame(rawh2.DATA, 0, b"x"), rawh2.PROTOCOL_ERROR, "protocol_error"),
    "DATA on a stream that nobody opened": (lambda s: frame(rawh2.DATA, s + 1000, b"x"), rawh2.PROTOCOL_ERROR, "protocol_error"),
    "RST_STREAM on a stream that nobody opened": (lambda s: reset(s + 1000, rawh2.CANCEL), rawh2.PROTOCOL_ERROR, "protocol_error"),
    "a stream that the server opens": (lambda s: frame(rawh2.HEADERS, 2, b"\x88", rawh2.END_HEADERS), rawh2.PROTOCOL_ERROR, "protocol_error"),
    "PUSH_PROMISE": (lambda s: frame(rawh2.PUSH_PROMISE, s, b"\0\0\0\2\x82", rawh2.END_HEADERS), rawh2.PROTOCOL_ERROR, "protocol_error"),
    "CONTINUATION of nothing": (lambda s: frame(rawh2.CONTINUATION, s, b"\x88", rawh2.END_HEADERS), rawh2.PROTOCOL_ERROR, "protocol_error"),
    "HEADERS and then something else": (lambda s: frame(rawh2.HEADERS, s, b"\x88") + frame(rawh2.PING, 0, bytes(8)), rawh2.PROTOCOL_ERROR, "protocol_error"),
    "more padding than frame": (lambda s: frame(rawh2.DATA, s, b"\xffx", 8), rawh2.PROTOCOL_ERROR, "protocol_error"),
    "header compression that is none": (lambda s: frame(rawh2.HEADERS, s, b"\xff" * 10, rawh2.END_HEADERS | rawh2.END_STREAM), rawh2.COMPRESSION_ERROR, "protocol_error"),
    "HTTP/1.1": (lambda s: b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", rawh2.FRAME_SIZE_ERROR, "protocol_error"),
    "a flood of PING": (lambda s: frame(rawh2.PING, 0, bytes(8)) * 3000, rawh2.ENHANCE_YOUR_CALM, "flood"),
    "a flood of SETTINGS": (lambda s: frame(rawh2.SETTINGS) * 3000, rawh2.ENHANCE_YOUR_CALM, "flood"),
    "a flood of empty DATA": (lambda s: frame(rawh2.DATA, s) * 3000, rawh2.ENHANCE_YOUR_CALM, "flood"),
    "a flood of PRIORITY": (lambda s: frame(rawh2.PRIORITY, s, bytes(5)) * 3000, rawh2.ENHANCE_YOUR_CALM, "flood"),
}


def closed(world, reason):
    return world.proxies["a"].metric("mvproxy_back_connections_closed_total", server="test-server-a", reason=reason) or 0


def test_crimes(world):
    """a server that breaks the rules of frames, windows or moderation: that connection ends with the right code, counted; nobody else notices"""
    wrong = []
    with Watches(world, 2, CLASSES, "b") as elsewhere, contextlib.ExitStack() as stack:
        beside = stack.enter_context(token(world, 2))  # on another connection to the same server
        other = joint(world)
        for name, (say, code, reason) in CRIMES.items():
            before = closed(world, reason)
            with Watches(world, 2) as watches:
                victim = until(lambda: next(iter(j for j in world.middle.h2() if j is not other), None), "the connection")
                victim.say(say(victim.streams[0]))
                try:
                    until(lambda: victim.ended, "the connection to end")
                    equal(victim.goaway, code, "code of GOAWAY")
                    equal(closed(world, reason) - before, 1, "ends counted for " + reason)
                    for watch in watches.list:
                        broken(watch)
                    beside.see(1)
                    elsewhere.see(1)
                except (AssertionError, OSError) as error:
                    wrong.append("%s: %s" % (name, error))
    check(not wrong, "\n".join(wrong))
    none_left(world)


# The same for one stream: the connection and the streams beside it go on.
LAPSES = {
    "RST_STREAM": lambda s: reset(s, rawh2.INTERNAL_ERROR),
    "a pseudo-header field in trailers": lambda s: frame(rawh2.HEADERS, s, b"\x88", rawh2.END_HEADERS | rawh2.END_STREAM),
    "trailers that do not end": lambda s: frame(rawh2.HEADERS, s, b"\x00\x01x\x01y", rawh2.END_HEADERS),
}


def test_lapses(world):
    """a stream that breaks the rules ends, and the others of its connection go on"""
    with Watches(world, 3) as watches:
        one = joint(world)
        for name, say in LAPSES.items():
            victims = Watches(world, 1)
            stream = one.streams[-1]
            one.say(say(stream))
            with victims:
                broken(victims.list[0])
            equal((one.ended, one.goaway, len(world.middle.h2())), (False, None, 1), name)
            watches.see(2)
    none_left(world)


if __name__ == "__main__":
    fixture.main(globals())
