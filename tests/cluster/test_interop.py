# SPDX-License-Identifier: Apache-2.0
"""mvproxy and kube-apiserver's own proxying in one cluster: each finds the other and uses it, and no request goes two steps.

cp-c is a kube-apiserver with its gate on and no mvproxy before it. The others are behind mvproxy: cp-b with its gate on as
well, cp-a too old to have one.
"""

from harness import etcd, waiting
from harness.api import AGGREGATED, expect, expect_unavailable, grant, same
from harness.skew import cron_jobs, disruption_budgets

RECORDS = "/registry/peerserverleases/"
REROUTED = "apiserver_rerouted_request_total"

JOBS = cron_jobs("cp-c")  # cp-a and cp-b have them
BUDGETS = disruption_budgets("cp-b", "cp-c")  # only cp-a has them


def _rerouted(node, skew):
    return node.server_metric(REROUTED, group=skew.group, version=skew.version, resource=skew.resource)


def _await_found(node, skew):
    """Until a server that lacks this knows a way to it. Its own proxying reads peers at their Leases' events, and tries again."""
    waiting.until(lambda: node.proxied().get(skew.everywhere).status == 200, "%s at %s" % (skew.kubectl, node.name), 90)


def _only(cluster, answer, nodes):
    """Exactly one kube-apiserver among these has served it, and it alone knows of the request."""
    ids = set(answer.all("Audit-Id"))
    assert ids, answer.headers.items()
    seen = waiting.until(lambda: [s for i in ids for s in cluster.audit(i) if s[0].name in nodes], "an audit event")
    assert len(seen) == 1, seen
    return seen[0][0]


def _whole_life(node, skew):
    """Create, get, list, patch, watch and delete at a node that lacks the resource."""
    client = node.proxied()
    path = skew.collection + "/interop"
    client.request("DELETE", path)
    with client.watch_from_now(skew.collection, "fieldSelector=metadata.name%3Dinterop") as watch:
        made = expect(client.request("POST", skew.collection, skew.thing("interop")), 201).json()
        # Which of two versions answers is chance, and what they write differs in small things.
        assert expect(client.get(path), 200).json()["metadata"]["uid"] == made["metadata"]["uid"], made
        assert watch.event()["type"] == "ADDED"
        expect(client.request("PATCH", path, '{"metadata":{"labels":{"a":"b"}}}',
                              {"Content-Type": "application/merge-patch+json"}), 200)
        assert watch.event()["type"] == "MODIFIED"
        listed = expect(client.get(skew.collection + "?labelSelector=a%3Db"), 200).json()["items"]
        assert [i["metadata"]["name"] for i in listed] == ["interop"], listed
        expect(client.request("DELETE", path), 200)
        assert watch.event()["type"] == "DELETED"


def test_finds_us(cluster):
    """a bare kube-apiserver finds a server behind mvproxy and uses it, with every verb"""
    bare = cluster.node("cp-c")
    _await_found(bare, JOBS)
    before = _rerouted(bare, JOBS)
    _whole_life(bare, JOBS)
    assert _rerouted(bare, JOBS) > before


def test_sends_what_nobody_has(cluster):
    """what a bare kube-apiserver sends on by the resource alone, and nobody has, is 404 or 405, as without mvproxy"""
    bare, there = cluster.node("cp-c"), cluster.node("cp-b")
    _await_found(bare, JOBS)
    for method, path in (("GET", JOBS.collection + "/none/nosuch"), ("DELETE", JOBS.collection + "/none/status"), ("PATCH", JOBS.collection)):
        wanted = there.direct().request(method, path)
        expect(wanted, 404, 405)
        expect(bare.proxied().request(method, path), wanted.status)


def test_we_find_it(cluster):
    """mvproxy finds a bare kube-apiserver and uses it, with every verb; that server sends nothing on"""
    bare = cluster.node("cp-c")
    before = _rerouted(bare, cluster.skew)
    for node in cluster.proxies:
        _await_found(node, cluster.skew)
        _whole_life(node, cluster.skew)
        answer = expect(node.proxied().get(cluster.skew.collection), 200)
        assert _only(cluster, answer, [n.name for n in cluster.nodes]) is bare
    assert _rerouted(bare, cluster.skew) == before


def test_finds_the_old(cluster):
    """a bare kube-apiserver uses a server that has no record of its own: mvproxy's record leads to it"""
    bare, old = cluster.node("cp-c"), cluster.node("cp-a")
    _await_found(bare, BUDGETS)
    _whole_life(bare, BUDGETS)
    answer = expect(bare.proxied().get(BUDGETS.collection), 200)
    assert _only(cluster, answer, ["cp-a", "cp-b"]) is old


def test_records(cluster):
    """each server has one record, ours is removed when mvproxy stops and written anew when it starts"""
    names = sorted(RECORDS + n.server_id for n in cluster.nodes)
    waiting.until(lambda: etcd.keys(cluster, RECORDS) == names, "three records")
    old = cluster.node("cp-a")
    said = len(old.mvproxy.log_text())
    old.mvproxy.stop()
    # It has two seconds for that, which an etcd on a slow disk may need for itself.
    assert RECORDS + old.server_id not in etcd.keys(cluster, RECORDS) or \
        "Could not remove the own peer endpoint record in time" in old.mvproxy.log_text()[said:], etcd.keys(cluster, RECORDS)
    old.start_mvproxy()
    old.await_mvproxy()
    waiting.until(lambda: etcd.keys(cluster, RECORDS) == names, "three records again")
    _await_found(cluster.node("cp-c"), BUDGETS)


def test_merged(cluster):
    """the merged documents of all say the same of what is served, whoever merged them"""
    def seen(node):
        return {(g["metadata"]["name"], v["version"], r["resource"]): sorted(r["verbs"])
                for g in expect(node.proxied().get("/apis", Accept=AGGREGATED), 200).json()["items"]
                for v in g["versions"] for r in v.get("resources", [])}
    for node in cluster.nodes:
        for skew in (JOBS, cluster.skew):
            waiting.until(lambda n=node, s=skew: (s.group, s.version, s.resource) in seen(n),
                          "%s in what %s merges" % (skew.kubectl, node.name), 90)
    for node in cluster.proxies[1:]:
        same([[*k, v] for k, v in sorted(seen(node).items())], [[*k, v] for k, v in sorted(seen(cluster.proxies[0]).items())],
             "the merged documents")


def test_same_bytes(cluster):
    """kube-apiserver merges the same inputs into the same bytes, under the same tag"""
    def seen():
        answers = [expect(n.proxied().get("/apis", Accept=AGGREGATED), 200) for n in [cluster.node("cp-c"), *cluster.proxies]]
        return [(a.body, a.header("ETag")) for a in answers]
    waiting.until(lambda: len({tag for _, tag in seen()}) == 1, "one tag everywhere", 90)
    theirs, *ours = seen()
    for one in ours:
        assert one == theirs, (one[1], theirs[1])


def test_same_user(cluster):
    """the user that a bare server sends on is who is seen behind mvproxy, and the other way round"""
    bare, node = cluster.node("cp-c"), cluster.node("cp-b")
    # kube-apiserver sends on only what it would allow itself.
    for skew in (JOBS, cluster.skew):
        grant(bare.direct(), "look-at-" + skew.resource, ["get", "list"], skew.resource, skew.group, "alice")
        for server in cluster.nodes:
            waiting.until(lambda s=server, k=skew: s.proxied("alice").get(k.collection).status == 200, "the new role to count")
    for user, name in (("alice", "alice"), ("admin", "kubernetes-admin")):
        for asked, skew, servers in ((bare, JOBS, ["cp-a", "cp-b"]), (node, cluster.skew, ["cp-c"])):
            answer = expect(asked.proxied(user).get(skew.collection), 200)
            ids = set(answer.all("Audit-Id"))
            events = waiting.until(lambda i=ids, s=servers: [e for one in i for n, e in cluster.audit(one) if n.name in s],
                                   "an audit event")
            assert {e["user"]["username"] for e in events} == {name}, (user, events)


def test_at_most_one_step(cluster):
    """what nobody serves, and what is gone meanwhile, is never sent round: each request reaches at most one other server"""
    bare, ours = cluster.node("cp-c"), cluster.node("cp-b")
    for node in cluster.nodes:
        answer = node.proxied().get("/apis/%s/nosuchthings" % JOBS.group_version)
        expect(answer, 404, 503)
    # The bare server believes for a while that cp-a and cp-b are there, and sends them what they cannot serve now. After that
    # it answers 404 by itself; mvproxy never does.
    for node in cluster.proxies:
        node.apiserver.kill()
    statuses = set()
    for _ in range(10):
        statuses.add(bare.proxied().get(JOBS.everywhere).status)
        expect_unavailable(ours.proxied().get(JOBS.everywhere))
    assert statuses <= {404, 503}, statuses
    totals = {n.name: n.metric(REROUTED) for n in cluster.proxies}
    for node in cluster.proxies:
        headers = {"x-kubernetes-peer-proxied": "true", "X-Remote-User": "carol", "X-Remote-Group": "system:masters"}
        expect_unavailable(node.proxied("front-proxy").request("GET", cluster.skew.everywhere, headers=headers))
    assert totals == {n.name: n.metric(REROUTED) for n in cluster.proxies}, totals
    for node in cluster.proxies:
        node.start_apiserver()
    for node in cluster.proxies:
        node.await_apiserver()
    for node in cluster.nodes:
        _await_found(node, JOBS)
    _await_found(ours, cluster.skew)
