#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""HTTP/2 clients: the conformance test, and programs that people use, each as it is.

Environment: MVPROXY_TEST_BODY=MEGABYTES the size of the largest body, as in test_bodies.py.
"""

import glob
import hashlib
import json
import os
import shutil
import subprocess
import threading
import time

import fixture
from fixture import Skip, check, equal, until, unversioned
from rawh2 import RawH2
from rawhttp import pattern
from test_bodies import LARGEST, flat, large_hash, memory, pieces, told

MAPS = "/api/v1/namespaces/default/configmaps"
CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
PATIENCE = 300


def setup():
    return fixture.World(options={"v": 5}).start()


def run(argv, **more):
    done = subprocess.run(argv, capture_output=True, timeout=PATIENCE, check=False, **more)
    text = done.stdout.decode(errors="replace") + done.stderr.decode(errors="replace")
    check(done.returncode == 0, argv[0], "ended with", done.returncode, text[-3000:])
    return done


def need(name):
    path = shutil.which(name)
    if not path:
        raise Skip("no %s here" % name)
    return path


def h2spec():
    if os.environ.get("H2SPEC"):
        return os.environ["H2SPEC"]
    script = os.path.join(fixture.TREE, "contrib", "lib", "build-h2spec")
    done = subprocess.run([script], capture_output=True, timeout=PATIENCE, check=False)
    if done.returncode != 0:
        raise Skip("h2spec cannot be built here: " + done.stderr.decode(errors="replace").strip().splitlines()[-1])
    return done.stdout.decode().strip().splitlines()[-1]


def curl(world, path, *more, name="a", user="admin"):
    host, port = world.proxies[name].address
    return run([need("curl"), "-sS", "--http2", "--cacert", world.certs.crt("ca"), "--cert", world.certs.crt(user),
                "--key", world.certs.key(user), *more, "https://%s:%d%s" % (host, port, path)])


def test_conformance(world):
    """h2spec: every test passes"""
    host, port = world.proxies["a"].address
    done = run([h2spec(), "-h", host, "-p", str(port), "-t", "-k", "-o", "5", "--path", "/version"])
    last = done.stdout.decode().strip().splitlines()[-1]
    check(" 0 skipped, 0 failed" in last and not last.startswith("0 "), last)


def test_versions(world):
    """who offers HTTP/2 gets it, who does not gets HTTP/1.1"""
    for flag, wanted in (("--http2", "2"), ("--http1.1", "1.1")):
        done = curl(world, "/api", flag, "-o", "/dev/null", "-w", "%{http_version} %{response_code}")
        equal(done.stdout.decode(), wanted + " 200", flag)


def test_same_answers(world):
    """the same answers as over HTTP/1.1, from the local server, from the peer, and from mvproxy itself"""
    for path in ("/version", "/apis", "/api", MAPS, CLASSES, "/apis/nobody.example.com/v1/things"):
        over_h1 = world.ask("GET", path)
        body, _, code = curl(world, path, "-A", "", "-w", "\n%{response_code}").stdout.rpartition(b"\n")
        equal((int(code), unversioned(body)), (over_h1.status, unversioned(over_h1.body)), path)
    check(json.loads(curl(world, CLASSES).stdout)["kind"] == "DeviceClassList", "the peer's resource")


def test_bodies(world):
    """8 MB down and up, to the local server and to the peer"""
    size = 8 << 20
    data = pattern(size)
    digest = hashlib.sha256(data).hexdigest()
    upload = os.path.join(world.scratch, "upload")
    with open(upload, "wb") as out:
        out.write(data)
    for way in ("/sim/%s", CLASSES + "?simbody=%s"):
        mark = "&" if "?" in way else "?"
        for framing in ("", "&chunked=1"):
            got = curl(world, way % "bytes" + "%sn=%d%s" % (mark, size, framing)).stdout
            equal(hashlib.sha256(got).hexdigest(), digest, way + framing)
        for how in (("--data-binary", "@" + upload), ("-T", upload, "-X", "POST")):
            got = json.loads(curl(world, way % "sink", *how, "-H", "Expect:").stdout)
            equal((got["bytes"], got["sha256"]), (size, digest), way)


def test_too_large(world):
    """a 413 in the middle of an upload of 8 MB: curl reads it, from the local server and from the peer"""
    upload = os.path.join(world.scratch, "large")
    with open(upload, "wb") as out:
        out.write(pattern(8 << 20))
    for server, way in (("a", MAPS), ("b", CLASSES)):
        world.sim.fault("early", server, "POST", way, status=413)
        for _ in range(5):
            done = curl(world, way, "--data-binary", "@" + upload, "-H", "Expect:", "-w", "\n%{response_code}")
            body, _, code = done.stdout.rpartition(b"\n")
            equal((int(code), json.loads(body)["reason"]), (413, "RequestEntityTooLarge"), way)
        world.sim.heal()


def stream(world, path, *more, data=()):
    """curl over HTTP/2, fed from `data` piece by piece; (bytes, SHA-256, the last KB) of what came."""
    host, port = world.proxies["a"].address
    argv = [need("curl"), "-sSN", "--fail", "--http2", "--cacert", world.certs.crt("ca"), "--cert", world.certs.crt("admin"),
            "--key", world.certs.key("admin"), *more, "https://%s:%d%s" % (host, port, path)]
    total, got, last = hashlib.sha256(), 0, b""
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        def feed():
            for piece in data:
                child.stdin.write(piece)
            child.stdin.close()
        feeder = threading.Thread(target=feed)
        feeder.start()
        while True:
            piece = child.stdout.read1(1 << 20)
            if not piece:
                break
            total.update(piece)
            got, last = got + len(piece), (last + piece)[-1024:]
        feeder.join()
        equal(child.wait(), 0, "curl's status")
    return got, total.hexdigest(), last


def test_large(world):
    """the largest body there is, down and up, to the local server and to the peer: hashes compared, memory flat"""
    before, digest = memory(world), large_hash(LARGEST)
    for way in (MAPS, CLASSES):
        start = time.monotonic()
        equal(stream(world, "%s?simbody=bytes&n=%d" % (way, LARGEST))[:2], (LARGEST, digest), way)
        told("down", way, True, start)
        start = time.monotonic()
        answer = json.loads(stream(world, way + "?simbody=sink", "-X", "POST", "-T", "-", "-H", "Expect:", data=pieces(LARGEST))[2])
        equal((answer["bytes"], answer["sha256"]), (LARGEST, digest), way)
        told("up", way, False, start)
        flat(world, before, 16 << 10)
    if LARGEST > 1 << 30:
        print("# resident KiB before %s, after %s" % (before, memory(world)))


def raw(world, user="admin"):
    return RawH2(world.client(user=user, alpn=("h2",)))


def test_early_answer(world):
    """a 413 in the middle of an upload reaches the client that is still sending, and the connection's other streams go on"""
    client = raw(world)
    for server, way in (("a", MAPS), ("b", CLASSES)):
        world.sim.fault("early", server, "POST", way, status=413)
        beside = client.request("POST", "/sim/sink", pattern(30000), end=False)
        stream = client.request("POST", way, pattern(30000), end=False)
        check(b"RequestEntityTooLarge" in client.whole(stream), "answer", client.data)
        check(not client.ok(stream), "status")
        # Told not to send the rest (RFC 9113, section 8.1).
        client.until(lambda s=stream: s in client.resets)
        equal(client.resets[stream], 0, "code of RST_STREAM")
        client.body(stream, b"what was on its way", end=False)
        client.body(beside, b"", end=True)
        equal(json.loads(client.whole(beside))["sha256"], hashlib.sha256(pattern(30000)).hexdigest(), "the stream beside it")
        world.sim.heal()
    client.conn.close()


def test_watch_ends(world):
    """a watch's timeoutSeconds, the server's end and its death end the stream and not the connection; only the first two are whole"""
    client = raw(world)
    for server, path, resource in (("a", MAPS, "configmaps"), ("b", CLASSES, "deviceclasses.resource.k8s.io")):
        timed = client.request("GET", path + "?watch=true&timeoutSeconds=1&allowWatchBookmarks=true&resourceVersion=0")
        last = json.loads(client.whole(timed).splitlines()[-1])
        equal((last["type"], client.ok(timed)), ("BOOKMARK", True), "the last event")
        ended = client.request("GET", path + "?watch=true")
        check(client.ok(ended), "watch")
        world.sim.end_watches(resource)
        client.whole(ended)
        dies = client.request("GET", path + "?watch=true")
        check(client.ok(dies), "watch")
        world.sim.kill_server(server)
        client.until(lambda s=dies: s in client.resets or s in client.ended)
        check(dies not in client.ended, "a stream that broke off ended as if it were whole")
        world.sim.start_server(server)
        until(lambda p=path: world.ask("GET", p).status == 200, "the server to be back")
        check(client.ok(client.request("GET", path)), "the connection afterwards")
    client.conn.close()


def test_load(world):
    """h2load: hundreds of streams on few connections, all answered"""
    host, port = world.proxies["a"].address
    done = run([need("h2load"), "-n", "3000", "-c", "4", "-m", "100", "-H", "authorization: Bearer token-root",
                "https://%s:%d%s" % (host, port, MAPS)])
    text = done.stdout.decode()
    check("3000 succeeded, 0 failed, 0 errored" in text and "3000 2xx" in text, text)


def many(world, flag, *more):
    """1000 requests on as few connections as curl needs: how many that were."""
    done = curl(world, MAPS + "?n=[1-1000]", flag, "-o", "/dev/null", *more, "-w", "%{response_code} %{num_connects}\\n")
    lines = [line.split() for line in done.stdout.decode().splitlines()]
    equal([code for code, _ in lines], ["200"] * 1000, "codes")
    return sum(int(connects) for _, connects in lines)


def test_goaway_chance(world):
    """goaway-chance: HTTP/2 clients make new connections now and then, and lose nothing; HTTP/1.1 clients do not"""
    proxy = world.proxies["a"]
    equal(many(world, "--http2"), 1, "connections without it")
    mark = proxy.reload({"goaway-chance": "0.02"})
    proxy.await_log("Reloaded", mark)
    # The chance that none of so many is hit is 1 in 600 million.
    check(many(world, "--http2") > 1, "no request was the last of its connection")
    check(many(world, "--http2", "--parallel", "--parallel-max", "20") > 1, "nor among others under way")
    equal(many(world, "--http1.1"), 1, "connections over HTTP/1.1")
    until(lambda: (proxy.metric("mvproxy_front_closed_total", reason="sent_away") or 0) > 1, "it to be counted")
    proxy.reload({"goaway-chance": "0"})


def kubectl():
    found = os.environ.get("KUBECTL") or shutil.which("kubectl")
    cache = os.environ.get("MVPROXY_K8S_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "mvproxy", "k8s")
    found = found or next(iter(sorted(glob.glob(os.path.join(cache, "*", "kubectl")))[::-1]), None)
    if not found:
        raise Skip("no kubectl here (contrib/lib/build-kubernetes makes one)")
    return found


def ask_kubectl(world, *arguments, **more):
    host, port = world.proxies["a"].address
    certs = world.certs
    argv = [kubectl(), "--server=https://%s:%d" % (host, port), "--certificate-authority=" + certs.crt("ca"),
            "--client-certificate=" + certs.crt("admin"), "--client-key=" + certs.key("admin"), *arguments]
    env = dict(os.environ, HOME=world.scratch, KUBECONFIG="/dev/null")
    return run(argv, env=env, **more).stdout.decode()


def test_kubectl(world):
    """kubectl, which speaks HTTP/2 whenever it can: discovery, local and peer's resources"""
    mark = world.proxies["a"].log_mark()
    text = ask_kubectl(world, "api-resources")
    check("deviceclasses" in text and "configmaps" in text, text)
    world.sim.put("configmaps", {"apiVersion": "v1", "kind": "ConfigMap",
                                 "metadata": {"name": "over-h2", "namespace": "default"}})
    check("over-h2" in ask_kubectl(world, "get", "configmaps", "-o", "name"), "no configmap")
    equal(json.loads(ask_kubectl(world, "get", "--raw", CLASSES))["kind"], "DeviceClassList", "peer's")
    check('alpn="h2"' in world.proxies["a"].log()[mark:], "kubectl did not use HTTP/2")


def test_watch(world):
    """a watch over HTTP/2: events come while it is open, and it ends at the server when the client leaves"""
    host, port = world.proxies["a"].address
    argv = [need("curl"), "-sSN", "--http2", "--cacert", world.certs.crt("ca"), "--cert", world.certs.crt("admin"),
            "--key", world.certs.key("admin"), "https://%s:%d%s?watch=1" % (host, port, MAPS)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
        try:
            world.sim.put("configmaps", {"apiVersion": "v1", "kind": "ConfigMap",
                                         "metadata": {"name": "watched-h2", "namespace": "default"}})
            for line in child.stdout:
                if b"watched-h2" in line:
                    break
            else:
                raise fixture.Failure("the watch ended without the event")
        finally:
            child.kill()
    until(lambda: world.proxies["a"].metric("mvproxy_front_requests_in_flight") == 0, "the watch to be over")


if __name__ == "__main__":
    fixture.main(globals())
