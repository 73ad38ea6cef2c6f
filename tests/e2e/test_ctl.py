#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mvproxyctl: what operators are told is what is so, and nobody who misuses the control socket disturbs anybody."""

import contextlib
import json
import os
import random
import re
import socket
import socketserver
import subprocess
import threading
import unicodedata

import fixture
from fixture import check, ctl, equal, until
from fixture import ctl_json as ask

CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
REQUESTS = int(os.environ.get("MVPROXY_TEST_EXPLAIN", "1000"))


def setup():
    world = fixture.World({"a": "v1.33", "b": "v1.34"}, options={"access-log": True})
    return world.start()


def test_status(world):
    """ready, the servers by host name, addresses; the socket is its owner's alone"""
    status, out, errors = ctl(world, "status")
    equal((status, errors), (0, ""), "status")
    check(out.startswith("Ready\n") and "test-server-a" in out and "test-server-b" in out, out)
    check("\033" not in out, "colours only on a terminal")
    told = ask(world, "status")
    equal(told["ready"], True, "ready")
    equal(told["listeners"], ["127.0.0.1:%d" % world.ports["a"]], "listeners")
    equal(os.stat(world.proxies["a"].options["control-socket"]).st_mode & 0o777, 0o600, "mode")


def test_skew(world):
    """what only one server serves, and nothing else unless asked"""
    told = ask(world, "skew")
    names = {(r["group"], r["resource"]) for r in told["resources"]}
    check(("resource.k8s.io", "deviceclasses") in names and ("", "pods") not in names, names)
    equal(told["uneven"], len(told["resources"]), "rows")
    equal(told["servers"], ["test-server-a", "test-server-b"], "by host name")
    everything = ask(world, "skew", "--all")
    equal(everything["compared"], len(everything["resources"]), "all rows")


GROUPS = ["/api/v1", "/apis/apps/v1", "/apis/batch/v1", "/apis/resource.k8s.io/v1", "/apis/storage.k8s.io/v1",
          "/apis/nobody.example/v1", "/apis/autoscaling/v2"]
RESOURCES = ["pods", "deployments", "jobs", "resourceclaims", "nodes", "deviceclasses", "volumeattributesclasses", "nothings"]


def requests(seed):
    """Random requests, most of them about something that somebody serves."""
    rng = random.Random(seed)
    while True:
        # In a namespace or not: some are then asked for where they cannot be.
        path = rng.choice(GROUPS) + rng.choice(["", "/namespaces/default"]) + "/" + rng.choice(RESOURCES)
        path += rng.choice(["", "", "/x", "/x/status", "/x/log", "/x/nothing"])
        if rng.random() < 0.1:
            path = rng.choice(["/healthz", "/version", "/api", "/apis", "/openapi/v2", "/openapi/v3", "/openapi/v3/apis/apps/v1", "/api/v1", "/apis/apps",
                               "/apis/resource.k8s.io/v1", "/nothing"])
        if rng.random() < 0.1:
            path = CLASSES + rng.choice(["", "/x"])  # what only a peer has
        yield rng.choice(["GET", "GET", "GET", "DELETE", "HEAD"]), path


class Control:
    """The control socket itself, for many questions on one connection."""

    def __init__(self, path):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(fixture.PATIENCE)
        self.sock.connect(path)
        self.lines = self.sock.makefile("r", encoding="utf-8")

    def ask(self, command, **members):
        self.sock.sendall((json.dumps(dict(members, v=1, command=command)) + "\n").encode())
        return json.loads(self.lines.readline())


ORACLE = "oracle/1"  # how our requests are told from those of peers
# What explain takes for granted of who asks for discovery; the legacy /api is the local server's alone.
AGGREGATED = {"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}


def routes(log, since):
    return re.findall(r'"Request" .*?method="([A-Z]+)" uri="([^"]*)"[^\n]*? route="([a-z-]+)"[^\n]* userAgent="%s"' % ORACLE, log[since:])


def claim(told):
    """The row, and whether anybody answers who would be asked. What the local server answers there is 503 if it is 404."""
    return told["row"], told["answered"] and told["row"] != "discovery-forbidden"


def came(row, status):
    """The same, of what became of it."""
    return row, status < 500 and row != "discovery-forbidden"


def compared(world, seed, count, rerouted=False):
    """So many random requests: explain is asked before each, the access log afterwards. The rows that were met."""
    proxy = world.proxies["a"]
    control = Control(proxy.options["control-socket"])
    expected, mark = [], proxy.log_mark()
    user, headers = "admin", {"User-Agent": ORACLE}
    if rerouted:
        user = "front-proxy-client"
        headers.update({"X-Remote-User": "root", "X-Remote-Group": "system:masters", "X-Kubernetes-Peer-Proxied": "true"})
    client = world.client("a", user)
    for _, (method, path) in zip(range(count), requests(seed)):
        told = control.ask("explain", method=method, path=path, user="root", rerouted=rerouted)
        check(told["ok"], told)
        try:
            answer = client.ask(method, path, None, headers | (AGGREGATED if path == "/api" else {}))
            over, status = (answer.header("Connection") or "").lower() == "close", answer.status
        except (OSError, AssertionError):
            over, status = True, 503
        # What changes in the world just then may be seen by the request or not: before and after are both the truth.
        after = control.ask("explain", method=method, path=path, user="root", rerouted=rerouted)
        expected.append((method, path, status, {claim(told["result"]), claim(after["result"])}))
        if over:
            client.close()
            client = world.client("a", user)
    client.close()
    until(lambda: len(routes(proxy.log(), mark)) >= count, "the last request in the log")
    seen = routes(proxy.log(), mark)
    wrong = [(e, s) for e, s in zip(expected, seen) if e[:2] != s[:2] or came(s[2], e[2]) not in e[3]]
    check(len(seen) == len(expected) and not wrong, seed, "%d of %d differ: %s" % (len(wrong), len(expected), wrong[:3]))
    changed = sum(len(claims) > 1 for _, _, _, claims in expected)
    check(changed * 20 <= count, seed, "%d of %d changed meanwhile" % (changed, count))
    return {row for _, _, row in seen}


def row_of(world, path=CLASSES):
    return ask(world, "explain", "GET", path)["row"]


def is_answered(world, path=CLASSES):
    return ask(world, "explain", "GET", path)["answered"]


def reloaded(world, **options):
    world.proxies["a"].await_log('"Reloaded"', world.proxies["a"].reload(options))


@contextlib.contextmanager
def restarted(world, *faults):
    """a's mvproxy begins anew before servers of which one answers so."""
    a = world.proxies["a"]
    numbers = [world.sim.fault(**fault) for fault in faults]
    a.stop()
    a.start(ready=False)
    yield
    for number in numbers:
        world.sim.heal(number)
    a.stop()
    a.start()
    world.settle()


@contextlib.contextmanager
def drained(world):
    equal(ctl(world, "drain", "test-server-b")[0], 0, "drain")
    yield
    equal(ctl(world, "undrain", "test-server-b")[0], 0, "undrain")


@contextlib.contextmanager
def newest(world):
    reloaded(world, **{"skewed-resources": "newest", "legacy-discovery": "auto"})
    until(lambda: row_of(world, "/apis/apps/v1/deployments") == "newest", "the newest to be asked")
    yield
    reloaded(world, **{"skewed-resources": "local"})


@contextlib.contextmanager
def newest_dead(world):
    """The newest server would be asked, and does not answer: nothing is worse for that."""
    with newest(world), peer_dead(world):
        until(lambda: is_answered(world, "/apis/apps/v1/deployments"), "the local server to be asked")
        yield


@contextlib.contextmanager
def local_away(world):
    world.sim.stop_server("a")
    until(lambda: row_of(world, "/api/v1/nodes") == "local-failover" and not is_answered(world, "/version"), "failover")
    yield
    world.sim.start_server("a")
    until(lambda: row_of(world, "/api/v1/nodes") == "served-locally" and world.proxies["a"].ready(), "the local server")


@contextlib.contextmanager
def peer_silent(world):
    """b's kube-apiserver is dead, its mvproxy is not."""
    world.sim.kill_server("b")
    until(lambda: not is_answered(world), "b's death")
    yield
    world.sim.start_server("b")
    until(lambda: world.ask("GET", CLASSES).status == 200, "b again")


@contextlib.contextmanager
def peer_dead(world):
    """b's mvproxy is dead: nothing answers there."""
    world.proxies["b"].kill()

    def ejected():
        world.ask("GET", CLASSES)
        return not any(c["healthy"] or c["answers"] for c in ask(world, "explain", "GET", CLASSES)["candidates"])
    until(ejected, "b to be an outlier, and to be shown not to answer")
    yield
    world.proxies["b"].start()
    until(lambda: world.ask("GET", CLASSES).status == 200, "b again")


@contextlib.contextmanager
def without_address(world):
    a = world.proxies["a"]
    before = {name: a.options[name] for name in ("peers", "peer-allowed-cidrs")}
    reloaded(world, **{"peers": [], "peer-allowed-cidrs": ["10.0.0.0/8"]})
    until(lambda: row_of(world) == "no-address", "b to have no address")
    yield
    reloaded(world, **before)
    until(lambda: world.ask("GET", CLASSES).status == 200, "b again")


@contextlib.contextmanager
def aggregated(world):
    """Nobody answers for an aggregated API that the cluster has."""
    services = "/apis/apiregistration.k8s.io/v1/apiservices"
    service = {"metadata": {"name": "v1.nobody.example"}, "spec": {
        "group": "nobody.example", "version": "v1", "service": {"namespace": "default", "name": "nobody"}}}
    equal(world.ask("POST", services, service).status, 201, "an APIService")
    until(lambda: row_of(world, "/apis/nobody.example/v1/pods") == "excluded", "the APIService to be seen")
    yield
    equal(world.ask("DELETE", services + "/v1.nobody.example").status, 200, "which goes")  # and is remembered for five minutes


@contextlib.contextmanager
def gate_off(world):
    reloaded(world, **{"feature-gates": ["UnknownVersionInteroperabilityProxy=false"]})
    until(lambda: row_of(world) == "disabled", "the gate to be off")
    yield
    reloaded(world, **{"feature-gates": ["UnknownVersionInteroperabilityProxy=true"]})
    until(lambda: world.ask("GET", CLASSES).status == 200, "b again")


@contextlib.contextmanager
def unsynced(world):
    with restarted(world, {"action": "status", "server": "a", "path": "/apis/coordination.k8s.io", "status": 500}):
        until(lambda: row_of(world) == "not-synced" and row_of(world, "/api/v1/nodes") == "served-locally", "the local server alone to be known")
        yield


@contextlib.contextmanager
def forbidden(world):
    with restarted(world, *({"action": "status", "server": "a", "path": path, "exact": True, "status": 403} for path in ("/api", "/apis"))):
        until(lambda: row_of(world) == "discovery-forbidden", "discovery to be refused")
        yield


@contextlib.contextmanager
def peer_unread(world):
    with restarted(world, {"action": "hang", "server": "b", "path": "/apis", "exact": True}):
        until(lambda: row_of(world) == "unknown-peer", "b to be waited for")
        yield


@contextlib.contextmanager
def as_it_is(world):  # pylint: disable=unused-argument # as all have it
    yield


WORLDS = (as_it_is, drained, newest, local_away, peer_silent, peer_dead, newest_dead, without_address, aggregated, unsynced, forbidden, peer_unread, gate_off)


def all_rows():
    """Of the decision table, by the names that the program has for them."""
    with open(os.path.join(fixture.TREE, "src", "proxy", "route.c"), encoding="utf-8") as source:
        return set(re.findall(r'\[ROUTE_ROW_\w+\] = "([a-z-]+)"', source.read()))


def test_explain(world):
    """what explain predicts of random requests is what the access log says became of them, in each row of the decision table"""
    part, met = REQUESTS // (len(WORLDS) + 1), {}
    for each in WORLDS:
        with each(world):
            met[each.__name__] = compared(world, each.__name__, part)
    # Each that is not served here costs a look at the local server's discovery, which comes once a second.
    met["rerouted"] = compared(world, "rerouted", 8, rerouted=True)
    alone = fixture.World({"a": "v1.33"}, options={"access-log": True}).start()
    try:
        met["alone"] = compared(alone, "alone", part)
    finally:
        alone.close()
    for name, rows in met.items():
        print("# %s: %s" % (name, " ".join(sorted(rows))), flush=True)
    check(len(all_rows()) == 15, all_rows())
    equal(all_rows() - set().union(*met.values()), set(), "rows of the decision table that no request met")
    check("peer" in met["drained"], "the drained peer is better than a 503", met)


def test_explain_text(world):
    """explain says where, why and to whom, in words"""
    until(lambda: ctl(world, "explain", "GET", CLASSES)[1].startswith("Goes to a peer\n"), "b to answer")
    status, out, _ = ctl(world, "explain", "GET", CLASSES)
    check(status == 0 and re.search(r"^test-server-b +127.0.0.1:", out, re.M), out)
    status, _, errors = ctl(world, "explain", "GET", "/no path")
    check(status == 1 and "is no request" in errors, status, errors)


def test_reload(world):
    """reload waits, and says what is wrong with file, line and column; the old configuration stays"""
    proxy = world.proxies["a"]
    equal(ctl(world, "reload"), (0, "Reloaded.\n", ""), "reload")
    proxy.write_config("nonsense: 1\nv: x\n")
    status, _, errors = ctl(world, "reload")
    check(status == 1 and re.search(r"mvproxy-a.yaml:1:1: nonsense: unknown option", errors) and ":2:4: v: " in errors, status, errors)
    status, text, _ = ctl(world, "reload", "--output", "json")
    check(status == 1 and json.loads(text)["reloaded"] is False, status, text)
    check(ask(world, "status")["config"]["lastReloadRefused"], "the status says so")
    check([s["hasMvproxy"] for s in ask(world, "status")["servers"] if s["local"]] == [True], "the local server has this one")
    before = proxy.options["peer-allowed-cidrs"]
    proxy.options["peer-allowed-cidrs"] = []
    proxy.write_config()
    status, text, errors = ctl(world, "reload")
    check((status, text) == (0, "Reloaded.\n") and re.search(r"warning: .*: peers: 127\.0\.0\.1 is no address of another machine", errors), status, errors)
    until(lambda: ctl(world, "explain", "GET", CLASSES)[1].startswith("Goes to a peer\n"), "it to be dialled all the same")
    equal(world.ask("GET", CLASSES).status, 200, "by which it is answered")
    proxy.options["peer-allowed-cidrs"] = before
    proxy.write_config()
    equal(ctl(world, "reload"), (0, "Reloaded.\n", ""), "a good one again")


def test_small_commands(world):
    """requests under way, log level, configuration with origins, certificates, metrics, a bundle without secrets"""
    with world.client("a", "admin") as client:
        client.send(b"GET /api/v1/pods?watch=1 HTTP/1.1\r\nHost: kubernetes.default.svc\r\n\r\n")
        until(lambda: any(r["path"] == "/api/v1/pods" and r["longRunning"] and r["server"] == "test-server-a" for r in ask(world, "requests")["requests"]), "the watch")
    equal(ctl(world, "loglevel", "6")[1], "6\n", "set")
    equal(ctl(world, "loglevel")[1], "6\n", "shown")
    equal(ctl(world, "loglevel", "4")[0], 0, "back")
    origins = {o["name"]: o["origin"] for o in ask(world, "config")}
    check(re.search(r"mvproxy-a\.yaml:\d+$", origins["secure-port"]) and origins["peer-stale-after"] == "default", origins)
    check(any(c["option"] == "tls-cert-file" for c in ask(world, "certs")), "certificates")
    check("mvproxy_front_connections" in ctl(world, "metrics")[1], "metrics")
    path = os.path.join(world.scratch, "bundle.json")
    world.ask("GET", "/api/v1/pods?secret-in-query=canary", None, "a", None, {"Authorization": "Bearer canary-token"})
    equal(ctl(world, "support-bundle", path)[0], 0, "support-bundle")
    with open(path, encoding="utf-8") as bundle:
        text = bundle.read()
    parts = json.loads(text)
    check(set(parts) == {"status", "skew", "requests", "config", "certs", "metrics", "host", "log"}, "parts", set(parts))
    host = parts["host"]
    check(os.uname().release in host["kernel"] and host["processors"] > 0 and host["time"].startswith("20"), "the machine", host)
    check(any(line.startswith("Max open files") for line in host["processLimits"]) and any(line.startswith("VmRSS:") for line in host["processStatus"]),
          "the process", host)
    check(any(line.startswith("MemTotal:") for line in host["memory"]) and "controlGroup" in host, "memory", host)
    check("by hand" in parts["log"] or "mvproxy" in parts["log"], "the log, or why it is not there", parts["log"][:300])
    check("canary" not in text and "PRIVATE KEY" not in text, "secrets")
    equal(os.stat(path).st_mode & 0o777, 0o600, "mode of the bundle")
    done = ctl(world, "support-bundle", "-")
    check(done[0] == 0 and done[2] == "" and set(json.loads(done[1])) == set(parts), "to standard output", done[0], done[2])
    link, other = os.path.join(world.scratch, "link.json"), os.path.join(world.scratch, "other.json")
    os.symlink(other, link)
    for there in (path, link):
        status, _, errors = ctl(world, "support-bundle", there)
        check(status == 1 and errors == "mvproxyctl: %s: File exists: give another name, or remove it\n" % there, errors)
    with open(path, encoding="utf-8") as bundle:
        equal(bundle.read(), text, "a file that is there stays as it is")
    check(not os.path.exists(other), "no link is followed")


def spoil(value, words):
    """The same with something in each text that terminals obey."""
    if isinstance(value, dict):
        return {name: spoil(v, words) for name, v in value.items()}
    if isinstance(value, list):
        return [spoil(v, words) for v in value]
    return value + words if isinstance(value, str) else value


def liar(path, answers):
    """A daemon that says what `answers` has for a command, else refuses in the same kind of words."""
    class Handler(socketserver.StreamRequestHandler):
        def handle(self):
            command = json.loads(self.rfile.readline())["command"]
            told = {"v": 1, "ok": True, "result": answers[command]} if command in answers else {"v": 1, "ok": False, "error": spoil("no ", WORDS)}
            self.wfile.write((json.dumps(told) + "\n").encode())

    server = socketserver.ThreadingUnixStreamServer(path, Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


WORDS = "\u009b31m\x1b[31m\u202egnp.exe\u2066\u200b\u061c\x7f"


def test_terminal(world):
    """no text of a server or client moves the cursor, or turns the direction, of the terminal in which mvproxyctl runs"""
    commands = {name: (name,) for name in ("status", "skew", "requests", "config", "certs", "loglevel")}
    commands.update({"upgrade": ("skew", "--upgrade"), "explain": ("explain", "GET", CLASSES)})
    with world.client("a", "admin") as client:
        client.ask("GET", CLASSES)
        answers = {name: spoil(ask(world, *arguments), WORDS) for name, arguments in commands.items()}
    path = os.path.join(world.scratch, "liar.sock")
    server = liar(path, answers)
    seen = ""
    for name, arguments in commands.items():
        seen += "".join(ctl(world, *arguments, path=path)[1:])
        status, out, errors = ctl(world, "-o", "json", *arguments, path=path)
        equal((json.loads(out), errors), (answers[name], ""), "the same JSON")
        seen += out
    for arguments in (("drain", "b"), ("check",), ("check", "-o", "json"), ("peers",)):
        seen += "".join(ctl(world, *arguments, path=path)[1:])
    server.shutdown()
    server.server_close()
    bad = [c for c in seen if c != "\n" and (unicodedata.category(c) in ("Cc", "Cf") or c == "\u009b")]
    check(not bad and "gnp.exe" in seen, "written to the terminal:", sorted(set(bad)))


def test_wrong_use(world):
    """unknown commands and options suggest the nearest; without a daemon one clear line"""
    for arguments, status, text in ((["statsu"], 3, "did you mean status?"), (["--sokcet", "x", "status"], 3, "did you mean --socket?"),
                                    ([], 3, "Usage: "), (["explain", "GET"], 3, "usage: mvproxyctl explain"),
                                    (["loglevel", "high"], 3, "is not a level"), (["-o", "yaml", "status"], 3, "only json"),
                                    (["refresh", "nobody"], 1, "no server"), (["refresh", "tset-server-b"], 1, "did you mean test-server-b?"), (["drain", "test-servr-b"], 1, "did you mean test-server-b?"), (["drain", "test-server-a"], 1, "this server itself"), (["skew", "--all", "--upgrade"], 3, "two questions"), (["explain", "FOO", "/apis"], 1, "no method: mvproxy refuses it with 501"),
                                    (["explain", "get", "/apis"], 1, "did you mean GET?"), (["explain", "PSOT", "/apis"], 1, "did you mean POST?"),
                                    (["explain", "GET", "api/v1"], 1, 'must begin with "/": did you mean /api/v1?'), (["peers", "x"], 3, "usage: "),
                                    (["explain", "CONNECT", "/"], 1, "no forward proxy"), (["status", "--pre"], 3, "--pre is an option of check"),
                                    (["skew", "--watch=1"], 3, "did you mean --watch?"), (["explain", "GET", "/api", "--as"], 3, "value missing"),
                                    (["hlep"], 3, "did you mean help?"), (["help", "statsu"], 3, "did you mean status?")):
        got = ctl(world, *arguments)
        check(got[0] == status and text in got[2] and not got[1], arguments, got)
    for method, target in (("FOO", "/apis"), ("get", "/apis"), ("CONNECT", "/")):  # as it is
        got = world.ask(method, target, None, "a", "admin")
        check(got.status in (400, 501, 405), method, got)
    whole = ctl(world, "--help")
    equal(ctl(world, "help"), whole, "help")
    equal(ctl(world, "help", "help"), whole, "help help")
    check(whole[0] == 0 and "support-bundle" in whole[1], whole)
    for arguments in (["help", "skew"], ["skew", "--help"], ["skew", "-h"]):
        got = ctl(world, *arguments)
        check(got[0] == 0 and got[1].startswith("Usage: mvproxyctl") and "--upgrade" in got[1] and "drain" not in got[1], arguments, got)
    status, out, errors = ctl(world, "status", path="/nonexistent.sock")
    check((status, out) == (2, "") and len(errors.splitlines()) == 1 and "no mvproxy answers" in errors, status, out, errors)


def test_dead_server(world):
    """a server that is killed is told of within moments, with the reason, and so is its return"""
    world.sim.kill_server("a")
    until(lambda: not ask(world, "status")["ready"], "not ready")
    status, out, _ = ctl(world, "status")
    check(status == 1 and out.startswith("Not ready\n") and "local-apiserver: " in out, status, out)
    page = world.proxies["a"].get("/")[1]
    check("Not ready" in page and "does not answer" in page, "the page:", page)
    world.sim.start_server("a")
    until(lambda: ask(world, "status")["ready"], "ready again")
    world.sim.kill_server("b")
    status, out, _ = ctl(world, "refresh", "test-server-b")
    check(status == 1 and re.search("^test-server-b .*503", out, re.M) and "test-server-a" not in out, "refresh of a dead one", status, out)
    status, out, _ = ctl(world, "refresh")
    check(status == 1 and "test-server-a" in out and "test-server-b" in out, "of all", status, out)
    equal(ctl(world, "refresh", "test-server-a")[0], 0, "of the local one, by its name")
    until(lambda: any(s["failing"] for s in ask(world, "status")["servers"]), "the peer's last error")
    world.sim.start_server("b")
    until(lambda: ctl(world, "refresh", "test-server-b")[0] == 0, "refresh of one that is well again")
    until(lambda: not any(s["failing"] for s in ask(world, "status")["servers"]), "the peer is well again")


def test_full_disk(world):
    """what cannot be written is said: an empty file is not well"""
    program = os.path.join(os.path.dirname(fixture.mvproxy_binary()), "mvproxyctl")
    for command in ("status", "metrics", "config", "--help", "help", "--version"):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([program, "--socket", world.proxies["a"].options["control-socket"], command], stdout=full,
                                  stderr=subprocess.PIPE, text=True, check=False)
        equal((done.returncode, "the output cannot be written: " in done.stderr), (1, True), command + ": " + done.stderr)


def test_misuse(world):
    """garbage, half a line, a line without end, and clients that never read disturb neither requests nor other clients"""
    path = world.proxies["a"].options["control-socket"]
    rude = []
    for data in (b"\0\xff garbage\n", b"{\"v\":1,", b"x" * (1 << 20), b"{\"v\":1,\"command\":\"metrics\"}\n" * 1000):
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(path)
        sock.setblocking(False)
        try:
            sock.send(data)
        except BlockingIOError:
            pass
        rude.append(sock)
    equal(world.ask("GET", "/api/v1/nodes", None, "a", "admin").status, 200, "requests go on")
    equal(ctl(world, "status")[0], 0, "other clients are served")
    for sock in rude:
        sock.close()


def closed(world, reason):
    found = re.search(r'mvproxy_control_closed_total\{reason="%s"\} (\d+)' % reason, world.proxies["a"].get("/metrics")[1])
    return int(found.group(1))


def test_crowd(world):
    """more clients than there may be, each in the middle of a line or of an answer, one byte at a time: who comes then is served"""
    path = world.proxies["a"].options["control-socket"]
    before = closed(world, "crowded_out")
    for request in (b" ", b'{"v":1,"command":"skew","all":true}\n' * 20):
        crowd, over = [socket.socket(socket.AF_UNIX) for _ in range(150)], threading.Event()
        for sock in crowd:
            sock.connect(path)
            with contextlib.suppress(OSError):  # it had to make room already
                sock.sendall(request)

        def drip(socks=crowd, over=over, asking=request == b" "):
            while not over.wait(0.05):
                for sock in socks:
                    with contextlib.suppress(OSError):
                        if asking:
                            sock.send(b" ")
                        else:
                            sock.recv(1, socket.MSG_DONTWAIT)
        thread = threading.Thread(target=drip)
        thread.start()
        try:
            for _ in range(3):
                equal(ctl(world, "status")[0], 0, "who comes then")
        finally:
            over.set()
            thread.join()
            for sock in crowd:
                sock.close()
    check(closed(world, "crowded_out") > before, "is counted")


def test_many(world):
    """more clients at once than are served at once: each gets its answer"""
    before, answers = closed(world, "crowded_out"), []
    threads = [threading.Thread(target=lambda: answers.append(ctl(world, "status")[0])) for _ in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    equal(answers, [0] * len(threads), "status")
    equal(closed(world, "crowded_out"), before, "none had to go")


def test_bad_members(world):
    """what is of another type, or has a NUL, is refused: it is neither taken for something else nor seen in the log"""
    control, mark = Control(world.proxies["a"].options["control-socket"]), world.proxies["a"].log_mark()
    equal(ctl(world, "loglevel", "10")[0], 0, "all is logged")
    for command, members, text in (("loglevel", {"level": -5}, "between 0 and 10"), ("loglevel", {"level": 99999999999}, "between 0 and 10"),
                                   ("loglevel", {"level": 10**30}, "between 0 and 10"), ("loglevel", {"level": 4.5}, '"level" has to be a whole number'),
                                   ("loglevel", {"level": "4"}, '"level" has to be a whole number'), ("refresh", {"peer": 5}, '"peer" has to be text'),
                                   ("drain", {"peer": None}, '"peer" has to be text'), ("drain", {"peer": "test-server-b\0"}, "no NUL"),
                                   ("skew", {"all": "canary-line"}, '"all" has to be true or false'), (7, {}, '"command" has to be text'),
                                   (["status"], {}, '"command" has to be text'), ("canary-line", {"peers": "canary-line"}, "unknown command"),
                                   ("explain", {"method": "GET", "path": "/api", "user": {"canary-line": 1}}, '"user" has to be text')):
        told = control.ask(command, **members)
        check(not told["ok"] and text in told["error"], command, members, told)
    equal(control.ask("loglevel")["result"], {"level": 10}, "nothing was set")
    equal(ctl(world, "loglevel", "4")[0], 0, "back")
    check("canary-line" not in world.proxies["a"].log()[mark:], "the log")


def test_two_reloads(world):
    """reloads at once, some of whose clients leave: each of the others gets its answer, and the last file is in force"""
    path = world.proxies["a"].options["control-socket"]
    waiting = []
    for i in range(24):
        control = Control(path)
        control.sock.sendall(b'{"v":1,"command":"reload"}\n')
        if i % 2 == 0:
            control.lines.close()
            control.sock.close()
        else:
            waiting.append(control)
        if len(waiting) == 4:
            for one in waiting:
                equal(json.loads(one.lines.readline())["result"]["reloaded"], True, "reloaded")
            waiting = []
    equal(ctl(world, "reload")[0], 0, "and again")


if __name__ == "__main__":
    fixture.main(globals())
