"""kube-apiservers are replaced node by node, and clients that know one node only, as kubelets and controllers do, do not notice.

Who asks: at each node a raw reader and writer over HTTP/1.1 and, at the first, client-go over HTTP/2 (tests/kube/workload). mvproxy stays;
its own restarts are test_upgrade's. A failure is any answer but the right one, any connection that is refused or breaks, also where the client
would ask again by itself. Excused, and counted, is what a server had in its hands when it was killed: a write (a POST without Retry-After), a
response that breaks off, a watch, once. A server that stops in order has no such thing.
"""

import time

from harness import rolling, waiting
from harness.api import config_map, config_maps, ensure_namespace, expect
from harness.informer import Informer
from harness.knowing import Asker, Ledger, Worker, in_hands
from harness.parts import part
from harness.runner import limit

MOST_IN_HANDS = 3  # for one kill, of one client that asks for one thing at a time


class Pinned(Worker):
    """Reads what is known, writes, reads what it wrote."""

    def __init__(self, node, collection, known, killed, ledger):
        super().__init__("pinned to " + node.name, ledger)
        self._collection, self._known, self._killed = collection, known, killed
        self._node = node
        self._asker = Asker(node.proxied())

    def _ask(self, method, path, right, body=None):
        asked = self._asker.try_once(method, path, body)
        self.ledger.count(self.name, asked)
        if asked.answer.status == right:
            return asked.answer
        if in_hands(asked) and self._killed.overlap(asked.begun, asked.ended, self._node.name):
            self.ledger.excuse(self.name, asked)
        else:
            self.ledger.accuse(self.name, "not %d" % right, asked)
        return None

    def turn(self):
        path, right = self._known
        read = self._ask("GET", path, 200)
        if read and read.body != right:
            self.ledger.accuse(self.name, "wrong bytes", read)
        name = "%s-%d" % (self._node.name, self.turns)
        made = self._ask("POST", self._collection, 201, config_map(name, {"text": name}))
        if made:
            read = self._ask("GET", self._collection + "/" + name, 200)
            if read and read.body != made.body:
                self.ledger.accuse(self.name, "wrong bytes", read)
            self._ask("DELETE", self._collection + "/" + name, 200)


def _replace(node, version, killed, kill):
    if kill:
        with killed.open(node):
            node.apiserver.kill()
            time.sleep(0.5)  # the window is for what was under way
        node.start_apiserver(version)
    else:
        rolling.server_alone(node, version)


def _active(node):
    return node.metric("mvproxy_local_failover_active")


@limit(600)
def test_nobody_notices(cluster):
    """each kube-apiserver is upgraded, one is killed: no 5xx, no reset, no refusal for clients that know one node only"""
    first = cluster.nodes[0]
    namespace = ensure_namespace(first.direct(), "pinned")
    collection, ledger, killed = config_maps(namespace), Ledger(), rolling.Windows()
    expect(first.direct().request("POST", collection, config_map("fixed", {"a": "b"})), 201)
    path = collection + "/fixed"
    known = path, expect(first.direct().get(path), 200).body
    workers = [Pinned(n, collection, known, killed, ledger) for n in cluster.nodes]
    ensure_namespace(first.direct(), "pinned-http2")
    informer = Informer(part("workload"), "pinned", first.kubeconfig(), "configmaps.v1.", {**config_map(""), "metadata": {}},
                        cluster.logs, namespace="pinned-http2")
    try:
        informer.await_synced()
        for worker in workers:
            worker.start()
        steps = [(n, cluster.setup.upgrade, False) for n in cluster.nodes] + [(first, cluster.setup.upgrade, True)]
        for node, version, kill in steps:
            before = [w.turns for w in workers]
            _replace(node, version, killed, kill)
            waiting.until(lambda n=node: n.direct().get("/readyz").status == 200, "%s to be ready" % node.name, 120)
            waiting.until(lambda n=node: _active(n) == 0, "mvproxy at %s to go back to its own server" % node.name)
            waiting.until(lambda b=before: all(w.turns > n + 5 or not w.is_alive() for w, n in zip(workers, b)), "everybody goes on")
            print("# %s: %d requests of its clients went to peers" % (
                node.name, node.metric("mvproxy_local_failover_requests_total")), flush=True)
            assert node.metric("mvproxy_local_failover_requests_total") > 0, node.name
        informer.await_progress()
    finally:
        for worker in workers:
            worker.end()
        verdict = informer.end()
    print("# %s, client-go %s" % (dict(sorted(ledger.counts.items())), {k: v if isinstance(v, int) else len(v) for k, v in verdict.items()}))
    print("".join("# in the server's hands: %s\n" % e[:300].replace("\n", " ") for e in ledger.excused), end="")
    for failed in verdict["failures"] + verdict["ridden"]:
        if failed["code"] in (0, 503) and killed.overlap(failed["begun"], failed["ended"], first.name):
            ledger.excuse("client-go", failed)
        else:
            ledger.accuse("client-go", "failed", failed)
    watches = 1  # that was open at the server that was killed
    for wrong in verdict["wrong"]:
        if wrong.startswith("a watch ended with") and watches > 0:
            watches -= 1
            ledger.excuse("client-go", wrong)
        else:
            ledger.accuse("client-go", "wrong", wrong)
    assert not ledger.wrong, "%d failures:\n%s" % (len(ledger.wrong), "\n".join(w[:600] for w in ledger.wrong[:20]))
    assert len(ledger.excused) <= MOST_IN_HANDS * 2, ledger.excused
