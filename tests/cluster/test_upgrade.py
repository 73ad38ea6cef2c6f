# SPDX-License-Identifier: Apache-2.0
"""A rolling upgrade, node by node, and back, under load all the time; kube-apiserver and mvproxy restarted in every order.

Who asks, and what is a failure:

- A raw reader at each node (no balancer, harness/knowing.py) reads ConfigMaps, the resource that only new servers have, and /apis.
  Wrong are: one byte that is not as it was written; a 404 for what some server has, or had until a moment ago (SkewTruth tells the moments: 404 is
  right until the first new server is started, and again when the last one's successor is); 200 for what nobody serves; a group/version that
  vanishes from discovery while a server that serves it only restarts (Stale is fine); 503 without Retry-After; 503 for what every
  server has, or no answer, at a node where nobody works; 503 for anything while nobody works anywhere.
- A raw writer through a TCP balancer over all nodes makes, reads, changes and deletes objects. It rides through what client-go
  rides through (429 and 5xx with Retry-After, a GET without an answer), ten times. Wrong is any other answer than the right one, byte for
  byte: a 409 after a 503, too, for what was answered with 503 must not have happened.
- kubectl of both versions does the same; client-go itself (tests/kube/workload) too, over HTTP/2 and HTTP/1.1, and follows with informers what it
  writes: nothing lost, nothing doubled, in order, the cache in the end as what is stored.

Excused, and counted, is one thing only: a request that may not be repeated (no GET), of which nobody knows whether it was carried out, while a node
is being worked on: it ends without an answer (EOF, reset, refused), since a TCP balancer may have chosen that node at that
moment. An mvproxy that is there has no doubts: servers stop gracefully here. And for what only new servers have: a 503 that outlasts ten tries, and kubectl not finding the resource type (that is what it makes of Stale), while not a single new server, or its
mvproxy, is there.
"""

import json
import os
import random
import re
import shutil
import string
import time

from harness import rolling, waiting
from harness.api import AGGREGATED, config_map, config_maps, ensure_namespace, expect
from harness.balancer import Balancer
from harness.client import Client
from harness.informer import Informer
from harness.knowing import Ledger, NodeReader, SkewTruth, Worker, Writer
from harness.kubectl import Kubectl, kubeconfig
from harness.node import PORT
from harness.parts import part
from harness.runner import limit

BALANCER = ("127.0.0.1", 7443)  # an address that every server's certificate has
NO_ANSWER = re.compile(r"EOF|connection reset|connection refused|broken pipe|GOAWAY|connection lost|closed network connection|"
                       r"server closed idle connection")
KUBECTL_NO_ANSWER = re.compile(r'(Post|Put|Patch|Delete) "https://[^"]+": .*(%s)' % NO_ANSWER.pattern)


def _unique(size):
    return "".join(random.choice(string.ascii_letters) for _ in range(size))


def _make_map(name):
    return config_map(name, {"text": _unique(random.choice((10, 1000, 40000))), "name": name})


def _versions(client):
    items = expect(client.get("/apis", Accept=AGGREGATED), 200).json()["items"]
    return {"%s/%s" % (g["metadata"]["name"], v["version"]) for g in items for v in g["versions"]}


class KubectlLoop(Worker):
    """create, get, delete; and the skewed resource, while it is served."""

    def __init__(self, load, version):
        super().__init__("kubectl " + version, load.ledger)
        self._load = load
        self._program = load.cluster.program(version, "kubectl")

    def _run(self, *args, stdin=None, outage=None):
        """Its output, None if it failed. outage: Windows in which a 503 is excused."""
        begun = time.time()
        kubectl = Kubectl(self._program, self._load.kubeconfig, self._load.cluster.dir)
        done = kubectl.run("--namespace", self._load.namespace, *args, stdin=stdin, timeout=150)
        shutil.rmtree(kubectl.cache, ignore_errors=True)
        self.ledger.count_plain("%s %s" % (self.name, "ok" if done.status == 0 else "failed"))
        if done.status == 0:
            return done.out
        if KUBECTL_NO_ANSWER.search(done.err) and self._load.windows.overlap(begun, time.time()) or \
                outage and outage.overlap(begun, time.time()):
            self.ledger.excuse(self.name, done)
        else:
            self.ledger.accuse(self.name, "failed", done)
        return None

    def turn(self):
        name = "%s-%d" % (self.name.replace(" ", "-"), self.turns)
        text = _unique(200)
        if self._run("create", "configmap", name, "--from-literal=text=" + text) is None:
            return
        read = self._run("get", "configmap", name, "--output=json")
        if read is not None and json.loads(read)["data"] != {"text": text}:
            self.ledger.accuse(self.name, "wrong contents", read)
        self._run("delete", "configmap", name)
        before = self._load.skew.phase
        if self._load.skew.phases(before) == {"served"}:
            out = self._run("get", self._load.cluster.skew.kubectl, "--output=name", outage=self._load.away)
            phases = self._load.skew.phases(before)
            if out is not None and phases == {"served"} and "/fixed-0\n" not in out:
                self.ledger.accuse(self.name, "not found", out)


class Everybody:
    """The whole load."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.namespace = ensure_namespace(cluster.nodes[0].direct(), "upgrade")
        for name in ("informer-2", "informer-1"):
            ensure_namespace(cluster.nodes[0].direct(), name)
        self.windows = rolling.Windows()
        self.away = rolling.Windows()  # no way to a server that has the skewed resource
        self.ledger = Ledger()
        self.balancer = Balancer(*BALANCER, [(n.address, PORT) for n in cluster.nodes])
        who = cluster.credentials("admin")
        ca = cluster.pki.crt("ca")
        self.kubeconfig = kubeconfig(os.path.join(cluster.dir, "balancer.kubeconfig"), "https://%s:%d" % BALANCER, ca, **who)
        self.skew = SkewTruth(cluster.skew, _versions(cluster.nodes[0].direct()))
        known = self._store(config_maps(self.namespace), [_make_map("fixed-%d" % n) for n in range(12)])
        self._workers = [NodeReader(n, known, self.skew, self.windows, self.ledger) for n in cluster.nodes]
        self._workers.append(Writer(Client(*BALANCER, ca, **who), config_maps(self.namespace), _make_map, self.windows, self.ledger))
        self._workers += [KubectlLoop(self, version) for version in cluster.kubectls]
        self._informers = []
        self._program = part("workload")

    def _store(self, collection, things, node=None):
        """Made, and {path: bytes} of how they read."""
        client = (node or self.cluster.nodes[0]).direct()
        found = {}
        for thing in things:
            expect(client.request("POST", collection, thing), 201)
            path = "%s/%s" % (collection, thing["metadata"]["name"])
            found[path] = expect(client.get(path), 200).body
        return found

    def store_skewed(self, node):
        skew = self.cluster.skew
        self.skew.set_things(self._store(skew.collection, [skew.thing("fixed-%d" % n) for n in range(3)], node))

    def follow(self, name, resource, thing, **more):
        thing = {**thing, "metadata": {}}
        self._informers.append(Informer(self._program, name, self.kubeconfig, resource, thing, self.cluster.logs, **more))
        self._informers[-1].await_synced()

    def await_progress(self):
        """Everybody has asked again, and been answered."""
        before = [w.turns for w in self._workers]
        waiting.until(lambda: all(w.turns >= b + 2 or not w.is_alive() for w, b in zip(self._workers, before)),
                      "every worker goes on", 120)
        for informer in self._informers:
            informer.await_progress()

    def judge_informer(self, name):
        informer = next(i for i in self._informers if i.name == name)
        self._informers.remove(informer)
        verdict = informer.end()
        print("# informer %s: %s" % (name, {k: v if isinstance(v, int) else len(v) for k, v in verdict.items()}))
        for wrong in verdict["wrong"]:
            self.ledger.accuse("informer " + name, "wrong", wrong)
        for failed in verdict["failures"]:
            when = failed["begun"], failed["ended"]
            unknown = failed["verb"] != "get" and failed["code"] == 0 and NO_ANSWER.search(failed["text"])
            if unknown and self.windows.overlap(*when) or \
                    failed["code"] == 503 and name == "skewed" and self.away.overlap(*when):
                self.ledger.excuse("informer " + name, failed)
            else:
                self.ledger.accuse("informer " + name, "client-go gave up", failed)
        for ridden in verdict["ridden"]:
            if ridden["code"] == 404:
                self.ledger.accuse("informer " + name, "false 404", ridden)

    def __enter__(self):
        self.balancer.start()
        for worker in self._workers:
            worker.start()
        return self

    def __exit__(self, *_):
        for worker in self._workers:
            worker.end()
        for informer in self._informers:
            informer.kill()
        self.balancer.stop()

    def judge(self):
        print("# %s" % dict(sorted(self.ledger.counts.items())))
        print("".join("# excused: %s\n" % e[:300].replace("\n", " ") for e in self.ledger.excused), end="")
        wrong = self.ledger.wrong
        assert not wrong, "%d failures:\n%s" % (len(wrong), "\n".join(w[:600] for w in wrong[:40]))


def _await_everywhere(cluster, load, status):
    """Until every mvproxy answers so for the skewed resource, and discovery agrees."""
    for node in cluster.nodes:
        client = node.proxied()
        waiting.until(lambda c=client: c.get(cluster.skew.collection).status == status,
                      "%d for %s at %s" % (status, cluster.skew.resource, node.name), 120)
        waiting.until(lambda c=client: (cluster.skew.group_version in _versions(c)) == (status == 200),
                      "discovery of %s at %s" % (cluster.skew.group_version, node.name), 120)
    load.await_progress()


def _change(load, node, version, order):
    with load.windows.open(node):
        order(node, version)
        rolling.await_node(node)


def _restart_proxy(load, node, sole):
    """sole: whether this is the only way to the skewed resource."""
    with load.windows.open(node):
        if sole:
            with load.away.open(node):
                rolling.restart_proxy(node)
        else:
            rolling.restart_proxy(node)


def _upgrade(cluster, load, version, orders):
    first = cluster.nodes[0]
    load.skew.enter("appearing")
    _change(load, first, version, orders[0])
    load.skew.also_everywhere(_versions(first.direct()))
    load.store_skewed(first)
    if "no gate" in cluster.traits:
        # Without mvproxy the others answer with the false 404 that all this is about.
        expect(cluster.nodes[1].direct().get(cluster.skew.collection), 404)
    _await_everywhere(cluster, load, 200)
    load.skew.enter("served")
    load.follow("skewed", cluster.skew.kubectl, cluster.skew.thing(""), http1=True)
    for node in cluster.nodes:
        _restart_proxy(load, node, node is first)
        load.await_progress()
    for node, order in zip(cluster.nodes[1:], orders[1:]):
        _change(load, node, version, order)
        load.await_progress()


def _downgrade(cluster, load, version, orders):
    last = cluster.nodes[0]
    for node, order in zip(reversed(cluster.nodes[1:]), orders):
        _change(load, node, version, order)
        load.await_progress()
    load.judge_informer("skewed")
    # It restarts and is what it was: everything that only this server has is only away.
    with load.away.open(last):
        _change(load, last, last.spec.version, rolling.server_alone)
        load.await_progress()
        _await_everywhere(cluster, load, 200)
    # Now it restarts and is old. Until then it must be 503.
    load.skew.leave_with(last)
    with load.away.open(last):
        _change(load, last, version, orders[-1])
        _await_everywhere(cluster, load, 404)
    load.skew.enter("gone")


@limit(1500)
def test_rolling(cluster):
    """up node by node and down again under load: not a false 404, not a wrong byte, no error that client-go does not ride through"""
    old, new = cluster.nodes[0].spec.version, cluster.setup.upgrade
    up = [rolling.together, rolling.proxy_first, rolling.server_alone]
    down = [rolling.server_first, rolling.together, rolling.proxy_first]
    if cluster.setup.name != "upgrade":  # so that two setups have every order in both directions
        up, down = down, up
    with Everybody(cluster) as load:
        load.follow("http2", "configmaps.v1.", config_map(""), namespace="informer-2")
        load.follow("http1", "configmaps.v1.", config_map(""), namespace="informer-1", http1=True)
        load.await_progress()
        _upgrade(cluster, load, new, up)
        _downgrade(cluster, load, old, down)
        load.await_progress()
        load.judge_informer("http2")
        load.judge_informer("http1")
    load.judge()
