#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bodies of every size and framing arrive as they were sent, in both directions, here and at the peer.

Environment: MVPROXY_TEST_BODY=MEGABYTES the size of the largest (64; contrib/check --matrix takes 5000).
"""

import gzip
import hashlib
import os
import time
import threading

import fixture
from fixture import check, equal, until, unversioned
from rawhttp import chunked, pattern

HERE = "/sim/%s"
LOCAL = "/api/v1/namespaces/default/configmaps?simbody=%s"
PEER = "/apis/resource.k8s.io/v1/deviceclasses?simbody=%s"
WAYS = (("local path", HERE), ("local resource", LOCAL), ("peer's resource", PEER))
SIZES = (0, 1, 4095, 16384, 16385, 65536, 131073, 1000003)


def url(way, kind, query=""):
    path = way % kind
    return path + ("&" if "?" in path else "?") + query if query else path


def test_downloads(world):
    """with Content-Length and chunked, from 0 bytes to 1 MB, on one connection"""
    for title, way in WAYS:
        with world.client() as client:
            for size in SIZES:
                for framing in ("", "&chunked=1", "&chunked=1&piece=9973"):
                    answer = client.ask("GET", url(way, "bytes", "n=%d%s" % (size, framing)))
                    equal(answer.status, 200, title)
                    check(answer.body == pattern(size), title, size, framing, "differs")
                    if not framing:
                        equal(answer.all("Content-Length"), [str(size)], "Content-Length")


def test_uploads(world):
    """with Content-Length and chunked in pieces of many sizes, on one connection"""
    for title, way in WAYS:
        with world.client() as client:
            for size in SIZES:
                data = pattern(size)
                wanted = (size, hashlib.sha256(data).hexdigest())
                got = client.ask("POST", url(way, "sink"), data).json()
                equal((got["bytes"], got["sha256"]), wanted, title)
                for piece in (1, 100, 16384, 70000):
                    if size // piece > 300:
                        continue
                    pieces = [data[i:i + piece] for i in range(0, size, piece)]
                    client.request("POST", url(way, "sink"), {"Transfer-Encoding": "chunked"}, chunked(*pieces))
                    got = client.answer("POST").json()
                    equal((got["bytes"], got["sha256"], got["contentLength"]), wanted + (-1,), "%s in pieces of %d" % (title, piece))


LARGEST = int(os.environ.get("MVPROXY_TEST_BODY", "64")) << 20


def test_large(world):
    """the largest body there is, down and up, with a length and chunked: hashes compared, memory flat"""
    before = memory(world)
    wanted = large_hash(LARGEST)
    for title, way in WAYS[1:]:
        for chunks in (False, True):
            with world.client() as client:
                total, start = hashlib.sha256(), time.monotonic()
                client.request("GET", url(way, "bytes", "n=%d%s" % (LARGEST, "&chunked=1" if chunks else "")))
                client.body(client.final_head(), sink=total.update)
                equal(total.hexdigest(), wanted, title)
            told("down", title, chunks, start)
            with world.client() as client:
                start = time.monotonic()
                client.request("POST", url(way, "sink"), {"Transfer-Encoding": "chunked"} if chunks else {"Content-Length": str(LARGEST)})
                for piece in pieces(LARGEST):
                    client.send(b"%x\r\n%s\r\n" % (len(piece), piece) if chunks else piece)
                client.send(b"0\r\n\r\n" if chunks else b"")
                equal(client.answer("POST").json()["sha256"], wanted, title)
            told("up", title, chunks, start)
            flat(world, before, 16 << 10)
    if LARGEST > 1 << 30:
        print("# resident KiB before %s, after %s" % (before, memory(world)))


def told(way, title, chunks, start):
    """Large sizes are tried by people, who want to know."""
    if LARGEST > 1 << 30:
        print("# %s, %s, %s: %.0f MB/s" % (title, way, "chunked" if chunks else "with length", LARGEST / 1e6 / (time.monotonic() - start)))


def pieces(size):
    """The pattern in pieces of 1 MiB."""
    for start in range(0, size, 1 << 20):
        yield pattern(min(1 << 20, size - start), start)


def test_compressed(world):
    """gzip passes through as it is, both ways: nobody looks into it"""
    packed = gzip.compress(pattern(300000))
    for title, way in WAYS:
        with world.client() as client:
            got = client.ask("POST", url(way, "sink"), packed, {"Content-Encoding": "gzip", "Content-Type": "application/json"}).json()
            equal((got["bytes"], got["sha256"]), (len(packed), hashlib.sha256(packed).hexdigest()), title)
    for server, way in (("a", LOCAL), ("b", PEER)):
        path = way.split("?")[0]
        for number in range(40):
            world.sim.put(resource_of(way), {"metadata": {"name": "zipped-%d" % number, "namespace": "default" if way is LOCAL else "",
                                                          "annotations": {"text": "x" * 5000}}})
        plain = world.ask("GET", path, name=server, direct=True)
        check(len(plain.body) > 131072, "a large list")
        for encoding in ("gzip", "identity", None):
            fields = {"Accept-Encoding": encoding} if encoding else {}
            straight, through = framed(lambda p=path, n=server, f=fields: world.ask("GET", p, name=n, direct=True, headers=f),
                                       lambda p=path, f=fields: world.ask("GET", p, headers=f))
            for name in ("Content-Encoding", "Content-Type", "Vary"):
                equal(through.header(name), straight.header(name), name)
            equal(through.header("Content-Encoding"), "gzip" if encoding == "gzip" else None, path)
            check(through.body == straight.body, path, encoding, "differs")
        unpacked = gzip.decompress(world.ask("GET", path, headers={"Accept-Encoding": "gzip"}).body)
        check(unversioned(unpacked) == unversioned(plain.body), path, "differs unpacked")
        for number in range(40):
            world.ask("DELETE", "%s/zipped-%d" % (path, number))


def framed(straight, through):
    """An answer of either, where the former was the same before and after: a list has a version, which moves with every Lease."""
    for _ in range(50):
        before, other = straight(), through()
        if straight().body == before.body:
            return before, other
    raise fixture.Failure("never the same twice")


def resource_of(way):
    return "configmaps" if way is LOCAL else "deviceclasses.resource.k8s.io"


def test_large_list(world):
    """a list of 6 MB, here and at the peer, byte by byte the server's own"""
    for server, way in (("a", LOCAL), ("b", PEER)):
        for number in range(60):
            world.sim.put(resource_of(way), {"metadata": {"name": "many-%d" % number, "namespace": "default" if way is LOCAL else "",
                                                          "annotations": {"text": "y" * 100000}}})
        path = way.split("?")[0]
        straight, through = (whole_list(world, path, n, d) for n, d in ((server, True), ("a", False)))
        check(len(straight) > 6000000 and straight == through, path, len(straight), len(through))
        for number in range(60):
            world.ask("DELETE", "%s/many-%d" % (path, number))


def whole_list(world, path, name, direct):
    """The bytes of a list without its version, which moves with every Lease."""
    got = bytearray()
    with world.client(name, direct=direct) as client:
        client.request("GET", path)
        answer = client.body(client.final_head(), sink=got.extend)
    equal(answer.status, 200, path)
    text = bytes(got)
    head = text.index(b'"resourceVersion"')  # the list's own comes first
    return text[:head] + text[text.index(b"}", head):]


PATCHES = (("application/merge-patch+json", b'{"metadata":{"annotations":{"n":"1"}}}'),
           ("application/strategic-merge-patch+json", b'{"metadata":{"annotations":{"n":"2"}}}'),
           ("application/json-patch+json", b'[{"op":"replace","path":"/metadata/annotations/n","value":"3"}]'),
           # To a parser of JSON the simulator's YAML is JSON; kube-apiserver's is tried by tests/cluster.
           ("application/apply-patch+yaml", b'{"apiVersion":"%s","kind":"%s","metadata":{"name":"patched","annotations":{"n":"4"}}}'))


def test_patches(world):
    """every type of PATCH keeps its type, its query and its bytes"""
    for server, way, version, kind in (("a", LOCAL, b"v1", b"ConfigMap"), ("b", PEER, b"resource.k8s.io/v1", b"DeviceClass")):
        path = way.split("?")[0]
        equal(world.ask("POST", path, {"metadata": {"name": "patched"}}).status, 201, path)
        for number, (content_type, body) in enumerate(PATCHES, 1):
            body = body % (version, kind) if b"%s" in body else body
            query = "?fieldManager=test&force=true" if "apply" in content_type else "?fieldManager=test"
            mark = world.sim.mark()
            answer = world.ask("PATCH", path + "/patched" + query, body, headers={"Content-Type": content_type})
            equal((answer.status, answer.json()["metadata"]["annotations"]["n"]), (200, str(number)), content_type)
            record = world.sim.requests(path=path, since=mark)[-1]
            equal((record["server"], record["headers"]["Content-Type"], record["target"]),
                  (server, [content_type], path + "/patched" + query), content_type)
        unknown = world.ask("PATCH", path + "/patched", b"{}", headers={"Content-Type": "application/none"})
        equal(unknown.status, 415, "an unknown type")
        world.ask("DELETE", path + "/patched")


_hashes = {}


def large_hash(size):
    if size not in _hashes:
        total = hashlib.sha256()
        for piece in pieces(size):
            total.update(piece)
        _hashes[size] = total.hexdigest()
    return _hashes[size]


def memory(world):
    """Resident memory of each mvproxy, KiB."""
    out = {}
    for name, proxy in world.proxies.items():
        with open("/proc/%d/status" % proxy.child.pid, encoding="ascii") as status:
            out[name] = next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
    return out


def flat(world, before, limit):
    """Fail when an instance grew by more than limit KiB."""
    for name, now in memory(world).items():
        if not world.proxies[name].sanitized():
            check(now - before[name] < limit, name, "grew by", now - before[name], "KiB")


def test_both_directions_at_once(world):
    """what is sent comes back before all is sent"""
    for title, way in WAYS:
        with world.client() as client:
            client.request("POST", url(way, "echo"), {"Transfer-Encoding": "chunked"})
            got = b""
            answer = None
            for number in range(20):
                data = pattern(3000, number * 3000)
                client.send(b"%x\r\n%s\r\n" % (len(data), data))
                if answer is None:
                    answer = client.final_head()
                    equal(client.framing(answer, "POST")[0], "chunked", title)
                while len(got) < (number + 1) * 3000:
                    got += client.chunk()
            check(got == pattern(60000), title, "differs")
            client.send(b"0\r\n\r\n")
            equal(client.chunk(), b"", "the last chunk")
            equal(client.fields(), [], "trailers")
            if answer.header("Connection") == "close":  # allowed, when it is said
                equal(client.at_end(), "closed", "the end")
            else:
                equal(client.ask("GET", "/version").status, 200, "the connection afterwards")


def test_slow_reader(world):
    """a client that does not read stops the server, and costs no memory"""
    before = memory(world)
    for way in (LOCAL, PEER):
        clients = [world.client() for _ in range(4)]
        for client in clients:
            client.request("GET", url(way, "bytes", "n=%d" % (1 << 30)))
            client.fill()  # the answer has begun; read no more
        progress = []
        until(lambda p=progress: p.append(memory(world)) or (len(p) > 10 and p[-1] == p[-5]), "memory to stand still")
        flat(world, before, 32 << 10)
        for client in clients:
            client.abort()
    until(lambda: all(r["done"] for r in world.sim.requests() if "bytes" in r["target"]), "the server to be told")
    equal({r["aborted"] for r in world.sim.requests() if "n=%d" % (1 << 30) in r["target"]}, {True}, "cancelled")


def test_slow_server(world):
    """a server that does not read stops the client, and nothing is lost"""
    size = 8 << 20
    for way in (LOCAL, PEER):
        world.sim.fault("delay-head", "b" if way is PEER else "a", "POST", way.split("?")[0], ms=300, count=1)
        with world.client() as client:
            client.request("POST", url(way, "sink"), {"Content-Length": str(size)})
            for start in range(0, size, 1 << 20):
                client.send(pattern(1 << 20, start))
            equal(client.answer("POST").json()["sha256"], large_hash(size), "sum")


def test_expect_continue(world):
    """the client waits with its body until it is told to go on"""
    for title, way in WAYS:
        with world.client() as client:
            client.request("POST", url(way, "sink"), {"Expect": "100-continue", "Content-Length": "5"})
            equal(client.head().status, 100, title)
            client.send(b"abcde")
            equal(client.final_head().status, 200, title)


def test_expect_refused(world):
    """a server that refuses before the body: its answer, and no 100"""
    for server, way in (("a", LOCAL), ("b", PEER)):
        world.sim.fault("early", server, "POST", way.split("?")[0], status=413)
        for _ in range(20):
            begun = time.monotonic()
            with world.client() as client:
                client.request("POST", url(way, "sink"), {"Expect": "100-continue", "Content-Length": "5"})
                answer = client.answer("POST")
            equal(answer.status, 413, "answer")
            if time.monotonic() - begun < 1:  # after a second without an answer the body is sent all the same, as by net/http
                equal([i.status for i in answer.interim], [], "interim")
                break
        else:
            check(False, "the server never answered within a second")
        world.sim.heal()


def test_early_answer(world):
    """a 413 in the middle of an upload reaches the client that is still sending"""
    for server, way in (("a", LOCAL), ("b", PEER)):
        world.sim.fault("early", server, "POST", way.split("?")[0], status=413)
        with world.client() as client:
            client.request("POST", url(way, "sink"), {"Content-Length": str(1 << 30)})
            client.send(pattern(100000))
            answer = client.answer("POST")
            equal((answer.status, answer.json()["reason"]), (413, "RequestEntityTooLarge"), "answer")
        world.sim.heal()
        equal(world.ask("GET", "/version").status, 200, "afterwards")


def test_interim_answers(world):
    """103 and 102 are relayed before the answer"""
    for server, way in (("a", LOCAL), ("b", PEER)):
        world.sim.fault("informational", server, "GET", way.split("?")[0], codes=[103, 102])
        with world.client() as client:
            for _ in range(2):
                answer = client.ask("GET", url(way, "bytes", "n=10"))
                equal([i.status for i in answer.interim], [103, 102], "interim")
                equal(answer.interim[0].header("X-Sim-Early"), "103", "its header")
                equal((answer.status, answer.body), (200, pattern(10)), "answer")
        world.sim.heal()


def test_no_body(world):
    """HEAD, 204 and 304 have none, and the connection goes on"""
    with world.client() as client:
        for _ in range(2):
            answer = client.ask("HEAD", "/sim/bytes?n=1000")
            equal((answer.status, answer.header("Content-Length"), answer.body), (200, "1000", b""), "HEAD")
            for status in (204, 304):
                answer = client.ask("GET", "/sim/nobody?status=%d" % status)
                equal((answer.status, answer.body, answer.header("Transfer-Encoding")), (status, b"", None), "no body")
            equal(client.ask("HEAD", "/sim/bytes?n=10&chunked=1").body, b"", "HEAD of a chunked answer")
            equal(client.ask("GET", "/sim/bytes?n=3").body, pattern(3), "GET")


def test_trailers(world):
    """trailers of requests and answers are relayed"""
    for server, way in (("a", LOCAL), ("b", PEER)):
        world.sim.fault("trailers", server, "GET", way.split("?")[0])
        with world.client() as client:
            answer = client.ask("GET", url(way, "bytes", "n=70000&chunked=1"), None, {"TE": "trailers"})
            equal(answer.body, pattern(70000), "body")
            equal(dict(answer.trailers).get("X-Sim-Checksum"), "12345", "trailer")
            client.request("POST", url(way, "sink"), {"Transfer-Encoding": "chunked", "Trailer": "X-Sum"},
                           chunked(b"abc", trailers=[("X-Sum", "99")]))
            equal(client.answer("POST").json()["trailers"], {"X-Sum": ["99"]}, "the request's trailer")
        world.sim.heal()


def test_pipelined(world):
    """requests sent at once are answered in order"""
    with world.client() as client:
        sent = b""
        for number in range(30):
            way = (HERE, LOCAL, PEER)[number % 3]
            if number % 4 == 3:
                sent += b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc" % url(way, "sink").encode()
            else:
                sent += b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n" % url(way, "bytes", "n=%d" % (number * 1000)).encode()
        client.send(sent)
        for number in range(30):
            answer = client.answer("POST" if number % 4 == 3 else "GET")
            equal(answer.status, 200, "request %d" % number)
            if number % 4 == 3:
                equal(answer.json()["bytes"], 3, "request %d" % number)
            else:
                check(answer.body == pattern(number * 1000), "request", number)


def test_connections_are_reused(world):
    """many requests need few connections to the servers"""
    mark = world.sim.mark()
    with world.client() as client:
        for number in range(60):
            equal(client.ask("GET", url((LOCAL, PEER)[number % 2], "bytes", "n=100")).status, 200, "status")
    seen = [r for r in world.sim.requests(since=mark) if "simbody" in r["target"]]
    equal(len(seen), 60, "requests")
    check(len({(r["server"], r["conn"]) for r in seen}) <= 6, "connections", len({r["conn"] for r in seen}))


def test_close(world):
    """Connection: close is honoured, by us and from HTTP/1.0 clients"""
    for head in ("GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "GET /version HTTP/1.0\r\nHost: x\r\n\r\n"):
        with world.client() as client:
            client.send(head)
            answer = client.answer()
            equal(answer.status, 200, repr(head))
            equal(client.at_end(), "closed", repr(head))
    with world.client() as client:  # the server's own close is for its connection only
        world.sim.fault("close-after", "a", "GET", "/sim/bytes", count=1)
        equal(client.ask("GET", "/sim/bytes?n=5").body, pattern(5), "closing answer")


def test_many_at_once(world):
    """64 clients down- and uploading at the same time get their own bytes"""
    failures = []

    def one(number):
        try:
            way = WAYS[number % 3][1]
            with world.client() as client:
                for turn in range(3):
                    size = 1000 + 7919 * (number + turn)
                    equal(client.ask("GET", url(way, "bytes", "n=%d&chunked=%d" % (size, turn % 2))).sha256(),
                          hashlib.sha256(pattern(size)).hexdigest(), "client %d" % number)
                    got = client.ask("POST", url(way, "sink"), pattern(size)).json()
                    equal(got["sha256"], hashlib.sha256(pattern(size)).hexdigest(), "client %d" % number)
        except Exception as error:  # told by the main thread
            failures.append("client %d: %r" % (number, error))

    threads = [threading.Thread(target=one, args=(n,)) for n in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    equal(failures, [], "failures")


def test_descriptors(world):
    """connections that are over leave no descriptor behind"""
    def descriptors():
        return {n: len(os.listdir("/proc/%d/fd" % p.child.pid)) for n, p in world.proxies.items()}
    for _ in range(3):
        world.ask("GET", PEER % "bytes")
    before = descriptors()
    for _ in range(50):
        world.ask("GET", url(PEER, "bytes", "n=10"))
    until(lambda: all(descriptors()[n] <= before[n] + 4 for n in before), "descriptors to be closed")


if __name__ == "__main__":
    fixture.main(globals())
