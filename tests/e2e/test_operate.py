#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mvproxyctl changes how a running mvproxy works: peers are drained and used again."""

import json
import os
import re
import signal
import socket
import subprocess

import fixture
from fixture import check, ctl, equal, until
from fixture import ctl_json as ask

CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"  # only b and c have it


def setup():
    return fixture.World({"a": "v1.33", "b": "v1.34", "c": "v1.34"}, options={"access-log": "all"}).start()


def servers(world):
    return {each["hostname"]: each for each in ask(world, "status")["servers"]}


def went_to(world, requests=40):
    """Which servers answered so many requests."""
    mark = world.sim.mark()
    for number in range(requests):
        equal(world.ask("GET", CLASSES, None).status, 200, number)
    return {seen["server"] for seen in world.sim.requests(path=CLASSES, since=mark)}


def test_drain(world):
    """a drained peer gets no new requests, what is under way there goes on, and status, metric and log say so"""
    a = world.proxies["a"]
    until(lambda: went_to(world) == {"b", "c"}, "both peers to be used")
    watches = [world.client("a", "admin") for _ in range(8)]
    for watch in watches:
        watch.send("GET %s?watch=1 HTTP/1.1\r\nHost: x\r\n\r\n" % CLASSES)
        equal(watch.head().status, 200, "a watch")
    mark = a.log_mark()
    under_way = servers(world)["test-server-b"]["requestsInFlight"]
    check(under_way > 0, "no watch is at b")
    status, out, _ = ctl(world, "drain", "test-server-b")
    check(status == 0 and "%d are under way" % under_way in out, out)
    until(lambda: went_to(world) == {"c"}, "b to get nothing")
    until(lambda: servers(world)["test-server-b"]["state"] == "live, drained", "b's state")
    told = servers(world)
    equal((told["test-server-b"]["drained"], told["test-server-b"]["requestsInFlight"]), (True, under_way), "b")
    equal(told["test-server-c"]["drained"], False, "c")
    equal(a.metric("mvproxy_peers_drained"), 1, "the metric")
    check(a.log_contains('"Peer drained"', mark), "the log")
    check(ask(world, "explain", "GET", CLASSES)["candidates"][-1]["drained"], "explain")
    for watch in watches:
        watch.close()


def test_last_one(world):
    """where only a drained peer is left it is used rather than nobody, also when both are drained; a reload changes nothing"""
    a = world.proxies["a"]
    a.await_log('"Reloaded"', since=a.reload())
    equal(ctl(world, "drain", "test-server-c")[0], 0, "drain c")
    until(lambda: a.metric("mvproxy_peers_drained") == 2, "both to be drained")
    equal(went_to(world), {"b", "c"}, "who is used when both are drained")
    equal(ctl(world, "undrain", "test-server-c")[0], 0, "undrain c")
    until(lambda: went_to(world) == {"c"}, "c alone to be used")
    world.proxies["c"].stop()
    equal(went_to(world, 10), {"b"}, "who is used when c is gone")
    world.proxies["c"].start()


def test_undrain(world):
    """undrained, it gets requests again; an unknown peer is one clear line"""
    a = world.proxies["a"]
    told = "Not drained: test-server-b (%s) gets requests again.\n" % world.sim.server("b")["id"]
    equal(ctl(world, "undrain", "test-server-b"), (0, told, ""), "undrain")
    until(lambda: went_to(world) == {"b", "c"}, "both to be used")
    equal(ctl(world, "drain", "nobody"), (1, "", 'mvproxyctl: no peer "nobody": it is not the host name or server ID of one\n'), "an unknown peer")
    equal(ctl(world, "drain")[0], 3, "without a peer")


def test_same_name(world):
    """of several Leases of one host name the server that is used is drained, and read again"""
    lease = next(one for one in world.sim.stored("leases.coordination.k8s.io") if one["metadata"]["name"] == world.sim.server("b")["id"])
    names = ["apiserver-" + letter * 26 for letter in "abz"]
    for name in names:
        world.sim.put("leases.coordination.k8s.io", {"metadata": {"name": name, "namespace": "kube-system", "labels": lease["metadata"]["labels"]},
                                                     "spec": dict(lease["spec"], holderIdentity=name + "_1")})
    until(lambda: sum(one["hostname"] == "test-server-b" for one in ask(world, "status")["servers"]) == 4, "the others of that name")
    told = ask(world, "drain", "test-server-b")
    equal((told["peer"], told["id"]), ("test-server-b", world.sim.server("b")["id"]), "who is drained")
    until(lambda: went_to(world) == {"c"}, "c alone to be used")
    equal(ctl(world, "undrain", "test-server-b")[0], 0, "undrain")
    until(lambda: went_to(world) == {"b", "c"}, "both to be used")
    status, out, _ = ctl(world, "refresh", "test-server-b")
    check(status == 0 and len(re.findall("^test-server-", out, re.M)) == 1, "refresh of that one alone:", status, out)
    for name in names:
        world.sim.delete("leases.coordination.k8s.io", name, "kube-system")


def test_restarted(world):
    """after a restart nothing is drained"""
    a = world.proxies["a"]
    ctl(world, "drain", "test-server-b")
    a.stop()
    a.start()
    equal(a.metric("mvproxy_peers_drained"), 0, "after a restart")


def test_upgrade(world):
    """what only old servers serve is told with who asked for it; what only new ones serve, too; who is refused is not counted"""
    def askers():
        rows = {(row["group"], row["version"], row["resource"]): row for row in ask(world, "skew", "--upgrade")["resources"]}
        return rows.get(("resource.k8s.io", "v1", "deviceclasses"), {})
    until(lambda: askers().get("servedBy") == "new", "the releases to be known")
    for user, agent, times in (("admin", "old-operator/1.0 (linux)", 3), (None, "stranger/2", 2)):
        for _ in range(times):
            world.ask("GET", CLASSES, None, user=user, headers=dict({"User-Agent": agent}, **({} if user else {"Authorization": "Bearer token-bob"})))
    row = until(lambda: askers() if any(a["userAgent"] == "old-operator/1.0" and a["requests"] == 3 for a in askers().get("askers", ())) else None, "who asked")
    equal((row["servedBy"], sorted(row["servers"]), row["lackedBy"]), ("new", ["test-server-b", "test-server-c"], ["test-server-a"]), "the row")
    (asker,) = [a for a in row["askers"] if a["userAgent"] == "old-operator/1.0"]
    equal((asker["user"], asker["address"], asker["requestsLately"]), ("kubernetes-admin", "127.0.0.1", 3), "who")
    check(not any(a["userAgent"].startswith("stranger") for a in row["askers"]), "who was refused is counted")
    check(world.proxies["a"].metric("mvproxy_skewed_resource_requests_total", resource="deviceclasses", served_by="new") >= 3, "the metric")
    status, out, _ = ctl(world, "skew", "--upgrade")
    check("Served by the new servers only:" in out and re.search(r"deviceclasses +test-server-[bc],test-server-[bc] +3 +3 +old-operator/1.0 +kubernetes-admin +127.0.0.1 ", out), out)
    equal(status, 0, "nobody asked for what goes")
    for name in ("b", "c"):
        world.sim.restart_server(name, **{"runtime-config": ["batch/v1=false"]})
    until(lambda: any(row["servedBy"] == "old" for row in ask(world, "skew", "--upgrade")["resources"]), "what goes")
    until(lambda: world.ask("GET", "/apis/batch/v1/jobs", None, headers={"User-Agent": "old/1"}).status == 200 and
          ctl(world, "skew", "--upgrade")[0] == 1, "exit status 1 when somebody asks for what goes")
    check("Gone when the last old server is upgraded:" in ctl(world, "skew", "--upgrade")[1], "the heading")


def test_watch(world):
    """skew --watch tells again and again, and ends when it is told to"""
    program = os.path.join(os.path.dirname(fixture.mvproxy_binary()), "mvproxyctl")
    with subprocess.Popen([program, "--socket", world.proxies["a"].options["control-socket"], "skew", "--watch"], stdout=subprocess.PIPE, text=True) as child:
        rounds = 0
        for line in child.stdout:
            rounds += "are served by some servers only" in line
            if rounds == 2:
                break
        child.terminate()
    equal(rounds, 2, "rounds")


def test_watch_json(world):
    """skew --watch -o json: one whole answer after the other and nothing else; what changes is in one that follows"""
    program = os.path.join(os.path.dirname(fixture.mvproxy_binary()), "mvproxyctl")
    command = [program, "--socket", world.proxies["a"].options["control-socket"], "skew", "--watch", "-o", "json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as child:
        told, text = [], ""

        def tells(served_by):
            """Reads on until an answer has that of the resource that c has and has not."""
            nonlocal text
            for line in child.stdout:
                text += line
                if line == "}\n":
                    told.append(json.loads(text))
                    text = ""
                    rows = [r["servedBy"] for r in told[-1]["resources"] if (r["group"], r["version"]) == ("autoscaling", "v2")]
                    if rows == served_by:
                        return
            check(False, "it ended:", text)
        try:
            tells([])
            world.sim.restart_server("c", **{"runtime-config": ["autoscaling/v2=false"]})
            tells([["yes", "yes", "no"]])
            world.sim.restart_server("c", **{"runtime-config": []})
            tells([])
        finally:
            child.terminate()
    check(all(answer["servers"] == told[0]["servers"] for answer in told), "each is a whole answer", told)


def test_explain_failover(world):
    """while the local server is away explain says that a peer serves its resources, as the access log does"""
    a = world.proxies["a"]
    world.sim.stop_server("a")
    until(lambda: ask(world, "explain", "GET", "/api/v1/nodes")["row"] == "local-failover", "explain")
    mark = a.log_mark()
    equal(world.ask("GET", "/api/v1/nodes", None).status, 200, "served by a peer")
    until(lambda: re.search(r'uri="/api/v1/nodes".* route="local-failover"', a.log()[mark:]), "the access log")
    world.sim.start_server("a")
    until(lambda: ask(world, "explain", "GET", "/api/v1/nodes")["row"] == "served-locally", "explain afterwards")
    until(a.ready, "ready again")


def test_explain_dead_peers(world):
    """what only dead peers serve: explain says that nobody answers, for how long and why, and the 503 names the node"""
    for name in "bc":
        world.sim.stop_server(name)
    told = until(lambda: next((t for t in [ask(world, "explain", "GET", CLASSES)] if not t["answered"]), None), "explain")
    check("does not answer" in told["candidates"][0]["state"] and told["candidates"][0]["lastError"] and told["localServer"]["answers"], told)
    refused = world.ask("GET", CLASSES)
    check(refused.status == 503 and re.search(r"to the local apiserver of test-server-[bc]$", refused.json()["message"]), refused.body)
    status, out, _ = ctl(world, "explain", "GET", CLASSES, path=world.proxies["b"].options["control-socket"])
    check(status == 0 and "which does not answer: 503" in out or "none of them answers: 503, or none while they hang\n" in out, out)
    for name in "bc":
        world.sim.start_server(name)
    until(lambda: ask(world, "explain", "GET", CLASSES)["answered"] and world.ask("GET", CLASSES).status == 200, "them again")


def control(world):
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(fixture.PATIENCE)
    sock.connect(world.proxies["a"].options["control-socket"])
    return sock


def test_half_closed(world):
    """who has sent all of its requests and closes its side (nc -N) still gets every answer, whole"""
    with control(world) as sock:
        sock.sendall(b'{"v":1,"command":"metrics"}\n' * 20)
        sock.shutdown(socket.SHUT_WR)
        with sock.makefile("rb") as answers:
            told = [json.loads(line) for line in answers]
    equal([(answer["ok"], "mvproxy_peers" in answer["result"]) for answer in told], [(True, True)] * 20, "answers")
    with control(world) as sock:
        sock.sendall(b'{"v":1,"command":"stat')
        sock.shutdown(socket.SHUT_WR)
        with sock.makefile("rb") as answers:
            told = [json.loads(line) for line in answers]
    equal([(answer["ok"], answer["error"]) for answer in told], [(False, "the request has no end: it is one line")], "half a line")


def test_gigabyte(world):
    """who sends a line without an end is told so and closed long before it is through"""
    sent, told = 0, b""
    with control(world) as sock:
        try:
            while sent < 1 << 30:
                sent += sock.send(b"x" * 65536)
        except OSError:
            pass
        try:
            told = sock.recv(4096)
        except OSError:
            pass  # closed with what it had not read
    check(sent < 1 << 24, sent, "bytes were taken")
    check(told == b"" or b"too long" in told, told)
    told = ctl(world, "status")
    equal(told[0], 0, told)


def test_reloads(world):
    """reloads at once, by mvproxyctl and by signal, come one after the other, and each asker hears of one that began after he asked"""
    a = world.proxies["a"]
    mark = a.log_mark()
    program = os.path.join(os.path.dirname(fixture.mvproxy_binary()), "mvproxyctl")
    askers = [subprocess.Popen([program, "--socket", a.options["control-socket"], "reload"], stdout=subprocess.PIPE) for _ in range(6)]
    a.signal(signal.SIGHUP)
    equal([asker.communicate(timeout=fixture.PATIENCE)[0] for asker in askers], [b"Reloaded.\n"] * 6, "answers")
    words = re.findall(r'"(Reloading|Reloaded)"', a.log()[mark:])
    check(len(words) >= 2 and words == ["Reloading", "Reloaded"] * (len(words) // 2), words)


def test_removed_socket(world):
    """a cleaner that removes the control socket's file leaves mvproxyctl without it for a moment only"""
    a = world.proxies["a"]
    mark = a.log_mark()
    os.unlink(a.options["control-socket"])
    until(lambda: ctl(world, "status")[0] == 0, "mvproxyctl to be answered")
    check(a.log_contains("The control socket had been removed", mark), "the log")


if __name__ == "__main__":
    fixture.main(globals())
