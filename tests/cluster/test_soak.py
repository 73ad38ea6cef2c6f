# SPDX-License-Identifier: Apache-2.0
"""Rounds of change at random, by a seed: in each one kube-apiserver comes back as another release, or with other groups, versions and
resources, stopped in order or killed, with its mvproxy or without; clients at every node ask all the time, and are told what each of them saw.

SOAK_ROUNDS (4) and SOAK_SEED (drawn, and printed) come from contrib/soak. A failure is: a 404 for what a server serves that nobody works on; a
503 for it at a node whose mvproxy is there, or any without Retry-After; no answer there; wrong bytes; a watch event lost or doubled. Excused, and
counted, is what a server had in its hands when it was killed, and a watch that breaks off. Of client-go's own requests those that failed are counted
only: the same is asked without client-go, and judged.
"""

import os
import random
import threading
import time

from harness import rolling, waiting
from harness.api import config_map, config_maps, ensure_namespace, expect
from harness.informer import Informer
from harness.knowing import Asker, Ledger, Worker, in_hands, ridden
from harness.node import numbers
from harness.parts import part
from harness.runner import limit

KNOWN_AFTER = 2.0  # seconds from a change of what is served to when everybody must know it
# What a server may come back without: a whole group, one version of a group, a resource of a version, a subresource.
FLAGS = {"batch/v1": "--runtime-config=batch/v1=false", "autoscaling/v1": "--runtime-config=autoscaling/v1=false",
         "cronjobs": "--runtime-config=batch/v1/cronjobs=false", "pods/resize": "--feature-gates=InPlacePodVerticalScaling=false", "": None}
RESIZE_IS_LOCKED = (1, 35)  # since when that gate cannot be closed
# Who serves it: the newer release, or all, and without what it goes. Besides, only the newer one serves what is skewed.
PATHS = {"/apis/batch/v1/jobs": ("all", "batch/v1"), "/apis/batch/v1/cronjobs": ("all", "batch/v1", "cronjobs"),
         "/apis/autoscaling/v1/horizontalpodautoscalers": ("all", "autoscaling/v1"),
         "/api/v1/namespaces/soak/pods/fixed/resize": ("all", "pods/resize"),
         "/apis/apps/v1/deployments": ("all",), "/api/v1/namespaces/default": ("all",)}
NEW_IN_1_34 = "/apis/storage.k8s.io/v1/volumeattributesclasses"


def _paths(cluster, versions):
    found = {**PATHS, cluster.skew.everywhere: ("newer",)}
    if numbers(versions[0]) < (1, 34):
        found[NEW_IN_1_34] = ("newer",)
    return found


class Truth:
    """Who serves what, since when; and who is being worked on."""

    def __init__(self, newer, paths):
        self._newer, self.paths, self._lock = newer, paths, threading.Lock()
        self._serving = {}  # node name: (since, what is off, release)
        self.proxies = rolling.Windows()
        self.killed = rolling.Windows()

    def begins(self, node):
        with self._lock:
            self._serving.pop(node.name, None)

    def ends(self, node, off):
        with self._lock:
            self._serving[node.name] = (time.time(), off, node.spec.version)

    def serves(self, path, begun):
        """Whether a server does that was there long before, and is still."""
        who, *goes_with = self.paths[path]
        with self._lock:
            return any(since + KNOWN_AFTER < begun and off not in goes_with and (who != "newer" or version == self._newer)
                       for since, off, version in self._serving.values())


class Seer(Worker):
    """At one node: what comes and goes, and objects of its own."""

    def __init__(self, node, collection, truth, ledger):
        super().__init__("client at " + node.name, ledger)
        self._node, self._truth, self._collection = node, truth, collection
        self._asker = Asker(node.proxied())

    def _judge(self, asked, rights, expected):
        """Whether it is what it has to be. expected: some server that nobody works on could have answered."""
        self.ledger.count(self.name, asked)
        answer = asked.answer
        if answer.status in rights:
            return True
        if self._truth.proxies.overlap(asked.begun, asked.ended, self._node.name) and (answer.status == 0 or ridden(asked)):
            return False
        if in_hands(asked) and self._truth.killed.overlap(asked.begun, asked.ended):
            self.ledger.excuse(self.name, asked)
        elif expected or answer.status not in (404, 503) or answer.status == 503 and not ridden(asked):
            self.ledger.accuse(self.name, "not %s" % "/".join(map(str, rights)), asked)
        return False

    def turn(self):
        path = sorted(self._truth.paths)[self.turns % len(self._truth.paths)]
        asked = self._asker.try_once("GET", path)
        self._judge(asked, (200,), self._truth.serves(path, asked.begun))
        name = "%s-%d" % (self._node.name, self.turns)
        made = self._asker.try_once("POST", self._collection, config_map(name, {"text": name}))
        if self._judge(made, (201,), True):
            path = self._collection + "/" + name
            read = self._asker.try_once("GET", path)
            if self._judge(read, (200,), True) and read.answer.body != made.answer.body:
                self.ledger.accuse(self.name, "wrong bytes", read)
            self._judge(self._asker.try_once("DELETE", path), (200,), True)


def _change(node, truth, version, off, kill, proxy):
    truth.begins(node)
    node.spec.flags = [f for f in node.spec.flags if f not in FLAGS.values()] + [f for f in [FLAGS[off]] if f]
    if kill:
        with truth.killed.open(node):
            node.apiserver.kill()
            time.sleep(0.5)
    else:
        status = node.apiserver.stop(rolling.STOP_LIMIT)
        assert status == 0, "%s ended with %s" % (node.apiserver.name, status)
    if proxy:
        with truth.proxies.open(node):
            node.mvproxy.stop(rolling.STOP_LIMIT)
            node.start_mvproxy()
            node.start_apiserver(version)
            rolling.await_node(node)
    else:
        node.start_apiserver(version)
        rolling.await_node(node)
    truth.ends(node, off)


@limit(7200)
def test_rounds(cluster):
    """random rounds of upgrades, downgrades, APIs that come and go, stops and kills: what clients at every node saw"""
    rounds, seed = int(os.environ.get("SOAK_ROUNDS") or 4), int(os.environ.get("SOAK_SEED") or random.randrange(1 << 31))
    dice = random.Random(seed)
    versions = [cluster.nodes[0].spec.version, cluster.setup.upgrade]
    flags = sorted(f for f in FLAGS if f != "pods/resize" or numbers(versions[1]) < RESIZE_IS_LOCKED)
    truth, ledger = Truth(versions[1], _paths(cluster, versions)), Ledger()
    print("# %d rounds, --seed %d" % (rounds, seed), flush=True)
    first = cluster.nodes[0].direct()
    collection = config_maps(ensure_namespace(first, "soak"))
    expect(first.request("POST", "/api/v1/namespaces/soak/pods", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "fixed"}, "spec": {
        "containers": [{"name": "main", "image": "example.com/none"}]}}), 201)
    informers = []
    for node in cluster.nodes:
        truth.ends(node, "")
        space = ensure_namespace(first, "soak-" + node.name)
        informers.append(Informer(part("workload"), node.name, node.kubeconfig(), "configmaps.v1.", {**config_map(""), "metadata": {}},
                                  cluster.logs, namespace=space))
    workers = [Seer(n, collection, truth, ledger) for n in cluster.nodes]
    kills = 0
    try:
        for one in informers:
            one.await_synced()
        for worker in workers:
            worker.start()
        for number in range(1, rounds + 1):
            node, version, off = dice.choice(cluster.nodes), dice.choice(versions), dice.choice(flags)
            kill, proxy = dice.random() < 0.3, dice.random() < 0.3
            kills += kill
            begun, before, wrong = time.time(), ledger.counts.copy(), len(ledger.wrong)
            _change(node, truth, version, off, kill, proxy)
            turns = [w.turns for w in workers]
            waiting.until(lambda t=turns: all(w.turns > n + len(truth.paths) or not w.is_alive() for w, n in zip(workers, t)), "everybody goes on")
            saw = {}
            for what, n in (ledger.counts - before).items():
                saw[what.rsplit(" ", 1)[1]] = saw.get(what.rsplit(" ", 1)[1], 0) + n
            print("# round %d, %.0f s: %s %s, back as %s%s%s: %s%s" % (
                number, time.time() - begun, node.name, "killed" if kill else "stopped", version, " without " + off if off else "",
                ", mvproxy restarted" if proxy else "", ", ".join("%d times %s" % (n, s) for s, n in sorted(saw.items())),
                ", %d WRONG" % (len(ledger.wrong) - wrong) if len(ledger.wrong) > wrong else ""), flush=True)
    finally:
        for worker in workers:
            worker.end()
        verdicts = {one.name: one.end() for one in informers}
    broken = 0
    for name, verdict in verdicts.items():
        off = [wrong for wrong in verdict["wrong"] if wrong.startswith("a watch ended with")]
        broken += len(off)
        for wrong in verdict["wrong"]:
            if wrong not in off:
                ledger.accuse("client-go at " + name, "wrong", wrong)
        print("# client-go at %s: %s; wrong: %d; excused: %d watches that broke off; not judged: %d requests of its own that failed, %d that it made again" % (
            name, ", ".join("%d %s" % (n, what) for what, n in verdict.items() if isinstance(n, int)), len(verdict["wrong"]) - len(off), len(off),
            len(verdict["failures"]), len(verdict["ridden"])))
    print("".join("# excused, in a server's hands: %s\n" % e[:200].replace("\n", " ") for e in ledger.excused), end="")
    print("# excused: %d watches broke off, at %d kills" % (broken, kills))
    assert not ledger.wrong, "%d failures with --seed %d:\n%s" % (len(ledger.wrong), seed, "\n".join(w[:500] for w in ledger.wrong[:20]))
    for node in cluster.nodes:
        expect(node.proxied().get("/api/v1/namespaces/soak"), 200)
