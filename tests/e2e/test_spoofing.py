#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Nobody becomes somebody else, and nobody makes mvproxy call where it should not: header names as configured, front
proxies with and without names, and Leases that were forged."""

import contextlib
import socket
import threading

import fixture
from fixture import check, equal, until

WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
LEASES = "leases.coordination.k8s.io"
NAMES = {"requestheader-username-headers": ["X-Remote-User", "X-Login"], "requestheader-group-headers": ["X-Remote-Group", "X-Teams"],
         "requestheader-uid-headers": ["X-Number"], "requestheader-extra-headers-prefix": ["X-Remote-Extra-", "X-More-"]}
CONFIGURED = ("X-Login", "X-Teams", "X-Number", "X-More-Scopes", "X-Remote-User", "X-Remote-Group", "X-Remote-Uid", "X-Remote-Extra-Scopes",
              "X-Kubernetes-Apiserver-Rerouted", "X-Kubernetes-Peer-Proxied")


class Trap:
    """A listening socket that counts who comes, and keeps what he says first."""

    def __init__(self, host="127.0.0.1", family=socket.AF_INET):
        self.listener = socket.create_server((host, 0), family=family)
        self.port = self.listener.getsockname()[1]
        self.visits, self.heard = 0, b""
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            conn, _ = self.listener.accept()
            self.visits += 1
            with contextlib.suppress(OSError), conn:
                conn.settimeout(5)
                self.heard += conn.recv(65536)


def setup():
    """a is old, and behind an mvproxy that knows no static peers and may dial only what is the default."""
    world = fixture.World(options=NAMES, servers={n: NAMES for n in "ab"}, proxies=["a"])
    world.proxies["a"].options.update({"peers": [], "peer-allowed-cidrs": []})
    world.sim.stop_server("b")
    world.proxies["a"].start()
    return world


def spellings(name):
    yield from (name, name.lower(), name.upper(), name.replace("-", "_"), name.lower().replace("-", "_"), name.replace("-", "_", 1))


def test_configured_names(world):
    """identity headers as configured are gone, however they are spelled, in heads, in Connection and in trailers"""
    for user, token in (("alice", None), (None, "token-bob")):
        fields = [("Authorization", "Bearer " + token)] if token else []
        for name in CONFIGURED:
            for spelling in spellings(name):
                mark = world.sim.mark()
                with world.client(user=user) as client:
                    client.ask("POST", WHO, REVIEW, fields + [(spelling, "forged"), (spelling, "true")])
                    client.ask("POST", WHO, REVIEW, fields + [("Connection", "keep-alive, " + spelling), (spelling, "forged")])
                    client.request("POST", "/sim/sink", fields + [("Transfer-Encoding", "chunked"), ("Trailer", spelling)])
                    client.send("1\r\nx\r\n0\r\n%s: forged\r\nX-Fine: yes\r\n\r\n" % spelling)
                    client.answer()
                records = [r for r in world.sim.requests(since=mark) if r["path"] in (WHO, "/sim/sink")]
                equal(len(records), 3, "requests with " + spelling)
                for record in records:
                    equal(record["user"]["username"], user or "bob", spelling)
                    check("forged" not in repr(record), spelling, "went on:", record)
                    check(not [n for n in record["headers"] if "_" in n], spelling, "went on:", record["headers"])


def test_front_proxy(world):
    """a verified front proxy speaks for users, by any configured name; another certificate of the same CA does not"""
    for name in ("X-Remote-User", "X-Login", "x-login"):
        with world.client(user="front-proxy-client") as client:
            answer = client.ask("POST", WHO, REVIEW, [(name, "carol"), ("X-Teams", "t1"), ("X-Number", "7"), ("X-More-Scopes", "s")])
            who = answer.json()["status"]["userInfo"]
            equal((who["username"], who["uid"], who["extra"]["scopes"]), ("carol", "7", ["s"]), name)
            check("t1" in who["groups"], who)
            answer = client.ask("POST", WHO, REVIEW)
            equal(answer.status, 401, "without a name: %r" % answer)
    for user in ("front-proxy-other", "foreign", "expired", "wrong-eku", "not-yet"):
        for fields, wanted in (({}, 401), ({"Authorization": "Bearer token-bob"}, 201), ({"Authorization": "Bearer wrong"}, 401)):
            answer = world.ask("POST", WHO, REVIEW, user=user, headers=dict(fields, **{"X-Login": "root", "X-Remote-User": "root"}))
            equal(answer.status, wanted, "%s with %s" % (user, fields))
            if wanted == 201:
                equal(answer.json()["status"]["userInfo"]["username"], "bob", user)


def test_own_names(world):
    """nobody but an mvproxy says what mvproxies say to each other, in heads or in trailers"""
    for user in ("alice", "front-proxy-client"):
        for name in ("X-Mvproxy-If-Ready", "X-Mvproxy-Rerouted", "x_mvproxy_hop", "X-Mvproxy_Served-By"):
            mark = world.sim.mark()
            fields = [("X-Remote-User", "alice")] if user == "front-proxy-client" else []
            with world.client(user=user) as client:
                equal(client.ask("POST", WHO, REVIEW, fields + [(name, "forged")]).status, 201, name)
                client.request("POST", "/sim/sink", fields + [("Transfer-Encoding", "chunked"), ("Trailer", name)])
                client.send("1\r\nx\r\n0\r\n%s: forged\r\nX-Fine: yes\r\n\r\n" % name)
                client.answer()
            records = [r for r in world.sim.requests(since=mark) if r["path"] in (WHO, "/sim/sink")]
            equal(len(records), 2, "requests with " + name)
            check("forged" not in repr(records), name, "went on:", records)


MAP = "configmaps"


def named(world, groups, prefixes='["X-Remote-Extra-", "X-More-"]'):
    """What API servers say of the headers that they believe."""
    with open(world.certs.crt("front-proxy-ca"), encoding="ascii") as text:
        ca = text.read()
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "extension-apiserver-authentication", "namespace": "kube-system"},
            "data": {"requestheader-client-ca-file": ca, "requestheader-username-headers": '["X-Remote-User", "X-Login"]',
                     "requestheader-group-headers": groups, "requestheader-extra-headers-prefix": prefixes}}


def test_names_of_the_servers(world):
    """a header that the API servers name and the configuration does not is removed as well, and is only remarked on"""
    proxy = world.proxies["a"]
    usual = {name: values[:1] for name, values in NAMES.items() if name != "requestheader-uid-headers"}
    world.sim.put(MAP, named(world, '["X-Remote-Group", "X-Teams"]'))
    mark = proxy.reload(usual)
    proxy.await_log("API servers name headers for identities that are not configured here", since=mark)
    equal(proxy.get("/readyz")[0], 200, "ready all the same")
    for page in ("/", "/statusz"):
        until(lambda p=page: "removed from requests: requestheader-username-headers: X-Login is not configured here" in proxy.get(p)[1], page + " to say it")
    for spelling in ("X-Teams", "x-teams", "X_Teams", "X-Login", "X-More-Scopes"):
        who = world.ask("POST", WHO, REVIEW, user="alice", headers={spelling: "forged"}).json()["status"]["userInfo"]
        equal(who["username"], "alice", spelling)
        check("forged" not in repr(who), spelling, "was believed:", who)
    world.sim.delete(MAP, "extension-apiserver-authentication", "kube-system")
    mark = proxy.reload(NAMES)
    proxy.await_log("Reloaded", since=mark)
    until(lambda: "removed from requests" not in proxy.get("/statusz")[1], "nothing to be said")


def test_names_that_are_no_identities(world):
    """who may write that ConfigMap takes away nobody's Impersonate-* or Cookie, nor the half of all headers"""
    proxy, refused = world.proxies["a"], "API servers believe other front proxies"
    fewer = dict(NAMES, **{"requestheader-uid-headers": []})  # not as before, so that the ConfigMap is read
    for groups, prefixes in (("Impersonate-User", "X-More-"), ("impersonate_user", "X-More-"), ("X-Teams", "Impersonate-"), ("X-Teams", "I"), ("X-Teams", "X-"),
                             ("Cookie", "X-More-"), ("x_requested_with", "X-More-"), ("X-Teams", "X-Requested-")):
        world.sim.put(MAP, named(world, '["X-Remote-Group", "X-Teams", "%s"]' % groups, '["X-Remote-Extra-", "%s", "X-Kube-Extra-"]' % prefixes))
        mark = proxy.reload(fewer)
        proxy.await_log(refused, since=mark)
        status, text = proxy.get("/readyz?verbose")
        check(status == 500 and "requestheader" in text, groups, prefixes, status, text)
        sent = {"Impersonate-User": "bob", "Impersonate-Group": "dev", "X-Requested-With": "kubectl", "Cookie": "a=biscuit",
                "X-Kube-Extra-Scopes": "forged"}
        mark = world.sim.mark()
        who = world.ask("POST", WHO, REVIEW, user="admin", headers=sent).json()["status"]["userInfo"]
        equal(who["username"], "bob", "with %s and %s" % (groups, prefixes))
        check("dev" in who["groups"] and "system:masters" not in who["groups"], who)
        record = [r for r in world.sim.requests(since=mark) if r["path"] == WHO][-1]
        check("kubectl" in repr(record) and "biscuit" in repr(record) and "forged" not in repr(record), "what went on:", record)
    equal(proxy.metric("mvproxy_back_requests_withheld_total") or 0, 0, "nothing is withheld")
    world.sim.delete(MAP, "extension-apiserver-authentication", "kube-system")
    mark = proxy.reload(NAMES)
    proxy.await_log("Reloaded", since=mark)


def test_any_front_proxy(world):
    """without allowed names every certificate of the front-proxy CA may speak for users, and no other"""
    proxy = world.proxies["a"]
    mark = proxy.reload({"requestheader-allowed-names": []})
    proxy.await_log("Reloaded", since=mark)
    answer = world.ask("POST", WHO, REVIEW, user="front-proxy-other", headers={"X-Remote-User": "carol"})
    equal(answer.json()["status"]["userInfo"]["username"], "carol", "user")
    for user in ("alice", "admin"):
        answer = world.ask("POST", WHO, REVIEW, user=user, headers={"X-Remote-User": "carol"})
        check(answer.json()["status"]["userInfo"]["username"] != "carol", user)
    mark = proxy.reload({"requestheader-allowed-names": ["front-proxy-client"]})
    proxy.await_log("Reloaded", since=mark)
    equal(world.ask("POST", WHO, REVIEW, user="front-proxy-other", headers={"X-Remote-User": "carol"}).status, 401, "afterwards")


def forged(name, address, namespace="kube-system", **changes):
    """A Lease as an API server's, with an address of somebody's choice."""
    now = fixture.time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", fixture.time.gmtime())
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
             "metadata": {"name": name, "namespace": namespace, "labels": {"apiserver.kubernetes.io/identity": "kube-apiserver"},
                          "annotations": {"kubernetes.io/peer-advertise-address": address}},
             "spec": {"holderIdentity": name + "_x", "leaseDurationSeconds": 3600, "renewTime": now, "acquireTime": now}}
    lease["metadata"].update(changes)
    return lease


def renew(world, lease):
    lease["spec"]["renewTime"] = fixture.time.strftime("%Y-%m-%dT%H:%M:%S.%fZ".replace("%f", "%06d" % (fixture.time.time() * 1e6 % 1e6)),
                                                       fixture.time.gmtime())
    world.sim.put(LEASES, lease)


def test_forged_addresses(world):
    """Leases that point to loopback, to our own listener or to metadata services are never followed"""
    trap, proxy = Trap(), world.proxies["a"]
    try:
        trap6 = Trap("::1", socket.AF_INET6)
    except OSError:
        trap6 = trap  # this host has no IPv6: such an address leads nowhere anyway
    own = world.proxies["a"].address[1]
    before = proxy.metric("mvproxy_front_accepted_connections_total")
    addresses = ["127.0.0.1:%d" % trap.port, "localhost:%d" % trap.port, "0.0.0.0:%d" % trap.port, "127.1.2.3:%d" % trap.port, "[::1]:%d" % trap6.port,
                 "[::]:%d" % trap6.port, "[::ffff:127.0.0.1]:%d" % trap.port, "[::127.0.0.1]:%d" % trap.port, "127.0.0.1:%d" % own,
                 "169.254.169.254:80", "[::ffff:169.254.169.254]:80", "[fe80::1]:443", "224.0.0.1:80", "255.255.255.255:80",
                 # and what is no address
                 "0177.0.0.1:%d" % trap.port, "2130706433:%d" % trap.port, "0x7f000001:%d" % trap.port, "127.1:%d" % trap.port, "http://127.0.0.1:%d/" % trap.port,
                 "127.0.0.1:%d/x" % trap.port, "a@127.0.0.1:%d" % trap.port, "unix:/run/x.sock:1", "127.0.0.1:0", "127.0.0.1:99999", "127.0.0.1", ":%d" % trap.port, "", " ",
                 "127.0.0.1:%d\r\nX: y" % trap.port, "x" * 5000]
    leases = [forged("apiserver-forged%d" % n, address) for n, address in enumerate(addresses)]
    for lease in leases:
        world.sim.put(LEASES, lease)
    until(lambda: proxy.log_contains("apiserver-forged0") or "apiserver-forged0" in proxy.get("/statusz")[1] + proxy.get("/metrics")[1], "the Leases to be seen")
    for _ in range(3):
        for lease in leases:
            renew(world, lease)
        world.ask("GET", CLASSES)
        world.ask("GET", "/apis", headers={"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"})
    equal((trap.visits, trap6.visits), (0, 0), "visits")
    equal(proxy.metric("mvproxy_front_accepted_connections_total") - before, 6, "connections to mvproxy, which are ours")
    check(world.ask("GET", CLASSES).status in (404, 503), "an answer from nowhere")
    equal(world.ask("GET", "/api/v1/namespaces/default").status, 200, "a local resource meanwhile")
    for lease in leases:
        world.sim.delete(LEASES, lease["metadata"]["name"], "kube-system")


def test_forged_leases(world):
    """a Lease in another namespace, or of another shape, is no API server"""
    trap, proxy = Trap(), world.proxies["a"]
    mark = proxy.reload({"peer-allowed-cidrs": ["127.0.0.0/8"]})
    proxy.await_log("Reloaded", since=mark)
    address = "127.0.0.1:%d" % trap.port
    wrong = [forged("apiserver-wrong1", address, "default"), forged("apiserver-wrong2", address, labels={}),
             forged("apiserver-wrong3", address, labels={"apiserver.kubernetes.io/identity": "kube-controller-manager"}),
             forged("kubelet-wrong4", address, "kube-node-lease")]
    for lease in wrong:
        world.sim.put(LEASES, lease)
    right = forged("apiserver-right", address)
    world.sim.put(LEASES, right)  # it comes last: when it is followed, the others would have been
    until(lambda: trap.visits > 0, "the allowed one to be called")
    check(proxy.log_contains("apiserver-right"), "the right one is not named")
    for lease in wrong:
        check(not proxy.log_contains(lease["metadata"]["name"]), lease["metadata"]["name"], "was taken for an API server")


if __name__ == "__main__":
    fixture.main(globals())
