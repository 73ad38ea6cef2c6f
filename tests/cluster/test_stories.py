# SPDX-License-Identifier: Apache-2.0
"""What KEP-4020 is for: kube-controller-manager, reaching a mixed control plane through a load balancer, neither deletes what
lives nor leaves behind what is to go. Without mvproxy it does both, which shows that these tests can fail.
"""

from harness import etcd, waiting
from harness.api import config_map, config_maps, ensure_namespace, expect, namespace
from harness.controllers import Controllers
from harness.skew import jobs
from harness.waiting import Timeout

HOME = "stories"


def _make(client, collection, thing, *owners):
    """Creates it, owned by these, and returns it as it is then."""
    thing["metadata"]["ownerReferences"] = [
        {"apiVersion": o["apiVersion"], "kind": o["kind"], "name": o["metadata"]["name"], "uid": o["metadata"]["uid"]}
        for o in owners]
    return expect(client.request("POST", collection, thing), 201).json()


def _job(client, name, *owners, home=HOME):
    skew = jobs(namespace=home)
    made = _make(client, skew.collection, skew.thing(name), *owners)
    return {**made, "apiVersion": skew.group_version, "kind": skew.kind}


def _map(client, name, *owners, home=HOME):
    made = _make(client, config_maps(home), config_map(name), *owners)
    return {**made, "apiVersion": "v1", "kind": "ConfigMap"}


def _path(thing):
    meta = thing["metadata"]
    if thing["kind"] == "Job":
        return "%s/%s" % (jobs(namespace=meta["namespace"]).collection, meta["name"])
    return "%s/%s" % (config_maps(meta["namespace"]), meta["name"])


def _key(thing):
    kind = {"Job": "jobs", "ConfigMap": "configmaps"}[thing["kind"]]
    return "/registry/%s/%s/%s" % (kind, thing["metadata"]["namespace"], thing["metadata"]["name"])


def _stored(cluster, things):
    """Those of the things that are in etcd."""
    there = set(etcd.keys(cluster, "/registry/jobs/") + etcd.keys(cluster, "/registry/configmaps/"))
    return [_key(t) for t in things if _key(t) in there]


def _await_gone(cluster, things, timeout=60):
    waiting.until(lambda: not _stored(cluster, things) or None, "%d objects collected" % len(things), timeout)


def _delete(client, thing):
    # As kubectl does: the dependents are left to the garbage collector.
    expect(client.request("DELETE", _path(thing) + "?propagationPolicy=Background"), 200, 202)


def _fill(cluster, names):
    """Namespaces with Jobs and more in them."""
    client = cluster.new.direct()
    for name in names:
        expect(client.request("POST", "/api/v1/namespaces", namespace(name)), 201)
        for number in range(3):
            _job(client, "job-%d" % number, home=name)
        _map(client, "map", home=name)
    return names


def _within(cluster, names):
    """All that is in etcd of the contents of these namespaces."""
    return [k for k in etcd.keys(cluster, "/registry/") if set(k.split("/")[3:-1]) & set(names)]


def _await_namespaces_gone(cluster, names, timeout=90):
    def remaining():
        return sorted(k.rsplit("/", 1)[1] for k in etcd.keys(cluster, "/registry/namespaces/") if k.rsplit("/", 1)[1] in names)
    try:
        waiting.until(lambda: not remaining(), "deleted namespaces gone", timeout)
    except Timeout as error:
        client = cluster.new.direct()
        stuck = [client.get("/api/v1/namespaces/" + n).json() for n in remaining()[:3]]
        raise AssertionError("namespaces stuck: %r" % [(s["metadata"]["name"], s["status"]) for s in stuck]) from error


class Garbage:
    """Owners and what they own. Made where everything can be made, deleted where somebody serves."""

    def __init__(self, client, name):
        self.name = name
        living = _job(client, "living-" + name)
        self.owner = _map(client, "owner-" + name)
        # The collector looks at what has one owner that is gone, and must find that the other one lives.
        self.survivors = [living, _map(client, "kept-" + name, self.owner, living), _map(client, "kept-too-" + name, living)]
        self.doomed_jobs = [_job(client, "doomed-" + name, self.owner)]
        self.doomed_maps = [_map(client, "doomed-" + name, self.owner)]

    def drop(self, client):
        _delete(client, self.owner)

    @property
    def doomed(self):
        return [self.owner] + self.doomed_jobs + self.doomed_maps


def _await_collector(cluster, name):
    """Until the garbage collector has seen all that was made, and collects Jobs."""
    client = cluster.new.direct()
    garbage = Garbage(client, name)
    garbage.drop(client)
    _await_gone(cluster, garbage.doomed, 90)
    assert len(_stored(cluster, garbage.survivors)) == 3, _stored(cluster, garbage.survivors)
    return garbage


def _wrong_collection(cluster, controllers, turn):
    """The collector is taken to the server without Jobs: (what lived and was deleted, what was to go and stays)."""
    client = cluster.new.direct()
    controllers.only(cluster.new)
    garbage = Garbage(client, "turn-%d" % turn)
    _await_collector(cluster, "ready-%d" % turn)
    controllers.only(cluster.old)
    garbage.drop(client)
    _await_gone(cluster, [garbage.owner] + garbage.doomed_maps)
    try:
        waiting.until(lambda: len(_stored(cluster, garbage.survivors)) < 3, "a wrong deletion", 5)
    except Timeout:
        pass
    lost = [t for t in garbage.survivors if _key(t) not in _stored(cluster, [t])]
    return lost, _stored(cluster, garbage.doomed_jobs)


def test_without(cluster):
    """without mvproxy: the collector deletes what lives and leaves what is to go, and deleted namespaces leave their Jobs"""
    ensure_namespace(cluster.new.direct(), HOME)
    with Controllers(cluster, mvproxy=False) as controllers:
        controllers.only(cluster.new)
        controllers.start()
        # The collector looks at discovery every 30 s. If it does so in the wrong moment it only gives up on Jobs.
        lost, left = [], []
        for turn in range(4):
            lost_now, left_now = _wrong_collection(cluster, controllers, turn)
            lost += lost_now
            left += left_now
            if lost and left:
                break
        assert lost and left and {t["kind"] for t in lost} == {"ConfigMap"}, (lost, left)
        names = _fill(cluster, ["lost-%d" % n for n in range(4)])
        for name in names:
            expect(cluster.old.direct().request("DELETE", "/api/v1/namespaces/" + name), 200)
        _await_namespaces_gone(cluster, names)
        orphans = _within(cluster, names)
        assert len(orphans) == 12 and all(k.startswith("/registry/jobs/lost-") for k in orphans), orphans


def _tried(client, names):
    """Whether the namespace controller has had to do with each of these since they were deleted."""
    for name in names:
        answer = expect(client.get("/api/v1/namespaces/" + name), 200, 404)
        if answer.status == 200 and not answer.json()["status"].get("conditions"):
            return False
    return True


def _restart_apiserver(node):
    node.start_apiserver()
    node.await_apiserver()


def _restart_mvproxy(node):
    node.start_mvproxy()
    node.await_mvproxy()


def _parts(cluster, controllers):
    """(name, how it ends, how it begins again, whether the controllers go on meanwhile)"""
    found = []
    old, new = cluster.old, cluster.new
    for node, end in ((old, old.mvproxy.stop), (new, new.mvproxy.kill)):
        found.append(("server-" + node.name, node.apiserver.kill, lambda n=node: _restart_apiserver(n), True))
        found.append(("proxy-" + node.name, end, lambda n=node: _restart_mvproxy(n), True))

    def end_blind():
        """The proxy starts while the only server that could tell of Jobs is away, and everybody asks this proxy."""
        new.apiserver.kill()
        old.mvproxy.kill()
        _restart_mvproxy(old)
        controllers.only(old)

    def begin_blind():
        _restart_apiserver(new)
        controllers.only(*cluster.nodes)
    found.append(("blind", end_blind, begin_blind, True))
    # Until it works: without a server it ends while it starts, and no kubelet starts it again here.
    found.append(("manager", controllers.manager.kill, controllers.start, False))
    found.append(("balancer", controllers.balancer.stop, controllers.balancer.start, False))
    return found


def _serving(cluster):
    return next(n for n in cluster.nodes if n.apiserver.running()).direct()


def test_with(cluster):
    """with mvproxy, while every part is restarted: nothing deleted wrongly, nothing left behind, no namespace stuck"""
    ensure_namespace(cluster.new.direct(), HOME)
    all_names, all_garbage = [], []
    with Controllers(cluster, mvproxy=True) as controllers:
        controllers.start()
        all_garbage.append(_await_collector(cluster, "first"))
        for part, end, begin, going_on in _parts(cluster, controllers):
            names = _fill(cluster, ["gone-%s-%d" % (part, n) for n in range(3)])
            garbage = Garbage(cluster.new.direct(), part)
            end()
            client = _serving(cluster)
            for name in names:
                expect(client.request("DELETE", "/api/v1/namespaces/" + name), 200)
            garbage.drop(client)
            if going_on:
                waiting.until(lambda c=client, n=names: _tried(c, n), "the controller looks at namespaces, without " + part)
            begin()
            all_names += names
            all_garbage.append(garbage)
        _await_namespaces_gone(cluster, all_names)
        assert _within(cluster, all_names) == [], _within(cluster, all_names)
        _await_gone(cluster, [t for g in all_garbage for t in g.doomed], 90)
        all_garbage.append(_await_collector(cluster, "last"))
        survivors = [t for g in all_garbage for t in g.survivors]
        lost = {_key(t) for t in survivors} - set(_stored(cluster, survivors))
        assert not lost, lost
