#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A server sees the same user with mvproxy in front as without it, and nobody can pretend."""

import json
import socket

import fixture
import rawhttp
from fixture import check, equal, unversioned
from rawh2 import RawH2

WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"

# (certificate, fields): everybody who may come.
CALLERS = [
    (None, {}),
    (None, {"Authorization": "Bearer token-bob"}),
    (None, {"Authorization": "bearer token-root"}),
    (None, {"Authorization": "Bearer wrong"}),
    (None, {"Authorization": "Basic YWRtaW46YWRtaW4="}),
    (None, {"Authorization": "Bearer"}),
    (None, {"Authorization": "Bearer  token-bob"}),
    ("admin", {}),
    ("alice", {}),
    ("alice", {"Authorization": "Bearer token-root"}),
    ("alice", {"Authorization": "Bearer wrong"}),
    ("deep", {}),
    ("uid", {}),
    ("utf8", {}),
    ("no-groups", {}),
    ("expired", {}),
    ("expired", {"Authorization": "Bearer token-bob"}),
    ("not-yet", {}),
    ("not-yet", {"Authorization": "Bearer token-bob"}),
    ("wrong-eku", {}),
    ("wrong-eku", {"Authorization": "Bearer token-bob"}),
    ("foreign", {}),
    ("foreign", {"Authorization": "Bearer token-bob"}),
    ("foreign", {"Authorization": "Bearer wrong"}),
    ("foreign", {"Authorization": "Basic YWRtaW46YWRtaW4="}),
    ("foreign", {"Authorization": "Bearer "}),
    ("front-proxy-client", {}),
    ("front-proxy-client", {"Authorization": "Bearer token-bob"}),
    ("front-proxy-client", {"Authorization": "Bearer wrong"}),
    ("front-proxy-client", {"X-Remote-User": "carol"}),
    ("front-proxy-client", {"X-Remote-User": "carol", "X-Remote-Group": "a,b",
                            "X-Remote-Extra-Scopes": "x", "X-Remote-Extra-acme.com%2Fx%25y": "z"}),
    ("front-proxy-client", {"X-Remote-User": "carol", "Authorization": "Bearer token-root"}),
    ("front-proxy-client", {"X-Remote-User": "system:anonymous", "X-Remote-Group": "system:unauthenticated"}),
    ("front-proxy-client", {"X-Remote-User": ""}),
    ("front-proxy-other", {}),
    ("front-proxy-other", {"X-Remote-User": "carol"}),
    ("front-proxy-other", {"X-Remote-User": "carol", "Authorization": "Bearer token-bob"}),
    ("admin", {"Impersonate-User": "dave", "Impersonate-Group": "g"}),
    ("admin", {"Impersonate-User": "dave", "Impersonate-Extra-scopes": "x", "Impersonate-Uid": "7"}),
    ("alice", {"Impersonate-User": "dave"}),
    (None, {"Authorization": "Bearer token-root", "Impersonate-User": "system:anonymous"}),
]

# Who pretends, and with which words. None of it may have any effect.
FORGERIES = [
    {"X-Remote-User": "root"},
    {"x-remote-user": "root", "X-REMOTE-GROUP": "system:masters"},
    {"X-Remote-User": "root", "X-Remote-Group": "system:masters", "X-Remote-Uid": "0",
     "X-Remote-Extra-Scopes": "all", "x-remote-extra-authentication.kubernetes.io%2fcredential-id": "X509SHA256=00"},
    {"X_Remote_User": "root", "X_Remote_Group": "system:masters"},
    {"X-Remote-User": "root", "Connection": "keep-alive, X-Remote-User"},
    {"X-Kubernetes-Apiserver-Rerouted": "true", "x-kubernetes-peer-proxied": "true"},
]


def setup():
    # kubeadm sets no UID header, and then a server ignores X-Remote-Uid; here it is set.
    uid = {"requestheader-uid-headers": ["X-Remote-Uid"]}
    world = fixture.World(options=uid, servers={"a": uid, "b": uid})
    certs = world.certs
    certs.extra("uid", "ursula", ("dev",), uid="uid-of-ursula")
    certs.extra("utf8", "Zoë Ünal", ("größe", "a b"))
    certs.extra("no-groups", "nobody-in-particular")
    certs.extra("crowd", "crowd", ("system:masters",) + tuple("group-%d" % i for i in range(40)))
    return world.start()


def test_the_same_user(world):
    """everybody is who he is without mvproxy: user, UID, groups, extras, and the refusals"""
    for user, fields in CALLERS:
        direct = world.ask("POST", WHO, REVIEW, "a", user, fields, direct=True)
        through = world.ask("POST", WHO, REVIEW, "a", user, fields)
        equal(through.status, direct.status, "%s %s: %r" % (user, fields, through))
        if direct.status == 201:
            equal(through.json()["status"], direct.json()["status"], "%s %s" % (user, fields))
        else:
            equal(through.json(), direct.json(), "%s %s" % (user, fields))


def test_the_same_user_at_the_peer(world):
    """and so he is at the peer"""
    for user, fields in CALLERS:
        direct = world.ask("GET", CLASSES, None, "b", user, fields, direct=True)
        mark = world.sim.mark()
        through = world.ask("GET", CLASSES, None, "a", user, fields)
        equal((through.status, unversioned(through.body)), (direct.status, unversioned(direct.body)), "%s %s" % (user, fields))
        seen = world.sim.requests("b", CLASSES, since=mark)
        if through.status == 200:
            equal(len(seen), 1, "requests at b")
            before = [r for r in world.sim.requests("b", CLASSES) if r["seq"] <= mark][-1]
            equal(seen[0]["user"], before["user"], "%s %s" % (user, fields))


def test_many_fields_at_the_peer(world):
    """as many fields as a client may send reach the peer's server with all groups of their user, over HTTP/1.1 and HTTP/2"""
    fields = {"X-Field-%d" % i: "x" for i in range(240)}
    for method, path, status in (("GET", CLASSES, 200), ("DELETE", CLASSES + "/none", 404)):
        mark = world.sim.mark()
        answer = world.ask(method, path, None, "a", "crowd", fields)
        equal(answer.status, status, "%s: %r" % (method, answer))
        record = world.sim.requests("b", path, since=mark)[-1]
        equal(len([h for h in record["headers"] if h.startswith("X-Field-")]), 240, "fields at b")
        equal(len([g for g in record["user"]["groups"] if g.startswith("group-")]), 40, "groups at b")


def test_wrong_token_at_the_peer(world):
    """a connection that carries a token carries no certificate, here and at the peer"""
    for path, server in ((WHO, "a"), (CLASSES, "b")):
        mark = world.sim.mark()
        world.ask("GET" if server == "b" else "POST", path, None if server == "b" else REVIEW, "a", None,
                  {"Authorization": "Bearer token-root"})
        record = world.sim.requests(server, path, since=mark)[-1]
        equal(record.get("certCN"), None, "certificate at " + server)
        equal(record["headers"]["Authorization"], ["Bearer token-root"], "Authorization at " + server)


def test_certificate_drops_token(world):
    """a certificate that verifies: the token goes no further"""
    mark = world.sim.mark()
    equal(world.ask("POST", WHO, REVIEW, "a", "alice", {"Authorization": "Bearer token-root"})
          .json()["status"]["userInfo"]["username"], "alice", "user")
    record = world.sim.requests("a", WHO, since=mark)[-1]
    equal(record["certCN"], "front-proxy-client", "certificate")
    check("Authorization" not in record["headers"], "the token was passed on")
    equal(record["headers"]["X-Remote-User"], ["alice"], "X-Remote-User")
    equal(sorted(record["headers"]["X-Remote-Group"]), ["dev", "testers"], "X-Remote-Group")


def test_forgeries(world):
    """identity headers of somebody who is no front proxy are gone, however they are spelled"""
    for user in (None, "alice", "foreign", "expired", "front-proxy-other"):
        for forged in FORGERIES:
            fields = dict(forged)
            if user not in (None, "alice"):
                fields["Authorization"] = "Bearer token-bob"
            plain = {k: v for k, v in fields.items() if k == "Authorization"}
            mark = world.sim.mark()
            honest = world.ask("POST", WHO, REVIEW, "a", user, plain)
            answer = world.ask("POST", WHO, REVIEW, "a", user, fields)
            equal((answer.status, answer.json().get("status")), (honest.status, honest.json().get("status")),
                  "%s with %s" % (user, forged))
            for record in world.sim.requests("a", WHO, since=mark):
                sent = record["headers"]
                for name, values in sent.items():
                    folded = name.lower().replace("_", "-")
                    if folded.startswith("x-remote-"):
                        check(record["certCN"] == "front-proxy-client" and user == "alice" and "root" not in values and
                              "system:masters" not in values and "X509SHA256=00" not in values,
                              "%s: %s of %s arrived with %s" % (user, name, forged, values))


MOST = 1024  # fields of a head, docs/limits.md


def test_many_fields(world):
    """as many fields as a client may send, and ours on top of them, over HTTP/1.1 and HTTP/2 on both sides: he is still who he is"""
    for user, token, name in (("alice", None, "alice"), ("admin", None, "kubernetes-admin"), (None, "token-bob", "bob"), ("grouped", None, "grouped")):
        own = {"Authorization": "Bearer " + token} if token else {}
        for n in (MOST - 20, MOST - 3, MOST - 1, MOST):
            many = dict(own, **{"X-Many-%d" % i: "x" for i in range(n - 3 - len(own))})  # Host, Content-Type, Content-Length
            equal(world.ask("POST", WHO, REVIEW, "a", user, many).json()["status"]["userInfo"]["username"], name, "%s, %d fields" % (name, n))
            many = dict(own, **{"X-Many-%d" % i: "x" for i in range(n - 1 - len(own))})
            for path in ("/api/v1/nodes", CLASSES):  # here and at the peer
                with world.client("a", user) as client:
                    client.request("GET", path + "?watch=true", many)
                    status, wanted = client.final_head().status, world.ask("GET", path, None, "b", user, own, direct=True).status
                    # The peer's mvproxy has the same limit, and ours come on top: refused there, and cleanly.
                    check(status == wanted or (status == 431 and path == CLASSES and n > MOST - 21), name, path, n, status, wanted)
        pair = (world.certs.crt(user), world.certs.key(user)) if user else None
        with fixture.Raw(world.proxies["a"].address, world.certs.crt("ca"), pair, alpn=("h2",)) as conn:
            client = RawH2(conn)
            many = dict(own, **{"x-many-%d" % i: "x" for i in range(MOST - 4 - 1 - len(own))})  # the pseudo-header fields, Content-Type
            body = client.whole(client.request("POST", WHO, json.dumps(REVIEW).encode(), fields=dict(many, **{"content-type": "application/json"})))
            equal(json.loads(body)["status"]["userInfo"]["username"], name, name + ", HTTP/2")
    equal(world.ask("GET", "/version", None, "a", "alice", {"X-Many-%d" % i: "x" for i in range(MOST)}).status, 431, "one more")


def test_forged_trailers(world):
    """trailers never become identity headers"""
    with world.client("a", "alice") as client:
        client.send("POST /sim/sink HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTrailer: X-Remote-User\r\n\r\n"
                    "3\r\nabc\r\n0\r\nX-Remote-User: root\r\nX-Remote-Group: system:masters\r\n\r\n")
        equal(client.answer().status, 200, "sink")
    record = world.sim.requests("a", "/sim/sink")[-1]
    equal(record["user"]["username"], "alice", "user")
    for name in record.get("trailers") or {}:
        check(not name.lower().startswith("x-remote-"), "trailer", name, "arrived")


def test_two_tokens_on_one_connection(world):
    """one client connection, several credentials: each request is its own user's"""
    with world.client("a", None) as client:
        for token, name in (("token-bob", "bob"), ("token-root", "root"), ("token-bob", "bob"), (None, "system:anonymous")) * 3:
            fields = {"Authorization": "Bearer " + token} if token else {}
            if token:
                equal(client.ask("POST", WHO, REVIEW, fields).json()["status"]["userInfo"]["username"], name, "user")
            else:
                check(name in client.ask("POST", WHO, REVIEW, fields).json()["message"], "anonymous")


def test_users_do_not_mix(world):
    """many users in turn over the same pool: nobody gets another's answer"""
    clients = [(name, world.client("a", cert), token) for name, cert, token in (
        ("kubernetes-admin", "admin", None), ("alice", "alice", None), ("bob", None, "token-bob"),
        ("deep", "deep", None), ("root", None, "token-root"), ("ursula", "uid", None))]
    for _ in range(15):
        for name, client, token in clients:
            client.request("POST", WHO, {"Authorization": "Bearer " + token} if token else {}, REVIEW)
        for name, client, token in clients:
            equal(client.answer("POST").json()["status"]["userInfo"]["username"], name, "user")
    for _, client, _ in clients:
        client.close()


def test_limited_user(world):
    """what a user may do and may not do is the same with mvproxy, here and at the peer"""
    world.sim.ask("rules", "PUT", [{"users": ["alice"], "verbs": ["get", "list"], "apiGroups": ["", "resource.k8s.io"],
                                    "resources": ["configmaps", "deviceclasses"]}])
    try:
        for method, path, status in (
                ("GET", "/api/v1/namespaces/default/configmaps", 200), ("GET", "/api/v1/namespaces/default/secrets", 403),
                ("DELETE", "/api/v1/namespaces/default/configmaps/x", 403), ("GET", CLASSES, 200),
                ("DELETE", CLASSES + "/x", 403), ("GET", "/apis/nobody.example.com/v1/things", 403), ("GET", "/metrics", 403)):
            server = "b" if path.startswith(CLASSES) else "a"
            direct = world.ask(method, path, None, server, "alice", direct=True)
            through = world.ask(method, path, None, "a", "alice")
            equal((through.status, unversioned(through.body)), (direct.status, unversioned(direct.body)), method + " " + path)
            equal(through.status, status, method + " " + path)
    finally:
        world.sim.ask("rules", "PUT", [])


def seen(world, server, path, user="alice", fields=None):
    """The X-Forwarded-For that a server got with one request through a's mvproxy, as a list of addresses."""
    mark = world.sim.mark()
    world.ask("GET", path, None, "a", user, fields)
    lines = world.sim.requests(server, path, since=mark)[-1]["headers"]["X-Forwarded-For"]
    equal(len(lines), 1, "lines")
    return lines[0].split(", ")


CLAIMS = {"X-Forwarded-For": "192.0.2.1", "X-Real-Ip": "192.0.2.2", "Forwarded": "for=192.0.2.3"}


def test_forwarded_for(world):
    """the client's address is the first that a server gets, whatever the client says of itself, here and at the peer"""
    for fields in ({}, CLAIMS):
        equal(seen(world, "a", "/api/v1/nodes", fields=fields), ["127.0.0.1"], "here")
        equal(seen(world, "b", CLASSES, fields=fields), ["127.0.0.1", "127.0.0.1"], "at the peer: the client, and who sent it on")
    mark = world.sim.mark()
    world.ask("GET", "/api/v1/nodes", None, "a", "alice", CLAIMS)
    headers = world.sim.requests("a", "/api/v1/nodes", since=mark)[-1]["headers"]
    check("X-Real-Ip" not in headers and "Forwarded" not in headers, headers)


def test_trusted_proxies(world):
    """what a front proxy or one of trusted-proxies says goes on, with its own address appended"""
    equal(seen(world, "a", "/api/v1/nodes", "front-proxy-client", dict(CLAIMS, **{"X-Remote-User": "carol"})),
          ["192.0.2.1", "127.0.0.1"], "a front proxy is believed")
    proxy = world.proxies["a"]
    try:
        for networks, wanted in ((["10.0.0.0/8", "127.0.0.0/8"], ["192.0.2.1", "127.0.0.1"]), (["127.0.0.2"], ["127.0.0.1"])):
            mark = proxy.reload({"trusted-proxies": networks})
            proxy.await_log("Reloaded", mark)
            equal(seen(world, "a", "/api/v1/nodes", fields=CLAIMS), wanted, "trusted-proxies " + str(networks))
    finally:
        proxy.await_log("Reloaded", proxy.reload({"trusted-proxies": []}))


V2 = b"\r\n\r\n\0\r\nQUIT\n"
NAMED = socket.inet_aton("198.51.100.7") + socket.inet_aton("198.51.100.8") + (5555).to_bytes(2, "big") + (6443).to_bytes(2, "big")
HEADERS = {
    b"PROXY TCP4 198.51.100.7 198.51.100.8 5555 6443\r\n": "198.51.100.7",
    b"PROXY TCP6 2001:db8::7 2001:db8::8 5555 6443\r\n": "2001:db8::7",
    b"PROXY UNKNOWN\r\n": "127.0.0.2",
    V2 + b"\x21\x11\0\x0c" + NAMED: "198.51.100.7",
    V2 + b"\x20\0\0\0": "127.0.0.2",
}


def test_proxy_protocol(world):
    """a load balancer's PROXY header says who the client is; without a good one it is refused, and so is everybody else's"""
    proxy = world.proxies["a"]
    proxy.await_log("Reloaded", proxy.reload({"proxy-protocol-from": ["127.0.0.2"]}))
    try:
        for header, wanted in HEADERS.items():
            mark = world.sim.mark()
            with world.client("a", "alice", source="127.0.0.2", preface=header) as client:
                equal(client.ask("GET", "/api/v1/nodes", None).status, 403, str(header))
            equal(world.sim.requests("a", "/api/v1/nodes", since=mark)[-1]["headers"]["X-Forwarded-For"], [wanted], str(header))
        for source, header in (("127.0.0.2", b""), ("127.0.0.2", b"PROXY TCP4 nonsense\r\n"), ("127.0.0.1", next(iter(HEADERS)))):
            try:
                with world.client("a", "alice", source=source, preface=header) as client:
                    client.ask("GET", "/api/v1/nodes", None)
            except (OSError, rawhttp.Broken):
                continue
            raise fixture.Failure("served: %s from %s" % (header, source))
        equal(seen(world, "a", "/api/v1/nodes"), ["127.0.0.1"], "others as before")
        equal(proxy.metric("mvproxy_front_closed_total", reason="proxy_header"), 2.0, "counted")
    finally:
        proxy.await_log("Reloaded", proxy.reload({"proxy-protocol-from": []}))


def test_hop_by_hop(world):
    """what is meant for one hop stays there"""
    mark = world.sim.mark()
    fields = {"Connection": "keep-alive, X-Mine", "X-Mine": "1", "Keep-Alive": "timeout=5", "Proxy-Connection": "close",
              "Proxy-Authorization": "Basic eA==", "TE": "trailers", "X-Kept": "2"}
    world.ask("POST", WHO, REVIEW, "a", "alice", fields)
    sent = world.sim.requests("a", WHO, since=mark)[-1]["headers"]
    for name in ("X-Mine", "Keep-Alive", "Proxy-Connection", "Proxy-Authorization"):
        check(name not in sent, name, "was passed on")
    equal(sent["X-Kept"], ["2"], "X-Kept")


def test_names_and_tls(world):
    """servers are called by the name that their certificates must have, with TLS 1.2 or later"""
    world.ask("GET", CLASSES)
    for record in world.sim.requests():
        if record["user"] and record["user"]["username"] == "kubernetes-admin":
            equal(record["sni"], "kubernetes.default.svc", "SNI")
            check(record["tls"] in ("1.2", "1.3"), record["tls"])


def test_nothing_secret_is_logged(world):
    """no log has a token"""
    for proxy in world.proxies.values():
        for word in ("token-bob", "token-root", "Bearer"):
            check(not proxy.log_contains(word), word, "in the log of", proxy.name)


if __name__ == "__main__":
    fixture.main(globals())
