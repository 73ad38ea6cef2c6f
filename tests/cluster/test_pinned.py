# SPDX-License-Identifier: Apache-2.0
"""kube-apiservers and their mvproxies are replaced node by node, and no client notices: neither those that know one node only, as kubelets and
controllers do, nor those behind a load balancer.

Who asks: at each node, and through a balancer of connections, a raw reader and writer over HTTP/1.1; at the first node, and through the balancer,
client-go over HTTP/2 (tests/kube/workload). Each mvproxy hands its listening socket over to the next process, as mvproxy.socket does. A failure
is any answer but the right one, any connection that is refused or breaks, also where the client would ask again by itself. Excused, and counted, is
what a server had in its hands when it was killed: a write (a POST without Retry-After), a response that breaks off, a watch, once. A
server that stops in order has no such thing, and an mvproxy that hands over neither.
"""

import os
import time

from harness import rolling, waiting
from harness.api import config_map, config_maps, ensure_namespace, expect
from harness.balancer import Balancer
from harness.client import Client
from harness.handover import Sockets
from harness.informer import Informer
from harness.knowing import Asker, Ledger, Worker, in_hands
from harness.kubectl import kubeconfig
from harness.node import PORT
from harness.parts import part

BALANCER = ("127.0.0.1", 7443)  # an address that every server's certificate has
MOST_IN_HANDS = 3  # for one kill, of one client that asks for one thing at a time


class Steady(Worker):
    """Reads what is known, writes, reads what it wrote. node: the name of the only one that it asks, or None."""

    def __init__(self, name, client, node, collection, known, killed, ledger):
        super().__init__(name, ledger)
        self._collection, self._known, self._killed = collection, known, killed
        self._node = node
        self._asker = Asker(client)

    def _ask(self, method, path, right, body=None):
        asked = self._asker.try_once(method, path, body)
        self.ledger.count(self.name, asked)
        if asked.answer.status == right:
            return asked.answer
        if in_hands(asked) and self._killed.overlap(asked.begun, asked.ended, self._node):
            self.ledger.excuse(self.name, asked)
        else:
            self.ledger.accuse(self.name, "not %d" % right, asked)
        return None

    def turn(self):
        path, right = self._known
        read = self._ask("GET", path, 200)
        if read and read.body != right:
            self.ledger.accuse(self.name, "wrong bytes", read)
        name = "%s-%d" % (self._node or "balanced", self.turns)
        made = self._ask("POST", self._collection, 201, config_map(name, {"text": name}))
        if made:
            read = self._ask("GET", self._collection + "/" + name, 200)
            if read and read.body != made.body:
                self.ledger.accuse(self.name, "wrong bytes", read)
            self._ask("DELETE", self._collection + "/" + name, 200)


def _end_server(node, killed, kill):
    if kill:
        with killed.open(node):
            node.apiserver.kill()
            time.sleep(0.5)  # the window is for what was under way
    else:
        status = node.apiserver.stop(rolling.STOP_LIMIT)
        assert status == 0, "%s ended with %s" % (node.apiserver.name, status)


def _replace(node, version, sockets, order, killed):
    """The server, and its mvproxy before it, meanwhile, or after it."""
    if order == "before":
        sockets.hand_over(node)
    _end_server(node, killed, order == "killed")
    finish = sockets.begin(node) if order == "meanwhile" else None
    node.start_apiserver(version)
    waiting.until(lambda: node.direct().get("/readyz").status == 200, "%s to be ready" % node.name, 120)
    if order == "after":
        finish = sockets.begin(node)
    if finish:
        finish()


def _active(node):
    return node.metric("mvproxy_local_failover_active")


def _judge(name, verdict, killed, ledger, watches):
    """What client-go saw. watches: how many may have broken off."""
    print("# client-go, %s: %s" % (name, {k: v if isinstance(v, int) else len(v) for k, v in verdict.items()}))
    for failed in verdict["failures"] + verdict["ridden"]:
        if failed["code"] in (0, 503) and killed.overlap(failed["begun"], failed["ended"]):
            ledger.excuse("client-go, " + name, failed)
        else:
            ledger.accuse("client-go, " + name, "failed", failed)
    for wrong in verdict["wrong"]:
        if wrong.startswith("a watch ended with") and watches > 0:
            watches -= 1
            ledger.excuse("client-go, " + name, wrong)
        else:
            ledger.accuse("client-go, " + name, "wrong", wrong)


class Load:
    """Everybody who asks."""

    def __init__(self, cluster, killed, ledger):
        self._cluster, self._killed, self._ledger = cluster, killed, ledger
        first = cluster.nodes[0].direct()
        collection = config_maps(ensure_namespace(first, "pinned"))
        expect(first.request("POST", collection, config_map("fixed", {"a": "b"})), 201)
        known = collection + "/fixed", expect(first.get(collection + "/fixed"), 200).body
        ca, who = cluster.pki.crt("ca"), cluster.credentials("admin")
        self._balancer = Balancer(*BALANCER, [(n.address, PORT) for n in cluster.nodes])
        self.workers = [Steady("pinned to " + n.name, n.proxied(), n.name, collection, known, killed, ledger) for n in cluster.nodes]
        self.workers.append(Steady("balanced", Client(*BALANCER, ca, **who), None, collection, known, killed, ledger))
        balanced = kubeconfig(os.path.join(cluster.dir, "balanced.kubeconfig"), "https://%s:%d" % BALANCER, ca, **who)
        self._configs = {"pinned": cluster.nodes[0].kubeconfig(), "balanced": balanced}
        self._informers = {}

    def __enter__(self):
        self._balancer.start()
        for name, config in self._configs.items():
            space = ensure_namespace(self._cluster.nodes[0].direct(), name + "-http2")
            self._informers[name] = Informer(part("workload"), name, config, "configmaps.v1.", {**config_map(""), "metadata": {}},
                                             self._cluster.logs, namespace=space)
        for informer in self._informers.values():
            informer.await_synced()
        for worker in self.workers:
            worker.start()
        return self

    def await_progress(self):
        before = [w.turns for w in self.workers]
        waiting.until(lambda: all(w.turns > n + 5 or not w.is_alive() for w, n in zip(self.workers, before)), "everybody goes on")
        for informer in self._informers.values():
            informer.await_progress(2)

    def __exit__(self, failed, *_):
        for worker in self.workers:
            worker.end()
        for name, informer in self._informers.items():
            if failed:
                informer.kill()
            else:
                _judge(name, informer.end(), self._killed, self._ledger, 1)
        self._balancer.stop()


def test_nobody_notices(cluster):
    """server and proxy of each node are replaced, one server is killed: no 5xx, no reset, no refusal, pinned or not, HTTP/1.1 and HTTP/2"""
    ledger, killed = Ledger(), rolling.Windows()
    with Sockets(cluster) as sockets, Load(cluster, killed, ledger) as load:
        steps = list(zip(cluster.nodes, ("before", "after", "meanwhile"))) + [(cluster.nodes[0], "killed")]
        for node, order in steps:
            before = node.metric("mvproxy_local_failover_requests_total") if order == "killed" else 0
            load.await_progress()
            _replace(node, cluster.setup.upgrade, sockets, order, killed)
            waiting.until(lambda n=node: _active(n) == 0, "mvproxy at %s to go back to its own server" % node.name)
            load.await_progress()
            if order in ("before", "killed"):  # else it is another process that counts
                went = node.metric("mvproxy_local_failover_requests_total") - before
                print("# %s, %s: %d requests of its clients went to peers" % (node.name, order, went), flush=True)
                assert went > 0, node.name
    print("# %s" % dict(sorted(ledger.counts.items())))
    print("".join("# in the server's hands: %s\n" % e[:300].replace("\n", " ") for e in ledger.excused), end="")
    assert not ledger.wrong, "%d failures:\n%s" % (len(ledger.wrong), "\n".join(w[:600] for w in ledger.wrong[:20]))
    assert len(ledger.excused) <= MOST_IN_HANDS * 2, ledger.excused
