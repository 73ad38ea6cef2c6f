#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What mvproxy answers by itself stands in no API server's audit log: it leaves a line in its own, with the fields of an audit event."""

import json
import re

import fixture
from fixture import check, equal, until

V2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
BOB = {"Authorization": "Bearer token-bob"}
STAMP = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z"


def setup():
    world = fixture.World(options={"logging-format": "json", "discovery-authz-ttl": "1h", "trusted-proxies": ["127.0.0.9/32"]}, proxies=["a"])
    world.proxies["a"].options["peers"] = ["test-server-b=%s:%d" % world.addresses["b"]]
    world.start()
    until(lambda: b"resource.k8s.io" in ask(world, "/apis").body, "the merged document")
    return world


def ask(world, path, user="admin", method="GET", **headers):
    return world.ask(method, path, user=user, headers={**({"Accept": V2} if path.startswith("/apis?") or path == "/apis" else {}),
                                                       **{k.replace("_", "-"): v for k, v in headers.items()}})


def lines(world, message="Audit"):
    found = []
    for line in world.proxies["a"].log().splitlines():
        if line.startswith("{"):
            entry = json.loads(line)
            if entry["msg"] == message:
                found.append(entry)
    return found


def event(world, answer, *sources):
    """The one line about this answer, to a client at these addresses, the last of which is the nearest."""
    audit = answer.header("Audit-Id")
    check(audit, "no Audit-Id", answer)
    found = until(lambda: [e for e in lines(world) if e["auditID"] == audit], "a line about %s" % audit)
    equal(len(found), 1, "lines")
    for name in ("requestReceivedTimestamp", "stageTimestamp"):
        check(re.fullmatch(STAMP, found[0][name]), name, found[0])
    check(found[0]["requestReceivedTimestamp"] <= found[0]["stageTimestamp"], found[0])
    stage = "ResponseStarted" if answer.status == 401 else "ResponseComplete"
    equal((found[0]["level"], found[0]["stage"]), ("Metadata", stage), "level and stage")
    reason = ("Failure", answer.json().get("reason")) if answer.status >= 400 else (None, None)
    equal((found[0].get("responseStatus.status"), found[0].get("responseStatus.reason")), reason, "status and reason")
    equal(found[0]["responseStatus.code"], answer.status, "status")
    equal(found[0]["sourceIPs"], list(sources) or ["127.0.0.1"], "sourceIPs")
    return found[0]


def test_unauthorized(world):
    """401: who came, from where, what for, and what is wrong with the certificate"""
    answer = ask(world, "/api/v1/namespaces/default/configmaps/x?limit=7", "foreign", User_Agent="probe/1")
    equal(answer.status, 401, "status")
    e = event(world, answer)
    equal([e.get(k) for k in ("verb", "requestURI", "userAgent", "objectRef.resource", "objectRef.namespace", "objectRef.name", "responseStatus.message")],
          ["get", "/api/v1/namespaces/default/configmaps/x?limit=7", "probe/1", "configmaps", "default", "x", "Unauthorized"], "fields")
    check("certificate" in e["why"] and "user.username" not in e, e)
    with world.client(user="foreign", source="127.0.0.9") as proxy:
        event(world, proxy.ask("GET", "/api/v1/pods", headers={"X-Forwarded-For": "10.1.1.1, 10.2.2.2"}), "10.1.1.1", "10.2.2.2", "127.0.0.9")


def test_redacted(world):
    """what some program may take for a parameter stands nowhere in the line"""
    for path in ("/api/v1/namespaces/default/pods%3Ftoken=SECRET", "/api/v1/namespaces/default/pods/x%3btoken=SECRET", "/api/v1/pods?watch=1%23SECRET"):
        e = event(world, ask(world, path, "foreign"))
        check("SECRET" not in json.dumps(e), e)


def test_many_forwarded(world):
    """a client that invents addresses, or makes the list longer than is kept: whom the proxy named is still there"""
    with world.client(user="foreign", source="127.0.0.9") as proxy:
        for forged in (["10.66.0.%d" % (i % 250) for i in range(40)], ["10.66.0.%d" % (i % 250) for i in range(900)], ["x" * 5000]):
            answer = proxy.ask("GET", "/api/v1/pods", headers={"X-Forwarded-For": ", ".join(forged + ["10.2.2.2"])})
            found = until(lambda a=answer: [e for e in lines(world) if e["auditID"] == a.header("Audit-Id")], "a line")[0]
            equal(found["sourceIPs"][-2:], ["10.2.2.2", "127.0.0.9"], "the last of %d" % len(found["sourceIPs"]))


def test_one_of_many(world):
    """one client behind a proxy that is believed does not take the lines of the others there"""
    with world.client(user="foreign", source="127.0.0.9") as proxy:
        for _ in range(80):
            equal(proxy.ask("GET", "/api/v1/pods", headers={"X-Forwarded-For": "198.51.100.66"}).status, 401, "401")
        event(world, proxy.ask("GET", "/api/v1/pods", headers={"X-Forwarded-For": "203.0.113.5"}), "203.0.113.5", "127.0.0.9")


def test_documents(world):
    """a merged document, 200 and 304: with the user of a certificate, and of a token with the ID under which the server wrote down who that is"""
    answer = ask(world, "/apis")
    e = event(world, answer)
    equal((e["verb"], e["requestURI"], e["user.username"], e["user.groups"]), ("get", "/apis", "kubernetes-admin", ["system:masters", "system:authenticated"]), "fields")
    equal(event(world, ask(world, "/apis", If_None_Match=answer.header("ETag")))["responseStatus.code"], 304, "304")
    e = event(world, ask(world, "/apis", Impersonate_User="dave"))
    equal((e["user.username"], e["impersonatedUser.username"]), ("kubernetes-admin", "dave"), "impersonation")
    first = ask(world, "/apis", None, **BOB)
    e = event(world, first)
    check("user.username" not in e and "token-bob" not in json.dumps(e), e)
    equal(e["verdictAuditID"], first.header("Audit-Id"), "the server was asked under the ID of the answer")
    asked = [r for r in world.sim.requests("a", "/apis") if r["headers"].get("Audit-Id", r["headers"].get("Audit-ID")) == [e["verdictAuditID"]]]
    check(len(asked) == 1, "asked under that ID", [r["headers"] for r in world.sim.requests("a", "/apis")][-2:])
    equal(event(world, ask(world, "/apis", None, **BOB))["verdictAuditID"], e["verdictAuditID"], "remembered: the same verdict")
    answer = ask(world, "/apis", None, Audit_ID="of-the-client", **BOB)
    equal((event(world, answer)["auditID"], answer.header("Audit-Id")), ("of-the-client", "of-the-client"), "the client's")


def test_long(world):
    """a client that makes its line as long as it can: values are cut and named, none of the others is lost"""
    quotes = '"' * 12000
    for path, user, status in (("/apis", "admin", 200), ("/api/v1/pods/" + "%22" * 10000, "foreign", 401)):
        answer = ask(world, path, user, User_Agent=quotes, Impersonate_User=quotes, Impersonate_Group="x")
        equal(answer.status, status, "status")
        e = event(world, answer)
        check({"userAgent", "impersonatedUser.username"} <= set(e["truncated"].split(",")), "named", e["truncated"])
        equal(("requestURI" in e["truncated"], "objectRef.name" in e["truncated"]), (status == 401, status == 401), "the path")
        check(e["requestURI"].startswith(path[:500]) and e["userAgent"].startswith(quotes[:500]), "its beginning", e)
        equal(max(len(json.dumps(v)) for v in e.values()) <= 4098, True, "as long as is promised")


def test_unavailable(world):
    """503 for what only a dead peer serves: a write as well, with the route"""
    world.sim.stop_server("b")
    try:
        answer = until(lambda: [a for a in [ask(world, CLASSES)] if a.status == 503], "a 503")[0]
        e = event(world, answer)
        equal((e["verb"], e["objectRef.apiGroup"], e["objectRef.resource"], e["user.username"]), ("list", "resource.k8s.io", "deviceclasses", "kubernetes-admin"), "fields")
        check(e["responseStatus.message"] == answer.json()["message"] and e["route"], e)
    finally:
        world.sim.start_server("b")


def test_served(world):
    """what a server answered is in its own audit log: no line here"""
    answer = ask(world, "/api/v1/nodes")
    equal(answer.status, 200, "status")
    event(world, ask(world, "/apis"))  # was written later
    check(not [e for e in lines(world) if e["auditID"] == answer.header("Audit-Id")], "a line about what the server answered")


def test_looks_of_peers(world):
    """what a peer's mvproxy asks for itself while the server is away leaves no line; what it sends on for a client does"""
    marks = {"x_kubernetes_peer_proxied": "true", "X_Remote_User": "eve", "Accept": V2}
    world.sim.kill_server("a")
    try:
        look = ask(world, "/api", "front-proxy-client", User_Agent="mvproxy", **marks)
        sent_on = ask(world, "/api", "front-proxy-client", User_Agent="kubectl", **marks)
        equal((look.status, sent_on.status), (503, 503), "answers")
        event(world, sent_on)  # was written later
        check(not [e for e in lines(world) if e["auditID"] == look.header("Audit-Id")], "a line about the look")
    finally:
        world.sim.start_server("a")
    until(lambda: ask(world, "/api/v1/nodes").status == 200, "the server to be back")


def test_flood(world):
    """a flood of refusals does not flood the log, and hides no line of another sort, nor of another client; what is left out is counted and said"""
    proxy, mark = world.proxies["a"], world.proxies["a"].log_mark()
    for source in ("127.0.0.1", "127.0.0.2"):
        with world.client(user="foreign", source=source) as client:
            for _ in range(125):
                equal(client.ask("GET", "/api/v1/pods").status, 401, "status")
    others = ["127.0.0.%d" % n for n in range(3, 11)]  # one or another may share the place of a flooder
    for source in others:
        with world.client(user="foreign", source=source) as client:
            equal(client.ask("GET", "/api/v1/pods").status, 401, "status")
    until(lambda: sum(any(e["sourceIPs"] == [source] for e in lines(world)) for source in others) >= 4, "lines of the others")
    event(world, ask(world, "/apis"))
    written = sum(e["responseStatus.code"] == 401 for e in lines(world))
    left_out = proxy.metric("mvproxy_audit_lines_left_out_total")
    check(left_out >= 50, "left out", left_out)
    equal(written + left_out, proxy.metric("apiserver_request_total", code="401"), "each is written or counted")

    def said():
        return sum(int(n) for n in re.findall('"Audit lines left out".*"answers":"unauthorized","count":(\\d+)', proxy.log()[mark:]))
    until(lambda: said() == left_out, "the log to say how many were left out", 60)
    mark = proxy.reload({"access-log": True})
    proxy.await_log("Reloaded", since=mark)
    event(world, ask(world, "/api/v1/pods", "foreign"))


if __name__ == "__main__":
    fixture.main(globals())
