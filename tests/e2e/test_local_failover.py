#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The server behind an mvproxy goes, comes back and starts, while clients know no other way: its peers answer for it."""

import json
import select
import threading

import fixture
from fixture import check, equal, until
from rawh2 import RawH2
from rawhttp import Broken
from test_upgrade import exchange, spdy
from test_watch import Watch

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
V2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"  # of 1.34 on
BOB = {"Authorization": "Bearer token-root"}
EXTRA = [{"group": "example.com", "version": "v1", "resource": "widgets", "kind": "Widget", "namespaced": True,
          "verbs": ["create", "delete", "get", "list", "update", "patch", "watch"]}]
GONE = "mvproxy_local_failover_active"


def setup():
    world = fixture.World(profiles={"a": "v1.33", "b": "v1.34", "c": "v1.34"},
                          servers={n: {"extra": EXTRA} for n in "abc"}).start()
    equal(world.ask("POST", PODS, {"metadata": {"name": "p"}}, direct=True).status, 201, "pod")
    return world


def back(world, name="a"):
    if not world.sim.server(name)["running"]:
        world.sim.start_server(name, **{"starts-unready": False})
    world.sim.command(name, "ready")
    ready(world, name)


def ready(world, name="a"):
    until(lambda: world.proxies[name].metric(GONE) == 0, "%s to be ready" % name)


def away(world, name="a"):
    until(lambda: world.proxies[name].metric(GONE) == 1, "%s to be missed" % name)


def served_by(answer):
    return answer.header("X-Mvproxy-Served-By")


NOTHING = ("/apis/foo.example.com/v1/bars", "/apis/apps/v1/foos", "/api/v1/foos", "/apis/apps/v1/namespaces/default/deployments/x/foo")


def test_unknown(world):
    """what no server has is 404 while the local one is away: the others know who there is; and soon when it is back"""
    for name in world.proxies:  # everybody has read everybody: who has just started cannot deny for the others
        until(lambda n=name: all(world.ask("GET", path, name=n).status == 404 for path in NOTHING), name + " to know all")
    world.sim.kill_server("a")
    away(world)
    for path in NOTHING:
        answer = world.ask("GET", path)
        equal((path, answer.status), (path, 404), answer)
        equal(world.ask("POST", path, {"metadata": {"name": "x"}}).status, 404, "POST " + path)
    back(world)
    for path in NOTHING:  # until the others have read it, it may have anything
        until(lambda p=path: world.ask("GET", p).status == 404, path)


def test_unknown_to_all(world):
    """who has come since the Leases could not be read is not known if no other server can say so either"""
    for name in "abc":
        world.sim.kill_server(name)
    away(world)
    until(lambda: world.ask("GET", NOTHING[0]).status == 503, "it to be held back")
    for name in "abc":
        back(world, name)


CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def crd(name, *names):
    return {"metadata": {"name": name + ".shop.example.com"}, "spec": {
        "group": "shop.example.com", "scope": "Namespaced", "names": {"plural": name, "kind": "Kind" + name.capitalize()},
        "versions": [{"name": v, "served": True, "storage": v == "v1"} for v in names or ("v1",)]}}


def freshness(answer):
    """Of each version of the shop's group."""
    groups = {g["metadata"]["name"]: g["versions"] for g in answer.json()["items"]}
    return {v["version"]: v["freshness"] for v in groups.get("shop.example.com", ())}


def versions(world, name):
    return freshness(world.ask("GET", "/apis", headers={"Accept": V2}, name=name))


def test_deleted(world):
    """a custom resource that is deleted while the local server is away is gone here as well, and one that is made is there"""
    def path(name):
        return "/apis/shop.example.com/v1/namespaces/default/" + name

    def listed(name):
        text = world.ask("GET", "/apis", headers={"Accept": V2}, name=name)
        groups = {g["metadata"]["name"]: g for g in text.json()["items"]}
        return {r["resource"] for v in groups.get("shop.example.com", {"versions": []})["versions"] for r in v.get("resources", [])}

    for name in ("apples", "plums"):
        equal(world.ask("POST", CRDS, crd(name)).status, 201, name)
    until(lambda: all(listed(n) == {"apples", "plums"} for n in "abc"), "both to be known everywhere")
    world.sim.kill_server("a")
    away(world)
    equal(world.ask("DELETE", CRDS + "/apples.shop.example.com").status, 200, "delete one")
    equal(world.ask("POST", CRDS, crd("pears")).status, 201, "make another one")
    until(lambda: world.ask("GET", path("apples")).status == 404, "it to be gone", pause=0.5)
    for name, status in (("apples", 404), ("plums", 200), ("pears", 200)):
        equal((name, world.ask("GET", path(name)).status), (name, status), "requests")
    until(lambda: listed("a") == {"plums", "pears"}, "discovery to say so", patience=60)
    back(world)
    until(lambda: all(listed(n) == {"plums", "pears"} for n in "abc"), "all to agree")
    for name in ("plums", "pears"):
        equal(world.ask("DELETE", CRDS + "/%s.shop.example.com" % name).status, 200, name)


def test_late(world):
    """while the local server starts, and does not know its custom resources yet, discovery goes on to have them"""
    fruits = ("v1", "v2")
    equal(world.ask("POST", CRDS, crd("apples", *fruits)).status, 201, "apples")
    until(lambda: all(versions(world, n) == dict.fromkeys(fruits, "Current") for n in "abc"), "them to be known everywhere")
    seen = []

    def look():
        answer = world.ask("GET", "/apis", headers={"Accept": V2})
        if answer.status == 200:
            seen.append(freshness(answer))
        return answer.status

    world.sim.kill_server("a")
    for _ in range(20):
        look()
    away(world)
    world.sim.start_server("a", **{"starts-unready": True, "late-crds": True})
    until(lambda: len(freshness(world.ask("GET", "/apis", headers={"Accept": V2}, direct=True))) == 0, "the server itself to lack them")
    for _ in range(100):
        equal(look(), 200, "while it starts")
    world.sim.command("a", "ready")
    until(lambda: look() == 200 and world.proxies["a"].metric(GONE) == 0, "a to be ready")
    until(lambda: look() == 200 and set(seen[-1].values()) == {"Current"}, "them to be Current")
    equal({tuple(sorted(s)) for s in seen}, {("v1", "v2")}, "what was there")
    equal(world.ask("DELETE", CRDS + "/apples.shop.example.com").status, 200, "delete")


def test_killed(world):
    """kill -9: reads, writes, tokens, custom resources and every method are served, from the first request on"""
    world.sim.kill_server("a")
    for i, headers in enumerate((None, BOB, None, BOB)):
        user = None if headers else "admin"
        made = world.ask("POST", MAPS, {"metadata": {"name": "killed-%d" % i}}, user=user, headers=headers)
        equal(made.status, 201, "POST %r" % made)
        check(served_by(made), "who answered")
        for method, path, body, status in (("GET", MAPS, None, 200),
                                           ("PUT", MAPS + "/killed-%d" % i, {"metadata": {"name": "killed-%d" % i}}, 200),
                                           ("GET", "/apis/example.com/v1/namespaces/default/widgets", None, 200),
                                           ("DELETE", MAPS + "/killed-%d" % i, None, 200)):
            equal(world.ask(method, path, body, user=user, headers=headers).status, status, "%s %s" % (method, path))
    away(world)
    proxy = world.proxies["a"]

    def counted():
        equal(world.ask("GET", MAPS).status, 200, "GET")
        return (proxy.metric("mvproxy_local_failover_requests_total", reason="unreachable") or 0) > 0

    # It may have been asked for its readiness while it was being killed, and then counts as starting until it is asked again.
    until(counted, "requests in place of a server that is unreachable to be counted")
    check("Local failover: active for " in proxy.get("/statusz")[1], proxy.get("/statusz")[1])
    equal(world.ask("GET", MAPS, user=None, headers={"Authorization": "Bearer wrong"}).status, 401, "a wrong token")


def test_truth(world):
    """what is no resource says how the local server is; discovery and schemas go on for who may read them"""
    for path in ("/openapi/v3", "/openapi/v2", "/api", "/api/v1", "/apis/apps/v1"):
        equal(world.ask("GET", path).status, 200, path)
    for path in ("/readyz", "/livez", "/version"):
        equal(world.ask("GET", path).status, 503, path)
    for user, headers in (("admin", {}), (None, BOB)):
        answer = world.ask("GET", "/apis", user=user, headers=dict(headers, Accept=V2))
        equal(answer.status, 200, "/apis for %s %r" % (user, answer))
        check("resource.k8s.io" in {i["metadata"]["name"] for i in answer.json()["items"]}, "merged")
    equal(world.ask("GET", "/apis", user=None, headers={"Accept": V2, "Authorization": "Bearer wrong"}).status, 401, "a wrong token: the judging peer's word")


def test_marked(world):
    """what a peer has sent on goes no further, and the peer is told that it may try another"""
    mark = world.sim.mark()
    answer = world.ask("GET", MAPS, user="front-proxy-client",
                       headers={"x-kubernetes-peer-proxied": "true", "X-Remote-User": "admin", "X-Remote-Group": "system:masters"})
    equal((answer.status, answer.header("X-Mvproxy-Try-Another")), (503, "true"), "answer")
    equal([r["server"] for r in world.sim.requests(path=MAPS, since=mark)], [], "servers that saw it")


def test_starting(world):
    """a server that starts is not asked before it is ready; /readyz says so; then it is, at once"""
    world.sim.start_server("a", **{"starts-unready": True})
    until(lambda: world.ask("GET", "/readyz").status == 500, "the server to answer")
    until(lambda: "local, not ready" in world.proxies["a"].get("/statusz")[1], "the state")
    until(lambda: "local-apiserver: the local kube-apiserver is starting: its /readyz" in fixture.ctl(world, "status")[1], "mvproxyctl to say so")
    equal((fixture.ctl(world, "status")[0], world.proxies["a"].ready()), (1, False), "status and /readyz")
    mark = world.sim.mark()
    for _ in range(20):
        equal(world.ask("GET", MAPS).status, 200, "GET")
    equal({r["server"] for r in world.sim.requests(path=MAPS, since=mark)} & {"a"}, set(), "asked")
    world.sim.command("a", "ready")
    ready(world)
    mark = world.sim.mark()
    for _ in range(5):
        equal(served_by(world.ask("GET", MAPS)), None, "who answered")
    equal({r["server"] for r in world.sim.requests(path=MAPS, since=mark)}, {"a"}, "asked")


def told_ready(world, **more):
    """What a peer that reads discovery is told of the server."""
    answer = world.ask("GET", "/apis", headers=dict({"Accept": V2 + ";profile=nopeer"}, **more),
                       user="front-proxy-client" if more else "admin")
    return answer.status, answer.header("X-Mvproxy-Ready")


def test_tells_peers(world):
    """peers that read its discovery are told whether a server is ready, and nobody else is"""
    marks = {"x-kubernetes-peer-proxied": "true", "X-Kubernetes-APIServer-Rerouted": "true",
             "X-Remote-User": "system:apiserver", "X-Remote-Group": "system:masters"}
    until(lambda: told_ready(world, **marks) == (200, "true"), "it to say so")
    equal(told_ready(world), (200, None), "a client")
    world.sim.kill_server("a")
    away(world)
    world.sim.start_server("a", **{"starts-unready": True, "late-crds": True})
    until(lambda: told_ready(world, **marks)[0] == 200, "it to answer")
    equal(told_ready(world, **marks), (200, "false"), "while it starts")
    back(world)
    until(lambda: told_ready(world, **marks) == (200, "true"), "it to be ready again")


def test_early_denials(world):
    """a server that has only just started denies what it will allow: nobody is told so who has nobody else to ask, by which way whatever"""
    maps = [{"users": ["bob"], "verbs": ["list"], "apiGroups": [""], "resources": ["configmaps"]}]
    token, unknown = {"Authorization": "Bearer token-bob"}, {"Authorization": "Bearer wrong"}

    def ask(path=MAPS, name="a", headers=token, **more):
        answer = world.ask("GET", path, user=None, headers=headers, name=name, **more)
        return answer.status, bool(answer.all("Retry-After"))

    world.sim.ask("rules", "PUT", maps)
    for path in (MAPS, "/version", "/apis/apps/v1"):
        equal(ask(path), (200, False), path)
    equal((ask(PODS), ask(headers=unknown)[0]), ((403, False), 401), "what is denied")
    for name in "abc":
        world.sim.kill_server(name)
    world.sim.start_server("a", **{"starts-unready": True})
    until(lambda: ask(direct=True) == (403, False), "the server to deny it")
    until(lambda: world.proxies["a"].get("/statusz")[1].count("local, not ready"), "its mvproxy to know that it starts")
    for _ in range(10):
        for path in (MAPS, PODS, "/version", "/api/v1", "/apis/apps/v1"):
            equal(ask(path), (503, True), path)
        equal(ask("/apis", headers=dict(token, Accept=V2)), (503, True), "merged discovery")
        equal(ask(name="b")[0], 503, "by way of another node")
        equal((ask("/readyz"), ask("/livez")), ((500, False), (200, False)), "how it is")
        equal(world.ask("GET", MAPS).status, 200, "who may do everything")
    world.sim.command("a", "ready")
    ready(world)
    for name in "ab":
        until(lambda n=name: ask(name=n) == (200, False), "it to be allowed at " + name)
        equal((ask(PODS, name=name), ask(headers=unknown, name=name)[0]), ((403, False), 401), "what is denied at " + name)
    for name in "abc":
        back(world, name)
    world.sim.ask("rules", "PUT", [])


def test_etcd(world):
    """its etcd is away: /version, discovery and cached objects are as ever, and peers answer from when /readyz names etcd twice, what waits included"""
    text = "[+]ping ok\n[-]etcd failed: reason withheld\n[-]etcd-readiness failed: reason withheld\nreadyz check failed\n"
    stuck = world.sim.fault("hang", server="a", path=MAPS)
    waiting = []
    asking = threading.Thread(target=lambda: waiting.append(world.ask("GET", MAPS)))
    asking.start()
    until(lambda: world.sim.hits(stuck) == 1, "a request that waits")
    fault = world.sim.fault("status", server="a", path="/readyz", status=500, body=text, contentType="text/plain; charset=utf-8")
    away(world)
    asking.join(30)
    check(waiting, "what waited is still waiting")
    equal((waiting[0].status, bool(served_by(waiting[0]))), (200, True), "its answer")
    world.sim.heal(stuck)
    equal(world.ask("GET", "/version").status, 200, "/version")
    check(served_by(world.ask("GET", MAPS)), "who answered")
    until(lambda: "its /readyz says that its etcd fails" in fixture.ctl(world, "status")[1], "mvproxyctl to say so")
    equal(world.proxies["a"].ready(), False, "/readyz")
    world.sim.heal(fault)
    ready(world)
    other = world.sim.fault("status", server="a", path="/readyz", status=500, contentType="text/plain; charset=utf-8",
                            body="[-]poststarthook/apiservice-discovery-controller failed: reason withheld\nreadyz check failed\n")
    until(lambda: world.sim.hits(other) > 3, "it to be asked")
    equal((world.proxies["a"].metric(GONE), served_by(world.ask("GET", MAPS))), (0, None), "another check")
    world.sim.heal(other)


def test_etcd_of_a_peer(world):
    """what two peers serve, of whom one has lost its etcd: the other one answers all of it, what waits at the first included"""
    stuck, waiting = world.sim.fault("hang", server="b", path=CLASSES), []
    asking = [threading.Thread(target=lambda: waiting.append(world.ask("GET", CLASSES))) for _ in range(40)]
    for one in asking:
        one.start()
    until(lambda: world.sim.hits(stuck) > 0 and len(waiting) + world.sim.hits(stuck) >= 40, "requests that wait")
    fault = world.sim.fault("status", server="b", path="/readyz", status=500, body="[-]etcd failed: reason withheld\n", contentType="text/plain; charset=utf-8")
    away(world, "b")
    for one in asking:
        one.join(30)
    equal([(a.status, a.header("X-Mvproxy-Served-By")) for a in waiting], [(200, waiting[0].header("X-Mvproxy-Served-By"))] * 40, "all of them")
    mark = world.sim.mark()
    for _ in range(30):
        equal(world.ask("GET", CLASSES).status, 200, "one more")
    equal({r["server"] for r in world.sim.requests(path=CLASSES, since=mark)}, {"c"}, "asked")
    world.sim.heal(stuck)
    world.sim.heal(fault)
    ready(world, "b")


def test_watch(world):
    """a watch that ended comes back through a peer, and stays there when the local server is back"""
    with world.client() as client:
        watch = Watch(client, MAPS)
        equal(served_by(watch.head), None, "at first")
        world.sim.kill_server("a")
        try:
            while watch.next():
                pass
        except Broken:
            pass
    with world.client() as client:
        watch = Watch(client, MAPS)
        check(served_by(watch.head), "by a peer")
        back(world)
        equal(world.ask("POST", MAPS, {"metadata": {"name": "seen"}}).status, 201, "create")
        while watch.next()[1] != "seen":
            pass
        equal(world.ask("DELETE", MAPS + "/seen").status, 200, "delete")
        equal(watch.next()[:2], ("DELETED", "seen"), "event")


def test_streams(world):
    """exec and logs go by a peer"""
    world.sim.kill_server("a")
    with world.client() as client:
        client.send(spdy(PODS + "/p"))
        answer = client.final_head()
        equal(answer.status, 101, "exec")
        check(served_by(answer), "by a peer")
        exchange(client, b"hello" * 100)
        back(world)
        exchange(client, b"still here" * 100)
    world.sim.kill_server("a")
    check(world.ask("GET", PODS + "/p/log").status in (200, 400), "log")
    back(world)


def test_nobody(world):
    """all are down: 503 with Retry-After, and healed by whoever comes first"""
    for name in "abc":
        world.sim.kill_server(name)
    for method, body in (("GET", None), ("POST", {"metadata": {"name": "never"}})):
        answer = world.ask(method, MAPS, body)
        equal((answer.status, bool(answer.all("Retry-After"))), (503, True), method)
    world.sim.start_server("c", **{"starts-unready": False})
    until(lambda: world.ask("GET", MAPS).status == 200, "c to answer for a")
    world.sim.kill_server("c")


def test_all_start(world):
    """a control plane that starts as a whole: nobody is ready, so everybody's own server answers; then a ready one does"""
    for name in "abc":
        world.sim.start_server(name, **{"starts-unready": True})
    for name in "abc":
        until(lambda n=name: "local, not ready" in world.proxies[n].get("/statusz")[1], "%s to start" % name)
    for name in "abc":
        mark = world.sim.mark()
        made = world.ask("POST", MAPS, {"metadata": {"name": "early-" + name}}, name=name)
        equal((made.status, served_by(made)), (201, None), "POST at %s %r" % (name, made))
        equal([r["server"] for r in world.sim.requests(path=MAPS, since=mark)], [name], "who did it")
    world.sim.command("b", "ready")
    ready(world, "b")
    until(lambda: served_by(world.ask("GET", MAPS)), "b to answer for a")
    world.sim.kill_server("a")
    made = world.ask("POST", MAPS, {"metadata": {"name": "late"}})
    equal(made.status, 201, "POST")
    for name in "abc":
        back(world, name)


def test_started_without(world):
    """an mvproxy that starts while its server is away: those whom `peers` names answer; without the option it knows nobody"""
    proxy = world.proxies["a"]
    peers = proxy.options["peers"]

    def start(**options):
        proxy.stop()
        proxy.options.update(options)
        proxy.start(ready=False)
        until(lambda: proxy.get("/livez")[0] == 200, "the admin listener")

    world.sim.kill_server("a")
    start()
    until(lambda: world.ask("GET", PODS).status == 200, "a peer to answer")
    check(served_by(world.ask("GET", PODS)), "by a peer")
    start(peers=[])
    answer = world.ask("GET", PODS)
    equal((answer.status, "has not yet loaded" in answer.json()["message"]), (503, True), answer)
    start(peers=peers)
    back(world)
    proxy.await_ready()


def test_reload(world):
    """local-failover can be switched off and on again"""
    proxy = world.proxies["a"]
    proxy.await_log("Reloaded", proxy.reload({"local-failover": False}))
    world.sim.kill_server("a")
    until(lambda: world.ask("GET", MAPS).status == 503, "nobody to step in")
    equal(world.ask("GET", MAPS).status, 503, "still")
    proxy.await_log("Reloaded", proxy.reload({"local-failover": True}))
    equal(world.ask("GET", MAPS).status, 200, "switched on")
    back(world)


DENIALS = (dict(status=429, body="The apiserver is shutting down, please try again later.\n", contentType="text/plain"),
           dict(status=503, body=json.dumps({"kind": "Status", "message": "apiserver is shutting down"}), contentType="application/json"))
BUSY = dict(status=429, body="Too many requests, please try again later.\n", contentType="text/plain")


def test_stops(world):
    """discovery and schemas, asked of a server that stops and says so: a peer is asked; one that has too much to do is not left"""
    marked = {"Origin": "https://story"}  # not of mvproxy's own questions; and who may read is asked each time
    questions = [(path, dict(marked, Accept=accept)) for path, accept in (
        ("/apis", V2), ("/api", V2), ("/apis", "application/json"), ("/apis/resource.k8s.io", "application/json"),
        ("/apis/resource.k8s.io/v1", "application/json"), ("/api/v1", "application/json"), ("/openapi/v3", "*/*"))]

    def ask(path, headers, fault):
        world.sim.fault("status", "a", "GET", path, exact=True, header="Origin: https://story", retryAfter=5, **fault)
        answer = world.ask("GET", path, headers=headers)
        world.sim.heal()
        return answer

    for path, headers in questions:
        usual = world.ask("GET", path, headers=headers)
        equal(usual.status, 200, path)
        for denial in DENIALS:
            mark = world.sim.mark()
            answer = ask(path, headers, denial)
            equal((answer.status, len(answer.body)), (200, len(usual.body)), "%s %r" % (path, answer))
            asked = [r["server"] for r in world.sim.requests(path=path, since=mark) if r["path"] == path]
            check("a" in asked and len(set(asked)) > 1, "a server that stops, then another", asked)
        answer = ask(path, headers, BUSY)
        equal((answer.status, answer.body, answer.all("Retry-After")), (429, BUSY["body"].encode(), ["5"]), path)


class Client(threading.Thread):
    """Asks without a pause on one connection as long as it lasts; what it was told, and where it was left in doubt."""

    def __init__(self, world, number):
        super().__init__(daemon=True)
        self._world, self._number = world, number
        self._h2 = number % 2 == 1
        self._over = threading.Event()
        self.good, self.bad, self.doubt = 0, [], []

    def _one(self, client, h2, count):
        write = count % 3 == 0
        name = "busy-%d-%d" % (self._number, count)
        body = {"metadata": {"name": name}}
        if h2:  # with a length, as Go's clients send it: else it goes to the server over HTTP/1.1, which leaves writes in doubt
            data = json.dumps(body).encode() if write else None
            stream = h2.request("POST" if write else "GET", MAPS if write else PODS, data,
                                fields={"content-length": str(len(data))} if write else None)
            told = json.loads(h2.whole(stream))  # the fields are compressed
            return (told["code"], told, told.get("details", {}).get("retryAfterSeconds")) if told["kind"] == "Status" else 200
        client.request("POST" if write else "GET", MAPS if write else PODS, {}, body if write else None)
        answer = client.answer("POST" if write else "GET")
        return answer.status if answer.status < 300 else (answer.status, answer.body, answer.all("Retry-After"))

    def run(self):
        client = h2 = None
        count = 0
        while not self._over.is_set():
            if client is None or select.select([client.sock], [], [], 0)[0] and not h2:
                client = self._world.client(alpn=("h2",) if self._h2 else ("http/1.1",))
                h2 = RawH2(client) if self._h2 else None
            count += 1
            try:
                told = self._one(client, h2, count)
            except Broken as error:  # a part of the answer was out when the server was killed
                self.doubt.append(error)
                client = None
                continue
            if told in (200, 201):
                self.good += 1
            elif count % 3 == 0 and isinstance(told, tuple) and not told[2]:
                self.doubt.append(told)
            else:
                self.bad.append(told)

    def end(self):
        self._over.set()
        self.join(fixture.PATIENCE)


def test_load(world):
    """under load, over HTTP/1.1 and HTTP/2: nobody notices graceful restarts; a kill leaves in doubt only what it had"""
    for stop, what in ((world.sim.stop_server, "stop"), (world.sim.kill_server, "kill")):
        clients = [Client(world, i + (10 if what == "kill" else 0)) for i in range(6)]
        for one in clients:
            one.start()
        for _ in range(5):
            before = [one.good for one in clients]
            until(lambda b=before: all(c.good > n + 20 for c, n in zip(clients, b)), "requests")
            stop("a")
            away(world)
            before = [one.good for one in clients]
            until(lambda b=before: all(c.good > n + 20 for c, n in zip(clients, b)), "requests while it is away")
            back(world)
        for one in clients:
            one.end()
            equal(one.bad[:3], [], "%s, told the client" % what)
            check(len(one.doubt) <= (0 if what == "stop" else 5), what, one.doubt)  # one for each kill


if __name__ == "__main__":
    fixture.main(globals())
