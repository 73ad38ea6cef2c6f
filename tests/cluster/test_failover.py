# SPDX-License-Identifier: Apache-2.0
"""Parts of the control plane stop, die and come back: 503 or an answer, never a false 404."""

import contextlib
import re
import signal
import threading
import time

from harness import waiting
from harness.api import (AGGREGATED, CRDS, config_map, config_maps, crd, ensure, ensure_namespace, expect, expect_unavailable,
                         remove)
from harness.balancer import Balancer
from harness.load import Load
from harness.runner import core, needs

LOCAL = "/api/v1/namespaces/default"
VERSION = "/version"  # no resource, so the local server's alone
SERVED_BY = "X-Mvproxy-Served-By"  # only peers' answers have it


def _await_healed(cluster):
    waiting.until(lambda: cluster.old.proxied().get(cluster.skew.collection).status == 200,
                  "200 again at " + cluster.old.name, 60)


def _never_404(load):
    assert load.total() > 20, "too few requests to say anything: %r" % load
    assert 404 not in load.statuses, load
    assert set(load.statuses) <= {200, 503}, (load, load.example)


def test_stopped_and_back(cluster):
    """the only server that has a resource is stopped and started: 503 with Retry-After meanwhile, then healed"""
    with Load(cluster.old.proxied, cluster.skew.collection) as load:
        # Open watches would keep it from ending for a minute.
        cluster.new.apiserver.stop(timeout=5)
        expect_unavailable(cluster.old.proxied().get(cluster.skew.collection))
        expect(cluster.old.proxied().get(LOCAL), 200)
        time.sleep(3)  # the load goes on in that state
        cluster.new.start_apiserver()
        cluster.new.await_apiserver()
        _await_healed(cluster)
        healed = load.statuses[200]
        waiting.until(lambda: load.statuses[200] > healed + 20, "more answers")
    _never_404(load)
    assert load.statuses[503] and load.statuses[200], load
    # The first one may be kube-apiserver's own, which is shutting down.
    assert load.example[503].header("Retry-After", "").isdigit(), load.example[503]


HPAS = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers"
NO_HPAS = "--runtime-config=autoscaling/v1=false"


@core
@needs("v2")  # before, its start takes the APIService away, by which the other server's discovery goes
def test_version_goes(cluster):
    """a server comes back without a version of a group that it keeps, and then with it: an answer or 503, never a false 404"""
    node = cluster.old
    flags = node.spec.flags
    try:
        for with_it in (False, True):
            with Load(node.proxied, HPAS) as load:
                node.apiserver.stop(timeout=5)
                node.spec.flags = list(flags) if with_it else [*flags, NO_HPAS]
                node.start_apiserver()
                node.await_apiserver()
                before = load.statuses[200]
                waiting.until(lambda b=before, seen=load: seen.statuses[200] > b + 100, "more answers")
            _never_404(load)
            assert (node.direct().get(HPAS).status == 200) == with_it
    finally:
        node.spec.flags = flags


def test_killed(cluster):
    """the same server is killed: 503 Status objects, and everything that is served locally goes on"""
    with Load(cluster.old.proxied, cluster.skew.collection) as load, Load(cluster.old.proxied, LOCAL, threads=1) as local:
        cluster.new.apiserver.kill()
        for _ in range(20):
            expect_unavailable(cluster.old.proxied().get(cluster.skew.collection))
        # Nor is discovery false at its own node, where a peer answers that lacks it.
        expect_unavailable(cluster.new.proxied().get("/apis/" + cluster.skew.group_version))
        cluster.new.start_apiserver()
        cluster.new.await_apiserver()
        _await_healed(cluster)
    _never_404(load)
    assert set(local.statuses) == {200} and not local.broken, local


def _views(node):
    """What the page, /statusz and mvproxyctl say of each server: {view: text}."""
    page = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", node.admin("/")[1]))
    return {"page": page, "statusz": node.admin("/statusz")[1], "mvproxyctl": node.ctl("status")[1]}


def _await_views(cluster, name, silent):
    """Until each view at each node says of the server whether it answers; how long that took."""
    since = time.monotonic()
    for node in cluster.proxies:
        says = re.compile(re.escape(name) + r"\b.{0,80}?(local|live|lapsed), does not answer")
        for view in _views(node):
            waiting.until(lambda n=node, v=view: bool(says.search(_views(n)[v])) == silent,
                          "the %s of %s to say that %s %s" % (view, node.name, name, "does not answer" if silent else "answers"), 30, 0.1)
    return time.monotonic() - since


@core
def test_seen(cluster):
    """any server that is killed is told of by the page, /statusz and mvproxyctl at every node, and so is its return"""
    for node in cluster.nodes:
        node.apiserver.kill()
        took = _await_views(cluster, node.name, True)
        print("# all of them say that %s does not answer %.1f s after it was killed" % (node.name, took), flush=True)
        node.start_apiserver()
        node.await_apiserver()
        _await_views(cluster, node.name, False)
    _await_healed(cluster)


def test_hung(cluster):
    """any server that hangs is told of by the same, and that it goes on"""
    for node in cluster.nodes:
        node.apiserver.signal(signal.SIGSTOP)
        try:
            took = _await_views(cluster, node.name, True)
        finally:
            node.apiserver.signal(signal.SIGCONT)
        print("# all of them say that %s does not answer %.1f s after it was stopped" % (node.name, took), flush=True)
        node.await_apiserver()
        _await_views(cluster, node.name, False)
    _await_healed(cluster)


@core
def test_frozen(cluster):
    """a write that a server has when it is frozen has its answer when that goes on after 22 s, as its own clients have; reads go elsewhere meanwhile"""
    node, frozen_s, writes = cluster.old, 22, []
    maps = config_maps("default")
    remove(node.proxied(), maps + "/frozen")
    expect(node.proxied().request("POST", maps, config_map("frozen")), 201)  # a connection to the server is open
    remove(node.proxied(), maps + "/frozen")
    writer = threading.Thread(target=lambda: writes.append(node.proxied().request("POST", maps, config_map("frozen"))))
    node.apiserver.signal(signal.SIGSTOP)
    try:
        since = time.monotonic()
        writer.start()
        waiting.until(lambda: node.proxied().get(LOCAL).header(SERVED_BY) is not None, "a peer to answer what only reads", 20)
        time.sleep(max(0.0, since + frozen_s - time.monotonic()))
    finally:
        node.apiserver.signal(signal.SIGCONT)
    writer.join(timeout=20)
    assert len(writes) == 1, "no answer to the write"
    expect(writes[0], 201)
    print("# the write had its answer from %s" % (writes[0].header(SERVED_BY) or "the server that was frozen"), flush=True)
    remove(node.proxied(), maps + "/frozen")
    node.await_apiserver()
    _await_views(cluster, node.name, False)
    _await_healed(cluster)


def test_whole_node_gone(cluster):
    """the whole other node is gone, its mvproxy too: 503, and healed when it returns"""
    with Load(cluster.old.proxied, cluster.skew.collection) as load:
        cluster.new.mvproxy.kill()
        cluster.new.apiserver.kill()
        for _ in range(10):
            expect_unavailable(cluster.old.proxied().get(cluster.skew.collection))
        cluster.new.start_apiserver()
        cluster.new.await_apiserver()
        cluster.new.start_mvproxy()
        cluster.new.await_mvproxy()
        _await_healed(cluster)
    _never_404(load)


def test_kubectl_rides_through(cluster):
    """kubectl, started while the peer is away, waits by itself and succeeds once it is back"""
    kubectl = cluster.old.kubectl()
    # Discovery that was Stale while the peer was away (in an earlier test) is read again a moment after it is back.
    waiting.until(lambda: kubectl.run("get", cluster.skew.kubectl).status == 0, "kubectl knows the resource")
    cluster.new.apiserver.kill()
    expect_unavailable(cluster.old.proxied().get(cluster.skew.collection))
    results = []
    asking = threading.Thread(target=lambda: results.append(kubectl.run("get", cluster.skew.kubectl, timeout=120)))
    asking.start()
    cluster.new.start_apiserver()
    cluster.new.await_apiserver()
    asking.join()
    assert results and results[0].status == 0, results


def test_peer_mvproxy_restarts(cluster):
    """the peer's mvproxy is restarted gracefully and killed: 503 or an answer"""
    with Load(cluster.old.proxied, cluster.skew.collection) as load:
        for end in (cluster.new.mvproxy.stop, cluster.new.mvproxy.kill):
            end()
            cluster.new.start_mvproxy()
            cluster.new.await_mvproxy()
            _await_healed(cluster)
    _never_404(load)


def test_own_mvproxy_restarts(cluster):
    """an mvproxy that is restarted never answers 404 while it learns what there is"""
    for end in (cluster.old.mvproxy.stop, cluster.old.mvproxy.kill):
        with Load(cluster.old.proxied, cluster.skew.collection, threads=3) as load:
            waiting.until(lambda: load.statuses[200] > 20, "requests under way")
            end()
            cluster.old.start_mvproxy()
            cluster.old.await_mvproxy()
            _await_healed(cluster)
            before = load.statuses[200]
            waiting.until(lambda: load.statuses[200] > before + 20, "more answers")
        _never_404(load)


def test_graceful_stop(cluster):
    """SIGTERM ends mvproxy with status 0"""
    status = cluster.old.mvproxy.stop(timeout=90)
    assert status == 0, "exit status %r\n%s" % (status, cluster.old.mvproxy.tail())


def test_reload_under_load(cluster):
    """SIGHUP again and again under load: no request fails, no watch breaks, a keep-alive connection lives on"""
    path = config_maps(ensure_namespace(cluster.old.direct(), "failover"))
    remove(cluster.old.direct(), path + "/reloaded")
    client = cluster.old.proxied()
    connection = client.connect()
    with cluster.old.proxied().watch_from_now(path) as watch, \
            Load(cluster.old.proxied, cluster.skew.collection, threads=2) as load, \
            Load(cluster.old.proxied, LOCAL, threads=1) as local:
        for number in range(10):
            cluster.old.write_config(v=number % 3 + 2)
            cluster.old.mvproxy.signal(signal.SIGHUP)
            before = load.total()
            waiting.until(lambda b=before: load.total() > b + 10, "requests after a reload")
            expect(client.request("GET", LOCAL, connection=connection), 200)
        ensure(cluster.new.direct(), path, config_map("reloaded"))
        assert watch.event()["type"] == "ADDED"
    connection.close()
    for one in (load, local):
        assert set(one.statuses) == {200} and not one.broken, one
    remove(cluster.old.direct(), path + "/reloaded")


def test_reload_broken(cluster):
    """SIGHUP with a broken configuration changes nothing, and says so"""
    before = cluster.old.mvproxy.log_text()
    with open(cluster.old.config, "a", encoding="utf-8") as config:
        config.write("no-such-option: 1\n")
    cluster.old.mvproxy.signal(signal.SIGHUP)
    waiting.until(lambda: "no-such-option" in cluster.old.mvproxy.log_text()[len(before):], "a line about it in the log")
    expect(cluster.old.proxied().get(cluster.skew.collection), 200)
    expect(cluster.old.proxied().get(LOCAL), 200)
    cluster.old.write_config()
    cluster.old.mvproxy.signal(signal.SIGHUP)
    expect(cluster.old.proxied().get(LOCAL), 200)


@contextlib.contextmanager
def _proxy_with(node, failover):
    """Its mvproxy restarted with that option, and afterwards, if it was changed, with what it had."""
    node.mvproxy.stop(timeout=90)
    node.start_mvproxy(local_failover=failover)
    node.await_mvproxy()
    try:
        yield
    finally:
        if not failover:
            node.mvproxy.kill()  # the runner starts it again


def _start_alone(old, failover):
    old.mvproxy.kill()
    old.apiserver.kill()
    old.start_mvproxy(local_failover=failover)
    waiting.until(lambda: old.admin("/livez")[0] == 200, "mvproxy alive")
    expect_unavailable(waiting.until(lambda: old.proxied().get(VERSION), "an answer", 30))


def _end_alone(cluster):
    old = cluster.old
    assert old.admin("/readyz")[0] != 200, old.admin("/readyz")
    old.start_apiserver()
    old.await_apiserver()
    old.await_mvproxy()
    expect(old.proxied().get(LOCAL), 200)
    _await_healed(cluster)


def test_local_server_away_at_start(cluster):
    """started before its kube-apiserver, without local failover: up, not ready, 503 with Retry-After, and ready by itself later"""
    try:
        _start_alone(cluster.old, False)
        for path in (LOCAL, cluster.skew.collection, VERSION):
            expect_unavailable(cluster.old.proxied().get(path))
        _end_alone(cluster)
    finally:
        cluster.old.mvproxy.kill()  # the runner starts it again


def test_local_server_away_at_start_failover(cluster):
    """the same with it: up, not ready, a peer answers for resources, 503 for anything else, and ready by itself later"""
    _start_alone(cluster.old, True)
    for path in (LOCAL, cluster.skew.collection):
        with Load(cluster.old.proxied, path) as load:
            # The peers' discovery must have been read.
            waiting.until(lambda one=load: one.statuses[200] > 20, "a peer's answers for " + path)
        _never_404(load)
        if 503 in load.example:
            expect_unavailable(load.example[503])
    for path in (LOCAL, cluster.skew.collection):
        assert expect(cluster.old.proxied().get(path), 200).header(SERVED_BY) == cluster.new.server_id
    expect_unavailable(cluster.old.proxied().get(VERSION))
    _end_alone(cluster)


def test_local_server_restarts(cluster):
    """the server behind mvproxy is killed and started, without local failover: 503 meanwhile, then as before"""
    with _proxy_with(cluster.old, False):
        with Load(cluster.old.proxied, LOCAL) as load:
            waiting.until(lambda: load.statuses[200] > 5, "requests under way")
            cluster.old.apiserver.kill()
            expect_unavailable(cluster.old.proxied().get(LOCAL))
            cluster.old.start_apiserver()
            cluster.old.await_apiserver()
            waiting.until(lambda: cluster.old.proxied().get(LOCAL).status == 200, "200 again")
        # A kube-apiserver that is just coming up refuses some requests itself (403 until its roles are there).
        assert set(load.statuses) <= {200, 503, 403, 429, 500} and load.statuses[200] and load.statuses[503], load
        _await_healed(cluster)


def test_local_server_restarts_failover(cluster):
    """the same with it: the right answer always, for what this server has and for what it lacks, then by itself again"""
    old = cluster.old
    with _proxy_with(old, True), Load(old.proxied, LOCAL) as load, Load(old.proxied, cluster.skew.collection) as skewed:
        waiting.until(lambda: min(load.statuses[200], skewed.statuses[200]) > 5, "requests under way")
        old.apiserver.kill()
        for _ in range(20):
            assert expect(old.proxied().get(LOCAL), 200).header(SERVED_BY) == cluster.new.server_id
        expect_unavailable(old.proxied().get(VERSION))
        old.start_apiserver()
        old.await_apiserver()
        waiting.until(lambda: expect(old.proxied().get(LOCAL), 200).header(SERVED_BY) is None, "its own server's answers again")
        before = load.statuses[200], skewed.statuses[200]
        waiting.until(lambda: load.statuses[200] > before[0] + 20 and skewed.statuses[200] > before[1] + 20, "more answers")
    for one in (load, skewed):
        assert set(one.statuses) == {200}, (one, one.example)
    # A response that the killed server had begun breaks off; each thread waits for one.
    assert sum(load.broken.values()) <= 2 and not skewed.broken, (load, skewed)


NOTHING = ("/apis/gateway.networking.k8s.io/v1/gateways", "/apis/apps/v1/foos", "/api/v1/foos",
           "/apis/apps/v1/namespaces/default/deployments/x/foo")


def _listed(node, group):
    """The resources of a group in a node's merged document."""
    document = expect(node.proxied().get("/apis", Accept=AGGREGATED), 200).json()
    return {r["resource"] for g in document["items"] if g["metadata"]["name"] == group
            for v in g["versions"] for r in v.get("resources", [])}


def test_what_is_not_there_while_away(cluster):
    """what nobody has is 404 while the local server is away, and so is a custom resource that is deleted then; one that is made is there"""
    old, new, path = cluster.old, cluster.new, "/apis/shop.example.com/v1/namespaces/default/"
    with _proxy_with(old, True):
        try:
            for name in ("apples", "plums"):
                ensure(old.proxied(), CRDS, crd(name, name.capitalize(), "shop.example.com"))
            for node in cluster.nodes:
                waiting.until(lambda n=node: _listed(n, "shop.example.com") == {"apples", "plums"}, "both at " + node.name)
            old.apiserver.kill()
            waiting.until(lambda: expect(old.proxied().get(LOCAL), 200).header(SERVED_BY) == new.server_id, "a peer's answers")
            for _ in range(10):
                for nothing in NOTHING:
                    expect(old.proxied().get(nothing), 404)
            remove(new.proxied(), CRDS + "/apples.shop.example.com")
            ensure(old.proxied(), CRDS, crd("pears", "Pear", "shop.example.com"))
            for name, status in (("apples", 404), ("plums", 200), ("pears", 200)):
                waiting.until(lambda n=name, s=status: old.proxied().get(path + n).status == s, "%d for %s" % (status, name))
            waiting.until(lambda: _listed(old, "shop.example.com") == {"plums", "pears"}, "discovery to say so", 60)
        finally:
            old.start_apiserver()
            old.await_apiserver()
        waiting.until(lambda: expect(old.proxied().get(LOCAL), 200).header(SERVED_BY) is None, "its own server's answers again")
        for node in cluster.nodes:
            waiting.until(lambda n=node: _listed(n, "shop.example.com") == {"plums", "pears"}, "the same at " + node.name)
        for name in ("plums", "pears"):
            remove(old.proxied(), CRDS + "/%s.shop.example.com" % name)


CUSTOM = "lasting.example.com"


def _customs(node):
    """{resource: freshness} of the custom resources that the node's discovery has; None: it says nothing now."""
    answer = node.proxied().get("/apis", Accept=AGGREGATED)
    if answer.status == 503:
        return None
    versions = [v for g in expect(answer, 200).json()["items"] if g["metadata"]["name"] == CUSTOM for v in g["versions"]]
    return {r["resource"]: v["freshness"] for v in versions for r in v["resources"]} or {"": v["freshness"] for v in versions}


@contextlib.contextmanager
def _observed(node):
    """What the node's discovery had of them all the time, each answer once."""
    seen, over, failures = [], threading.Event(), []

    def observe():
        while not over.is_set():
            try:
                now = _customs(node)
            except AssertionError as error:
                failures.append(error)
                return
            except OSError:  # mvproxy itself is away
                continue
            if now is not None and (not seen or seen[-1] != now):
                seen.append(now)
    thread = threading.Thread(target=observe)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()
    assert not failures, failures


def _must_last(seen, wanted):
    """What there is is either listed, or said to be unknown."""
    for one in seen:
        assert one == {"": "Stale"} or wanted <= set(one), ("missing: %r" % (wanted - set(one)), one)


@needs("v2")
def test_custom_resources_last(cluster):
    """a server starts, and knows no custom resource for a moment: its node's discovery has them all the time, and those that were
    made and deleted while it was away are as another server says"""
    old, admin = cluster.old, cluster.new.direct()
    many = {"lasting%ds" % i for i in range(30)}

    def change(away):
        ensure(admin, CRDS, crd("made%ds" % away, "Made%d" % away, CUSTOM))
        waiting.until(lambda: (_customs(old) or {}).get("made%ds" % away) == "Current", "what was made", 60)
        remove(admin, CRDS + "/made%ds.%s" % (away, CUSTOM))
        waiting.until(lambda: _customs(old) == dict.fromkeys(many, "Current"), "what was made to be gone again", 60)
    with _proxy_with(old, True):
        for i in range(30):
            ensure(admin, CRDS, crd("lasting%ds" % i, "Lasting%d" % i, CUSTOM))
        try:
            waiting.until(lambda: _customs(old) == dict.fromkeys(many, "Current"), "custom resources in discovery", 60)
            for away in range(2):
                with _observed(old) as seen:
                    old.apiserver.stop(timeout=5)
                    change(away)
                    old.start_apiserver()
                    old.await_apiserver()
                    waiting.until(lambda: _customs(old) == dict.fromkeys(many, "Current"), "all of them, known", 60)
                _must_last(seen, many)
            # Both of the node at once: who observes has the last answer of before first.
            with _observed(old) as seen:
                old.mvproxy.stop()
                old.apiserver.stop(timeout=5)
                old.start_apiserver()
                old.start_mvproxy()
                old.await_apiserver()
                old.await_mvproxy()
                waiting.until(lambda: _customs(old) == dict.fromkeys(many, "Current"), "all of them after a cold start", 60)
            _must_last(seen, many)
        finally:
            for name in many:
                remove(admin, CRDS + "/%s.%s" % (name, CUSTOM))
    _await_healed(cluster)


def test_watch_of_dead_peer(cluster):
    """a watch whose server dies is broken off, not left hanging"""
    with cluster.old.proxied().watch_from_now(cluster.skew.collection, "fieldSelector=metadata.name%3Ddying") as watch:
        assert watch.status == 200
        expect(cluster.new.direct().request("POST", cluster.skew.collection, cluster.skew.thing("dying")), 201)
        assert watch.event()["type"] == "ADDED"
        cluster.new.apiserver.kill()
        ended = False
        try:
            ended = watch.event(timeout=30) is None
        except TimeoutError:
            raise AssertionError("the watch hangs") from None
        except (OSError, ValueError):
            ended = True
        except Exception as error:  # pylint: disable=broad-except # http.client.IncompleteRead and its like
            ended = "IncompleteRead" in type(error).__name__
        assert ended
    cluster.new.start_apiserver()
    cluster.new.await_apiserver()
    _await_healed(cluster)
    remove(cluster.new.direct(), cluster.skew.collection + "/dying")


def test_etcd_away(cluster):
    """etcd stops for a while: the servers' own errors are relayed, nothing becomes a 404, all heals"""
    with Load(cluster.old.proxied, cluster.skew.collection) as load:
        cluster.etcd.stop()
        time.sleep(3)  # the load goes on in that state
        cluster.etcd.start()
        waiting.until(lambda: all(n.direct().get("/readyz").status == 200 for n in cluster.nodes), "servers ready again", 90)
        _await_healed(cluster)
    assert 404 not in load.statuses and load.statuses[200], load


OWN_ETCD = 12379  # a port of its own to the one etcd, as a stacked node has a member of its own


@contextlib.contextmanager
def _own_etcd(node):
    """kube-apiserver there reaches etcd over a connection that can be cut."""
    flags = node.spec.flags
    member = Balancer("127.0.0.1", OWN_ETCD, [("127.0.0.1", 2379)])
    member.start()

    def restart(with_flags):
        node.apiserver.stop(timeout=5)
        node.spec.flags = with_flags
        node.start_apiserver()
        node.await_apiserver()
        node.await_mvproxy()
    try:
        restart([*flags, "--etcd-servers=https://127.0.0.1:%d" % OWN_ETCD])
        yield member
    finally:
        member.stop()
        restart(flags)


def test_own_etcd_away(cluster):
    """one server loses its etcd, and all others have theirs: its mvproxy lets a peer answer, until etcd is back"""
    old = cluster.old
    with _own_etcd(old) as member, _proxy_with(old, True):
        waiting.until(lambda: expect(old.proxied().get(LOCAL), 200).header(SERVED_BY) is None, "its own server's answers")
        with Load(old.proxied, LOCAL) as load, Load(old.proxied, cluster.skew.collection) as skewed:
            member.stop()
            waiting.until(lambda: old.proxied().get(LOCAL).header(SERVED_BY) == cluster.new.server_id, "a peer's answers", 60)
            before = load.statuses[200]
            waiting.until(lambda: load.statuses[200] > before + 50, "answers without its etcd", 60)
            # As all its answers must come from there, writes can as well.
            thing = config_maps("default") + "/without-etcd"
            expect(old.proxied().request("POST", config_maps("default"), config_map("without-etcd")), 201)
            remove(old.proxied(), thing)
            assert old.admin("/readyz")[0] != 200, old.admin("/readyz")
            member.start()
            waiting.until(lambda: old.proxied().get(LOCAL).header(SERVED_BY) is None, "its own server's answers again", 90)
        for one in (load, skewed):
            # What the server had just asked etcd ends as it says ("rpc error: ... EOF"): at most one request of each thread.
            assert set(one.statuses) <= {200, 500} and one.statuses[500] <= 2 and not one.broken, (one, one.example)
