#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""HTTP/2 clients that break rules, flood, or are slow; and drain. The connection concerned ends with the right code, counted; nobody else notices."""

import hashlib
import json
import shutil
import subprocess
import time

import fixture
import rawh2
from fixture import Skip, check, equal, until
from rawh2 import RawH2, frame, reset
from rawhttp import Broken, pattern
from test_bodies import flat, memory

MAPS = "/api/v1/namespaces/default/configmaps"
CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
GET_HEAD = b"\x82\x87\x84\x01\x0akubernetes"  # GET / of RFC 7541's static table


def setup():
    return fixture.World(options={"v": 3}).start()


def raw(world):
    return RawH2(world.client(alpn=("h2",)))


def rapid_resets(stream):
    return b"".join(frame(rawh2.HEADERS, s, GET_HEAD, rawh2.END_HEADERS | rawh2.END_STREAM) + reset(s, rawh2.CANCEL) for s in range(stream + 2, stream + 2002, 2))


# What a client sends while a request's body is under way on a stream, which it is given; the code of GOAWAY, and why the connection ends.
CRIMES = {
    "DATA beyond the stream's window": (lambda s: frame(rawh2.DATA, s, bytes(16384)) * 4096, rawh2.FLOW_CONTROL_ERROR, "bad_request"),
    "WINDOW_UPDATE beyond 2^31-1": (lambda s: frame(rawh2.WINDOW_UPDATE, 0, b"\x7f\xff\xff\xff") * 2, rawh2.FLOW_CONTROL_ERROR, "bad_request"),
    "INITIAL_WINDOW_SIZE beyond 2^31-1": (lambda s: frame(rawh2.SETTINGS, 0, b"\0\x04\xff\xff\xff\xff"), rawh2.FLOW_CONTROL_ERROR, "bad_request"),
    "a frame that is too large": (lambda s: frame(rawh2.DATA, s, bytes(16385)), rawh2.FRAME_SIZE_ERROR, "bad_request"),
    "a PING of 7 bytes": (lambda s: frame(rawh2.PING, 0, b"1234567"), rawh2.FRAME_SIZE_ERROR, "bad_request"),
    "SETTINGS on a stream": (lambda s: frame(rawh2.SETTINGS, s), rawh2.PROTOCOL_ERROR, "bad_request"),
    "DATA on stream 0": (lambda s: frame(rawh2.DATA, 0, b"x"), rawh2.PROTOCOL_ERROR, "bad_request"),
    "DATA on a stream that nobody opened": (lambda s: frame(rawh2.DATA, s + 100, b"x"), rawh2.PROTOCOL_ERROR, "bad_request"),
    "a stream with an even number": (lambda s: frame(rawh2.HEADERS, 2, GET_HEAD, rawh2.END_HEADERS | rawh2.END_STREAM), rawh2.PROTOCOL_ERROR, "bad_request"),
    "PUSH_PROMISE": (lambda s: frame(rawh2.PUSH_PROMISE, s, b"\0\0\0\2\x82", rawh2.END_HEADERS), rawh2.PROTOCOL_ERROR, "bad_request"),
    "CONTINUATION of nothing": (lambda s: frame(rawh2.CONTINUATION, s, b"\x88", rawh2.END_HEADERS), rawh2.PROTOCOL_ERROR, "bad_request"),
    "HEADERS and then something else": (lambda s: frame(rawh2.HEADERS, s + 2, GET_HEAD) + frame(rawh2.PING, 0, bytes(8)), rawh2.PROTOCOL_ERROR, "bad_request"),
    "more padding than frame": (lambda s: frame(rawh2.DATA, s, b"\xffx", 8), rawh2.PROTOCOL_ERROR, "bad_request"),
    "header compression that is none": (lambda s: frame(rawh2.HEADERS, s + 2, b"\xff" * 10, rawh2.END_HEADERS), rawh2.COMPRESSION_ERROR, "bad_request"),
    "HTTP/1.1": (lambda s: b"GET / HTTP/1.1\r\nHost: kubernetes\r\n\r\n", rawh2.FRAME_SIZE_ERROR, "bad_request"),
    "a flood of PING": (lambda s: frame(rawh2.PING, 0, bytes(8)) * 20000, rawh2.ENHANCE_YOUR_CALM, "flood"),
    "a flood of SETTINGS": (lambda s: frame(rawh2.SETTINGS) * 20000, rawh2.ENHANCE_YOUR_CALM, "flood"),
    "a flood of empty DATA": (lambda s: frame(rawh2.DATA, s) * 20000, rawh2.ENHANCE_YOUR_CALM, "flood"),
    "a flood of PRIORITY": (lambda s: frame(rawh2.PRIORITY, s, bytes(5)) * 20000, rawh2.ENHANCE_YOUR_CALM, "flood"),
    "rapid resets": (rapid_resets, rawh2.ENHANCE_YOUR_CALM, "flood"),
}


def closed(world, reason):
    return world.proxies["a"].metric("mvproxy_front_closed_total", reason=reason) or 0


def to_the_end(client):
    try:
        while True:
            client.fill()
    except (Broken, OSError):
        pass


def test_crimes(world):
    """clients that break the rules of frames, windows or moderation: GOAWAY with the right code, counted, and others go on"""
    wrong = []
    other = raw(world)
    watch = other.request("GET", MAPS + "?watch=true")
    check(other.ok(watch), "watch")
    for name, (say, code, reason) in CRIMES.items():
        before, mark = closed(world, reason), world.sim.mark()
        client = raw(world)
        stream = client.request("POST", MAPS + "?simbody=sink", b"some", end=False)
        try:
            until(lambda m=mark: world.sim.requests("a", MAPS, m), "the request at the server")
            if name.startswith("DATA beyond"):
                world.sim.fault("hang", "a", "POST", MAPS)
                stream = client.request("POST", MAPS + "?simbody=sink", b"some", end=False)
            try:
                client.conn.send(say(stream))
            except OSError:
                pass  # it has ended already
            to_the_end(client)
            equal(client.goaway, code, "code of GOAWAY")
            until(lambda b=before, r=reason: closed(world, r) - b == 1, "its end to be counted as " + reason)
            world.sim.heal()  # what hangs there sees nobody leave
            until(lambda m=mark: all(r["done"] for r in world.sim.requests("a", MAPS, m)), "the server to be told")
            check(other.ok(other.request("GET", "/version")), "another client")
        except (AssertionError, OSError) as error:
            wrong.append("%s: %s" % (name, error))
        world.sim.heal()
        client.conn.close()
    check(not wrong, "\n".join(wrong))
    world.sim.put("configmaps", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "seen", "namespace": "default"}})
    other.until(lambda: b'"seen"' in other.data.get(watch, b""))
    other.conn.close()


def test_slow_stream(world):
    """a stream that its client does not read holds back neither its connection nor more than its window of memory"""
    before = memory(world)
    client = raw(world)
    client.keep = {client.request("GET", way + "?simbody=bytes&n=%d" % (1 << 30)) for way in (MAPS, CLASSES)}
    for way in (MAPS, CLASSES) * 10:
        data = client.whole(client.request("GET", way + "?simbody=bytes&n=1000000"))
        check(data == pattern(1000000), way, "differs")
        stream = client.request("POST", way + "?simbody=sink", pattern(20000))
        equal(json.loads(client.whole(stream))["sha256"], hashlib.sha256(pattern(20000)).hexdigest(), way)
    for stream in client.keep:
        check(0 < len(client.data[stream]) <= 65535 and stream not in client.ended, "the slow stream", len(client.data[stream]))
    flat(world, before, 16 << 10)
    for stream in client.keep:
        client.conn.send(reset(stream, rawh2.CANCEL))
    until(lambda: all(r["done"] for r in world.sim.requests() if "n=%d" % (1 << 30) in r["target"]), "the server to be told")
    check(client.ok(client.request("GET", "/version")), "the connection afterwards")
    client.conn.close()


NODE = """const http2 = require("http2"), fs = require("fs"), crypto = require("crypto"), [url, ca, cert, key, way] = process.argv.slice(1);
const session = http2.connect(url, {ca: fs.readFileSync(ca), cert: fs.readFileSync(cert), key: fs.readFileSync(key), servername: "kubernetes"});
const body = crypto.createHash("sha512").update("node").digest("hex").repeat(20000);
function ask(head, body) {
  return new Promise((done, fail) => {
    const stream = session.request(head), hash = crypto.createHash("sha256");
    let status, text = "";
    stream.on("response", (h) => { status = h[":status"]; }).on("error", fail);
    stream.on("data", (d) => { hash.update(d); text = (text + d.toString("latin1")).slice(-2000); });
    stream.on("end", () => done({status, text, sha256: hash.digest("hex")}));
    stream.end(body);
  });
}
session.on("error", (e) => { console.error(e); process.exit(1); });
Promise.all([ask({":path": way + "bytes&n=3000000"}), ask({":path": way + "sink", ":method": "POST"}, body)]).then(([down, up]) => {
  console.log(JSON.stringify({codes: [down.status, up.status], down: down.sha256, sent: crypto.createHash("sha256").update(body).digest("hex"),
                              up: JSON.parse(up.text).sha256}));
  session.close();
});
"""


def test_node(world):
    """Node's own HTTP/2 client: down and up at once on one connection, to the local server and to the peer"""
    node = shutil.which("node")
    if not node:
        raise Skip("no node here")
    certs = world.certs
    for way in (MAPS, CLASSES):
        done = subprocess.run([node, "-e", NODE, "https://%s:%d" % world.proxies["a"].address, certs.crt("ca"), certs.crt("admin"), certs.key("admin"),
                               way + "?simbody="], capture_output=True, timeout=4 * fixture.PATIENCE, check=False)
        check(done.returncode == 0 and done.stdout, way, done)
        told = json.loads(done.stdout)
        equal((told["codes"], told["down"], told["up"]), ([200, 200], hashlib.sha256(pattern(3000000)).hexdigest(), told["sent"]), way)


def test_drain(world):
    """SIGTERM: GOAWAY at once, what is under way is answered, watches end whole, then the connection does"""
    proxy = world.proxies["a"]
    proxy.reload({"shutdown-grace-period": "10s"})
    proxy.stop()
    proxy.start()
    world.settle()
    client = raw(world)
    watch = client.request("GET", MAPS + "?watch=true")
    check(client.ok(watch), "watch")
    upload = client.request("POST", MAPS + "?simbody=sink", pattern(10000), end=False)
    until(lambda: any("sink" in r["target"] for r in world.sim.requests("a", MAPS)), "the upload at the server")
    proxy.signal(15)
    client.until(lambda: client.goaway is not None)
    equal(client.goaway, rawh2.NO_ERROR, "code of GOAWAY")
    client.body(upload, pattern(5, 10000), end=True)
    equal(json.loads(client.whole(upload))["bytes"], 10005, "the upload")
    client.whole(watch)
    to_the_end(client)
    equal(proxy.wait_exit(), 0, "status")
    client.conn.close()
    proxy.start()
    world.settle()


def test_drain_slow_reader(world):
    """SIGTERM while a client takes its answer slowly: the process stays until it has all of it"""
    size, proxy = 6 << 20, world.proxies["a"]
    proxy.reload({"shutdown-grace-period": "120s"})
    proxy.stop()
    proxy.start()
    world.settle()
    client = RawH2(world.client(alpn=("h2",), receive_buffer=8192))
    client.keep = {0, 1}  # windows as large as the answer: only the socket holds it back
    client.conn.send(frame(rawh2.SETTINGS, 0, b"\0\x04" + (size * 2).to_bytes(4, "big")) + frame(rawh2.WINDOW_UPDATE, 0, (size * 2).to_bytes(4, "big")))
    stream = client.request("GET", MAPS + "?simbody=bytes&n=%d" % size)
    check(client.ok(stream), "the answer's head")
    proxy.signal(15)
    client.until(lambda: client.goaway is not None)
    taken = 0
    while stream not in client.ended:
        client.fill()
        got = len(client.data.get(stream, b""))
        if size // 3 < got < size - (256 << 10) and got - taken > 128 << 10:  # when the last of it is given, as much again is in the kernel's hands
            taken = got
            client.conn.send(frame(rawh2.WINDOW_UPDATE, 0, (1).to_bytes(4, "big")))  # a closed socket would not have this
            time.sleep(0.15)
    check(client.data[stream] == pattern(size), "the answer differs", len(client.data[stream]))
    to_the_end(client)
    equal(proxy.wait_exit(), 0, "status")
    client.conn.close()
    proxy.start()
    world.settle()


if __name__ == "__main__":
    fixture.main(globals())
