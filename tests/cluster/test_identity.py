# SPDX-License-Identifier: Apache-2.0
"""The API server sees the same user as without mvproxy."""

import json
import os
import re
import time

from harness import waiting
from harness.api import AGGREGATED, WHOAMI, ensure, ensure_namespace, expect, grant, same, same_bytes, whoami
from harness.daemon import Daemon


def _ask(client, **headers):
    return client.request("POST", WHOAMI, whoami(), {k.replace("_", "-"): v for k, v in headers.items()} or None)


def _same_person(node, user, **headers):
    """Who the server says that the user is, asked directly and through mvproxy; the answer."""
    direct, through = _ask(node.direct(user), **headers), _ask(node.proxied(user), **headers)
    assert direct.status == through.status, (user, direct, through)
    if direct.status == 201:
        same(direct.json()["status"], through.json()["status"], "what the server sees of " + user)
    else:
        same(direct.json(), through.json(), "refusals of " + user)
    return through


def test_whoami(cluster):
    """with a certificate, a chain, a token, a wrong token, a foreign certificate, both, or nothing"""
    wanted = {"admin": "kubernetes-admin", "alice": "alice", "deep": None, "root": "root", "bob": "bob",
              "foreign-with-token": "bob", "alice-with-token": "alice", "stranger": 401, "foreign": 401, "anonymous": 403}
    for node in cluster.nodes:
        for user, who in wanted.items():
            answer = _same_person(node, user)
            if isinstance(who, int):
                expect(answer, who)
            elif who:
                assert answer.json()["status"]["userInfo"]["username"] == who, (user, answer)


def test_kubectl_whoami(cluster):
    """kubectl auth whoami says the same with and without mvproxy, in both versions"""
    for node in cluster.nodes:
        for version in {n.spec.version for n in cluster.nodes}:
            for user in ("admin", "alice", "bob"):
                direct = node.kubectl(version, user, direct=True).run("auth", "whoami")
                through = node.kubectl(version, user).run("auth", "whoami")
                assert direct.status == 0 and (direct.status, direct.out) == (through.status, through.out), (direct, through)


def _audited(cluster, answer):
    events = waiting.until(lambda: cluster.new.audit(answer.header("Audit-Id")), "the audit event at the peer")
    return events[-1]


def test_at_the_peer(cluster):
    """a peer sees the very user, groups, uid and extras that it would see directly"""
    for user in ("admin", "alice", "root", "bob", "anonymous"):
        direct = _audited(cluster, cluster.new.direct(user).get(cluster.skew.collection))
        through = _audited(cluster, cluster.old.proxied(user).get(cluster.skew.collection))
        same(direct["user"], through["user"], "the user at the peer")
        assert direct["responseStatus"]["code"] == through["responseStatus"]["code"], (direct, through)


def test_source_addresses(cluster):
    """the audit log of each server names the client first, and nothing that the client says of itself"""
    claims = {"X-Forwarded-For": "198.51.100.1", "X-Real-Ip": "198.51.100.2", "Forwarded": "for=198.51.100.3"}
    client = cluster.old.proxied("alice")
    for node, path in ((cluster.old, "/api/v1/namespaces"), (cluster.new, cluster.skew.collection)):
        seen = []
        for headers in (None, claims):
            audit_id = client.request("GET", path, None, headers).header("Audit-Id")
            seen.append(waiting.until(lambda: node.audit(audit_id), "the audit event")[-1]["sourceIPs"])
        same(seen[0], seen[1], "source addresses, with claims and without")
        assert not any(a.startswith("198.51.100.") for a in seen[1]), seen


def test_limited_user(cluster):
    """what RBAC allows and refuses is the same here, at the peer, and directly"""
    admin = cluster.new.direct()
    grant(admin, "look-at-device-classes", ["get", "list", "watch"], "deviceclasses", "resource.k8s.io", "alice")
    ensure(admin, cluster.skew.collection, cluster.skew.thing("guarded"))
    # Each server has its own copy of the rules.
    waiting.until(lambda: all(n.direct("alice").get(cluster.skew.collection).status == 200 for n in cluster.nodes if not n.lacks), "the new role to count")
    for method, path, body in (("GET", cluster.skew.collection, None), ("GET", cluster.skew.collection + "/guarded", None),
                               ("DELETE", cluster.skew.collection + "/guarded", None),
                               ("POST", cluster.skew.collection, cluster.skew.thing("more")), ("GET", "/api/v1/secrets", None)):
        for node in cluster.nodes:
            same_bytes(lambda a=(method, path, body): cluster.new.direct("alice").request(*a),
                       lambda n=node, a=(method, path, body): n.proxied("alice").request(*a), "%s %s at %s" % (method, path, node.name))
    assert cluster.old.proxied("alice").request("DELETE", cluster.skew.collection + "/guarded").status == 403
    assert cluster.old.proxied("bob").get(cluster.skew.collection).status == 403


FORGED = {"X-Remote-User": "kubernetes-admin", "X-Remote-Group": "system:masters", "X-Remote-Uid": "1",
          "X-Remote-Extra-Scopes": "everything", "x-remote-user": "kubernetes-admin", "X_Remote_User": "kubernetes-admin",
          "X_Remote_Group": "system:masters", "X-Kubernetes-Apiserver-Rerouted": "true", "X-Forwarded-For": "192.0.2.99"}


def test_forged(cluster):
    """identity headers that a client sends by itself make it nobody else, here or at the peer"""
    for node in cluster.nodes:
        for user in ("alice", "bob", "anonymous", "foreign", "stranger", "foreign-with-token"):
            honest = _ask(node.direct(user))
            forged = node.proxied(user).request("POST", WHOAMI, whoami(), FORGED)
            assert honest.status == forged.status, (user, honest, forged)
            if honest.status == 201:
                same(honest.json()["status"], forged.json()["status"], "what the server sees of a forger")
    headers = {k: v for k, v in FORGED.items() if "Rerouted" not in k}
    for user in ("bob", "anonymous"):
        event = _audited(cluster, cluster.old.proxied(user).request("GET", cluster.skew.collection, headers=headers))
        assert event["user"]["username"] == {"bob": "bob", "anonymous": "system:anonymous"}[user], event


def test_front_proxy_name(cluster):
    """a certificate of the front-proxy CA whose name is not allowed gives no right to speak for others"""
    for node in cluster.nodes:
        headers = {"X-Remote-User": "kubernetes-admin", "X-Remote-Group": "system:masters"}
        direct = node.direct("front-proxy-other").request("POST", WHOAMI, whoami(), headers)
        through = node.proxied("front-proxy-other").request("POST", WHOAMI, whoami(), headers)
        assert direct.status == through.status != 201, (direct, through)


def test_front_proxy(cluster):
    """another front proxy, with a certificate that is allowed, speaks for its users through mvproxy too"""
    headers = {"X-Remote-User": "carol", "X-Remote-Group": "dev", "X-Remote-Extra-Scopes": "some"}
    for node in cluster.nodes:
        direct = node.direct("front-proxy").request("POST", WHOAMI, whoami(), headers)
        through = expect(node.proxied("front-proxy").request("POST", WHOAMI, whoami(), headers), 201)
        same(direct.json()["status"], through.json()["status"], "whom the front proxy speaks for")
        assert through.json()["status"]["userInfo"]["username"] == "carol", through


def test_impersonation(cluster):
    """impersonation by who may, and not by who may not, here and at the peer"""
    as_carol = {"Impersonate_User": "carol", "Impersonate_Group": "dev", "Impersonate_Uid": "7", "Impersonate_Extra_Scopes": "x"}
    for node in cluster.nodes:
        answer = expect(_same_person(node, "admin", **as_carol), 201)
        assert answer.json()["status"]["userInfo"]["username"] == "carol", answer
        expect(_same_person(node, "root", **as_carol), 201)
        expect(_same_person(node, "alice", **as_carol), 403)
        expect(_same_person(node, "bob", **as_carol), 403)
    headers = {k.replace("_", "-"): v for k, v in as_carol.items()}
    event = _audited(cluster, cluster.old.proxied().request("GET", cluster.skew.collection, headers=headers))
    assert event["user"]["username"] == "kubernetes-admin" and event["impersonatedUser"]["username"] == "carol", event
    result = cluster.old.kubectl().run("auth", "whoami", "--as=carol", "--as-group=dev", "-o", "jsonpath={.status.userInfo.username}")
    assert result.out == "carol", result


def test_service_account(cluster):
    """a service account's token, made by one server, is good at both"""
    admin = cluster.old.proxied()
    ensure_namespace(admin, "identity")
    accounts = "/api/v1/namespaces/identity/serviceaccounts"
    ensure(admin, accounts, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}})
    made = expect(admin.request("POST", accounts + "/robot/token", {
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 600}}), 201)
    bearer = {"Authorization": "Bearer " + made.json()["status"]["token"]}
    for node in cluster.nodes:
        direct = expect(node.direct("anonymous").request("POST", WHOAMI, whoami(), bearer), 201)
        through = expect(node.proxied("anonymous").request("POST", WHOAMI, whoami(), bearer), 201)
        same(direct.json()["status"], through.json()["status"], "the service account")
        assert through.json()["status"]["userInfo"]["username"] == "system:serviceaccount:identity:robot", through


def test_connections_of_others(cluster):
    """many users in turn on many connections: everybody is always themselves"""
    clients = {user: [(node, node.proxied(user)) for node in cluster.nodes] for user in ("admin", "alice", "bob", "root")}
    names = {"admin": "kubernetes-admin"}
    open_connections = {}
    try:
        for turn in range(40):
            for user, places in clients.items():
                node, client = places[turn % len(places)]
                key = (user, node.name)
                if key not in open_connections:
                    open_connections[key] = client.connect()
                answer = expect(client.request("POST", WHOAMI, whoami(), connection=open_connections[key]), 201)
                assert answer.json()["status"]["userInfo"]["username"] == names.get(user, user), (user, answer)
    finally:
        for connection in open_connections.values():
            connection.close()


def _own_line(node, audit_id):
    """What mvproxy wrote of an answer of its own, as pairs."""
    for line in node.mvproxy.log_text().splitlines():
        if '"Audit" ' in line and 'auditID="%s"' % audit_id in line:
            return dict(re.findall(r'([\w.]+)="?([^" ]*)', line.partition('"Audit" ')[2]))
    return None


def test_own_answers(cluster):
    """a merged document leaves an audit line of mvproxy's, and by it the API server's own log says who a token was; a 401 does as well"""
    for node in cluster.nodes:
        answer = expect(node.proxied("bob").request("GET", "/apis", headers={"Accept": AGGREGATED}), 200)
        line = waiting.until(lambda n=node, a=answer: _own_line(n, a.header("Audit-Id")), "an audit line")
        assert (line["verb"], line["requestURI"], line["responseStatus.code"], line["stage"]) == ("get", "/apis", "200", "ResponseComplete"), line
        [(asked, event)] = waiting.until(lambda i=line["verdictAuditID"]: cluster.audit(i), "the verdict in the API server's audit log")
        assert asked is node and event["user"]["username"] == "bob" and event["requestURI"] == "/apis", event
        answer = expect(node.proxied("foreign").get("/api/v1/nodes"), 401)
        line = waiting.until(lambda n=node, a=answer: _own_line(n, a.header("Audit-Id")), "an audit line")
        assert line["responseStatus.code"] == "401" and line["objectRef.resource"] == "nodes" and not cluster.audit(answer.header("Audit-Id")), line


def _bare_server(cluster, node):
    """A kube-apiserver where the node's mvproxy was, which takes the front proxy's certificate for a user's, too; with its audit log."""
    pki = cluster.pki
    bundle, log = (os.path.join(cluster.dir, name) for name in ("clients-and-front-proxies.crt", "audit-bare.log"))
    with open(bundle, "w", encoding="ascii") as out:
        for name in ("ca", "front-proxy-ca"):
            with open(pki.crt(name), encoding="ascii") as text:
                out.write(text.read())
    own = {"--bind-address": node.address, "--client-ca-file": bundle, "--audit-log-path": log}
    argv = [flag if flag.partition("=")[0] not in own else "%s=%s" % (flag.partition("=")[0], own[flag.partition("=")[0]])
            for flag in node.apiserver.argv]
    return Daemon("kube-apiserver-bare", argv, cluster.logs, hostname=node.name), log


def test_bare_server_takes_over(cluster):
    """a peer's mvproxy is replaced by its bare kube-apiserver at the same address: nobody becomes the front proxy's certificate's user"""
    node, path = cluster.new, cluster.skew.collection
    users = {"bob": "bob", "anonymous": "system:anonymous"}
    for user in users:
        assert cluster.old.proxied(user).get(path).status in (200, 403), user
    bare, log = _bare_server(cluster, node)
    node.mvproxy.stop()
    node.apiserver.stop(timeout=5)
    bare.start()
    try:
        waiting.until(lambda: node.proxied().get("/readyz").status == 200, "the bare server", 120, pause=0.2)
        reached, end = set(), time.monotonic() + 60
        while len(reached) < 2 * len(users) and time.monotonic() < end:
            for user, name in users.items():
                for method, body in (("GET", None), ("POST", cluster.skew.thing("of-" + user))):
                    answer = cluster.old.proxied(user).request(method, path, body)
                    assert answer.status in (403, 503) or (user, method, answer.status) == ("bob", "GET", 200), (user, method, answer)
                    if answer.status != 503:
                        reached.add((method, name))
            time.sleep(0.2)
        assert len(reached) == 2 * len(users), reached
        with open(log, encoding="utf-8") as lines:
            events = [json.loads(line) for line in lines]
        seen = {e["user"]["username"] for e in events if e["requestURI"].startswith(path) and e["verb"] in ("list", "create")}
        assert seen & set(users.values()) == set(users.values()), seen
        assert not any(e["user"]["username"] == "front-proxy-client" for e in events), [e for e in events if e["user"]["username"] == "front-proxy-client"][:3]
    finally:
        bare.stop(timeout=5)
        node.start_apiserver()
        node.await_apiserver()
        node.start_mvproxy()
        node.await_mvproxy()
        cluster.await_settled()
