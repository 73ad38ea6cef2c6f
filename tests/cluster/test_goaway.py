# SPDX-License-Identifier: Apache-2.0
"""GOAWAY as servers behind a balancer send it, in answer to one of fifty requests over HTTP/2: nobody notices.

Every kube-apiserver of this cluster has --goaway-chance at the highest value it takes (harness/setups.py). mvproxy asks over
HTTP/2 for watches, and for all that may not be repeated: most requests here are such.
"""

import contextlib
import json
import signal
import threading

from harness import cluster as _harness  # noqa: F401 # finds tests/lib
from harness import waiting
from harness.api import WHOAMI, config_map, config_maps, ensure_namespace, expect, whoami
from harness.informer import Informer
from harness.node import PORT
from harness.parts import part
from harness.runner import needs
from rawh2 import RawH2
from rawhttp import Raw

REQUESTS = 400  # of each raw client
AT_ONCE = 20
WRITES = 200  # of each client of client-go at least, which reads as well
PAUSE = "5ms"  # between two of its requests
OBJECTS = 20  # of each kind, by kubectl
JSON = {"Content-Type": "application/json"}


def _posts(cluster):
    """(path, body, how the answer is known): nothing of it is stored."""
    thing = cluster.skew.thing("dry")
    return ((WHOAMI, whoami(), b"kubernetes-admin"), (cluster.skew.collection + "?dryRun=All", thing, b'"uid"'))


def _over_http1(node, path, body, known):
    client = node.proxied()
    with contextlib.closing(client.connect()) as connection:
        for _ in range(REQUESTS):
            answer = expect(client.request("POST", path, body, connection=connection), 201)
            assert known in answer.body, answer


def _over_http2(cluster, node, path, body, known):
    """Many streams at a time on one connection, which nothing ends."""
    pki, text = cluster.pki, json.dumps(body).encode()
    with Raw((node.address, PORT), pki.crt("ca"), (pki.crt("admin"), pki.key("admin")), alpn=("h2",)) as conn:
        client, streams = RawH2(conn), []
        for _ in range(REQUESTS):
            streams.append(client.request("POST", path, text, fields=JSON))
            if len(streams) == AT_ONCE:
                answer = client.whole(streams.pop(0))
                assert known in answer, answer[:500]
        for stream in streams:
            answer = client.whole(stream)
            assert known in answer, answer[:500]
        assert client.goaway is None, client.goaway


def _by_kubectl(cluster, kubectl):
    things = [cluster.skew.thing("goaway-%d" % n) for n in range(OBJECTS)] + [config_map("goaway-%d" % n) for n in range(OBJECTS)]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": things})
    for argv, word in ((["apply", "--server-side"], " serverside-applied"), (["get", "--output=name"], "/goaway-"),
                       (["delete", "--wait=false"], " deleted")):
        done = kubectl.run(*argv, "--filename=-", stdin=text, timeout=150)
        assert done.status == 0 and done.out.count(word) == 2 * OBJECTS, done


class _Together:
    """Functions in threads of their own; leaving `with` waits for them, and raises what one of them has raised."""

    def __init__(self):
        self._threads, self._wrong = [], []

    def start(self, function, *arguments):
        def run():
            try:
                function(*arguments)
            except Exception as error:  # pylint: disable=broad-except # it is raised again
                self._wrong.append(error)
        self._threads.append(threading.Thread(target=run, daemon=True))
        self._threads[-1].start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for thread in self._threads:
            thread.join()
        if self._wrong:
            raise self._wrong[0]


@contextlib.contextmanager
def _informers(cluster, node, name, *protocols):
    """client-go writes and watches what the node's own server has, and what only a peer has, until `with` is left; then it is judged.

    protocols: for each, whether it is HTTP/1.1 and not HTTP/2.
    """
    program, config = part("workload"), node.kubeconfig()
    maps, running = config_map(""), []
    maps["metadata"] = {}
    thing = {**cluster.skew.thing(""), "metadata": {}}
    try:
        for http1 in protocols:
            one = "%s-%s" % (name, "http1" if http1 else "http2")
            namespace = ensure_namespace(node.direct(), one)
            running.append(Informer(program, one, config, "configmaps.v1.", maps, cluster.logs, namespace, http1, PAUSE))
        # There is one of each name without a namespace: one writer only.
        running.append(Informer(program, name + "-skewed", config, cluster.skew.kubectl, thing, cluster.logs, None, protocols[0], PAUSE))
        for one in running:
            one.await_synced()
        yield
        for one in running:
            waiting.until(lambda i=one: i.progress["writes"] >= WRITES, "writes of " + one.name, 200)
        for one in running:
            verdict = one.end()
            print("# %s: %s" % (one.name, {k: v if isinstance(v, int) else len(v) for k, v in verdict.items()}))
            assert not verdict["wrong"] and not verdict["failures"] and not verdict["ridden"], verdict
    finally:
        for one in running:
            one.kill()
        expect(cluster.new.direct().request("DELETE", cluster.skew.collection), 200)
        for http1 in protocols:
            expect(node.direct().request("DELETE", config_maps("%s-%s" % (name, "http1" if http1 else "http2"))), 200)


def _sent_away(node):
    """How often kube-apiserver there has ended a connection of its mvproxy so."""
    return node.metric("mvproxy_back_connections_closed_total", reason="goaway", server=node.name)


@needs("goaway")
def test_servers(cluster):
    """servers that often send GOAWAY: no request fails of thousands here and at a peer, over HTTP/1.1 and HTTP/2, and no event of a watch is lost"""
    node, ends = cluster.old, (cluster.old, cluster.new)
    before = [_sent_away(n) for n in ends]
    with _informers(cluster, node, "goaway", True, False), _Together() as all_of_them:
        for path, body, known in _posts(cluster):
            all_of_them.start(_over_http1, node, path, body, known)
            all_of_them.start(_over_http2, cluster, node, path, body, known)
        all_of_them.start(_by_kubectl, cluster, node.kubectl(cluster.kubectls[-1]))
    for end, number in zip(ends, before):
        seen = _sent_away(end) - number
        print("# GOAWAY of kube-apiserver at %s: %d connections" % (end.name, seen))
        assert seen > 0, "no connection of %s ended by GOAWAY" % end.name


@needs("goaway")
def test_our_own(cluster):
    """mvproxy's own goaway-chance besides: client-go and kubectl go on on other connections"""
    node = cluster.old
    before, log = node.metric("mvproxy_front_closed_total", reason="sent_away"), len(node.mvproxy.log_text())
    node.write_config(goaway_chance="0.02")
    node.mvproxy.signal(signal.SIGHUP)
    try:
        waiting.until(lambda: "Reloaded" in node.mvproxy.log_text()[log:], "the reload")
        with _informers(cluster, node, "own", False):
            _by_kubectl(cluster, node.kubectl(cluster.kubectls[-1]))
        assert node.metric("mvproxy_front_closed_total", reason="sent_away") > before, "no client was sent away"
    finally:
        node.write_config()
        node.mvproxy.signal(signal.SIGHUP)
