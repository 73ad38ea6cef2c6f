#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Servers that die, lie, hang or refuse: clean refusals, broken streams, and never a wrong answer."""

import contextlib
import json
import signal
import socket
import ssl
import time

import fixture
from fixture import check, equal, until
from rawh2 import RawH2
from rawhttp import Broken, pattern
from test_pause import state

MAPS = "/api/v1/namespaces/default/configmaps"
CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
OBJECT = b'{"metadata": {"name": "early"}}'
# What is asked, who answers, and what the refusal says.
TARGETS = ((MAPS, "a", "Error while proxying request to the local apiserver"),
           (CLASSES, "b", "Error while proxying request to"))

NO_HEAD = [{"action": "reset"}, {"action": "half-head"}, {"action": "half-head", "how": "reset"},
           {"action": "half-head", "how": "fin"}, {"action": "garbage"}, {"action": "garbage", "how": "reset"},
           {"action": "raw", "raw": "SFRUUC8yLjAgMjAwIE9LDQoNCg=="},                    # HTTP/2.0 200 OK
           {"action": "raw", "raw": "SFRUUC8xLjEgMjAwIE9LDQpDb250ZW50LUxlbmd0aDogNQ0KQ29udGVudC1MZW5ndGg6IDYNCg0KYWJjZGVm"},
           {"action": "raw", "raw": "SFRUUC8xLjEgMjAwIE9LDQpDb250ZW50LUxlbmd0aDogLTUNCg0KYWJjZGVm"},
           {"action": "raw", "raw": "SFRUUC8xLjEgMjAwIE9LDQpBIEI6IGMNCkNvbnRlbnQtTGVuZ3RoOiAwDQoNCg=="},  # a space in a name
           {"action": "raw", "raw": ""}]

BROKEN_BODY = [{"action": "abort-body", "bytes": 5000}, {"action": "abort-body", "bytes": 5000, "how": "fin"},
               {"action": "abort-body", "bytes": 5000, "how": "close"}, {"action": "abort-body", "bytes": 0},
               {"action": "short-length"}, {"action": "short-length", "how": "fin"}, {"action": "short-length", "how": "reset"},
               {"action": "bad-chunk"}, {"action": "bad-chunk", "how": "keep"}]


def setup():
    return fixture.World(options={"local-failover": False}).start()  # what happens when nobody steps in


def patient(world, wanted):
    """Short enough to wait for where a server says nothing; elsewhere one that is slow must not look like that."""
    proxy = world.proxies["a"]
    proxy.await_log("Reloaded", proxy.reload({"request-timeout": "0s" if wanted else "4s"}))


def refusal(answer, text, again=True):
    equal(answer.status, 503, "status of %r" % answer)
    status = answer.json()
    equal((status["kind"], status["status"], status["reason"], status["code"]),
          ("Status", "Failure", "ServiceUnavailable", 503), "the Status")
    check(text in status["message"], status["message"], "does not say", text)
    # A request that may have been carried out, and must not be twice, is nothing for client-go to repeat.
    equal((answer.all("Retry-After"), "details" in status), (["1"], True) if again else ([], False), "Retry-After")


def healthy(world):
    world.sim.heal()
    for path, _, _ in TARGETS:
        until(lambda p=path: world.ask("GET", p).status == 200, "%s to work again" % path)


@contextlib.contextmanager
def frozen(proxy):
    """Its connections stay, the kernel takes new ones for it, and nobody answers."""
    proxy.signal(signal.SIGSTOP)
    try:
        until(lambda: state(proxy) == "T", "it to stop")
        yield
    finally:
        proxy.signal(signal.SIGCONT)


def several_idle(world):
    """HTTP/1.1 connections to the peer: more than its probe takes."""
    clients = [world.client() for _ in range(4)]
    for client in clients:
        client.request("GET", CLASSES + "?simbody=bytes&n=10000&piece=1000&delay-ms=20")
    for client in clients:
        equal(client.answer().status, 200, "answer")
        client.close()


def test_frozen(world):
    """a peer that is frozen: no connection to it is trusted any more, so that requests are 503 although request-timeout is unlimited"""
    def ended(reason):
        return world.proxies["a"].metric("mvproxy_back_connections_closed_total", server="test-server-b", reason=reason) or 0

    def code(client, stream):
        return json.loads(client.whole(stream))["code"]

    with world.client(alpn=("h2",)) as one, world.client(alpn=("h2",)) as another, world.client() as third:
        before, after = RawH2(one), RawH2(another)
        check(before.ok(before.request("GET", CLASSES)), "an HTTP/2 connection")
        several_idle(world)
        equal((ended("origin_hangs"), ended("ping_timeout")), (0, 0), "connections in doubt")
        with frozen(world.proxies["b"]):
            # Unsafe: they wait where they were sent.
            early = before.request("POST", CLASSES, OBJECT, fields={"content-type": "application/json", "content-length": str(len(OBJECT))})
            third.request("POST", CLASSES, None, {"metadata": {"name": "frozen"}})
            until(lambda: ended("origin_hangs") > 0, "the idle ones to be closed")
            equal(code(after, after.request("GET", CLASSES)), 503, "who comes then, over HTTP/2")
            equal(world.ask("GET", CLASSES).status, 503, "and over HTTP/1.1")
            time.sleep(20)  # by then what can be asked elsewhere is; a client of its own would wait for 45 s
            equal(ended("ping_timeout"), 0, "HTTP/2 connections that were given up")
        answer = json.loads(before.whole(early))
        equal((answer.get("code", 201), third.answer("POST").status), (201, 201), "who was there before, when it goes on: %r" % answer)
        for name in ("early", "frozen"):
            world.ask("DELETE", CLASSES + "/" + name)
    healthy(world)


def test_dies_before_the_head(world):
    """a server that gives no head, or one that is none: 503 Status with Retry-After"""
    for path, server, text in TARGETS:
        for fault in NO_HEAD:
            for method in ("GET", "POST"):
                world.sim.fault(server=server, method=method, path=path, **fault)
                with world.client() as client:
                    client.request(method, path, {}, {"metadata": {"name": "x"}} if method == "POST" else None)
                    answer = client.answer(method)
                    equal((answer.status, method, fault), (503, method, fault), "%r" % answer)
                    refusal(answer, text, method != "POST")
                world.sim.heal()
                until(lambda p=path: world.ask("GET", p).status == 200, "%s after %s" % (path, fault))


def test_dies_in_the_body(world):
    """a server that breaks off, or lies about its length: a broken stream, never a complete answer"""
    for path, server, _ in TARGETS:
        for fault in BROKEN_BODY:
            for query in ("?simbody=bytes&n=100000", "?simbody=bytes&n=100000&chunked=1"):
                world.sim.fault(server=server, path=path, **fault)
                with world.client() as client:
                    client.request("GET", path + query)
                    try:
                        answer = client.answer()
                    except Broken as broken:
                        if fault["action"] == "abort-body":
                            check(pattern(100000).startswith(broken.partial), "other bytes")
                    else:
                        refusal(answer, "Error while proxying")  # nothing had been passed on yet
                world.sim.heal()
        healthy(world)


def test_too_long(world):
    """bytes after a complete answer are nobody's: the answer counts, the connection does not"""
    for path, server, _ in TARGETS:
        world.sim.fault("long-length", server, "GET", path, bytes=7, how="keep", body="0123456789" * 3)
        with world.client() as client:
            for _ in range(5):
                answer = client.ask("GET", path)
                equal((answer.status, answer.body), (200, b"01234567890123456789012"), "answer")
        world.sim.heal()
        with world.client() as client:
            for _ in range(5):
                equal(client.ask("GET", path).json()["items"], [], "the next answers")


def test_port_closed(world):
    """nobody listens: 503; and healed as soon as somebody does"""
    for path, server, text in TARGETS:
        world.sim.kill_server(server)
        for _ in range(5):
            refusal(world.ask("GET", path), text)
        world.sim.start_server(server)
        healthy(world)


def test_sent_away(world):
    """nobody listens behind us: the client's connection ends with the answer, so that a balancer may choose again; not so a peer's fault"""
    for path, server, text in TARGETS:
        world.sim.kill_server(server)
        until(lambda p=path: world.ask("GET", p).status == 503, "the server to be away")
        with world.client() as client:
            answer = client.ask("GET", path)
            refusal(answer, text)
            equal(answer.header("Connection"), "close" if server == "a" else None, "Connection, asking for " + path)
        world.sim.start_server(server)
        healthy(world)


def test_handshake_fails(world):
    """a TLS handshake that is cut, refused or answered with something else: 503"""
    for action in ("tls-close", "tls-reset", "tls-garbage"):
        for path, server, text in TARGETS:
            world.sim.fault(action, server)
            world.sim.command(server, "cut")
            refusal(until(lambda p=path: (lambda a: a.status == 503 and a)(world.ask("GET", p)), "the fault to be met"), text)
            healthy(world)


def silent(client):
    answer = client.answer()
    check(answer.status in (503, 504), "%r" % answer)
    check(answer.json()["kind"] == "Status" and bool(answer.header("Retry-After")) == (answer.status == 503), "%r" % answer)
    client.close()


def test_hangs(world):
    """a server that says nothing: 504 after request-timeout, and the others are served meanwhile"""
    patient(world, False)
    clients = [world.client() for _ in TARGETS]
    for client, (path, server, _) in zip(clients, TARGETS):
        world.sim.fault("hang", server, "GET", path, exact=True)
        client.request("GET", path)
    for _ in range(10):
        equal(world.ask("GET", "/api/v1/namespaces").status, 200, "another request")
    for client in clients:
        silent(client)
    patient(world, True)
    healthy(world)


def test_handshake_hangs(world):
    """a server that accepts and never shakes hands: 503"""
    patient(world, False)
    clients = [world.client() for _ in TARGETS]
    for client, (path, server, _) in zip(clients, TARGETS):
        world.sim.fault("tls-hang", server)
        world.sim.command(server, "cut")
        client.request("GET", path)
    for client in clients:
        silent(client)
    patient(world, True)
    healthy(world)


def test_client_leaves_a_hanging_request(world):
    """a client that leaves while the server is silent: the server is told at once"""
    for path, server, _ in TARGETS:
        world.sim.fault("hang", server, "GET", path, exact=True)
        mark = world.sim.mark()
        client = world.client()
        client.request("GET", path)
        until(lambda m=mark, p=path: world.sim.requests(path=p, since=m), "the request at the server")
        client.abort()
        record = until(lambda m=mark, p=path: [r for r in world.sim.requests(path=p, since=m) if r["done"]], "the end")[0]
        equal((record["server"], record["aborted"]), (server, True), "record")
        healthy(world)


def test_client_leaves_an_upload(world):
    """a client that leaves in the middle of its body: the server sees a broken request, not a short one"""
    for path, server, _ in TARGETS:
        for fields in ({"Content-Length": "100000"}, {"Transfer-Encoding": "chunked"}):
            mark = world.sim.mark()
            client = world.client()
            client.request("POST", path + "?simbody=sink", fields)
            client.send(b"400\r\n" + pattern(1024) + b"\r\n" if "Transfer-Encoding" in fields else pattern(1024))
            until(lambda m=mark, p=path: world.sim.requests(path=p, since=m), "the request at the server")
            client.abort()
            record = until(lambda m=mark, p=path: [r for r in world.sim.requests(path=p, since=m) if r["done"]], "the end")[0]
            equal(record["server"], server, "server")
            check(record["status"] != 200, "half a body was taken for a whole one")


def test_errors_are_relayed(world):
    """what a server itself answers is passed on unchanged, with its Retry-After; but for a peer's 401, which is about us"""
    for path, server, _ in TARGETS:
        for status in (400, 401, 403, 404, 405, 409, 410, 422, 429, 500, 502, 503, 504):
            if status == 401 and server == "b":
                continue  # the user is one that we assert: test_failover
            world.sim.fault("status", server, "GET", path, status=status, retryAfter=7, count=1,
                            body="as it is\n", contentType="text/x-odd")
            answer = world.ask("GET", path)
            equal((answer.status, answer.body, answer.header("Content-Type"), answer.all("Retry-After")),
                  (status, b"as it is\n", "text/x-odd", ["7"]), "relayed")


def test_idle_connection_closes(world):
    """a server that closes an idle connection, unannounced, at any moment: no client notices"""
    for path, server, _ in TARGETS:
        for how in ("fin", "reset"):
            for pause in (0, 1, 3, 10):
                world.sim.fault("silent-close", server, "GET", path, ms=pause, how=how)
                with world.client() as client:
                    for _ in range(12):
                        equal(client.ask("GET", path).status, 200, "%s after %d ms" % (how, pause))
                world.sim.heal()


def test_cut_while_busy(world):
    """all of a server's connections are reset again and again: right answers, 503, or broken streams; nothing else"""
    wanted = pattern(200000)
    for path, server, _ in TARGETS:
        complete = broken = refused = 0
        for turn in range(30):
            with world.client() as client:
                client.request("GET", path + "?simbody=bytes&n=200000&piece=20000&delay-ms=2&chunked=%d" % (turn % 2))
                if turn % 3:
                    world.sim.command(server, "cut")
                try:
                    answer = client.answer()
                except Broken as error:
                    check(wanted.startswith(error.partial), "other bytes")
                    broken += 1
                    continue
                if answer.status == 200:
                    check(answer.body == wanted, "wrong bytes in a complete answer")
                    complete += 1
                else:
                    equal(answer.status, 503, "status")
                    refused += 1
        check(complete >= 10, "complete", complete, "broken", broken, "refused", refused)
        healthy(world)


def test_safe_requests_are_repeated(world):
    """a safe request whose connection dies before the head is tried once more; a POST that was sent is not"""
    for path, server, _ in TARGETS:
        equal(world.ask("GET", path).status, 200, "a connection in the pool")
        world.sim.fault("reset", server, "GET", path, count=1)
        equal(world.ask("GET", path).status, 200, "GET")
        mark = world.sim.mark()
        fault = world.sim.fault("reset", server, "POST", path, count=1)
        equal(world.ask("POST", path, {"metadata": {"name": "once"}}).status, 503, "POST")
        equal(world.sim.hits(fault), 1, "times that the POST arrived")
        equal(len([r for r in world.sim.requests(path=path, since=mark) if r["method"] == "POST"]), 1, "POSTs")
        world.sim.heal()


def test_wrong_certificate(world):
    """a server that cannot prove that it is kubernetes.default.svc gets nothing, not even a head"""
    certs = world.certs
    certs.extra("other-name", "kube-apiserver", ca="ca", sans=("example.com", "127.0.0.1"), eku="serverAuth")
    for pair in ("foreign-server", "other-name"):
        world.sim.restart_server("a", **{"tls-cert-file": certs.crt(pair), "tls-private-key-file": certs.key(pair)})
        mark = world.sim.mark()
        for user in ("admin", None):
            answer = world.ask("GET", MAPS, None, "a", user, {"Authorization": "Bearer token-bob"})
            refusal(answer, "Error while proxying request to the local apiserver")
        equal(world.sim.requests("a", since=mark), [], "requests at the impostor")
        world.sim.restart_server("a", **{"tls-cert-file": certs.crt("node-a"), "tls-private-key-file": certs.key("node-a")})
        healthy(world)


def test_client_speaks_no_tls(world):
    """a client that sends HTTP, nothing, or garbage to the port harms nobody"""
    idle = [socket.create_connection(world.proxies["a"].address) for _ in range(20)]
    for data in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x00" * 100, b"\x16\x03\x01\xff\xff" + b"A" * 500, b""):
        with socket.create_connection(world.proxies["a"].address) as tcp:
            tcp.settimeout(fixture.PATIENCE)
            tcp.sendall(data)
            tcp.shutdown(socket.SHUT_WR)
            try:
                while tcp.recv(1000):
                    pass
            except ConnectionResetError:
                pass
    equal(world.ask("GET", MAPS).status, 200, "others meanwhile")
    for tcp in idle:
        tcp.close()


def test_client_rejects_us(world):
    """a client that does not trust our certificate goes away, and nobody else notices"""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(world.certs.crt("foreign-ca"))
    for _ in range(5):
        try:
            world.client(context=context).close()
            check(False, "trusted")
        except ssl.SSLCertVerificationError:
            pass
    equal(world.ask("GET", MAPS).status, 200, "others")


if __name__ == "__main__":
    fixture.main(globals())
