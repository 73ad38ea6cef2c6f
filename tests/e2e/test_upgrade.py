#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""exec, attach and port-forward: upgrades are tunnelled, here and to the peer, as the caller's own."""

import base64
import hashlib
import os

import fixture
from fixture import check, equal, until
from rawhttp import pattern
from test_bodies import LARGEST, flat, large_hash, memory

POD = "/api/v1/namespaces/default/pods/p"
EXTRA = [{"group": "tools.example.com", "version": "v1", "resource": "boxes", "kind": "Box", "namespaced": True,
          "verbs": ["create", "delete", "get", "list", "update", "patch", "watch"],
          "subresources": {"exec": {"verbs": ["create", "get"]}, "portforward": {"verbs": ["create", "get"]}}}]
BOX = "/apis/tools.example.com/v1/namespaces/default/boxes/p"
TARGETS = ((POD, "a"), (BOX, "b"))


def setup():
    world = fixture.World(servers={"b": {"extra": EXTRA}}).start()
    for path, server in TARGETS:
        equal(world.ask("POST", path[:-2], {"metadata": {"name": "p"}}, server, direct=True).status, 201, "create")
    return world


def spdy(path, command="exec"):
    return ("POST %s/%s?command=sh&stdin=true HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
            "X-Stream-Protocol-Version: v4.channel.k8s.io\r\nX-Stream-Protocol-Version: channel.k8s.io\r\n"
            "Content-Length: 0\r\n\r\n" % (path, command))


def websocket(path, key, protocols="v5.channel.k8s.io, v4.channel.k8s.io", command="exec", query="command=sh"):
    return ("GET %s/%s?%s HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n"
            "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\nSec-WebSocket-Protocol: %s\r\n\r\n"
            % (path, command, query, key, protocols))


def exchange(client, data):
    """Send data through the tunnel and read it back."""
    client.send(data)
    while len(client.buffer) < len(data):
        check(client.fill(), "the tunnel ended after %d bytes" % len(client.buffer))
    got, client.buffer = client.buffer[:len(data)], client.buffer[len(data):]
    check(got == data, "other bytes came back")


def test_spdy(world):
    """SPDY/3.1: 101 with the server's choice of protocol, then raw bytes"""
    for path, server in TARGETS:
        mark = world.sim.mark()
        with world.client() as client:
            client.send(spdy(path))
            answer = client.final_head()
            equal((answer.status, answer.header("Upgrade"), answer.header("Connection"), answer.header("X-Stream-Protocol-Version")),
                  (101, "SPDY/3.1", "Upgrade", "v4.channel.k8s.io"), "answer")
            for size in (1, 10, 1000, 100000):
                exchange(client, pattern(size))
        record = world.sim.requests(path=path, since=mark)[-1]
        equal((record["server"], record["user"]["username"]), (server, "kubernetes-admin"), "who and where")
        equal(record["headers"]["X-Stream-Protocol-Version"], ["v4.channel.k8s.io", "channel.k8s.io"], "offers")


def test_websocket(world):
    """WebSocket: the accept key and sub-protocol come from the server"""
    for path, server in TARGETS:
        key = base64.b64encode(os.urandom(16)).decode()
        with world.client() as client:
            client.send(websocket(path, key))
            answer = client.final_head()
            equal(answer.status, 101, "%r" % answer)
            wanted = base64.b64encode(hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()
            equal(answer.header("Sec-WebSocket-Accept"), wanted, "accept key")
            equal(answer.header("Sec-WebSocket-Protocol"), "v5.channel.k8s.io", "protocol")
            exchange(client, pattern(50000))
        equal(world.sim.requests(path=path)[-1]["server"], server, "who")


def frame(opcode, payload, first=0x80):
    """A masked frame as clients send it (RFC 6455, 5.2); `first` has FIN and the reserved bits."""
    mask = os.urandom(4)
    size = bytes([0x80 | len(payload)]) if len(payload) < 126 else b"\xfe" + len(payload).to_bytes(2, "big")
    return bytes([first | opcode]) + size + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(payload))


def test_frames_cut_anywhere(world):
    """WebSocket frames, good ones and bad ones, cut between any two bytes: nobody between the ends reads them"""
    frames = (frame(2, b"\x00stdin") + frame(9, b"ping") + frame(2, b"\x04" + pattern(300)) +
              frame(3, b"of no known kind", first=0xf0) + b"\x82\xff" + b"\xff" * 8 + frame(8, b"\x03\xe8"))
    for path, _ in TARGETS:
        for cut in range(0, len(frames), 7):
            with world.client() as client:
                head = websocket(path, base64.b64encode(os.urandom(16)).decode()).encode()
                client.send(head + frames[:cut])
                equal(client.final_head().status, 101, "cut %d" % cut)
                exchange_rest(client, frames, cut)
        with world.client() as client:
            client.send(websocket(path, base64.b64encode(os.urandom(16)).decode()))
            equal(client.final_head().status, 101, "byte by byte")
            for at in range(len(frames)):
                exchange(client, frames[at:at + 1])


def exchange_rest(client, frames, cut):
    """The part up to the cut was sent with the request."""
    client.send(frames[cut:])
    while len(client.buffer) < len(frames):
        check(client.fill(), "the tunnel ended after %d bytes" % len(client.buffer))
    check(client.buffer == frames, "other bytes came back")


def test_bytes_with_the_request(world):
    """what a client sends right behind its request is the tunnel's"""
    for path, _ in TARGETS:
        with world.client() as client:
            client.send(spdy(path).encode() + b"early bytes")
            equal(client.final_head().status, 101, "status")
            while len(client.buffer) < 11:
                check(client.fill(), "the tunnel ended")
            equal(client.buffer, b"early bytes", "bytes")


def test_users(world):
    """the caller's identity arrives: by certificate, by token, by WebSocket token"""
    token = base64.urlsafe_b64encode(b"token-root").decode().rstrip("=")
    for path, _ in TARGETS:
        for user, fields, name in (("admin", "", "kubernetes-admin"), (None, "Authorization: Bearer token-root\r\n", "root")):
            with world.client(user=user) as client:
                client.send(spdy(path).replace("\r\n\r\n", "\r\n" + fields + "\r\n", 1))
                equal(client.final_head().status, 101, name)
                equal(world.sim.requests(path=path)[-1]["user"]["username"], name, "user")
        with world.client(user=None) as client:
            client.send(websocket(path, "AAAAAAAAAAAAAAAAAAAAAA==", "base64url.bearer.authorization.k8s.io." + token + ", v4.channel.k8s.io"))
            answer = client.final_head()
            equal((answer.status, answer.header("Sec-WebSocket-Protocol")), (101, "v4.channel.k8s.io"), "by sub-protocol")
            equal(world.sim.requests(path=path)[-1]["user"]["username"], "root", "user")


def test_refused(world):
    """a refused upgrade is relayed with its exact status and body, and the connection goes on"""
    for path, server in TARGETS:
        for user, status in (("alice", 403), ("foreign", 401), (None, 403)):
            direct = fixture.Raw(world.addresses[server], world.certs.crt("ca"),
                                 (world.certs.crt(user), world.certs.key(user)) if user else None)
            with direct, world.client(user=user) as client:
                for one in (direct, client):
                    one.send(spdy(path))
                wanted, got = direct.answer("POST"), client.answer("POST")
                equal((got.status, got.body), (wanted.status, wanted.body), "%s" % user)
                equal(got.status, status, "%s" % user)
        world.sim.fault("status", server, "POST", path, status=500, body="no kubelet\n", contentType="text/plain", count=1)
        with world.client() as client:
            client.send(spdy(path))
            answer = client.answer("POST")
            equal((answer.status, answer.body), (500, b"no kubelet\n"), "refusal")
        answer = world.ask("GET", path + "/exec")
        equal((answer.status, answer.json()["message"]), (400, "Upgrade request required"), "no upgrade")


def test_much(world):
    """64 MB (or MVPROXY_TEST_BODY) from the server through a tunnel, whole; memory flat"""
    size, before, wanted = LARGEST, memory(world), large_hash(LARGEST)
    for path, _ in TARGETS:
        with world.client() as client:
            client.send(websocket(path, "AAAAAAAAAAAAAAAAAAAAAA==", query="sim-send=%d" % size))
            equal(client.final_head().status, 101, "status")
            got, total = hashlib.sha256(), 0
            while total < size:
                check(client.buffer or client.fill(), "the tunnel ended")
                got.update(client.buffer)
                total += len(client.buffer)
                client.buffer = b""
            equal((total, got.hexdigest()), (size, wanted), "bytes")
            exchange(client, b"still there")
        flat(world, before, 16 << 10)


def test_half_close(world):
    """the client says goodbye: what is under way still comes, then the server's goodbye"""
    for path, _ in TARGETS:
        with world.client() as client:
            client.send(spdy(path))
            equal(client.final_head().status, 101, "status")
            client.send(pattern(30000))
            # unwrap() sends our close_notify; what comes back until theirs is read first.
            exchange_back = b""
            while len(client.buffer) < 30000:
                check(client.fill(), "the tunnel ended")
            exchange_back = client.buffer
            check(exchange_back == pattern(30000), "other bytes")
            client.buffer = b""
            client.sock.unwrap()
        until(lambda p=path: world.sim.requests(path=p)[-1]["done"], "the server to be told")


def test_ends(world):
    """the end of one side is the end of the other"""
    for path, server in TARGETS:
        client = world.client()
        client.send(spdy(path))
        equal(client.final_head().status, 101, "status")
        exchange(client, b"x")
        client.abort()
        until(lambda p=path: world.sim.requests(path=p)[-1]["done"], "the server's side to end")
        with world.client() as client:
            client.send(spdy(path))
            equal(client.final_head().status, 101, "status")
            exchange(client, b"x")
            world.sim.command(server, "cut")
            client.at_end()


def test_many(world):
    """50 tunnels at once"""
    clients = []
    for number in range(50):
        client = world.client()
        client.send(spdy(TARGETS[number % 2][0]))
        clients.append(client)
    for client in clients:
        equal(client.final_head().status, 101, "status")
    for turn in range(3):
        for client in clients:
            client.send(pattern(5000, turn))
        for client in clients:
            while len(client.buffer) < 5000:
                check(client.fill(), "the tunnel ended")
            check(client.buffer == pattern(5000, turn), "other bytes")
            client.buffer = b""
    for client in clients:
        client.close()


def test_server_down(world):
    """no server: 503 Status with Retry-After; of what several serve, the others answer (test_local_failover.py)"""
    proxy = world.proxies["a"]
    proxy.await_log("Reloaded", proxy.reload({"local-failover": False}))
    for path, server in TARGETS:
        world.sim.kill_server(server)
        with world.client() as client:
            client.send(spdy(path))
            answer = client.answer("POST")
            equal((answer.status, answer.json()["kind"]), (503, "Status"), "%r" % answer)
            check(int(answer.header("Retry-After")) >= 1, "Retry-After")
        world.sim.start_server(server)
        until(lambda p=path: world.ask("GET", p).status == 200, "the server to be back")


if __name__ == "__main__":
    fixture.main(globals())
