#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who may read the merged discovery: those, and only those, whom the local server would give its own, however close
another's credential is; and whoever may no longer is refused after discovery-authz-ttl at the latest."""

import shutil

import fixture
from fixture import check, equal, until
from rawh2 import RawH2
from rawhttp import Raw

V2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
NEW = "resource.k8s.io"  # the group that only the peer has: whoever sees it has read the merged document
SHORT, LONG = "1s", "1h"
PROTOCOL = "base64url.bearer.authorization.k8s.io."
ROOT, BOB = "Bearer token-root", "Bearer token-bob"

# Credentials beside a good one, which each could be taken for it. The direct answer says whether it counts.
NEIGHBOURS = [
    {"Authorization": BOB}, {}, {"Authorization": "Bearer token-bo"}, {"Authorization": "Bearer token-bobb"},
    {"Authorization": "Bearer token-bob,token-root"}, {"Authorization": "Bearer token-bob x"}, {"Authorization": "bearer token-bob"},
    {"Authorization": "Bearer TOKEN-BOB"}, {"Authorization": "token-bob"}, {"Authorization": "Basic token-bob"}, {"Authorization": "Bearer"},
    {"Authorization": "Bearer  token-bob"}, {"Authorization": ROOT}, {"X-Authorization": BOB}, {"Sec-WebSocket-Protocol": BOB},
    {"Sec-WebSocket-Protocol": PROTOCOL + "dG9rZW4tYm9i"}, {"Authorization": PROTOCOL + "dG9rZW4tYm9i"}, {"Cookie": "Authorization=" + BOB},
    {"X-Remote-User": "bob", "X-Remote-Group": "system:masters"},
    {"Authorization": ROOT, "Impersonate-User": "bob"}, {"Authorization": ROOT, "Impersonate-User": "system:anonymous"},
    {"Authorization": ROOT, "Impersonate-User": "nobody", "Impersonate-Group": "nothing"},
    {"Authorization": ROOT, "Impersonate-User": "nobody", "Impersonate-Group": "system:authenticated"},
    {"Authorization": ROOT, "Impersonate-User": "nobody", "Connection": "keep-alive, Impersonate-User"},
    {"Authorization": BOB, "Impersonate-User": "kubernetes-admin"}, {"Impersonate-User": "kubernetes-admin"},
]


def setup():
    world = fixture.World(options={"discovery-authz-ttl": LONG}, proxies=["a"])
    world.proxies["a"].options["peers"] = ["test-server-b=%s:%d" % world.addresses["b"]]
    return world.start()


def ask(client, fields):
    return client.ask("GET", "/apis", None, dict(fields, Accept=V2))


def direct(world, fields, user=None):
    with world.client(user=user, direct=True) as client:
        return ask(client, fields)


def merged(answer):
    """True: the merged document; False: a refusal, without a word of it."""
    if answer.status == 200:
        check(NEW.encode() in answer.body, "the merged document has no", NEW, answer)
        return True
    check(NEW.encode() not in answer.body and answer.status in (401, 403), answer)
    return False


def settled(world):
    def known():
        with world.client() as client:
            return NEW.encode() in ask(client, {}).body
    until(known, "the merged document")


def test_one_connection(world):
    """many credentials in turn on one connection: each has its own answer, again and again"""
    settled(world)
    wanted = [direct(world, fields) for fields in NEIGHBOURS]
    check({a.status for a in wanted} == {200, 401, 403}, "the table has all kinds", wanted)
    with world.client(user=None) as client:
        for _ in range(2):
            for fields, told in zip(NEIGHBOURS, wanted):
                for known in (fields, {"Authorization": BOB}):  # before and behind each one that may
                    answer = ask(client, known)
                    equal(answer.status, told.status if known is fields else 200, "status for %s" % known)
                    merged(answer)
                    if answer.status != 200:
                        equal((answer.header("Content-Type"), answer.body), (told.header("Content-Type"), told.body), "refusal of %s" % known)


def test_streams(world):
    """the same on the streams of one HTTP/2 connection, all open at once"""
    settled(world)
    table = [f for f in NEIGHBOURS if "Connection" not in f and f.get("X-Remote-User") is None]
    wanted = [direct(world, fields).status for fields in table]
    with Raw(world.proxies["a"].address, world.certs.crt("ca"), None, alpn=("h2",)) as conn:
        client = RawH2(conn)
        for _ in range(2):
            streams = [client.request("GET", "/apis", fields=dict(fields, Accept=V2)) for fields in table]
            for stream, fields, status in zip(streams, table, wanted):
                body = client.whole(stream)
                equal((client.ok(stream), NEW.encode() in body), (status == 200, status == 200), "HTTP/2, %s" % fields)


def test_certificates(world):
    """a certificate's verdict is its user's: no token beside it, no other certificate, no name of a front proxy changes that"""
    settled(world)
    with world.client(user="alice") as alice:
        for fields in ({}, {"Authorization": "Bearer wrong"}, {"X-Remote-User": "nobody"}):
            check(merged(ask(alice, fields)), fields)
    for user in ("foreign", "expired", "not-yet", "wrong-eku", "front-proxy-other"):
        for fields in ({}, {"Authorization": BOB}, {"Authorization": "Bearer wrong"}, {"X-Remote-User": "alice"}):
            with world.client(user=user) as client:
                told = direct(world, fields, user)
                for _ in range(2):
                    equal(merged(ask(client, fields)), told.status == 200, "%s with %s" % (user, fields))
    with world.client(user="front-proxy-client") as proxy:
        for fields in ({"X-Remote-User": "a", "X-Remote-Group": "system:authenticated"}, {"X-Remote-User": "a"}, {"X-Remote-User": "a", "X-Remote-Group": "system:authenticate"},
                       {"X-Remote-User": "asystem:authenticated"}, {"X-Remote-User": "system:anonymous", "X-Remote-Group": "system:unauthenticated"}, {}):
            told = direct(world, fields, "front-proxy-client")
            for _ in range(2):
                equal(merged(ask(proxy, fields)), told.status == 200, "a front proxy for %s" % fields)


def allow_anonymous(world, allowed):
    world.sim.ask("rules", "PUT", [{"users": ["system:anonymous"], "verbs": ["get"], "nonResourceURLs": ["/apis"]}] if allowed else [])
    until(lambda: direct(world, {}).status == (200 if allowed else 403), "the rule to hold at the server")


def test_head(world):
    """HEAD and GET are two verbs to RBAC: neither is served from the other's verdict"""
    settled(world)
    try:
        use_ttl(world, LONG)
        world.sim.ask("rules", "PUT", [{"users": ["system:anonymous"], "verbs": ["head"], "nonResourceURLs": ["/apis"]}])
        for fields, methods, wanted in (({}, ["HEAD", "GET", "HEAD"], [200, 403, 200]), ({"Authorization": BOB}, ["GET", "HEAD", "GET"], [200, 403, 200])):
            for is_direct in (True, False):
                with world.client(user=None, direct=is_direct) as client:
                    equal([client.ask(m, "/apis", None, dict(fields, Accept=V2)).status for m in methods], wanted, "%s, direct: %s" % (fields, is_direct))
    finally:
        allow_anonymous(world, False)


SPELLINGS = ["/apis", "/%61pis", "/%61%70%69%73", "/apis?x", "/apis?timeout=32s&/apis/", "/apis?%61=%zz", "//apis", "///apis", "/apis/", "/apis//", "/apis%2f",
             "/apis%2F", "/%2fapis", "/./apis", "/apis/.", "/apis/..", "/x/../apis", "/api/../apis", "/%2e/apis", "/apis;x", "/apis%3fx", "/APIS", "/Apis",
             "/apis%20", "/%20apis", "/apis,", "/apis%00", "/apis%", "/apis%6", "/apis\\", "/apis/%2e", "/apis#x", "apis", "*", "https://kubernetes/apis"]


def test_spellings(world):
    """however /apis is spelled, who may not read it sees nothing of it, and who may has what the server takes the path for"""
    settled(world)
    for path in SPELLINGS:
        for fields in ({}, {"Authorization": BOB}, {}, {"Authorization": "Bearer wrong"}):
            with world.client(user=None, direct=True) as client:
                told = client.ask("GET", path, None, dict(fields, Accept=V2))
            with world.client(user=None) as client:
                answer = client.ask("GET", path, None, dict(fields, Accept=V2))
            check(answer.status in (told.status, 400), path, fields, told, answer)
            decoded = path.replace("%61", "a").replace("%70", "p").replace("%69", "i").replace("%73", "s").partition("?")[0]
            equal(NEW.encode() in answer.body and NEW.encode() not in told.body, fields.get("Authorization") == BOB and decoded == "/apis", "merged, %s for %s" % (path, fields))
            check(answer.status == 200 or NEW.encode() not in answer.body, path, fields, answer)


def use_ttl(world, ttl):
    proxy = world.proxies["a"]
    mark = proxy.reload({"discovery-authz-ttl": ttl})
    proxy.await_log("Reloaded", since=mark)


def refused_for_good(world, fields, status):
    """It comes to that, and once it has it stays."""
    with world.client(user=None) as client:
        until(lambda: ask(client, fields).status == status, "%d for %s" % (status, fields))
        for _ in range(5):
            answer = ask(client, fields)
            equal(answer.status, status, "once refused")
            check(not merged(answer), answer)


def test_nothing_kept(world):
    """discovery-authz-ttl: 0 asks the local server each time: a right that is taken away is gone with the very next request"""
    settled(world)
    try:
        use_ttl(world, 0)
        for _ in range(3):
            allow_anonymous(world, True)
            for _ in range(2):
                check(merged(world.ask("GET", "/apis", user=None, headers={"Accept": V2})), "anonymous, allowed")
            allow_anonymous(world, False)
            equal(world.ask("GET", "/apis", user=None, headers={"Accept": V2}).status, 403, "at once")
    finally:
        allow_anonymous(world, False)
        use_ttl(world, LONG)


def test_permission_taken(world):
    """a right that is taken away is kept for the time to live, and no longer"""
    settled(world)
    try:
        use_ttl(world, LONG)
        allow_anonymous(world, True)
        check(merged(world.ask("GET", "/apis", user=None, headers={"Accept": V2})), "anonymous, allowed")
        allow_anonymous(world, False)
        check(merged(world.ask("GET", "/apis", user=None, headers={"Accept": V2})), "the verdict is kept for its hour")
        use_ttl(world, SHORT)  # a reload asks anew
        refused_for_good(world, {}, 403)
        allow_anonymous(world, True)
        until(lambda: merged(world.ask("GET", "/apis", user=None, headers={"Accept": V2})), "anonymous, allowed once more")
        allow_anonymous(world, False)
        refused_for_good(world, {}, 403)
    finally:
        allow_anonymous(world, False)
        use_ttl(world, LONG)


def test_token_taken(world):
    """a token that is no longer one is refused after the time to live, and so is the user who is only another's beginning"""
    settled(world)
    old = world.sim.tokens
    try:
        use_ttl(world, SHORT)
        fields = {"Authorization": BOB}
        check(merged(world.ask("GET", "/apis", user=None, headers=dict(fields, Accept=V2))), "bob")
        fewer = old + ".fewer"
        shutil.copy(old, fewer)
        with open(fewer, "w", encoding="ascii") as out:
            out.write('token-bobby,bobby,uid-bobby,"dev"\n')
        world.sim.restart_server("a", **{"token-auth-file": fewer})
        until(lambda: direct(world, fields).status == 401, "the token to be none at the server")
        refused_for_good(world, fields, 401)
        until(lambda: merged(world.ask("GET", "/apis", user=None, headers={"Authorization": "Bearer token-bobby", "Accept": V2})), "the other token")
    finally:
        world.sim.restart_server("a", **{"token-auth-file": old})
        use_ttl(world, LONG)


if __name__ == "__main__":
    fixture.main(globals())
